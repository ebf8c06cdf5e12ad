package explain

import (
	"context"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/energy/score"
	"supercargo.dev/supercargo/energy/tariff"
	"supercargo.dev/supercargo/internal/platform/kinds"
	"supercargo.dev/supercargo/test/fixtures"
)

// readCluster reads a cluster with a node and two pending pods whose DaemonSets may not be listed.
func readCluster(t *testing.T) *Cluster {
	t.Helper()
	scheme, err := kinds.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	objects := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, fixtures.Node("a", 2000, 8<<30), fixtures.Pod("mine", 100, 1<<20),
		fixtures.Pod("other", 100, 1<<20, func(p *corev1.Pod) { p.Namespace, p.UID = "elsewhere", "other" }),
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
			if _, is := list.(*appsv1.DaemonSetList); is {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "daemonsets"}, "", nil)
			}
			return c.List(ctx, list, o...)
		},
	}).Build()
	read, err := Read(t.Context(), c, noon)
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// TestWhatTheUserMayNotListIsNotSaidToBeMissing has a pod that asks to be moved with its state, one with a claim, and one
// of the system, and a user who may list nothing that these depend on.
func TestWhatTheUserMayNotListIsNotSaidToBeMissing(t *testing.T) {
	scheme, err := kinds.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	service := func(name string, change func(*corev1.Pod)) *corev1.Pod {
		return fixtures.Pod(name, 100, 1<<20, func(p *corev1.Pod) {
			p.Spec.NodeName, p.Status.Phase, p.UID = "a", corev1.PodRunning, types.UID(name)
			change(p)
		})
	}
	objects := []client.Object{
		fixtures.Node("a", 2000, 8<<30),
		service("stateful", func(p *corev1.Pod) {
			p.Annotations = map[string]string{v1alpha1.AnnotationMigration: v1alpha1.MigrationCheckpoint}
		}),
		service("claiming", func(p *corev1.Pod) {
			p.Annotations = map[string]string{v1alpha1.AnnotationMigration: v1alpha1.MigrationRestart}
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "s", Controller: new(true)}}
			p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
		}),
	}
	for _, tc := range []struct {
		may  bool
		want map[string]string // why a pod is not moved
	}{
		{true, map[string]string{"claiming": "volume claim data does not exist"}},
		{false, map[string]string{"stateful": "it is moved with its state only, and Migrations were not read", "claiming": "volume claim data was not read"}},
	} {
		c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
				switch list.(type) {
				case *v1alpha1.MigrationList, *corev1.PersistentVolumeClaimList:
					if !tc.may {
						return apierrors.NewForbidden(schema.GroupResource{Resource: "these"}, "", nil)
					}
				}
				return c.List(ctx, list, o...)
			},
		}).Build()
		read, err := Read(t.Context(), c, noon)
		if err != nil {
			t.Fatal(err)
		}
		why, err := read.Node("a")
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, p := range why.Pods {
			got[strings.TrimPrefix(p.Pod, "default/")] = p.Held
		}
		for pod, want := range tc.want {
			if got[pod] != want {
				t.Errorf("may list %t: pod %s stays because %q, want %q", tc.may, pod, got[pod], want)
			}
		}
	}
}

func TestPendingPodsAreThoseOfTheNamespaceOrOfAll(t *testing.T) {
	read := readCluster(t)
	for namespace, want := range map[string]int{"default": 1, "": 2, "nobody": 0} {
		if got := read.Pending(t.Context(), namespace).Pods; len(got) != want {
			t.Errorf("namespace %q: %d pods, want %d", namespace, len(got), want)
		}
	}
	if _, err := read.Node("b"); err == nil {
		t.Error("a node that does not exist is explained")
	}
	if why, err := read.Node("a"); err != nil || why.Node != "a" {
		t.Errorf("%+v, %v; want node a", why, err)
	}
}

// TestAPodOnANodeThatDoesNotExistIsListed has such pods of two namespaces, one of which is being deleted, and a node that joins
// after the nodes were listed.
func TestAPodOnANodeThatDoesNotExistIsListed(t *testing.T) {
	bound := func(namespace, name, node string, change ...func(*corev1.Pod)) *corev1.Pod {
		return fixtures.Pod(name, 100, 1<<20, append(change, func(p *corev1.Pod) {
			p.Namespace, p.UID, p.Spec.NodeName = namespace, types.UID(namespace+name), node
		})...)
	}
	runs := func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }
	read := clusterOf(t, nil,
		bound("default", "there", "a", runs), bound("default", "lost", "gone", runs), bound("jobs", "leaving", "gone", deleted), bound("jobs", "ended", "gone", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
		bound("jobs", "early", "joins"))
	if err := read.client.Create(t.Context(), fixtures.Node("joins", 1000, 1<<30)); err != nil {
		t.Fatal(err)
	}
	for namespace, want := range map[string]string{
		"default": `No pod without a node in namespace default.

Pods on a node that does not exist: no kubelet runs them, and kube-controller-manager deletes such pods.
POD           NODE  STATUS
default/lost  gone  Running
`,
		"jobs": `No pod without a node in namespace jobs.

Pods on a node that does not exist: no kubelet runs them, and kube-controller-manager deletes such pods.
POD           NODE  STATUS
jobs/leaving  gone  Terminating
`,
		"": `No pod without a node in any namespace.

Pods on a node that does not exist: no kubelet runs them, and kube-controller-manager deletes such pods.
POD           NODE  STATUS
default/lost  gone  Running
jobs/leaving  gone  Terminating
`,
		"nobody": "No pod without a node in namespace nobody.\n",
	} {
		if got := printed(t, read.Pending(t.Context(), namespace).Write); got != want {
			t.Errorf("namespace %q: it says\n%s\nwant\n%s", namespace, got, want)
		}
	}
}

func TestTheEnergyOfAPodIsThatOnEachNodeIfThereIsAProfileOrItIsAskedFor(t *testing.T) {
	read, pod := readCluster(t), fixtures.Pod("mine", 100, 1<<20)
	o := EnergyOptions{Weight: score.DefaultWeight, Tariff: func() (t tariff.Tariff, unit tariff.Unit, err error) { return t, unit, nil }}
	if e, err := read.Energy(t.Context(), pod, o); err != nil || e != nil {
		t.Errorf("without profiles: %+v, %v; want nothing", e, err)
	}
	o.Always = true
	if e, err := read.Energy(t.Context(), pod, o); err != nil || len(e.Nodes) != 1 || e.Nodes[0].Node != "a" {
		t.Errorf("%+v, %v; want node a", e, err)
	}
}

// TestAPodIsExplainedAsItsKarpenterFleetSeesIt: what the fleet offers is read as the autoscaler reads it, with the NodePools that
// fit the pod, too.
func TestAPodIsExplainedAsItsKarpenterFleetSeesIt(t *testing.T) {
	for _, tc := range []struct {
		name        string
		pool        bool
		refuses     string // a kind that may not be listed
		doing, says string
		unread      string
	}{
		{"a NodePool fits it", true, "", Leaves, "NodePool web fits it, too, and may buy one. For the fleet, set the pods' nodeSelector supercargo.dev/fleet: f.", ""},
		{"there is no NodePool", false, "", Nothing, "the fleet has recorded no decision yet", ""},
		{"NodePools may not be listed", true, "NodePoolList", Nothing, "", "the user may not list NodeClaims and NodePools."},
		{"NodeClaims may not be listed", true, "NodeClaimList", Nothing, "", "the user may not list NodeClaims and NodePools."},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := karpenterCluster(t, tc.pool, tc.refuses)
			read, err := Read(t.Context(), c, noon)
			if err != nil {
				t.Fatal(err)
			}
			var pod corev1.Pod
			if err := c.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "p"}, &pod); err != nil {
				t.Fatal(err)
			}
			got := read.Pod(t.Context(), &pod).Pending.Fleets[0]
			if got.Doing != tc.doing || !strings.Contains(got.Because, tc.says) || !strings.HasSuffix(got.Note, tc.unread) || (got.Note == "") != (tc.unread == "") {
				t.Errorf("%+v\nwant %s: …%s…, %q", got, tc.doing, tc.says, tc.unread)
			}
			if len(got.Flavors) != 1 && tc.unread == "" {
				t.Errorf("flavors %+v, want small", got.Flavors)
			}
		})
	}
}

// karpenterCluster has a fleet with one instance type, and a pod that fits it.
func karpenterCluster(t *testing.T, pool bool, refuses string) client.WithWatch {
	t.Helper()
	scheme, err := kinds.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	karpenter := schema.GroupVersion{Group: "karpenter.sh", Version: "v1"}
	classes := schema.GroupVersion{Group: "karpenter.kwok.sh", Version: "v1alpha1"}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{karpenter, classes})
	for _, kind := range []schema.GroupVersionKind{karpenter.WithKind("NodeClaim"), karpenter.WithKind("NodePool"), classes.WithKind("KWOKNodeClass")} {
		scheme.AddKnownTypeWithName(kind, &unstructured.Unstructured{})
		scheme.AddKnownTypeWithName(kind.GroupVersion().WithKind(kind.Kind+"List"), &unstructured.UnstructuredList{})
		mapper.Add(kind, meta.RESTScopeRoot)
	}
	of := func(kind schema.GroupVersionKind, name string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{}}
		u.SetGroupVersionKind(kind)
		u.SetName(name)
		return u
	}
	f := &v1alpha1.NodeFleet{ObjectMeta: metav1.ObjectMeta{Name: "f", UID: "f"}, Spec: v1alpha1.NodeFleetSpec{
		Provider: v1alpha1.FleetKarpenter, Class: v1alpha1.FleetAny, Mode: v1alpha1.FleetAct,
		Karpenter: &v1alpha1.KarpenterNodes{NodeClassRef: v1alpha1.KarpenterNodeClass{Group: classes.Group, Kind: "KWOKNodeClass", Name: "all"}},
		Pricing:   v1alpha1.FleetPricing{Catalogue: &v1alpha1.PriceCatalogue{Namespace: "default", Name: "prices", Key: "flavors.csv"}},
	}}
	f.Status.Conditions = []metav1.Condition{{Type: v1alpha1.FleetReady, Status: metav1.ConditionTrue, Reason: v1alpha1.FleetReasonReconciled}}
	objects := []client.Object{
		f, of(classes.WithKind("KWOKNodeClass"), "all"), fixtures.Pod("p", 1000, 1<<30, unschedulable),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "prices"}, Data: map[string]string{"flavors.csv": "name,cpu,memory_gib,price_per_hour\nsmall,2,4,0.10\n"}},
	}
	if pool {
		objects = append(objects, of(karpenter.WithKind("NodePool"), "web"))
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(mapper).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
			if u, is := list.(*unstructured.UnstructuredList); is && refuses != "" && u.GetKind() == refuses {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "these"}, "", nil)
			}
			return c.List(ctx, list, o...)
		},
	}).Build()
}
