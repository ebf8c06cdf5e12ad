package replica

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/platform/promql"
	"supercargo.dev/supercargo/test/fixtures"
	"supercargo.dev/supercargo/test/kit/testapi"
)

// stage is a controller without a manager: the test provides its clock and its queue.
type stage struct {
	*testing.T
	*Reconciler
	clock  *testingclock.FakeClock
	events *events.FakeRecorder
	woken  chan types.NamespacedName
	// values are the answers of the source by query; fault is its error.
	values map[string]float64
	fault  error
	// scale is the scale of the target. before runs before each write; its error becomes that of the write.
	scale        autoscalingv1.Scale
	before       func() error
	rescaled     []int32
	statusWrites int
}

var web = types.NamespacedName{Namespace: "shop", Name: "web"}

// newStage returns a stage with one policy, evaluated every second, for a Deployment of 10 replicas with 10 Ready pods.
func newStage(t *testing.T, change ...func(*v1alpha1.ReplicaPolicySpec)) *stage {
	t.Helper()
	s := &stage{T: t, clock: testingclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), events: events.NewFakeRecorder(1000),
		woken: make(chan types.NamespacedName, 10), values: map[string]float64{"rate": 50, "response": 0.11, "queue": 5}, before: func() error { return nil }}
	policy := &v1alpha1.ReplicaPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "policy", Generation: 1},
		Spec: v1alpha1.ReplicaPolicySpec{
			Target: v1alpha1.ReplicaTarget{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}, Mode: v1alpha1.ReplicasAct, MinReplicas: 1, MaxReplicas: 60,
			SLO: &v1alpha1.ServiceLevel{ResponseTime: metav1.Duration{Duration: 200 * time.Millisecond}}, Service: &v1alpha1.ServiceModel{RatePerReplica: resource.MustParse("10")},
			Law: v1alpha1.ReplicaLawSpec{Name: v1alpha1.LawPredictive, Interval: metav1.Duration{Duration: 10 * time.Second}},
			Metrics: v1alpha1.ReplicaMetrics{Source: "default", MaxAge: metav1.Duration{Duration: time.Minute},
				Queries: &v1alpha1.MetricQueries{ArrivalRate: "rate", ResponseTime: "response", QueueLength: "queue"}},
		},
	}
	for _, f := range change {
		f(&policy.Spec)
	}
	objects := []client.Object{policy, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "Deployment/web", Generation: 1}}, replicaSet("web")}
	for i := range 10 {
		objects = append(objects, pod(fmt.Sprint("web-", i), true))
	}
	s.scale = autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: autoscalingv1.ScaleSpec{Replicas: 10}, Status: autoscalingv1.ScaleStatus{Selector: "app=web"}}
	c := fixtures.Client(objects...).WithStatusSubresource(policy).
		WithIndex(&v1alpha1.ReplicaPolicy{}, policiesByTarget, func(o client.Object) []string { return []string{policyTarget(o.(*v1alpha1.ReplicaPolicy))} }).
		WithIndex(&autoscalingv2.HorizontalPodAutoscaler{}, autoscalersByTarget, func(o client.Object) []string {
			ref := o.(*autoscalingv2.HorizontalPodAutoscaler).Spec.ScaleTargetRef
			return []string{targetKey(ref.APIVersion, ref.Kind, ref.Name)}
		}).
		WithInterceptorFuncs(interceptor.Funcs{SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, options ...client.SubResourceUpdateOption) error {
			s.statusWrites++
			return c.SubResource(sub).Update(ctx, o, options...)
		}}).Build()
	s.Reconciler = &Reconciler{
		Client: c, Live: c, Scaler: s, Kinds: &Kinds{known: map[schema.GroupKind]schema.GroupVersionKind{{Group: "apps", Kind: "Deployment"}: appsv1.SchemeGroupVersion.WithKind("Deployment")}},
		Sources: map[string]*Source{"default": NewSource("default", s, time.Minute)}, Events: s.events, Clock: s.clock,
		tracked: map[types.NamespacedName]*tracked{}, running: t.Context(), wake: func(key types.NamespacedName) { s.woken <- key },
	}
	return s
}

// controlledBy returns the reference to a controller, whose UID is kind/name.
func controlledBy(kind, name string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, UID: types.UID(kind + "/" + name), Controller: new(true)}}
}

// replicaSet returns a ReplicaSet of the Deployment of the same name.
func replicaSet(name string) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("ReplicaSet/" + name), OwnerReferences: controlledBy("Deployment", name)}}
}

func pod(name string, ready bool) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), Labels: map[string]string{"app": "web"},
		OwnerReferences: controlledBy("ReplicaSet", "web")}}
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
	return p
}

// Query implements promql.Querier.
func (s *stage) Query(_ context.Context, expression string, at time.Time) ([]promql.Sample, error) {
	if s.fault != nil {
		return nil, s.fault
	}
	return []promql.Sample{{Value: s.values[expression], At: at}}, nil
}

// Scale implements Scaler.
func (s *stage) Scale(context.Context, schema.GroupVersionKind, types.NamespacedName) (*autoscalingv1.Scale, error) {
	return s.scale.DeepCopy(), nil
}

// SetScale implements Scaler.
func (s *stage) SetScale(_ context.Context, _ schema.GroupVersionKind, scale *autoscalingv1.Scale) error {
	if err := s.before(); err != nil {
		return err
	}
	s.scale = *scale
	s.rescaled = append(s.rescaled, scale.Spec.Replicas)
	return nil
}

// once runs one step and returns the requeue delay.
func (s *stage) once() time.Duration {
	s.Helper()
	result, err := s.Reconcile(s.Context(), reconcile.Request{NamespacedName: web})
	if err != nil {
		s.Fatal(err)
	}
	return result.RequeueAfter
}

// look queries and decides as soon as that is due, and returns the requeue delay.
func (s *stage) evaluate() time.Duration {
	s.Helper()
	for range 100 {
		again := s.once()
		if again == 0 {
			<-s.woken
			return s.once()
		}
		s.clock.Step(again)
	}
	s.Fatal("it is never due")
	return 0
}

// run evaluates for the duration d.
func (s *stage) run(d time.Duration) (evaluations int) {
	s.Helper()
	for end := s.clock.Now().Add(d); s.clock.Now().Before(end); evaluations++ {
		s.evaluate()
	}
	return evaluations
}

func (s *stage) policy() *v1alpha1.ReplicaPolicy {
	s.Helper()
	p := &v1alpha1.ReplicaPolicy{}
	testapi.Get(s, s.Client, web, p)
	return p
}

func (s *stage) ready() metav1.Condition {
	s.Helper()
	c := meta.FindStatusCondition(s.policy().Status.Conditions, v1alpha1.PolicyReady)
	if c == nil {
		s.Fatal("it is not said whether the policy is Ready")
	}
	return *c
}

// told returns the Events recorded so far.
func (s *stage) told() (found []string) {
	for {
		select {
		case e := <-s.events.Events:
			found = append(found, e)
		default:
			return found
		}
	}
}

func TestAPolicyCheckedEverySecondIsWrittenOnceAMinute(t *testing.T) {
	s := newStage(t)
	s.run(20 * time.Second) // until the number of replicas is stable
	s.statusWrites = 0
	evaluations := s.run(5 * time.Minute)
	if evaluations < 250 || s.statusWrites < 4 || s.statusWrites > 7 {
		t.Errorf("%d evaluations in five minutes wrote the status %d times, want about five", evaluations, s.statusWrites)
	}
	if m := s.policy().Status.Memory; m == nil || s.clock.Since(m.Time.Time) > rememberEvery+2*time.Second {
		t.Errorf("the memory is of %v", m)
	}
}

// TestPodsThatNeverBecomeReadyAreReplaced: two of ten pods never become Ready. The law sees a service of eight, at whose
// load it wants nine more than serve, and gets two in place of the others.
func TestPodsThatNeverBecomeReadyAreReplaced(t *testing.T) {
	s := newStage(t)
	for i := range 2 {
		p := pod(fmt.Sprint("web-", i), false)
		p.CreationTimestamp, p.Spec.NodeName = metav1.NewTime(s.clock.Now()), "broken"
		testapi.Delete(s, s.Client, pod(p.Name, true))
		testapi.Create(s, s.Client, p)
	}
	s.values["rate"] = 85
	s.values["response"], s.values["queue"] = 0.15, 12
	s.evaluate()
	if n := s.tracked[web].last.Replicas; n > 10 || len(s.rescaled) > 0 {
		t.Fatalf("%d replicas while two are starting", n)
	}
	s.clock.Step(10 * time.Minute) // no start was observed
	s.evaluate()
	last := s.tracked[web].last
	if len(s.rescaled) != 1 || !strings.Contains(strings.Join(last.Reasons, "; "), "2 replicas in place of pods that do not become Ready") {
		t.Errorf("rescaled to %v, %q", s.rescaled, last.Reasons)
	}
}

func TestNewsAreHeldBackWhileTheLastWriteIsFresh(t *testing.T) {
	s := newStage(t)
	s.evaluate()
	s.statusWrites = 0
	for i := range 20 { // it alternates between measured and not measured
		s.fault = nil
		if i%2 == 0 {
			s.fault = errors.New("out of order")
		}
		s.clock.Step(time.Second)
		s.tracked[web].due = s.clock.Now()
		s.once()
		<-s.woken
		s.once()
	}
	if s.statusWrites > 5 {
		t.Errorf("the status was written %d times in 20 s", s.statusWrites)
	}
	s.clock.Step(writeGap)
	s.once()
	if c := meta.FindStatusCondition(s.policy().Status.Conditions, v1alpha1.PolicyMeasured); c.Status != metav1.ConditionTrue {
		t.Errorf("the last news were not written: %+v", c)
	}
}

func TestAWriteThatCameBetweenOthersIsTriedAgain(t *testing.T) {
	s := newStage(t)
	s.values["rate"] = 300
	conflicts := 2
	s.before = func() error {
		if conflicts--; conflicts >= 0 {
			return apierrors.NewConflict(schema.GroupResource{Resource: "deployments"}, "web", errors.New("changed"))
		}
		return nil
	}
	s.evaluate()
	if len(s.rescaled) != 1 || s.rescaled[0] < 31 {
		t.Errorf("rescaled to %v, want once, to more than 30", s.rescaled)
	}
	if events := strings.Join(s.told(), "\n"); !strings.Contains(events, "Scaled Deployment web from 10 to") {
		t.Errorf("it is told: %s", events)
	}
}

func TestADecisionThatSomebodyElseOvertookIsDropped(t *testing.T) {
	s := newStage(t)
	s.once()
	<-s.woken
	s.values["rate"] = 300
	s.clock.Step(time.Second)
	s.tracked[web].measured.drop()
	s.once()
	<-s.woken
	s.Scaler = &overtaken{stage: s}
	s.once()
	if len(s.rescaled) != 0 || s.scale.Spec.Replicas != 17 {
		t.Errorf("rescaled to %v over somebody else's 17", s.rescaled)
	}
	if events := strings.Join(s.told(), "\n"); !strings.Contains(events, "it has 17 replicas: another client has changed it") {
		t.Errorf("it is told: %s", events)
	}
}

// overtaken is a scale that changes between the decision and the write.
type overtaken struct {
	*stage
	reads int
}

// Scale implements Scaler.
func (o *overtaken) Scale(ctx context.Context, kind schema.GroupVersionKind, key types.NamespacedName) (*autoscalingv1.Scale, error) {
	if o.reads++; o.reads > 0 {
		o.scale.Spec.Replicas = 17
	}
	return o.stage.Scale(ctx, kind, key)
}

func TestADecisionThatCouldNotBeCarriedOutIsTriedAgainUntilTheNextEvaluation(t *testing.T) {
	s := newStage(t, func(p *v1alpha1.ReplicaPolicySpec) { p.Law.Interval = metav1.Duration{Duration: 1000 * time.Second} })
	s.values["rate"] = 300
	s.before = func() error { return errors.New("the API server is away") }
	if again := s.evaluate(); again != actRetry {
		t.Errorf("tried again after %v, want %v", again, actRetry)
	}
	if c := s.ready(); c.Reason != "NotScaled" || !strings.Contains(c.Message, "the API server is away") {
		t.Errorf("Ready is %+v", c)
	}
	s.clock.Step(actRetry)
	s.once()
	if c := s.ready(); c.Reason != "NotScaled" {
		t.Errorf("while it still cannot be carried out, Ready is %+v", c)
	}
	s.before = func() error { return nil }
	s.clock.Step(actRetry)
	s.once()
	if len(s.rescaled) != 1 || s.rescaled[0] < 31 {
		t.Errorf("rescaled to %v, want once, to more than 30", s.rescaled)
	}
	s.clock.Step(writeGap)
	s.once()
	if c := s.ready(); c.Reason != "Active" {
		t.Errorf("when it has been carried out, Ready is %+v", c)
	}
	if len(s.woken) > 0 {
		t.Error("the law was asked once more")
	}
}

func TestASourceIsNotAskedTwiceAtATime(t *testing.T) {
	s := newStage(t)
	slow := make(chan struct{})
	s.Sources["default"] = NewSource("default", blocking{s, slow}, time.Minute)
	s.once()
	for range 5 {
		s.clock.Step(10 * time.Second)
		if again := s.once(); again != 0 {
			t.Errorf("it comes back after %v, want when it is woken", again)
		}
	}
	close(slow)
	<-s.woken
	s.once()
	if o := s.policy().Status.LastObservation; o == nil || o.ArrivalRate != "50" {
		t.Errorf("observed: %+v", o)
	}
	if len(s.woken) > 0 {
		t.Error("it was asked more than once")
	}
}

// blocking answers when the test allows it.
type blocking struct {
	promql.Querier
	open chan struct{}
}

// Query implements promql.Querier.
func (b blocking) Query(ctx context.Context, expression string, at time.Time) ([]promql.Sample, error) {
	<-b.open
	return b.Querier.Query(ctx, expression, at)
}

func TestARoundIsAbandonedAfterItsTime(t *testing.T) {
	s := newStage(t)
	s.Sources["default"] = NewSource("default", hanging{}, 10*time.Millisecond)
	s.evaluate()
	c := meta.FindStatusCondition(s.policy().Status.Conditions, v1alpha1.PolicyMeasured)
	if c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "deadline exceeded") {
		t.Errorf("%+v", c)
	}
}

// hanging never answers.
type hanging struct{}

// Query implements promql.Querier.
func (hanging) Query(ctx context.Context, _ string, _ time.Time) ([]promql.Sample, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestAnswersToAnOldSpecAreNotUsed(t *testing.T) {
	s := newStage(t)
	s.once()
	<-s.woken
	p := s.policy()
	p.Generation, p.Spec.Metrics.Queries.ArrivalRate = 2, "other"
	testapi.Update(t, s.Client, p)
	s.values["other"] = 20
	s.once()
	<-s.woken
	s.once()
	if o := s.policy().Status.LastObservation; o.ArrivalRate != "20" || s.policy().Status.ObservedGeneration != 2 {
		t.Errorf("observed %+v for generation %d", o, s.policy().Status.ObservedGeneration)
	}
}

func TestAPolicyThatIsNoMoreIsForgotten(t *testing.T) {
	s := newStage(t, func(p *v1alpha1.ReplicaPolicySpec) { p.Mode = v1alpha1.ReplicasViaHPA })
	s.evaluate()
	shown, conditions := testutil.CollectAndCount(metricConditions), len(s.policy().Status.Conditions)
	testapi.Delete(t, s.Client, s.policy())
	s.once()
	if len(s.tracked) != 0 || metricDesired.DeleteLabelValues("shop", "web") {
		t.Error("something is still remembered")
	}
	if left := testutil.CollectAndCount(metricConditions); conditions == 0 || shown-left != conditions {
		t.Errorf("of %d conditions that are metrics %d are left, and the policy had %d", shown, left, conditions)
	}
}

func TestStartUpTimesAreLearnedFromPodsThatAreSeenToStart(t *testing.T) {
	s := newStage(t)
	s.evaluate()
	made := s.clock.Now()
	at := func(p *corev1.Pod, ready bool, since time.Duration) *corev1.Pod {
		p = p.DeepCopy()
		p.CreationTimestamp = metav1.NewTime(made)
		p.Status.Conditions = pod("", ready).Status.Conditions
		p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(made.Add(since))
		return p
	}
	learned := func() int64 {
		if up := s.tracked[web].pods.startUp; up != nil {
			return up.Samples
		}
		return 0
	}
	steps := []struct {
		what    string
		do      func()
		samples int64
	}{
		{"one starts", func() {
			p := pod("new", false)
			s.podChanged(nil, at(p, false, 0))
			s.podChanged(at(p, false, 0), at(p, true, 7*time.Second))
		}, 1},
		{"it is unready for a while", func() {
			p := pod("new", false)
			s.podChanged(at(p, true, 7*time.Second), at(p, false, time.Hour))
			s.podChanged(at(p, false, time.Hour), at(p, true, 2*time.Hour))
		}, 1},
		{"one that was Ready before is unready for a while", func() {
			p := pod("web-1", true)
			s.podChanged(at(p, true, 0), at(p, false, time.Hour))
			s.podChanged(at(p, false, time.Hour), at(p, true, 2*time.Hour))
		}, 1},
		{"the container of one has to be started again", func() {
			p := pod("crashed", false)
			s.podChanged(nil, at(p, false, 0))
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 1}}
			s.podChanged(at(p, false, 0), at(p, true, time.Hour))
		}, 1},
		{"one of another service starts", func() {
			p := pod("other", false)
			p.Labels = map[string]string{"app": "other"}
			s.podChanged(nil, at(p, false, 0))
			s.podChanged(at(p, false, 0), at(p, true, time.Hour))
		}, 1},
		{"one starts and leaves, and its namesake starts", func() {
			p := pod("gone", false)
			s.podChanged(nil, at(p, false, 0))
			s.podChanged(at(p, false, 0), nil)
			s.podChanged(nil, at(p, true, time.Hour))
		}, 1},
		{"another starts", func() {
			p := pod("second", false)
			s.podChanged(nil, at(p, false, 0))
			s.podChanged(at(p, false, 0), at(p, true, 9*time.Second))
		}, 2},
	}
	for _, step := range steps {
		if step.do(); learned() != step.samples {
			t.Errorf("%s: learned from %d, want %d", step.what, learned(), step.samples)
		}
	}
	if mean := s.tracked[web].pods.startUp.Mean.Duration; mean != 8*time.Second {
		t.Errorf("they take %v, want 8s", mean)
	}
	if s.tracked[web].pods.counted {
		t.Error("pods are not counted again")
	}
}

func TestPodsThatLeaveOrHaveEndedDoNotCount(t *testing.T) {
	s := newStage(t)
	for name, spoil := range map[string]func(*corev1.Pod){
		"leaving": func(p *corev1.Pod) { p.Finalizers = []string{"x.example/y"} },
		"ended":   func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded },
		"failed":  func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed },
		"unready": func(p *corev1.Pod) { p.Status.Conditions = nil },
	} {
		p := pod(name, true)
		spoil(p)
		testapi.Create(t, s.Client, p)
		if name == "leaving" {
			testapi.Delete(t, s.Client, p)
		}
	}
	s.evaluate()
	if status := s.policy().Status; status.Replicas != 11 || status.ReadyReplicas != 10 {
		t.Errorf("%d pods, %d Ready, want 11 and 10", status.Replicas, status.ReadyReplicas)
	}
}

func TestADryRunWritesNothing(t *testing.T) {
	s := newStage(t)
	s.DryRun = true
	s.values["rate"] = 300
	s.run(10 * time.Second)
	if s.statusWrites > 0 || len(s.rescaled) > 0 || len(s.told()) > 0 {
		t.Errorf("%d writes of the status, rescaled to %v", s.statusWrites, s.rescaled)
	}
}
