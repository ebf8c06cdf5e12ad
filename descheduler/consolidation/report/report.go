// Package report has the decision of consolidation in the form in which the descheduler publishes it: JSON in a ConfigMap.
// The descheduler writes it; the command line and dashboards read it, and need nothing else of the descheduler.
package report

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// Name is the name of the ConfigMap with the last decision.
const Name = "supercargo-consolidation"

// key is the key in it.
const key = "decision"

// MostListed is the maximum length of a published list, since objects in etcd must be small.
const MostListed = 200

// Decision is the last decision about nodes and single pods.
type Decision struct {
	// Time is when it was made. Mode is whether it is carried out, Observe or Act, and Policy is how it was made, CostAware
	// or HTAS.
	Time   metav1.Time `json:"time"`
	Mode   string      `json:"mode"`
	Policy string      `json:"policy"`
	// Paused is why the cluster is paused, so that the mode is Observe; empty if it is not.
	Paused string `json:"paused,omitempty"`
	// DollarsPerHour is the price of all nodes that are not emptied, and ExpectedDollarsPerHour
	// that after the decision has been carried out.
	DollarsPerHour         string `json:"dollarsPerHour"`
	ExpectedDollarsPerHour string `json:"expectedDollarsPerHour"`
	// Nodes is the number of nodes. Emptying and Emptied are those that the mover has cordoned.
	Nodes    int      `json:"nodes"`
	Emptying []string `json:"emptying,omitempty"`
	Emptied  []string `json:"emptied,omitempty"`
	// Drains are the selected nodes, of the last round that selected any.
	Drains []Drain `json:"drains,omitempty"`
	// Kept are under-used nodes that stay, with the reasons.
	Kept []v1alpha1.Rejection `json:"kept,omitempty"`
	// Energy are the pods that other machines suit better, of the last decision that found any.
	Energy []Transfer `json:"energy,omitempty"`
	// Omitted is the number of nodes and pods left out of lists that were too long.
	Omitted int `json:"omitted,omitempty"`
}

// Drain is a node to empty.
type Drain struct {
	Node   string      `json:"node"`
	Time   metav1.Time `json:"time"`
	Reason string      `json:"reason"`
	// SavesDollars and CostsDollars are the expected savings and costs. UntilSeconds is the
	// expected time until the last pod has left.
	SavesDollars string `json:"savesDollars,omitempty"`
	CostsDollars string `json:"costsDollars,omitempty"`
	UntilSeconds int64  `json:"untilSeconds"`
	// Pods are the moves of its pods.
	Pods []Move `json:"pods,omitempty"`
}

// Move is how one pod leaves a node.
type Move struct {
	Pod    string `json:"pod"`
	Method string `json:"method"`
	// Target is a node with room for it; the scheduler decides.
	Target string `json:"target,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Transfer is a pod that another machine suits better.
type Transfer struct {
	Time   metav1.Time `json:"time"`
	Pod    string      `json:"pod"`
	From   string      `json:"from"`
	Target string      `json:"target"`
	// Method is Checkpoint or Restart.
	Method string `json:"method"`
	// Joules and SoonerSeconds are the expected savings of energy and time for the rest of its
	// work.
	Joules        float64 `json:"joules"`
	SoonerSeconds float64 `json:"soonerSeconds"`
	// Dollars or CO2Grams is the expected saving of cost or emissions, if there is a tariff.
	Dollars  *float64 `json:"dollars,omitempty"`
	CO2Grams *float64 `json:"co2Grams,omitempty"`
	Reason   string   `json:"reason"`
}

// Data returns the data of the ConfigMap that publishes the decision. Of each list it has the first [MostListed] entries,
// and in Omitted the number of the others. The decision itself is not changed.
func (d Decision) Data() (map[string]string, error) {
	d.Omitted = 0
	d.Emptying, d.Emptied = head(d.Emptying, &d.Omitted), head(d.Emptied, &d.Omitted)
	d.Drains, d.Kept, d.Energy = head(d.Drains, &d.Omitted), head(d.Kept, &d.Omitted), head(d.Energy, &d.Omitted)
	text, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("encode the decision: %w", err)
	}
	return map[string]string{key: string(text)}, nil
}

// head returns the first MostListed entries of a list, and adds the number of others to omitted.
func head[E any](list []E, omitted *int) []E {
	n := min(len(list), MostListed)
	*omitted += len(list) - n
	return list[:n]
}

// Read returns the decision in a ConfigMap that has one. The error names the ConfigMap and the key.
func Read(object *corev1.ConfigMap) (*Decision, error) {
	d := &Decision{}
	if err := json.Unmarshal([]byte(object.Data[key]), d); err != nil {
		return nil, fmt.Errorf("read key %s of ConfigMap %s/%s: %w", key, object.Namespace, object.Name, err)
	}
	return d, nil
}
