// Package agent runs on every node that containers leave, or come to, with their state. It
// carries out the orders of the Migrations that concern its node, and reports its progress in its
// part of their status.
//
// It works like a controller. The observed state (the Migration, its ledger, the container) is
// the input of a pure decision in [supercargo.dev/supercargo/descheduler/agent/agentdecide], which
// returns one action. The agent does it and observes again, so it can be killed at any moment.
// Long actions run in the background, and are cancelled when the order changes.
//
// Files: watch.go selects the Migrations, work.go observes and decides, source.go and target.go
// act, presend.go and keep.go send and keep memory before the freeze, give.go answers the container runtime, report.go writes the status, node.go annotates the node with its capability, sweep.go
// removes leftovers, and serve.go serves metrics and health.
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
	"supercargo.dev/supercargo/descheduler/checkpoint/restoreapi"
	"supercargo.dev/supercargo/descheduler/checkpoint/simulated"
	"supercargo.dev/supercargo/descheduler/checkpoint/transport"
	"supercargo.dev/supercargo/internal/movable/capability"
)

// Config configures an agent. A zero field gets the default in its comment; a field without a
// default is required.
type Config struct {
	// Client connects to the API server.
	Client *rest.Config
	// Node is the node of this agent. It is empty in a simulation.
	Node string
	// Simulation simulates nodes that run no containers; nil for none.
	Simulation *Simulation
	// Backends returns the back-ends that take and restore state. It may be nil in a simulation.
	Backends func() map[v1alpha1.MigrationBackend]checkpoint.Backend
	// Capability returns what the node can do. It may be nil in a simulation.
	Capability func(context.Context, *corev1.Node) (capability.Node, error)
	// Runtime returns an error if the container runtime does not answer; nil for no check. While
	// it fails, the agent is not ready.
	Runtime func(context.Context) error
	// Hardware describes the machine, for the Node's annotation; nil writes no annotation.
	Hardware func(*corev1.Node) (string, error)
	// Governor returns the machine's CPU governor for the Node's annotation, or "" if it has
	// none; nil writes no annotation.
	Governor func() (string, error)
	// Restore restores the CPU governors that a dead probe changed, and reports whether there
	// were any. It is called every RestoreEvery; nil for never.
	Restore func() (bool, error)
	// StateDir holds the ledger. It must be on disk, because the ledger must survive a restart.
	// WorkDir holds dumps, best on a tmpfs of its own with a size limit. Only root may enter
	// them.
	StateDir, WorkDir string
	// FreeMemory returns the memory of the node that a dump may use, in bytes; nil if a work folder is not in memory.
	FreeMemory func() (int64, error)
	// RestoreFolder is the folder that the agent shares with the container runtime; empty for none.
	RestoreFolder restoreapi.Folder
	// PresendAbove is the memory, in bytes, from which on that of a container is sent before it is frozen too; 0 for never.
	PresendAbove int64
	// ListenAddress is the host:port to receive checkpoints on; port 0 is any free port.
	ListenAddress string
	// AdvertiseHost is the host at which other nodes reach ListenAddress. The default is the
	// node's InternalIP, or 127.0.0.1 in a simulation.
	AdvertiseHost string
	// ServeAddress is the host:port for metrics and health; empty for none.
	ServeAddress string
	// Limits bounds the agent's use of its node.
	Limits Limits
	// Resync is how often all ledger entries are requeued; 5 s.
	Resync time.Duration
	// SweepEvery is how often leftovers without an owner are removed; 1 h.
	SweepEvery time.Duration
	// RestoreEvery is how often Restore is called; 10 s.
	RestoreEvery time.Duration
	// Clock is the real clock by default.
	Clock clock.WithTicker
	// Log receives the agent's log.
	Log logr.Logger
}

// Simulation selects the nodes to simulate, and how.
type Simulation struct {
	// Selector selects nodes by their labels.
	Selector labels.Selector
	// Model sets the sizes and speeds.
	Model simulated.Model
}

// Limits bounds an agent's use of its node.
type Limits struct {
	// Moves is how many containers of a node may be dumped and shipped at the same time; 2.
	// Others keep running until it is their turn.
	Moves int
	// ImageBytes is the maximum size of a checkpoint; 8 GiB.
	ImageBytes int64
	// Images is the maximum number of staged images on a node; 8.
	Images int
	// TotalBytes is the maximum total size of staged images on a node; 32 GiB.
	TotalBytes int64
	// Tries is how often a checkpoint is sent; 3.
	Tries int
	// Stalled is how long a transfer may make no progress before it is cancelled; 10 s, or 10 min
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
	// workers is how many Migrations are processed at the same time. None blocks for long.
	workers = 8
)

// withDefaults sets the defaults.
func (c Config) withDefaults() Config {
	fill(&c.Limits.Moves, defaultMoves)
	fill(&c.Limits.ImageBytes, defaultImageBytes)
	fill(&c.Limits.Images, defaultImages)
	fill(&c.Limits.TotalBytes, defaultTotalBytes)
	fill(&c.Limits.Tries, defaultTries)
	if c.Simulation != nil { // a simulated transfer sends nothing for as long as a real one would take
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

// check returns an error for what is missing, contradictory or negative.
func (c Config) check() error {
	var errs []error
	if c.Client == nil {
		errs = append(errs, errors.New("the client configuration is required"))
	}
	if (c.Node == "") == (c.Simulation == nil) {
		errs = append(errs, errors.New("exactly one of a node name and a simulation is required"))
	}
	if c.Node != "" && (c.Backends == nil || c.Capability == nil) {
		errs = append(errs, errors.New("the back-ends of the node and the function that returns its capability are required"))
	}
	if c.StateDir == "" || c.WorkDir == "" {
		errs = append(errs, errors.New("the state folder and the work folder are required"))
	}
	if c.Limits.Moves < 0 || c.Limits.ImageBytes < 0 || c.Limits.Images < 0 || c.Limits.TotalBytes < 0 || c.Limits.Tries < 0 || c.Limits.Stalled < 0 {
		errs = append(errs, errors.New("limits must not be negative"))
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
	crowded  map[types.NamespacedName]bool     // waiting for room for another frozen container
	arrived  map[ledger.ID]int64               // bytes received of checkpoints that are not staged yet
	early    map[ledger.ID]*transport.Early    // of sources: what the targets have of containers that run, or are frozen
	kept     map[ledger.ID]*kept               // of targets: pages that came before their checkpoints
	freezing sync.Mutex                        // held while the limit is checked and a freeze is noted
	rooming  sync.Mutex                        // held while the room of the work folder is checked and a dump's size is noted
	running  sync.WaitGroup                    // jobs
}

// New returns an agent. It opens the ledger and makes the folders; nothing runs before Run.
func New(c Config) (*Agent, error) {
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("set up the agent: %w", err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, eventsv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("set up the agent: register the API types: %w", err)
		}
	}
	api, err := client.NewWithWatch(c.Client, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("set up the agent: create the client: %w", err)
	}
	return assemble(c, api)
}

// assemble returns an agent whose configuration is complete.
func assemble(c Config, api client.WithWatch) (*Agent, error) {
	if err := os.MkdirAll(c.WorkDir, 0o700); err != nil {
		return nil, fmt.Errorf("set up the agent: create the work folder: %w", err)
	}
	if err := removeUnnamed(c.StateDir); err != nil {
		return nil, fmt.Errorf("set up the agent: %w", err)
	}
	memory, err := ledger.Open(filepath.Join(c.StateDir, "ledger"))
	if err != nil {
		return nil, fmt.Errorf("set up the agent: %w", err)
	}
	a := &Agent{
		Config: c, api: api, ledger: memory, metrics: newMetrics(),
		jobs: map[ledger.ID]*job{}, failures: map[ledger.ID]*checkpoint.Failure{}, crowded: map[types.NamespacedName]bool{},
		arrived: map[ledger.ID]int64{}, early: map[ledger.ID]*transport.Early{}, kept: map[ledger.ID]*kept{},
	}
	a.health = newHealth(c.Clock, c.Resync, c.Runtime)
	a.nodes = &nodes{agent: a, known: map[string]*corev1.Node{}}
	return a, a.addBackends()
}

// addBackends makes the back-ends.
func (a *Agent) addBackends() error {
	a.backends = map[v1alpha1.MigrationBackend]checkpoint.Backend{}
	if a.Backends != nil {
		a.backends = a.Backends()
	}
	if a.Simulation != nil {
		b, err := simulated.New(a.Simulation.Model, filepath.Join(a.StateDir, "simulated"), a.Clock, a.pod)
		if err != nil {
			return fmt.Errorf("set up the simulation: %w", err)
		}
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

// Run runs the agent until ctx ends, or until an error that a restart may fix. At the end,
// containers whose state the target cannot have yet continue, and the next agent freezes them
// again. Other frozen containers stay frozen, and the next agent finds them in its ledger.
func (a *Agent) Run(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", a.ListenAddress)
	if err != nil {
		return fmt.Errorf("listen for checkpoints at %s: %w", a.ListenAddress, err)
	}
	receiver, err := a.receiver(listener)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	a.endDumps(ctx)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return receiver.Serve(ctx, listener) })
	group.Go(func() error { return a.serve(ctx) })
	group.Go(func() error { return a.watch(ctx) })
	group.Go(func() error { return a.sweep(ctx) })
	group.Go(func() error { return a.restore(ctx) })
	group.Go(func() error { return a.giving(ctx) })
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

// receiver returns the receiver of checkpoints at a listener, and makes the queue.
func (a *Agent) receiver(listener net.Listener) (*transport.Receiver, error) {
	var err error
	if _, a.port, err = net.SplitHostPort(listener.Addr().String()); err != nil {
		return nil, fmt.Errorf("listen for checkpoints: %w", err)
	}
	a.queue = workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](50*time.Millisecond, 5*time.Second),
		workqueue.TypedRateLimitingQueueConfig[types.NamespacedName]{Clock: a.Clock})
	return &transport.Receiver{
		Clock: a.Clock, Session: a.session, Take: a.take, Keep: a.keep, Early: a.earlyPages, Stalled: a.Limits.Stalled, Log: a.Log,
		// Incompressible data grows by less than this.
		MaxWireBytes: a.Limits.ImageBytes + a.Limits.ImageBytes/64 + 1<<20,
		// The archive has headers besides its files.
		MaxBytes: a.Limits.ImageBytes + archive.MaxOverhead,
	}, nil
}
