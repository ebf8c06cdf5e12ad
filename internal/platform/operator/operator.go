// Package operator has the common parts of programs that run controllers: their flags, the cluster configuration, and
// the manager.
package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/platform/fence"
	"supercargo.dev/supercargo/internal/platform/pause"
	"supercargo.dev/supercargo/internal/platform/podwire"
)

// Options configure how a program runs its controllers.
type Options struct {
	// Config is the configuration of the managed cluster.
	Config *rest.Config
	// DryRun logs decisions and writes nothing. There is no leader election, because other replicas may act at the same
	// time.
	DryRun bool
	// LeaderElection allows several replicas, of which one acts. The Lease is in LeaderElectionNamespace.
	LeaderElection          bool
	LeaderElectionNamespace string
	// Actions are the actions that the program may carry out; nil allows all. It only reports the others, and writes nothing
	// for them but status, Events and its reports.
	Actions []string
	// PauseNamespace is the namespace of the ConfigMap that pauses the program. The default is Namespace, or
	// pause.DefaultNamespace if that is empty.
	PauseNamespace string
	// MetricsAddress and ProbeAddress are the host:port to serve HTTP on; "0" disables serving.
	MetricsAddress, ProbeAddress string
	// Log is the logger.
	Log logr.Logger
}

// AddFlags adds the flags of all fields except Config, DryRun, Actions and Log.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&o.LeaderElection, "leader-elect", true, "elect a leader, so that only one of several replicas acts")
	flags.StringVar(&o.LeaderElectionNamespace, "leader-elect-namespace", "", "`namespace` of the Lease (default: the namespace that this runs in)")
	flags.StringVar(&o.PauseNamespace, "pause-namespace", "", "`namespace` of ConfigMap "+pause.Name+"; while it exists, this program pauses (default: the namespace that this runs in)")
	flags.StringVar(&o.MetricsAddress, "metrics-bind-address", ":8080", "`host:port` for /metrics; 0 to disable")
	flags.StringVar(&o.ProbeAddress, "health-probe-bind-address", ":8081", "`host:port` for /healthz and /readyz; 0 to disable")
}

// Load reads a kubeconfig. Without a file it uses the in-cluster configuration or kubectl's defaults.
func Load(file string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = file
	if file == "" {
		if config, err := rest.InClusterConfig(); err == nil {
			return Throttle(config), nil
		}
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("load the client configuration: %w", err)
	}
	return Throttle(config), nil
}

// Main runs a program: it sets the configuration that [Load] reads from a kubeconfig and the logger, which is klog, and
// calls run with a context that ends with SIGINT or SIGTERM. A process calls it once.
func Main(kubeconfig string, config **rest.Config, log *logr.Logger, run func(ctx context.Context) error) (err error) {
	if *config, err = Load(kubeconfig); err != nil {
		return err
	}
	*log = klog.Background()
	ctrl.SetLogger(*log)
	return run(ctrl.SetupSignalHandler())
}

// Throttle sets the client's rate limit and timeout where unset: most reads come from caches, but writes such as
// evictions come in bursts.
func Throttle(c *rest.Config) *rest.Config {
	c = rest.CopyConfig(c)
	if c.QPS == 0 {
		c.QPS, c.Burst = 50, 100
	}
	if c.Timeout == 0 {
		c.Timeout = time.Minute
	}
	return c
}

// leaseDuration is how long a Lease is valid: the default of controller-runtime.
const leaseDuration = 15 * time.Second

// Fence returns a function that puts the clients of a configuration behind the fence of the named program: they stop
// writing once its Lease has expired. Apply it to each configuration that the program writes with, including
// [Options.Config]. Without leader election the function changes nothing.
func (o *Options) Fence(name string) func(*rest.Config) *rest.Config {
	if !o.LeaderElection || o.DryRun {
		return func(config *rest.Config) *rest.Config { return config }
	}
	return fence.New(leaseName(name), leaseDuration, clock.RealClock{}).Wrap
}

// leaseName returns the name of the Lease of the named program.
func leaseName(name string) string { return name + "." + v1alpha1.GroupName }

// NewManager returns a manager for the controllers of the named program. add register the kinds that it uses.
func NewManager(name string, o Options, add ...func(*runtime.Scheme) error) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	for _, a := range add {
		if err := a(scheme); err != nil {
			return nil, fmt.Errorf("register the API types: %w", err)
		}
	}
	m, err := ctrl.NewManager(podwire.Wrap(o.Config), ctrl.Options{
		Scheme: scheme, Logger: o.Log,
		Cache:          cache.Options{DefaultTransform: strip(), ByObject: onlyPause(o.pauseNamespace())},
		Metrics:        server.Options{BindAddress: o.MetricsAddress},
		LeaderElection: o.LeaderElection && !o.DryRun, LeaderElectionID: leaseName(name), LeaderElectionNamespace: o.LeaderElectionNamespace,
		LeaseDuration:                 new(leaseDuration),
		LeaderElectionReleaseOnCancel: true,
		HealthProbeBindAddress:        o.ProbeAddress,
		// Several managers may run in one process with the same controller names.
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		return nil, fmt.Errorf("set up the %s: %w", name, err)
	}
	for probe, add := range map[string]func(string, healthz.Checker) error{"healthz": m.AddHealthzCheck, "readyz": m.AddReadyzCheck} {
		if err := add(probe, healthz.Ping); err != nil {
			return nil, fmt.Errorf("set up health probes: %w", err)
		}
	}
	return m, nil
}

// Pause returns the switch that keeps the controllers of a manager from acting.
func (o *Options) Pause(m ctrl.Manager) *pause.Switch {
	return &pause.Switch{Client: m.GetClient(), Namespace: o.pauseNamespace()}
}

// AddActions adds the flag of Actions, for a program that has these actions.
func (o *Options) AddActions(flags *pflag.FlagSet, all []string) {
	flags.StringSliceVar(&o.Actions, "actions", all, "`actions` to carry out; the others are only reported, and for them nothing is written but status, Events and reports")
}

// CheckActions returns an error that names an action that the program does not have.
func (o *Options) CheckActions(all []string) error {
	for _, action := range o.Actions {
		if !slices.Contains(all, action) {
			return fmt.Errorf("--actions: %q: must be one of %s", action, strings.Join(all, ", "))
		}
	}
	return nil
}

// May reports whether the program may carry out an action.
func (o *Options) May(action string) bool {
	return o.Actions == nil || slices.Contains(o.Actions, action)
}

// PauseOf returns the switch of the controllers that carry out an action of the named program. Without the action it is
// always on.
func (o *Options) PauseOf(m ctrl.Manager, name, action string) *pause.Switch {
	s := o.Pause(m)
	if !o.May(action) {
		s.Withheld = fmt.Sprintf("decisions are reported but not executed, because --actions of the %s lacks %q; with Helm, set %s.%s.enabled", name, action, name, action)
	}
	return s
}

// pauseNamespace returns the namespace of the ConfigMap that pauses the program.
func (o *Options) pauseNamespace() string {
	return cmp.Or(o.PauseNamespace, o.Namespace(), pause.DefaultNamespace)
}

// onlyPause restricts the ConfigMaps of a cache to the one that pauses the program. It is read and watched by name, so the
// program needs no permission for others.
func onlyPause(namespace string) map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {
		Namespaces: map[string]cache.Config{namespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", pause.Name)}},
	}}
}

// strip returns a transform that removes what no controller reads before objects are cached: managed fields; the pod
// template of ReplicaSets, of which there are many; and the annotations of metadata-only objects, which may contain the
// whole object.
func strip() toolscache.TransformFunc {
	managed := cache.TransformStripManagedFields()
	return func(object any) (any, error) {
		switch o := object.(type) {
		case *appsv1.ReplicaSet:
			o.Spec.Template = corev1.PodTemplateSpec{}
		case *metav1.PartialObjectMetadata:
			o.Annotations = nil
		}
		return managed(object)
	}
}

// Run runs the manager of the named program until ctx is done or an error occurs that a restart may fix.
//
// A manager that has not synced its caches yet does not stop when ctx is done: it keeps retrying, and the API server
// may never respond. Run then returns without it, since it has done nothing yet.
func Run(ctx context.Context, name string, m ctrl.Manager) error {
	begun := make(chan struct{})
	if err := m.Add(beginning{begun}); err != nil {
		return fmt.Errorf("set up the %s: %w", name, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	var err error
	select {
	case err = <-ended:
	case <-left(ctx, begun):
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("run the %s: %w", name, err)
	}
	return nil
}

// left returns a channel that is closed if ctx is done before the manager has begun.
func left(ctx context.Context, begun <-chan struct{}) <-chan struct{} {
	left := make(chan struct{})
	go func() {
		select {
		case <-begun:
		case <-ctx.Done():
			select {
			case <-begun: // the manager stops by itself
			default:
				close(left)
			}
		}
	}()
	return left
}

// beginning is a Runnable that the manager starts once its caches have synced.
type beginning struct{ begun chan struct{} }

// Start implements manager.Runnable.
func (b beginning) Start(context.Context) error {
	close(b.begun)
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (b beginning) NeedLeaderElection() bool { return false }

// Served returns the objects whose kinds the cluster serves.
func Served(c cluster.Cluster, objects ...client.Object) ([]client.Object, error) {
	var found []client.Object
	for _, object := range objects {
		kind, err := apiutil.GVKForObject(object, c.GetScheme())
		if err != nil {
			return nil, fmt.Errorf("get the kind of %T: %w", object, err)
		}
		switch _, err = c.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version); {
		case err == nil:
			found = append(found, object)
		case !meta.IsNoMatchError(err):
			return nil, fmt.Errorf("discover kind %s: %w", kind.Kind, err)
		}
	}
	return found, nil
}

// podNamespace is the file with the namespace of the pod.
const podNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// Namespace returns the namespace of the program's own objects: that of its Lease, or else that of its pod; empty if
// there is none.
func (o *Options) Namespace() string {
	if o.LeaderElectionNamespace != "" {
		return o.LeaderElectionNamespace
	}
	text, err := os.ReadFile(podNamespace)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
