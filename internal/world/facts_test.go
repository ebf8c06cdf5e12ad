package world

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/test/fixtures"
)

// changing is a cluster whose pods change between rounds as on an API server: whatever changes gets another resource
// version.
type changing struct {
	pods    []corev1.Pod
	version int
}

// anyPod draws a pod, whose name, size, images, controller and disk are of few kinds, so that they repeat.
func (c *changing) anyPod(t *rapid.T, name string, uid types.UID) corev1.Pod {
	c.version++
	few := rapid.IntRange(1, 3)
	pod := *fixtures.Pod(name, 100*int64(few.Draw(t, "CPU")), int64(few.Draw(t, "memory"))<<20, func(p *corev1.Pod) {
		p.UID, p.ResourceVersion, p.Spec.NodeName = uid, fmt.Sprint(c.version), rapid.SampledFrom([]string{"a", "b"}).Draw(t, "node")
		p.Spec.Containers[0].Image = fmt.Sprint("image-", few.Draw(t, "image"))
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(int64(few.Draw(t, "disk")), resource.BinarySI)
		p.Generation = int64(few.Draw(t, "generation"))
		kind := rapid.SampledFrom([]string{"", "Job", "ReplicaSet", "DaemonSet"}).Draw(t, "controller")
		if kind != "" {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: kind, UID: types.UID(kind), Controller: new(true)}}
		}
	})
	if rapid.IntRange(0, 9).Draw(t, "from a dump") == 0 {
		pod.UID, pod.ResourceVersion = "", "" // without these, a pod is not known again
	}
	return pod
}

// change creates, changes, deletes and replaces pods.
func (c *changing) change(t *rapid.T) {
	for range rapid.IntRange(0, 12).Draw(t, "changes") {
		name := fmt.Sprint("p", rapid.IntRange(0, 15).Draw(t, "pod"))
		at := slices.IndexFunc(c.pods, func(p corev1.Pod) bool { return p.Name == name })
		switch {
		case at < 0:
			c.pods = append(c.pods, c.anyPod(t, name, types.UID(fmt.Sprint(name, "-", c.version))))
		case rapid.Bool().Draw(t, "deleted"):
			c.pods = slices.Delete(slices.Clone(c.pods), at, at+1)
		default: // an object is replaced, never changed in place
			c.pods = slices.Clone(c.pods)
			c.pods[at] = c.anyPod(t, name, c.pods[at].UID)
		}
	}
}

// seen describes the nodes of the cluster as decisions see them. Constraints of other compilers are never equal.
func (c *changing) seen(known *Facts) (nodes []cluster.Node) {
	w := &World{
		Nodes:      map[string]*corev1.Node{"a": fixtures.Node("a", 4000, 1<<30), "b": fixtures.Node("b", 4000, 1<<30)},
		Namespaces: map[string]map[string]string{"default": {}}, Pods: pointersTo(c.pods), Facts: known,
	}
	v := NewView(w, noon.Add(time.Hour), runtimes.NewLearner())
	for _, name := range []string{"a", "b"} {
		n := v.Node(w.Nodes[name], cluster.Node{Name: name})
		n.Host.Residents = nil
		for i := range n.Pods {
			n.Pods[i].Demands = nil
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// TestWhatIsRememberedOfPodsIsWhatTheyAre compares nodes with the same computed from the pods alone, after random changes.
func TestWhatIsRememberedOfPodsIsWhatTheyAre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c changing
		known := &Facts{}
		for range rapid.IntRange(1, 8).Draw(t, "rounds") {
			c.change(t)
			if diff := cmp.Diff(c.seen(nil), c.seen(known)); diff != "" {
				t.Fatalf("nodes (-computed +remembered):\n%s", diff)
			}
		}
	})
}

// TestPodsThatAreGoneAreForgotten bounds what is remembered by the number of pods.
func TestPodsThatAreGoneAreForgotten(t *testing.T) {
	known := &Facts{}
	for round := range 20 {
		var c changing
		for i := range 8 {
			name := fmt.Sprintf("p-%d-%d", round, i)
			c.pods = append(c.pods, *fixtures.Pod(name, 100, 1<<20, func(p *corev1.Pod) { p.ResourceVersion, p.Spec.NodeName = "1", "a" }))
		}
		c.seen(known)
		if n := len(known.known); n > 2*len(c.pods)+2 {
			t.Fatalf("%d pods are remembered, and there are %d", n, len(c.pods))
		}
	}
}

// TestAPodThatHasNotChangedIsNotReadAgain: else nothing is gained.
func TestAPodThatHasNotChangedIsNotReadAgain(t *testing.T) {
	known := &Facts{}
	pod := fixtures.Pod("p", 100, 1<<20, func(p *corev1.Pod) { p.ResourceVersion = "1" })
	first := known.of(pod)
	if known.of(pod.DeepCopy()) != first {
		t.Error("the same version of the pod was read twice")
	}
	pod.ResourceVersion = "2"
	if known.of(pod) == first {
		t.Error("another version of the pod was not read")
	}
}
