package migration

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/migration/migrationdecide"
	"supercargo.dev/supercargo/descheduler/migration/podedit"
	"supercargo.dev/supercargo/internal/movable"
	"supercargo.dev/supercargo/internal/surroundings"
	"supercargo.dev/supercargo/test/fixtures"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// config is the configuration of the tests.
var config = migrationdecide.Config{MaxMigrations: 4, MaxPerNode: 2, MaxPerNamespace: 4, CleanPatience: time.Minute, KeepFinished: time.Hour, MaxFinished: 10}

// bench is a Reconciler on a fake API server, whose cache is never outdated unless a test gives it another one.
type bench struct {
	*Reconciler
	t      *testing.T
	api    client.WithWatch
	events *events.FakeRecorder
	// writes are the requested writes, as "VERB KIND".
	writes []string
	// deletes are the options of the deletions.
	deletes []client.DeleteOptions
	// fail returns the API server's error for a request; nil if it succeeds. Reads have the verbs get and list.
	fail func(verb string, o any) error
}

func newBench(t *testing.T, objects ...client.Object) *bench {
	t.Helper()
	b := &bench{t: t, events: events.NewFakeRecorder(100), fail: func(string, any) error { return nil }}
	write := func(verb string, o client.Object) error {
		b.writes = append(b.writes, verb+" "+kindOf(o))
		return b.fail(verb, o)
	}
	builder := fixtures.Client(objects...).
		WithStatusSubresource(&v1alpha1.Migration{}, &policyv1.PodDisruptionBudget{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, to client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if err := b.fail("get", o); err != nil {
					return err
				}
				return to.Get(ctx, key, o, opts...)
			},
			List: func(ctx context.Context, to client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if err := b.fail("list", list); err != nil {
					return err
				}
				return to.List(ctx, list, opts...)
			},
			Create: func(ctx context.Context, to client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				verb := "create"
				if len((&client.CreateOptions{}).ApplyOptions(opts).DryRun) > 0 {
					verb = "try"
				}
				if err := write(verb, o); err != nil {
					return err
				}
				return to.Create(ctx, o, opts...)
			},
			Patch: func(ctx context.Context, to client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				if err := write("patch", o); err != nil {
					return err
				}
				return to.Patch(ctx, o, p, opts...)
			},
			Delete: func(ctx context.Context, to client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				b.deletes = append(b.deletes, *(&client.DeleteOptions{}).ApplyOptions(opts))
				if err := write("delete", o); err != nil {
					return err
				}
				return to.Delete(ctx, o, opts...)
			},
			SubResourcePatch: func(ctx context.Context, to client.Client, of string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				if err := write("patch "+of+" of", o); err != nil {
					return err
				}
				return to.SubResource(of).Patch(ctx, o, p, opts...)
			},
			SubResourceUpdate: func(ctx context.Context, to client.Client, of string, o client.Object, opts ...client.SubResourceUpdateOption) error {
				if err := write("update "+of+" of", o); err != nil {
					return err
				}
				return to.SubResource(of).Update(ctx, o, opts...)
			},
		})
	for _, index := range indexes {
		builder = builder.WithIndex(index.object, index.field, index.keys)
	}
	b.api = builder.Build()
	b.Reconciler = &Reconciler{Client: b.api, Live: b.api, Events: b.events, Clock: clocktesting.NewFakePassiveClock(now), Config: config}
	return b
}

func kindOf(o any) string {
	switch o.(type) {
	case *v1alpha1.Migration:
		return "Migration"
	case *v1alpha1.MigrationList:
		return "MigrationList"
	case *corev1.Pod:
		return "Pod"
	case *policyv1.PodDisruptionBudget:
		return "PodDisruptionBudget"
	}
	return fmt.Sprintf("%T", o)
}

// step reconciles Migration move once, by the controller of those that have begun or of those that wait.
func (b *bench) step(concerns func(client.Object) bool) (reconcile.Result, error) {
	b.t.Helper()
	return b.reconcile(concerns).Reconcile(b.t.Context(), request("ns", "move"))
}

// migration returns the current Migration move; nil if it is gone.
func (b *bench) migration() *v1alpha1.Migration {
	b.t.Helper()
	m, err := surroundings.Get(b.t.Context(), b.api, "ns", "move", &v1alpha1.Migration{})
	if err != nil {
		b.t.Fatal(err)
	}
	return m
}

// pod returns a current pod; nil if it is gone.
func (b *bench) pod(name string) *corev1.Pod {
	b.t.Helper()
	pod, err := surroundings.Get(b.t.Context(), b.api, "ns", name, &corev1.Pod{})
	if err != nil {
		b.t.Fatal(err)
	}
	return pod
}

// recorded returns the Events so far.
func (b *bench) recorded() (all []string) {
	for len(b.events.Events) > 0 {
		all = append(all, <-b.events.Events)
	}
	return all
}

const (
	oldName = "work"
	newName = "work-m12345678"
)

// source returns the pod to move, on node a.
func source(change ...func(*corev1.Pod)) *corev1.Pod {
	return fixtures.MovablePod(oldName, "a", change...)
}

// nodes are nodes a and b, which can both take part in a migration.
func nodes() []client.Object { return []client.Object{fixtures.AbleNode("a"), fixtures.AbleNode("b")} }

// finished sets the condition of a migration that has ended in a phase.
func finished(phase v1alpha1.MigrationPhase, at time.Time) func(*v1alpha1.Migration) {
	return func(m *v1alpha1.Migration) {
		m.Status.Phase = phase
		m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{
			Type: v1alpha1.MigrationFinished, Status: metav1.ConditionTrue, Reason: string(phase), LastTransitionTime: metav1.NewTime(at),
		})
	}
}

// waitingMove returns Migration move before it has begun.
func waitingMove(change ...func(*v1alpha1.Migration)) *v1alpha1.Migration {
	m := &v1alpha1.Migration{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "move", UID: "12345678-9abc", CreationTimestamp: metav1.NewTime(now)},
		Spec:       v1alpha1.MigrationSpec{PodName: oldName, Deadline: metav1.Duration{Duration: 5 * time.Minute}},
	}
	for _, c := range change {
		c(m)
	}
	return m
}

func withFinalizer(m *v1alpha1.Migration) { m.Finalizers = []string{v1alpha1.FinalizerMigration} }

// plan returns the plan of Migration move.
func plan(pod *corev1.Pod) *v1alpha1.MigrationPlan {
	in := movable.Input{Pod: pod}
	return podedit.NewPlan(in, movable.Verdict{Backend: v1alpha1.BackendContainerd}, "12345678-9abc", now, 5*time.Minute)
}

// begunMove returns Migration move of a pod after it has begun. The source is prepared.
func begunMove(pod *corev1.Pod, change ...func(*v1alpha1.Migration)) *v1alpha1.Migration {
	m := waitingMove(withFinalizer)
	m.Status.Plan, m.Status.Order, m.Status.Phase = plan(pod), v1alpha1.OrderPrepare, v1alpha1.MigrationReserving
	m.Status.Source = &v1alpha1.SourceReport{Step: v1alpha1.SourcePrepared, Requirements: "needs"}
	for _, c := range change {
		c(m)
	}
	return m
}

// reserved reserves room for the new pod on node b, whose agent is prepared.
func reserved(m *v1alpha1.Migration) {
	m.Status.Reservation = &v1alpha1.MigrationReservation{Node: "b", PodUID: "uid-new", Time: metav1.NewTime(now)}
	m.Status.Target = &v1alpha1.TargetReport{Node: "b", Step: v1alpha1.TargetPrepared}
}

// handingOver makes a migration one that can no longer be rolled back.
func handingOver(m *v1alpha1.Migration) {
	m.Status.Order, m.Status.Phase, m.Status.Commit = v1alpha1.OrderFreeze, v1alpha1.MigrationHandingOver, v1alpha1.CommitHandedOver
	m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{Type: v1alpha1.MigrationHandedOver, Status: metav1.ConditionFalse, LastTransitionTime: metav1.NewTime(now)})
}

// restored returns the new pod of Migration move.
func restored(t *testing.T, pod *corev1.Pod, change ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	p, err := podedit.NewPod(waitingMove(), plan(pod), pod, nil, "needs")
	if err != nil {
		t.Fatal(err)
	}
	p.UID, p.Status.Phase = "uid-new", corev1.PodPending
	for _, c := range change {
		c(p)
	}
	return p
}

// budgetOf returns a budget that selects the pods and allows one disruption.
func budgetOf() *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "work"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "work"}}},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1, DesiredHealthy: 1, CurrentHealthy: 2},
	}
}

func names(requests []reconcile.Request) []string {
	all := []string{}
	for _, r := range requests {
		all = append(all, r.Name)
	}
	return all
}

// otherMove returns a migration of another pod, with a UID of its own.
func otherMove(name string, change ...func(*v1alpha1.Migration)) *v1alpha1.Migration {
	m := waitingMove(change...)
	m.Name, m.UID, m.Spec.PodName = name, types.UID("uid-"+name), "pod-"+name
	return m
}
