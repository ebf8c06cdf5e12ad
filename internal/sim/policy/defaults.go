package policy

import (
	"fmt"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/manifests"
)

// defaultFleet returns a NodeFleet as the API server completes one of which nothing is
// stated: with the defaults of its CustomResourceDefinition.
func defaultFleet() *v1alpha1.NodeFleetSpec { return defaults().Spec.DeepCopy() }

var defaults = sync.OnceValue(func() *v1alpha1.NodeFleet {
	fleet, err := readDefaults()
	if err != nil {
		panic(fmt.Sprintf("the embedded definition of NodeFleets: %v", err))
	}
	return fleet
})

func readDefaults() (*v1alpha1.NodeFleet, error) {
	text, err := manifests.CRDs.ReadFile("crd/supercargo.dev_nodefleets.yaml")
	if err != nil {
		return nil, err
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(text, &crd); err != nil {
		return nil, err
	}
	var props apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(crd.Spec.Versions[0].Schema.OpenAPIV3Schema, &props, nil); err != nil {
		return nil, err
	}
	structural, err := schema.NewStructural(&props)
	if err != nil {
		return nil, err
	}
	object := map[string]any{"spec": map[string]any{}}
	defaulting.Default(object, structural)
	var fleet v1alpha1.NodeFleet
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, &fleet); err != nil {
		return nil, fmt.Errorf("read the defaults: %w", err)
	}
	return &fleet, nil
}
