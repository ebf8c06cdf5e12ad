package status

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// Condition is a condition of an object. OK reports whether its status is the healthy one.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	OK      bool   `json:"ok"`
}

// String returns the condition as a line of text.
func (c Condition) String() string {
	return fmt.Sprintf("%s: %s (%s) %s", c.Type, c.Status, c.Reason, c.Message)
}

// badIfTrue are the conditions that are unhealthy if true. All others are unhealthy if not true.
var badIfTrue = []string{
	v1alpha1.ConditionPaused, v1alpha1.FleetLimited, v1alpha1.FleetDegraded, v1alpha1.PolicyConflict, v1alpha1.PoolOverstated,
}

// NewCondition returns what is shown of a condition.
func NewCondition(c *metav1.Condition) Condition {
	want := metav1.ConditionTrue
	if slices.Contains(badIfTrue, c.Type) {
		want = metav1.ConditionFalse
	}
	return Condition{c.Type, string(c.Status), c.Reason, c.Message, c.Status == want}
}

// Conditions returns the conditions of an object, sorted by type.
func Conditions(all []metav1.Condition) []Condition {
	shown := make([]Condition, 0, len(all))
	for i := range all {
		shown = append(shown, NewCondition(&all[i]))
	}
	slices.SortFunc(shown, func(a, b Condition) int { return cmp.Compare(a.Type, b.Type) })
	return shown
}
