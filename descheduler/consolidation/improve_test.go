package consolidation

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/energy/profile"
	"supercargo.dev/supercargo/test/kit/testapi"
)

// learned returns the MachineProfile of machines on which all work takes the same energy and
// time.
func learned(machineType string, joules, seconds float64) *v1alpha1.MachineProfile {
	of := func(v float64) profile.Model {
		return profile.Model{Terms: []profile.Term{profile.One}, Coefficients: []float64{v}, Range: profile.Range{
			Most: profile.Size{MilliCPU: 8000, MemoryBytes: 64 << 30}, LeastValue: v, MostValue: v,
		}}
	}
	p := profile.Profile{Energy: of(joules), Runtime: of(seconds)}
	return &v1alpha1.MachineProfile{
		ObjectMeta: metav1.ObjectMeta{Name: machineType}, Spec: v1alpha1.MachineProfileSpec{MachineType: machineType},
		Status: v1alpha1.MachineProfileStatus{Models: p.Object(noon, "0123456789abcdef")},
	}
}

// mixed returns a fast node with pod p, a frugal one, and the profiles of both.
func mixed(change ...func(*corev1.Pod)) []client.Object {
	typed := func(machineType string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Labels[v1alpha1.LabelMachineType] = machineType }
	}
	return []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, newJob(),
		newNode("a", "0.10", typed("fast")), newNode("b", "0.10", typed("frugal")),
		newPod("p", "a", "1", change...), learned("fast", 2000, 50), learned("frugal", 1000, 60),
	}
}

// saving makes only energy count, and nodes not be emptied.
func saving(mode Mode) func(*Config) {
	return func(c *Config) { c.Mode, c.Energy.Mode, c.Energy.Weight = Off, mode, 1 }
}

// goes returns the targets of Migrations, by pod.
func (p *play) goes() map[string]string {
	p.t.Helper()
	var list v1alpha1.MigrationList
	testapi.List(p.t, p.client, &list)
	all := map[string]string{}
	for _, m := range list.Items {
		all[m.Spec.PodName] = m.Spec.TargetNode
	}
	return all
}

func TestPodsGoWhereTheRestOfTheirWorkTakesLessEnergy(t *testing.T) {
	wants := func(h string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations[v1alpha1.AnnotationEnergyWeight] = h }
	}
	green := func(objects []client.Object) []client.Object {
		objects[0].SetAnnotations(map[string]string{v1alpha1.AnnotationEnergyWeight: "0"})
		return objects
	}
	tests := []struct {
		name    string
		objects []client.Object
		change  func(*Config)
		want    map[string]string
	}{
		{"its state goes with it", mixed(), saving(Act), map[string]string{"p": "b"}},
		{"nodes are emptied as well", mixed(), func(c *Config) { c.Energy.Mode, c.Energy.Weight = Act, 1 }, map[string]string{"p": "b"}},
		{"its owner wants speed", mixed(wants("0")), saving(Act), map[string]string{}},
		{"its namespace wants speed", green(mixed()), saving(Act), map[string]string{}},
		{"its wish counts more than its namespace's", green(mixed(wants("1"))), saving(Act), map[string]string{"p": "b"}},
		{"it has not been there for long", mixed(func(p *corev1.Pod) { p.Status.StartTime = new(metav1.NewTime(noon)) }), func(c *Config) {
			saving(Act)(c)
			c.Residence = time.Hour
		}, map[string]string{}},
		{"it is never to be moved", mixed(func(p *corev1.Pod) { p.Annotations[v1alpha1.AnnotationMigration] = v1alpha1.MigrationNever }), saving(Act), map[string]string{}},
		{"its node is not chosen", mixed(), func(c *Config) {
			saving(Act)(c)
			c.NodeSelector = v1alpha1.LabelMachineType + "=frugal"
		}, map[string]string{}},
		{"nothing is known of machines", mixed()[:5], saving(Act), map[string]string{}},
		{"it is only observed", mixed(), saving(Observe), map[string]string{}},
		{"it is off", mixed(), func(c *Config) { c.Energy.Weight, c.Energy.Mode = 1, Off }, map[string]string{}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			p := newPlay(t, func(c *Config) {
				tc.change(c)
				c.BillingPeriod = 100 * time.Hour // emptying a node saves nothing
			}, tc.objects...)
			p.mover.Profiles = true
			p.run(3 * time.Minute)
			if diff := cmp.Diff(tc.want, p.goes()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatIsOnlyObservedIsSaidOnce(t *testing.T) {
	p := newPlay(t, saving(Observe), mixed()...)
	p.mover.Profiles = true
	p.run(5 * time.Minute)
	if said := p.said(); strings.Count(said, v1alpha1.ConsolidationReasonWouldMove) != 1 || !strings.Contains(said, "to node b") {
		t.Errorf("it does not say once what it would do, but\n%s", said)
	}
	d := p.decision()
	if len(d.Energy) != 1 || d.Energy[0].Pod != "default/p" || d.Energy[0].Target != "b" || d.Energy[0].Joules <= 0 || d.Energy[0].Reason == "" {
		t.Errorf("decided: %+v", d.Energy)
	}
}

func TestAPodIsAskedOnceToGoWhereItIsBetterOff(t *testing.T) {
	p := newPlay(t, saving(Act), mixed()...)
	p.mover.Profiles = true
	p.run(10 * time.Minute) // the Migration does not change
	var list v1alpha1.MigrationList
	if err := p.client.List(t.Context(), &list); err != nil || len(list.Items) != 1 {
		t.Errorf("%d Migrations, %v", len(list.Items), err)
	}
}

func TestPodsThatOthersMoveCountForTheBudget(t *testing.T) {
	other := &v1alpha1.Migration{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "other"}, Spec: v1alpha1.MigrationSpec{PodName: "q"}}
	p := newPlay(t, func(c *Config) {
		saving(Act)(c)
		c.MaxPods = 1
	}, append(mixed(), other)...)
	p.mover.Profiles = true
	p.run(3 * time.Minute)
	if diff := cmp.Diff(map[string]string{"q": ""}, p.goes()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestOnlyPodsThatAskToBeStartedAgainAreEvictedOneByOne: others are evicted only when their node is drained.
func TestOnlyPodsThatAskToBeStartedAgainAreEvictedOneByOne(t *testing.T) {
	annotated := func(key, value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Annotations = map[string]string{key: value, v1alpha1.AnnotationRuntime: "100h"}
		}
	}
	for name, tc := range map[string]struct {
		change  func(*corev1.Pod)
		evicted bool
	}{
		"it asks to be started again":  {annotated(v1alpha1.AnnotationMigration, v1alpha1.MigrationRestart), true},
		"it only says that it is safe": {annotated("cluster-autoscaler.kubernetes.io/safe-to-evict", "true"), false},
		"it is to keep its state":      {annotated(v1alpha1.AnnotationMigration, v1alpha1.MigrationCheckpoint), false},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlay(t, func(c *Config) {
				saving(Act)(c)
				c.BillingPeriod = 100 * time.Hour
			}, mixed(tc.change)...)
			p.mover.Profiles = true
			before := testutil.ToFloat64(metricMoves.WithLabelValues("eviction"))
			p.run(3 * time.Minute)
			if counted := testutil.ToFloat64(metricMoves.WithLabelValues("eviction")) - before; (counted == 1) != tc.evicted {
				t.Errorf("%v evictions are counted", counted)
			}
			var pods corev1.PodList
			testapi.List(t, p.client, &pods)
			if evicted := len(pods.Items) == 0; evicted != tc.evicted {
				t.Errorf("evicted: %t, want %t; it says\n%s", evicted, tc.evicted, p.said())
			}
			if says := p.said(); tc.evicted != strings.Contains(says, "evicted, because node b suits it better") {
				t.Errorf("it says\n%s", says)
			}
		})
	}
}

func TestItIsDecidedOnceAnInterval(t *testing.T) {
	p := newPlay(t, func(c *Config) {
		saving(Observe)(c)
		c.Energy.Interval = 10 * time.Minute
	}, mixed()...)
	p.mover.Profiles = true
	p.run(9 * time.Minute)
	if d := p.decision(); len(d.Energy) != 1 || !d.Energy[0].Time.Time.Equal(noon) {
		t.Errorf("decided %+v, want once, at the first evaluation", d.Energy)
	}
}

// TestPodsThatTheDecisionDoesNotListAreCounted, also after later rounds that check nodes.
func TestPodsThatTheDecisionDoesNotListAreCounted(t *testing.T) {
	const more = 10
	roomy := func(o client.Object) client.Object {
		if n, ok := o.(*corev1.Node); ok {
			n.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("500")
			n.Status.Capacity = n.Status.Allocatable
		}
		return o
	}
	var objects []client.Object
	for _, o := range mixed() {
		if _, ok := o.(*corev1.Pod); !ok {
			objects = append(objects, roomy(o))
		}
	}
	for i := range mostListed + more {
		objects = append(objects, newPod(fmt.Sprintf("p%d", i), "a", "10m", func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = resource.MustParse("16Mi")
		}))
	}
	for _, mode := range []Mode{Off, Observe} {
		p := newPlay(t, func(c *Config) {
			saving(Observe)(c)
			c.Mode, c.MaxPods, c.BillingPeriod = mode, 500, 100*time.Hour
			c.Energy.Interval = time.Hour
		}, objects...)
		p.mover.Profiles = true
		p.run(3 * time.Minute)
		d := p.decision()
		if len(d.Energy) != mostListed || d.Omitted != more {
			t.Errorf("mode %s: %d pods are listed and %d omitted, want %d and %d", mode, len(d.Energy), d.Omitted, mostListed, more)
		}
	}
}

// decision returns the decision in the status of the Consolidation.
func (p *play) decision() *v1alpha1.ConsolidationStatus {
	p.t.Helper()
	var object v1alpha1.Consolidation
	testapi.Get(p.t, p.client, client.ObjectKey{Name: v1alpha1.ConsolidationName}, &object)
	return &object.Status
}
