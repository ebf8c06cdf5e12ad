package agent

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// line is the connection of an agent to its API server, which a test can cut.
type line struct {
	mu   sync.Mutex
	open map[net.Conn]bool
	down bool
}

// config returns a client configuration that uses the line.
func (l *line) config(c *rest.Config) *rest.Config {
	c = rest.CopyConfig(c)
	c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		connection, err := (&net.Dialer{}).DialContext(ctx, network, address)
		l.mu.Lock()
		defer l.mu.Unlock()
		if err == nil && l.down {
			return nil, errors.Join(errors.New("the line is cut"), connection.Close())
		}
		if err == nil {
			l.open[connection] = true
		}
		return connection, err
	}
	return c
}

// cut closes all connections and prevents new ones, or allows them again.
func (l *line) cut(down bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = down
	for connection := range l.open {
		_ = connection.Close() // it may have ended
		delete(l.open, connection)
	}
}

// stuck brings a migration to a point where its state is being sent, and never arrives.
func (b *bench) stuck() (*corev1.Pod, *v1alpha1.Migration) {
	b.Helper()
	b.config.Simulation.Model.ShipRate = 1
	b.start()
	pod := b.pod("work")
	m := b.migration(pod)
	b.sourceSays(m, v1alpha1.SourcePrepared)
	b.reserve(m, b.to)
	b.targetSays(m, v1alpha1.TargetPrepared)
	b.order(m, v1alpha1.OrderFreeze)
	b.sourceSays(m, v1alpha1.SourceDumped)
	return pod, m
}

// continues waits until a container is not frozen.
func (b *bench) continues(pod *corev1.Pod) {
	b.Helper()
	b.Eventually("the container continues", func() string {
		if b.is("frozen", pod) {
			return "it is frozen"
		}
		return ""
	})
}

// TestContainersContinueByThemselvesAfterTheDeadline tests a deadline that passes without further orders.
func TestContainersContinueByThemselvesAfterTheDeadline(t *testing.T) {
	b := newBench(t)
	b.deadline = 5*time.Second - time.Minute // time is over one minute after the deadline
	pod, m := b.stuck()
	if !b.is("frozen", pod) {
		t.Fatal("the container is not frozen before its time is over")
	}
	if r := b.sourceSays(m, v1alpha1.SourceFailed); r.Reason != v1alpha1.MigrationReasonFreezeExpired {
		t.Errorf("the source says %s: %s, want reason %s", r.Reason, r.Message, v1alpha1.MigrationReasonFreezeExpired)
	}
	if b.is("frozen", pod) || m.Status.Target.Step == v1alpha1.TargetStaged {
		t.Errorf("the container is frozen: %v, and the target is %s", b.is("frozen", pod), m.Status.Target.Step)
	}
	// Neither this agent nor the next freezes it again.
	b.stop()
	b.config.Simulation.Model.ShipRate = 0
	b.start()
	b.order(m, v1alpha1.OrderThaw)
	b.sourceSays(m, v1alpha1.SourceThawed)
	b.order(m, v1alpha1.OrderClean)
	b.sourceSays(m, v1alpha1.SourceCleaned)
	b.nothingLeft()
	if b.is("frozen", pod) || b.is("killed", pod) {
		t.Error("the container does not run")
	}
}

func TestContainersContinueByThemselvesWhileTheLedgerCannotBeWritten(t *testing.T) {
	b := newBench(t)
	b.deadline = 5*time.Second - time.Minute
	pod, m := b.stuck()
	ledger := filepath.Join(b.config.StateDir, "ledger")
	if err := os.Rename(ledger, ledger+".away"); err != nil {
		t.Fatal(err)
	}
	b.continues(pod)
	if err := os.Rename(ledger+".away", ledger); err != nil {
		t.Fatal(err)
	}
	b.order(m, v1alpha1.OrderThaw)
	b.sourceSays(m, v1alpha1.SourceThawed)
	if b.is("frozen", pod) || b.is("killed", pod) {
		t.Error("the container does not run")
	}
}

func TestContainersContinueByThemselvesWhileTheAPIServerIsAway(t *testing.T) {
	b := newBench(t)
	api := &line{open: map[net.Conn]bool{}}
	b.config.Client, b.deadline = api.config(b.config.Client), 5*time.Second-time.Minute
	pod, m := b.stuck()
	api.cut(true)
	b.continues(pod)
	api.cut(false)
	if r := b.sourceSays(m, v1alpha1.SourceFailed); r.Reason != v1alpha1.MigrationReasonFreezeExpired {
		t.Errorf("once it is back, the source says %s: %s, want reason %s", r.Reason, r.Message, v1alpha1.MigrationReasonFreezeExpired)
	}
}

// TestContainersWhoseCopyMayRunStayFrozen tests a deadline that passes while the agent cannot know whether
// the copy runs.
func TestContainersWhoseCopyMayRunStayFrozen(t *testing.T) {
	b := newBench(t)
	api := &line{open: map[net.Conn]bool{}}
	b.config.Client, b.deadline = api.config(b.config.Client), 5*time.Second-time.Minute
	b.start()
	pod := b.pod("work")
	b.shipped(pod)
	api.cut(true)
	for end := time.Now().Add(7 * time.Second); time.Now().Before(end); <-time.After(poll) {
		if !b.is("frozen", pod) {
			t.Fatal("the container continues, and its copy may run")
		}
	}
	api.cut(false)
}

// TestAnAgentThatEndsLetsContainersContinue checks that a stopped agent leaves no container frozen, and that its
// successor continues the migration: an updated agent comes back, and one whose DaemonSet is deleted does
// not.
func TestAnAgentThatEndsLetsContainersContinue(t *testing.T) {
	b := newBench(t)
	pod, m := b.stuck()
	frozenAt := m.Status.Source.FrozenAt
	b.stop()
	if b.is("frozen", pod) {
		t.Error("the container is frozen, and there is no agent")
	}
	b.config.Simulation.Model.ShipRate = 0
	b.start()
	b.targetSays(m, v1alpha1.TargetStaged)
	shipped := b.sourceSays(m, v1alpha1.SourceShipped)
	if !b.is("frozen", pod) {
		t.Error("the container runs after its state was taken")
	}
	if !frozenAt.Before(shipped.FrozenAt) {
		t.Errorf("it was frozen at %v, and then at %v: want later", frozenAt, shipped.FrozenAt)
	}
	b.order(m, v1alpha1.OrderKill)
	b.sourceSays(m, v1alpha1.SourceKilled)
	b.order(m, v1alpha1.OrderClean)
	b.targetSays(m, v1alpha1.TargetCleaned)
	b.nothingLeft()
}

// TestATargetThatCannotBeReachedIsFoundBeforeAnythingIsFrozen simulates a firewall.
func TestATargetThatCannotBeReachedIsFoundBeforeAnythingIsFrozen(t *testing.T) {
	b := newBench(t)
	b.start()
	m := b.migration(b.pod("work"))
	certificate := b.sourceSays(m, v1alpha1.SourcePrepared).Certificate
	b.write(m, func(s *v1alpha1.MigrationStatus) {
		s.Reservation = &v1alpha1.MigrationReservation{Node: "elsewhere", PodUID: "new", Time: metav1.Now()}
		s.Target = &v1alpha1.TargetReport{Node: "elsewhere", Step: v1alpha1.TargetPrepared, Time: metav1.NowMicro(), Address: "127.0.0.1:1", Certificate: certificate}
		s.Order = v1alpha1.OrderFreeze
	})
	if r := b.sourceSays(m, v1alpha1.SourceFailed); r.Reason != v1alpha1.MigrationReasonTransferFailed || r.FrozenAt != nil {
		t.Errorf("the source says %s: %s, frozen at %v; want reason TransferFailed and never frozen", r.Reason, r.Message, r.FrozenAt)
	}
}

func TestHealthTellsTheTruth(t *testing.T) {
	b := newBench(t)
	api := &line{open: map[net.Conn]bool{}}
	b.config.Client = api.config(b.config.Client)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.config.ServeAddress = listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var runtime error
	b.config.Runtime = func(context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		return runtime
	}
	says := func(path string, want int) {
		t.Helper()
		b.Eventually(path+" is "+http.StatusText(want), func() string {
			answer, err := http.Get("http://" + b.config.ServeAddress + path)
			if err != nil {
				return err.Error()
			}
			defer answer.Body.Close()
			if answer.StatusCode != want {
				return answer.Status
			}
			return ""
		})
	}
	b.start()
	says("/readyz", http.StatusOK)
	api.cut(true)
	says("/readyz", http.StatusServiceUnavailable)
	says("/healthz", http.StatusOK) // a restart of the agent would not bring the API server back
	api.cut(false)
	says("/readyz", http.StatusOK)
	mu.Lock()
	runtime = errors.New("it is down")
	mu.Unlock()
	says("/readyz", http.StatusServiceUnavailable)
}
