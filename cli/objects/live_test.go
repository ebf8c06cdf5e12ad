package objects

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestAKindThatMayNotBeListedIsMissingUnlessItIsRequired(t *testing.T) {
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, metricsv1beta1.AddToScheme} {
		if err := add(kinds); err != nil {
			t.Fatal(err)
		}
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{lastApplied: "{}", "kept": "yes"}}}
	read := func(forbidden func(client.ObjectList) bool) (*Objects, error) {
		return Live(t.Context(), fake.NewClientBuilder().WithScheme(kinds).WithObjects(node).WithInterceptorFuncs(interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
				if forbidden(list) {
					return apierrors.NewForbidden(schema.GroupResource{Resource: "these"}, "", nil)
				}
				return c.List(ctx, list, o...)
			},
		}).Build())
	}
	o, err := read(func(list client.ObjectList) bool { _, is := list.(*policyv1.PodDisruptionBudgetList); return is })
	if err != nil || len(o.Nodes) != 1 || len(o.Missing) != 1 || o.Missing["PodDisruptionBudgets"] != "the user may not list them" {
		t.Fatalf("%+v, %v; want a node, and that budgets are missing", o, err)
	}
	if got := o.Nodes[0].Annotations; len(got) != 1 || got["kept"] != "yes" {
		t.Errorf("annotations %v, want those without the object itself", got)
	}
	for name, is := range map[string]func(client.ObjectList) bool{
		"Nodes": func(list client.ObjectList) bool { _, is := list.(*corev1.NodeList); return is },
		"Pods":  func(list client.ObjectList) bool { _, is := list.(*corev1.PodList); return is },
	} {
		if _, err := read(is); err == nil || !strings.Contains(err.Error(), "list "+name) {
			t.Errorf("without %s: %v, want an error", name, err)
		}
	}
}
