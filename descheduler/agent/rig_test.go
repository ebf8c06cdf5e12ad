package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/agent/agentdecide"
	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/descheduler/checkpoint/ledger"
	"supercargo.dev/supercargo/descheduler/checkpoint/restoreapi"
	"supercargo.dev/supercargo/descheduler/checkpoint/simulated"
	"supercargo.dev/supercargo/internal/movable/capability"
	"supercargo.dev/supercargo/test/kit/testapi"
)

// noon is when each test starts: later than now, since deadlines of sockets use the machine's clock.
var noon = time.Date(2100, 1, 1, 12, 0, 0, 0, time.UTC)

const (
	deadline = 10 * time.Minute // of each Migration, after noon
	memory   = 1000             // bytes of each container
)

// stepClock shows a time that a test sets. Its timers are real.
type stepClock struct {
	clock.RealClock
	time *clocktesting.FakePassiveClock
}

func (c stepClock) Now() time.Time                  { return c.time.Now() }
func (c stepClock) Since(t time.Time) time.Duration { return c.time.Since(t) }

func (c stepClock) step(d time.Duration) { c.time.SetTime(c.time.Now().Add(d)) }

// scripted is the simulated back-end, whose methods a test can have fail or wait.
type scripted struct {
	*simulated.Backend

	mu     sync.Mutex
	called []string
	// interrupted are the Migrations whose dumps were interrupted, in order.
	interrupted []string
	first       map[string]func(context.Context) error // called first, by method
	volumes     int64                                  // bytes in the volumes of each container
}

func (b *scripted) call(ctx context.Context, method string) error {
	b.mu.Lock()
	b.called = append(b.called, method)
	first := b.first[method]
	b.mu.Unlock()
	if first != nil {
		return first(ctx)
	}
	return nil
}

// on sets what a method calls first; its error is the method's.
func (b *scripted) on(method string, first func(context.Context) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.first[method] = first
}

// fails has a method return an error.
func (b *scripted) fails(method string, err error) {
	b.on(method, func(context.Context) error { return err })
}

// blocks has a method wait until its context ends. The returned channel is closed when it waits.
func (b *scripted) blocks(method string) <-chan struct{} {
	entered, once := make(chan struct{}), sync.Once{}
	b.on(method, func(ctx context.Context) error {
		once.Do(func() { close(entered) })
		<-ctx.Done()
		return context.Cause(ctx)
	})
	return entered
}

// calls returns the methods that changed something, in order.
func (b *scripted) calls() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.called)
}

func (b *scripted) Inspect(ctx context.Context, c checkpoint.Container) (checkpoint.Facts, error) {
	if err := b.call(ctx, "Inspect"); err != nil {
		return checkpoint.Facts{}, err
	}
	facts, err := b.Backend.Inspect(ctx, c)
	facts.VolumeBytes = b.volumes
	return facts, err
}

func (b *scripted) Freeze(ctx context.Context, c checkpoint.Container) error {
	if err := b.call(ctx, "Freeze"); err != nil {
		return err
	}
	return b.Backend.Freeze(ctx, c)
}

func (b *scripted) Thaw(ctx context.Context, c checkpoint.Container) error {
	if err := b.call(ctx, "Thaw"); err != nil {
		return err
	}
	return b.Backend.Thaw(ctx, c)
}

func (b *scripted) Kill(ctx context.Context, c checkpoint.Container) error {
	if err := b.call(ctx, "Kill"); err != nil {
		return err
	}
	return b.Backend.Kill(ctx, c)
}

func (b *scripted) Dump(ctx context.Context, c checkpoint.Container, dir string) (int64, error) {
	if err := b.call(ctx, "Dump"); err != nil {
		return 0, err
	}
	return b.Backend.Dump(ctx, c, dir)
}

// Interrupt is not listed: it is called before whatever has to find no dump.
func (b *scripted) Interrupt(ctx context.Context, _ checkpoint.Container, dir string) error {
	b.mu.Lock()
	b.interrupted = append(b.interrupted, filepath.Base(dir))
	first := b.first["Interrupt"]
	b.mu.Unlock()
	if first != nil {
		return first(ctx)
	}
	return nil
}

func (b *scripted) Archive(ctx context.Context, c checkpoint.Container, dir string, w io.Writer) error {
	if err := b.call(ctx, "Archive"); err != nil {
		return err
	}
	return b.Backend.Archive(ctx, c, dir, w)
}

func (b *scripted) Forget(ctx context.Context, c checkpoint.Container, dir string) error {
	if err := b.call(ctx, "Forget"); err != nil {
		return err
	}
	return b.Backend.Forget(ctx, c, dir)
}

func (b *scripted) Able(ctx context.Context, i checkpoint.Image) error { return b.call(ctx, "Able") }

func (b *scripted) Stage(ctx context.Context, i checkpoint.Image, tar checkpoint.Verified) (checkpoint.Staged, error) {
	if err := b.call(ctx, "Stage"); err != nil {
		return checkpoint.Staged{}, err
	}
	return b.Backend.Stage(ctx, i, tar)
}

func (b *scripted) Give(ctx context.Context, i checkpoint.Image, id string) (restoreapi.Answer, error) {
	if err := b.call(ctx, "Give"); err != nil {
		return restoreapi.Answer{}, err
	}
	return restoreapi.Answer{Images: "/staged/" + i.Migration}, nil
}

func (b *scripted) Remove(ctx context.Context, i checkpoint.Image) error {
	if err := b.call(ctx, "Remove"); err != nil {
		return err
	}
	return b.Backend.Remove(ctx, i)
}

// node is a node with its agent. The agent does nothing by itself: tests reconcile.
type node struct {
	*Agent
	name    string
	backend *scripted
	config  Config
	stop    func() // stops receiving
}

// cluster has two nodes, "from" and "to", and an API server that can be away.
type cluster struct {
	api      client.WithWatch
	away     error // what each call of the API server returns; nil for its answer
	clock    stepClock
	from, to *node
	keys     []types.NamespacedName // of the Migrations
}

// newCluster returns a cluster. change, which may be nil, changes the configuration of both agents.
func newCluster(t *testing.T, change func(*Config)) *cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), eventsv1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	c := &cluster{clock: stepClock{time: clocktesting.NewFakePassiveClock(noon)}}
	c.api = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.Migration{}).
		WithIndex(&v1alpha1.Migration{}, "status.plan.sourceNode", func(o client.Object) []string { return []string{o.(*v1alpha1.Migration).Status.Plan.SourceNode} }).
		WithIndex(&v1alpha1.Migration{}, "status.reservation.node", func(o client.Object) []string {
			return []string{o.(*v1alpha1.Migration).Status.Reservation.Node}
		}).
		WithIndex(&corev1.Node{}, "metadata.name", func(o client.Object) []string { return []string{o.GetName()} }).
		WithInterceptorFuncs(interceptor.Funcs{Watch: func(ctx context.Context, api client.WithWatch, list client.ObjectList, options ...client.ListOption) (watch.Interface, error) {
			var all client.ListOptions
			if all.ApplyOptions(options); all.Raw != nil && all.Raw.SendInitialEvents != nil {
				return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil) // the client lists first instead
			}
			return api.Watch(ctx, list, options...)
		}, Get: func(ctx context.Context, api client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if c.away != nil {
				return c.away
			}
			return api.Get(ctx, key, o, options...)
		}}).Build()
	c.from, c.to = c.node(t, "from", change), c.node(t, "to", change)
	return c
}

// pod reads a pod from the API server.
func (c *cluster) pod(ctx context.Context, name types.NamespacedName) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	return pod, c.api.Get(ctx, name, pod)
}

func (c *cluster) node(t *testing.T, name string, change func(*Config)) *node {
	t.Helper()
	n := &node{name: name, stop: func() {}}
	n.config = Config{
		Node: name, StateDir: t.TempDir(), WorkDir: t.TempDir(), ListenAddress: "127.0.0.1:0", AdvertiseHost: "127.0.0.1",
		Limits: Limits{Tries: 1}, Clock: c.clock, Log: logr.Discard(),
		Capability: func(context.Context, *corev1.Node) (capability.Node, error) {
			return capability.Node{Restore: true}, nil
		},
		Backends: func() map[v1alpha1.MigrationBackend]checkpoint.Backend {
			b, err := simulated.New(simulated.Model{MemoryFactor: 1}, filepath.Join(n.config.StateDir, "simulated"), c.clock, c.pod)
			if err != nil {
				t.Fatal(err)
			}
			n.backend.Backend = b
			both := checkpoint.Backend{Source: n.backend, Target: n.backend}
			return map[v1alpha1.MigrationBackend]checkpoint.Backend{v1alpha1.BackendSimulated: both, v1alpha1.BackendContainerd: both}
		},
	}
	if change != nil {
		change(&n.config)
	}
	n.config = n.config.withDefaults()
	c.start(t, n)
	t.Cleanup(func() { n.stop() })
	return n
}

// start starts a node's agent, which knows only what is on its disk.
func (c *cluster) start(t *testing.T, n *node) {
	t.Helper()
	n.stop()
	n.backend = &scripted{first: map[string]func(context.Context) error{}}
	var err error
	if n.Agent, err = assemble(n.config, c.api); err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	receiver, err := n.receiver(listener)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = receiver.Serve(ctx, listener) // it ends with ctx
	}()
	n.stop = sync.OnceFunc(func() {
		cancel()
		<-ended
		n.queue.ShutDown()
	})
}

// uidOf returns the UID of the Migration with a number.
func uidOf(number int) types.UID {
	return types.UID(fmt.Sprintf("0f0e0d0c-0000-4000-8000-%012d", number))
}

// move creates a pod on the node "from", and its Migration to the node "to". change, which may be
// nil, changes both before they are created.
func (c *cluster) move(t *testing.T, change func(*corev1.Pod, *v1alpha1.Migration)) *moving {
	t.Helper()
	number := len(c.keys) + 1
	name := fmt.Sprintf("work-%d", number)
	meta := metav1.ObjectMeta{Namespace: "jobs", Name: name, UID: types.UID("pod-" + name)}
	pod := &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{NodeName: "from", Containers: []corev1.Container{{
		Name: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(memory, resource.BinarySI)}},
	}}}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	meta.UID = uidOf(number)
	m := &v1alpha1.Migration{ObjectMeta: meta, Spec: v1alpha1.MigrationSpec{PodName: name}, Status: v1alpha1.MigrationStatus{
		Order: v1alpha1.OrderPrepare, Reservation: &v1alpha1.MigrationReservation{Node: "to", PodUID: "new-" + name},
		Plan: &v1alpha1.MigrationPlan{
			SourceNode: "from", PodUID: string(pod.UID), Container: "main", ContainerID: "c" + name, Backend: v1alpha1.BackendSimulated, RestoredPod: newPodOf(name),
			DeadlineAt: metav1.NewTime(noon.Add(deadline)),
		},
	}}
	if change != nil {
		change(pod, m)
	}
	for _, o := range []client.Object{pod, m} {
		testapi.Create(t, c.api, o)
	}
	key := types.NamespacedName{Namespace: "jobs", Name: name}
	c.keys = append(c.keys, key)
	return &moving{cluster: c, t: t, key: key, uid: string(uidOf(number)), backend: m.Status.Plan.Backend}
}

// newPodOf returns the name of the new pod of a pod. Tests that need it create it.
func newPodOf(name string) string { return name + "-m" }

// rest waits until no action runs. It does not use the agent's wait group, which may not be waited for while
// the other agent can still begin an action here.
func (n *node) rest() {
	for {
		n.mu.Lock()
		var running *job
		for _, j := range n.jobs {
			running = j
		}
		n.mu.Unlock()
		if running == nil {
			return
		}
		<-running.done
	}
}

// settle reconciles all Migrations on both nodes until nothing changes any more, and returns the
// errors of the last round.
func (c *cluster) settle(t *testing.T) error {
	t.Helper()
	before := ""
	for range 50 {
		var errs []error
		for _, n := range []*node{c.from, c.to} {
			for _, key := range c.keys {
				errs = append(errs, n.reconcile(t.Context(), key))
			}
			n.rest()
		}
		now := c.snapshot(t)
		if now == before {
			return errors.Join(errs...)
		}
		before = now
	}
	t.Fatalf("the agents do not come to rest: %s", before)
	return nil
}

// snapshot returns all that the agents can have changed.
func (c *cluster) snapshot(t *testing.T) string {
	t.Helper()
	var list v1alpha1.MigrationList
	testapi.List(t, c.api, &list)
	all := []any{list.Items}
	for _, n := range []*node{c.from, c.to} {
		entries := n.ledger.All()
		slices.SortFunc(entries, func(a, b ledger.Entry) int { return strings.Compare(a.Migration, b.Migration) })
		n.mu.Lock()
		all = append(all, entries, n.backend.calls(), len(n.failures))
		n.mu.Unlock()
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// settled is settle, and no error.
func (c *cluster) settled(t *testing.T) {
	t.Helper()
	if err := c.settle(t); err != nil {
		t.Error(err)
	}
}

// until reconciles on both nodes until a back-end waits in a method that blocks.
func (c *cluster) until(t *testing.T, entered <-chan struct{}) {
	t.Helper()
	for range 50 {
		for _, n := range []*node{c.from, c.to} {
			for _, key := range c.keys {
				if err := n.reconcile(t.Context(), key); err != nil {
					t.Error(err)
				}
			}
			idle := make(chan struct{})
			go func() {
				n.rest()
				close(idle)
			}()
			select {
			case <-entered:
				return
			case <-idle:
			}
		}
	}
	t.Fatal("the method is not called")
}

// step reconciles once on the source, and waits for what that starts, but not for an action that
// blocks.
func (m *moving) step(blocked agentdecide.Action) error {
	m.t.Helper()
	err := m.from.reconcile(m.t.Context(), m.key)
	m.from.mu.Lock()
	j := m.from.jobs[ledger.ID{Migration: m.uid, Node: "from", Role: ledger.SourceRole}]
	m.from.mu.Unlock()
	if j != nil && j.action != blocked {
		<-j.done
	}
	return err
}

// moving is a pod that moves.
type moving struct {
	*cluster
	t       *testing.T
	key     types.NamespacedName
	uid     string
	backend v1alpha1.MigrationBackend
}

func (m *moving) migration() *v1alpha1.Migration {
	m.t.Helper()
	var got v1alpha1.Migration
	testapi.Get(m.t, m.api, m.key, &got)
	return &got
}

// change changes the Migration's status as the controller would.
func (m *moving) change(change func(*v1alpha1.MigrationStatus)) {
	m.t.Helper()
	got := m.migration()
	change(&got.Status)
	if err := m.api.Status().Update(m.t.Context(), got); err != nil {
		m.t.Fatal(err)
	}
}

// order gives an order without waiting.
func (m *moving) order(order v1alpha1.MigrationOrder) {
	m.t.Helper()
	m.change(func(s *v1alpha1.MigrationStatus) { s.Order = order })
}

// carryOut gives an order and waits until both agents have done all they can.
func (m *moving) carryOut(order v1alpha1.MigrationOrder) {
	m.t.Helper()
	m.order(order)
	m.settled(m.t)
}

// container returns the container that moves.
func (m *moving) container() checkpoint.Container {
	return checkpoint.Container{Node: "from", Namespace: "jobs", Pod: m.key.Name, PodUID: "pod-" + m.key.Name, Name: "main", ID: "c" + m.key.Name}
}

// image returns the image that is staged.
func (m *moving) image() checkpoint.Image {
	return checkpoint.Image{Node: "to", Container: "main", Migration: m.uid, Pod: "new-" + m.key.Name}
}

// entry returns the ledger's entry of a role.
func (m *moving) entry(role ledger.Role) (ledger.Entry, bool) {
	if role == ledger.SourceRole {
		return m.from.ledger.Get(ledger.ID{Migration: m.uid, Node: "from", Role: role})
	}
	return m.to.ledger.Get(ledger.ID{Migration: m.uid, Node: "to", Role: role})
}

// wantImage checks that the target has the checkpoint.
func (m *moving) wantImage() {
	m.t.Helper()
	if has, err := m.to.backend.Has(m.t.Context(), m.image()); !has || err != nil {
		m.t.Errorf("the target has the image: %v (%v)", has, err)
	}
}

// wantContainer checks the state of the container.
func (m *moving) wantContainer(want checkpoint.State) {
	m.t.Helper()
	if got, err := m.from.backend.State(m.t.Context(), m.container()); err != nil || got != want {
		m.t.Errorf("the container is %s (%v), want %s", got, err, want)
	}
}

// wantSteps checks the last steps that the agents reported.
func (m *moving) wantSteps(source v1alpha1.SourceStep, target v1alpha1.TargetStep) {
	m.t.Helper()
	status, gotSource, gotTarget := m.migration().Status, v1alpha1.SourceStep(""), v1alpha1.TargetStep("")
	if status.Source != nil {
		gotSource = status.Source.Step
	}
	if status.Target != nil {
		gotTarget = status.Target.Step
	}
	if gotSource != source || gotTarget != target {
		m.t.Errorf("reported %q by the source and %q by the target, want %q and %q", gotSource, gotTarget, source, target)
	}
}

// wantFailure checks that the source or the target reported a failure, and made an Event of it.
func (m *moving) wantFailure(role ledger.Role, reason, part string) {
	m.t.Helper()
	status := m.migration().Status
	var step, gotReason, message string
	if role == ledger.SourceRole && status.Source != nil {
		step, gotReason, message = string(status.Source.Step), status.Source.Reason, status.Source.Message
	}
	if role == ledger.TargetRole && status.Target != nil {
		step, gotReason, message = string(status.Target.Step), status.Target.Reason, status.Target.Message
	}
	if step != "Failed" || gotReason != reason || !strings.Contains(message, part) {
		m.t.Errorf("the %s reports %q, %q, %q, want a failure %q with %q", role, step, gotReason, message, reason, part)
	}
	var events eventsv1.EventList
	testapi.List(m.t, m.api, &events)
	if !slices.ContainsFunc(events.Items, func(e eventsv1.Event) bool {
		return e.Reason == reason && e.Regarding.Name == m.key.Name && e.Type == corev1.EventTypeWarning
	}) {
		m.t.Errorf("there is no Event %s for %s", reason, m.key.Name)
	}
}

// wantNothingLeft checks that neither agent has kept anything.
func (m *moving) wantNothingLeft() {
	m.t.Helper()
	for _, n := range []*node{m.from, m.to} {
		for _, entry := range n.ledger.All() {
			if entry.Migration == m.uid {
				m.t.Errorf("the ledger of %s has %+v", n.name, entry)
			}
		}
	}
	if dumps, err := filepath.Glob(filepath.Join(m.from.WorkDir, "*")); err != nil || len(dumps) > 0 {
		m.t.Errorf("the dumps %q are left (%v)", dumps, err)
	}
	if has, err := m.to.backend.Has(m.t.Context(), m.image()); has || err != nil {
		m.t.Errorf("the image is left: %v (%v)", has, err)
	}
}

// frozen reports whether the container was ever frozen.
func (m *moving) frozen() bool { return slices.Contains(m.from.backend.calls(), "Freeze") }

// interrupt ends the running action of the source, as a killed agent does.
func (m *moving) interrupt() {
	m.from.cancel(ledger.ID{Migration: m.uid, Node: "from", Role: ledger.SourceRole})
	m.from.rest()
}

// deleteMigration deletes the Migration.
func (m *moving) deleteMigration() {
	m.t.Helper()
	if err := m.api.Delete(m.t.Context(), m.migration()); err != nil && !apierrors.IsNotFound(err) {
		m.t.Fatal(err)
	}
}
