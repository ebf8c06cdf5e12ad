// Package playground runs a real Kubernetes control plane on this machine: an
// etcd, a kube-apiserver, a kube-controller-manager and Supercargo's
// kube-scheduler in this process, and kwok, which plays the nodes, as a child.
// Where wanted, cluster-api runs as another child, and makes and removes nodes.
//
// It listens on 127.0.0.1 and on a Unix socket in its own directory only, unless it
// is given an address for kubelets, needs no root, and keeps all its state in one
// directory. It is for trying things
// out and for tests: etcd does not sync to disk.
//
// Several playgrounds may run at once, in one process or in many. The logs of
// the Kubernetes components go through klog, which a process has only one of:
// from the first playground on, klog writes to the log files of all playgrounds
// that run, and to nowhere when none does.
//
// The files follow the order in which things start: state.go (the directory),
// certs.go, etcd.go, apiserver.go, controllermanager.go, kwok.go, scheduler.go,
// nodes.go, ready.go; beside these clusterapi.go, definitions.go and, once all
// runs, machinedeployment.go and aggregate.go.
package playground

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// startTimeout bounds [Start]. A start takes a few seconds; the rest is for
// machines that are busy with something else.
const startTimeout = 2 * time.Minute

// Options says what to start. The zero value starts everything, without nodes,
// in a temporary directory.
type Options struct {
	// Dir keeps all state, with mode 0700. Empty means a temporary directory
	// that Stop removes. A directory that a playground has used before is
	// resumed: its objects are still there, under new certificates.
	Dir string

	// KubeconfigPath is where the administrator's kubeconfig goes, with mode
	// 0600. Empty means Dir/kubeconfig. A file there is only replaced when it is
	// empty or a playground's kubeconfig. Stop removes it.
	KubeconfigPath string

	// Nodes are created before Start returns.
	Nodes []NodeSpec

	// SchedulerConfig is a KubeSchedulerConfiguration in YAML or JSON. Nil means
	// [manifests.SchedulerConfig]. See [Playground.StartScheduler] for what is
	// changed in it.
	SchedulerConfig []byte

	// NoScheduler leaves pods pending until StartScheduler is called.
	NoScheduler bool

	// NoKwok leaves the nodes without a kubelet's part: they are Ready when
	// created but nothing renews that, and no pod starts.
	NoKwok bool

	// NoControllerManager also switches the admission plugins off that need
	// one, so that pods and nodes can be made and scheduled without it.
	NoControllerManager bool

	// ClusterAPI also starts cluster-api's manager, as a child, and a provider for
	// its machines, whose Nodes kwok simulates. See [Playground.AddMachineDeployment].
	ClusterAPI bool

	// OldClusterAPI also serves the older versions of cluster-api's kinds. The API server
	// then has cluster-api's manager convert every object that is written, since it
	// keeps each version in a cache of its own: two thousand times while sixty machines
	// come and go within a minute.
	OldClusterAPI bool

	// ClusterAPIPath is cluster-api's manager. Empty means: look for it, see
	// [FindClusterAPI].
	ClusterAPIPath string

	// KwokPath is the kwok program. Empty means: look for it, see [FindKwok].
	KwokPath string

	// KubeletsReach is an address of this machine where kubelets reach the API server,
	// which then listens there in place of 127.0.0.1, knows them by the groups of their
	// certificates, and reaches them at their internal addresses. Nil means that there
	// are none: kwok simulates them.
	KubeletsReach net.IP

	// KubernetesDir has the programs of a control plane, kube-apiserver,
	// kube-controller-manager and kube-scheduler, which then run as children in place of
	// those that are built in: those of another Kubernetes version. Empty means what
	// SUPERCARGO_KUBERNETES says, and if it says nothing those that are built in.
	KubernetesDir string

	// FeatureGates, as Name=true, and RuntimeConfig, as group/version=true, are given to
	// the programs in KubernetesDir. Those that are built in have one set of gates for the
	// whole process, and take none.
	FeatureGates, RuntimeConfig []string

	// AutoscalerPeriod is how often HorizontalPodAutoscalers are looked at. 0 means
	// every 15 s, as in other clusters.
	AutoscalerPeriod time.Duration

	// AuditPolicy is an audit.k8s.io Policy in YAML or JSON. The API server then writes its
	// audit log to [Playground.AuditLogPath], one event a line. Nil means no audit log.
	AuditPolicy []byte

	// EtcdQuotaBytes is the size of its data at which etcd refuses writes. 0 means 4 GiB.
	EtcdQuotaBytes int64

	// Log gets a copy of what goes to the files in Dir/logs. Nil means no copy.
	Log io.Writer
}

// Playground is a running control plane. Its methods may be called from any
// goroutine.
type Playground struct {
	opts  Options
	state *state
	logs  *logs

	config *rest.Config
	client kubernetes.Interface

	mu         sync.Mutex
	components []*component // in the order they started
	stopping   bool
	schedulers int // started so far, to name their files

	done     chan struct{} // closed when a component has died or Stop has ended
	doneOnce sync.Once
	err      error // why done was closed; written before it

	stopOnce sync.Once
	stopErr  error
}

// Start starts a playground and returns when it is ready: pods can be created,
// the scheduler runs and all nodes are Ready. When it fails, what had been
// started has ended and the error says which component was at fault, with the
// last lines of its log.
//
// Cancelling ctx stops the playground, also after Start has returned. Wait for
// that with [Playground.Stop], which may be called any number of times.
//
// Unless GOGC is set, the whole process collects its garbage less often from then on.
func Start(ctx context.Context, opts Options) (*Playground, error) {
	setGCPercent()
	st, err := openState(opts.Dir, opts.KubeconfigPath)
	if err != nil {
		return nil, err
	}
	p := &Playground{opts: opts, state: st, done: make(chan struct{})}
	startCtx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := p.start(startCtx); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx) // whatever else failed, failed because of it
		} else {
			err = p.explain(err) // before Stop removes the logs
		}
		return nil, errors.Join(err, p.Stop())
	}
	context.AfterFunc(ctx, func() { _ = p.Stop() }) // Stop keeps its error for the next caller
	return p, nil
}

// start brings everything up in order. The caller stops what has been started
// when it fails.
func (p *Playground) start(ctx context.Context) error {
	var err error
	if p.logs, err = openLogs(p.state.logDir(), p.opts.Log, p.gaveUp); err != nil {
		return err
	}
	certs, err := p.state.writeCerts(p.opts.apiAddress())
	if err != nil {
		return err
	}
	if err := p.startEtcd(ctx); err != nil {
		return err
	}
	if err := p.startAPIServer(ctx, certs); err != nil {
		return err
	}
	// Each of the two mostly waits for others.
	group, ctx := errgroup.WithContext(ctx)
	if p.opts.ClusterAPI {
		group.Go(func() error { return p.startClusterAPI(ctx, certs) })
	}
	group.Go(func() error {
		if err := p.startClients(ctx, certs); err != nil {
			return err
		}
		return p.waitReady(ctx)
	})
	return group.Wait()
}

// startClients starts what talks to the API server, and makes the nodes.
func (p *Playground) startClients(ctx context.Context, certs *certs) error {
	if !p.opts.NoControllerManager {
		if err := p.startControllerManager(certs); err != nil {
			return err
		}
	}
	if !p.opts.NoKwok {
		if err := p.startKwok(ctx); err != nil {
			return err
		}
	}
	if !p.opts.NoScheduler {
		if _, err := p.StartScheduler(ctx, p.opts.SchedulerConfig); err != nil {
			return err
		}
	}
	return CreateNodes(ctx, p.client, p.opts.Nodes)
}

// Config returns the administrator's client configuration. The caller owns it.
func (p *Playground) Config() *rest.Config { return rest.CopyConfig(p.config) }

// Client returns a client with the administrator's rights and no rate limit.
func (p *Playground) Client() kubernetes.Interface { return p.client }

// KubeconfigPath returns where the administrator's kubeconfig is.
func (p *Playground) KubeconfigPath() string { return p.state.kubeconfig }

// Dir returns the directory with the playground's state and logs.
func (p *Playground) Dir() string { return p.state.dir }

// Done is closed when a component has ended by itself or the playground has
// been stopped.
func (p *Playground) Done() <-chan struct{} { return p.done }

// Err returns, once Done is closed, which component has ended by itself and
// why, or nil when the playground was stopped.
func (p *Playground) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Stop ends everything in the reverse order of its start, so etcd last, and
// returns when all of it has ended and the files that are not to stay are gone.
// It may be called again and returns the same error.
func (p *Playground) Stop() error {
	p.stopOnce.Do(func() {
		p.mu.Lock()
		p.stopping = true
		components := p.components
		p.mu.Unlock()

		var errs []error
		for i := len(components) - 1; i >= 0; i-- {
			errs = append(errs, p.explain(components[i].stop())) // before the logs are removed
		}
		if p.logs != nil {
			errs = append(errs, p.logs.close())
		}
		errs = append(errs, p.state.close())
		p.stopErr = errors.Join(errs...)
		p.finish(nil)
	})
	return p.stopErr
}

// finish closes done for the reason err, if it is still open.
func (p *Playground) finish(err error) {
	p.doneOnce.Do(func() {
		p.err = err
		close(p.done)
	})
}

// gaveUp notes that a component wanted the process to exit. Some do while they
// are being stopped, which is no news.
func (p *Playground) gaveUp() {
	p.mu.Lock()
	stopping := p.stopping
	p.mu.Unlock()
	if !stopping {
		p.finish(p.explain(&componentError{
			doing: "run", name: "the Kubernetes components", log: kubernetesLog, err: errExited,
		}))
	}
}

// errStopping is what starting something in a stopped playground gives.
var errStopping = errors.New("the playground is being stopped")

// add registers a component that has just been started, so that its end is
// noticed and Stop ends it. It fails, and ends the component, when the
// playground is already stopping.
func (p *Playground) add(c *component) error {
	p.mu.Lock()
	stopping := p.stopping
	if !stopping {
		p.components = append(p.components, c)
	}
	p.mu.Unlock()
	if stopping {
		return errors.Join(fmt.Errorf("start %s: %w", c.name, errStopping), c.stop())
	}
	go func() {
		<-c.done
		if err := c.died(); err != nil {
			p.finish(p.explain(err))
		}
	}()
	return nil
}

// remove forgets a component that has been stopped.
func (p *Playground) remove(c *component) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.components = slices.DeleteFunc(slices.Clone(p.components), func(o *component) bool { return o == c })
}
