// Package agent is what runs on every node that containers leave or come to with their
// state. It carries out the orders of the Migrations that concern its node, and says in
// its part of their status how far it has come.
//
// It works like a controller: what it sees (the Migration, its ledger, the container)
// goes into a pure decision in [supercargo.dev/supercargo/descheduler/agent/decide],
// which names one thing to do. It does that and looks again. So it can be killed at any
// moment. What takes long runs beside and is cancelled when the order changes.
//
// The files follow that way: watch.go says which Migrations to look at, work.go looks
// and decides, source.go and target.go act, report.go writes the status; beside these
// node.go says what the node can do, sweep.go removes what was left, and serve.go shows
// metrics and health.
package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/descheduler/checkpoint/archive"
	"supercargo.dev/supercargo/descheduler/checkpoint/ledger"
	"supercargo.dev/supercargo/descheduler/checkpoint/restart"
	"supercargo.dev/supercargo/descheduler/checkpoint/simulated"
	"supercargo.dev/supercargo/descheduler/checkpoint/transport"
	"supercargo.dev/supercargo/internal/movable/capability"
)

// Config says how an agent runs. What is zero gets the default that is named; what has
// none must be given.
type Config struct {
	// Client reaches the API server.
	Client *rest.Config
	// Node is the node whose agent this is. Leave it empty for a simulation.
	Node string
	// Simulation plays nodes that run no containers; nil plays none.
	Simulation *Simulation
	// Backends makes the ways to take and to restore state. It may be nil for a
	// simulation.
	Backends func(checkpoint.PodReader) map[v1alpha1.MigrationBackend]checkpoint.Backend
	// Capability says what the node can do. It may be nil for a simulation.
	Capability func(context.Context, *corev1.Node) (capability.Node, error)
	// Runtime asks the container runtime whether it answers; nil asks none. The agent is
	// not ready while it does not.
	Runtime func(context.Context) error
	// Hardware says what the machine is made of, for the Node's annotation; nil says
	// nothing.
	Hardware func(*corev1.Node) (string, error)
	// Governor says which CPU governor the machine has, for the Node's annotation; empty for
	// none, and nil says nothing.
	Governor func() (string, error)
	// Restore puts back what a probe that died has left switched, and reports whether there
	// was something; nil looks for nothing. It is called every RestoreEvery.
	Restore func() (bool, error)
	// StateDir keeps the ledger, on a disk: it must be there after a restart. WorkDir
	// keeps dumps, best in memory, on a file system of its own with a limit. Nobody but
	// root may enter either.
	StateDir, WorkDir string
	// ListenAddress is where checkpoints are taken, as host:port; port 0 is a free one.
	ListenAddress string
	// AdvertiseHost is under which host other nodes reach that; empty means the node's
	// InternalIP, and 127.0.0.1 for a simulation.
	AdvertiseHost string
	// ServeAddress is where metrics and health are served, as host:port; empty is
	// nowhere.
	ServeAddress string
	// Limits bound what it takes.
	Limits Limits
	// Resync is how often everything in hand is looked at without being told to; 5 s.
	Resync time.Duration
	// SweepEvery is how often what has no owner is looked for and removed; 1 h.
	SweepEvery time.Duration
	// RestoreEvery is how often is looked for what a probe has left; 10 s.
	RestoreEvery time.Duration
	// Clock tells the time; the real one.
	Clock clock.WithTicker
	// Log takes what is worth a line.
	Log logr.Logger
}

// Simulation is which nodes are played, and how.
type Simulation struct {
	// Selector finds them by their labels.
	Selector labels.Selector
	// Model is how large and how fast things are.
	Model simulated.Model
}

// Limits bound what an agent takes of its node.
type Limits struct {
	// Moves is how many containers of a node may be dumped and shipped at once; 2. The
	// others run on meanwhile.
	Moves int
	// ImageBytes is how large one checkpoint may be; 8 GiB.
	ImageBytes int64
	// Images is how many staged images there may be on a node at once; 8.
	Images int
	// TotalBytes is how large all staged images may be together; 32 GiB.
	TotalBytes int64
	// Tries is how often a checkpoint is sent; 3.
	Tries int
	// Stalled is after how long without progress a transfer is cancelled; 10 s, or 10 min
	// in a simulation.
	Stalled time.Duration
}

// The defaults.
const (
	defaultMoves      = 2
	defaultImageBytes = 8 << 30
	defaultImages     = 8
	defaultTotalBytes = 32 << 30
	defaultTries      = 3
	defaultStalled    = 10 * time.Second
	simulatedStalled  = 10 * time.Minute
	defaultResync     = 5 * time.Second
	defaultSweep      = time.Hour
	defaultRestore    = 10 * time.Second

	// tryPause is how long the source waits before it sends a second time.
	tryPause = 300 * time.Millisecond
	// workers is how many Migrations are looked at at once. None of them waits for long.
	workers = 8
)

// withDefaults fills in what was left out.
func (c Config) withDefaults() Config {
	fill(&c.Limits.Moves, defaultMoves)
	fill(&c.Limits.ImageBytes, defaultImageBytes)
	fill(&c.Limits.Images, defaultImages)
	fill(&c.Limits.TotalBytes, defaultTotalBytes)
	fill(&c.Limits.Tries, defaultTries)
	if c.Simulation != nil { // a transfer that is simulated keeps it frozen for all of its time
		fill(&c.Limits.Stalled, simulatedStalled)
	}
	fill(&c.Limits.Stalled, defaultStalled)
	fill(&c.Resync, defaultResync)
	fill(&c.SweepEvery, defaultSweep)
	fill(&c.RestoreEvery, defaultRestore)
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if c.Simulation != nil && c.AdvertiseHost == "" {
		c.AdvertiseHost = "127.0.0.1"
	}
	return c
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// check says what cannot be left out.
func (c Config) check() error {
	var errs []error
	if c.Client == nil {
		errs = append(errs, errors.New("an agent needs a client configuration"))
	}
	if (c.Node == "") == (c.Simulation == nil) {
		errs = append(errs, errors.New("an agent is for one node, or for a simulation: give one of both"))
	}
	if c.Node != "" && (c.Backends == nil || c.Capability == nil) {
		errs = append(errs, errors.New("the agent of a node needs back-ends and somebody who says what it can do"))
	}
	if c.StateDir == "" || c.WorkDir == "" {
		errs = append(errs, errors.New("an agent needs a state folder and a work folder"))
	}
	if c.Limits.Moves < 0 || c.Limits.ImageBytes < 0 || c.Limits.Images < 0 || c.Limits.TotalBytes < 0 || c.Limits.Tries < 0 || c.Limits.Stalled < 0 {
		errs = append(errs, errors.New("no limit of an agent may be negative"))
	}
	return errors.Join(errs...)
}

// Agent is the agent of a node, or of all nodes of a simulation.
type Agent struct {
	Config
	api      client.WithWatch
	ledger   *ledger.Ledger
	backends map[v1alpha1.MigrationBackend]checkpoint.Backend
	metrics  *metrics
	queue    workqueue.TypedRateLimitingInterface[types.NamespacedName]
	nodes    *nodes
	health   *health
	port     string // of the listener

	mu       sync.Mutex
	jobs     map[ledger.ID]*job
	failures map[ledger.ID]*checkpoint.Failure // not reported yet
	crowded  map[types.NamespacedName]bool     // waiting for others to finish
	arrived  map[ledger.ID]int64               // bytes of checkpoints that are coming in
	freezing sync.Mutex                        // while it is seen whether one more may be frozen, and noted
	running  sync.WaitGroup                    // jobs
}

// New sets an agent up. It reads its ledger and makes its folders; nothing runs before
// Run.
func New(c Config) (*Agent, error) {
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("set up the agent: %w", err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, eventsv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("set up the agent: register kinds: %w", err)
		}
	}
	api, err := client.NewWithWatch(c.Client, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("set up the agent: reach the cluster: %w", err)
	}
	if err := os.MkdirAll(c.WorkDir, 0o700); err != nil {
		return nil, fmt.Errorf("set up the agent: make the work folder: %w", err)
	}
	memory, err := ledger.Open(filepath.Join(c.StateDir, "ledger"))
	if err != nil {
		return nil, fmt.Errorf("set up the agent: %w", err)
	}
	a := &Agent{
		Config: c, api: api, ledger: memory, metrics: newMetrics(),
		jobs: map[ledger.ID]*job{}, failures: map[ledger.ID]*checkpoint.Failure{}, crowded: map[types.NamespacedName]bool{},
		arrived: map[ledger.ID]int64{},
	}
	a.health = newHealth(c.Clock, c.Resync, c.Runtime)
	a.nodes = &nodes{agent: a, known: map[string]*corev1.Node{}}
	return a, a.addBackends()
}

// addBackends makes the ways to take and to restore state.
func (a *Agent) addBackends() error {
	a.backends = map[v1alpha1.MigrationBackend]checkpoint.Backend{}
	if a.Backends != nil {
		a.backends = a.Backends(a.pod)
	}
	if a.Simulation != nil {
		b, err := simulated.New(a.Simulation.Model, filepath.Join(a.StateDir, "simulated"), a.Clock, a.pod)
		if err != nil {
			return fmt.Errorf("set up the simulation: %w", err)
		}
		a.backends[v1alpha1.BackendRestart] = restart.New(a.pod)
		a.backends[v1alpha1.BackendSimulated] = checkpoint.Backend{Source: b, Target: b}
	}
	return nil
}

// pod reads a pod live.
func (a *Agent) pod(ctx context.Context, name types.NamespacedName) (*corev1.Pod, error) {
	var pod corev1.Pod
	if err := a.api.Get(ctx, name, &pod); err != nil {
		return nil, err
	}
	return &pod, nil
}

// Run runs the agent until ctx ends or something fails that a restart may mend. Containers
// whose state the target cannot have yet go on then, and are frozen again by an agent that
// is back. Others that are frozen stay so, and are found again.
func (a *Agent) Run(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", a.ListenAddress)
	if err != nil {
		return fmt.Errorf("listen for checkpoints at %s: %w", a.ListenAddress, err)
	}
	if _, a.port, err = net.SplitHostPort(listener.Addr().String()); err != nil {
		return errors.Join(fmt.Errorf("listen for checkpoints: %w", err), listener.Close())
	}
	a.queue = workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](50*time.Millisecond, 5*time.Second),
		workqueue.TypedRateLimitingQueueConfig[types.NamespacedName]{Clock: a.Clock})
	receiver := &transport.Receiver{
		Clock: a.Clock, Session: a.session, Take: a.take, Stalled: a.Limits.Stalled, Log: a.Log,
		// What does not compress grows by less than this.
		MaxWireBytes: a.Limits.ImageBytes + a.Limits.ImageBytes/64 + 1<<20,
		// The archive has headers beside what its files have.
		MaxBytes: a.Limits.ImageBytes + archive.MaxOverhead,
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return receiver.Serve(ctx, listener) })
	group.Go(func() error { return a.serve(ctx) })
	group.Go(func() error { return a.watch(ctx) })
	group.Go(func() error { return a.sweep(ctx) })
	group.Go(func() error { return a.restore(ctx) })
	for range workers {
		group.Go(func() error {
			for a.next(ctx) {
				continue
			}
			return nil
		})
	}
	group.Go(func() error {
		<-ctx.Done()
		a.queue.ShutDown()
		return nil
	})
	err = group.Wait()
	a.running.Wait()
	a.release(ctx)
	if err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("run the agent: %w", err)
	}
	return nil
}
