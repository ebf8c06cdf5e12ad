package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/agent"
	"supercargo.dev/supercargo/descheduler/checkpoint/simulated"
	"supercargo.dev/supercargo/test/kit"
	"supercargo.dev/supercargo/test/kit/testapi"
)

// bench is the environment of one test: its own namespace and two simulated nodes.
type bench struct {
	*kit.Bench
	from, to string // nodes
	config   agent.Config
	deadline time.Duration // of Migrations, from their creation
	stop     func()        // ends the agent
}

var benches atomic.Int32

// newBench creates the namespace and the nodes. No agent runs yet.
func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{Bench: sites.Bench(t, fmt.Sprintf("agent-%d", benches.Add(1))), deadline: time.Minute, stop: func() {}}
	b.Poll = poll
	b.from, b.to = b.Space+"-a", b.Space+"-b"
	b.addNode(b.from)
	b.addNode(b.to)
	b.config = kit.SimulatedAgents(b.Site.Config(), t.TempDir(), labels.SelectorFromSet(labels.Set{kit.BenchLabel: b.Space}), simulated.Model{}, b.Logs)
	b.config.Resync = 200 * time.Millisecond
	return b
}

// addNode creates a node that the agent simulates.
func (b *bench) addNode(name string) {
	b.Helper()
	b.Make(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{kit.BenchLabel: b.Space}}})
}

// start starts an agent, whose end the cleanup waits for.
func (b *bench) start() {
	b.Helper()
	a, err := agent.New(b.config)
	if err != nil {
		b.Fatal(err)
	}
	b.stop = b.StartSound("the agent", a.Run)
}

// pod creates a pod that runs on the first node.
func (b *bench) pod(name string) *corev1.Pod {
	b.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: name},
		Spec: corev1.PodSpec{NodeName: b.from, Containers: []corev1.Container{{
			Name: "main", Image: "example.test/work:1",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("100Mi")}},
		}}},
	}
	b.Make(pod)
	return pod
}

// migration creates a Migration of a pod with a plan and order Prepare.
func (b *bench) migration(pod *corev1.Pod) *v1alpha1.Migration {
	b.Helper()
	return b.migrationBy(pod, v1alpha1.BackendSimulated)
}

// migrationBy is migration with a back-end.
func (b *bench) migrationBy(pod *corev1.Pod, backend v1alpha1.MigrationBackend) *v1alpha1.Migration {
	b.Helper()
	return b.migrationFrom(b.from, pod, backend)
}

// migrationFrom is migrationBy with a source node.
func (b *bench) migrationFrom(node string, pod *corev1.Pod, backend v1alpha1.MigrationBackend) *v1alpha1.Migration {
	b.Helper()
	m := &v1alpha1.Migration{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: "move-" + pod.Name},
		Spec:       v1alpha1.MigrationSpec{PodName: pod.Name, Deadline: metav1.Duration{Duration: time.Minute}},
	}
	b.Make(m)
	now := metav1.Now()
	b.write(m, func(s *v1alpha1.MigrationStatus) {
		s.Plan = &v1alpha1.MigrationPlan{
			StartedAt: now, DeadlineAt: metav1.NewTime(now.Add(b.deadline)), SourceNode: node, PodUID: string(pod.UID), Container: "main",
			BaseImage: "example.test/work:1", Backend: backend, RestoredPod: pod.Name + "-m",
		}
		s.Order = v1alpha1.OrderPrepare
	})
	return m
}

// write changes the status as its other writers do: only their own fields.
func (b *bench) write(m *v1alpha1.Migration, change func(*v1alpha1.MigrationStatus)) {
	b.Helper()
	before := m.DeepCopy()
	change(&m.Status)
	if err := b.Status().Patch(b.Context(), m, client.MergeFrom(before)); err != nil {
		b.Fatalf("write the status of Migration %s: %v", m.Name, err)
	}
}

// order gives an order.
func (b *bench) order(m *v1alpha1.Migration, order v1alpha1.MigrationOrder) {
	b.Helper()
	b.write(m, func(s *v1alpha1.MigrationStatus) { s.Order = order })
}

// reserve writes the reservation of the new pod.
func (b *bench) reserve(m *v1alpha1.Migration, node string) {
	b.Helper()
	b.write(m, func(s *v1alpha1.MigrationStatus) {
		s.Reservation = &v1alpha1.MigrationReservation{Node: node, PodUID: "new", Time: metav1.Now()}
	})
}

// read reads the current Migration.
func (b *bench) read(m *v1alpha1.Migration) {
	b.Helper()
	testapi.Refresh(b, b, m)
}

// sourceSays waits until the source has reported a step.
func (b *bench) sourceSays(m *v1alpha1.Migration, step v1alpha1.SourceStep) *v1alpha1.SourceReport {
	b.Helper()
	b.Eventually("the source is "+string(step), func() string {
		b.read(m)
		if r := m.Status.Source; r == nil || r.Step != step {
			return fmt.Sprintf("it says %+v", r)
		}
		return ""
	})
	return m.Status.Source
}

// targetSays waits until the target has reported a step.
func (b *bench) targetSays(m *v1alpha1.Migration, step v1alpha1.TargetStep) *v1alpha1.TargetReport {
	b.Helper()
	b.Eventually("the target is "+string(step), func() string {
		b.read(m)
		if r := m.Status.Target; r == nil || r.Step != step {
			return fmt.Sprintf("it says %+v", r)
		}
		return ""
	})
	return m.Status.Target
}

// nothingLeft waits until the agent has no state of any migration.
func (b *bench) nothingLeft() {
	b.Helper()
	b.Eventually("nothing is left", func() string {
		var left []string
		for _, pattern := range []string{
			filepath.Join(b.config.StateDir, "ledger", "*"), filepath.Join(b.config.WorkDir, "*"), filepath.Join(b.config.StateDir, "simulated", "images", "*"),
		} {
			files, err := filepath.Glob(pattern)
			if err != nil {
				return err.Error()
			}
			left = append(left, files...)
		}
		return strings.Join(left, " ")
	})
}

// unmark removes a mark that the simulation has set.
func (b *bench) unmark(what string, pod *corev1.Pod) {
	b.Helper()
	if err := os.Remove(filepath.Join(b.config.StateDir, "simulated", what, string(pod.UID))); err != nil {
		b.Fatal(err)
	}
}

// is reports whether a container is frozen or killed, from the simulation's marks.
func (b *bench) is(what string, pod *corev1.Pod) bool {
	b.Helper()
	files, err := filepath.Glob(filepath.Join(b.config.StateDir, "simulated", what, string(pod.UID)))
	if err != nil {
		b.Fatal(err)
	}
	return len(files) > 0
}
