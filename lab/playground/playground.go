// Package playground runs a real Kubernetes control plane on this machine: an etcd, a
// kube-apiserver, a kube-controller-manager and Supercargo's kube-scheduler in this process, and
// kwok, which simulates the nodes, as a child process. Optionally cluster-api runs as another child
// and creates and removes nodes.
//
// It listens only on 127.0.0.1, unless it has an address for kubelets, and on a Unix socket in its
// own directory. It needs no root and keeps all its state in one directory. It is for experiments
// and tests: etcd does not sync to disk.
//
// Several playgrounds may run at once, in one process or in many. The logs of the Kubernetes
// components go through klog, of which a process has only one: from the first playground on, klog
// writes to the log files of all running playgrounds, and to nowhere if none is running.
//
// The files follow the start order: state.go (the directory), certs.go, etcd.go, apiserver.go,
// workload.go, controllermanager.go, kwok.go, scheduler.go, nodes.go, ready.go. In addition there are
// clusterapi.go, definitions.go and, for a running playground, machinedeployment.go and
// aggregate.go.
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

// startTimeout limits [Start]. A start takes a few seconds; the rest is for busy machines.
const startTimeout = 2 * time.Minute

// Options configures a playground. The zero value starts everything, without nodes, in a temporary
// directory.
type Options struct {
	// Dir holds all state, with mode 0700. Empty means a temporary directory that Stop removes. A
	// directory of an earlier playground is resumed: its objects still exist, under new
	// certificates.
	Dir string

	// KubeconfigPath is the path of the administrator's kubeconfig, with mode 0600. Empty means
	// Dir/kubeconfig. An existing file is only replaced if it is empty or a playground's
	// kubeconfig. Stop removes it.
	KubeconfigPath string

	// Nodes are created before Start returns.
	Nodes []NodeSpec

	// SchedulerConfig is a KubeSchedulerConfiguration in YAML or JSON. Nil means
	// [manifests.SchedulerConfig]. [Playground.StartScheduler] lists what is changed in it.
	SchedulerConfig []byte

	// NoScheduler leaves pods pending until StartScheduler is called.
	NoScheduler bool

	// NoKwok leaves the nodes without a kubelet: they are Ready when created, but their status is
	// not renewed, and no pod starts.
	NoKwok bool

	// NoControllerManager also disables the admission plugins that need one, so that pods and nodes
	// can be created and scheduled without it.
	NoControllerManager bool

	// ClusterAPI also starts the cluster-api manager as a child, and a provider of machines whose
	// Nodes kwok simulates. See [Playground.AddMachineDeployment].
	ClusterAPI bool

	// OldClusterAPI also serves the older versions of cluster-api's kinds. The API server then
	// calls cluster-api's conversion webhook for every object that is written, since it caches each
	// version separately: two thousand times while sixty machines start and stop within a minute.
	OldClusterAPI bool

	// WorkloadKubeconfig is the path of an administrator's kubeconfig of another cluster, the
	// workload cluster: the Nodes of machines are created there instead of in the playground, which
	// is its management cluster. kwok simulates them there, and leaves other Nodes and their leases
	// alone. It requires ClusterAPI, and no Nodes. Empty means that the playground is both clusters.
	WorkloadKubeconfig string

	// ClusterAPIPath is the path of the cluster-api manager. Empty means the result of
	// [FindClusterAPI].
	ClusterAPIPath string

	// KwokPath is the path of the kwok program. Empty means the result of [FindKwok].
	KwokPath string

	// KubeletsReach is an address of this machine where kubelets reach the API server. The API
	// server then listens there instead of on 127.0.0.1, identifies kubelets by the groups of their
	// certificates, and connects to them at their internal addresses. Nil means that there are
	// none: kwok simulates them.
	KubeletsReach net.IP

	// KubernetesDir has the programs of another Kubernetes version, kube-apiserver,
	// kube-controller-manager and kube-scheduler, which then run as children instead of the
	// built-in ones. Empty means the value of SUPERCARGO_KUBERNETES, or the built-in programs if
	// that is empty too.
	KubernetesDir string

	// FeatureGates, as Name=true, and RuntimeConfig, as group/version=true, are passed to the
	// programs in KubernetesDir. The built-in programs share the feature gates of this process and
	// do not support them.
	FeatureGates, RuntimeConfig []string

	// AutoscalerPeriod is the sync period of HorizontalPodAutoscalers. 0 means the default of 15 s.
	AutoscalerPeriod time.Duration

	// AuditPolicy is an audit.k8s.io Policy in YAML or JSON. The API server then writes its audit
	// log to [Playground.AuditLogPath], one event per line. Nil means no audit log.
	AuditPolicy []byte

	// EtcdQuotaBytes is the size of the data at which etcd refuses writes. 0 means 4 GiB.
	EtcdQuotaBytes int64

	// Log receives a copy of what is written to the files in Dir/logs. Nil means no copy.
	Log io.Writer
}

// Playground is a running control plane. Its methods are safe for concurrent use.
type Playground struct {
	opts  Options
	state *state
	logs  *logs

	config   *rest.Config
	client   kubernetes.Interface
	workload *workload // the cluster of the machines' Nodes

	mu         sync.Mutex
	components []*component // in the order they started
	stopping   bool
	schedulers int // started so far, to name their files

	done     chan struct{} // closed when a component has died or Stop has finished
	doneOnce sync.Once
	err      error // the reason why done was closed; written before it is closed

	stopOnce sync.Once
	stopErr  error
}

// Start starts a playground and returns when it is ready: pods can be created, the scheduler runs,
// and all nodes are Ready. If it fails, it stops everything that it started, and the error names
// the failed component with the last lines of its log.
//
// Cancelling ctx stops the playground, also after Start has returned. Wait for that with
// [Playground.Stop], which may be called more than once.
//
// Unless GOGC is set, the whole process collects garbage less often from then on.
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
			err = context.Cause(ctx) // other errors are consequences of it
		} else {
			err = p.explain(err) // before Stop removes the logs
		}
		return nil, errors.Join(err, p.Stop())
	}
	context.AfterFunc(ctx, func() { _ = p.Stop() }) // Stop keeps its error for the next caller
	return p, nil
}

// start starts everything in order. If it fails, the caller stops what has been started.
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
	if p.workload, err = p.findWorkload(); err != nil {
		return err
	}
	// Both mostly wait for other components.
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

// startClients starts the clients of the API server and creates the nodes.
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

// KubeconfigPath returns the path of the administrator's kubeconfig.
func (p *Playground) KubeconfigPath() string { return p.state.kubeconfig }

// Dir returns the directory with the playground's state and logs.
func (p *Playground) Dir() string { return p.state.dir }

// Done is closed when a component has ended by itself or the playground has been stopped.
func (p *Playground) Done() <-chan struct{} { return p.done }

// Err returns, once Done is closed, the error of the component that ended by itself, or nil if the
// playground was stopped.
func (p *Playground) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Stop stops everything in the reverse order of its start, so etcd last, and returns when all of it
// has ended and the temporary files are removed. Further calls return the same error.
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

// finish closes done with the reason err, if it is still open.
func (p *Playground) finish(err error) {
	p.doneOnce.Do(func() {
		p.err = err
		close(p.done)
	})
}

// gaveUp records that a component tried to exit the process. Some do so while they are being
// stopped, which is ignored.
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

// errStopping is returned when a component is started in a stopped playground.
var errStopping = errors.New("the playground is being stopped")

// add registers a component that has just started, so that its end is noticed and Stop stops it. If
// the playground is already stopping, it stops the component and returns an error.
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

// remove removes a stopped component from the list.
func (p *Playground) remove(c *component) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.components = slices.DeleteFunc(slices.Clone(p.components), func(o *component) bool { return o == c })
}
