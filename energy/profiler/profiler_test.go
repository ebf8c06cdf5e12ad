package profiler

import (
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/energy/meterapi"
	"supercargo.dev/supercargo/energy/probe"
	"supercargo.dev/supercargo/energy/profile"
	"supercargo.dev/supercargo/energy/profiler/record"
	"supercargo.dev/supercargo/test/kit/testapi"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

const print16 = "0123456789abcdef"

// play is a cluster on a fake API server, with the profiler.
type play struct {
	*testing.T
	client   client.Client
	clock    *clocktesting.FakeClock
	events   *events.FakeRecorder
	profiler *Profiler
}

func newPlay(t *testing.T, change func(*Profiler), objects ...client.Object) *play {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	p := &play{T: t, clock: clocktesting.NewFakeClock(noon), events: events.NewFakeRecorder(1000)}
	p.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.MachineProfile{}, &batchv1.Job{}, &corev1.Pod{}).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).Build()
	p.start(change)
	return p
}

// start starts a profiler without memory.
func (p *play) start(change func(*Profiler)) {
	p.Helper()
	profiler := &Profiler{Client: p.client, Live: p.client, Events: p.events, Clock: p.clock, Config: Defaults()}
	profiler.Config.Mode = Act
	if change != nil {
		change(profiler)
	}
	var err error
	if p.profiler, err = New(profiler); err != nil {
		p.Fatal(err)
	}
}

// run advances the time, with a round every five seconds.
func (p *play) run(d time.Duration) {
	p.Helper()
	for end := p.clock.Now().Add(d); p.clock.Now().Before(end); p.clock.Step(5 * time.Second) {
		if _, err := p.profiler.Reconcile(p.Context(), reconcile.Request{}); err != nil {
			p.Fatal(err)
		}
	}
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

func (p *play) get(name types.NamespacedName, o client.Object) bool {
	p.Helper()
	err := p.client.Get(p.Context(), name, o)
	if client.IgnoreNotFound(err) != nil {
		p.Fatal(err)
	}
	return err == nil
}

func (p *play) profile(name string) *v1alpha1.MachineProfile {
	o := &v1alpha1.MachineProfile{}
	p.get(types.NamespacedName{Name: name}, o)
	return o
}

func (p *play) job() *batchv1.Job {
	p.Helper()
	var list batchv1.JobList
	testapi.List(p, p.client, &list)
	if len(list.Items) == 0 {
		return nil
	}
	return &list.Items[0]
}

func node(name, machineType string, change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{v1alpha1.LabelMachineType: machineType, corev1.LabelArchStable: "amd64"},
			Annotations: map[string]string{v1alpha1.AnnotationHardware: fmt.Sprintf(`{"fingerprint":%q,"threads":4}`, print16)},
		},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			Allocatable: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("110"),
			},
		},
	}
	for _, f := range change {
		f(n)
	}
	return n
}

// report returns the report of a machine on which the standard work takes 10 s of a CPU at speed
// 1. It has a meter, and draws 10 W without load and 20 W more for each busy CPU.
func report(t *testing.T, speed float64) string {
	t.Helper()
	r := probe.Report{Complete: true, Home: "x", Idle: []probe.Idle{{Governor: "x", For: time.Minute, Machine: 600, Measured: true}}}
	for _, cpu := range []int64{250, 500, 1000, 2000} {
		for _, memory := range []int64{64 << 20, 256 << 20} {
			seconds := 5000 / speed / float64(cpu)
			for _, task := range probe.Tasks() {
				r.Runs = append(r.Runs, probe.Run{
					Task: task, Size: profile.Size{MilliCPU: cpu, MemoryBytes: memory}, Governor: "x", Runtime: time.Duration(seconds * float64(time.Second)),
					Machine: energy.Joules(10*seconds + 100/speed), Measured: true,
				})
			}
		}
	}
	text, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// ends ends the Job's pod with a termination message, and the Job with it.
func (p *play) ends(condition batchv1.JobConditionType, words string) {
	p.Helper()
	job := p.job()
	if job == nil {
		p.Fatal("there is no Job")
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: job.Name + "-x", Labels: map[string]string{batchv1.ControllerUidLabel: string(job.UID)}},
		Status: corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: []corev1.ContainerStatus{
			{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: words}}},
		}},
	}
	job.Status.Conditions = []batchv1.JobCondition{{Type: condition, Status: corev1.ConditionTrue, Reason: "Reason"}}
	for _, err := range []error{p.client.Create(p.Context(), pod), p.client.Status().Update(p.Context(), job)} {
		if err != nil {
			p.Fatal(err)
		}
	}
	p.run(10 * time.Second)
	testapi.Delete(p, p.client, pod)
}

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

func TestAProbeBecomesAProfile(t *testing.T) {
	p := newPlay(t, nil, node("a", "Xeon_8"))
	p.run(5 * time.Second)
	var n corev1.Node
	if p.get(types.NamespacedName{Name: "a"}, &n); len(n.Spec.Taints) != 1 || p.job() != nil {
		t.Errorf("at first the node is only reserved: %+v, %v", n.Spec.Taints, p.job())
	}
	p.run(10 * time.Second)
	p.ends(batchv1.JobComplete, report(t, 1))
	if p.get(types.NamespacedName{Name: "a"}, &n); len(n.Spec.Taints) != 0 || p.job() != nil {
		t.Errorf("the node is not released: %+v, %v", n.Spec.Taints, p.job())
	}
	o := p.profile(profile.NameOf("Xeon_8"))
	m, err := profile.FromObject(o)
	if err != nil {
		t.Fatalf("%v: %+v\n%s", err, o, p.said())
	}
	if got := m.Profile.Runtime.Predict(profile.Size{MilliCPU: 1000, MemoryBytes: 128 << 20}, 0); got.Value < 9.9 || got.Value > 10.1 || got.Trust < 0.99 {
		t.Errorf("a pod of a CPU takes %+v, want 10 s", got)
	}
	if got := m.Profile.Energy.Predict(profile.Size{MilliCPU: 1000, MemoryBytes: 128 << 20}, 0); got.Value < 198 || got.Value > 202 {
		t.Errorf("a pod of a CPU takes %+v, want 200 J", got)
	}
	p.start(nil) // it loses its memory
	p.run(time.Minute)
	if p.job() != nil {
		t.Error("after a restart it is probed again")
	}
	if again := p.profile(o.Name); again.ResourceVersion != o.ResourceVersion {
		t.Errorf("after a restart the profile is written: %+v became %+v", o.Status, again.Status)
	}
	p.clock.Step(24 * time.Hour)
	p.run(5 * time.Second)
	if again := p.profile(o.Name); !again.Status.Models.LearnedAt.After(o.Status.Models.LearnedAt.Time) {
		t.Error("it is not refitted after a day")
	}
}

func TestAReportThatIsNoneIsAFailureAndIsTriedAgainLater(t *testing.T) {
	for name, words := range map[string]string{"empty": "", "nonsense": "{", "not whole": strings.Replace(report(t, 1), `"c":true`, `"c":false`, 1)} {
		p := newPlay(t, nil, node("a", "xeon"))
		p.run(15 * time.Second)
		p.ends(batchv1.JobComplete, words)
		if said := p.said(); !strings.Contains(said, "ProbeFailed") {
			t.Errorf("%s: %s", name, said)
		}
		p.run(9 * time.Minute)
		if p.job() != nil {
			t.Errorf("%s: it is tried again at once", name)
		}
		p.run(2 * time.Minute)
		if p.job() == nil {
			t.Errorf("%s: it is not tried again", name)
		}
	}
}

func TestWhyAProbeFailedIsTold(t *testing.T) {
	p := newPlay(t, nil, node("a", "xeon"))
	p.run(15 * time.Second)
	text, err := probe.Report{Failure: "k-means: the result is wrong"}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	p.ends(batchv1.JobFailed, string(text))
	if said := p.said(); !strings.Contains(said, "the result is wrong") {
		t.Errorf("%s", said)
	}
	if c := meta.FindStatusCondition(p.profile("xeon").Status.Conditions, v1alpha1.ProfileProbed); c == nil || c.Status != metav1.ConditionFalse || c.Reason != "BackingOff" && c.Reason != "ProbeFailed" {
		t.Errorf("%+v", c)
	}
}

// TestAnEditedStatusIsRefused: whatever somebody writes there, even NaN.
func TestAnEditedStatusIsRefused(t *testing.T) {
	for _, coefficient := range []string{"1e9", "NaN", ""} {
		p := newPlay(t, nil, node("a", "xeon"))
		p.run(15 * time.Second)
		p.ends(batchv1.JobComplete, report(t, 1))
		good := p.profile("xeon")
		p.said()
		bad := good.DeepCopy()
		bad.Status.Models.Energy.Terms[0].Coefficient = coefficient
		if err := p.client.Status().Update(t.Context(), bad); err != nil {
			t.Fatal(err)
		}
		p.run(5 * time.Second)
		if said := p.said(); !strings.Contains(said, "ModelsInvalid") {
			t.Errorf("%q: %s", coefficient, said)
		}
		if is := p.profile("xeon"); is.Status.Models.Energy.Terms[0] != good.Status.Models.Energy.Terms[0] {
			t.Errorf("%q stays: %+v", coefficient, is.Status.Models.Energy.Terms)
		}
		p.run(time.Minute)
		if said := p.said(); strings.Contains(said, "ModelsInvalid") {
			t.Errorf("%q is refused again and again: %s", coefficient, said)
		}
	}
}

func TestModelsThatAreLostComeBackWithoutAWord(t *testing.T) {
	p := newPlay(t, nil, node("a", "xeon"))
	p.run(15 * time.Second)
	p.ends(batchv1.JobComplete, report(t, 1))
	o := p.profile("xeon")
	o.Status = v1alpha1.MachineProfileStatus{}
	if err := p.client.Status().Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	p.said()
	p.run(5 * time.Second)
	if o = p.profile("xeon"); o.Status.Models == nil || strings.Contains(p.said(), "ModelsInvalid") {
		t.Errorf("%+v", o.Status)
	}
}

// TestOtherHardwareIsLearnedAgain: models of the old hardware are unused as soon as a node reports
// the new one, and nobody is blamed for an edit.
func TestOtherHardwareIsLearnedAgain(t *testing.T) {
	p := newPlay(t, nil, node("a", "xeon"))
	p.run(15 * time.Second)
	p.ends(batchv1.JobComplete, report(t, 1))
	var n corev1.Node
	p.get(types.NamespacedName{Name: "a"}, &n)
	n.Annotations[v1alpha1.AnnotationHardware] = `{"fingerprint":"fedcba9876543210","threads":8}`
	testapi.Update(t, p.client, &n)
	p.run(15 * time.Second)
	if _, err := profile.FromObject(p.profile("xeon")); err == nil {
		t.Error("models of other hardware are used")
	}
	p.ends(batchv1.JobComplete, report(t, 2))
	m, err := profile.FromObject(p.profile("xeon"))
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Profile.Runtime.Predict(profile.Size{MilliCPU: 1000, MemoryBytes: 128 << 20}, 0); got.Value < 4.9 || got.Value > 5.1 {
		t.Errorf("a pod of a CPU takes %+v, want 5 s", got)
	}
	if said := p.said(); strings.Contains(said, "ModelsInvalid") || !strings.Contains(said, "HardwareChanged") {
		t.Errorf("%s", said)
	}
}

// finishedPod returns a pod that ran on a node from a time.
func finishedPod(name, node string, cpu string, start time.Time, took time.Duration) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "work", Name: name, UID: types.UID(name), Labels: map[string]string{v1alpha1.LabelClass: "batch"}, Annotations: map[string]string{v1alpha1.AnnotationCategory: "c"},
		},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("128Mi")},
		}}}},
		Status: corev1.PodStatus{Phase: corev1.PodSucceeded, StartTime: &metav1.Time{Time: start}, ContainerStatuses: []corev1.ContainerStatus{
			{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{StartedAt: metav1.NewTime(start), FinishedAt: metav1.NewTime(start.Add(took))}}},
		}},
	}
}

// finishes ends a pod while the profiler watches.
func (p *play) finishes(pod *corev1.Pod) {
	p.Helper()
	testapi.Create(p, p.client, pod)
	before := pod.DeepCopy()
	before.Status = corev1.PodStatus{Phase: corev1.PodRunning}
	p.profiler.podMatters().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: pod})
}

func (p *play) record(machineType string) *record.Record {
	p.Helper()
	var object corev1.ConfigMap
	if !p.get(p.profiler.recordName(machineType), &object) {
		return nil
	}
	r, err := record.Decode(object.Data[recordKey])
	if err != nil {
		p.Fatal(err)
	}
	return r
}

// TestFinishedPodsTeachBesideProbes: their work differs from the standard, and takes seven times
// as long.
func TestFinishedPodsTeachBesideProbes(t *testing.T) {
	p := newPlay(t, nil, node("a", "xeon"))
	p.run(15 * time.Second)
	p.ends(batchv1.JobComplete, report(t, 1))
	probed := p.profile("xeon").Status.Models.Runtime
	for i, cpu := range []string{"500m", "1", "3"} {
		size := resource.MustParse(cpu)
		took := time.Duration(70 * float64(time.Second) * 1000 / float64(size.MilliValue()))
		p.finishes(finishedPod(fmt.Sprintf("pod-%d", i), "a", cpu, p.clock.Now().Add(-took), took))
	}
	p.finishes(finishedPod("elsewhere", "gone", "1", p.clock.Now(), time.Minute))
	p.run(2 * time.Minute)
	if r := p.record("xeon"); len(r.Tasks) != 3 {
		t.Fatalf("%+v is kept", r.Tasks)
	}
	p.start(nil)
	p.clock.Step(24 * time.Hour)
	p.run(5 * time.Second)
	models := p.profile("xeon").Status.Models
	if got := models.Runtime; got.Samples != probed.Samples+3 || got.CPU.Most.String() != "3" || models.Energy.Samples != probed.Samples {
		t.Errorf("%+v was learned from %d probes", models, probed.Samples)
	}
	m, err := profile.FromObject(p.profile("xeon"))
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Profile.Runtime.Predict(profile.Size{MilliCPU: 3000, MemoryBytes: 128 << 20}, 0); got.Value < 3.2 || got.Value > 3.5 {
		t.Errorf("a pod of three CPUs takes %+v, want 10/3 s", got)
	}
}

// TestAMeterThatKnowsLateIsAskedAgain: as with a meter whose source is read every half minute. If
// it never knows a pod's energy, the profiler finally learns the pod's runtime.
func TestAMeterThatKnowsLateIsAskedAgain(t *testing.T) {
	for _, tc := range []struct {
		late  time.Duration // after the pod's end
		after time.Duration // when the pod is recorded
		want  int64
	}{{30 * time.Second, 2 * time.Minute, 70_000}, {24 * time.Hour, 2 * time.Minute, 0}} {
		var p *play
		start, took := noon.Add(time.Hour), 5*time.Minute
		server := httptest.NewTLSServer(meterapi.Handler(func(_, to time.Time) (energy.Usage, bool) {
			return energy.Usage{Measured: 10_000}, !p.clock.Now().Before(to.Add(tc.late))
		}))
		t.Cleanup(server.Close)
		host, port, err := net.SplitHostPort(server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		p = newPlay(t, func(p *Profiler) { p.Config.MeterPort, _ = strconv.Atoi(port); p.HTTP = server.Client() }, node("a", "xeon", func(n *corev1.Node) {
			n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: host}}
		}))
		p.run(15 * time.Second)
		p.ends(batchv1.JobComplete, report(t, 1))
		p.clock.SetTime(start.Add(took))
		p.finishes(finishedPod("pod", "a", "1", start, took))
		p.run(tc.after)
		if tasks := p.record("xeon").Tasks; len(tasks) != 1 || tasks[0].Decijoules != tc.want {
			t.Errorf("a meter that knows %v late: %+v, want %d dJ", tc.late, tasks, tc.want)
		}
	}
}

// TestEnergyOfAPodIsKnownWhereItWasAlone: and where its node measured it.
func TestEnergyOfAPodIsKnownWhereItWasAlone(t *testing.T) {
	measured := energy.Usage{Measured: 1000}
	server := httptest.NewTLSServer(meterapi.Handler(func(_, _ time.Time) (energy.Usage, bool) { return measured, true }))
	defer server.Close()
	host, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name  string
		usage energy.Usage
		took  time.Duration
		other *corev1.Pod
		late  bool // the profiler started after the pod
		want  int64
	}{
		{"alone and measured: 1000 J less 30 s of 10 W", energy.Usage{Measured: 1000}, 30 * time.Second, nil, false, 7000},
		{"less than without load", energy.Usage{Measured: 100}, 30 * time.Second, nil, false, 0},
		{"modelled", energy.Usage{Measured: 900, Modelled: 100}, 30 * time.Second, nil, false, 0},
		{"too short", energy.Usage{Measured: 1000}, 19 * time.Second, nil, false, 0},
		{"not watched from the start", energy.Usage{Measured: 1000}, 30 * time.Second, nil, true, 0},
		{"another at its end", energy.Usage{Measured: 1000}, 30 * time.Second, finishedPod("other", "a", "1", noon.Add(time.Hour+29*time.Second), time.Minute), false, 0},
		{"another after it", energy.Usage{Measured: 1000}, 30 * time.Second, finishedPod("other", "a", "1", noon.Add(time.Hour+31*time.Second), time.Minute), false, 7000},
		{"another elsewhere", energy.Usage{Measured: 1000}, 30 * time.Second, finishedPod("other", "b", "1", noon.Add(time.Hour), time.Minute), false, 7000},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			change := func(p *Profiler) { p.Config.MeterPort, _ = strconv.Atoi(port); p.HTTP = server.Client() }
			p := newPlay(t, change, node("a", "xeon", func(n *corev1.Node) {
				n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: host}}
			}))
			p.run(15 * time.Second)
			p.ends(batchv1.JobComplete, report(t, 1))
			measured = tc.usage
			start := noon.Add(time.Hour)
			p.clock.SetTime(start.Add(tc.took))
			if tc.late {
				p.start(change)
			}
			if tc.other != nil {
				testapi.Create(t, p.client, tc.other)
			}
			p.finishes(finishedPod("pod", "a", "1", start, tc.took))
			p.run(2 * time.Minute)
			if tasks := p.record("xeon").Tasks; len(tasks) != 1 || tasks[0].Decijoules != tc.want {
				t.Errorf("%+v, want %d dJ", tasks, tc.want)
			}
		})
	}
}

func TestAPodThatHasGoneWasThere(t *testing.T) {
	p := newPlay(t, nil)
	gone := finishedPod("other", "a", "1", noon, time.Minute)
	p.profiler.podMatters().Delete(event.DeleteEvent{Object: gone})
	r, err := p.profiler.observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.alone(t.Context(), &finished{node: "a", start: noon.Add(-time.Minute), end: noon.Add(time.Minute)}) {
		t.Error("a pod was alone with one that was deleted meanwhile")
	}
	if !r.alone(t.Context(), &finished{node: "a", start: noon.Add(time.Second), end: noon.Add(time.Minute)}) {
		t.Error("a pod was not alone since one was deleted before it came")
	}
}

func TestWhoRunsDryWritesNothing(t *testing.T) {
	p := newPlay(t, func(p *Profiler) { p.DryRun = true }, node("a", "xeon"))
	p.run(time.Minute)
	var n corev1.Node
	if p.get(types.NamespacedName{Name: "a"}, &n); len(n.Spec.Taints) != 0 || p.job() != nil || p.profile("xeon").Name != "" || p.said() != "" {
		t.Errorf("%+v, %v", n.Spec, p.job())
	}
}

func TestNodesThatAreNotToBeProbedAreNot(t *testing.T) {
	for name, change := range map[string]func(*corev1.Node){
		"cordoned":              func(n *corev1.Node) { n.Spec.Unschedulable = true },
		"tainted":               func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoSchedule}} },
		"not ready":             func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse },
		"control plane":         func(n *corev1.Node) { n.Labels[labelControlPlane] = "" },
		"being emptied":         func(n *corev1.Node) { n.Annotations[v1alpha1.AnnotationDraining] = "Descheduler/" },
		"too small":             func(n *corev1.Node) { n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("100m") },
		"without an agent":      func(n *corev1.Node) { delete(n.Annotations, v1alpha1.AnnotationHardware) },
		"with an odd agent":     func(n *corev1.Node) { n.Annotations[v1alpha1.AnnotationHardware] = `{"fingerprint":"x"}` },
		"of no type":            func(n *corev1.Node) { delete(n.Labels, v1alpha1.LabelMachineType) },
		"not chosen by a label": func(n *corev1.Node) { n.Labels["probe"] = "no" },
	} {
		p := newPlay(t, func(p *Profiler) { p.Config.NodeSelector = "probe!=no" }, node("a", "xeon", change))
		p.run(30 * time.Second)
		if p.job() != nil || p.profile("xeon").Name != "" {
			t.Errorf("a node is probed that is %s", name)
		}
	}
}

func TestARecordThatWasEditedIsBegunAgain(t *testing.T) {
	p := newPlay(t, nil, node("a", "xeon"))
	name := p.profiler.recordName("xeon")
	testapi.Create(t, p.client, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}, Data: map[string]string{recordKey: "{"}})
	p.run(15 * time.Second)
	p.ends(batchv1.JobComplete, report(t, 1))
	if r := p.record("xeon"); r == nil || r.Probe == nil {
		t.Errorf("%+v", r)
	}
}

func TestWrongFlagsAreNamed(t *testing.T) {
	for flag, change := range map[string]func(*Config){
		"--probing":             func(c *Config) { c.Mode = "Sometimes" },
		"--probe-node-selector": func(c *Config) { c.NodeSelector = "!!" },
		"--probe-namespace":     func(c *Config) { c.Namespace = "" },
		"--probe-timeout":       func(c *Config) { c.Timeout = time.Second },
		"--max-probes":          func(c *Config) { c.AtOnce = 0 },
		"--probe-backoff":       func(c *Config) { c.Backoff = 48 * time.Hour },
		"--learning-period":     func(c *Config) { c.Period = 0 },
		"--meter-port":          func(c *Config) { c.MeterPort = 70000 },
		"--meter-namespace":     func(c *Config) { c.MeterNamespace = "" },
		"--probe-amount":        func(c *Config) { c.Amount = 0 },
	} {
		c := Defaults()
		if err := c.Validate(); err != nil {
			t.Fatalf("the defaults: %v", err)
		}
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%v does not name %s", err, flag)
		}
	}
}
