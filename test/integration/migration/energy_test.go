package migration

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/app"
	"supercargo.dev/supercargo/descheduler/consolidation"
	"supercargo.dev/supercargo/energy/profile"
	"supercargo.dev/supercargo/internal/drain"
	"supercargo.dev/supercargo/internal/movable/capability"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/kit"
)

// newEnergyBench returns a bench of two nodes: the first is fast and uses 40 W for any pod. The second takes
// a fifth longer, uses 17 W, and has the given architecture. It is cordoned until open is called.
func newEnergyBench(t *testing.T, name, arch string) *bench {
	t.Helper()
	b := newEmptyBench(t, name)
	b.typed(0, "amd64", 2000, 50)
	b.typed(1, arch, 1000, 60)
	b.agents = startAgents(b)
	b.cordon(1, true)
	return b
}

// typed creates a node of a new machine type, and a profile of the type.
func (b *bench) typed(i int, arch string, joules, seconds float64) {
	b.Helper()
	machineType := b.Node(i) + "-type"
	can := capability.Node{Backends: []v1alpha1.MigrationBackend{v1alpha1.BackendSimulated}, Arch: arch, Restore: true}
	err := playground.CreateNodes(b.Context(), b.Site.Playground.Client(), []playground.NodeSpec{{
		Name: b.Node(i), CPU: "8", Memory: "32Gi", MachineType: machineType,
		Labels:      map[string]string{kit.BenchLabel: b.Space, corev1.LabelArchStable: arch},
		Annotations: map[string]string{v1alpha1.AnnotationCapability: can.Encode()},
	}})
	if err != nil {
		b.Fatal(err)
	}
	of := func(v float64) profile.Model {
		return profile.Model{Terms: []profile.Term{profile.One}, Coefficients: []float64{v}, Range: profile.Range{
			Most: profile.Size{MilliCPU: 8000, MemoryBytes: 32 << 30}, LeastValue: v, MostValue: v,
		}}
	}
	models := profile.Profile{Energy: of(joules), Runtime: of(seconds)}.Object(time.Now(), "")
	p := &v1alpha1.MachineProfile{
		ObjectMeta: metav1.ObjectMeta{Name: machineType}, Spec: v1alpha1.MachineProfileSpec{MachineType: machineType, Models: models},
	}
	b.Make(p)
	b.Cleanup(func() {
		if err := b.Delete(context.WithoutCancel(b.Context()), p); err != nil {
			b.Error(err)
		}
	})
}

func (b *bench) cordon(i int, closed bool) {
	b.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%v}}`, closed)
	if err := b.Patch(b.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: b.Node(i)}}, client.RawPatch(types.MergePatchType, patch)); err != nil {
		b.Fatal(err)
	}
}

// says sets an annotation of a pod.
func says(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations[key] = value }
}

// works creates Jobs of one pod each, with one CPU and a runtime of 100 h unless changed, waits until all of
// them run, and uncordons the second node. All pods except those in young have been there for an hour.
func (b *bench) works(jobs map[string]func(*corev1.Pod), young ...string) {
	b.Helper()
	for _, name := range slices.Sorted(maps.Keys(jobs)) {
		pod := b.template(says(v1alpha1.AnnotationRuntime, "100h"), func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("64Mi"),
			}
		}, jobs[name])
		b.Make(&batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: name},
			Spec: batchv1.JobSpec{
				BackoffLimit: new(int32(0)), PodReplacementPolicy: new(batchv1.Failed),
				PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
					Action:          batchv1.PodFailurePolicyActionIgnore,
					OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}},
				}}},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels, Annotations: pod.Annotations}, Spec: pod.Spec},
			},
		})
	}
	for _, p := range b.Runs(len(jobs)) {
		if slices.Contains(young, p.Labels[batchv1.JobNameLabel]) {
			continue
		}
		before := p.DeepCopy()
		p.Status.StartTime = new(metav1.NewTime(time.Now().Add(-time.Hour)))
		if err := b.Status().Patch(b.Context(), &p, client.MergeFrom(before)); err != nil {
			b.Fatal(err)
		}
	}
	b.cordon(1, false)
}

// endsIn sets the expected finish of a Job's pod.
func (b *bench) endsIn(job string, left time.Duration) {
	b.Helper()
	for _, p := range b.Pods() {
		if p.Labels[batchv1.JobNameLabel] == job {
			before := p.DeepCopy()
			p.Annotations[v1alpha1.AnnotationExpectedFinish] = time.Now().Add(left).UTC().Format(time.RFC3339)
			if err := b.Patch(b.Context(), &p, client.MergeFrom(before)); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// thrifty makes only energy count, and makes the mover decide about every second.
func thrifty(o *app.Options) {
	e := &o.Consolidation.Energy
	e.Mode, e.Interval, e.Weight = consolidation.Act, time.Second, 1
}

// moved waits until a pod of each Job has been moved to the second node, and returns their Migrations by Job.
func (b *bench) moved(jobs ...string) map[string]v1alpha1.Migration {
	b.Helper()
	var found map[string]v1alpha1.Migration
	b.Eventually(fmt.Sprintf("the pods of %v have moved", jobs), func() string {
		found = map[string]v1alpha1.Migration{}
		for _, m := range b.Migrations() {
			if m.Status.Phase == v1alpha1.MigrationSucceeded {
				found[b.jobOf(&m)] = m
			}
		}
		for _, job := range jobs {
			if _, ok := found[job]; !ok {
				return fmt.Sprintf("%v have", slices.Sorted(maps.Keys(found)))
			}
		}
		return ""
	})
	return found
}

// jobOf returns the Job whose pod a migration moves.
func (b *bench) jobOf(m *v1alpha1.Migration) string {
	name := m.Spec.PodName // the name of the Job, a hyphen and a unique suffix
	if m.Status.Plan != nil {
		name = cmp.Or(name, m.Status.Plan.RestoredPod)
	}
	job, _, _ := strings.Cut(name, "-")
	return job
}

// noneFailed checks that each Job has one pod, and has counted no failure.
func (b *bench) noneFailed() {
	b.Helper()
	b.Eventually("all Jobs are as they were", func() string {
		var jobs batchv1.JobList
		if err := b.List(b.Context(), &jobs, client.InNamespace(b.Space)); err != nil {
			return err.Error()
		}
		for _, j := range jobs.Items {
			if j.Status.Active != 1 || j.Status.Failed != 0 || j.Status.Terminating != nil && *j.Status.Terminating != 0 {
				return fmt.Sprintf("Job %s has status %+v", j.Name, j.Status)
			}
		}
		if n := len(b.Pods()); n != len(jobs.Items) {
			return fmt.Sprintf("%d pods of %d Jobs", n, len(jobs.Items))
		}
		return ""
	})
}

// told returns the Events about pods, by reason.
func (b *bench) told(reason string) (notes []string) {
	b.Helper()
	var list eventsv1.EventList
	if err := b.List(b.Context(), &list, client.InNamespace(b.Space)); err != nil {
		b.Fatal(err)
	}
	for _, e := range list.Items {
		if e.Reason == reason && e.Regarding.Kind == "Pod" {
			notes = append(notes, e.Note)
		}
	}
	return notes
}

func TestPodsGoWhereTheRestOfTheirWorkTakesLessEnergyAndOthersStay(t *testing.T) {
	t.Parallel()
	b := newEnergyBench(t, "thrift", "amd64")
	b.works(map[string]func(*corev1.Pod){
		"goes":   func(*corev1.Pod) {},
		"wants":  says(v1alpha1.AnnotationEnergyWeight, "1"),
		"hurry":  says(v1alpha1.AnnotationEnergyWeight, "0"),
		"ends":   func(*corev1.Pod) {},
		"never":  says(v1alpha1.AnnotationMigration, v1alpha1.MigrationNever),
		"serves": func(p *corev1.Pod) { p.Labels = map[string]string{v1alpha1.LabelClass: "service"} },
		"young":  func(*corev1.Pod) {},
	}, "young")
	b.endsIn("ends", time.Minute) // after an hour of work that a failed migration would repeat
	b.deschedule(thrifty)
	for job, m := range b.moved("goes", "wants") {
		if m.Spec.TargetNode != b.Node(1) || m.Annotations[v1alpha1.AnnotationRequestedBy] != drain.Descheduler {
			t.Errorf("the pod of %s has moved by %+v, asked for by %q", job, m.Spec, m.Annotations[v1alpha1.AnnotationRequestedBy])
		}
		checkSteps(t, &m, checkpointSteps)
	}
	b.noneFailed()
	for _, p := range b.Runs(7) {
		job := p.Labels[batchv1.JobNameLabel]
		if to := map[bool]string{true: b.Node(1), false: b.Node(0)}[job == "goes" || job == "wants"]; p.Spec.NodeName != to {
			t.Errorf("the pod of %s is on %s, want %s", job, p.Spec.NodeName, to)
		}
	}
	b.Eventually("it is said why", func() string {
		notes := b.told("Moving")
		for _, note := range notes {
			if !strings.Contains(note, "to node "+b.Node(1)) || !strings.Contains(note, " J ") {
				return note
			}
		}
		return gocmp.Diff(2, len(notes))
	})
	if n := len(b.Migrations()); n != 2 {
		t.Errorf("%d Migrations were made, want one for each pod that goes", n)
	}
}

// The budget is one pod: they move one after the other, and none of them moves back.
func TestNoMorePodsAreOnTheirWayThanTheBudgetAllowsAndNoneGoesTwice(t *testing.T) {
	t.Parallel()
	b := newEnergyBench(t, "budget", "amd64")
	stay := func(*corev1.Pod) {}
	b.works(map[string]func(*corev1.Pod){"a": stay, "b": stay, "c": stay, "d": stay})
	most := 0
	b.Meanwhile = func() {
		moving := 0
		for _, m := range b.Migrations() {
			if condition(&m, v1alpha1.MigrationFinished).Status != metav1.ConditionTrue {
				moving++
			}
		}
		most = max(most, moving)
	}
	b.deschedule(thrifty, func(o *app.Options) {
		o.Consolidation.MaxPods, o.Consolidation.Residence = 1, time.Second
	})
	b.moved("a", "b", "c", "d")
	b.noneFailed()
	if most != 1 {
		t.Errorf("%d pods were on their way at once, want 1", most)
	}
	if n := len(b.Migrations()); n != 4 { // the first had time to move back while the others moved
		t.Errorf("%d Migrations were made of four pods", n)
	}
}

func TestOnlyWhoMayBeStartedAgainLeavesForAnotherArchitecture(t *testing.T) {
	t.Parallel()
	b := newEnergyBench(t, "arch", "arm64")
	b.works(map[string]func(*corev1.Pod){
		"state": func(*corev1.Pod) {},
		"again": says(v1alpha1.AnnotationMigration, v1alpha1.MigrationRestart),
	})
	before := map[string]types.UID{}
	for _, p := range b.Pods() {
		before[p.Labels[batchv1.JobNameLabel]] = p.UID
	}
	b.deschedule(thrifty)
	b.Eventually("the pod that may be started again is evicted, and its Job has another", func() string {
		for _, p := range b.Runs(2) {
			if job := p.Labels[batchv1.JobNameLabel]; job == "again" && p.UID != before[job] {
				return ""
			}
		}
		return fmt.Sprintf("it runs; %q", b.told("Moving"))
	})
	for _, p := range b.Pods() {
		if job := p.Labels[batchv1.JobNameLabel]; job == "state" && p.UID != before[job] {
			t.Error("the pod that is moved with its state only was evicted")
		}
	}
	b.noneFailed()
	if n := len(b.Migrations()); n != 0 {
		t.Errorf("%d Migrations were made: the state of a pod cannot go to another architecture", n)
	}
	if notes := b.told("Moving"); len(notes) != 1 || !strings.Contains(notes[0], "evicted, because node "+b.Node(1)+" suits it better") {
		t.Errorf("it says %q", notes)
	}
}

func TestWhatIsObservedIsSaidAndNothingMoves(t *testing.T) {
	t.Parallel()
	b := newEnergyBench(t, "observe", "amd64")
	b.works(map[string]func(*corev1.Pod){"stays": func(*corev1.Pod) {}})
	b.deschedule(thrifty, func(o *app.Options) { o.Consolidation.Energy.Mode = consolidation.Observe })
	b.Eventually("it is said what would be done", func() string {
		if notes := b.told("WouldMove"); len(notes) != 1 || !strings.Contains(notes[0], "to node "+b.Node(1)) {
			return fmt.Sprintf("%q", notes)
		}
		return ""
	})
	if n := len(b.Migrations()); n != 0 {
		t.Errorf("%d Migrations were made", n)
	}
}
