package consolidation

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/energy/tariff"
	"supercargo.dev/supercargo/internal/drain"
	"supercargo.dev/supercargo/internal/platform/pause"
	"supercargo.dev/supercargo/test/kit/sentences"
	"supercargo.dev/supercargo/test/kit/testapi"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// all returns all Events so far, and the reasons for which nodes are kept in the last decision.
func (p *play) all() string {
	said := []string{p.said()}
	if d := p.mover.memory.decision; d != nil {
		for _, kept := range d.Kept {
			said = append(said, kept.Name+" "+kept.Reason)
		}
	}
	return strings.Join(said, "\n")
}

// closed returns a node that the mover empties until a time.
func closed(name string, until time.Time) *corev1.Node {
	mark := drain.Mark{Owner: drain.Descheduler, Since: noon.Add(-time.Hour), Until: until}
	return newNode(name, "0.20", func(n *corev1.Node) {
		n.Annotations[v1alpha1.AnnotationDraining], n.Spec.Unschedulable = mark.String(), true
	})
}

// TestADrainWhoseLastPodHasJustLeftIsNotCancelled has a cache that still has the pod, after the time of the drain.
func TestADrainWhoseLastPodHasJustLeftIsNotCancelled(t *testing.T) {
	p := newPlay(t, nil, newJob(), newNode("a", "0.10"), closed("b", noon.Add(-30*time.Minute)), newPod("p", "b", "1"))
	p.mover.Live = newPlay(t, nil).client
	p.run(10 * time.Second)
	if said := p.said(); strings.Contains(said, "DrainCancelled") || p.cordoned()["b"] == "" {
		t.Errorf("cordoned are %v, and it says\n%s", p.cordoned(), said)
	}
}

func TestEachSentenceOfConsolidationIsSaidWhereItIsTrueAndNotWhereItIsNot(t *testing.T) {
	scene := func(d time.Duration, change func(*Config), objects []client.Object, then ...func(*play)) string {
		p := newPlay(t, change, objects...)
		p.mover.Profiles = true
		for _, f := range then {
			p.run(d)
			f(p)
		}
		p.run(d)
		return p.all()
	}
	drains := scene(2*time.Minute, nil, halfEmpty())
	observes := func(p *play) { p.mover.Config.Mode = Observe }
	stopped := scene(2*time.Minute, nil, halfEmpty(), observes)
	paused := scene(2*time.Minute, nil, halfEmpty(), func(p *play) {
		p.mover.Pause = &pause.Switch{Client: p.client, Namespace: "supercargo-system"}
		testapi.Create(t, p.client, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "supercargo-system", Name: pause.Name}})
	})
	emptied := []client.Object{newJob(), newNode("a", "0.10"), closed("b", noon.Add(-time.Minute)), newPod("full", "a", "4")}
	waiting := func(cpu string) string {
		return scene(time.Minute, nil, emptied, func(p *play) { testapi.Create(t, p.client, newPod("waiting", "", cpu, unschedulable)) })
	}
	late := func(until time.Duration) string {
		return scene(10*time.Second, nil, []client.Object{newJob(), newNode("a", "0.10"), closed("b", noon.Add(until)), newPod("p", "b", "1")})
	}
	service := func(moves bool) string {
		pod := newPod("web", "b", "1", func(p *corev1.Pod) {
			p.OwnerReferences, p.Annotations = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "web", Controller: new(true)}}, nil
			p.Spec.RestartPolicy = corev1.RestartPolicyAlways
		})
		return scene(10*time.Second, func(c *Config) { c.MoveServices = moves }, []client.Object{newNode("a", "0.10"), closed("b", noon.Add(time.Hour)), pod})
	}
	file := func(row string) string {
		path := filepath.Join(t.TempDir(), "carbon.csv")
		return scene(3*time.Minute, func(c *Config) {
			saving(Observe)(c)
			c.Energy.Tariff.File, c.Energy.Tariff.Unit = path, tariff.Grams
		}, zoned(), func(*play) { testfile.Write(t, path, "time,zone,grams_per_kwh\n"+row) })
	}
	better := scene(3*time.Minute, saving(Observe), mixed())
	again := scene(3*time.Minute, saving(Act), mixed(func(p *corev1.Pod) {
		p.Annotations[v1alpha1.AnnotationMigration], p.Annotations[v1alpha1.AnnotationRuntime] = v1alpha1.MigrationRestart, "100h"
	}))

	sentences.Check(t, []string{"round.go", "improve.go", "observe.go", "report.go", "tariff.go", "mover.go"}, []sentences.Case{
		{"to be drained: %s", drains, late(time.Hour)},
		{"evicted, because node %s suits it better: %s", again, better},
		{"node %s is uncordoned: %s", stopped, drains},
		{"--consolidation is not Act", stopped, paused},
		{" is pending, and the node has room for it", waiting("1"), waiting("16")},
		{"the drain of node %s is cancelled: %s", late(-time.Hour), late(time.Hour)},
		{"%s did not leave within %v", late(-time.Hour), late(time.Hour)},
		{"pods of services are not moved", service(false), service(true)},
		{"in back-off until %s: %s", late(-time.Hour), late(time.Hour)},
		{"to node %s: %s", better, drains},
		{"tariff %s is not usable; energy has the same weight in all zones until it is: %s", file("garbled"), better},
		{"energy is weighted by tariff %s", file(noon.Format(time.RFC3339) + ",east,300\n"), file("garbled")},
	}, map[string]string{
		"Would drain a node": "a line of the log", "Would move a pod to a machine that suits it better": "a line of the log", "Ignored a MachineProfile": "a line of the log",
		"The tariff is not usable; energy has the same weight in all zones until it is": "a line of the log", "Energy is weighted by the tariff": "a line of the log",
		"Failed to write the decision to the status of the Consolidation":                                                              "a line of the log",
		"The last decision cannot be reported: install the kinds, and create the Consolidation as the manifests of the descheduler do": "a line of the log",
		"it has not been on its node for %v":              "the reason of a step that waits, which is not said",
		"it belongs to the control plane":                 "why a node is left out, which is not said",
		"--consolidation-node-selector does not match it": "the same", " is draining it": "the same", "it belongs to NodeFleet ": "the same",
		"NodeFleets manage the machines of cluster-api":                             "the same",
		"Nodes that the descheduler has cordoned, by state of the drain.":           "the description of a metric",
		"Total price of all nodes that have not been drained, in dollars per hour.": "the same",
		"Nodes cordoned for a drain.":                                               "the same", "Pods moved, by method.": "the same",
		"Expected energy savings of energy moves, in joules. Moves with negative savings do not count.":                  "the same",
		"Expected savings from energy moves, in the unit of the tariff. Moves with negative savings do not count.":       "the same",
		"Zones of the tariff, by whether they have a current price: Priced or Without. None if the file cannot be read.": "the same",
		"Expected net savings of decisions, in dollars.":                                                                 "the same",
	})
}
