package world

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/movable/capability"
	"supercargo.dev/supercargo/internal/runtimes"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// ableNode returns a ready node with an agent that moves containers.
func ableNode(name string) *corev1.Node {
	text := capability.Node{Backends: []v1alpha1.MigrationBackend{v1alpha1.BackendSimulated}, Arch: "amd64", Restore: true}.Encode()
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{v1alpha1.AnnotationCapability: text}},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

// scene returns two able nodes and a pod of a Job on the first.
func scene() (*World, *corev1.Pod) {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "j", UID: "job"}, Spec: batchv1.JobSpec{PodReplacementPolicy: new(batchv1.Failed)}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "p", UID: "pod", Labels: map[string]string{"app": "x"}, Annotations: map[string]string{},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "j", UID: "job", Controller: new(true)}},
		},
		Spec:   corev1.PodSpec{NodeName: "a", RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, StartTime: new(metav1.NewTime(noon.Add(-time.Minute)))},
	}
	return &World{
		Nodes: map[string]*corev1.Node{"a": ableNode("a"), "b": ableNode("b")}, Namespaces: map[string]map[string]string{"default": {}},
		Jobs: byName([]batchv1.Job{*job}), migrates: true,
	}, pod
}

func TestPodsLeaveAsTheySayThatTheyMay(t *testing.T) {
	const safe, disrupt, migration, runtime = annotationSafeToEvict, annotationDoNotDisrupt, v1alpha1.AnnotationMigration, v1alpha1.AnnotationRuntime
	wait, migrate, evict := cluster.WaysOf(cluster.Wait), cluster.WaysOf(cluster.Migrate), cluster.WaysOf(cluster.Evict)
	tests := []struct {
		name        string
		annotations map[string]string
		change      func(w *World, pod *corev1.Pod)
		want        cluster.Ways
		held        string
	}{
		{"nothing is said", nil, nil, 0, "does not opt in"},
		{"it may be restarted", map[string]string{migration: "restart"}, nil, evict, ""},
		{"it was moved with its state before", map[string]string{migration: "checkpoint", v1alpha1.AnnotationMigrationName: "m"}, nil, migrate, ""},
		{"it is to be moved with its state", map[string]string{migration: "checkpoint"}, nil, migrate, ""},
		{"never", map[string]string{migration: "never"}, nil, 0, "never"},
		{"never, but it ends", map[string]string{migration: "never", runtime: "5m"}, nil, wait, "never"},
		{"it ends, and may be restarted", map[string]string{migration: "restart", runtime: "5m"}, nil, wait | evict, ""},
		{"a runtime that is none is not known", map[string]string{migration: "restart", runtime: "soon"}, nil, evict, ""},
		{"a service does not end", map[string]string{migration: "restart", runtime: "5m"}, func(_ *World, p *corev1.Pod) {
			p.Labels[v1alpha1.LabelClass] = "service"
		}, evict, ""},
		{"it is safe to evict", map[string]string{safe: "true"}, nil, evict, ""},
		{"it is not", map[string]string{safe: "false"}, nil, 0, safe},
		{"not safe wins", map[string]string{safe: "false", migration: "restart"}, nil, 0, safe},
		{"not safe wins over a checkpoint", map[string]string{safe: "false", migration: "checkpoint"}, nil, 0, safe},
		{"do not disrupt wins", map[string]string{disrupt: "true", safe: "true", migration: "restart"}, nil, 0, disrupt},
		{"disrupt as you like says nothing", map[string]string{disrupt: "false"}, nil, 0, "does not opt in"},
		{"nobody would start it again", map[string]string{migration: "restart", safe: "true"}, func(_ *World, p *corev1.Pod) { p.OwnerReferences = nil }, 0, "no controller"},
		{"a bare pod is moved with its state", map[string]string{migration: "checkpoint"}, func(_ *World, p *corev1.Pod) { p.OwnerReferences = nil }, migrate, ""},
		{"one that cannot be moved", map[string]string{migration: "checkpoint"}, func(_ *World, p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}}}}
		}, 0, "may stay on the node"},
		{"its Job counts it as failed", map[string]string{migration: "checkpoint"}, func(w *World, _ *corev1.Pod) {
			w.Jobs["default/j"].Spec.PodReplacementPolicy = nil
		}, 0, "podReplacementPolicy"},
		{"a Service sends requests to it", map[string]string{migration: "checkpoint"}, func(w *World, _ *corev1.Pod) {
			w.Services = servicesByNamespace([]corev1.Service{{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "x"}},
			}})
		}, 0, "Service s"},
		{"there is no other node", map[string]string{migration: "checkpoint"}, func(w *World, _ *corev1.Pod) { delete(w.Nodes, "b") }, 0, "no other node"},
		{"the other node is cordoned", map[string]string{migration: "checkpoint"}, func(w *World, _ *corev1.Pod) { w.Nodes["b"].Spec.Unschedulable = true }, 0, "no other node"},
		{"its own is closed", map[string]string{migration: "checkpoint"}, func(w *World, _ *corev1.Pod) { w.Nodes["a"].Spec.Unschedulable = true }, migrate, ""},
		{"nobody moves pods", map[string]string{migration: "checkpoint"}, func(w *World, _ *corev1.Pod) { w.migrates = false }, 0, "not installed"},
		{"somebody moves it already", map[string]string{migration: "checkpoint", runtime: "5m"}, func(w *World, p *corev1.Pod) {
			w.Migrations = []v1alpha1.Migration{{Status: v1alpha1.MigrationStatus{Plan: &v1alpha1.MigrationPlan{PodUID: string(p.UID)}}}}
		}, 0, "being moved"},
		{"it is the new pod of a move", map[string]string{migration: "checkpoint"}, func(_ *World, p *corev1.Pod) {
			p.Labels[v1alpha1.LabelMigration] = "uid"
		}, 0, "being moved"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			w, pod := scene()
			for k, v := range tc.annotations {
				pod.Annotations[k] = v
			}
			if tc.change != nil {
				tc.change(w, pod)
			}
			got := NewView(w, noon, runtimes.NewLearner()).Exit(pod)
			if got.Ways != tc.want || !strings.Contains(got.Held, tc.held) || (got.Held == "") != (tc.held == "") {
				t.Errorf("it may leave by %v (%q), want %v (%q)", got.Ways, got.Held, tc.want, tc.held)
			}
		})
	}
}

func TestARuntimeThatWasLearnedIsKnown(t *testing.T) {
	w, pod := scene()
	pod.Annotations[v1alpha1.AnnotationCategory] = "render"
	learned := runtimes.NewLearner()
	learned.Observe("default", "render", time.Hour)
	if got := NewView(w, noon, learned).Exit(pod); got.Ways != cluster.WaysOf(cluster.Wait) {
		t.Errorf("it may leave by %v, want to wait for it", got.Ways)
	}
}

func TestOfManyNodesFewAreChecked(t *testing.T) {
	w, pod := scene()
	for _, name := range []string{"c", "d", "e", "f"} {
		w.Nodes[name] = ableNode(name)
	}
	pod.Annotations[v1alpha1.AnnotationMigration] = v1alpha1.MigrationCheckpoint
	pod.Spec.NodeName = "f"
	v := NewView(w, noon, runtimes.NewLearner())
	if peers := v.peersOf("f"); len(peers) != 3 || peers["f"] == nil {
		t.Errorf("%d nodes are checked, want its own and two others", len(peers))
	}
	if got := v.Exit(pod).Ways; got != cluster.WaysOf(cluster.Migrate) {
		t.Errorf("it may leave by %v", got)
	}
}

func TestBudgetsThatAreSpentKeepPods(t *testing.T) {
	budget := func(namespace string, allowed int32, selector *metav1.LabelSelector) policyv1.PodDisruptionBudget {
		return policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "b"}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: selector},
			Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
		}
	}
	ours := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}
	tests := []struct {
		name    string
		budgets []policyv1.PodDisruptionBudget
		held    bool
	}{
		{"none", nil, false},
		{"spent", []policyv1.PodDisruptionBudget{budget("default", 0, ours)}, true},
		{"not spent", []policyv1.PodDisruptionBudget{budget("default", 1, ours)}, false},
		{"one of two is spent", []policyv1.PodDisruptionBudget{budget("default", 1, ours), budget("default", 0, ours)}, true},
		{"of others", []policyv1.PodDisruptionBudget{budget("default", 0, &metav1.LabelSelector{MatchLabels: map[string]string{"app": "y"}})}, false},
		{"of another namespace", []policyv1.PodDisruptionBudget{budget("elsewhere", 0, ours)}, false},
		{"an empty selector is for all", []policyv1.PodDisruptionBudget{budget("default", 0, &metav1.LabelSelector{})}, true},
		{"no selector is for none", []policyv1.PodDisruptionBudget{budget("default", 0, nil)}, false},
		{"one that cannot be read is for none, as in the eviction API", []policyv1.PodDisruptionBudget{budget("default", 0, &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Odd"}},
		})}, false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			w, pod := scene()
			w.Budgets = tc.budgets
			pod.Annotations[v1alpha1.AnnotationMigration], pod.Annotations[v1alpha1.AnnotationRuntime] = v1alpha1.MigrationRestart, "5m"
			got := NewView(w, noon, runtimes.NewLearner()).Exit(pod)
			if !got.Ways.Has(cluster.Evict) || got.Now().Has(cluster.Evict) == tc.held || !got.Now().Has(cluster.Wait) {
				t.Errorf("it may leave by %v, now by %v (%q)", got.Ways, got.Now(), got.Budget)
			}
		})
	}
}

// TestABudgetHoldsAPodIfTheEvictionAPIWouldRefuseIt covers what budgets say about one pod beside the number of
// disruptions that they allow.
func TestABudgetHoldsAPodIfTheEvictionAPIWouldRefuseIt(t *testing.T) {
	unready := func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
	}
	ready := func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	always := func(b *policyv1.PodDisruptionBudget) { b.Spec.UnhealthyPodEvictionPolicy = new(policyv1.AlwaysAllow) }
	for _, tc := range []struct {
		name   string
		pod    func(*corev1.Pod)
		budget func(*policyv1.PodDisruptionBudget)
		held   bool
	}{
		{"a crashing pod", unready, func(*policyv1.PodDisruptionBudget) {}, true},
		{"a crashing pod that may always go", unready, always, false},
		{"a ready pod beside pods that may always go", ready, always, true},
		{"a crashing pod beside enough healthy ones", unready, func(b *policyv1.PodDisruptionBudget) { b.Status.DesiredHealthy, b.Status.CurrentHealthy = 1, 1 }, false},
		{"a pod that has not started", func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, func(*policyv1.PodDisruptionBudget) {}, false},
		{"a pod whose eviction was granted", ready, func(b *policyv1.PodDisruptionBudget) {
			b.Status.DisruptedPods = map[string]metav1.Time{"p": metav1.NewTime(noon.Add(-time.Second))}
		}, false},
		{"a budget that has changed and was not checked", ready, func(b *policyv1.PodDisruptionBudget) { b.Generation, b.Status.DisruptionsAllowed = 2, 1 }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, pod := scene()
			pod.Annotations[v1alpha1.AnnotationMigration] = v1alpha1.MigrationRestart
			tc.pod(pod)
			budget := policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "b"}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}}}
			tc.budget(&budget)
			w.Budgets = []policyv1.PodDisruptionBudget{budget}
			v := NewView(w, noon, runtimes.NewLearner())
			if got := v.Exit(pod); got.Now().Has(cluster.Evict) == tc.held {
				t.Errorf("it may leave now by %v (%q)", got.Now(), got.Budget)
			}
			if holds := v.Holds(pod); (len(holds) > 0) != tc.held {
				t.Errorf("it is held by %+v", holds)
			}
		})
	}
}

func TestPodsThatMigrationsHaveMadeAreNobodysToBuyFor(t *testing.T) {
	w, pod := scene()
	pod.Spec.NodeName, pod.Status.Phase = "", corev1.PodPending
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	other := pod.DeepCopy()
	other.Name, other.UID, other.Labels[v1alpha1.LabelMigration] = "restored", types.UID("restored"), "uid"
	w.Pods = []*corev1.Pod{pod, other}
	if waiting := NewView(w, noon, runtimes.NewLearner()).Waiting("any"); len(waiting) != 1 || waiting[0].Name != "default/p" {
		t.Errorf("%v wait", waiting)
	}
}

// TestTheAdviceAboutABudgetNamesTheFieldThatItSets checks that no other field is named.
func TestTheAdviceAboutABudgetNamesTheFieldThatItSets(t *testing.T) {
	value := func(text string) *intstr.IntOrString { v := intstr.Parse(text); return &v }
	for _, tc := range []struct {
		name   string
		budget policyv1.PodDisruptionBudget
		want   string
	}{
		{"maxUnavailable 0", policyv1.PodDisruptionBudget{Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: value("0")}}, "a higher maxUnavailable: 0 never allows a disruption"},
		{"maxUnavailable 0%", policyv1.PodDisruptionBudget{Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: value("0%")}}, "a higher maxUnavailable: 0% never allows a disruption"},
		{"maxUnavailable 1", policyv1.PodDisruptionBudget{Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: value("1")}}, "that all of its pods become ready, or a higher maxUnavailable"},
		{"minAvailable 2", policyv1.PodDisruptionBudget{Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: value("2")}}, "more replicas that are ready, or a lower minAvailable"},
		{"minAvailable 100%", policyv1.PodDisruptionBudget{Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: value("100%")}}, "a lower minAvailable: 100% never allows a disruption"},
		{"neither", policyv1.PodDisruptionBudget{}, "a value for its minAvailable or maxUnavailable"},
		{"one that cannot be computed", policyv1.PodDisruptionBudget{Status: policyv1.PodDisruptionBudgetStatus{Conditions: []metav1.Condition{{
			Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policyv1.SyncFailedReason, Message: "jobs.batch does not implement the scale subresource",
		}}}}, "what the budget's condition DisruptionAllowed asks for: jobs.batch does not implement the scale subresource"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := budgetAdvice(&tc.budget); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
