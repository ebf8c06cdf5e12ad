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
// Package controlplane has the control plane, and package process how components start, log and stop. Here are the
// options, the nodes and machines, with kwok and cluster-api, and what can be done with a running playground.
package playground

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"supercargo.dev/supercargo/lab/playground/controlplane"
	"supercargo.dev/supercargo/lab/playground/process"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
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
	// [manifests.SchedulerConfig]. [controlplane.ControlPlane.StartScheduler] lists what is changed in it.
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

	// Karpenter also starts Karpenter with its kwok provider as a child. Nil means that it is not
	// started.
	Karpenter *KarpenterOptions

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

func (o *Options) controlPlane() controlplane.Options {
	return controlplane.Options{
		NoControllerManager: o.NoControllerManager, KubeletsReach: o.KubeletsReach,
		KubernetesDir: o.KubernetesDir, FeatureGates: o.FeatureGates, RuntimeConfig: o.RuntimeConfig,
		AutoscalerPeriod: o.AutoscalerPeriod, AuditPolicy: o.AuditPolicy, EtcdQuotaBytes: o.EtcdQuotaBytes,
	}
}

// Playground is a running control plane. Its methods are safe for concurrent use.
type Playground struct {
	opts     Options
	dir      *controlplane.Directory
	group    *process.Group
	plane    *controlplane.ControlPlane
	workload *workload // the cluster of the machines' Nodes
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
	process.SetGCPercent()
	dir, err := controlplane.OpenDirectory(opts.Dir, opts.KubeconfigPath)
	if err != nil {
		return nil, err
	}
	group, err := process.NewGroup(dir.Path(), dir.LogDir(), opts.Log)
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	p := &Playground{opts: opts, dir: dir, group: group}
	startCtx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := p.start(startCtx); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx) // other errors are consequences of it
		} else {
			err = p.group.Explain(err) // before Stop removes the logs
		}
		return nil, errors.Join(err, p.Stop())
	}
	context.AfterFunc(ctx, func() { _ = p.Stop() }) // Stop keeps its error for the next caller
	return p, nil
}

// start starts everything in order. If it fails, the caller stops what has been started.
func (p *Playground) start(ctx context.Context) error {
	var err error
	if p.plane, err = controlplane.New(p.opts.controlPlane(), p.dir, p.group); err != nil {
		return err
	}
	if err := p.plane.StartEtcd(ctx); err != nil {
		return err
	}
	if err := p.plane.StartAPIServer(ctx); err != nil {
		return err
	}
	if p.workload, err = p.findWorkload(); err != nil {
		return err
	}
	// Both mostly wait for other components.
	group, ctx := errgroup.WithContext(ctx)
	if p.opts.ClusterAPI {
		group.Go(func() error { return p.startClusterAPI(ctx) })
	}
	if p.opts.Karpenter != nil {
		group.Go(func() error { return p.startKarpenter(ctx) })
	}
	group.Go(func() error {
		if err := p.startClients(ctx); err != nil {
			return err
		}
		return p.waitReady(ctx)
	})
	return group.Wait()
}

// startClients starts the clients of the API server and creates the nodes.
func (p *Playground) startClients(ctx context.Context) error {
	if !p.opts.NoControllerManager {
		if err := p.plane.StartControllerManager(); err != nil {
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
	return CreateNodes(ctx, p.Client(), p.opts.Nodes)
}

// StartScheduler starts another kube-scheduler, see [controlplane.ControlPlane.StartScheduler].
func (p *Playground) StartScheduler(ctx context.Context, config []byte, extra ...app.Option) (*controlplane.Scheduler, error) {
	return p.plane.StartScheduler(ctx, config, extra...)
}

// EtcdEndpoint returns the URL of etcd for its clients. etcd requires no authentication.
func (p *Playground) EtcdEndpoint() string { return p.plane.EtcdEndpoint() }

// StopEtcd stops etcd, see [controlplane.ControlPlane.StopEtcd].
func (p *Playground) StopEtcd() error { return p.plane.StopEtcd() }

// StartEtcd starts etcd after StopEtcd, see [controlplane.ControlPlane.StartEtcd].
func (p *Playground) StartEtcd(ctx context.Context) error { return p.plane.StartEtcd(ctx) }

// AuditLogPath returns where the API server writes its audit log, if the options have a policy for it: one event of
// audit.k8s.io/v1 a line, as JSON.
func (p *Playground) AuditLogPath() string { return p.plane.AuditLogPath() }

// Config returns the administrator's client configuration. The caller owns it.
func (p *Playground) Config() *rest.Config { return p.plane.Config() }

// Client returns a client with the administrator's rights and no rate limit.
func (p *Playground) Client() kubernetes.Interface { return p.plane.Client() }

// KubeconfigPath returns the path of the administrator's kubeconfig.
func (p *Playground) KubeconfigPath() string { return p.dir.KubeconfigPath() }

// Dir returns the directory with the playground's state and logs.
func (p *Playground) Dir() string { return p.dir.Path() }

// Done is closed when a component has ended by itself or the playground has been stopped.
func (p *Playground) Done() <-chan struct{} { return p.group.Done() }

// Err returns, once Done is closed, the error of the component that ended by itself, or nil if the
// playground was stopped.
func (p *Playground) Err() error { return p.group.Err() }

// Stop stops everything in the reverse order of its start, so etcd last, and returns when all of it
// has ended and the temporary files are removed. Further calls return the same error.
func (p *Playground) Stop() error { return p.group.Stop(p.dir.Close) }
