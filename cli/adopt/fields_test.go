package adopt

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"supercargo.dev/supercargo/test/kit/testfile"
)

const nodePools = "../../test/data/nodepools/"

// poolSchema is the schema of the spec of a NodePool, as Karpenter 1.15.0 defines it.
func poolSchema(t *testing.T) *apiextensionsv1.JSONSchemaProps {
	t.Helper()
	unpacked, err := gzip.NewReader(bytes.NewReader(testfile.Read(t, nodePools+"karpenter.sh_nodepools.yaml.gz")))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	testfile.YAML(t, text, &crd)
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	return &spec
}

// leaves returns the paths of the fields of a schema that have no fields, as poolFields writes them.
func leaves(path string, s *apiextensionsv1.JSONSchemaProps) (all []string) {
	switch {
	case s.Items != nil:
		return leaves(path+"[]", s.Items.Schema)
	case s.AdditionalProperties != nil:
		return leaves(path+"{}", s.AdditionalProperties.Schema)
	case len(s.Properties) == 0:
		return []string{path}
	}
	for _, name := range sorted(s.Properties) {
		child := s.Properties[name]
		all = append(all, leaves(strings.TrimPrefix(path+"."+name, "."), &child)...)
	}
	return all
}

// TestEveryFieldOfANodePoolIsKnown fails when a version of Karpenter adds a field to NodePools. Convert it, or list it in a
// note; then add it to poolFields and to the table of the next test.
func TestEveryFieldOfANodePoolIsKnown(t *testing.T) {
	if diff := cmp.Diff(poolFields, leaves("", poolSchema(t))); diff != "" {
		t.Errorf("poolFields (-known +of Karpenter):\n%s", diff)
	}
	if !slices.IsSorted(poolFields) {
		t.Error("poolFields is not ordered")
	}
}

// everyField is a NodePool that sets every field but replicas, which excludes others. twice has, for each field, a text of
// it and another one that is valid too.
const everyField = `{
  "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
  "spec": {
    "weight": 7,
    "limits": {"cpu": "100", "nodes": "9"},
    "disruption": {
      "consolidationPolicy": "WhenEmpty", "consolidateAfter": "31s",
      "budgets": [{"nodes": "11%", "reasons": ["Empty"], "schedule": "0 9 * * *", "duration": "8h"}]
    },
    "template": {
      "metadata": {"labels": {"team": "label-a"}, "annotations": {"note": "annotation-a"}},
      "spec": {
        "expireAfter": "100h", "terminationGracePeriod": "90m",
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "class-a"},
        "requirements": [{"key": "example.com/key-a", "operator": "NotIn", "values": ["value-a"], "minValues": 1}],
        "taints": [{"key": "taint-a", "value": "taint-value-a", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}],
        "startupTaints": [{"key": "startup-a", "value": "startup-value-a", "effect": "NoSchedule", "timeAdded": "2026-02-02T00:00:00Z"}]
      }
    }
  }
}`

var twice = map[string][2]string{
	"disruption.budgets[].duration":           {`"8h"`, `"9h"`},
	"disruption.budgets[].nodes":              {`"11%"`, `"12%"`},
	"disruption.budgets[].reasons[]":          {`["Empty"]`, `["Drifted"]`},
	"disruption.budgets[].schedule":           {`"0 9 * * *"`, `"0 8 * * *"`},
	"disruption.consolidateAfter":             {`"31s"`, `"32s"`},
	"disruption.consolidationPolicy":          {`"consolidationPolicy": "WhenEmpty"`, `"consolidationPolicy": "Balanced"`},
	"limits{}":                                {`"cpu": "100"`, `"nvidia.com/gpu": "100"`},
	"replicas":                                {`"weight": 7`, `"replicas": 7`},
	"template.metadata.annotations{}":         {`"annotation-a"`, `"annotation-b"`},
	"template.metadata.labels{}":              {`"label-a"`, `"label-b"`},
	"template.spec.expireAfter":               {`"100h"`, `"101h"`},
	"template.spec.nodeClassRef.group":        {`"karpenter.k8s.aws"`, `"karpenter.azure.com"`},
	"template.spec.nodeClassRef.kind":         {`"EC2NodeClass"`, `"OtherNodeClass"`},
	"template.spec.nodeClassRef.name":         {`"class-a"`, `"class-b"`},
	"template.spec.requirements[].key":        {`"example.com/key-a"`, `"example.com/key-b"`},
	"template.spec.requirements[].minValues":  {`"minValues": 1`, `"minValues": 2`},
	"template.spec.requirements[].operator":   {`"NotIn"`, `"In"`},
	"template.spec.requirements[].values[]":   {`"value-a"`, `"value-b"`},
	"template.spec.startupTaints[].effect":    {`"NoSchedule"`, `"NoExecute"`},
	"template.spec.startupTaints[].key":       {`"startup-a"`, `"startup-b"`},
	"template.spec.startupTaints[].timeAdded": {`2026-02-02`, `2026-02-03`},
	"template.spec.startupTaints[].value":     {`"startup-value-a"`, `"startup-value-b"`},
	"template.spec.taints[].effect":           {`"NoExecute"`, `"NoSchedule"`},
	"template.spec.taints[].key":              {`"taint-a"`, `"taint-b"`},
	"template.spec.taints[].timeAdded":        {`2026-01-01`, `2026-01-02`},
	"template.spec.taints[].value":            {`"taint-value-a"`, `"taint-value-b"`},
	"template.spec.terminationGracePeriod":    {`"90m"`, `"91m"`},
	"weight":                                  {`"weight": 7`, `"weight": 8`},
}

// said is what an adoption says of a NodePool without its steps, which do not depend on most fields.
func said(t *testing.T, pool string) string {
	t.Helper()
	var fields map[string]any
	testfile.JSON(t, pool, &fields)
	f, notes, err := convertPool(fields, &Around{Region: "us-east-1"})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal([]any{f, notes})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestEveryFieldOfANodePoolIsConvertedOrListed: whatever changes in a NodePool changes the NodeFleet or a note.
func TestEveryFieldOfANodePoolIsConvertedOrListed(t *testing.T) {
	for _, path := range poolFields {
		change, is := twice[path]
		if !is || strings.Count(everyField, change[0]) != 1 {
			t.Fatalf("the table has no change of %s: %q", path, change)
		}
		if said(t, everyField) == said(t, strings.Replace(everyField, change[0], change[1], 1)) {
			t.Errorf("whether spec.%s is %s or %s is neither converted nor listed", path, change[0], change[1])
		}
	}
}

// TestAFieldThatIsNotKnownIsListed: those of a newer Karpenter, wherever they are.
func TestAFieldThatIsNotKnownIsListed(t *testing.T) {
	for field, with := range map[string][2]string{
		"spec.novelty":                                  {`"weight": 7`, `"weight": 7, "novelty": "x"`},
		"spec.novelty.depth":                            {`"weight": 7`, `"weight": 7, "novelty": {"depth": 3}`},
		"spec.disruption.budgets[0].novelty":            {`"duration": "8h"`, `"duration": "8h", "novelty": true`},
		"spec.template.spec.requirements[0].novelty[1]": {`"minValues": 1`, `"minValues": 1, "novelty": ["a", "b"]`},
		"spec.template.spec.taints[0].novelty":          {`"key": "taint-a"`, `"key": "taint-a", "novelty": 1.5`},
		"spec.template.metadata.finalizers[0]":          {`"metadata": {"labels"`, `"metadata": {"finalizers": ["x"], "labels"`},
		"spec.template.spec.nodeClassRef.novelty":       {`"name": "class-a"`, `"name": "class-a", "novelty": "x"`},
		"spec.template.spec.kubelet.maxPods":            {`"expireAfter"`, `"kubelet": {"maxPods": 20}, "expireAfter"`},
	} {
		if got := said(t, strings.Replace(everyField, with[0], with[1], 1)); !strings.Contains(got, `"field":"`+field+`"`) || !strings.Contains(got, "not known to this version") {
			t.Errorf("%s is not listed: %s", field, got)
		}
	}
	if got := said(t, strings.Replace(everyField, `"weight": 7`, `"weight": 7, "novelty": null`, 1)); strings.Contains(got, "novelty") {
		t.Errorf("a field without a value is listed: %s", got)
	}
}
