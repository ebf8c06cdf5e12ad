package chart

import (
	"bytes"
	"compress/gzip"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"supercargo.dev/supercargo/test/kit/testfile"
)

// operatorVersions are the arguments that make Helm see a cluster with the CRDs of Prometheus Operator.
var operatorVersions = []string{"--api-versions", "monitoring.coreos.com/v1/PodMonitor,monitoring.coreos.com/v1/ServiceMonitor,monitoring.coreos.com/v1/PrometheusRule"}

// operatorKinds returns the CRDs of Prometheus Operator of which the chart has objects; test/data has the
// published versions.
func operatorKinds(t *testing.T) (found []*apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	for _, file := range files(t, "../../data/prometheus-operator/*.yaml.gz") {
		packed := testfile.Read(t, file)
		unpack, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		text, err := io.ReadAll(unpack)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		testfile.YAML(t, text, crd)
		found = append(found, crd)
	}
	return found
}

// misfits returns the fields of an object that its CRD does not have, or does not allow.
func misfits(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition, o *unstructured.Unstructured) (faults []string) {
	t.Helper()
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(crd.Spec.Versions[0].Schema.OpenAPIV3Schema, &internal, nil); err != nil {
		t.Fatal(err)
	}
	structural, err := schema.NewStructural(&internal)
	if err != nil {
		t.Fatal(err)
	}
	validator, _, err := validation.NewSchemaValidator(&internal)
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range validation.ValidateCustomResource(nil, o.Object, validator) {
		faults = append(faults, fault.Error())
	}
	unknown := pruning.PruneWithOptions(o.DeepCopy().Object, structural, true, schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	for _, path := range unknown {
		faults = append(faults, "there is no field "+path)
	}
	return faults
}

// TestMonitorsAndAlertsFitTheirRealKinds uses every value that changes them.
func TestMonitorsAndAlertsFitTheirRealKinds(t *testing.T) {
	kinds := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, crd := range operatorKinds(t) {
		kinds[crd.Spec.Names.Kind] = crd
	}
	full := maps.Clone(everything)
	full["monitoring.labels"], full["monitoring.interval"], full["monitoring.alerts.labels"] = values{"release": "prometheus"}, "15s", values{"team": "platform"}
	for _, v := range []values{everything, full} {
		counts := map[string]int{}
		for _, o := range render(t, home, v, operatorVersions...) {
			crd, ok := kinds[o.GetKind()]
			if !ok {
				if strings.HasPrefix(o.GetAPIVersion(), "monitoring.coreos.com/") {
					t.Errorf("%s is of a kind that is not tested", id(o))
				}
				continue
			}
			counts[o.GetKind()]++
			for _, fault := range misfits(t, crd, o) {
				t.Errorf("%s: %s", id(o), fault)
			}
			if v["monitoring.labels"] != nil && o.GetLabels()["release"] != "prometheus" {
				t.Errorf("%s has labels %v, and none by which it is selected", id(o), o.GetLabels())
			}
			if o.GetKind() != "PrometheusRule" {
				if job := text(o.Object, "spec", "jobLabel"); job != "app.kubernetes.io/name" {
					t.Errorf("%s gives its targets a job by label %q, by which alerts do not know them", id(o), job)
				}
			}
		}
		if want := map[string]int{"PodMonitor": 4, "ServiceMonitor": 3, "PrometheusRule": 6}; !maps.Equal(counts, want) {
			t.Errorf("the chart has %v, want %v", counts, want)
		}
	}
}

// TestWhatDoesNotFitAKindIsFound shows that the test above can fail.
func TestWhatDoesNotFitAKindIsFound(t *testing.T) {
	at := slices.IndexFunc(operatorKinds(t), func(crd *apiextensionsv1.CustomResourceDefinition) bool { return crd.Spec.Names.Kind == "PodMonitor" })
	crd := operatorKinds(t)[at]
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "monitoring.coreos.com/v1", "kind": "PodMonitor", "metadata": map[string]any{"name": "a"},
		"spec": map[string]any{"selector": map[string]any{}, "podMetricsEndpoints": []any{map[string]any{"port": "metrics", "intervall": "15s", "scheme": "gopher"}}},
	}}
	got := strings.Join(misfits(t, crd, o), "; ")
	for _, want := range []string{"there is no field spec.podMetricsEndpoints[0].intervall", `spec.podMetricsEndpoints[0].scheme: Unsupported value: "gopher"`} {
		if !strings.Contains(got, want) {
			t.Errorf("found %q, want %q in it", got, want)
		}
	}
}
