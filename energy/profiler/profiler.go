// Package profiler learns how fast each machine type is and how much energy it uses, and
// maintains the MachineProfiles, as HEATS does (Rocha et al., PDP 2019, section III).
//
// When a machine type is new, or its hardware has changed, the profiler reserves an empty node
// and creates a Job that probes it. It frees the node as soon as a pod is pending for it. It
// learns from probes and finished pods periodically.
//
// Package decide, which is pure, decides what to probe. A record (package record) in a ConfigMap
// for each type survives restarts. Files: config.go has the flags, profiler.go starts rounds,
// observe.go reads the cluster, act.go carries out decisions, job.go has the Job, tasks.go
// collects finished pods, learn.go refits, governor.go learns under other CPU governors, and
// report.go reports.
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
	"supercargo.dev/supercargo/energy/meterapi"
	"supercargo.dev/supercargo/energy/profiler/record"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/platform/operator"
	"supercargo.dev/supercargo/internal/platform/pause"
	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/internal/world"
)

// Profiler probes machine types and maintains their profiles.
type Profiler struct {
	// Client reads from a cache and writes.
	Client client.Client
	// Live reads without the cache.
	Live client.Reader
	// Events receives Events.
	Events events.EventRecorder
	// Clock is the current time.
	Clock clock.PassiveClock
	// Config configures probing and learning.
	Config Config
	// HTTP is the client for node meters. nil is one with the token of the Config that trusts the
	// authorities in the meters' ConfigMap.
	HTTP *http.Client
	// DryRun only logs what would be done.
	DryRun bool
	// ReadOnly writes nothing but Events and the status of profiles, and reads no records: it reports what it would probe,
	// and learns nothing, because without records a restart would lose what the models were learned from. The mode may not
	// be Act.
	ReadOnly bool
	// Pause keeps machine types from being probed; nil never pauses.
	Pause *pause.Switch

	selector labels.Selector
	learned  *runtimes.Learner
	memory   memory

	mu       sync.Mutex
	finished []finished           // not processed yet
	left     map[string]time.Time // when the last pod was deleted, by node
}

// memory is the state between rounds. It may be lost.
type memory struct {
	// began is since when pods have been watched.
	began time.Time
	// records are those of machine types, and dirty those that are not written yet.
	records map[string]*record.Record
	dirty   map[string]time.Time
	// reported is the last message of mode Observe, by machine type.
	reported map[string]string
}

// meterAuthorities returns the authorities of the node meters' certificate, in PEM.
func (p *Profiler) meterAuthorities(ctx context.Context) ([]byte, error) {
	var published corev1.ConfigMap
	key := types.NamespacedName{Namespace: p.Config.MeterNamespace, Name: meterapi.Name}
	if err := p.Live.Get(ctx, key, &published); err != nil {
		return nil, fmt.Errorf("read ConfigMap %s: %w", key, err)
	}
	return []byte(published.Data[meterapi.AuthoritiesKey]), nil
}

// mostFinished is the maximum number of finished pods that wait for a round.
const mostFinished = 4096

var everything = reconcile.Request{NamespacedName: types.NamespacedName{Name: "machine-types"}}

const (
	// settling is how long events are collected before a round.
	settling = 500 * time.Millisecond
	// interval is the maximum time between rounds.
	interval = 30 * time.Second
)

// New returns a Profiler. The configuration must be valid.
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
		secure := &meterapi.Secure{ServerName: meterapi.ServerName(p.Config.MeterNamespace), Authorities: p.meterAuthorities, TokenFile: p.Config.MeterToken}
		p.HTTP = secure.Client()
		p.HTTP.Timeout = patience
	}
	p.learned, p.left = runtimes.NewLearner(), map[string]time.Time{}
	p.memory = memory{began: p.Clock.Now(), records: map[string]*record.Record{}, dirty: map[string]time.Time{}, reported: map[string]string{}}
	return p, nil
}

// SetupWithManager registers the profiler.
func (p *Profiler) SetupWithManager(ctx context.Context, manager ctrl.Manager) error {
	for _, kind := range append(world.Kinds(true), &v1alpha1.MachineProfile{}) { // rounds read these kinds from the cache
		if _, err := manager.GetCache().GetInformer(ctx, kind, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("set up the profiler: cache %T: %w", kind, err)
		}
	}
	err := ctrl.NewControllerManagedBy(manager).Named("profiler").
		Watches(&corev1.Node{}, soon(), builder.WithPredicates(nodeMatters())).
		Watches(&corev1.Pod{}, soon(), builder.WithPredicates(p.podMatters())).
		Watches(&corev1.ConfigMap{}, soon()). // of the pause switch
		Watches(&batchv1.Job{}, soon(), builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetNamespace() == p.Config.Namespace }))).
		Watches(&v1alpha1.MachineProfile{}, soon()).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Complete(p)
	if err != nil {
		return fmt.Errorf("set up the profiler: %w", err)
	}
	return nil
}

// soon starts a round after settling.
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

// podMatters selects pods that have just become unschedulable, those that are bound while probes
// may run, and those of probes. It records pods that finish or are deleted.
func (p *Profiler) podMatters() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool {
			pod := e.Object.(*corev1.Pod)
			p.finish(pod) // it may have finished before the watch
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

// probing reports whether probes may run, unless the cluster is paused.
func (p *Profiler) probing() bool { return p.Config.Mode == Act && !p.DryRun }

// probing reports whether probes may run.
func (r *round) probing() bool { return r.inactive() == "" }

// inactive returns why probes may not run; "" if they may.
func (r *round) inactive() string {
	switch {
	case r.Config.Mode != Act:
		return "--probing is not Act"
	case r.DryRun:
		return "this is a dry run"
	case r.paused.Paused:
		return r.paused.Message()
	}
	return ""
}

// Reconcile implements reconcile.Reconciler. It runs one round.
func (p *Profiler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	r, err := p.observe(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	again, err := r.run(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: max(again, settling)}, nil
}
