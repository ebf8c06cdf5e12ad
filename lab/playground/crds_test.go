package playground

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestServedVersionsOfADefinitionAreFound(t *testing.T) {
	definitions, err := supercargoCRDs()
	if err != nil {
		t.Fatal(err)
	}
	var all []schema.GroupVersionResource
	for _, m := range definitions {
		all = append(all, served(m.Object)...)
	}
	if len(all) != len(definitions) {
		t.Errorf("%d kinds are served of %d definitions, want one of each", len(all), len(definitions))
	}
	if want := (schema.GroupVersionResource{Group: "supercargo.dev", Version: "v1alpha1", Resource: "nodefleets"}); !slices.Contains(all, want) {
		t.Errorf("%v is not among %v", want, all)
	}
	definition := definitions[0].Object.DeepCopy()
	definition.Object["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)["served"] = false
	if left := served(definition); len(left) != 0 {
		t.Errorf("%v is served of a definition that serves nothing", left)
	}
}
