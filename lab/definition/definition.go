// Package definition applies the defaults of CustomResourceDefinitions to objects of Supercargo's
// kinds, as the API server does. A decision that is replayed outside a cluster so starts from the
// same settings as an installation.
package definition

import (
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"supercargo.dev/supercargo/manifests"
)

// Complete sets every absent field of stated that has a default, and stores the result in object, a
// pointer to the Go type of the kind. plural is the resource name of the kind, such as
// "workerpools". Complete modifies stated and does not validate.
//
// It returns an error if there is no such kind, or if stated does not match the kind's fields.
func Complete(plural string, stated map[string]any, object any) error {
	structural, err := schemaOf(plural)
	if err != nil {
		return fmt.Errorf("read the definition of %s: %w", plural, err)
	}
	defaulting.Default(stated, structural)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(stated, object); err != nil {
		return fmt.Errorf("complete one of %s: %w", plural, err)
	}
	return nil
}

// schemaOf reads the schema of the kind's only version.
func schemaOf(plural string) (*schema.Structural, error) {
	text, err := manifests.CRDs.ReadFile("crd/supercargo.dev_" + plural + ".yaml")
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
	return schema.NewStructural(&props)
}
