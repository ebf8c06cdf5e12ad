package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/descheduler/checkpoint/ledger"
	"supercargo.dev/supercargo/descheduler/checkpoint/transport"
	"supercargo.dev/supercargo/internal/movable/capability"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// TestAgentsThatRunFollowTheOrders without a test that reconciles.
func TestAgentsThatRunFollowTheOrders(t *testing.T) {
	c := newCluster(t, nil)
	m := c.move(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	for _, n := range []*node{c.from, c.to} {
		if err := c.api.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name}}); err != nil {
			t.Fatal(err)
		}
		n.stop()
		go func() { ended <- n.Run(ctx) }()
	}
	await := func(what string, done func(*v1alpha1.Migration) bool) {
		t.Helper()
		w, err := c.api.Watch(ctx, &v1alpha1.MigrationList{})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		if done(m.migration()) {
			return
		}
		late := time.After(time.Minute)
		for {
			select {
			case event := <-w.ResultChan():
				if now, ok := event.Object.(*v1alpha1.Migration); ok && done(now) {
					return
				}
			case <-late:
				t.Fatalf("the agents do not report %s: %+v", what, m.migration().Status.Source)
			}
		}
	}
	source := func(step v1alpha1.SourceStep) func(*v1alpha1.Migration) bool {
		return func(m *v1alpha1.Migration) bool { return m.Status.Source != nil && m.Status.Source.Step == step }
	}
	await("Prepared", func(m *v1alpha1.Migration) bool {
		return m.Status.Target != nil && m.Status.Target.Step == v1alpha1.TargetPrepared
	})
	patchOrder(t, m, v1alpha1.OrderFreeze)
	await("Shipped", source(v1alpha1.SourceShipped))
	m.wantContainer(checkpoint.Frozen)
	patchOrder(t, m, v1alpha1.OrderKill)
	await("Killed", source(v1alpha1.SourceKilled))
	m.wantContainer(checkpoint.Gone)
	for _, n := range []*node{c.from, c.to} {
		if err := n.health.ready(ctx); err != nil {
			t.Errorf("the agent of %s is not ready: %v", n.name, err)
		}
		var got corev1.Node
		if err := c.api.Get(ctx, client.ObjectKey{Name: n.name}, &got); err != nil || got.Annotations[v1alpha1.AnnotationCapability] == "" {
			t.Errorf("node %s has annotations %v (%v)", n.name, got.Annotations, err)
		}
	}
	cancel()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// patchOrder gives an order while the agents report.
func patchOrder(t *testing.T, m *moving, order v1alpha1.MigrationOrder) {
	t.Helper()
	before := m.migration()
	after := before.DeepCopy()
	after.Status.Order = order
	if err := m.api.Status().Patch(t.Context(), after, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

func TestAnAgentThatCannotListenSaysSo(t *testing.T) {
	c := newCluster(t, nil)
	c.from.ListenAddress = "127.0.0.1:" + c.to.port
	if err := c.from.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "listen for checkpoints at 127.0.0.1:"+c.to.port) {
		t.Errorf("error %v", err)
	}
}

func TestAConfigurationIsCheckedAndCompleted(t *testing.T) {
	good := Config{
		Client: &rest.Config{}, Node: "n", StateDir: t.TempDir(), WorkDir: filepath.Join(t.TempDir(), "work"),
		Backends:   func() map[v1alpha1.MigrationBackend]checkpoint.Backend { return nil },
		Capability: func(context.Context, *corev1.Node) (capability.Node, error) { return capability.Node{}, nil },
	}
	simulation := good
	simulation.Node, simulation.Backends, simulation.Capability, simulation.Simulation = "", nil, nil, &Simulation{Selector: labels.Everything()}
	for name, tc := range map[string]struct {
		from   Config
		change func(*Config)
		want   string // empty for no error
	}{
		"complete":                    {good, func(*Config) {}, ""},
		"of a simulation":             {simulation, func(*Config) {}, ""},
		"without a client":            {good, func(c *Config) { c.Client = nil }, "the client configuration is required"},
		"without a node":              {good, func(c *Config) { c.Node = "" }, "exactly one of a node name and a simulation"},
		"with both":                   {simulation, func(c *Config) { c.Node = "n" }, "exactly one of a node name and a simulation"},
		"without back-ends":           {good, func(c *Config) { c.Backends = nil }, "the back-ends of the node"},
		"without a capability":        {good, func(c *Config) { c.Capability = nil }, "returns its capability are required"},
		"without a state folder":      {good, func(c *Config) { c.StateDir = "" }, "the state folder and the work folder are required"},
		"with negative limits":        {good, func(c *Config) { c.Limits.Images = -1 }, "limits must not be negative"},
		"whose work folder is a file": {good, func(c *Config) { c.WorkDir = file(t) }, "create the work folder"},
		"whose ledger is a file":      {good, func(c *Config) { c.StateDir = file(t) }, "ledger"},
		"whose model is out of range": {simulation, func(c *Config) { c.Simulation = &Simulation{}; c.Simulation.Model.DumpRate = -1 }, "set up the simulation"},
	} {
		t.Run(name, func(t *testing.T) {
			c := tc.from
			tc.change(&c)
			a, err := New(c)
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("error %v, want %q", err, tc.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if want := (Limits{Moves: 2, ImageBytes: 8 << 30, Images: 8, TotalBytes: 32 << 30, Tries: 3, Stalled: a.Limits.Stalled}); a.Limits != want || a.Resync != 5*time.Second {
				t.Errorf("limits %+v and resync %s", a.Limits, a.Resync)
			}
			simulated := c.Simulation != nil
			if want := map[bool]time.Duration{false: 10 * time.Second, true: 10 * time.Minute}[simulated]; a.Limits.Stalled != want || (a.AdvertiseHost == "127.0.0.1") != simulated {
				t.Errorf("stalled after %s at host %q", a.Limits.Stalled, a.AdvertiseHost)
			}
		})
	}
}

func file(t *testing.T) string {
	t.Helper()
	return testfile.New(t, "file", "")
}

// TestATargetReceivesOnlyWhatIsExpectedOfItNow by the Migration as it is, not as it was.
func TestATargetReceivesOnlyWhatIsExpectedOfItNow(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*v1alpha1.MigrationStatus)
		want   bool
	}{
		"it is ordered":             {func(*v1alpha1.MigrationStatus) {}, true},
		"it is not ordered yet":     {func(s *v1alpha1.MigrationStatus) { s.Order = v1alpha1.OrderPrepare }, false},
		"it was called off":         {func(s *v1alpha1.MigrationStatus) { s.Order = v1alpha1.OrderThaw }, false},
		"another node has the room": {func(s *v1alpha1.MigrationStatus) { s.Reservation.Node = "third" }, false},
		"no node has":               {func(s *v1alpha1.MigrationStatus) { s.Reservation = nil }, false},
		"no source has reported":    {func(s *v1alpha1.MigrationStatus) { s.Source = nil }, false},
		"the migration has finished": {func(s *v1alpha1.MigrationStatus) {
			s.Conditions = []metav1.Condition{{Type: v1alpha1.MigrationFinished, Status: metav1.ConditionTrue}}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, nil)
			m := c.move(t, nil)
			m.carryOut(v1alpha1.OrderPrepare)
			m.order(v1alpha1.OrderFreeze)
			certificate := m.migration().Status.Source.Certificate
			m.change(tc.change)
			s, ok := c.to.session(t.Context(), m.uid, "to")
			if ok != tc.want || ok && (s.Peer != certificate || !s.Until.Equal(noon.Add(deadline+certificateGrace))) {
				t.Errorf("expected %v as %+v, want %v", ok, s, tc.want)
			}
			if _, ok := c.to.session(t.Context(), "other", "to"); ok {
				t.Error("a checkpoint of an unknown migration is expected")
			}
			c.away = errors.New("away")
			if _, ok := c.to.session(t.Context(), m.uid, "to"); ok {
				t.Error("a checkpoint is expected although the Migration cannot be read")
			}
		})
	}
}

// received is a checkpoint that has arrived.
type received struct {
	io.Reader
	sum     string
	aborted bool
}

func (r *received) Sum() string { return r.sum }
func (r *received) Abort()      { r.aborted = true }

// TestACheckpointIsStagedOnce: a source that lost the answer sends it again; no other is accepted.
func TestACheckpointIsStagedOnce(t *testing.T) {
	c := newCluster(t, nil)
	m := c.move(t, nil)
	m.carryOut(v1alpha1.OrderPrepare)
	m.carryOut(v1alpha1.OrderFreeze)
	entry, _ := m.entry(ledger.TargetRole)
	session := transport.Session{Migration: m.uid, Node: "to"}
	receipt, err := c.to.take(t.Context(), session, &received{Reader: strings.NewReader("again"), sum: entry.Sum})
	if err != nil || receipt != (transport.Receipt{Sum: entry.Sum, Digest: entry.Staged.Digest, Bytes: memory}) {
		t.Errorf("the same again gives %+v (%v)", receipt, err)
	}
	_, err = c.to.take(t.Context(), session, &received{Reader: strings.NewReader("other"), sum: "xxh64:other"})
	if f := checkpoint.AsFailure(err); f == nil || f.Reason != v1alpha1.MigrationReasonInvalidArchive {
		t.Errorf("another gives %v", err)
	}
	broken := errors.New("the connection broke")
	_, err = c.to.take(t.Context(), session, &received{Reader: io.MultiReader(strings.NewReader("ag"), failing{broken})})
	if !errors.Is(err, broken) {
		t.Errorf("a broken one gives %v", err)
	}
	c.settled(t)
	m.wantSteps(v1alpha1.SourceShipped, v1alpha1.TargetStaged) // what is staged stays
	if stages := len(slices.DeleteFunc(c.to.backend.calls(), func(s string) bool { return s != "Stage" })); stages != 1 {
		t.Errorf("staged %d times, want once", stages)
	}
	if _, err := c.to.take(t.Context(), transport.Session{Migration: "other", Node: "to"}, &received{}); !errors.Is(err, transport.ErrNotNow) {
		t.Errorf("one that is not expected gives %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// TestARetryOfTheSourceReplacesItsEarlierTry, whose connection may not have ended.
func TestARetryOfTheSourceReplacesItsEarlierTry(t *testing.T) {
	c := newCluster(t, nil)
	m := c.move(t, nil)
	m.carryOut(v1alpha1.OrderPrepare)
	entered := c.to.backend.blocks("Stage")
	session := transport.Session{Migration: m.uid, Node: "to"}
	first := make(chan error, 1)
	go func() {
		_, err := c.to.take(t.Context(), session, &received{Reader: strings.NewReader("")})
		first <- err
	}()
	<-entered
	late, cancel := context.WithCancelCause(t.Context())
	no := errors.New("the second try ended, too")
	cancel(no)
	if _, err := c.to.take(late, session, &received{Reader: strings.NewReader("")}); err == nil {
		t.Error("a try that ended is staged")
	}
	if err := <-first; err == nil || !strings.Contains(err.Error(), "the source retries") {
		t.Errorf("the first try ends with %v", err)
	}
}

// TestNodesAreReachedAtTheirAddress in the absence of one that is given.
func TestNodesAreReachedAtTheirAddress(t *testing.T) {
	a := &Agent{port: "7"}
	n := &nodes{agent: a, known: map[string]*corev1.Node{
		"good": {Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "h"}, {Type: corev1.NodeInternalIP, Address: "fd00::1"}}}},
		"bad":  {},
	}}
	for name, want := range map[string]string{"good": "[fd00::1]:7", "bad": "", "unknown": ""} {
		if got, err := n.address(name); got != want || (err == nil) != (want != "") {
			t.Errorf("node %s: %q (%v), want %q", name, got, err, want)
		}
	}
	a.AdvertiseHost = "given"
	if got, err := n.address("bad"); got != "given:7" || err != nil {
		t.Errorf("%q (%v), want given:7", got, err)
	}
}

// TestASimulationHasTheNodesThatItSelects and no others.
func TestASimulationHasTheNodesThatItSelects(t *testing.T) {
	selector := labels.SelectorFromSet(labels.Set{"simulated": "yes"})
	a := &Agent{Config: Config{Simulation: &Simulation{Selector: selector}}}
	a.nodes = &nodes{agent: a, known: map[string]*corev1.Node{"one": {}}}
	if !a.nodes.mine("one") || a.nodes.mine("two") || len(a.selectors()) != 1 || !a.selectors()[0].Empty() {
		t.Error("it does not follow all Migrations of its nodes")
	}
	for value, want := range map[string]bool{"yes": true, "no": false} {
		if got := a.isNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"simulated": value}}}); got != want {
			t.Errorf("a node with label %q is simulated: %v, want %v", value, got, want)
		}
	}
}

// TestAReadinessCheckSaysWhyAnAgentIsNotReady, most important first.
func TestAReadinessCheckSaysWhyAnAgentIsNotReady(t *testing.T) {
	h := newHealth(clock.RealClock{}, time.Minute, nil)
	wantError := func(part string) {
		t.Helper()
		if err := h.ready(t.Context()); (err == nil) != (part == "") || err != nil && !strings.Contains(err.Error(), part) {
			t.Errorf("error %v, want %q", err, part)
		}
	}
	wantError("the agent is starting")
	h.follows(func() bool { return true })
	wantError("")
	away := errors.New("away")
	if err := h.recordAccess(t.Context(), away); err != away { //nolint:errorlint // the very same
		t.Errorf("error %v", err)
	}
	wantError("away")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_ = h.recordAccess(ended, nil) // the agent shuts down: that says nothing
	wantError("away")
	_ = h.recordAccess(t.Context(), nil)
	wantError("")
}

// TestGovernorsOfDeadProbesAreRestored at each interval until the agent ends, in a bubble whose
// time passes at once.
func TestGovernorsOfDeadProbesAreRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		start, calls := time.Now(), []string{}
		a := &Agent{Config: Config{Clock: clock.RealClock{}, RestoreEvery: 10 * time.Second, Log: logr.Discard(), Restore: func() (bool, error) {
			calls = append(calls, fmt.Sprint(time.Since(start)))
			switch len(calls) {
			case 1:
				return false, errors.New("no rights")
			case 3:
				cancel()
			}
			return true, nil
		}}}
		if err := a.restore(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		if want := []string{"0s", "10s", "20s"}; !slices.Equal(calls, want) {
			t.Errorf("restored after %v, want %v", calls, want)
		}
	})
}
