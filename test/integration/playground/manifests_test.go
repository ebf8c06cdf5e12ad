package playground

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/lab/playground"
)

// workload defines a kind and uses it immediately.
const workload = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: parcels.example.org}
spec:
  group: example.org
  scope: Cluster
  names: {plural: parcels, singular: parcel, kind: Parcel, listKind: ParcelList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object}}
---
apiVersion: example.org/v1
kind: Parcel
metadata: {name: first}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {colour: blue}
`

func TestAWorkloadIsAppliedAndAppliedAgain(t *testing.T) {
	p := playground.ForTest(t, playground.Options{NoScheduler: true, NoKwok: true, NoControllerManager: true})
	for _, colour := range []string{"blue", "green"} {
		stream := strings.ReplaceAll(workload, "blue", colour)
		manifests, err := playground.ParseManifests("w.yaml", strings.NewReader(stream))
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Apply(t.Context(), manifests); err != nil {
			t.Fatal(err)
		}
		got, err := p.Client().CoreV1().ConfigMaps(metav1.NamespaceDefault).Get(t.Context(), "settings", metav1.GetOptions{})
		if err != nil || got.Data["colour"] != colour {
			t.Errorf("the settings are %v (%v), want %s", got.Data, err, colour)
		}
	}
}

func TestAManifestThatTheServerRefusesIsNamed(t *testing.T) {
	p := playground.ForTest(t, playground.Options{NoScheduler: true, NoKwok: true, NoControllerManager: true})
	for _, tc := range []struct{ name, stream, says string }{
		{"unknown kind", "apiVersion: example.org/v1\nkind: Nothing\nmetadata: {name: x}\n", "Nothing"},
		{"invalid object", "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: []}\n", "spec.containers"},
		{"unknown field", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\nbogus: 1\n", "bogus"},
		{"no such namespace", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: nowhere}\n", "nowhere"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			manifests, err := playground.ParseManifests("w.yaml", strings.NewReader(tc.stream))
			if err != nil {
				t.Fatal(err)
			}
			err = p.Apply(t.Context(), manifests)
			wantInputError(t, err, "", tc.says)
			wantInputError(t, err, "", "w.yaml: document 1")
		})
	}
}
