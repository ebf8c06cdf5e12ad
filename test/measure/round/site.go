package round

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet"
	"supercargo.dev/supercargo/internal/platform/pause"
	"supercargo.dev/supercargo/test/measure/fleetsite"
)

// ahead is a clock that can be put forward. On the processor clock only the time passes that the process has computed,
// which other processes do not prolong.
type ahead struct {
	by        time.Duration
	began     time.Time
	processor bool
}

// Now returns the time of the clock.
func (a *ahead) Now() time.Time {
	if a.processor {
		return a.began.Add(a.by + cpuTime())
	}
	return time.Now().Add(a.by)
}

// Since returns the time that has passed on the clock.
func (a *ahead) Since(t time.Time) time.Duration { return a.Now().Sub(t) }

var _ clock.PassiveClock = (*ahead)(nil)

// site is a cluster with its autoscaler.
type site struct {
	*scene
	api        *fleetsite.Server
	clock      *ahead
	reconciler *fleet.Reconciler
	began      time.Time // the last round, in whole seconds
}

// newSite builds a cluster of a case, and the reconciler as the autoscaler does.
func newSite(nodes, flavors int, c change, processor bool) (*site, error) {
	log.SetLogger(logr.Discard())
	api, err := fleetsite.NewServer()
	if err != nil {
		return nil, err
	}
	s := &site{api: api, clock: &ahead{began: time.Now(), processor: processor}}
	if s.scene, err = newScene(api, nodes, flavors, c, s.clock.Now()); err != nil {
		return nil, err
	}
	s.reconciler, err = fleetsite.NewReconciler(api, s.clock)
	return s, err
}

// pause keeps the autoscaler from acting, or lets it act again.
func (s *site) pause(on bool) error {
	asked := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: pause.DefaultNamespace, Name: pause.Name}}
	if on {
		return s.api.Add(asked)
	}
	return s.api.Remove(asked)
}

// round runs one round, a minute after the last one, and returns how long it took.
func (s *site) round(ctx context.Context) (took time.Duration, err error) {
	s.clock.by += time.Minute
	before, began := s.deciding(), s.clock.Now()
	s.began = began.Truncate(time.Second)
	result, err := s.reconciler.Reconcile(ctx, reconcile.Request{NamespacedName: types.NamespacedName{Name: fleetsite.FleetName}})
	took = s.clock.Since(began)
	if err != nil {
		return 0, err
	}
	if s.deciding() == before {
		return 0, fmt.Errorf("the round decided nothing, and the next one is due in %v: %+v", result.RequeueAfter, s.fleet().Status.Conditions)
	}
	return took, nil
}

// fleet returns the NodeFleet as stored.
func (s *site) fleet() *v1alpha1.NodeFleet {
	var f v1alpha1.NodeFleet
	if err := s.api.Read(types.NamespacedName{Name: fleetsite.FleetName}, &f); err != nil {
		panic(err) // the scene has it
	}
	return &f
}

// deciding returns the time that the fleet has taken for decisions so far, in seconds.
func (s *site) deciding() (seconds float64) {
	families, err := metrics.Registry.Gather()
	if err != nil {
		panic(err) // the metrics are those of this process
	}
	for _, f := range families {
		if f.GetName() != "supercargo_nodefleet_planning_seconds" {
			continue
		}
		for _, m := range f.GetMetric() {
			seconds += m.GetHistogram().GetSampleSum()
		}
	}
	return seconds
}

// decision describes the last decision, if it is one of the last round.
func (s *site) decision() (string, error) {
	f := s.fleet()
	if c := meta.FindStatusCondition(f.Status.Conditions, v1alpha1.FleetReady); c == nil || c.Reason != v1alpha1.FleetReasonReconciled {
		return "", fmt.Errorf("the fleet is not ready: %+v", f.Status.Conditions)
	}
	if d := f.Status.LastDecision; d != nil && !d.Time.Time.Before(s.began) {
		return d.Summary, nil
	}
	return "nothing", nil
}
