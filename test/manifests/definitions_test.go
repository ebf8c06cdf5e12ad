package manifests

import (
	"io/fs"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"

	"supercargo.dev/supercargo/manifests"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// TestDefinitionsAreAcceptedByTheAPIServer validates CustomResourceDefinitions as the API server does at
// creation, including the cost limits of rules.
func TestDefinitionsAreAcceptedByTheAPIServer(t *testing.T) {
	files, err := fs.Glob(manifests.CRDs, "crd/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		text, err := manifests.CRDs.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		testfile.StrictYAML(t, text, &crd)
		apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(&crd)
		var internal apiextensions.CustomResourceDefinition
		if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(&crd, &internal, nil); err != nil {
			t.Fatal(err)
		}
		for _, version := range crd.Spec.Versions { // as creation does
			if version.Storage {
				internal.Status.StoredVersions = []string{version.Name}
			}
		}
		for _, fault := range validation.ValidateCustomResourceDefinition(t.Context(), &internal) {
			t.Errorf("%s: %v", file, fault)
		}
	}
}
