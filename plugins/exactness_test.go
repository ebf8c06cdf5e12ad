package plugins_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	clocktesting "k8s.io/utils/clock/testing"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/test/fixtures"
	"supercargo.dev/supercargo/test/scheduling"
)

// neverNarrow is the strict configuration without narrowing.
const neverNarrow = scheduling.StrictConfiguration + `
  pluginConfig:
  - {name: BestFit, args: {narrowing: Never}}
  - {name: TimeBin, args: {narrowing: Never}}
`

// cluster is one scheduler with the pods that it placed.
type cluster struct {
	*scheduling.Scheduler
	nodes map[string]*corev1.Node
	pods  map[string]*corev1.Pod
	// nominated are pending pods that are nominated to a node.
	nominated []*corev1.Pod
}

// twins are two schedulers with the same input: one narrows, the other scans all nodes.
type twins struct {
	t      *testing.T
	r      *rand.Rand
	clock  *clocktesting.FakeClock
	narrow cluster
	scan   cluster
	serial int
	// narrowed counts the pods for which only one node was evaluated.
	narrowed int
}

func newTwins(t *testing.T, seed uint64) *twins {
	clk := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	return &twins{
		t: t, r: rand.New(rand.NewPCG(seed, 11)), clock: clk,
		narrow: cluster{scheduling.NewScheduler(t, scheduling.StrictConfiguration, clk), map[string]*corev1.Node{}, map[string]*corev1.Pod{}, nil},
		scan:   cluster{scheduling.NewScheduler(t, neverNarrow, clk), map[string]*corev1.Node{}, map[string]*corev1.Pod{}, nil},
	}
}

func (w *twins) both(do func(c *cluster)) { do(&w.narrow); do(&w.scan) }

func (w *twins) name(prefix string) string {
	w.serial++
	return fmt.Sprintf("%s-%04d", prefix, w.serial)
}

// randomNode returns nodes that differ in everything that a filter uses.
func (w *twins) randomNode(name string) *corev1.Node {
	r := w.r
	sizes := []int64{2, 4, 4, 8}
	n := fixtures.Node(name, 1000*sizes[r.IntN(4)], sizes[r.IntN(4)]<<30)
	switch r.IntN(8) {
	case 0:
		n.Labels["supercargo.dev/class"] = "batch"
	case 1:
		n.Labels["supercargo.dev/class"] = "service"
	case 2:
		n.Labels["supercargo.dev/class"] = "sevrice" // misspelt: accepts any pod
	}
	switch r.IntN(12) {
	case 0:
		n.Spec.Unschedulable = true
	case 1:
		n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
	case 2:
		n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectPreferNoSchedule}}
	case 3:
		n.Status.Allocatable = nil
	case 4:
		n.Labels = nil
	case 5:
		n.Status.Allocatable = n.Status.Allocatable.DeepCopy()
		n.Status.Allocatable[corev1.ResourcePods] = *resource.NewQuantity(int64(r.IntN(4)), resource.DecimalSI)
	}
	if r.IntN(6) == 0 {
		n.Status.Images = []corev1.ContainerImage{{Names: []string{"pause:latest"}, SizeBytes: 900 << 20}}
	}
	if r.IntN(4) == 0 && n.Status.Allocatable != nil {
		n.Status.Allocatable = n.Status.Allocatable.DeepCopy()
		n.Status.Allocatable["nvidia.com/gpu"] = *resource.NewQuantity(2, resource.DecimalSI)
	}
	if n.Labels != nil {
		n.Labels["zone"] = fmt.Sprint(r.IntN(3))
	}
	return n
}

// randomPod returns mostly plain pods, and some with each kind of constraint.
func (w *twins) randomPod() *corev1.Pod {
	r := w.r
	p := fixtures.Pod(w.name("pod"), int64(r.IntN(9))*100, int64(r.IntN(9))<<27)
	if r.IntN(2) == 0 {
		fixtures.Batch(fmt.Sprintf("%dm", 1+r.IntN(40)))(p)
	}
	zone := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}
	switch r.IntN(28) {
	case 0:
		p.Spec.NodeSelector = map[string]string{"zone": "1"}
	case 1:
		p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	case 2:
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: int32(8000 + r.IntN(2))}}
	case 3:
		p.Labels["app"] = "x"
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "zone",
			WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: zone}}
	case 4:
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"0"}}}}}}}}
	case 5:
		p.Labels["app"] = "x"
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{TopologyKey: corev1.LabelHostname, LabelSelector: zone}}}}
	case 10:
		p.Labels["app"] = "x"
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "zone",
			WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: zone}}
	case 11:
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
			{Weight: 1, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"0"}}}}}}}}
	case 12:
		p.Labels["app"] = "x"
	case 6:
		p.Annotations["supercargo.dev/runtime"] = "soon"
	case 7:
		p.Labels["supercargo.dev/class"] = "bacth"
	case 13:
		p.Spec.Containers[0].Resources.Requests["nvidia.com/gpu"] = *resource.NewQuantity(int64(1+r.IntN(2)), resource.DecimalSI)
	case 9:
		p.Labels["supercargo.dev/migration"] = "5f6c" // of an unknown migration
	case 8:
		p.Spec.Volumes = []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	}
	return p
}

// place schedules a pod with both and compares.
func (w *twins) place() {
	pod := w.randomPod()
	narrow := w.narrow.Attempt(pod)
	scan := w.scan.Attempt(pod)
	if narrow.Err != nil && strings.Contains(fmt.Sprint(narrow.Err), "the next attempt evaluates all nodes") {
		w.t.Errorf("pod %s: a proven node was rejected: %v", pod.Name, narrow.Err)
		narrow = w.narrow.Attempt(pod)
	}
	// If preferences choose, both evaluated all nodes, and kube-scheduler took any of those with the highest score.
	chosen := narrow.Evaluated > 1 && narrow.Evaluated == scan.Evaluated && narrow.Err == nil && scan.Err == nil
	if narrow.Node != scan.Node && !chosen {
		w.t.Fatalf("pod %s %v %v: narrowed to %q (%v), the full scan chose %q (%v)",
			pod.Name, pod.Labels, pod.Annotations, narrow.Node, narrow.Err, scan.Node, scan.Err)
	}
	if narrow.Evaluated == 1 {
		w.narrowed++
	}
	if narrow.Node == "" {
		return
	}
	w.both(func(c *cluster) {
		placed := pod.DeepCopy()
		placed.Spec.NodeName = scan.Node
		if d, ok, _ := runtimes.Declared(pod); ok {
			placed.Annotations[v1alpha1.AnnotationExpectedFinish] = runtimes.Format(w.clock.Now().Add(d))
		}
		if err := c.Cache.AddPod(w.logger(), placed); err != nil {
			w.t.Fatal(err)
		}
		c.pods[pod.Name] = placed
	})
}

func (w *twins) step() {
	switch w.r.IntN(20) {
	case 0, 1:
		w.clock.Step(time.Duration(w.r.IntN(300)) * time.Second)
	case 2:
		n := w.randomNode(w.name("node"))
		w.both(func(c *cluster) { c.AddNode(n); c.nodes[n.Name] = n })
	case 3:
		if name, ok := pick(w.r, w.narrow.nodes); ok { // its pods stay behind, as in a real cache
			w.both(func(c *cluster) {
				if err := c.RemoveNode(c.nodes[name]); err != nil {
					w.t.Fatal(err)
				}
				delete(c.nodes, name)
			})
		}
	case 4, 5:
		if name, ok := pick(w.r, w.narrow.nodes); ok {
			n := w.randomNode(name)
			w.both(func(c *cluster) { c.UpdateNode(c.nodes[name], n); c.nodes[name] = n })
		}
	case 6, 7, 8:
		if name, ok := pick(w.r, w.narrow.pods); ok {
			w.both(func(c *cluster) {
				if err := c.RemovePod(c.pods[name]); err != nil {
					w.t.Fatal(err)
				}
				delete(c.pods, name)
			})
		}
	case 9:
		if name, ok := pick(w.r, w.narrow.nodes); ok {
			pod := w.randomPod()
			priority := int32(w.r.IntN(3) - 1)
			pod.Spec.Priority = &priority
			w.both(func(c *cluster) {
				if err := c.Nominate(pod.DeepCopy(), name); err != nil {
					w.t.Fatal(err)
				}
				c.nominated = append(c.nominated, pod)
			})
		}
	case 10:
		w.both(func(c *cluster) {
			if len(c.nominated) > 0 {
				c.SchedulingQueue.DeleteNominatedPodIfExists(c.nominated[0])
				c.nominated = c.nominated[1:]
			}
		})
	default:
		w.place()
	}
}

// TestNarrowingChangesNoPlacement runs two schedulers through the same random history of a cluster, in which nodes are
// added, removed and changed, pods of every kind come and end, and time passes. The one that narrows must choose the
// nodes of the one that scans all of them, and find a node whenever that one does.
func TestNarrowingChangesNoPlacement(t *testing.T) {
	narrowed := 0
	for seed := range uint64(12) {
		w := newTwins(t, seed)
		for range 12 {
			n := w.randomNode(w.name("node"))
			w.both(func(c *cluster) { c.AddNode(n); c.nodes[n.Name] = n })
		}
		for range 400 {
			w.step()
		}
		narrowed += w.narrowed
	}
	if narrowed < 500 {
		t.Errorf("only %d pods were narrowed: the test compares the full scan with itself", narrowed)
	}
	t.Logf("%d pods were narrowed", narrowed)
}

// pick returns a random key, the same for the same random source.
func pick[V any](r *rand.Rand, from map[string]V) (string, bool) {
	if len(from) == 0 {
		return "", false
	}
	return slices.Sorted(maps.Keys(from))[r.IntN(len(from))], true
}

func (w *twins) logger() klog.Logger { return klog.Background() }
