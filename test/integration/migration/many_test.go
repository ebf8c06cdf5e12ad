//go:build migration

package migration

import (
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/app"
)

// 500 pods of an indexed Job move, ten at a time and two from or to one node.
func TestFiveHundredPodsMoveAFewAtATime(t *testing.T) {
	const pods, nodes, atOnce, perNode = 500, 40, 10, 2
	b := newBench(t, "many", nodes)
	b.poll = 2 * time.Second // it is much to look at
	b.job(pods, batchv1.IndexedCompletion)
	most, mostOfNode := 0, 0
	b.deschedule(func(o *app.Options) {
		o.Migrations.MaxMigrations, o.Migrations.MaxPerNode = atOnce, perNode
		o.Migrations.MaxFinished = pods
	})
	for _, p := range b.pods() {
		b.make(&v1alpha1.Migration{
			ObjectMeta: metav1.ObjectMeta{Namespace: b.name, Name: "m-" + p.Annotations[batchv1.JobCompletionIndexAnnotation]},
			Spec:       v1alpha1.MigrationSpec{PodName: p.Name, PodUID: string(p.UID), Deadline: metav1.Duration{Duration: time.Hour}},
		})
	}
	ended := 0
	for last := -1; ended < pods; last = ended {
		b.eventually(fmt.Sprintf("more than %d have ended", last), func() string {
			ended = 0
			inFlight, ofNode := 0, map[string]int{}
			for _, m := range b.migrations() {
				switch {
				case m.Status.Phase == v1alpha1.MigrationSucceeded:
					ended++
				case m.Status.Phase == v1alpha1.MigrationRefused || m.Status.Phase == v1alpha1.MigrationRolledBack:
					b.Fatalf("migration %s ends as %s: %+v", m.Name, m.Status.Phase, m.Status.Conditions)
				case m.Status.Plan != nil:
					inFlight++
					ofNode[m.Status.Plan.SourceNode]++
					if m.Status.Order != v1alpha1.OrderPrepare {
						ofNode[m.Status.Reservation.Node]++
					}
				}
			}
			most = max(most, inFlight)
			for _, n := range ofNode {
				mostOfNode = max(mostOfNode, n)
			}
			if ended <= last && ended < pods {
				return fmt.Sprint(ended)
			}
			return ""
		})
	}
	if most > atOnce || mostOfNode > perNode {
		t.Errorf("%d were in flight at once, %d of one node; at most %d and %d may be", most, mostOfNode, atOnce, perNode)
	}
	if _, most := b.agents.standing(); most > atOnce {
		t.Errorf("%d pods stood still at once", most)
	}
	indexes := map[string]bool{}
	for _, p := range b.healthy("work", pods) {
		indexes[p.Annotations[batchv1.JobCompletionIndexAnnotation]] = true
		if _, moved := p.Annotations[v1alpha1.AnnotationBaseImage]; !moved {
			t.Errorf("pod %s is a fresh one", p.Name)
		}
	}
	if len(indexes) != pods {
		t.Errorf("%d of %d indexes are there", len(indexes), pods)
	}
	var left corev1.PodList
	if err := b.List(b.Context(), &left, client.InNamespace(b.name), client.HasLabels{v1alpha1.LabelMigration}); err != nil || len(left.Items) > 0 {
		t.Errorf("%d pods still have the label of their migration (%v)", len(left.Items), err)
	}
}
