package capacity_test

import (
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/internal/cluster/capacity"
)

func TestLabelsOfNodesSayHowMachinesAreSold(t *testing.T) {
	for _, tc := range []struct {
		label, value string
		want         capacity.Type
	}{
		{"karpenter.sh/capacity-type", "spot", capacity.Spot},
		{"karpenter.sh/capacity-type", "on-demand", capacity.OnDemand},
		{"karpenter.sh/capacity-type", "reserved", capacity.Reserved},
		{"cluster.x-k8s.io/interruptible", "", capacity.Spot},
		{"eks.amazonaws.com/capacityType", "SPOT", capacity.Spot},
		{"node.kubernetes.io/instance-type", "spot", capacity.Unstated},
	} {
		if got := capacity.Of(map[string]string{tc.label: tc.value}); got != tc.want {
			t.Errorf("%s=%s: %q, want %q", tc.label, tc.value, got, tc.want)
		}
	}
}

func TestPodsAcceptSpotMachinesUnlessTheySayOtherwise(t *testing.T) {
	for _, tc := range []struct {
		annotations     map[string]string
		owner           string
		accepts, refuse bool
	}{
		{nil, "ReplicaSet", true, false},
		{map[string]string{"supercargo.dev/interruptible": "true"}, "Job", true, false},
		{map[string]string{"supercargo.dev/interruptible": "false"}, "Job", false, false},
		{map[string]string{"supercargo.dev/interruptible": "false"}, "DaemonSet", true, false},
		{map[string]string{"supercargo.dev/interruptible": "no"}, "Job", true, true},
	} {
		yes := true
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: tc.annotations, OwnerReferences: []metav1.OwnerReference{{Kind: tc.owner, Name: "o", Controller: &yes}}}}
		if accepts, err := capacity.Accepts(p); accepts != tc.accepts || (err != nil) != tc.refuse {
			t.Errorf("%v of a %s: accepts %t, %v", tc.annotations, tc.owner, accepts, err)
		}
	}
}

// TestRepeatedWorkIsThatOfTheFormula compares the series with floating-point numbers.
func TestRepeatedWorkIsThatOfTheFormula(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Int64Range(1, capacity.Million).Draw(t, "rate")
		runtime := time.Duration(rapid.Int64Range(1, 20*3600).Draw(t, "seconds")) * time.Second
		x := float64(rate) / 1e6 * runtime.Hours()
		want := (math.Expm1(x)/x - 1) * 1e6
		got := float64(capacity.Repeated(rate, runtime))
		if want > 1e9 {
			want = 1e9
		}
		if diff := math.Abs(got - want); diff > 60+want/1e4 {
			t.Fatalf("at a rate of %d, %v of work repeat %.0f, want %.0f", rate, runtime, got, want)
		}
	})
}

func TestWasteIsBounded(t *testing.T) {
	for _, tc := range []struct {
		name      string
		got, want int64
	}{
		{"work without an end", capacity.Repeated(capacity.Million, math.MaxInt64), 1000 * capacity.Million},
		{"no interruptions", capacity.Repeated(0, time.Hour), 0},
		{"no work", capacity.Repeated(50_000, 0), 0},
		{"an hour at one in twenty hours", capacity.Repeated(50_000, time.Hour), 25_421},
		{"a pause of 90 seconds at one in twenty hours", capacity.Paused(50_000, 90*time.Second), 1_250},
		{"a pause that takes as long as can be", capacity.Paused(capacity.Million, math.MaxInt64), 1000 * capacity.Million},
		{"no pause", capacity.Paused(50_000, 0), 0},
		{"a price", capacity.WithWaste(100_000, 25_421), 102_543},
		{"a price without waste", capacity.WithWaste(100_000, 0), 100_000},
		{"a price that saturates", capacity.WithWaste(math.MaxInt64-1, capacity.Million), math.MaxInt64},
		{"a high price", capacity.WithWaste(1_000_000_000_000, 1000*capacity.Million), 1_001_000_000_000_000},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, tc.got, tc.want)
		}
	}
}

func TestNoticesAreTaintsAndConditionsOfTerminationHandlers(t *testing.T) {
	condition := func(of corev1.NodeConditionType, status corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}, {Type: of, Status: status}}}}
	}
	tainted := func(key string) *corev1.Node {
		return &corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}, {Key: key, Effect: corev1.TaintEffectNoSchedule}}}}
	}
	for _, tc := range []struct {
		node *corev1.Node
		want string
	}{
		{&corev1.Node{}, ""},
		{tainted("disk"), ""},
		{tainted("aws-node-termination-handler/spot-itn"), "taint aws-node-termination-handler/spot-itn:NoSchedule"},
		{tainted("karpenter.sh/disrupted"), "taint karpenter.sh/disrupted:NoSchedule"},
		{tainted("cloud.google.com/impending-node-termination"), "taint cloud.google.com/impending-node-termination:NoSchedule"},
		{condition("PreemptScheduled", corev1.ConditionTrue), "condition PreemptScheduled"},
		{condition("PreemptScheduled", corev1.ConditionFalse), ""},
		{condition("FreezeScheduled", corev1.ConditionTrue), ""},
	} {
		if got := capacity.Notice(tc.node); got != tc.want {
			t.Errorf("%v: %q, want %q", tc.node.Spec.Taints, got, tc.want)
		}
	}
}
