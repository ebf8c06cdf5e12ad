package migration

import (
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/app"
	"supercargo.dev/supercargo/descheduler/checkpoint/simulated"
)

// inFlight contains the numbers of migrations in progress.
type inFlight struct {
	ended, moving, frozen, ofOneNode int
}

// inFlight counts the migrations in progress, and ends the test if a migration did not succeed.
func (b *bench) inFlight() (n inFlight) {
	b.Helper()
	from, to := map[string]int{}, map[string]int{}
	for _, m := range b.Migrations() {
		switch {
		case m.Status.Phase == v1alpha1.MigrationSucceeded:
			n.ended++
			continue
		case m.Status.Phase == v1alpha1.MigrationRefused || m.Status.Phase == v1alpha1.MigrationRolledBack:
			b.Fatalf("migration %s ends as %s: %+v", m.Name, m.Status.Phase, m.Status.Conditions)
		case m.Status.Plan == nil:
			continue
		}
		n.moving++
		from[m.Status.Plan.SourceNode]++
		if m.Status.Order != v1alpha1.OrderPrepare {
			to[m.Status.Reservation.Node]++
		}
		if condition(&m, v1alpha1.MigrationFrozen).Status == metav1.ConditionTrue {
			n.frozen++
		}
	}
	for _, count := range []map[string]int{from, to} {
		for _, of := range count {
			n.ofOneNode = max(n.ofOneNode, of)
		}
	}
	return n
}

// 500 pods of an indexed Job move, ten at a time, two from one node and two to one.
func TestFiveHundredPodsMoveAFewAtATime(t *testing.T) {
	const pods, nodes, atOnce, perNode = 500, 40, 10, 2
	b := newEmptyBench(t, "many")
	b.AddNodes(nodes, nil)
	b.Poll = 3 * time.Second // many objects to poll
	b.SimulateAgents(simulated.Model{MemoryFactor: 1, DumpRate: 1 << 30, ShipRate: 150_000_000, Freeze: 10 * time.Millisecond})
	b.job(pods, batchv1.IndexedCompletion, func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}
	})
	b.deschedule(func(o *app.Options) {
		o.Migrations.MaxMigrations, o.Migrations.MaxPerNode = atOnce, perNode
		o.Migrations.MaxFinished = pods
	})
	for _, p := range b.Pods() {
		b.Make(&v1alpha1.Migration{
			ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: "m-" + p.Annotations[batchv1.JobCompletionIndexAnnotation]},
			Spec:       v1alpha1.MigrationSpec{PodName: p.Name, PodUID: string(p.UID), Deadline: metav1.Duration{Duration: time.Hour}},
		})
	}
	var most inFlight
	for last := -1; most.ended < pods; last = most.ended {
		b.Eventually(fmt.Sprintf("more than %d have ended", last), func() string {
			now := b.inFlight()
			most = inFlight{now.ended, max(most.moving, now.moving), max(most.frozen, now.frozen), max(most.ofOneNode, now.ofOneNode)}
			if now.ended <= last && now.ended < pods {
				return fmt.Sprint(now.ended)
			}
			return ""
		})
	}
	if most.moving > atOnce || most.ofOneNode > perNode {
		t.Errorf("%d were in flight at once, %d from or to one node; at most %d and %d may be", most.moving, most.ofOneNode, atOnce, perNode)
	}
	if most.moving < 2 {
		t.Error("they moved one after another")
	}
	b.allMoved(pods)
}

// allMoved checks that the pods of the Job are the original ones, moved.
func (b *bench) allMoved(pods int) {
	b.Helper()
	indexes := map[string]bool{}
	for _, p := range b.healthy("work", pods) {
		indexes[p.Annotations[batchv1.JobCompletionIndexAnnotation]] = true
		if _, moved := p.Annotations[v1alpha1.AnnotationBaseImage]; !moved {
			b.Errorf("pod %s is a fresh one", p.Name)
		}
	}
	if len(indexes) != pods {
		b.Errorf("%d of %d indexes are there", len(indexes), pods)
	}
	var left corev1.PodList
	if err := b.List(b.Context(), &left, client.InNamespace(b.Space), client.HasLabels{v1alpha1.LabelMigration}); err != nil || len(left.Items) > 0 {
		b.Errorf("%d pods still have the label of their migration (%v)", len(left.Items), err)
	}
}
