package explain

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"supercargo.dev/supercargo/energy/score"
	"supercargo.dev/supercargo/energy/tariff"
	"supercargo.dev/supercargo/internal/platform/operator"
	"supercargo.dev/supercargo/test/fixtures"
)

// readCluster reads a cluster with a node and two pending pods whose DaemonSets may not be listed.
func readCluster(t *testing.T) *Cluster {
	t.Helper()
	scheme, err := operator.Kinds()
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
