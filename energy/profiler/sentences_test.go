package profiler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/energy/profile"
	"supercargo.dev/supercargo/internal/platform/pause"
	"supercargo.dev/supercargo/test/kit/sentences"
	"supercargo.dev/supercargo/test/kit/testapi"
)

// says returns the Events so far, and the conditions of a profile.
func (p *play) says(name string) string {
	all := []string{p.said()}
	for _, c := range p.profile(name).Status.Conditions {
		all = append(all, fmt.Sprintf("%s=%s %s %s", c.Type, c.Status, c.Reason, c.Message))
	}
	return strings.Join(all, "\n")
}

// cached reads pods as an outdated cache does, which has none.
type cached struct{ client.Client }

func (c cached) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if _, pods := list.(*corev1.PodList); pods {
		return nil
	}
	return c.Client.List(ctx, list, options...)
}

// TestAProbeThatWasNotStartedIsNotTold has a pod on the reserved node that the cache does not have yet.
func TestAProbeThatWasNotStartedIsNotTold(t *testing.T) {
	p := newPlay(t, func(p *Profiler) { p.Client = cached{p.Client} }, node("a", "xeon"))
	p.run(5 * time.Second)
	testapi.Create(t, p.client, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: corev1.PodSpec{NodeName: "a", Containers: []corev1.Container{{Name: "c"}}}})
	p.said()
	p.run(5 * time.Second)
	if text := p.says("xeon"); p.job() != nil || strings.Contains(text, "is being probed") || !strings.Contains(text, "node a is not probed: pod ns/p is on it") {
		t.Errorf("it says\n%s", text)
	}
}

// TestAReservationThatFailedIsNotTold has an API server that refuses the taint.
func TestAReservationThatFailedIsNotTold(t *testing.T) {
	p := newPlay(t, func(p *Profiler) {
		p.Client = interceptor.NewClient(p.Client.(client.WithWatch), interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
			if _, is := o.(*corev1.Node); is {
				return errors.New("nodes are forbidden")
			}
			return c.Patch(ctx, o, patch, options...)
		}})
	}, node("a", "xeon"))
	if _, err := p.profiler.Reconcile(t.Context(), reconcile.Request{}); err == nil {
		t.Fatal("the API server does not refuse the taint")
	}
	if text := p.says("xeon"); strings.Contains(text, "is reserved") {
		t.Errorf("it says\n%s", text)
	}
}

// TestAProbeIsNotCalledSuccessfulForAReportThatIsNone has a Job that has succeeded without a report.
func TestAProbeIsNotCalledSuccessfulForAReportThatIsNone(t *testing.T) {
	p := newPlay(t, nil, node("a", "xeon"))
	p.run(15 * time.Second)
	p.said()
	job := p.job()
	job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	if err := p.client.Status().Update(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	p.run(5 * time.Second)
	if text := p.says("xeon"); strings.Contains(text, "was probed") || !strings.Contains(text, "Probed=False ProbeFailed the probe on node a failed: the pod of the probe left no report") {
		t.Errorf("it says\n%s", text)
	}
}

// TestAPauseIsTheReasonDuringAPause has mode Act.
func TestAPauseIsTheReasonDuringAPause(t *testing.T) {
	p := newPlay(t, func(p *Profiler) { p.Pause = &pause.Switch{Client: p.Client, Namespace: "home"} }, node("a", "xeon"))
	p.run(15 * time.Second)
	testapi.Create(t, p.client, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "home", Name: pause.Name}})
	p.said()
	p.run(10 * time.Second)
	if text := p.says("xeon"); strings.Contains(text, "--probing") || !strings.Contains(text, "the probe is cancelled: Supercargo is paused") {
		t.Errorf("it says\n%s", text)
	}
}

func TestEachSentenceOfTheProfilerIsSaidWhereItIsTrueAndNotWhereItIsNot(t *testing.T) {
	scene := func(d time.Duration, change func(*corev1.Node), configure func(*Profiler)) string {
		p := newPlay(t, configure, node("a", "xeon", func(n *corev1.Node) {
			if change != nil {
				change(n)
			}
		}), &v1alpha1.MachineProfile{ObjectMeta: metav1.ObjectMeta{Name: "xeon"}, Spec: v1alpha1.MachineProfileSpec{MachineType: "xeon"}})
		p.run(d)
		return p.says("xeon")
	}
	plain := scene(5*time.Second, nil, nil)
	tainted := func(key string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoSchedule}} }
	}
	ended := func(condition batchv1.JobConditionType, words string) string {
		p := newPlay(t, nil, node("a", "xeon"))
		p.run(15 * time.Second)
		p.ends(condition, words)
		return p.says("xeon")
	}
	whole := report(t, 1)
	learnedText, nonsense, empty := ended(batchv1.JobComplete, whole), ended(batchv1.JobComplete, "{"), ended(batchv1.JobComplete, "")
	partial := ended(batchv1.JobComplete, strings.Replace(whole, `"c":true`, `"c":false`, 1))
	without := func() string {
		p := newPlay(t, nil, node("a", "xeon"))
		p.run(15 * time.Second)
		job := p.job()
		job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		if err := p.client.Status().Update(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		p.run(5 * time.Second)
		return p.says("xeon")
	}()
	edited := func(change func(*v1alpha1.MachineModels)) string {
		p := newPlay(t, nil, node("a", "xeon"))
		p.run(15 * time.Second)
		p.ends(batchv1.JobComplete, whole)
		p.said()
		o := p.profile("xeon")
		change(o.Status.Models)
		if err := p.client.Status().Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		p.run(5 * time.Second)
		return p.says("xeon")
	}
	nothing := edited(func(*v1alpha1.MachineModels) {})
	valid := edited(func(m *v1alpha1.MachineModels) { m.Energy.Samples++ })
	invalid := edited(func(m *v1alpha1.MachineModels) { m.Energy.Terms[0].Coefficient = "NaN" })
	changed := func(fingerprint string) string {
		p := newPlay(t, nil, node("a", "xeon"))
		p.run(15 * time.Second)
		p.ends(batchv1.JobComplete, whole)
		var n corev1.Node
		p.get(types.NamespacedName{Name: "a"}, &n)
		n.Annotations[v1alpha1.AnnotationHardware] = fmt.Sprintf(`{"fingerprint":%q,"threads":8}`, fingerprint)
		testapi.Update(t, p.client, &n)
		p.said()
		p.run(5 * time.Second)
		return p.says("xeon")
	}
	specified := func() string {
		p := newPlay(t, nil, node("a", "xeon"))
		p.run(15 * time.Second)
		p.ends(batchv1.JobComplete, whole)
		o := p.profile("xeon")
		o.Spec.Models = o.Status.Models
		testapi.Update(t, p.client, o)
		p.run(5 * time.Second)
		return p.says("xeon")
	}()
	from := func(l learned) string { return l.origin() }

	sentences.Check(t, []string{"act.go", "observe.go", "learn.go", "governor.go", "profiler.go", "report.go", "job.go"}, []sentences.Case{
		// Nodes.
		{"it belongs to the control plane", scene(5*time.Second, func(n *corev1.Node) { n.Labels[labelControlPlane] = "" }, nil), plain},
		{"--probe-node-selector does not match it", scene(5*time.Second, nil, func(p *Profiler) { p.Config.NodeSelector = "probe=yes" }), plain},
		{"it is not ready", scene(5*time.Second, func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse }, nil), plain},
		{"it is unschedulable", scene(5*time.Second, func(n *corev1.Node) { n.Spec.Unschedulable = true }, nil),
			scene(5*time.Second, func(n *corev1.Node) {
				n.DeletionTimestamp, n.Finalizers = &metav1.Time{Time: noon}, []string{"example.com/wait"}
			}, nil)},
		{"it is being deleted", scene(5*time.Second, func(n *corev1.Node) {
			n.DeletionTimestamp, n.Finalizers = &metav1.Time{Time: noon}, []string{"example.com/wait"}
		}, nil), plain},
		{"it is being drained", scene(5*time.Second, func(n *corev1.Node) { n.Annotations[v1alpha1.AnnotationDraining] = "f" }, nil), plain},
		{"it has taint ", scene(5*time.Second, tainted("gpu"), nil), scene(5*time.Second, tainted(v1alpha1.TaintProbing), nil)},
		{"--probing is not Act", scene(5*time.Second, nil, func(p *Profiler) { p.Config.Mode = Observe }), plain},
		{"machine type %s: %s", newPlay(t, func(p *Profiler) { p.Config.Mode = Observe }, node("a", "xeon")).after(5 * time.Second), plain},

		// Probes.
		{"node %s is not probed: pod %s is on it", overtaken(t), plain},
		{"the pod of the probe left no report", without, partial},
		{"the report of the probe is invalid: %v", nonsense, partial},
		{"the report of the probe is incomplete", partial, nonsense},
		{"the probe on node %s failed: %s", empty, learnedText},

		// Models.
		{"status.models are replaced by what was learned: %s. Write your own models to spec.models", valid, nothing},
		{"they differ from the learned ones", valid, invalid},
		{"from %s%s and %s of finished pods%s", learnedText, nonsense},
		{"probed size", learnedText, nonsense},
		{" (energy measured)", from(learned{probes: 1}), from(learned{tasks: 1})},
		{" (energy of %d of them modelled)", from(learned{probes: 2, modelled: 1}), from(learned{probes: 2})},
		{", under the CPU governor ", from(learned{governed: governed{home: "x"}}), from(learned{})},
		{"; also under ", learnedUnder(), from(learned{governed: governed{home: "x"}})},
		{"; not under ", from(learned{governed: governed{home: "x", guessed: []string{"y"}}}), learnedUnder()},
		{", because no meter measured the energy", from(learned{governed: governed{home: "x", guessed: []string{"y"}}}), learnedUnder()},
		{"spec.models predict energy and runtime", specified, learnedText},
		{"status.models predict energy and runtime", learnedText, specified},
		{"the hardware of the machines has changed (%s): the learned models are discarded", changed("fedcba9876543210"), changed(print16)},
	}, map[string]string{
		"this is a dry run": "a dry run writes nothing",
		"Failed to read the certificate authority of node meters; the machine is probed without a meter": "a line of the log",
		"Failed to read the record of a machine type; it is learned again":                               "a line of the log",
		"Would probe": "a line of the log",
		"Probes of machine types, by result: started, succeeded, failed or cancelled.": "the help of a metric",
		"Refits of MachineProfiles.": "the help of a metric",
		"Typical relative error of a MachineProfile on sizes that it was not learned from.": "the help of a metric",
		"Samples that a MachineProfile was learned from.":                                   "the help of a metric",
	})
}

// after runs a profiler, and returns its Events.
func (p *play) after(d time.Duration) string {
	p.run(d)
	return p.said()
}

// overtaken is a node on which a pod comes first.
func overtaken(t *testing.T) string {
	t.Helper()
	p := newPlay(t, func(p *Profiler) { p.Client = cached{p.Client} }, node("a", "xeon"))
	p.run(5 * time.Second)
	testapi.Create(t, p.client, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: corev1.PodSpec{NodeName: "a", Containers: []corev1.Container{{Name: "c"}}}})
	p.run(5 * time.Second)
	return p.says("xeon")
}

// learnedUnder is the origin of models of two governors.
func learnedUnder() string {
	l := learned{governed: governed{home: "x"}}
	l.others = append(l.others, profile.Governed{Governor: "z"})
	return l.origin()
}
