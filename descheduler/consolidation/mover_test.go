package consolidation

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/drain"
	"supercargo.dev/supercargo/test/fixtures"
	"supercargo.dev/supercargo/test/kit/testapi"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// play is a cluster on a fake API server, with the mover.
type play struct {
	t      *testing.T
	client client.Client
	clock  *clocktesting.FakeClock
	events *events.FakeRecorder
	mover  *Mover
}

func newPlay(t *testing.T, change func(*Config), objects ...client.Object) *play {
	t.Helper()
	p := &play{t: t, clock: clocktesting.NewFakeClock(noon), events: events.NewFakeRecorder(1000)}
	p.client = fake.NewClientBuilder().WithScheme(fixtures.Scheme()).WithObjects(objects...).
		WithObjects(&v1alpha1.Consolidation{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ConsolidationName}}).WithStatusSubresource(&v1alpha1.Consolidation{}).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).Build()
	c := Defaults()
	c.Mode = Act
	c.After, c.QueueEmpty, c.Residence = time.Minute, time.Minute, time.Minute
	if change != nil {
		change(&c)
	}
	m, err := New(Mover{Client: p.client, Live: p.client, Events: p.events, Clock: p.clock, Config: c, Fleets: true})
	if err != nil {
		t.Fatal(err)
	}
	p.mover = m
	return p
}

// run advances the time, with a round every five seconds.
func (p *play) run(d time.Duration) {
	p.t.Helper()
	for end := p.clock.Now().Add(d); p.clock.Now().Before(end); p.clock.Step(5 * time.Second) {
		if _, err := p.mover.Reconcile(p.t.Context(), reconcile.Request{}); err != nil {
			p.t.Fatal(err)
		}
	}
}

// cordoned returns the cordoned nodes, with the owners of their marks.
func (p *play) cordoned() map[string]string {
	p.t.Helper()
	var nodes corev1.NodeList
	testapi.List(p.t, p.client, &nodes)
	all := map[string]string{}
	for i := range nodes.Items {
		if mark, ok := drain.MarkOf(&nodes.Items[i]); ok || nodes.Items[i].Spec.Unschedulable {
			all[nodes.Items[i].Name] = mark.Owner
		}
	}
	return all
}

// migrations returns the names of the pods that Migrations move.
func (p *play) migrations() map[string]bool {
	p.t.Helper()
	var list v1alpha1.MigrationList
	testapi.List(p.t, p.client, &list)
	all := map[string]bool{}
	for i := range list.Items {
		all[list.Items[i].Spec.PodName] = true
	}
	return all
}

func (p *play) said() string {
	var all []string
	for {
		select {
		case e := <-p.events.Events:
			all = append(all, e)
		default:
			return strings.Join(all, "\n")
		}
	}
}

func newNode(name, price string, change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour)), Labels: map[string]string{corev1.LabelArchStable: "amd64"},
			Annotations: map[string]string{v1alpha1.AnnotationPricePerHour: price, v1alpha1.AnnotationCapability: fixtures.AbleNode(name).Annotations[v1alpha1.AnnotationCapability]},
		},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon.Add(-time.Hour))}},
			Allocatable: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("110"),
			},
		},
	}
	n.Status.Capacity = n.Status.Allocatable
	for _, c := range change {
		c(n)
	}
	return n
}

// newPod returns a pod of a Job that runs on a node for two hours, one of which has passed.
func newPod(name, node, cpu string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID(name),
			Annotations:     map[string]string{v1alpha1.AnnotationMigration: v1alpha1.MigrationCheckpoint, v1alpha1.AnnotationRuntime: "2h"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "j", UID: "job", Controller: new(true)}},
		},
		Spec: corev1.PodSpec{
			NodeName: node, RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("1Gi"),
			}}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, StartTime: new(metav1.NewTime(noon.Add(-time.Hour)))},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

// unschedulable sets the condition of an unschedulable pod.
func unschedulable(p *corev1.Pod) {
	p.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: metav1.NewTime(noon),
	}}}
}

func newJob() *batchv1.Job {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "j", UID: "job"}, Spec: batchv1.JobSpec{PodReplacementPolicy: new(batchv1.Failed)}}
}

// halfEmpty returns two nodes whose pods fit on one.
func halfEmpty() []client.Object {
	return []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, newJob(),
		newNode("a", "0.10"), newNode("b", "0.20"), newPod("p", "a", "1500m"), newPod("q", "b", "1"),
	}
}

func TestHalfEmptyNodesArePackedIntoFewer(t *testing.T) {
	p := newPlay(t, nil, halfEmpty()...)
	p.run(3 * time.Minute)
	if diff := cmp.Diff(map[string]string{"b": drain.Descheduler}, p.cordoned()); diff != "" {
		t.Errorf("cordoned nodes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]bool{"q": true}, p.migrations()); diff != "" {
		t.Errorf("pods that are moved (-want +got):\n%s", diff)
	}
	if said := p.said(); !strings.Contains(said, "Emptying") {
		t.Errorf("it says\n%s", said)
	}
}

func TestWhatObservesMovesNothing(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"observe": func(c *Config) { c.Mode = Observe },
		"htas":    func(c *Config) { c.Mode, c.Policy = Observe, HTAS },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlay(t, change, halfEmpty()...)
			p.run(3 * time.Minute)
			if len(p.cordoned())+len(p.migrations()) > 0 {
				t.Errorf("it has cordoned %v and moves %v", p.cordoned(), p.migrations())
			}
			if said := p.said(); strings.Count(said, "WouldEmpty") != 1 {
				t.Errorf("it does not say once what it would do, but\n%s", said)
			}
		})
	}
}

func TestNodesOfOthersAreLeftUnchanged(t *testing.T) {
	fleet := &v1alpha1.NodeFleet{ObjectMeta: metav1.ObjectMeta{Name: "f"}}
	both := func(change func(*corev1.Node)) []client.Object {
		objects := append(halfEmpty(), fleet)
		for _, o := range objects {
			if n, ok := o.(*corev1.Node); ok {
				change(n)
			}
		}
		return objects
	}
	for name, change := range map[string]func(*corev1.Node){
		"of the control plane":        func(n *corev1.Node) { n.Labels[labelControlPlane] = "" },
		"of a fleet of OpenStack":     func(n *corev1.Node) { n.Labels[v1alpha1.LabelFleet] = "f" },
		"of cluster-api":              func(n *corev1.Node) { n.Annotations[annotationMachine] = "m" },
		"that a fleet is emptying":    func(n *corev1.Node) { n.Annotations[v1alpha1.AnnotationDraining] = "f/2026-01-01T11:00:00Z" },
		"that no selector has chosen": func(n *corev1.Node) { n.Labels["pool"] = "other" },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlay(t, func(c *Config) { c.NodeSelector = "pool!=other" }, both(change)...)
			before := p.cordoned()
			p.run(3 * time.Minute)
			if diff := cmp.Diff(before, p.cordoned()); diff != "" || len(p.migrations()) > 0 {
				t.Errorf("cordoned nodes (-before +after):\n%s\nmigrations %v", diff, p.migrations())
			}
		})
	}
}

func TestAnEmptiedNodeStaysClosedUntilAPodNeedsIt(t *testing.T) {
	mark := drain.Mark{Owner: drain.Descheduler, Since: noon.Add(-time.Minute)}
	emptied := newNode("b", "0.20", func(n *corev1.Node) {
		n.Annotations[v1alpha1.AnnotationDraining], n.Spec.Unschedulable = mark.String(), true
	})
	full := newPod("full", "a", "4")
	p := newPlay(t, nil, newJob(), newNode("a", "0.10"), emptied, full)
	p.run(time.Minute)
	if diff := cmp.Diff(map[string]string{"b": drain.Descheduler}, p.cordoned()); diff != "" {
		t.Fatalf("cordoned nodes (-want +got):\n%s", diff)
	}
	waiting := newPod("waiting", "", "1", unschedulable)
	testapi.Create(t, p.client, waiting)
	p.run(5 * time.Second)
	if len(p.cordoned()) > 0 {
		t.Errorf("%v are cordoned although a pod waits", p.cordoned())
	}
}

// TestAPodThatNoNodeHoldsStopsNothing: pods are pending for a larger node, or another kind of
// node, than exists. A pod that would fit on a node if others left keeps the nodes.
func TestAPodThatNoNodeHoldsStopsNothing(t *testing.T) {
	for name, test := range map[string]struct {
		pod   *corev1.Pod
		moves bool
	}{
		"too large for any node":    {newPod("waiting", "", "16", unschedulable), true},
		"selects what no node has":  {newPod("waiting", "", "1", unschedulable, func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "none"} }), true},
		"waits for others to leave": {newPod("waiting", "", "4", unschedulable), false},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlay(t, nil, append(halfEmpty(), test.pod)...)
			p.run(3 * time.Minute)
			if moves := p.migrations()["q"]; moves != test.moves {
				t.Errorf("it moves %v", p.migrations())
			}
		})
	}
}

// TestADrainThatFailsIsDroppedAndTheNodeLeftUnchanged: one of two migrations is refused.
func TestADrainThatFailsIsDroppedAndTheNodeLeftUnchanged(t *testing.T) {
	p := newPlay(t, nil, append(halfEmpty(), newPod("r", "b", "100m"))...)
	p.run(2 * time.Minute)
	if diff := cmp.Diff(map[string]bool{"q": true, "r": true}, p.migrations()); diff != "" {
		t.Fatalf("pods that are moved (-want +got):\n%s", diff)
	}
	var list v1alpha1.MigrationList
	testapi.List(t, p.client, &list)
	for i := range list.Items {
		if m := &list.Items[i]; m.Spec.PodName == "q" {
			m.Status.Phase = v1alpha1.MigrationRefused
			m.Status.Conditions = []metav1.Condition{{Type: v1alpha1.MigrationFinished, Status: metav1.ConditionTrue, Reason: "EmptyDirUnsupported", Message: "it has an emptyDir"}}
			testapi.Update(t, p.client, m)
		}
	}
	p.run(30 * time.Second)
	if p.migrations()["r"] {
		t.Errorf("the migration of the other pod is left: it has frozen nothing")
	}
	p.run(10 * time.Minute) // the other node is emptied instead
	if diff := cmp.Diff(map[string]string{"a": drain.Descheduler}, p.cordoned()); diff != "" {
		t.Errorf("cordoned nodes (-want +got):\n%s", diff)
	}
	if said := p.said(); !strings.Contains(said, "DrainCancelled") || !strings.Contains(said, "it has an emptyDir") {
		t.Errorf("it says\n%s", said)
	}
}

// TestANodeThatWaitsWithoutSuccessIsOpened: a pod does not end when it should.
func TestANodeThatWaitsWithoutSuccessIsOpened(t *testing.T) {
	mark := drain.Mark{Owner: drain.Descheduler, Since: noon.Add(-time.Hour), Until: noon.Add(time.Minute)}
	closed := newNode("b", "0.20", func(n *corev1.Node) {
		n.Annotations[v1alpha1.AnnotationDraining], n.Spec.Unschedulable = mark.String(), true
	})
	late := newPod("late", "b", "1", func(p *corev1.Pod) {
		p.Annotations = map[string]string{v1alpha1.AnnotationMigration: v1alpha1.MigrationNever, v1alpha1.AnnotationRuntime: "61m"}
	})
	p := newPlay(t, nil, newJob(), newNode("a", "0.10"), closed, late)
	p.run(30 * time.Second)
	if diff := cmp.Diff(map[string]string{"b": drain.Descheduler}, p.cordoned()); diff != "" {
		t.Fatalf("cordoned nodes (-want +got):\n%s", diff)
	}
	p.run(2 * time.Minute)
	if len(p.cordoned()) > 0 {
		t.Errorf("%v are cordoned", p.cordoned())
	}
	if said := p.said(); !strings.Contains(said, "Uncordoned") || !strings.Contains(said, "after their expected end") {
		t.Errorf("it says\n%s", said)
	}
}

func TestWhenItMayNotActAnyMoreAllIsOpened(t *testing.T) {
	p := newPlay(t, nil, halfEmpty()...)
	p.run(2 * time.Minute)
	if len(p.cordoned()) != 1 {
		t.Fatalf("%v are cordoned", p.cordoned())
	}
	p.mover.Config.Mode = Observe
	p.run(10 * time.Second)
	if len(p.cordoned())+len(p.migrations()) > 0 {
		t.Errorf("%v are cordoned, %v move", p.cordoned(), p.migrations())
	}
}

func TestNoMoreNodesAreEmptiedAtOnceThanMayBe(t *testing.T) {
	objects := []client.Object{newJob()}
	for i := range 12 {
		name := fmt.Sprintf("n%02d", i)
		objects = append(objects, newNode(name, "0.10"), newPod("pod-"+name, name, "500m"))
	}
	p := newPlay(t, func(c *Config) { c.MaxNodes, c.MaxPods = 3, 2 }, objects...)
	p.run(5 * time.Minute)
	if n := len(p.cordoned()); n != 3 {
		t.Errorf("%d nodes are cordoned, want 3", n)
	}
	if n := len(p.migrations()); n != 2 {
		t.Errorf("%d pods move, want 2", n)
	}
}

// TestNodesAreEmptiedThoughNobodyCanReadTheDecision has no Consolidation.
func TestNodesAreEmptiedThoughNobodyCanReadTheDecision(t *testing.T) {
	p := newPlay(t, nil, halfEmpty()...)
	testapi.Delete(t, p.client, &v1alpha1.Consolidation{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ConsolidationName}})
	p.run(3 * time.Minute)
	if p.cordoned()["b"] == "" {
		t.Errorf("cordoned are %v, want b", p.cordoned())
	}
	var all v1alpha1.ConsolidationList
	if testapi.List(t, p.client, &all); len(all.Items) != 0 {
		t.Errorf("the descheduler has created %v", all.Items)
	}
}

func TestTheDecisionIsRecorded(t *testing.T) {
	p := newPlay(t, nil, halfEmpty()...)
	p.run(3 * time.Minute)
	d := p.decision()
	if len(d.Drains) != 1 || d.Drains[0].Node != "b" || d.Drains[0].SavesDollars == "" || len(d.Drains[0].Pods) != 1 || d.Drains[0].Pods[0].Method != "migrate" {
		t.Errorf("the drains are %+v", d.Drains)
	}
	if d.DollarsPerHour != "0.30" || d.ExpectedDollarsPerHour != "0.10" {
		t.Errorf("nodes cost %s and are to cost %s", d.DollarsPerHour, d.ExpectedDollarsPerHour)
	}
}

func TestFlagsThatMakeNoSenseAreRefused(t *testing.T) {
	tests := []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.Mode = "act" }, `--consolidation: "act": must be Off, Observe or Act`},
		{func(c *Config) { c.Policy = "" }, `--consolidation-policy: "": must be CostAware or HTAS`},
		{func(c *Config) { c.NodeSelector = "a in" }, "--consolidation-node-selector"},
		{func(c *Config) { c.ThresholdPercent = 0 }, "--under-used-below: 0: must be from 1 to 100"},
		{func(c *Config) { c.MaxNodes = 0 }, "--max-nodes-emptied: 0: must be at least 1"},
		{func(c *Config) { c.Interval = time.Millisecond }, "--consolidation-interval"},
		{func(c *Config) { c.CPUHour = -1 }, "--default-price-per-cpu-hour"},
	}
	for _, tc := range tests {
		c := Defaults()
		tc.change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("it says %v, want %s", err, tc.want)
		}
	}
	c := Defaults()
	if err := c.Validate(); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
}

func TestANodeWithoutAPriceCostsWhatItsSizeDoes(t *testing.T) {
	c := Defaults()
	if got := c.price(newNode("n", "0.25")); got != 250_000 {
		t.Errorf("it costs %d, want what it says", got)
	}
	if got := c.price(newNode("n", "cheap")); got != 4*30_000+16*4_000 {
		t.Errorf("it costs %d, want that of 4 CPUs and 16 GiB", got)
	}
}
