package conditions_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/internal/platform/conditions"
)

func is(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "said to people", LastTransitionTime: metav1.Now()}
}

func shows(t *testing.T, g *conditions.Gauge, want string) {
	t.Helper()
	if want != "" {
		want = "# HELP conditions How things are.\n# TYPE conditions gauge\n" + want
	}
	if err := testutil.CollectAndCompare(g, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

func TestEachConditionOfAnObjectIsASeriesAndReplacesTheOneBefore(t *testing.T) {
	g := conditions.New("conditions", "How things are.", "namespace", "name")
	g.Publish([]metav1.Condition{is("Ready", metav1.ConditionTrue, "Fine"), is("Limited", metav1.ConditionFalse, "WithinLimits")}, "a", "one")
	g.Publish([]metav1.Condition{is("Ready", metav1.ConditionUnknown, "New")}, "b", "one")
	g.Publish([]metav1.Condition{is("Ready", metav1.ConditionUnknown, "New")}, "b", "one") // unchanged
	shows(t, g, `conditions{name="one",namespace="a",reason="Fine",status="True",type="Ready"} 1
conditions{name="one",namespace="a",reason="WithinLimits",status="False",type="Limited"} 1
conditions{name="one",namespace="b",reason="New",status="Unknown",type="Ready"} 1
`)
	g.Publish([]metav1.Condition{is("Ready", metav1.ConditionFalse, "Failed")}, "a", "one") // a condition was removed too
	shows(t, g, `conditions{name="one",namespace="a",reason="Failed",status="False",type="Ready"} 1
conditions{name="one",namespace="b",reason="New",status="Unknown",type="Ready"} 1
`)
	g.Forget("a", "one")
	g.Forget("a", "never seen")
	shows(t, g, `conditions{name="one",namespace="b",reason="New",status="Unknown",type="Ready"} 1
`)
	g.Forget("b", "one")
	shows(t, g, "")
}
