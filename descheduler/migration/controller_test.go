package migration

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/event"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/migration/migrationdecide"
	"supercargo.dev/supercargo/descheduler/migration/podedit"
	"supercargo.dev/supercargo/internal/platform/pause"
	"supercargo.dev/supercargo/internal/surroundings"
	"supercargo.dev/supercargo/test/fixtures"
)

var errDown = errors.New("the API server is down")

// writeCases are clusters in which the next step is one write.
var writeCases = []struct {
	name    string
	objects func(t *testing.T) []client.Object
	waits   bool // the migration has not begun
	writes  []string
	// names is what an error of the last write says.
	names string
	check func(t *testing.T, b *bench)
}{
	{
		name:    "a new migration gets the finalizer, if the new pod would be admitted",
		objects: func(*testing.T) []client.Object { return append(nodes(), source(), waitingMove()) },
		waits:   true, writes: []string{"try Pod", "patch Migration"}, names: "write the finalizers of *v1alpha1.Migration ns/move",
		check: func(t *testing.T, b *bench) {
			if m := b.migration(); !slices.Contains(m.Finalizers, v1alpha1.FinalizerMigration) || m.Status.Plan != nil {
				t.Errorf("finalizers %v, plan %v", m.Finalizers, m.Status.Plan)
			}
			if b.pod(newName) != nil {
				t.Error("the dry run has created the new pod")
			}
		},
	},
	{
		name:    "a migration with the finalizer begins",
		objects: func(*testing.T) []client.Object { return append(nodes(), source(), waitingMove(withFinalizer)) },
		waits:   true, writes: []string{"try Pod", "try Pod", "patch status of Migration"}, names: "write the status of *v1alpha1.Migration ns/move",
		check: func(t *testing.T, b *bench) {
			if m := b.migration(); m.Status.Plan == nil || m.Status.Plan.RestoredPod != newName || m.Status.Order != v1alpha1.OrderPrepare {
				t.Errorf("status %+v", m.Status)
			}
			flights := b.registry.others([]v1alpha1.Migration{*waitingMove(func(m *v1alpha1.Migration) { m.ResourceVersion = "1" })}, "")
			if len(flights) != 1 || flights[0].Source != "a" {
				t.Errorf("to an outdated cache the flights are %+v", flights)
			}
		},
	},
	{
		name:    "the new pod is created when the source is prepared",
		objects: func(*testing.T) []client.Object { return append(nodes(), source(), begunMove(source())) },
		writes:  []string{"create Pod"}, names: "create *v1.Pod ns/" + newName,
		check: func(t *testing.T, b *bench) {
			if p := b.pod(newName); p == nil || p.Annotations[v1alpha1.AnnotationRequirements] != "needs" {
				t.Errorf("new pod %+v", p)
			}
		},
	},
	{
		name: "the disruption is claimed before the container is frozen",
		objects: func(t *testing.T) []client.Object {
			return append(nodes(), source(), restored(t, source()), begunMove(source(), reserved), budgetOf())
		},
		writes: []string{"update status of PodDisruptionBudget"}, names: "write the status of *v1.PodDisruptionBudget ns/work",
		check: func(t *testing.T, b *bench) {
			budget, err := surroundings.Get(t.Context(), b.api, "ns", "work", &policyv1.PodDisruptionBudget{})
			if err != nil || budget.Status.DisruptionsAllowed != 0 {
				t.Errorf("%v, the budget still allows %d", err, budget.Status.DisruptionsAllowed)
			}
		},
	},
	{
		name: "the old pod is deleted, with a grace period that outlasts the migration",
		objects: func(t *testing.T) []client.Object {
			return append(nodes(), source(), restored(t, source()), begunMove(source(), reserved, handingOver))
		},
		writes: []string{"delete Pod"}, names: "delete *v1.Pod ns/" + oldName,
		check: func(t *testing.T, b *bench) {
			if b.pod(oldName) != nil {
				t.Error("the old pod is there")
			}
			o := b.deletes[0]
			if *o.GracePeriodSeconds != 900 || *o.Preconditions.UID != "uid-work" || *o.Preconditions.ResourceVersion == "" {
				t.Errorf("grace period %d s, preconditions %+v", *o.GracePeriodSeconds, o.Preconditions)
			}
		},
	},
	{
		name: "the new pod takes over from the old one that is gone",
		objects: func(t *testing.T) []client.Object {
			return append(nodes(), restored(t, source()), begunMove(source(), reserved, handingOver))
		},
		writes: []string{"patch Pod"}, names: "patch *v1.Pod ns/" + newName,
		check: func(t *testing.T, b *bench) {
			if p := b.pod(newName); !podedit.HasTakenOver(p) || p.Labels["app"] != "work" {
				t.Errorf("labels %v, annotations %v", p.Labels, p.Annotations)
			}
		},
	},
	{
		name: "a migration that has ended loses the finalizer",
		objects: func(*testing.T) []client.Object {
			return []client.Object{waitingMove(withFinalizer, finished(v1alpha1.MigrationRolledBack, now))}
		},
		writes: []string{"patch Migration"}, names: "write the finalizers of *v1alpha1.Migration ns/move",
		check: func(t *testing.T, b *bench) {
			if m := b.migration(); len(m.Finalizers) != 0 {
				t.Errorf("finalizers %v", m.Finalizers)
			}
		},
	},
	{
		name: "a migration that ended long ago is deleted",
		objects: func(*testing.T) []client.Object {
			return []client.Object{waitingMove(finished(v1alpha1.MigrationSucceeded, now.Add(-time.Hour)))}
		},
		writes: []string{"delete Migration"}, names: "delete *v1alpha1.Migration ns/move",
		check: func(t *testing.T, b *bench) {
			if b.migration() != nil {
				t.Error("it is there")
			}
			if p := b.deletes[0].Preconditions; *p.UID != "12345678-9abc" || *p.ResourceVersion == "" {
				t.Errorf("preconditions %+v", p)
			}
		},
	},
}

func TestEachStepIsOneWriteAndIsCheckedAgainSoon(t *testing.T) {
	for _, tc := range writeCases {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, tc.objects(t)...)
			result, err := b.step(controllerOf(tc.waits))
			if err != nil || result.RequeueAfter != unseenPatience {
				t.Errorf("%v, again after %s, want %s", err, result.RequeueAfter, unseenPatience)
			}
			if diff := cmp.Diff(tc.writes, b.writes); diff != "" {
				t.Fatalf("writes (-want +got):\n%s", diff)
			}
			tc.check(t, b)
		})
	}
}

// controllerOf returns what concerns the controller of migrations that wait, or of those that have begun.
func controllerOf(waiting bool) func(client.Object) bool {
	if waiting {
		return waits
	}
	return begun
}

func TestAWriteThatFailsIsAnErrorThatNamesTheObject(t *testing.T) {
	for _, tc := range writeCases {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, tc.objects(t)...)
			last := strings.Fields(tc.writes[len(tc.writes)-1])[0]
			b.fail = func(verb string, _ any) error {
				if strings.HasPrefix(verb, last) {
					return errDown
				}
				return nil
			}
			_, err := b.step(controllerOf(tc.waits))
			if !errors.Is(err, errDown) || !strings.Contains(err.Error(), tc.names) {
				t.Errorf("error %v, want one with %q", err, tc.names)
			}
			if got := b.recorded(); len(got) != 0 {
				t.Errorf("Events of a write that has failed: %v", got)
			}
		})
	}
}

func TestAWriteConflictIsDecidedAgainAFewTimes(t *testing.T) {
	of := schema.GroupResource{Resource: "objects"}
	for name, conflict := range map[string]error{
		"changed": apierrors.NewConflict(of, "x", errDown), "gone": apierrors.NewNotFound(of, "x"), "there already": apierrors.NewAlreadyExists(of, "x"),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, append(nodes(), source(), begunMove(source()))...)
			b.fail = func(verb string, _ any) error {
				if verb == "create" {
					return conflict
				}
				return nil
			}
			result, err := b.step(begun)
			if err != nil || result.RequeueAfter != unseenPatience || len(b.writes) != maxTries {
				t.Errorf("%v, again after %s, %d writes", err, result.RequeueAfter, len(b.writes))
			}
			b.fail = func(verb string, _ any) error {
				if verb == "create" && len(b.writes) < maxTries+2 {
					return conflict
				}
				return nil
			}
			if _, err := b.step(begun); err != nil || b.pod(newName) == nil {
				t.Errorf("%v, the new pod is there: %t", err, b.pod(newName) != nil)
			}
		})
	}
}

func TestADryRunWritesNothing(t *testing.T) {
	for _, tc := range writeCases {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, tc.objects(t)...)
			b.DryRun = true
			result, err := b.step(controllerOf(tc.waits))
			if err != nil || !result.IsZero() {
				t.Errorf("%v, %+v", err, result)
			}
			b.writes = slices.DeleteFunc(b.writes, func(w string) bool { return strings.HasPrefix(w, "try ") })
			if len(b.writes) > 0 || len(b.recorded()) > 0 {
				t.Errorf("writes %v", b.writes)
			}
		})
	}
}

func TestAStepWithoutAWriteWaits(t *testing.T) {
	ended := finished(v1alpha1.MigrationRolledBack, now.Add(-10*time.Minute))
	onPause := func(m *v1alpha1.Migration) {
		m.Status.Phase = v1alpha1.MigrationPending
	}
	for _, tc := range []struct {
		name    string
		objects []client.Object
		waits   bool
		again   time.Duration
	}{
		{"there is no such migration", nil, false, 0},
		{"it has not begun, and is another controller's", append(nodes(), source(), waitingMove()), false, 0},
		{"it has begun, and is another controller's", append(nodes(), source(), begunMove(source())), true, 0},
		{"it has ended, and is kept", []client.Object{waitingMove(ended)}, false, 50 * time.Minute},
		{"it waits for others until its deadline", append(nodes(), source(), waitingMove(onPause),
			otherMove("x", func(m *v1alpha1.Migration) { m.Status.Plan = plan(source()) }), otherMove("y", func(m *v1alpha1.Migration) { m.Status.Plan = plan(source()) })), true, 5 * time.Minute},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, tc.objects...)
			result, err := b.step(controllerOf(tc.waits))
			if err != nil || result.RequeueAfter != tc.again || len(b.writes) > 0 {
				t.Errorf("%v, again after %s, want %s; writes %v", err, result.RequeueAfter, tc.again, b.writes)
			}
		})
	}
}

func TestAPausedMigrationSaysSoOnceAndWaitsForTheSwitch(t *testing.T) {
	b := newBench(t, append(nodes(), source(), waitingMove(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "home", Name: pause.Name}, Data: map[string]string{pause.ReasonKey: "maintenance"}})...)
	b.Pause = &pause.Switch{Client: b.api, Namespace: "home"}
	if result, err := b.step(waits); err != nil || result.RequeueAfter != unseenPatience {
		t.Errorf("%v, %+v", err, result)
	}
	m := b.migration()
	if len(m.Status.Conditions) != 1 || m.Status.Conditions[0].Reason != v1alpha1.ConditionPaused || !strings.Contains(m.Status.Conditions[0].Message, "maintenance") {
		t.Errorf("conditions %+v", m.Status.Conditions)
	}
	b.fail = func(verb string, o any) error {
		if verb == "list" && kindOf(o) == "MigrationList" {
			t.Error("the other migrations are read, which do not matter meanwhile")
		}
		return nil
	}
	if result, err := b.step(waits); err != nil || !result.IsZero() || len(b.writes) != 1 {
		t.Errorf("%v, %+v, writes %v", err, result, b.writes)
	}
	b.fail = func(string, any) error { return nil }
	if got := names(b.allThatWait(t.Context(), nil)); !slices.Equal(got, []string{"move"}) {
		t.Errorf("the switch wakes %v", got)
	}
}

func TestTheAPIServerDecidesAndNotTheCache(t *testing.T) {
	b := newBench(t, append(nodes(), source(), begunMove(source()))...)
	live := newBench(t, append(nodes(), source(), begunMove(source(), finished(v1alpha1.MigrationRolledBack, now)))...)
	b.Live = live.api
	b.fail = func(verb string, _ any) error {
		if verb == "create" {
			t.Error("the new pod of a migration that has ended is created")
		}
		return nil
	}
	// To the API server it has ended, so the step is to remove its finalizer.
	if _, err := b.step(begun); err != nil || !slices.Equal(b.writes, slices.Repeat([]string{"patch Migration"}, len(b.writes))) || len(b.writes) == 0 {
		t.Errorf("%v, writes %v", err, b.writes)
	}
}

func TestAnEndIsRecordedOnceAndWithItsEvent(t *testing.T) {
	b := newBench(t, source(), waitingMove(func(m *v1alpha1.Migration) { m.Spec.PodUID = "an earlier pod" }))
	if _, err := b.step(waits); err != nil {
		t.Fatal(err)
	}
	if m := b.migration(); m.Status.Phase != v1alpha1.MigrationRefused {
		t.Errorf("phase %s", m.Status.Phase)
	}
	if got := b.recorded(); len(got) != 1 || !strings.HasPrefix(got[0], "Warning Refused ") {
		t.Errorf("Events %v", got)
	}
}

func TestAPodThatIsNotAdmittedIsARefusal(t *testing.T) {
	b := newBench(t, append(nodes(), source(), waitingMove())...)
	b.fail = func(verb string, _ any) error {
		if verb == "try" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, newName, errors.New("exceeded quota"))
		}
		return nil
	}
	if _, err := b.step(waits); err != nil {
		t.Fatal(err)
	}
	if m := b.migration(); m.Status.Phase != v1alpha1.MigrationRefused || m.Status.Conditions[0].Reason != "QuotaExceeded" {
		t.Errorf("phase %s, conditions %+v", m.Status.Phase, m.Status.Conditions)
	}
	b = newBench(t, append(nodes(), source(), waitingMove())...)
	b.fail = func(verb string, _ any) error {
		if verb == "try" {
			return errDown
		}
		return nil
	}
	if _, err := b.step(waits); !errors.Is(err, errDown) {
		t.Errorf("error %v", err)
	}
}

func TestAReadThatFailsIsAnErrorThatNamesWhatWasRead(t *testing.T) {
	job := source()
	ownerJob := fixtures.OwnerJob(job)
	set := source()
	ownerSet := fixtures.OwnerReplicaSet(set)
	claimed := source(func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "disk"}}}}
	})
	for _, tc := range []struct {
		name    string
		objects []client.Object
		waits   bool
		verb    string
		of      string // the type that cannot be read
		says    string
	}{
		{"its pods", []client.Object{waitingMove()}, true, "list", "*v1.PodList", "list pods that Migration ns/move has created"},
		{"itself", []client.Object{waitingMove()}, true, "get", "Migration", ""},
		{"the pod", []client.Object{waitingMove()}, true, "get", "Pod", "read *v1.Pod ns/work"},
		{"the budgets", append(nodes(), source(), waitingMove()), true, "list", "*v1.PodDisruptionBudgetList", "list PodDisruptionBudgets of namespace ns"},
		{"the others", append(nodes(), source(), waitingMove()), true, "list", "MigrationList", "list Migrations"},
		{"the others of its namespace", []client.Object{waitingMove(finished(v1alpha1.MigrationSucceeded, now))}, false, "list", "MigrationList", "list Migrations of namespace ns"},
		{"the Services", append(nodes(), source(), waitingMove()), true, "list", "*v1.ServiceList", "list Services of namespace ns"},
		{"the nodes", append(nodes(), source(), waitingMove()), true, "list", "*v1.NodeList", "list nodes"},
		{"a claim", append(nodes(), claimed, waitingMove()), true, "get", "*v1.PersistentVolumeClaim", "ns/disk"},
		{"its Job", append(nodes(), job, ownerJob, waitingMove()), true, "get", "*v1.Job", "ns/job"},
		{"its ReplicaSet", append(nodes(), set, ownerSet, waitingMove()), true, "get", "*v1.ReplicaSet", "ns/web-5d"},
		{"its Job, once it has begun", append(nodes(), job, ownerJob, begunMove(job)), false, "get", "*v1.Job", "ns/job"},
		{"a node, once it has begun", append(nodes(), source(), begunMove(source())), false, "get", "*v1.Node", "read *v1.Node /a"},
		{"the others, once it has begun", append(nodes(), source(), begunMove(source())), false, "list", "MigrationList", "list Migrations"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, tc.objects...)
			b.fail = func(verb string, o any) error {
				if verb == tc.verb && kindOf(o) == tc.of {
					return errDown
				}
				return nil
			}
			if _, err := b.step(controllerOf(tc.waits)); !errors.Is(err, errDown) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %v, want one with %q", err, tc.says)
			}
		})
	}
	b := newBench(t, append(nodes(), source(), waitingMove())...)
	b.Pause = &pause.Switch{Client: b.api, Namespace: "home"}
	b.fail = func(_ string, o any) error {
		if _, is := o.(*corev1.ConfigMap); is {
			return errDown
		}
		return nil
	}
	if _, err := b.step(waits); !errors.Is(err, errDown) || len(b.writes) > 0 {
		t.Errorf("a switch that cannot be read: error %v, writes %v", err, b.writes)
	}
}

func TestWhatBelongsToOneMigrationIsObserved(t *testing.T) {
	job := source()
	ownerJob := fixtures.OwnerJob(job)
	set := source()
	ownerSet := fixtures.OwnerReplicaSet(set)
	other := *ownerJob
	other.UID = "later"
	live := func(objects ...client.Object) *migrationdecide.Observation {
		t.Helper()
		b := newBench(t, objects...)
		o, err := b.observe(t.Context(), b.api, request("ns", "move").NamespacedName)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	if o := live(append(nodes(), job, ownerJob, begunMove(job, reserved))...); o.Job == nil || o.ReplicaSet != nil || o.Source == nil || o.Nodes["a"] == nil || o.Nodes["b"] == nil {
		t.Errorf("of a Job's pod: %+v", o)
	}
	if o := live(append(nodes(), set, ownerSet, begunMove(set))...); o.ReplicaSet == nil || o.Job != nil || o.Nodes["b"] != nil {
		t.Errorf("of a ReplicaSet's pod: %+v", o)
	}
	if o := live(append(nodes(), job, &other, begunMove(job))...); o.Job != nil {
		t.Error("another Job of that name is taken for the owner")
	}
	otherSet := *ownerSet
	otherSet.UID = "later"
	if o := live(append(nodes(), set, &otherSet, begunMove(set))...); o.ReplicaSet != nil {
		t.Error("another ReplicaSet of that name is taken for the owner")
	}
	if o := live(append(nodes(), source(func(p *corev1.Pod) { p.UID = "later" }), begunMove(source()))...); o.Source != nil {
		t.Error("a later pod of that name is taken for the old one")
	}
	elsewhere := restored(t, job, func(p *corev1.Pod) { p.Spec.NodeName = "c" })
	if o := live(append(nodes(), fixtures.AbleNode("c"), job, ownerJob, begunMove(job, reserved), elsewhere)...); o.Nodes["c"] == nil || o.Nodes["b"] == nil {
		t.Errorf("of a new pod that was bound elsewhere: nodes %v", o.Nodes)
	}
	if o := live(begunMove(source())); len(o.Nodes) != 0 || o.Source != nil {
		t.Errorf("of nodes and pods that are gone: %+v", o)
	}
	crowd := []client.Object{waitingMove(finished(v1alpha1.MigrationSucceeded, now.Add(-time.Minute)))}
	for i := range config.MaxFinished {
		crowd = append(crowd, otherMove(string(rune('a'+i)), finished(v1alpha1.MigrationSucceeded, now)))
	}
	if !live(crowd...).Surplus || live(crowd[:config.MaxFinished]...).Surplus {
		t.Error("one of too many is not surplus, or one of few is")
	}
}

func TestWhatAMigrationHasLeftBehindGoesOrStays(t *testing.T) {
	leaving := func(p *corev1.Pod) {
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds, p.Finalizers = new(metav1.NewTime(now)), new(int64(900)), []string{"keep/it"}
	}
	running := func(p *corev1.Pod) {
		p.Spec.NodeName, p.Status = "b", corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}
	}
	for _, tc := range []struct {
		name    string
		objects []client.Object
		writes  []string
	}{
		{"of a migration in flight", append(nodes(), source(), restored(t, source()), begunMove(source())), []string{"patch status of Migration"}},
		{"of one that has ended", []client.Object{restored(t, source()), waitingMove(finished(v1alpha1.MigrationRolledBack, now))}, []string{"delete Pod"}},
		{"of one that has succeeded", []client.Object{restored(t, source()), waitingMove(finished(v1alpha1.MigrationSucceeded, now))}, []string{"patch Pod"}},
		{"of one that is gone", []client.Object{source(), restored(t, source())}, []string{"delete Pod"}},
		{"of one that is gone, whose pod leaves", []client.Object{source(leaving), restored(t, source(), running)}, []string{"patch Pod"}},
		{"of one that is gone, whose pod is another now", []client.Object{source(leaving, func(p *corev1.Pod) { p.UID = "later" }), restored(t, source(), running)}, []string{"delete Pod"}},
		{"of one that is gone, which does not say its pod", []client.Object{source(leaving), restored(t, source(), running, func(p *corev1.Pod) { delete(p.Annotations, podedit.AnnotationSource) })}, []string{"delete Pod"}},
		{"of an earlier one of that name", append(nodes(), source(), restored(t, source(), func(p *corev1.Pod) { p.Labels[v1alpha1.LabelMigration] = "earlier" }), waitingMove(finished(v1alpha1.MigrationSucceeded, now))), []string{"delete Pod"}},
		{"that is being deleted", []client.Object{restored(t, source(), leaving)}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, tc.objects...)
			if _, err := b.step(begun); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.writes, b.writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestALeftoverIsReadFromTheAPIServerFirst(t *testing.T) {
	// The cache has a pod that has been deleted, has lost its label, or has been replaced.
	for name, objects := range map[string][]client.Object{
		"gone":     nil,
		"finished": {restored(t, source(), func(p *corev1.Pod) { delete(p.Labels, v1alpha1.LabelMigration) })},
		"replaced": {restored(t, source(), func(p *corev1.Pod) { p.UID = "later" })},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, restored(t, source()))
			b.Live = newBench(t, objects...).api
			if _, err := b.step(begun); err != nil || len(b.writes) > 0 {
				t.Errorf("%v, writes %v", err, b.writes)
			}
		})
	}
	for kind, objects := range map[string][]client.Object{"Migration": {restored(t, source())}, "Pod": {source(), restored(t, source())}} {
		b := newBench(t, restored(t, source()))
		live := newBench(t, objects...)
		live.fail = func(verb string, o any) error {
			if verb == "get" && kindOf(o) == kind {
				return errDown
			}
			return nil
		}
		b.Live = live.api
		if _, err := b.step(begun); !errors.Is(err, errDown) {
			t.Errorf("a %s that cannot be read: %v", kind, err)
		}
	}
}

func TestAnActionThatIsUnknownIsAnError(t *testing.T) {
	b := newBench(t)
	o := &migrationdecide.Observation{Migration: waitingMove()}
	if err := b.act(t.Context(), o, migrationdecide.Step{Do: "Dance"}); err == nil || !strings.Contains(err.Error(), `migration ns/move: unknown action "Dance"`) {
		t.Errorf("error %v", err)
	}
	if err := b.act(t.Context(), o, migrationdecide.Step{Do: migrationdecide.Wait}); err != nil || len(b.writes) > 0 {
		t.Errorf("to wait: %v, writes %v", err, b.writes)
	}
	if err := b.act(t.Context(), o, migrationdecide.Step{Do: migrationdecide.PatchPod, Pod: source()}); err == nil || !strings.Contains(err.Error(), "was not observed") {
		t.Errorf("a pod that was not observed: %v", err)
	}
}

func TestChangesReachTheMigrationsTheyConcern(t *testing.T) {
	pod := restored(t, source())
	b := newBench(t, begunMove(source(), reserved), otherMove("ended", finished(v1alpha1.MigrationSucceeded, now)), otherMove("new"))
	for _, tc := range []struct {
		name string
		got  []reconcile.Request
		want []string
	}{
		{"of the old pod", b.migrationsOfPod(t.Context(), source()), []string{"move"}},
		{"of the new pod", b.migrationsOfPod(t.Context(), pod), []string{"move"}},
		{"of another pod", b.migrationsOfPod(t.Context(), fixtures.MovablePod("other", "a")), []string{}},
		{"of the pod of one that has ended", b.migrationsOfPod(t.Context(), fixtures.MovablePod("pod-ended", "a")), []string{}},
		{"of the source node", b.migrationsOfNode(t.Context(), fixtures.AbleNode("a")), []string{"move"}},
		{"of the reserved node", b.migrationsOfNode(t.Context(), fixtures.AbleNode("b")), []string{"move"}},
		{"of another node", b.migrationsOfNode(t.Context(), fixtures.AbleNode("c")), []string{}},
		{"of the switch", b.allThatWait(t.Context(), nil), []string{"new"}},
	} {
		if diff := cmp.Diff(tc.want, names(tc.got)); diff != "" {
			t.Errorf("a change %s (-want +got):\n%s", tc.name, diff)
		}
	}
	b.fail = func(string, any) error { return errDown }
	if got := append(b.migrationsOfNode(t.Context(), fixtures.AbleNode("a")), b.allThatWait(t.Context(), nil)...); len(got) > 0 {
		t.Errorf("from a cache that shuts down: %v", got)
	}
}

// handlers are the functions of an event handler that a test calls.
type handlers = interface {
	Update(context.Context, event.UpdateEvent, workqueue.TypedRateLimitingInterface[reconcile.Request])
	Delete(context.Context, event.DeleteEvent, workqueue.TypedRateLimitingInterface[reconcile.Request])
}

func update(before, after *v1alpha1.Migration) func(handlers, workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	return func(h handlers, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		h.Update(context.Background(), event.UpdateEvent{ObjectOld: before, ObjectNew: after}, q)
	}
}

func deletion(m *v1alpha1.Migration) func(handlers, workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	return func(h handlers, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		h.Delete(context.Background(), event.DeleteEvent{Object: m}, q)
	}
}

func TestAnEndWakesOthers(t *testing.T) {
	before, after := begunMove(source()), begunMove(source(), finished(v1alpha1.MigrationSucceeded, now))
	stuck := begunMove(source(), func(m *v1alpha1.Migration) {
		m.Status.HeldBy = v1alpha1.HoldSourceAgent
	})
	all := func(_ context.Context, m *v1alpha1.Migration, all []v1alpha1.Migration) (requests []reconcile.Request) {
		for i := range all {
			requests = append(requests, request(all[i].Namespace, all[i].Name))
		}
		return requests
	}
	for _, tc := range []struct {
		name    string
		happens func(handlers, workqueue.TypedRateLimitingInterface[reconcile.Request])
		want    int
	}{
		{"it ends", update(before, after), 1},
		{"it gets stuck", update(before, stuck), 1},
		{"it continues", update(before, before), 0},
		{"it has ended", update(after, after), 0},
		{"it is deleted in flight", deletion(before), 1},
		{"it is deleted after its end", deletion(after), 0},
	} {
		b := newBench(t, otherMove("new"))
		q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		tc.happens(b.whenOneEnds(all), q)
		if q.Len() != tc.want {
			t.Errorf("%s: %d are woken, want %d", tc.name, q.Len(), tc.want)
		}
		b.fail = func(string, any) error { return errDown }
		tc.happens(b.whenOneEnds(all), q)
		if q.Len() != tc.want {
			t.Errorf("%s: a cache that shuts down wakes others", tc.name)
		}
		q.ShutDown()
	}
}

func TestTheOldestThatCanBeginAreWoken(t *testing.T) {
	created := func(age time.Duration) func(*v1alpha1.Migration) {
		return func(m *v1alpha1.Migration) { m.CreationTimestamp = metav1.NewTime(now.Add(-age)) }
	}
	all := []v1alpha1.Migration{
		*otherMove("young", created(time.Minute)), *otherMove("old", created(time.Hour)), *otherMove("gone", created(2*time.Hour)),
		*otherMove("busy", created(3*time.Hour)), *otherMove("d", created(time.Second)), *otherMove("b", created(time.Second)), *otherMove("z", created(0)),
		*otherMove("flies", func(m *v1alpha1.Migration) { m.Status.Plan = &v1alpha1.MigrationPlan{SourceNode: "full"} }),
		*otherMove("flies-2", func(m *v1alpha1.Migration) { m.Status.Plan = &v1alpha1.MigrationPlan{SourceNode: "full"} }),
		*otherMove("over", finished(v1alpha1.MigrationSucceeded, now)),
	}
	var pods []client.Object
	for name, node := range map[string]string{"young": "a", "old": "b", "busy": "full", "d": "a", "b": "b", "z": "a"} {
		pods = append(pods, fixtures.MovablePod("pod-"+name, node))
	}
	b := newBench(t, pods...)
	if diff := cmp.Diff([]string{"gone", "old", "young", "b"}, names(b.waiting(t.Context(), nil, all))); diff != "" {
		t.Errorf("woken (-want +got):\n%s", diff)
	}
	b.fail = func(string, any) error { return errDown }
	if got := b.waiting(t.Context(), nil, all); len(got) > 0 {
		t.Errorf("from a cache that shuts down: %v", got)
	}
}

func TestTheEndOfOneConcernsThoseThatPrepareAndTheSurplus(t *testing.T) {
	b := newBench(t)
	b.Config.MaxFinished = 1
	ended := otherMove("ended", finished(v1alpha1.MigrationSucceeded, now))
	all := []v1alpha1.Migration{
		*begunMove(source()), *ended, *otherMove("earlier", finished(v1alpha1.MigrationSucceeded, now.Add(-time.Minute))), *otherMove("new"),
		*otherMove("moving", func(m *v1alpha1.Migration) { m.Status.Plan, m.Status.Order = plan(source()), v1alpha1.OrderFreeze }),
	}
	if diff := cmp.Diff([]string{"move", "earlier"}, names(b.concerned(t.Context(), ended, all))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAChangeOfANodeMattersIfAMigrationCanSeeIt(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*corev1.Node)
		want   bool
	}{
		"its readiness":       {func(n *corev1.Node) { n.Status.Conditions = nil }, true},
		"a cordon":            {func(n *corev1.Node) { n.Spec.Unschedulable = true }, true},
		"what its agent can":  {func(n *corev1.Node) { n.Annotations = nil }, true},
		"a label":             {func(n *corev1.Node) { n.Labels = map[string]string{"x": "y"} }, false},
		"a heartbeat, only":   {func(n *corev1.Node) { n.ResourceVersion = "2" }, false},
		"nothing, for a sync": {func(*corev1.Node) {}, false},
	} {
		after := fixtures.AbleNode("a")
		tc.change(after)
		if got := nodeMatters().Update(event.UpdateEvent{ObjectOld: fixtures.AbleNode("a"), ObjectNew: after}); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}

func TestTheControllersCanBeSetUp(t *testing.T) {
	m, err := ctrl.NewManager(&rest.Config{Host: "http://127.0.0.1:1"}, ctrl.Options{
		Scheme: fixtures.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: ctrlconfig.Controller{SkipNameValidation: new(true)}, // the test may run twice in one process
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
			return testrestmapper.TestOnlyStaticRESTMapper(fixtures.Scheme()), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t)
	if err := b.SetupWithManager(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if err := b.SetupWithManager(t.Context(), m); err == nil {
		t.Error("they can be set up twice")
	}
}
