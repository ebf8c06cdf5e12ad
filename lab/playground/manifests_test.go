package playground_test

import (
	"errors"
	"strings"
	"testing"

	"supercargo.dev/supercargo/lab/playground/controlplane"

	"supercargo.dev/supercargo/lab/playground"
)

func TestManifestsAreReadInOrder(t *testing.T) {
	const stream = `# a comment is no object
---
apiVersion: v1
kind: ConfigMap
metadata: {name: a}
data: {text: "--- is no separator here"}
---
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: c}}
--- # the last
{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "d"}}
`
	manifests, err := playground.ParseManifests("w.yaml", strings.NewReader(stream))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range manifests {
		names = append(names, m.Object.GetName())
	}
	if got := strings.Join(names, " "); got != "a b c d" {
		t.Errorf("objects are %q, want a b c d", got)
	}
}

func TestBadManifestsAreNamed(t *testing.T) {
	const good = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: good}\n"
	for _, tc := range []struct {
		name, stream string
		says         []string
	}{
		{"no YAML, with its line in the file", good + "---\nkind: [\n", []string{"w.yaml: document 2", "line 5"}},
		{"not an object", "- 1\n", []string{"w.yaml: document 1"}},
		{"no kind", "apiVersion: v1\nmetadata: {name: x}\n", []string{"w.yaml: document 1", "apiVersion and kind are required"}},
		{"no name", good + "---\napiVersion: v1\nkind: Pod\nmetadata: {generateName: x-}\n", []string{"w.yaml: document 2", "Pod", "metadata.name"}},
		{"the same field twice", good + "kind: Pod\n", []string{"w.yaml: document 1", "kind"}},
		{"item of a list without a kind", "apiVersion: v1\nkind: List\nitems: [{metadata: {name: x}}]\n", []string{"w.yaml: document 1", "apiVersion and kind are required"}},
		{"several at once", "kind: A\n---\nkind: B\n", []string{"document 1", "document 2"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := playground.ParseManifests("w.yaml", strings.NewReader(tc.stream))
			var input *controlplane.InputError
			if !errors.As(err, &input) {
				t.Fatalf("error is %v, want one about the input", err)
			}
			for _, says := range tc.says {
				if !strings.Contains(err.Error(), says) {
					t.Errorf("error is %q, want it to mention %q", err, says)
				}
			}
		})
	}
}
