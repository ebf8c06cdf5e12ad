package manifests

import (
	"bytes"
	"compress/gzip"
	"io"
	"path/filepath"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"supercargo.dev/supercargo/test/kit/testfile"
)

// TestTheAutoscalerMayReadTheNodeClassesOfEveryProvider compares the role with the definitions that providers publish.
func TestTheAutoscalerMayReadTheNodeClassesOfEveryProvider(t *testing.T) {
	files, err := filepath.Glob("../data/karpenter/*/nodeclasses.yaml.gz")
	if err != nil || len(files) != 3 {
		t.Fatalf("%q, %v: want three definitions", files, err)
	}
	for _, file := range files {
		unpacked, err := gzip.NewReader(bytes.NewReader(testfile.Read(t, file)))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(unpacked)
		if err != nil {
			t.Fatal(err)
		}
		var kind apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(text, &kind); err != nil {
			t.Fatal(err)
		}
		reads := false
		for _, object := range objects(t, "../../manifests/karpenter/rbac.yaml") {
			role, is := object.(*rbacv1.ClusterRole)
			reads = reads || is && slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool {
				return slices.Contains(r.APIGroups, kind.Spec.Group) && slices.Contains(r.Resources, kind.Spec.Names.Plural) && slices.Contains(r.Verbs, "get")
			})
		}
		if !reads || kind.Spec.Scope != apiextensionsv1.ClusterScoped {
			t.Errorf("%s: the autoscaler may not read %s of %s", file, kind.Spec.Names.Plural, kind.Spec.Group)
		}
	}
}
