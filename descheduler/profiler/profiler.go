// Package profiler finds out how fast each machine type is and how much energy it takes,
// and keeps the MachineProfiles, as HEATS does (Rocha et al., PDP 2019, section III).
//
// When a machine type is new, or its hardware has changed, it reserves an empty node and
// has a Job probe it; it gives the node back as soon as a pod waits for it. What probes
// and finished pods took is learned from, again and again.
//
// What is probed is decided in package decide, which is pure; what is kept between
// restarts is a record (package record) in a ConfigMap for each type. config.go has the
// flags, profiler.go what starts a round, observe.go what there is, act.go carries
// decisions out, job.go is the Job, tasks.go gathers finished pods, learn.go refits, and
// report.go says what came of it.
package profiler

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/profiler/record"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/energy/meterapi"
	"supercargo.dev/supercargo/internal/platform/meterclient"
	"supercargo.dev/supercargo/internal/platform/operator"
	"supercargo.dev/supercargo/internal/platform/pause"
	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/internal/world"
)

// Profiler probes machine types and keeps their profiles.
type Profiler struct {
	// Client reads from a cache and writes.
	Client client.Client
	// Live reads past the cache.
	Live client.Reader
	// Events takes what is worth telling.
	Events events.EventRecorder
	// Clock says what time it is.
	Clock clock.PassiveClock
	// Config says what is probed, and when is learned.
	Config Config
	// HTTP asks node meters for energy; nil gets one that shows the token of the Config, and
	// trusts whom the ConfigMap of the meters says.
	HTTP *http.Client
	// DryRun only logs what would be done.
	DryRun bool
	// Pause keeps machine types from being probed; nil never does.
	Pause *pause.Switch

	selector labels.Selector
	learned  *runtimes.Learner
	memory   memory

	mu       sync.Mutex
	finished []finished           // pods that have not been looked at
	left     map[string]time.Time // when a pod was deleted from a node last
}

// memory is what is remembered between rounds. All of it can be lost.
type memory struct {
	// began is since when pods are watched.
	began time.Time
	// records are those of machine types; dirty ones are not written yet.
	records map[string]*record.Record
	dirty   map[string]time.Time
	// said is what was told last of what is only observed, by machine type.
	said map[string]string
}

// meterAuthorities returns who signs the certificate of node meters, in PEM.
func (p *Profiler) meterAuthorities(ctx context.Context) ([]byte, error) {
	var published corev1.ConfigMap
	key := types.NamespacedName{Namespace: p.Config.MeterNamespace, Name: meterapi.Name}
	if err := p.Live.Get(ctx, key, &published); err != nil {
		return nil, fmt.Errorf("read ConfigMap %s: %w", key, err)
	}
	return []byte(published.Data[meterapi.AuthoritiesKey]), nil
}

// mostFinished is how many finished pods wait for a round at most.
const mostFinished = 4096

var everything = reconcile.Request{NamespacedName: types.NamespacedName{Name: "machine-types"}}

const (
	// settling is how long events are gathered before a round.
	settling = 500 * time.Millisecond
	// interval is how often there is a round at least.
	interval = 30 * time.Second
)

// New returns a Profiler that has seen nothing yet. The configuration must be valid.
func New(p *Profiler) (*Profiler, error) {
	if err := p.Config.Validate(); err != nil {
		return nil, err
	}
	var err error
	if p.selector, err = labels.Parse(p.Config.NodeSelector); err != nil {
		return nil, fmt.Errorf("--probe-node-selector: %w", err)
	}
	if p.HTTP == nil {
		const patience = 2 * time.Second
		secure := &meterclient.Secure{ServerName: meterapi.ServerName(p.Config.MeterNamespace), Authorities: p.meterAuthorities, TokenFile: p.Config.MeterToken}
		p.HTTP = secure.Client()
		p.HTTP.Timeout = patience
	}
	p.learned, p.left = runtimes.NewLearner(), map[string]time.Time{}
	p.memory = memory{began: p.Clock.Now(), records: map[string]*record.Record{}, dirty: map[string]time.Time{}, said: map[string]string{}}
	return p, nil
}

// SetupWithManager registers the profiler.
func (p *Profiler) SetupWithManager(ctx context.Context, manager ctrl.Manager) error {
	for _, kind := range append(world.Kinds(true), &v1alpha1.MachineProfile{}) { // read in a round, and so to be in the cache
		if _, err := manager.GetCache().GetInformer(ctx, kind, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("set up the profiler: cache %T: %w", kind, err)
		}
	}
	err := ctrl.NewControllerManagedBy(manager).Named("profiler").
		Watches(&corev1.Node{}, soon(), builder.WithPredicates(nodeMatters())).
		Watches(&corev1.Pod{}, soon(), builder.WithPredicates(p.podMatters())).
		Watches(&corev1.ConfigMap{}, soon()). // of the switch
		Watches(&batchv1.Job{}, soon(), builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetNamespace() == p.Config.Namespace }))).
		Watches(&v1alpha1.MachineProfile{}, soon()).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Complete(p)
	if err != nil {
		return fmt.Errorf("set up the profiler: %w", err)
	}
	return nil
}

// soon starts a round once things have settled.
func soon() handler.EventHandler { return operator.Settled(everything, settling) }

func nodeMatters() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
			return world.AvailabilityChanged(before, after) || len(before.Spec.Taints) != len(after.Spec.Taints) ||
				machineTypeOf(before) != machineTypeOf(after) || before.Annotations[v1alpha1.AnnotationHardware] != after.Annotations[v1alpha1.AnnotationHardware]
		},
	}
}

// podMatters is for pods that have just been found to have no room, those that come to a
// node while one is reserved, and those of probes. It notes pods that finish or go.
func (p *Profiler) podMatters() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool {
			pod := e.Object.(*corev1.Pod)
			p.finish(pod) // while nobody watched
			return pod.Namespace == p.Config.Namespace
		},
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.(*corev1.Pod), e.ObjectNew.(*corev1.Pod)
			if before.Status.Phase != after.Status.Phase {
				p.finish(after)
			}
			return world.BecameUnschedulable(before, after) || after.Namespace == p.Config.Namespace || p.probing() && before.Spec.NodeName != after.Spec.NodeName
		},
		DeleteFunc: func(e event.DeleteEvent) bool {
			pod := e.Object.(*corev1.Pod)
			if pod.Spec.NodeName != "" && !class.EveryNode(pod) {
				p.mu.Lock()
				defer p.mu.Unlock()
				p.left[pod.Spec.NodeName] = p.Clock.Now()
			}
			return pod.Namespace == p.Config.Namespace
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// probing reports whether probes may be under way, unless the cluster is paused.
func (p *Profiler) probing() bool { return p.Config.Mode == Act && !p.DryRun }

// probing reports whether probes may be under way.
func (r *round) probing() bool { return r.Profiler.probing() && !r.paused.Paused }

// Reconcile implements reconcile.Reconciler: it runs one round.
func (p *Profiler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	r, err := p.look(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	again, err := r.run(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: max(again, settling)}, nil
}
