//go:build nodes

package probe

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/energy/profile"
	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
	"supercargo.dev/supercargo/test/e2e/nodes/fleet"
	"supercargo.dev/supercargo/test/e2e/nodes/oci"
)

const (
	image   = "localhost/node-agent:test"
	probing = "supercargo-probing"
	// patience is ample for a twentieth of the work on a busy machine.
	patience = 15 * time.Minute
)

// bench is a cluster with a descheduler that runs probes.
type bench struct {
	*testing.T
	*fleet.Fleet
}

func newBench(t *testing.T) *bench {
	t.Helper()
	f, err := fleet.Start(t.Context(), fleet.Config{
		Parts: []string{"agent", "descheduler"}, Descheduler: true,
		DeschedulerFlags: []string{"--consolidation=Off", "--probing=Act", "--probe-image=" + image, "--probe-amount=5"},
	})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t, f}
	t.Cleanup(func() {
		if t.Failed() {
			f.KeepLogs(t, t.Name())
		}
		if err := f.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	program, err := filepath.Abs("../../../../bin/node-agent")
	if err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(t.TempDir(), "node-agent.tar")
	if err := oci.WriteFile(archive, oci.Image{Name: image, Program: program}); err != nil {
		t.Fatal(err)
	}
	for _, n := range f.Nodes {
		if err := n.Import(t.Context(), archive); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// name sets the machine type of a node.
func (b *bench) name(n *cluster.Node, machineType string) {
	b.Helper()
	b.patchNode(n, fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, v1alpha1.LabelMachineType, machineType))
}

func (b *bench) patchNode(n *cluster.Node, patch string) {
	b.Helper()
	object := &corev1.Node{}
	object.Name = n.Name
	if err := b.Objects.Patch(b.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) eventually(what string, check func() error) {
	b.Helper()
	var last error
	err := wait.PollUntilContextTimeout(b.Context(), time.Second, patience, true, func(context.Context) (bool, error) {
		last = check()
		return last == nil, nil
	})
	if err != nil {
		b.Fatalf("%s: %v", what, last)
	}
}

// probes returns the pods of probes.
func (b *bench) probes() []corev1.Pod {
	b.Helper()
	var list corev1.PodList
	if err := b.Objects.List(b.Context(), &list, client.InNamespace(probing)); err != nil {
		b.Fatal(err)
	}
	return list.Items
}

func (b *bench) log(pod string) string {
	text, err := b.Client().CoreV1().Pods(probing).GetLogs(pod, &corev1.PodLogOptions{}).DoRaw(b.Context())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// TestARealNodeIsProbedAndPodsMoveByWhatIsLearned learns a machine type on one node. Pods then move from it
// to another node, whose profile needs less energy.
func TestARealNodeIsProbedAndPodsMoveByWhatIsLearned(t *testing.T) {
	b := newBench(t)
	t.Run("probe", func(t *testing.T) { (&bench{t, b.Fleet}).probed() })
	if t.Failed() {
		return
	}
	t.Run("move", func(t *testing.T) { (&bench{t, b.Fleet}).moves() })
}

// probed waits for the probe of a node: a probe whose pod is deleted half-way resumes where it was, and its
// result becomes a profile.
func (b *bench) probed() {
	t, node := b.T, b.Nodes[0]
	b.name(node, "real")
	var first string
	b.eventually("the probe has done some runs", func() error {
		for _, p := range b.probes() {
			if p.Spec.NodeName != node.Name {
				return fmt.Errorf("pod %s is on node %q", p.Name, p.Spec.NodeName)
			}
			if text := b.log(p.Name); strings.Count(text, "Probed") >= 3 {
				first = p.Name
				return nil
			} else if p.Status.Phase == corev1.PodFailed {
				return fmt.Errorf("it has failed: %s", text)
			}
		}
		return errors.New("not yet")
	})
	object := &corev1.Pod{}
	object.Namespace, object.Name = probing, first
	if err := b.Objects.Delete(b.Context(), object); err != nil {
		t.Fatal(err)
	}
	var second string
	b.eventually("the machine type is learned", func() error {
		for _, p := range b.probes() {
			if p.Name != first && p.Status.Phase == corev1.PodRunning {
				second = b.log(p.Name)
			}
		}
		var o v1alpha1.MachineProfile
		if err := b.Objects.Get(b.Context(), types.NamespacedName{Name: "real"}, &o); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ProfileReady) || !meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ProfileProbed) {
			return fmt.Errorf("conditions are %+v", o.Status.Conditions)
		}
		m, err := profile.FromObject(&o)
		if err != nil {
			return err
		}
		slow, fast := m.Profile.Runtime.Predict(profile.Size{MilliCPU: 250, MemoryBytes: 64 << 20}, 0), m.Profile.Runtime.Predict(profile.Size{MilliCPU: 1000, MemoryBytes: 64 << 20}, 0)
		if !(slow.Value > fast.Value) {
			return fmt.Errorf("a quarter of a CPU takes %+v and one takes %+v", slow, fast)
		}
		return nil
	})
	if strings.Contains(second, `"Probed" run=1 `) {
		t.Errorf("the second pod has begun again:\n%s", second)
	}
	b.eventually("the node is released", func() error {
		var n corev1.Node
		if err := b.Objects.Get(b.Context(), types.NamespacedName{Name: node.Name}, &n); err != nil {
			return err
		}
		if len(n.Spec.Taints) > 0 || len(b.probes()) > 0 {
			return fmt.Errorf("taints %+v, %d pods", n.Spec.Taints, len(b.probes()))
		}
		return nil
	})
}
