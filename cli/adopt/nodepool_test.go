package adopt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/pricelist"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// aPool returns a NodePool of AWS in zone us-east-1a with these fields of its spec.
func aPool(spec string) map[string]any {
	const base = `
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
      - {key: topology.kubernetes.io/zone, operator: In, values: [us-east-1a]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      - {key: kubernetes.io/arch, operator: In, values: [amd64]}
`
	var pool, with map[string]any
	for text, into := range map[string]*map[string]any{base: &pool, spec: &with} {
		if err := yaml.Unmarshal([]byte(text), into); err != nil {
			panic(err)
		}
	}
	merge(pool["spec"].(map[string]any), with)
	return pool
}

// merge adds fields to an object, and items to its lists.
func merge(into, with map[string]any) {
	for key, value := range with {
		switch v := value.(type) {
		case map[string]any:
			if there, is := into[key].(map[string]any); is {
				merge(there, v)
				continue
			}
		case []any:
			if there, is := into[key].([]any); is {
				into[key] = append(there, v...)
				continue
			}
		}
		into[key] = value
	}
}

// requires returns the spec of a NodePool with further requirements.
func requires(texts ...string) string {
	all := reqs(texts...)
	text, err := json.Marshal(map[string]any{"template": map[string]any{"spec": map[string]any{"requirements": all}}})
	if err != nil {
		panic(err)
	}
	return strings.ReplaceAll(string(text), `"values":null,"minValues":null`, `"values":[]`)
}

var known = &Around{Prices: pricelist.Read}

// convert converts a NodePool, and returns the notes as text.
func convert(t *testing.T, pool map[string]any, around *Around) (*Fleet, string) {
	t.Helper()
	f, notes, err := convertPool(pool, around)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, n := range notes {
		fmt.Fprintf(&b, "%s | %s | %s | %s\n", n.Field, n.Value, n.Difference, n.Action)
	}
	return f, b.String()
}

func TestWhatANodePoolSaysIsInTheNodeFleet(t *testing.T) {
	f, notes := convert(t, aPool(`
limits: {cpu: 100, memory: 1000Gi, nodes: "20"}
disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 1h30m, budgets: [{nodes: "007"}]}
template:
  metadata: {labels: {team: a, supercargo.dev/class: batch, kubernetes.io/os: linux}}
  spec:
    expireAfter: Never
    terminationGracePeriod: 48h
    taints: [{key: dedicated, value: jobs, effect: NoSchedule}]
    startupTaints: [{key: cni, effect: NoExecute}]
    requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m7i.large, c7i.large]}]
`), known)
	if notes != "" {
		t.Errorf("notes:\n%s", notes)
	}
	var want Fleet
	testfile.StrictYAML(t, `
apiVersion: supercargo.dev/v1alpha1
kind: NodeFleet
metadata: {name: default}
spec:
  class: Batch
  mode: Observe
  provider: Karpenter
  karpenter:
    nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
    instanceTypes: [c7i.large, m7i.large]
    requirements:
    - {key: topology.kubernetes.io/zone, operator: In, values: [us-east-1a]}
    - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
    - {key: kubernetes.io/arch, operator: In, values: [amd64]}
    - {key: kubernetes.io/os, operator: In, values: [linux]}
    labels: {team: a}
    taints: [{key: dedicated, value: jobs, effect: NoSchedule}]
    startupTaints: [{key: cni, effect: NoExecute}]
    expireAfter: Never
    terminationGracePeriod: 48h
  pricing: {list: aws, region: us-east-1}
  limits: {machines: 20, cpu: 100, memory: 1000Gi}
  consolidation: {policy: WhenEmpty, after: 1h30m, maxUnavailable: "7"}
`, &want)
	if diff := cmp.Diff(want, *f); diff != "" {
		t.Errorf("NodeFleet (-want +got):\n%s", diff)
	}
}

// TestWhatANodePoolDoesNotSayIsKarpentersDefault and not that of a NodeFleet.
func TestWhatANodePoolDoesNotSayIsKarpentersDefault(t *testing.T) {
	f, _ := convert(t, aPool("{}"), known)
	if got := f.Spec.Karpenter.ExpireAfter; got != "720h" {
		t.Errorf("expireAfter is %s, want 720h", got)
	}
	want := &Consolidation{Policy: v1alpha1.ConsolidateWhenUnderUsed, After: "0s", MaxUnavailable: "10%"}
	if diff := cmp.Diff(want, f.Spec.Consolidation); diff != "" {
		t.Errorf("consolidation (-want +got):\n%s", diff)
	}
	if f.Spec.Limits != nil {
		t.Errorf("limits are %+v, want none", f.Spec.Limits)
	}
}

// TestWhatCannotBeExpressedBuysNothing: a fleet must not buy what a NodePool excludes.
func TestWhatCannotBeExpressedBuysNothing(t *testing.T) {
	var taints []string
	for i := range mostTaints + 1 {
		taints = append(taints, fmt.Sprintf("{key: taint-%d, effect: NoSchedule}", i))
	}
	var many []string
	for i := range mostRequirements {
		many = append(many, fmt.Sprintf("example.com/key-%d Exists", i))
	}
	around := *known
	for name, spec := range map[string]string{
		"contradictory requirements":  requires("example.com/a In x", "example.com/a In y"),
		"contradictory zones":         requires("topology.kubernetes.io/zone In us-east-1b"),
		"no capacity type":            requires("karpenter.sh/capacity-type NotIn on-demand"),
		"no instance type":            requires("karpenter.k8s.aws/instance-family In none"),
		"bounds that are too far":     requires("example.com/a Gt 2", "example.com/a Lt 500"),
		"a bound and an exclusion":    requires("example.com/a Gt 2", "example.com/a NotIn 4"),
		"too many requirements":       requires(many...),
		"too many taints":             "{template: {spec: {taints: [" + strings.Join(taints, ", ") + "]}}}",
		"a limit of no machine":       "{limits: {nodes: 0}}",
		"a limit of less than none":   "{limits: {nodes: -3}}",
		"a limit, and no requirement": requires("example.com/a In x", "example.com/a In y")[:1] + `"limits": {"nodes": 5}, ` + requires("example.com/a In x", "example.com/a In y")[1:],
	} {
		f, notes := convert(t, aPool(spec), &around)
		if f.Spec.Limits == nil || f.Spec.Limits.Machines == nil || *f.Spec.Limits.Machines != 0 {
			t.Errorf("%s: limits are %+v, want no machines; notes:\n%s", name, f.Spec.Limits, notes)
		}
	}
	f, _ := convert(t, aPool(requires("karpenter.k8s.aws/instance-cpu Gt 2", "karpenter.k8s.aws/instance-cpu Lt 500")), known)
	if f.Spec.Limits != nil || len(f.Spec.Karpenter.InstanceTypes) == 0 {
		t.Errorf("limits are %+v and instance types %v, want the latter to have the bounds", f.Spec.Limits, f.Spec.Karpenter.InstanceTypes)
	}
}

// withoutZones is a NodePool that lists no zones.
func withoutZones(requirements ...string) map[string]any {
	pool := aPool("{}")
	spec := pool["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
	var all []any
	for _, r := range reqs(append(requirements, "karpenter.sh/capacity-type In on-demand", "kubernetes.io/arch In amd64")...) {
		all = append(all, map[string]any{"key": r.Key, "operator": r.Operator, "values": r.Values})
	}
	spec["requirements"] = all
	return pool
}

func TestZonesThatANodePoolDoesNotListAreThoseOfItsNodeClassOrOfTheNodes(t *testing.T) {
	classes := map[string][]string{"EC2NodeClass/default": {"us-east-1a", "us-east-1b"}, "EC2NodeClass/other": {"us-east-1f"}}
	for _, tc := range []struct {
		name   string
		of     []string
		around Around
		want   string
		blocks bool
	}{
		{"the NodeClass", nil, Around{ClassZones: classes, Zones: []string{"us-east-1c"}}, "us-east-1a us-east-1b", false},
		{"the nodes", nil, Around{Zones: []string{"us-east-1c"}}, "us-east-1c", false},
		{"nothing", nil, Around{}, "", false},
		{"an exclusion", []string{"topology.kubernetes.io/zone NotIn us-east-1a"}, Around{ClassZones: classes}, "us-east-1b", false},
		{"an exclusion of unknown zones", []string{"topology.kubernetes.io/zone NotIn us-east-1a"}, Around{}, "", true},
		{"an exclusion of all", []string{"topology.kubernetes.io/zone NotIn us-east-1a,us-east-1b"}, Around{ClassZones: classes}, "", true},
		{"any", []string{"topology.kubernetes.io/zone Exists"}, Around{ClassZones: classes}, "us-east-1a us-east-1b", false},
		{"the name of a disk driver", []string{"topology.ebs.csi.aws.com/zone In us-east-1d"}, Around{ClassZones: classes}, "us-east-1d", false},
	} {
		f, _ := convert(t, withoutZones(tc.of...), &tc.around)
		got := ""
		for _, r := range f.Spec.Karpenter.Requirements {
			if r.Key == corev1.LabelTopologyZone {
				got = strings.Join(r.Values, " ")
			}
		}
		if blocks := f.Spec.Limits != nil; got != tc.want || blocks != tc.blocks {
			t.Errorf("%s: zones are %q and the fleet buys nothing: %v, want %q and %v", tc.name, got, blocks, tc.want, tc.blocks)
		}
	}
}

func TestPricesAreThoseOfTheRegionOrMustBeWritten(t *testing.T) {
	ours := &v1alpha1.PriceCatalogue{Namespace: "supercargo-system", Name: "prices", Key: "flavors.csv"}
	list := Pricing{List: "aws", Region: "us-east-1"}
	both := list
	both.Catalogue = ours
	spot := withoutZones("karpenter.sh/capacity-type In spot")
	for _, r := range spot["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)["requirements"].([]any) {
		if of := r.(map[string]any); of["key"] == labelCapacityType {
			of["values"] = []string{"spot"}
		}
	}
	kwok := aPool("{template: {spec: {nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass}}}}")
	for _, tc := range []struct {
		name   string
		pool   map[string]any
		region string
		want   Pricing
		says   string
	}{
		{"the region of a zone", aPool("{}"), "", list, ""},
		{"the region of the cluster", withoutZones(), "us-east-1", list, ""},
		{"no region", withoutZones(), "", Pricing{Catalogue: ours}, "The region is not known"},
		{"another region", aPool("{}"), "eu-west-1", Pricing{Catalogue: ours}, "No list prices of region eu-west-1 are included."},
		{"another cloud", kwok, "us-east-1", Pricing{Catalogue: ours}, "No list prices of this provider are included."},
		{"spot machines", spot, "us-east-1", both, "The fleet buys no spot machines without a price."},
	} {
		f, notes := convert(t, tc.pool, &Around{Region: tc.region, Prices: pricelist.Read})
		if diff := cmp.Diff(&tc.want, f.Spec.Pricing); diff != "" || !strings.Contains(notes, tc.says) {
			t.Errorf("%s (-want +got):\n%s\nnotes:\n%s\nwant %q", tc.name, diff, notes, tc.says)
		}
	}
}

// TestInstanceTypesThatANodePoolNamesAreKeptWithoutAListOfPrices, and those that it excludes are excluded.
func TestInstanceTypesThatANodePoolNamesAreKeptWithoutAListOfPrices(t *testing.T) {
	for text, want := range map[string]string{
		"node.kubernetes.io/instance-type In a1,b2":                         "[a1 b2]",
		"beta.kubernetes.io/instance-type In a1":                            "[a1]",
		"node.kubernetes.io/instance-type NotIn a1":                         "[!a1]",
		"node.kubernetes.io/instance-type Exists":                           "[]",
		"node.kubernetes.io/instance-type In a1," + strings.Repeat("x", 64): "[a1]",
		"node.kubernetes.io/instance-type In a1,_b":                         "[a1]",
	} {
		f, _ := convert(t, aPool(requires(text)), &Around{})
		if got := fmt.Sprint(f.Spec.Karpenter.InstanceTypes); got != want {
			t.Errorf("%.60s becomes %s, want %s", text, got, want)
		}
	}
}

func TestInvalidNodePoolsAreRefusedWithTheField(t *testing.T) {
	for spec, want := range map[string]string{
		"{weight: heavy}":                                                   "spec.weight: is a string, must be of type int32",
		"{limits: {cpu: much}}":                                             "quantities must match the regular expression",
		"{template: {spec: {taints: {}}}}":                                  "spec.template.spec.taints: is a object, must be of type array",
		"{template: {spec: {nodeClassRef: {name: ''}}}}":                    "spec.template.spec.nodeClassRef: must have a kind and a name",
		"{template: {spec: {nodeClassRef: {group: ''}}}}":                   `spec.template.spec.nodeClassRef.group: "" must be a group without a version`,
		"{template: {spec: {nodeClassRef: {group: karpenter.k8s.aws/v1}}}}": `spec.template.spec.nodeClassRef.group: "karpenter.k8s.aws/v1" must be a group without a version, such as karpenter.k8s.aws`,
		"{template: {spec: {expireAfter: 1d}}}":                             `spec.template.spec.expireAfter: "1d" must be a duration in hours, minutes and seconds, such as 1h30m, or Never`,
		"{template: {spec: {expireAfter: 1.5h}}}":                           `spec.template.spec.expireAfter: "1.5h" must be`,
		"{template: {spec: {expireAfter: 99999999999h}}}":                   `spec.template.spec.expireAfter: "99999999999h" must be`,
		"{template: {spec: {terminationGracePeriod: Never}}}":               `spec.template.spec.terminationGracePeriod: "Never" must be`,
		"{disruption: {consolidateAfter: 10ms}}":                            `spec.disruption.consolidateAfter: "10ms" must be`,
		"{disruption: {consolidationPolicy: Always}}":                       `spec.disruption.consolidationPolicy: "Always" must be WhenEmpty, WhenEmptyOrUnderutilized or Balanced`,
		"{disruption: {budgets: [{nodes: '-1'}]}}":                          `spec.disruption.budgets[0].nodes: "-1" must be a number or a percentage such as 10%`,
		requires("kubernetes.io/hostname In a"):                             "spec.template.spec.requirements: Karpenter allows no requirement on kubernetes.io/hostname",
		requires("a In"):                                                    "spec.template.spec.requirements[3]: a: values: must have at least one value",
	} {
		_, _, err := convertPool(aPool(spec), known)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", spec, err, want)
		}
	}
	if _, _, err := convertPool(map[string]any{"metadata": map[string]any{"name": "a; rm"}}, known); err == nil || !strings.Contains(err.Error(), `metadata.name: "a; rm" is not a valid name`) {
		t.Errorf("a name that is none: %v", err)
	}
}

// published returns the files that Karpenter's providers publish.
func published(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob(nodePools + "*/*.yaml")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files (%v)", len(files), err)
	}
	return files
}

// regionOf is a region of the cloud of a published file.
func regionOf(file string) string {
	return map[string]string{"aws": "us-east-1", "azure": "eastus", "gcp": "us-central1"}[filepath.Base(filepath.Dir(file))]
}

// adoptFile adopts all NodePools of a file.
func adoptFile(t testing.TB, file string) *Document {
	t.Helper()
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	objects, err := Read(file, in)
	if err != nil {
		t.Fatal(err)
	}
	source, around, err := Gather(objects, &Wanted{Pools: true})
	if err != nil {
		t.Fatal(err)
	}
	around.Region, around.Prices = regionOf(file), pricelist.Read
	d, err := Convert(source, around)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestPublishedNodePoolsAreAdopted compares with testdata; -update writes it again.
func TestPublishedNodePoolsAreAdopted(t *testing.T) {
	for _, file := range published(t) {
		var b bytes.Buffer
		if err := adoptFile(t, file).Write(&b); err != nil {
			t.Fatal(err)
		}
		testfile.Golden(t, filepath.Join("testdata", filepath.Base(filepath.Dir(file))+"-"+filepath.Base(file)), b.String())
	}
}
