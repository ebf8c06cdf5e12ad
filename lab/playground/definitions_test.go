package playground

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// walk calls visit for every mapping within a value.
func walk(value any, visit func(map[string]any)) {
	switch value := value.(type) {
	case map[string]any:
		visit(value)
		for _, v := range value {
			walk(v, visit)
		}
	case []any:
		for _, v := range value {
			walk(v, visit)
		}
	}
}

func TestAllWebhooksLeadToThePlayground(t *testing.T) {
	definitions, err := clusterAPIDefinitions()
	if err != nil {
		t.Fatal(err)
	}
	server := webhookServer{url: "https://127.0.0.1:1", ca: []byte("trust me")}
	hooks, conversions := 0, 0
	for _, definition := range definitions {
		object := definition.DeepCopy()
		if err := server.direct(object); err != nil {
			t.Fatal(err)
		}
		walk(object.Object, func(fields map[string]any) {
			config, has := fields["clientConfig"].(map[string]any)
			if !has || config["type"] == "object" { // the schema of a field with that name
				return
			}
			url, _ := config["url"].(string)
			path, ours := strings.CutPrefix(url, "https://127.0.0.1:1/")
			if !ours || config["service"] != nil || config["caBundle"] != base64.StdEncoding.EncodeToString([]byte("trust me")) {
				t.Errorf("%s: clientConfig is %v", object.GetName(), config)
			}
			if path == "convert" {
				conversions++
			} else {
				hooks++
			}
		})
	}
	// cluster-api has that many. Fewer would mean that some were not visited.
	if hooks < 20 || conversions != 13 {
		t.Errorf("%d webhooks and %d conversions, want at least 20 and 13", hooks, conversions)
	}
}

func TestOnlyWordsAreDropped(t *testing.T) {
	fields := map[string]any{
		"description": "words",
		"properties": map[string]any{
			"description": map[string]any{"type": "string", "description": "what the field called description means"},
			"other":       []any{map[string]any{"description": "words", "type": "object"}},
		},
	}
	dropDescriptions(fields)
	want := map[string]any{
		"properties": map[string]any{
			"description": map[string]any{"type": "string"},
			"other":       []any{map[string]any{"type": "object"}},
		},
	}
	if diff := cmp.Diff(want, fields); diff != "" {
		t.Errorf("what is left (-want +got):\n%s", diff)
	}
}

func TestTheKindsThatArePlayedAreDefined(t *testing.T) {
	definitions, err := clusterAPIDefinitions()
	if err != nil {
		t.Fatal(err)
	}
	got := map[resourcePath]bool{}
	for _, definition := range definitions {
		if definition.GetKind() == "CustomResourceDefinition" {
			got[storedResource(definition)] = true
		}
	}
	for _, want := range []resourcePath{
		"/apis/cluster.x-k8s.io/v1beta2/clusters", "/apis/cluster.x-k8s.io/v1beta2/machines",
		"/apis/cluster.x-k8s.io/v1beta2/machinedeployments", "/apis/cluster.x-k8s.io/v1beta2/machinesets",
		"/apis/infrastructure.playground.supercargo.dev/v1alpha1/kwokclusters",
		"/apis/infrastructure.playground.supercargo.dev/v1alpha1/kwokcontrolplanes",
		"/apis/infrastructure.playground.supercargo.dev/v1alpha1/kwokmachines",
		"/apis/infrastructure.playground.supercargo.dev/v1alpha1/kwokmachinetemplates",
	} {
		if !got[want] {
			t.Errorf("%s is not defined", want)
		}
	}
	if got[""] {
		t.Error("a definition has no stored version")
	}
}

func TestADefinitionThatCannotBeDirectedIsNamed(t *testing.T) {
	odd := &unstructured.Unstructured{Object: map[string]any{
		"kind": "ValidatingWebhookConfiguration", "metadata": map[string]any{"name": "odd"},
		"webhooks": []any{map[string]any{"clientConfig": "nowhere"}},
	}}
	if err := (webhookServer{}).direct(odd); err == nil || !strings.Contains(err.Error(), "odd") {
		t.Errorf("error is %v, want one that names it", err)
	}
}

func TestOnlyTheVersionInWhichObjectsAreStoredIsLeft(t *testing.T) {
	all, err := clusterAPIDefinitions()
	if err != nil {
		t.Fatal(err)
	}
	for _, definition := range all {
		if definition.GetKind() != "CustomResourceDefinition" {
			continue
		}
		one := definition.DeepCopy()
		if err := dropOldVersions(one); err != nil {
			t.Fatal(err)
		}
		spec := one.Object["spec"].(map[string]any)
		versions := spec["versions"].([]any)
		if _, converts := spec["conversion"]; converts || len(versions) != 1 || versions[0].(map[string]any)["storage"] != true {
			t.Errorf("%s has %d versions, converted: %v; want the stored one alone", one.GetName(), len(versions), converts)
		}
	}
}
