package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/movable/capability"
	"supercargo.dev/supercargo/internal/world"
)

// able is the report of the agents of nodes that can move pods.
var able = capability.Node{Backends: []v1alpha1.MigrationBackend{v1alpha1.BackendSimulated}, Arch: "amd64", Restore: true}.Encode()

// testJob owns the pods that testPod makes with a length.
func testJob() *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "r", UID: "r"},
		Spec:       batchv1.JobSpec{PodReplacementPolicy: new(batchv1.Failed)},
	}
}

// carried is the duration of a Migration in the model.
const carried = 20 * time.Second

// migrate is a minimal controller of Migrations: it accepts one, and some time later the pod is on another node, if one
// has room.
func (m *model) migrate() {
	var all v1alpha1.MigrationList
	m.must(m.client.List(m.t.Context(), &all))
	slices.SortFunc(all.Items, func(a, b v1alpha1.Migration) int { return cmp.Compare(a.Name, b.Name) })
	moving := map[string]bool{}
	for i := range all.Items {
		migration := &all.Items[i]
		if world.Ended(migration) {
			continue
		}
		if moving[migration.Spec.PodUID] {
			m.t.Errorf("%v: two Migrations move pod %s", m.clock.Now().Sub(epoch), migration.Spec.PodName)
		}
		moving[migration.Spec.PodUID] = true
		switch {
		case migration.Status.Plan == nil:
			migration.Status.Plan = &v1alpha1.MigrationPlan{PodUID: migration.Spec.PodUID, RestoredPod: migration.Spec.PodName + "-moved"}
			migration.Status.Phase = v1alpha1.MigrationMoving
		case m.clock.Now().Sub(migration.CreationTimestamp.Time) < carried:
		default:
			migration.Status.Phase = m.carry(migration)
			meta.SetStatusCondition(&migration.Status.Conditions, metav1.Condition{Type: v1alpha1.MigrationFinished, Status: metav1.ConditionTrue, Reason: "Done"})
		}
		m.must(m.client.Status().Update(m.t.Context(), migration))
	}
}

// carry moves the pod of a Migration to the first node with room, and returns the outcome of the Migration.
func (m *model) carry(migration *v1alpha1.Migration) v1alpha1.MigrationPhase {
	pods := m.pods()
	at := slices.IndexFunc(pods, func(p corev1.Pod) bool { return string(p.UID) == migration.Spec.PodUID })
	if at < 0 || pods[at].Status.Phase != corev1.PodRunning {
		return v1alpha1.MigrationRefused
	}
	pod, free := &pods[at], m.room()
	size, _ := world.Requests(pod)
	for _, node := range slices.Sorted(maps.Keys(free)) {
		if node == pod.Spec.NodeName || !size.Fits(free[node]) {
			continue
		}
		if m.fails != 0 {
			m.fails--
			return v1alpha1.MigrationRolledBack
		}
		m.must(m.client.Delete(m.t.Context(), pod))
		moved := pod.DeepCopy()
		moved.Name, moved.UID, moved.ResourceVersion = migration.Status.Plan.RestoredPod, types.UID(migration.Status.Plan.RestoredPod), ""
		moved.Spec.NodeName = node
		moved.Annotations[v1alpha1.AnnotationMigrationName] = migration.Name
		m.must(m.client.Create(m.t.Context(), moved))
		m.moved++
		return v1alpha1.MigrationSucceeded
	}
	return v1alpha1.MigrationRolledBack
}

// movesFromAnUnderUsedMachine has two pods left on one of two machines, which both fit on the other. The given number
// of Migrations fail; all if it is negative.
func movesFromAnUnderUsedMachine(fails int) func(*model) {
	return func(m *model) {
		m.migrates, m.fails = true, fails
		m.restart()
		for i, cpu := range []int64{2100, 2000} { // which end earlier than expected
			pod := testPod(fmt.Sprintf("early-%d", i), cpu, 1024, time.Hour)
			pod.Annotations["ends-after"] = "3m"
			m.add(pod)
		}
		for i, cpu := range []int64{1800, 900, 800} {
			pod := testPod(fmt.Sprintf("job-%d", i), cpu, 1024, time.Hour)
			pod.Annotations[v1alpha1.AnnotationMigration] = v1alpha1.MigrationCheckpoint
			m.add(pod)
		}
		m.run(15*minute, "f")
	}
}

// movingScenarios are the scenarios of pods that are moved with their state.
func movingScenarios() []scenario {
	small := modelFlavor("small", 4, 16, 100_000)
	const moved = `3 pods run, 0 wait, 2 have ended, lost []; 2 moved; small 1 of 1, at most 2; 2 were made, 0 nodes are cordoned`
	return []scenario{
		{"pods are moved with their state from an under-used machine", []*v1alpha1.NodeFleet{fleetNamed("f")}, []provider.Flavor{small}, nil, movesFromAnUnderUsedMachine(0), moved, ``},
		{"moves that fail are tried again", []*v1alpha1.NodeFleet{fleetNamed("f")}, []provider.Flavor{small}, nil, movesFromAnUnderUsedMachine(2), moved, ``},
	}
}

// TestANodeIsKeptIfItsPodsCannotBeMoved makes every Migration fail.
func TestANodeIsKeptIfItsPodsCannotBeMoved(t *testing.T) {
	m := newModel(t, []*v1alpha1.NodeFleet{fleetNamed("f")}, []provider.Flavor{modelFlavor("small", 4, 16, 100_000)})
	movesFromAnUnderUsedMachine(-1)(m)
	if !m.did("create drain-") {
		t.Errorf("nothing was to be moved:\n%s", strings.Join(m.log, "\n"))
	}
	m.checkOutcome("3 pods run, 0 wait, 2 have ended, lost []; 0 moved; small 2 of 2, at most 2; 2 were made, 0 nodes are cordoned")
}
