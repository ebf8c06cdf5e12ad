package agent

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/movable/capability"
	"supercargo.dev/supercargo/test/kit/testapi"
)

// TestANodeSaysWhichGovernorItHas: a value that cannot be read does not change, and the rest is
// still written.
func TestANodeSaysWhichGovernorItHas(t *testing.T) {
	for name, tc := range map[string]struct {
		governor string
		err      error
		want     string
	}{
		"one":                  {"schedutil", nil, "schedutil"},
		"CPUs that differ":     {"performance,powersave", nil, "performance,powersave"},
		"none":                 {"", nil, ""},
		"what is no name":      {"a b", nil, ""},
		"what cannot be found": {"", errors.New("no sysfs"), "before"},
	} {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{v1alpha1.AnnotationGovernor: "before"}}}
			api := fake.NewClientBuilder().WithObjects(node).Build()
			n := &nodes{agent: &Agent{api: api, Config: Config{
				Clock:      clock.RealClock{},
				Log:        logr.Discard(),
				Capability: func(context.Context, *corev1.Node) (capability.Node, error) { return capability.Node{}, nil },
				Governor:   func() (string, error) { return tc.governor, tc.err },
			}}}
			if err := n.annotate(t.Context(), node); err != nil {
				t.Fatal(err)
			}
			var got corev1.Node
			testapi.Get(t, api, client.ObjectKeyFromObject(node), &got)
			if g, there := got.Annotations[v1alpha1.AnnotationGovernor]; g != tc.want || there != (tc.want != "") || got.Annotations[v1alpha1.AnnotationCapability] == "" {
				t.Errorf("annotations %q, want governor %q", got.Annotations, tc.want)
			}
		})
	}
}

// TestWhatANodeCanDoIsNotFoundOutAtEachOfItsWrites: kubelets update their Node often, and
// checking the capability takes CPU time.
func TestWhatANodeCanDoIsNotFoundOutAtEachOfItsWrites(t *testing.T) {
	checked := 0
	var fails error
	at := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	api := fake.NewClientBuilder().WithObjects(node).Build()
	n := &nodes{agent: &Agent{api: api, Config: Config{Clock: at, Log: logr.Discard(), Capability: func(context.Context, *corev1.Node) (capability.Node, error) {
		checked++
		return capability.Node{}, fails
	}}}}
	writes := func(want int, when string) {
		t.Helper()
		for range 10 {
			if err := n.annotate(t.Context(), node.DeepCopy()); !errors.Is(err, fails) {
				t.Fatal(err)
			}
		}
		if checked != want {
			t.Errorf("%s it was looked %d times, want %d", when, checked, want)
		}
		checked = 0
	}
	fails = errors.New("the runtime is down")
	writes(10, "while that fails")
	fails = nil
	writes(1, "afterwards")
	writes(0, "right after that")
	node.Status.NodeInfo.KernelVersion = "6.18"
	writes(1, "when the kernel is another")
	at.Step(capabilityRefresh)
	writes(1, "after a while")
}
