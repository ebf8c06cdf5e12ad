package world

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/runtimes"
)

// served returns two able nodes and a pod of a Deployment on the first.
func served() (*World, *corev1.Pod) {
	w, pod := scene()
	set := appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "set"}}
	w.ReplicaSets = byName([]appsv1.ReplicaSet{set})
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "set", Controller: new(true)}}
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	return w, pod
}

func emptyDir(name string, medium corev1.StorageMedium) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: medium}}}
}

// budgetFor returns a PodDisruptionBudget for pods with label app: NAME.
func budgetFor(namespace, name string, allowed int32) policyv1.PodDisruptionBudget {
	return policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "budget"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
	}
}

func TestPodsOfServicesLeaveAsTheOwnerOfTheNodeLetsThem(t *testing.T) {
	const (
		never, in, out           = v1alpha1.EvictServicesNever, v1alpha1.EvictServicesOptIn, v1alpha1.EvictServicesOptOut
		safe, disrupt, migration = annotationSafeToEvict, annotationDoNotDisrupt, v1alpha1.AnnotationMigration
	)
	says := func(key, value string) func(*World, *corev1.Pod) {
		return func(_ *World, p *corev1.Pod) { p.Annotations[key] = value }
	}
	has := func(volumes ...corev1.Volume) func(*World, *corev1.Pod) {
		return func(_ *World, p *corev1.Pod) { p.Spec.Volumes = volumes }
	}
	inSystem := func(budgets ...policyv1.PodDisruptionBudget) func(*World, *corev1.Pod) {
		return func(w *World, p *corev1.Pod) { p.Namespace, w.Budgets = "kube-system", budgets }
	}
	both := func(all ...func(*World, *corev1.Pod)) func(*World, *corev1.Pod) {
		return func(w *World, p *corev1.Pod) {
			for _, change := range all {
				change(w, p)
			}
		}
	}
	started := func(ago time.Duration) func(*World, *corev1.Pod) {
		return func(_ *World, p *corev1.Pod) { p.Status.StartTime = new(metav1.NewTime(noon.Add(-ago))) }
	}
	notStarted := func(_ *World, p *corev1.Pod) { p.Status.StartTime = nil }
	bare := func(_ *World, p *corev1.Pod) { p.OwnerReferences = nil }
	batch := func(_ *World, p *corev1.Pod) { p.Labels[v1alpha1.LabelClass] = "batch" }
	elsewhere := func(_ *World, p *corev1.Pod) { p.Spec.NodeName = "b" }
	hostPath := corev1.Volume{Name: "disk", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/var/x"}}}
	const evict, migrate, stays = cluster.Evict, cluster.Migrate, cluster.Wait
	for _, tc := range []struct {
		name   string
		which  v1alpha1.ServiceEviction
		change func(*World, *corev1.Pod)
		want   cluster.Method // Wait: it stays
		held   string
	}{
		{"nothing is said", out, nil, evict, ""},
		{"nothing is said, and it must opt in", in, nil, stays, "does not opt in to being moved with annotation supercargo.dev/migration"},
		{"nothing is said, and services never leave", never, nil, stays, "spec.consolidation.evictServices of the NodeFleet is Never"},
		{"nothing is said, on a node of which nothing is", "", nil, stays, "does not opt in"},
		{"nothing is said, on another node", out, elsewhere, stays, "does not opt in"},
		{"it may be restarted", in, says(migration, "restart"), evict, ""},
		{"it is safe to evict", in, says(safe, "true"), evict, ""},
		{"it may be restarted, on a node of which nothing is said", "", says(migration, "restart"), evict, ""},
		{"it may be restarted, and services never leave", never, says(migration, "restart"), stays, "evictServices"},
		{"it is to be moved with its state", out, says(migration, "checkpoint"), migrate, ""},
		{"it is to be moved with its state, and services never leave", never, says(migration, "checkpoint"), stays, "evictServices"},
		{"never", out, says(migration, "never"), stays, "supercargo.dev/migration: never"},
		{"it is not safe to evict", out, says(safe, "false"), stays, "safe-to-evict: false"},
		{"it must not be disrupted", out, says(disrupt, "true"), stays, "karpenter.sh/do-not-disrupt: true"},
		{"it may be disrupted", out, says(disrupt, "false"), evict, ""},
		{"it must not be disrupted for a while", out, both(started(5*time.Minute-time.Second), says(disrupt, "5m")), stays, "karpenter.sh/do-not-disrupt: 5m, and started 4m59s ago"},
		{"it must not be disrupted until now", out, both(started(5*time.Minute), says(disrupt, "5m")), evict, ""},
		{"it must not be disrupted for a while from its start, which has yet to come", out, both(notStarted, says(disrupt, "5m")), stays, "karpenter.sh/do-not-disrupt: 5m"},
		{"it must not be disrupted for what nobody can read", out, says(disrupt, "5 minutes"), stays, `karpenter.sh/do-not-disrupt: 5 minutes, which must be true, false or a duration such as 5m`},
		{"it says nothing of whether it may be disrupted", out, says(disrupt, ""), evict, ""},
		{"nobody would start it again", out, bare, stays, "no controller"},
		{"nobody would start it again, safe or not", out, both(bare, says(safe, "true")), stays, "no controller"},
		{"a batch pod says for itself", out, batch, stays, "does not opt in"},
		{"a batch pod where services never leave", never, both(batch, says(migration, "restart")), evict, ""},
		{"data on the node's disk", out, has(emptyDir("scratch", "")), stays, "local volume scratch"},
		{"data in memory", out, has(emptyDir("scratch", corev1.StorageMediumMemory)), evict, ""},
		{"a path of the node", out, has(hostPath), stays, "local volume disk"},
		{"data that may be lost", out, both(has(emptyDir("a", ""), hostPath), says(annotationLocalVolumes, "disk,a")), evict, ""},
		{"data of which some may be lost", out, both(has(emptyDir("a", ""), hostPath), says(annotationLocalVolumes, "a")), stays, "local volume disk"},
		{"data, and it is safe to evict", out, both(has(emptyDir("a", "")), says(safe, "true")), evict, ""},
		{"data, and it may be restarted", out, both(has(emptyDir("a", "")), says(migration, "restart")), evict, ""},
		{"of the system, without a budget", out, inSystem(), stays, "namespace kube-system"},
		{"of the system, with a budget of others", out, inSystem(budgetFor("kube-system", "y", 1), budgetFor("default", "x", 1)), stays, "namespace kube-system"},
		{"of the system, with a budget", out, inSystem(budgetFor("kube-system", "x", 1)), evict, ""},
		{"of the system, and it is safe to evict", out, both(inSystem(), says(safe, "true")), evict, ""},
		{"it requests a GPU", out, known(requests("nvidia.com/gpu", "1")), evict, ""},
		{"it requests what plans do not consider", out, besideGPUs(requests("example.com/nic", "1")), stays, "example.com/nic"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, pod := served()
			if tc.change != nil {
				tc.change(w, pod)
			}
			v := NewView(w, noon, runtimes.NewLearner())
			v.EvictServices("a", tc.which)
			want := cluster.WaysOf(tc.want).Without(cluster.Wait)
			if got := v.Exit(pod); got.Ways != want || !strings.Contains(got.Held, tc.held) || (got.Held == "") != (tc.held == "") {
				t.Errorf("it may leave by %v (%q), want %v (%q)", got.Ways, got.Held, want, tc.held)
			}
		})
	}
}

func TestASpentBudgetKeepsAPodOfAServiceForNow(t *testing.T) {
	w, pod := served()
	w.Budgets = []policyv1.PodDisruptionBudget{budgetFor("default", "x", 0)}
	v := NewView(w, noon, runtimes.NewLearner())
	v.EvictServices("a", v1alpha1.EvictServicesOptOut)
	got := v.Exit(pod)
	if !got.Ways.Has(cluster.Evict) || got.Now() != 0 || !strings.Contains(got.Budget, "PodDisruptionBudget budget") {
		t.Errorf("it may leave by %v, now by %v (%q); want that it is held for now", got.Ways, got.Now(), got.Budget)
	}
}

// TestAPodOfTwoBudgetsIsNotEvicted covers budgets that each allow a disruption: the eviction API answers 500 to any
// eviction of a pod that several budgets select.
func TestAPodOfTwoBudgetsIsNotEvicted(t *testing.T) {
	named := func(name string, allowed int32) policyv1.PodDisruptionBudget {
		b := budgetFor("default", "x", allowed)
		b.Name = name
		return b
	}
	two := []policyv1.PodDisruptionBudget{named("web-b", 1), named("web-a", 2)}
	const shared = "several PodDisruptionBudgets"
	for _, tc := range []struct {
		name    string
		budgets []policyv1.PodDisruptionBudget
		change  func(*World, *corev1.Pod)
		want    cluster.Method // Wait: it stays
		holds   []string
		ways    []cluster.Ways // without each hold
	}{
		{"one", two[:1], nil, cluster.Evict, nil, nil},
		{"two", two, nil, cluster.Wait, []string{shared, Anything}, []cluster.Ways{cluster.WaysOf(cluster.Evict), cluster.WaysOf(cluster.Evict)}},
		{
			"two, of which one allows no disruption", []policyv1.PodDisruptionBudget{named("web-a", 0), named("web-b", 1)}, nil, cluster.Wait,
			[]string{"PodDisruptionBudget that allows no disruption", shared, Anything}, []cluster.Ways{0, 0, cluster.WaysOf(cluster.Evict)},
		},
		{"two, one of other pods", []policyv1.PodDisruptionBudget{named("web-a", 1), budgetFor("default", "y", 1)}, nil, cluster.Evict, nil, nil},
		{"two, and it has not started", two, func(_ *World, p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, cluster.Evict, nil, nil},
		{"two, and a Migration moves it", two, func(_ *World, p *corev1.Pod) { p.Annotations[v1alpha1.AnnotationMigration] = "checkpoint" }, cluster.Migrate, nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, pod := served()
			w.Budgets = tc.budgets
			if tc.change != nil {
				tc.change(w, pod)
			}
			v := NewView(w, noon, runtimes.NewLearner())
			v.EvictServices("a", v1alpha1.EvictServicesOptOut)
			got := v.Exit(pod)
			if want := cluster.WaysOf(tc.want).Without(cluster.Wait); got.Now() != want {
				t.Errorf("it may leave now by %v (%q), want %v", got.Now(), got.Budget, want)
			}
			if tc.name == "two" && got.Budget != "it has 2 PodDisruptionBudgets (web-a, web-b), and the API server refuses to evict such a pod" {
				t.Errorf("it is held by %q", got.Budget)
			}
			var holds []string
			var ways []cluster.Ways
			for _, h := range v.Holds(pod) {
				holds, ways = append(holds, h.Kind), append(ways, h.Ways)
			}
			if !slices.Equal(holds, tc.holds) || !slices.Equal(ways, tc.ways) {
				t.Errorf("holds %q, without which it may leave by %v; want %q, %v", holds, ways, tc.holds, tc.ways)
			}
		})
	}
}
