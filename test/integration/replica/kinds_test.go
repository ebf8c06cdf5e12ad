package replica

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/app"
)

// scalable returns the definition of a kind with the scale subresource, as Argo's Rollouts have.
func scalable(group, kind string) *apiextensionsv1.CustomResourceDefinition {
	plural, open := strings.ToLower(kind)+"s", true
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: strings.ToLower(kind), Kind: kind, ListKind: kind + "List"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &open}},
				Subresources: &apiextensionsv1.CustomResourceSubresources{
					Scale: &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas", LabelSelectorPath: new(".status.selector")},
				},
			}},
		},
	}
}

func TestAKindMayBeInstalledAfterTheAutoscalerHasStarted(t *testing.T) {
	t.Parallel()
	b := newBench(t, "kinds")
	const group, kind = "later.example.com", "Rollout"
	b.autoscale(func(o *app.Options) { o.ScaleKinds = []string{"deployments.apps", "rollouts." + group} })
	b.policy("web", func(s *v1alpha1.ReplicaPolicySpec) {
		s.Target = v1alpha1.ReplicaTarget{APIVersion: group + "/v1", Kind: kind, Name: "web"}
	})
	b.condition("web", v1alpha1.PolicyReady, metav1.ConditionFalse, v1alpha1.PolicyReasonKindNotAllowed)

	b.Make(scalable(group, kind))
	b.condition("web", v1alpha1.PolicyReady, metav1.ConditionFalse, v1alpha1.PolicyReasonTargetNotFound)

	b.Make(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/v1", "kind": kind, "metadata": map[string]any{"namespace": b.Space, "name": "web"},
		"spec": map[string]any{"replicas": int64(12)}, "status": map[string]any{"replicas": int64(12), "selector": "app=web"},
	}})
	// The watch of the new kind reports it: without one, the policy would be evaluated again only after a minute.
	b.condition("web", v1alpha1.PolicyReady, metav1.ConditionTrue, "Active")
}
