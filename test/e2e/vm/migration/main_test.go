//go:build vm

package migration

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/e2e/nodes/fleet"
	"supercargo.dev/supercargo/test/e2e/nodes/moves"
	"supercargo.dev/supercargo/test/e2e/nodes/site"
	"supercargo.dev/supercargo/test/e2e/nodes/workload"
	"supercargo.dev/supercargo/test/e2e/vm/machine"
)

// patience bounds the waits of a test, and deadline is the deadline of migrations. Both are long because
// emulation is slow.
const (
	patience = 20 * time.Minute
	deadline = 30 * time.Minute
)

// The Debian releases of the machines. Two machines are on at a time.
const (
	older = "bookworm"
	newer = "trixie"
)

// theCluster is shared by all tests and started by the first one. A test that powers off a machine boots
// it again.
var theCluster = sync.OnceValues(func() (*machine.Cluster, error) {
	return machine.Start(context.Background(), fleet.Config{Parts: []string{"agent", "descheduler"}, Descheduler: true}, older, older, newer)
})

var started bool

func TestMain(m *testing.M) {
	code := m.Run()
	if started {
		if c, err := theCluster(); err == nil {
			if err := c.Stop(context.Background()); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = max(code, 1)
			}
		}
	}
	os.Exit(code)
}

// town is the pair of machines that a test uses.
type town struct {
	*moves.Town
	cluster *machine.Cluster
	first   *machine.Machine
	second  *machine.Machine
}

// twoOf boots a machine of each of the two releases for a test, and powers off all other machines.
func twoOf(t *testing.T, first, second string) *town {
	t.Helper()
	started = true
	c, err := theCluster()
	if err != nil {
		t.Fatal(err)
	}
	w := &town{cluster: c}
	for _, m := range c.Machines {
		switch {
		case w.first == nil && m.Suite == first:
			w.first = m
		case w.second == nil && m.Suite == second:
			w.second = m
		default:
			if err := m.PowerOff(); err != nil {
				t.Fatal(err)
			}
		}
	}
	boots, ctx := errgroup.WithContext(context.WithoutCancel(t.Context()))
	for _, m := range []*machine.Machine{w.first, w.second} {
		if !m.On() {
			boots.Go(func() error { return m.Up(ctx) })
		}
	}
	if err := boots.Wait(); err != nil {
		t.Fatal(err)
	}
	w.Town = &moves.Town{Site: site.NewPatient(t, c, patience), Objects: c.Objects}
	return w
}

// moves creates a Migration of a pod with a long deadline.
func (w *town) moves(pod string) *v1alpha1.Migration {
	w.Helper()
	return w.Move(pod, func(s *v1alpha1.MigrationSpec) { s.Deadline = metav1.Duration{Duration: deadline} })
}

// starts starts a movable counter on a machine, and waits until it counts. The pod itself is not bound
// to the machine: the other one is cordoned meanwhile.
func (w *town) starts(on *machine.Machine, pod *corev1.Pod) {
	w.Helper()
	other := w.other(on)
	w.Cordon(other.Name, true)
	defer w.Cordon(other.Name, false)
	w.Create(moves.Movable(pod))
	w.Running(pod.Name)
	w.Counts(pod.Name, 5)
}

func (w *town) other(m *machine.Machine) *machine.Machine {
	if m == w.first {
		return w.second
	}
	return w.first
}

// reaches waits until a migration is in a phase, and fails the test if it ends in another one.
func (w *town) reaches(m *v1alpha1.Migration, phase v1alpha1.MigrationPhase) *v1alpha1.Migration {
	w.Helper()
	m = w.Until(m, "is "+string(phase), func(m *v1alpha1.Migration) error {
		if m.Status.Phase != phase && !moves.Ended(m) {
			return fmt.Errorf("it is %s", m.Status.Phase)
		}
		return nil
	})
	if m.Status.Phase != phase {
		w.Fatalf("migration %s ended as %s: %s, before it was seen to be %s", m.Name, m.Status.Phase, moves.EndMessage(m), phase)
	}
	return m
}

// conditionIs waits until a condition of a migration has a status and a reason.
func (w *town) conditionIs(m *v1alpha1.Migration, kind string, status metav1.ConditionStatus, reason string) {
	w.Helper()
	w.Until(m, fmt.Sprintf("has condition %s %s, %s", kind, status, reason), func(m *v1alpha1.Migration) error {
		c := meta.FindStatusCondition(m.Status.Conditions, kind)
		if c == nil || c.Status != status || c.Reason != reason {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
}

// output collects the output of a pod.
type output struct {
	town *town
	mu   sync.Mutex
	text []byte
}

// follow collects the output of a pod until the pod or its machine ends. It must start before a move,
// after which the kubelet has removed the output.
func (w *town) follow(pod string) *output {
	w.Helper()
	o := &output{town: w}
	stream, err := w.Client().CoreV1().Pods(w.Namespace).GetLogs(pod, &corev1.PodLogOptions{Follow: true}).Stream(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	go func() {
		_, _ = io.Copy(o, stream)
		_ = stream.Close() // an incomplete stream is expected
	}()
	w.Cleanup(func() { _ = stream.Close() })
	return o
}

// Write implements io.Writer.
func (o *output) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, text...)
	return len(text), nil
}

func (o *output) ticks() []workload.Tick {
	o.town.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	ticks, err := workload.ParseTicks(o.text)
	if err != nil {
		o.town.Fatal(err)
	}
	return ticks
}

// continues waits until a restored counter has printed ten more values than before its move, and checks
// that every value was printed exactly once on the two machines together.
func (w *town) continues(before *output, pod string) {
	w.Helper()
	w.Counts(pod, len(before.ticks())+10)
	all := workload.Join(before.ticks(), w.Ticks(pod))
	if err := workload.CheckTicks(all, 1); err != nil {
		w.Errorf("from one machine to the other: %v", err)
	}
	pause, after := workload.LongestPause(all)
	w.Logf("%s: %d values, %d of them seen on the source; longest pause %.1f s, after value %d",
		pod, len(all), len(before.ticks()), pause.Seconds(), after)
}
