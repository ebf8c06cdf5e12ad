package nodefleet

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/test/kit"
)

// refusal is an invalid field of a NodeFleet.
type refusal struct {
	path  string // of the field in the spec
	rule  string // rule that rejects it, with its name in schemaRules
	value any    // nil removes the field
	says  string // part of the API server's answer
}

const longName = 254

// durations lists the fields that are durations, with their bounds.
var durations = []struct{ path, least, most, below, above, bounds string }{
	{"pricing.billingPeriod", "1s", "8784h", "999ms", "8784h1s", "must be between 1s and 8784h"},
	{"scaling.interval", "1s", "24h", "0s", "24.1h", "must be between 1s and 24h"},
	{"scaling.batchIdle", "0s", "10s", "", "1h1s", "must be between 0s and 1h"},
	{"scaling.batchMax", "1s", "1h", "", "1h1ms", "must be between 0s and 1h"},
	{"scaling.joinTimeout", "1s", "24h", "0.5s", "25h", "must be between 1s and 24h"},
	{"scaling.backOff", "1s", "24h", "10ms", "1440m1s", "must be between 1s and 24h"},
	{"scaling.expectedLag", "0s", "24h", "", "100h", "must be between 0s and 24h"},
	{"scaling.maxWait", "0s", "24h", "", "24h1s", "must be between 0s and 24h"},
	{"consolidation.after", "0s", "8784h", "", "8785h", "must be between 0s and 8784h"},
	{"consolidation.releaseDelay", "0s", "1h", "", "61m", "must be between 0s and 1h"},
	{"consolidation.queueEmptyFor", "0s", "8784h", "", "9999h", "must be between 0s and 8784h"},
	{"consolidation.horizon", "0s", "8784h", "", "8784h1s", "must be between 0s and 8784h"},
	{"consolidation.podResidence", "0s", "8784h", "", "8784h0m1s", "must be between 0s and 8784h"},
	{"consolidation.drainTimeout", "1s", "8784h", "0s", "8784h0m1s", "must be between 1s and 8784h"},
}

// refusals returns invalid fields of every kind.
func refusals() []refusal {
	const steady = "must be more than 0: a machine that is never interrupted is not a spot machine"
	long := strings.Repeat("a", longName)
	all := []refusal{
		{"clusterAPI", "clusterAPI is required if provider is ClusterAPI: it specifies the MachineDeployments that the fleet may scale", nil,
			"clusterAPI is required if provider is ClusterAPI: it specifies the MachineDeployments that the fleet may scale"},
		{"class", "enum", "batch", `supported values: "Any", "Batch", "Service"`},
		{"mode", "enum", "DryRun", `supported values: "Act", "Observe"`},
		{"deletionPolicy", "enum", "Orphan", `supported values: "Keep", "Release"`},
		{"scaling.expendablePodsPriorityCutoff", "maximum", int64(1_000_000_001), "less than or equal to 1000000000"},
		{"provider", "enum", "AWS", `supported values: "ClusterAPI", "OpenStack", "Karpenter"`},

		{"provider", "openStack is required if provider is OpenStack, and must be unset otherwise", "OpenStack",
			"openStack is required if provider is OpenStack, and must be unset otherwise"},

		{"clusterAPI.namespace", "required", nil, "spec.clusterAPI.namespace: Required value"},
		{"clusterAPI.namespace", "minLength", "", "at least 1 chars long"},
		{"clusterAPI.namespace", "maxLength", long[:64], "may not be more than 63"},
		{"clusterAPI.clusterName", "minLength", "", "at least 1 chars long"},
		{"clusterAPI.clusterName", "maxLength", long[:64], "may not be more than 63"},
		{"clusterAPI.names", oneOfThree, nil, oneOfThree},
		{"clusterAPI.selector", oneOfThree, map[string]any{}, oneOfThree},
		{"clusterAPI.names", "minItems", []any{}, "should have at least 1 items"},
		{"clusterAPI.names", "maxItems", manyNames(1001), "must have at most 1000 items"},
		{"clusterAPI.names", "x-kubernetes-list-type", []any{"a", "a"}, `Duplicate value: "a"`},
		{"clusterAPI.names", "[] minLength", []any{""}, "at least 1 chars long"},
		{"clusterAPI.names", "[] maxLength", []any{long}, "may not be more than 253"},
		{"clusterAPI.selector", "matchExpressions[] required", map[string]any{"matchExpressions": []any{map[string]any{"key": "a"}}}, "operator: Required value"},

		{"pricing.interruptionsPerHour", steady, "0.0", steady},
		{"pricing.interruptionsPerHour", "pattern", "200", "should match"},
		{"pricing.interruptionsPerHour", "pattern", "1.01", "should match"},
		{"pricing.interruptionsPerHour", "maxLength", "0.0500000", "may not be more than 8"},
		{"pricing.catalogue", "required", map[string]any{"namespace": "a"}, "spec.pricing.catalogue.name: Required value"},
		{"pricing.catalogue", "required", map[string]any{"name": "a"}, "spec.pricing.catalogue.namespace: Required value"},
		{"pricing.catalogue", "namespace minLength", catalogue("", "a", "a"), "at least 1 chars long"},
		{"pricing.catalogue", "namespace maxLength", catalogue(long[:64], "a", "a"), "may not be more than 63"},
		{"pricing.catalogue", "name minLength", catalogue("a", "", "a"), "at least 1 chars long"},
		{"pricing.catalogue", "name maxLength", catalogue("a", long, "a"), "may not be more than 253"},
		{"pricing.catalogue", "key minLength", catalogue("a", "a", ""), "at least 1 chars long"},
		{"pricing.catalogue", "key maxLength", catalogue("a", "a", long), "may not be more than 253"},

		{"limits.machines", "minimum", int64(-1), "greater than or equal to 0"},
		{"limits.machines", "maximum", int64(100_001), "less than or equal to 100000"},
		{"limits.cpu", "pattern", "a lot", "should match"},
		{"limits.cpu", "must not be negative", "-1", "must not be negative"},
		{"limits.memory", "pattern", "64GiB", "should match"},
		{"limits.memory", "must not be negative", "-1Gi", "must not be negative"},
		{"limits.dollarsPerHour", "pattern", "-1", "should match"},
		{"limits.dollarsPerHour", "pattern", "1e3", "should match"},
		{"limits.dollarsPerHour", "pattern", "$12", "should match"},

		{"scaling", "batchIdle must not be longer than batchMax", map[string]any{"batchIdle": "11s"}, "batchIdle must not be longer than batchMax"},
		{"scaling", "batchIdle must not be longer than batchMax", map[string]any{"batchMax": "999ms"}, "batchIdle must not be longer than batchMax"},

		{"consolidation.policy", "enum", "WhenEmptyOrUnderutilized", `supported values: "Never", "WhenEmpty", "WhenUnderUsed"`},
		{"consolidation.evictServices", "enum", "Always", `supported values: "Never", "OptIn", "OptOut"`},
		{"consolidation.thresholdPercent", "minimum", int64(-1), "greater than or equal to 0"},
		{"consolidation.thresholdPercent", "maximum", int64(101), "less than or equal to 100"},
		{"consolidation.maxUnavailable", "pattern", "101%", "should match"},
		{"consolidation.maxUnavailable", "pattern", "-1", "should match"},
		{"consolidation.maxUnavailable", "pattern", "half", "should match"},
	}
	all = append(all, budgetRefusals()...)
	all = append(all, replacementRefusals()...)
	all = append(all, openStackRefusals()...)
	all = append(all, karpenterRefusals()...)
	all = append(all, templateRefusals()...)
	for _, d := range durations {
		all = append(all,
			refusal{d.path, "pattern", "soon", "should match"}, refusal{d.path, "pattern", "-5m", "should match"}, refusal{d.path, "pattern", "5", "should match"},
			refusal{d.path, "maxLength", strings.Repeat("0", 32) + "5s", "may not be more than 32"},
			refusal{d.path, d.bounds, d.above, d.bounds})
		if d.below != "" {
			all = append(all, refusal{d.path, d.bounds, d.below, d.bounds})
		}
	}
	return all
}

const oneOfThree = "exactly one of names, selector and templates must be set"

// templateRefusals returns those of MachineDeployments that are copied, and of list prices.
func templateRefusals() []refusal {
	const together = "list and region must be set together, because list prices differ by region"
	const needs = "pricing.list or pricing.catalogue is required if clusterAPI.templates is set"
	long := strings.Repeat("a", longName)
	with := func(field string, value any) []any {
		t := map[string]any{"machineDeployment": "workers"}
		if t[field] = value; value == nil {
			delete(t, field)
		}
		return []any{t}
	}
	var many []any
	for i := range 17 {
		many = append(many, map[string]any{"machineDeployment": fmt.Sprintf("workers-%d", i)})
	}
	all := []refusal{
		{"pricing.list", together, "aws", together},
		{"pricing.region", together, "us-east-1", together},
		{"pricing.list", "minLength", "", "at least 1 chars long"},
		{"pricing.list", "maxLength", long[:64], "may not be more than 63"},
		{"pricing.region", "minLength", "", "at least 1 chars long"},
		{"pricing.region", "maxLength", long[:64], "may not be more than 63"},
		{"clusterAPI.templates", oneOfThree, with("", ""), oneOfThree}, // in addition to names
		{"clusterAPI", needs, map[string]any{"namespace": "default", "templates": with("", "")}, needs},
		{"clusterAPI.templates", "minItems", []any{}, "should have at least 1 items"},
		{"clusterAPI.templates", "maxItems", many, "must have at most 16 items"},
	}
	for _, r := range []refusal{
		{"machineDeployment", "required", nil, "machineDeployment: Required value"},
		{"machineDeployment", "machineDeployment minLength", "", "at least 1 chars long"},
		{"machineDeployment", "machineDeployment maxLength", long, "may not be more than 253"},
		{"instanceTypeField", "instanceTypeField pattern", "metadata.name", "should match"},
		{"instanceTypeField", "instanceTypeField maxLength", "spec." + long, "may not be more than 253"},
		{"instanceTypes", "instanceTypes minItems", []any{}, "should have at least 1 items"},
		{"instanceTypes", "instanceTypes maxItems", manyNames(1001), "must have at most 1000 items"},
		{"instanceTypes", "instanceTypes x-kubernetes-list-type", []any{"a", "a"}, `Duplicate value: "a"`},
		{"instanceTypes", "instanceTypes[] pattern", []any{"m7i.[a"}, "should match"},
		{"instanceTypes", "instanceTypes[] maxLength", []any{long[:64]}, "may not be more than 63"},
		{"architecture", "architecture enum", "x86_64", "Unsupported value"},
		{"failureDomains", "failureDomains minItems", []any{}, "should have at least 1 items"},
		{"failureDomains", "failureDomains maxItems", manyNames(17), "must have at most 16 items"},
		{"failureDomains", "failureDomains x-kubernetes-list-type", []any{"a", "a"}, `Duplicate value: "a"`},
		{"failureDomains", "failureDomains[] minLength", []any{""}, "at least 1 chars long"},
		{"failureDomains", "failureDomains[] maxLength", []any{long[:64]}, "may not be more than 63"},
	} {
		all = append(all, refusal{"clusterAPI.templates", "[]" + map[bool]string{true: " ", false: "."}[r.rule == "required"] + r.rule, with(r.path, r.value), r.says})
	}
	return all
}

// budgetRefusals returns those of consolidation.budgets.
func budgetRefusals() []refusal {
	const together = "schedule and duration must be set together"
	const bounds = "must be between 1m and 8784h"
	with := func(field string, value any) []any {
		b := map[string]any{"nodes": "1", "schedule": "@daily", "duration": "1h"}
		if b[field] = value; value == nil {
			delete(b, field)
		}
		return []any{b}
	}
	many := make([]any, 51)
	for i := range many {
		many[i] = map[string]any{"nodes": "1"}
	}
	all := []refusal{
		{"consolidation.budgets", "maxItems", many, "must have at most 50 items"},
		{"consolidation.budgets", "[].required", with("nodes", nil), "nodes: Required value"},
	}
	for _, r := range []refusal{
		{"schedule", together, nil, together},
		{"duration", together, nil, together},
		{"nodes", "nodes pattern", "101%", "should match"},
		{"reasons", "reasons minItems", []any{}, "should have at least 1 items"},
		{"reasons", "reasons maxItems", []any{"Empty", "UnderUsed", "Exchange", "Unhealthy", "Expired", "Drifted", "Empty"}, "must have at most 6 items"},
		{"reasons", "reasons x-kubernetes-list-type", []any{"Empty", "Empty"}, `Duplicate value: "Empty"`},
		{"reasons", "reasons[] enum", []any{"Haunted"}, "Unsupported value"},
		{"schedule", "schedule pattern", "daily", "should match"},
		{"schedule", "schedule maxLength", "0 0 * * " + strings.Repeat("1", 100), "may not be more than 100"},
		{"duration", "duration pattern", "-5m", "should match"},
		{"duration", "duration maxLength", strings.Repeat("0", 32) + "5m", "may not be more than 32"},
		{"duration", "duration " + bounds, "59s", bounds},
		{"duration", "duration " + bounds, "8784h1s", bounds},
	} {
		all = append(all, refusal{"consolidation.budgets", "[] " + r.rule, with(r.path, r.value), r.says})
	}
	return all
}

// replacementRefusals returns those of what machines are replaced for.
func replacementRefusals() []refusal {
	const path, least = "consolidation.unhealthyConditions", "must be at least 1m"
	with := func(field string, value any) []any {
		c := map[string]any{"type": "KernelDeadlock", "status": "True", "duration": "10m"}
		if c[field] = value; value == nil {
			delete(c, field)
		}
		return []any{c}
	}
	many := make([]any, 51)
	for i := range many {
		many[i] = map[string]any{"type": fmt.Sprint("Condition", i)}
	}
	return []refusal{
		{"consolidation.drifted", "enum", "Ignore", `supported values: "Replace", "Keep"`},
		{"consolidation.expireAfter", "pattern", "Never", "should match"},
		{"consolidation.expireAfter", "maxLength", strings.Repeat("0", 32) + "5m", "may not be more than 32"},
		{"consolidation.expireAfter", least, "59s", least},
		{path, "maxItems", many, "must have at most 50 items"},
		{path, "[].required", with("type", nil), "type: Required value"},
		{path, "x-kubernetes-list-map-keys", append(with("type", "A"), with("type", "A")...), "Duplicate value"},
		{path, "[] type minLength", with("type", ""), "at least 1 chars long"},
		{path, "[] type maxLength", with("type", strings.Repeat("a", 317)), "may not be more than 316"},
		{path, "[] status enum", with("status", "Maybe"), "Unsupported value"},
		{path, "[] duration pattern", with("duration", "-5m"), "should match"},
		{path, "[] duration maxLength", with("duration", strings.Repeat("0", 32)+"5m"), "may not be more than 32"},
	}
}

// openStackRefusals returns those of the properties of servers.
func openStackRefusals() []refusal {
	const either = "exactly one of secret and configMap must be set"
	long := strings.Repeat("a", 256)
	ref := func(key string, value any) map[string]any {
		r := map[string]any{"namespace": "a", "name": "a"}
		if r[key] = value; value == nil {
			delete(r, key)
		}
		return r
	}
	all := []refusal{
		{"openStack.maxPods", "minimum", int64(0), "greater than or equal to 1"},
		{"openStack.maxPods", "maximum", int64(10_001), "less than or equal to 10000"},
		{"openStack.nodeTaints", "maxItems", manyTaints(33), "must have at most 32 items"},
		{"openStack.nodeTaints", "[] required", []any{map[string]any{"key": "a"}}, "effect: Required value"},
		{"openStack.reserved", "cpu pattern", map[string]any{"cpu": "some"}, "should match"},
		{"openStack.reserved", "cpu must not be negative", map[string]any{"cpu": "-1"}, "must not be negative"},
		{"openStack.reserved", "memory pattern", map[string]any{"memory": "1GB?"}, "should match"},
		{"openStack.reserved", "memory must not be negative", map[string]any{"memory": "-1"}, "must not be negative"},
		{"openStack.userData", either, map[string]any{}, either},
		{"openStack.userData", either, map[string]any{"secret": ref("", ""), "configMap": ref("", "")}, either},
	}
	for _, field := range []string{"credentials", "image", "networks"} {
		all = append(all, refusal{"openStack." + field, "required", nil, "spec.openStack." + field + ": Required value"})
	}
	for _, list := range []struct {
		field string
		least bool
		most  int
	}{{"availabilityZones", true, 50}, {"flavors", true, 500}, {"networks", true, 16}, {"securityGroups", false, 32}} {
		path := "openStack." + list.field
		all = append(all,
			refusal{path, "maxItems", manyNames(list.most + 1), fmt.Sprintf("must have at most %d items", list.most)},
			refusal{path, "x-kubernetes-list-type", []any{"a", "a"}, `Duplicate value: "a"`},
			refusal{path, "[] minLength", []any{""}, "at least 1 chars long"}, refusal{path, "[] maxLength", []any{long}, "may not be more than 255"})
		if list.least {
			all = append(all, refusal{path, "minItems", []any{}, "should have at least 1 items"})
		}
	}
	for _, field := range []string{"image", "keyName", "region", "serverGroup"} {
		all = append(all, refusal{"openStack." + field, "maxLength", long, "may not be more than 255"})
	}
	all = append(all, refusal{"openStack.image", "minLength", "", "at least 1 chars long"},
		refusal{"openStack.credentials", "cloud maxLength", ref("cloud", long), "may not be more than 255"})
	for _, of := range []string{"credentials", "userData.secret", "userData.configMap", "userData.values"} {
		path, field, within := "openStack."+of, "", func(r map[string]any) any { return r }
		if what, ok := strings.CutPrefix(of, "userData."); ok {
			path, field = "openStack.userData", what+" "
			within = func(r map[string]any) any {
				data := map[string]any{what: r}
				if what == "values" {
					data["secret"] = ref("", "")
				}
				return data
			}
		}
		full := "spec.openStack." + of
		all = append(all,
			refusal{path, field + "required", within(ref("name", nil)), full + ".name: Required value"},
			refusal{path, field + "required", within(ref("namespace", nil)), full + ".namespace: Required value"},
			refusal{path, field + "name minLength", within(ref("name", "")), "at least 1 chars long"},
			refusal{path, field + "name maxLength", within(ref("name", long)), "may not be more than 253"},
			refusal{path, field + "namespace minLength", within(ref("namespace", "")), "at least 1 chars long"},
			refusal{path, field + "namespace maxLength", within(ref("namespace", long)), "may not be more than 63"})
		if of == "userData.secret" || of == "userData.configMap" {
			all = append(all,
				refusal{path, field + "key minLength", within(ref("key", "")), "at least 1 chars long"},
				refusal{path, field + "key maxLength", within(ref("key", long)), "may not be more than 253"})
		}
	}
	return all
}

// karpenterRefusals returns those of the properties of NodeClaims.
func karpenterRefusals() []refusal {
	const (
		required = "karpenter is required if provider is Karpenter, and must be unset otherwise"
		priced   = "pricing.list or pricing.catalogue is required if provider is Karpenter, because it lists the instance types"
		values   = "values must be set if operator is In, NotIn, Gt or Lt, and must be unset otherwise"
		in       = "operator must be In for topology.kubernetes.io/zone, karpenter.sh/capacity-type and kubernetes.io/arch, because the fleet names their values in each NodeClaim"
		capacity = "values of karpenter.sh/capacity-type must be on-demand, spot or reserved: Karpenter has no others"
		own      = "key must not be node.kubernetes.io/instance-type, for which instanceTypes is used, karpenter.sh/nodepool or kubernetes.io/hostname"
	)
	long := strings.Repeat("a", 317)
	of := func(key, operator string, values ...any) []any {
		r := map[string]any{"key": key, "operator": operator}
		if len(values) > 0 {
			r["values"] = values
		}
		return []any{r}
	}
	class := func(field string, value any) map[string]any {
		r := map[string]any{"group": "a.b", "kind": "A", "name": "a"}
		if r[field] = value; value == nil {
			delete(r, field)
		}
		return r
	}
	var many []any
	for i := range 51 {
		many = append(many, of(fmt.Sprintf("key-%d", i), "Exists")...)
	}
	labels := map[string]any{}
	for i := range 65 {
		labels[fmt.Sprintf("label-%d", i)] = "a"
	}
	all := []refusal{
		{"provider", required, "Karpenter", required},
		{"karpenter", priced, map[string]any{"nodeClassRef": class("", nil)}, priced},
		{"karpenter.instanceTypes", "minItems", []any{}, "should have at least 1 items"},
		{"karpenter.instanceTypes", "maxItems", manyNames(1001), "must have at most 1000 items"},
		{"karpenter.instanceTypes", "x-kubernetes-list-type", []any{"a", "a"}, `Duplicate value: "a"`},
		{"karpenter.instanceTypes", "[] pattern", []any{"m7i.[a"}, "should match"},
		{"karpenter.instanceTypes", "[] maxLength", []any{long[:64]}, "may not be more than 63"},
		{"karpenter.nodeClassRef", "required", nil, "spec.karpenter.nodeClassRef: Required value"},
		{"karpenter.nodeClassRef", "group pattern", class("group", "a/v1"), "should match"},
		{"karpenter.requirements", "[] " + values, of("a", "In"), values},
		{"karpenter.requirements", "[] " + values, of("a", "Exists", "b"), values},
		{"karpenter.requirements", "[] " + in, of("topology.kubernetes.io/zone", "NotIn", "a"), in},
		{"karpenter.requirements", "[] " + in, of("karpenter.sh/capacity-type", "Exists"), in},
		{"karpenter.requirements", "[] " + capacity, of("karpenter.sh/capacity-type", "In", "spot", "cheap"), capacity},
		{"karpenter.requirements", "[] " + own, of("node.kubernetes.io/instance-type", "In", "a"), own},
		{"karpenter.requirements", "[] " + own, of("karpenter.sh/nodepool", "Exists"), own},
		{"karpenter.requirements", "maxItems", many, "must have at most 50 items"},
		{"karpenter.requirements", "x-kubernetes-list-type", append(of("a", "Exists"), of("a", "Exists")...), "Duplicate value"},
		{"karpenter.requirements", "[].required", []any{map[string]any{"key": "a"}}, "operator: Required value"},
		{"karpenter.requirements", "[] key minLength", of("", "Exists"), "at least 1 chars long"},
		{"karpenter.requirements", "[] key maxLength", of(long, "Exists"), "may not be more than 316"},
		{"karpenter.requirements", "[] operator enum", of("a", "Is"), "Unsupported value"},
		{"karpenter.requirements", "[] values maxItems", of("a", "In", manyNames(101)...), "must have at most 100 items"},
		{"karpenter.requirements", "[] values x-kubernetes-list-type", of("a", "In", "b", "b"), `Duplicate value: "b"`},
		{"karpenter.requirements", "[] values[] maxLength", of("a", "In", long[:64]), "may not be more than 63"},
		{"karpenter.labels", "maxProperties", labels, "must have at most 64 items"},
		{"karpenter.expireAfter", "pattern", "1d", "should match"},
		{"karpenter.expireAfter", "maxLength", strings.Repeat("0", 32) + "5s", "may not be more than 32"},
		{"karpenter.terminationGracePeriod", "pattern", "1.5h", "should match"},
		{"karpenter.terminationGracePeriod", "maxLength", strings.Repeat("0", 32) + "5s", "may not be more than 32"},
	}
	for _, field := range []struct {
		name string
		most int
	}{{"group", 253}, {"kind", 63}, {"name", 253}} {
		all = append(all,
			refusal{"karpenter.nodeClassRef", "required", class(field.name, nil), "spec.karpenter.nodeClassRef." + field.name + ": Required value"},
			refusal{"karpenter.nodeClassRef", field.name + " maxLength", class(field.name, long[:field.most+1]), fmt.Sprintf("may not be more than %d", field.most)})
		if field.name != "group" {
			all = append(all, refusal{"karpenter.nodeClassRef", field.name + " minLength", class(field.name, ""), "at least 1 chars long"})
		}
	}
	for _, field := range []string{"taints", "startupTaints"} {
		all = append(all,
			refusal{"karpenter." + field, "maxItems", manyTaints(33), "must have at most 32 items"},
			refusal{"karpenter." + field, "[] required", []any{map[string]any{"key": "a"}}, "effect: Required value"})
	}
	return all
}

func manyTaints(n int) []any {
	all := make([]any, n)
	for i := range all {
		all[i] = map[string]any{"key": fmt.Sprintf("taint-%d", i), "effect": "NoSchedule"}
	}
	return all
}

func catalogue(namespace, name, key string) map[string]any {
	return map[string]any{"namespace": namespace, "name": name, "key": key}
}

func manyNames(n int) []any {
	all := make([]any, n)
	for i := range all {
		all[i] = fmt.Sprintf("flavor-%d", i)
	}
	return all
}

// fleetWith returns a valid NodeFleet with one field set, or removed by nil.
func fleetWith(t *testing.T, path string, value any) *unstructured.Unstructured {
	t.Helper()
	f := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"clusterAPI": map[string]any{"namespace": "default", "names": []any{"small"}}},
	}}
	if strings.HasPrefix(path, "openStack.") {
		f.Object["spec"] = map[string]any{"provider": "OpenStack", "openStack": map[string]any{
			"credentials": map[string]any{"namespace": "default", "name": "clouds"}, "image": "node", "networks": []any{"net"},
		}}
	}
	if strings.HasPrefix(path, "karpenter.") {
		f.Object["spec"] = map[string]any{"provider": "Karpenter", "pricing": map[string]any{"list": "aws", "region": "us-east-1"}, "karpenter": map[string]any{
			"nodeClassRef": map[string]any{"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
		}}
	}
	f.SetAPIVersion("supercargo.dev/v1alpha1")
	f.SetKind("NodeFleet")
	f.SetName("tried")
	if path == "" {
		return f
	}
	fields := append([]string{"spec"}, strings.Split(path, ".")...)
	if value == nil {
		unstructured.RemoveNestedField(f.Object, fields...)
	} else if err := unstructured.SetNestedField(f.Object, value, fields...); err != nil {
		t.Fatal(err)
	}
	return f
}

// try returns the API server's error for a fleet.
func (b *bench) try(f *unstructured.Unstructured) error {
	return b.Create(b.Context(), f, client.DryRunAll)
}

func TestABadFleetIsRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	b := newBench(t, "refused")
	for _, r := range refusals() {
		err := b.try(fleetWith(t, r.path, r.value))
		if !apierrors.IsInvalid(err) {
			t.Errorf("spec.%s = %.60v: %v; want it to be refused as invalid", r.path, r.value, err)
		} else if !strings.Contains(err.Error(), r.says) || !strings.Contains(err.Error(), "spec") {
			t.Errorf("spec.%s = %.60v: refused, but not with %q:\n%v", r.path, r.value, r.says, err)
		}
	}
}

func TestEveryRuleOfAFleetHasABreachInTheTable(t *testing.T) {
	t.Parallel()
	crd, err := kit.ReadCRD("crd/supercargo.dev_nodefleets.yaml")
	if err != nil {
		t.Fatal(err)
	}
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	rules := schemaRules("", &spec)
	broken := map[string]bool{}
	for _, r := range refusals() {
		broken[words(r.path+" "+r.rule)] = true
		whole := r.path[:max(0, strings.LastIndex(r.path, "."))]
		broken[words(whole+" "+r.rule)] = true // it may be a rule on the parent of the field
	}
	for _, rule := range rules {
		if !broken[words(rule)] {
			t.Errorf("nothing in the table breaks %q", rule)
		}
	}
	if len(rules) < 100 {
		t.Errorf("only %d rules were found", len(rules))
	}
}

// words normalizes a path and a rule, wherever one ends and the other begins.
func words(s string) string {
	return strings.Join(strings.Fields(strings.NewReplacer(".", " ", "[]", " [] ").Replace(s)), " ")
}

// schemaRules lists the constraints of a schema, as path and rule.
func schemaRules(path string, s *apiextensionsv1.JSONSchemaProps) []string {
	var found []string
	add := func(is bool, rule string) {
		if is {
			found = append(found, path+" "+rule)
		}
	}
	add(s.Pattern != "", "pattern")
	add(len(s.Enum) > 0, "enum")
	add(s.Minimum != nil, "minimum")
	add(s.Maximum != nil, "maximum")
	add(s.MinLength != nil, "minLength")
	add(s.MaxLength != nil, "maxLength")
	add(s.MinItems != nil, "minItems")
	add(s.MaxItems != nil, "maxItems")
	add(len(s.Required) > 0, "required")
	add(s.XListType != nil && *s.XListType == "set", "x-kubernetes-list-type")
	for _, v := range s.XValidations {
		add(true, v.Message)
	}
	for name := range s.Properties {
		child := s.Properties[name]
		found = append(found, schemaRules(strings.TrimPrefix(path+"."+name, "."), &child)...)
	}
	if s.Items != nil {
		found = append(found, schemaRules(path+"[]", s.Items.Schema)...)
	}
	return found
}

func TestWhatIsJustWithinTheBoundsIsTaken(t *testing.T) {
	t.Parallel()
	b := newBench(t, "taken")
	for _, d := range durations {
		for _, value := range []string{d.least, d.most} {
			if err := b.try(fleetWith(t, d.path, value)); err != nil {
				t.Errorf("spec.%s = %s: %v", d.path, value, err)
			}
		}
	}
	for path, values := range map[string][]any{
		"clusterAPI.names":               {manyNames(1000), []any{strings.Repeat("a", 253)}},
		"limits.machines":                {int64(0), int64(100_000)},
		"limits.cpu":                     {int64(0), "0", "500m", "1000"},
		"limits.memory":                  {int64(0), "0", "64Gi"},
		"limits.dollarsPerHour":          {"0", "12.50", "999999999.999999"},
		"consolidation.thresholdPercent": {int64(0), int64(100)},
		"consolidation.maxUnavailable":   {"0", "1", "999999", "0%", "7%", "99%", "100%"},
		"scaling":                        {map[string]any{"batchIdle": "1h", "batchMax": "1h"}, map[string]any{"batchIdle": "0s", "batchMax": "0s"}},
		"pricing.catalogue":              {catalogue("a", "a", "a")},
		"openStack.maxPods":              {int64(1), int64(10_000)},
		"openStack.flavors":              {manyNames(500)},
		"openStack.nodeTaints":           {manyTaints(32)},
	} {
		for _, value := range values {
			if err := b.try(fleetWith(t, path, value)); err != nil {
				t.Errorf("spec.%s = %.60v: %v", path, value, err)
			}
		}
	}
}

func TestWhatAFleetDoesNotSayIsFilledIn(t *testing.T) {
	t.Parallel()
	b := newBench(t, "defaults")
	f := fleetWith(t, "pricing.catalogue", map[string]any{"namespace": "default", "name": "prices"})
	if err := b.try(f); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"class": "Any", "mode": "Act", "provider": "ClusterAPI", "deletionPolicy": "Keep",
		"clusterAPI": map[string]any{"namespace": "default", "names": []any{"small"}},
		"pricing": map[string]any{
			"billingPeriod": "1m", "interruptionsPerHour": "0.05", "catalogue": map[string]any{"namespace": "default", "name": "prices", "key": "flavors.csv"},
		},
		"scaling": map[string]any{
			"interval": "1m", "batchIdle": "1s", "batchMax": "10s", "joinTimeout": "15m", "backOff": "5m", "expectedLag": "2m", "maxWait": "0s",
			"expendablePodsPriorityCutoff": int64(-10),
		},
		"consolidation": map[string]any{
			"policy": "WhenUnderUsed", "evictServices": "OptOut", "thresholdPercent": int64(50), "after": "0s", "queueEmptyFor": "1m", "maxUnavailable": "10%", "drainTimeout": "10m",
			"horizon": "1h", "releaseDelay": "3s", "drifted": "Replace", "unhealthyConditions": []any{
				map[string]any{"type": "KernelDeadlock", "status": "True", "duration": "10m"}, map[string]any{"type": "ReadonlyFilesystem", "status": "True", "duration": "10m"},
			},
		},
	}
	if diff := cmp.Diff(want, f.Object["spec"]); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}
