package checkpointstaging

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	clocktesting "k8s.io/utils/clock/testing"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/movable/capability"
	"supercargo.dev/supercargo/test/fixtures"
)

const gi = int64(1) << 30

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// able is a node that restores checkpoints, with the given CPU features.
func able(name string, features ...string) *corev1.Node {
	return withCapability(name, capability.Node{
		Backends: []v1alpha1.MigrationBackend{v1alpha1.BackendContainerd}, Arch: "amd64", CPUFeatures: features, Restore: true,
	}.Encode())
}

func withCapability(name, text string) *corev1.Node {
	return fixtures.Node(name, 4000, 16*gi, func(n *corev1.Node) {
		n.Annotations = map[string]string{v1alpha1.AnnotationCapability: text}
	})
}

func infos(nodes ...*corev1.Node) []fwk.NodeInfo {
	list := make([]fwk.NodeInfo, len(nodes))
	for i, n := range nodes {
		info := framework.NewNodeInfo()
		info.SetNode(n)
		list[i] = info
	}
	return list
}

// moved is the new pod of the migration that [newFake] holds.
func moved(requirements capability.Requirements) *corev1.Pod {
	return fixtures.Pod("job-0-moved", 100, gi, func(p *corev1.Pod) {
		p.Labels[v1alpha1.LabelMigration] = "migration-uid"
		p.Annotations[v1alpha1.AnnotationMigrationName] = "move"
		p.Annotations[v1alpha1.AnnotationRequirements] = requirements.Encode()
	})
}

var (
	checkpoint = capability.Requirements{Backend: v1alpha1.BackendContainerd, Arch: "amd64", CPUFeatures: []string{"avx2", "sse4_2"}}
)

// newPlugin returns a plugin over a Migration in memory.
func newPlugin() (*Plugin, *fake) {
	f := newFake()
	return &Plugin{handle: recording{}, clock: clocktesting.NewFakeClock(noon), timeout: 5 * time.Minute, migrations: f}, f
}

// filter runs PreFilter and Filter as the scheduler does, and returns the names of the nodes that pass and the reasons
// against the others.
func filter(t *testing.T, p *Plugin, pod *corev1.Pod, nodes ...*corev1.Node) (passed, reasons []string) {
	t.Helper()
	cycle, list := framework.NewCycleState(), infos(nodes...)
	if _, status := p.PreFilter(t.Context(), cycle, pod, list); !status.IsSuccess() {
		return nil, []string{status.Message()}
	}
	for _, info := range list {
		if status := p.Filter(t.Context(), cycle, pod, info); status.IsSuccess() {
			passed = append(passed, info.Node().Name)
		} else {
			if status.Code() != fwk.UnschedulableAndUnresolvable {
				t.Errorf("node %s: %v: evictions do not help", info.Node().Name, status)
			}
			reasons = append(reasons, status.Message())
		}
	}
	return passed, reasons
}

func TestAMovedPodGoesWhereItCanBeRestored(t *testing.T) {
	nodes := []*corev1.Node{
		able("good", "avx", "avx2", "sse4_2"), able("too-good", "avx", "avx2", "avx512f", "sse4_2"), able("old", "sse4_2"),
		fixtures.Node("agentless", 4000, 16*gi), withCapability("garbled", "{"), withCapability("later", `{"version":2}`),
	}
	tests := []struct {
		name    string
		pod     *corev1.Pod
		change  func(*v1alpha1.Migration)
		passed  string
		reasons []string
	}{
		{"a checkpoint to able nodes", moved(checkpoint), nil, "[good too-good]", []string{
			"node(s) could not restore the checkpoint: the node lacks CPU feature avx2",
			"node(s) had no node-agent that could restore a checkpoint",
			"node(s) could not restore the checkpoint: read annotation supercargo.dev/checkpoint-capability of a node: unexpected",
			"node(s) could not restore the checkpoint: read annotation supercargo.dev/checkpoint-capability of a node: its version is 2",
		}},
		{"and only to that which it is on its way to", moved(checkpoint), func(m *v1alpha1.Migration) {
			m.Status.Order = v1alpha1.OrderFreeze
			m.Status.Reservation = &v1alpha1.MigrationReservation{Node: "too-good", PodUID: "job-0-moved"}
		}, "[too-good]", []string{
			"node(s) were not the one that receives the checkpoint", "not the one", "not the one", "not the one", "not the one",
		}},
		{"nowhere at the end", moved(checkpoint), func(m *v1alpha1.Migration) { m.Status.Order = v1alpha1.OrderThaw }, "[]",
			[]string{"the pod is the new pod of a migration with order Thaw"}},
		{"nowhere without requirements", moved(capability.Requirements{}), nil, "[]",
			[]string{"read annotation supercargo.dev/checkpoint-requirements of a pod: backend is missing"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			p, f := newPlugin()
			if tc.change != nil {
				tc.change(f.m)
			}
			for range 2 { // the second time from the cache
				passed, reasons := filter(t, p, tc.pod, nodes...)
				if fmt.Sprint(passed) != tc.passed || len(reasons) != len(tc.reasons) {
					t.Fatalf("passed %v, want %s; others: %q", passed, tc.passed, reasons)
				}
				for i := range reasons {
					if !strings.Contains(reasons[i], tc.reasons[i]) {
						t.Errorf("reason %q, want %q", reasons[i], tc.reasons[i])
					}
				}
			}
		})
	}
}

func TestAMovedPodWaitsUntilMigrationsAreRead(t *testing.T) {
	p, f := newPlugin()
	f.unread = errReading
	if _, reasons := filter(t, p, moved(checkpoint), able("good", "avx2", "sse4_2")); len(reasons) != 1 || reasons[0] != errReading.Error() {
		t.Errorf("reasons %q, want %q", reasons, errReading)
	}
}

// TestEveryNodeGetsAStatusOfItsOwn: the framework writes the plugin's name into the status, concurrently for many
// nodes.
func TestEveryNodeGetsAStatusOfItsOwn(t *testing.T) {
	p, _ := newPlugin()
	cycle, list := framework.NewCycleState(), infos(able("a"), able("b"))
	if _, status := p.PreFilter(t.Context(), cycle, moved(checkpoint), list); !status.IsSuccess() {
		t.Fatal(status)
	}
	if p.Filter(t.Context(), cycle, moved(checkpoint), list[0]) == p.Filter(t.Context(), cycle, moved(checkpoint), list[1]) {
		t.Error("two nodes share a status")
	}
}

func TestAnnotationsOfNodesThatHaveGoneAreForgotten(t *testing.T) {
	p, _ := newPlugin()
	filter(t, p, moved(checkpoint), able("a", "avx2"), able("b", "avx2"), able("c", "sse4_2"))
	filter(t, p, moved(checkpoint), able("b", "avx2"))
	if len(p.nodes) != 1 {
		t.Errorf("%d annotations are kept, want that of the node there is", len(p.nodes))
	}
}

func TestOtherPodsArePassedOver(t *testing.T) {
	p, _ := newPlugin()
	pod, cycle, info := fixtures.Pod("plain", 100, gi), framework.NewCycleState(), infos(fixtures.Node("agentless", 1, 1))[0]
	if _, status := p.PreFilter(t.Context(), cycle, pod, []fwk.NodeInfo{info}); !status.IsSkip() {
		t.Errorf("PreFilter: %v, want Skip", status)
	}
	if status := preflightStatus(t, p, pod); !status.IsSkip() {
		t.Errorf("PreBindPreFlight: %v, want Skip: the pod's status would be written once more", status)
	}
	for name, status := range map[string]*fwk.Status{
		"Filter":  p.Filter(t.Context(), cycle, pod, info),
		"Reserve": p.Reserve(t.Context(), cycle, pod, "agentless"),
		"PreBind": p.PreBind(t.Context(), cycle, pod, "agentless"),
	} {
		if !status.IsSuccess() {
			t.Errorf("%s: %v", name, status)
		}
	}
	p.Unreserve(t.Context(), cycle, pod, "agentless")
	if got := testing.AllocsPerRun(100, func() { p.Filter(context.Background(), cycle, pod, info) }); got > 0 {
		t.Errorf("Filter makes %v allocations for a pod that does not move, want none", got)
	}
}

func TestNoPodIsPreemptedToMoveAnother(t *testing.T) {
	p, _ := newPlugin()
	result, status := p.PostFilter(t.Context(), framework.NewCycleState(), moved(checkpoint), nil)
	if result.Mode() != fwk.ModeOverride || result.NominatedNodeName != "" {
		t.Errorf("nominated: %+v, want that no node is", result)
	}
	if status.Code() != fwk.UnschedulableAndUnresolvable || status.Message() != "no pods are preempted for the new pod of a migration" {
		t.Errorf("for a pod that moves: %v, want what ends the search for victims", status)
	}
	if _, status := p.PostFilter(t.Context(), framework.NewCycleState(), fixtures.Pod("plain", 1, 1), nil); status.Code() != fwk.Unschedulable {
		t.Errorf("for another: %v, want what lets the next plugin search", status)
	}
}

func TestAProfileWithoutPreFilterIsFoundOut(t *testing.T) {
	p, _ := newPlugin()
	status := p.Filter(t.Context(), framework.NewCycleState(), moved(checkpoint), infos(able("good"))[0])
	bind := p.PreBind(t.Context(), framework.NewCycleState(), moved(checkpoint), "good")
	for _, s := range []*fwk.Status{status, bind} {
		if s.Code() != fwk.Error || !strings.Contains(s.Message(), "enable the plugin at preFilter") {
			t.Errorf("status %v, want an error that says what to enable", s)
		}
	}
}

func TestARejectedPodIsTriedAgainWhenANodeCanRestoreIt(t *testing.T) {
	events, err := (&Plugin{}).EventsToRegister(t.Context())
	if err != nil || len(events) != 1 || events[0].Event.Resource != fwk.Node || events[0].Event.ActionType != fwk.Add|fwk.UpdateNodeAnnotation {
		t.Fatalf("events %v, %v", events, err)
	}
	for _, tc := range []struct {
		name string
		pod  *corev1.Pod
		obj  any
		want fwk.QueueingHint
		err  bool
	}{
		{"an able node", moved(checkpoint), able("good", "avx2", "sse4_2"), fwk.Queue, false},
		{"another", moved(checkpoint), able("old"), fwk.QueueSkip, false},
		{"one without an agent", moved(checkpoint), fixtures.Node("agentless", 1, 1), fwk.QueueSkip, false},
		{"a pod whose requirements nobody can read", moved(capability.Requirements{}), able("good"), fwk.QueueSkip, false},
		{"no node", moved(checkpoint), &corev1.Pod{}, fwk.Queue, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := events[0].QueueingHintFn(klog.Background(), tc.pod, nil, tc.obj)
			if got != tc.want || (err != nil) != tc.err {
				t.Errorf("hint %v, error %v, want %v", got, err, tc.want)
			}
		})
	}
}

func TestWhatIsNotReadIsStripped(t *testing.T) {
	m := newFake().m
	m.Status.Conditions = []metav1.Condition{{Type: v1alpha1.MigrationEligible}}
	m.Status.Source = &v1alpha1.SourceReport{Step: v1alpha1.SourcePrepared, Certificate: "secret", Requirements: "{}"}
	m.Status.Target = &v1alpha1.TargetReport{Node: "b", Step: v1alpha1.TargetPrepared, Certificate: "secret"}
	m.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x"}}
	stripped, err := strip(m)
	if err != nil {
		t.Fatal(err)
	}
	got := stripped.(*v1alpha1.Migration)
	if got.Status.Conditions != nil || got.ManagedFields != nil || got.Status.Source.Certificate != "" || got.Status.Target.Certificate != "" || got.Status.Source.Requirements != "" {
		t.Errorf("kept: %+v", got)
	}
	if got.Status.Plan == nil || got.Status.Source.Step != v1alpha1.SourcePrepared || got.Status.Target.Node != "b" || got.UID != "migration-uid" {
		t.Errorf("lost: %+v", got)
	}
	if other, err := strip("tombstone"); err != nil || other != "tombstone" {
		t.Errorf("something else became %v, %v", other, err)
	}
}

// BenchmarkFilter measures Filter for an ordinary pod and for the new pod of a migration, on a node with a realistic
// annotation.
func BenchmarkFilter(b *testing.B) {
	features := make([]string, 150)
	for i := range features {
		features[i] = fmt.Sprintf("feature%03d", i)
	}
	needs := checkpoint
	needs.CPUFeatures = features
	for _, bc := range []struct {
		name string
		pod  *corev1.Pod
	}{{"plain", fixtures.Pod("plain", 100, gi)}, {"moved", moved(needs)}} {
		b.Run(bc.name, func(b *testing.B) {
			p, _ := newPlugin()
			cycle, list := framework.NewCycleState(), infos(able("a", features...))
			if _, status := p.PreFilter(b.Context(), cycle, bc.pod, list); status.IsRejected() {
				b.Fatal(status)
			}
			b.ReportAllocs()
			for b.Loop() {
				if status := p.Filter(context.Background(), cycle, bc.pod, list[0]); !status.IsSuccess() {
					b.Fatal(status)
				}
			}
		})
	}
}

// BenchmarkPreFilter measures PreFilter for the new pod of a migration, in a cluster of 5,000 nodes of three kinds.
func BenchmarkPreFilter(b *testing.B) {
	p, _ := newPlugin()
	nodes := make([]*corev1.Node, 5000)
	for i := range nodes {
		nodes[i] = able(fmt.Sprintf("node-%d", i), "avx2", "sse4_2", fmt.Sprintf("kind%d", i%3))
	}
	list, pod := infos(nodes...), moved(checkpoint)
	b.ReportAllocs()
	for b.Loop() {
		if _, status := p.PreFilter(context.Background(), framework.NewCycleState(), pod, list); !status.IsSuccess() {
			b.Fatal(status)
		}
	}
}

var errUnreachable = errors.New("connection refused")
