package plancheck_test

import (
	"strings"
	"testing"

	"supercargo.dev/supercargo/cli/planfile"
	"supercargo.dev/supercargo/test/kit/testfile"
	"supercargo.dev/supercargo/test/plancheck"
)

const (
	flavors = "name,cpu,memory_gib,price_per_hour,arch,max_pods,zones,taints\n" +
		"small,2,4,0.1,,2,a;b,\n" +
		"arm,2,4,0.1,arm64,2,,\n" +
		"dear,9,9,9,,,a,only=few:NoSchedule\n"
	pods = "name,cpu_milli,memory_mib,count,arch\nweb,1000,1024,3,\nedge,1000,1,,arm64\nhuge,9999,1,,\n"
	good = `{"machines": [{"flavor": "small", "count": 2}, {"flavor": "arm", "count": 1}], "pricePerHour": 0.3, "lowerBoundPerHour": 0.2,
		"purchases": [{"machine": "small-0", "flavor": "small", "zone": "a"}, {"machine": "small-1", "flavor": "small", "zone": "b"}, {"machine": "arm-0", "flavor": "arm"}],
		"assignments": [{"pod": "web-0", "machine": "small-0"}, {"pod": "web-1", "machine": "small-0"}, {"pod": "web-2", "machine": "small-1"}, {"pod": "edge", "machine": "arm-0"}],
		"unplaceable": [{"pod": "huge", "reason": "is too large"}]}`
)

// verdict checks a plan as JSON.
func verdict(t *testing.T, podsFile, pods, plan string) string {
	t.Helper()
	read, err := planfile.ReadPods(podsFile, strings.NewReader(pods))
	if err != nil {
		t.Fatal(err)
	}
	machines, err := planfile.ReadFlavors("flavors.csv", strings.NewReader(flavors))
	if err != nil {
		t.Fatal(err)
	}
	var d planfile.Document
	testfile.JSON(t, plan, &d)
	if err := plancheck.Plan(read.Pods, machines, d); err != nil {
		return err.Error()
	}
	return ""
}

func TestAGoodPlanPasses(t *testing.T) {
	if got := verdict(t, "pods.csv", pods, good); got != "" {
		t.Error(got)
	}
}

func TestEveryKindOfBadPlanIsFound(t *testing.T) {
	tests := []struct{ name, old, changed, want string }{
		{"too much on a machine", `"web-2", "machine": "small-1"`, `"web-2", "machine": "small-0"`, "machine small-0 is over-filled: CPU -1000m and 1073741824 bytes left, 3 pods of 2"},
		{"nobody on a machine", `"web-2", "machine": "small-1"`, `"web-2", "machine": "small-0"`, "machine small-1 is bought for nobody"},
		{"the wrong architecture", `"web-2", "machine": "small-1"}, {"pod": "edge", "machine": "arm-0"`, `"web-2", "machine": "arm-0"}, {"pod": "edge", "machine": "small-1"`, "pod edge needs arm64 and is on small-1, which is amd64"},
		{"a pod forgotten", `{"pod": "web-0", "machine": "small-0"}, `, "", "1 pods are neither assigned nor unplaceable"},
		{"a pod twice", `{"pod": "web-1", "machine": "small-0"}`, `{"pod": "web-0", "machine": "small-0"}`, "pod web-0 is there twice"},
		{"a pod both ways", `"pod": "huge"`, `"pod": "edge"`, "pod edge is there twice"},
		{"a pod of somebody else", `"pod": "huge"`, `"pod": "vast"`, "pod vast is there twice or no pod of the input"},
		{"no reason", `"is too large"`, `""`, "pod huge is unplaceable without a reason"},
		{"a machine that is not bought", `"web-2", "machine": "small-1"`, `"web-2", "machine": "small-2"`, "pod web-2 is assigned to small-2, which is not bought"},
		{"a gap in the names", `"small-1"`, `"small-7"`, "none is called small-1"},
		{"a wrong count", `"count": 2`, `"count": 3`, "3 machines of flavor small are counted, 2 bought"},
		{"a missing count", `, {"flavor": "arm", "count": 1}`, "", "1 machines of flavor arm are bought and not counted"},
		{"an unknown flavor", `"flavor": "arm"}`, `"flavor": "leg"}`, `of no known flavor "leg"`},
		{"an unknown zone", `"zone": "b"`, `"zone": "c"`, `machine small-1 is in zone "c", want one of ["a" "b"]`},
		{"no zone", `, "zone": "b"`, ``, `machine small-1 is in zone "", want one of`},
		{"a wrong price", `"pricePerHour": 0.3`, `"pricePerHour": 0.2`, "the price is given as 0.2, the machines cost 300000 millionths"},
		{"a bound above the price", `"lowerBoundPerHour": 0.2`, `"lowerBoundPerHour": 0.4`, "the lower bound 0.4 is above the price 0.3"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			bad := strings.ReplaceAll(good, tc.old, tc.changed)
			if bad == good {
				t.Fatalf("the plan has no %s", tc.old)
			}
			if got := verdict(t, "pods.csv", pods, bad); !strings.Contains(got, tc.want) {
				t.Errorf("verdict is %q, want %q", got, tc.want)
			}
		})
	}
}

func TestEachWayToOverfillAMachineIsFound(t *testing.T) {
	const one = `{"machines": [{"flavor": "small", "count": 1}], "pricePerHour": 0.1, "purchases": [{"machine": "small-0", "flavor": "small", "zone": "a"}],
		"assignments": [{"pod": "p-0", "machine": "small-0"}, {"pod": "p-1", "machine": "small-0"}]}`
	const three = `{"machines": [{"flavor": "small", "count": 1}], "pricePerHour": 0.1, "purchases": [{"machine": "small-0", "flavor": "small", "zone": "a"}],
		"assignments": [{"pod": "p-0", "machine": "small-0"}, {"pod": "p-1", "machine": "small-0"}, {"pod": "p-2", "machine": "small-0"}]}`
	for _, tc := range []struct{ pods, plan, want string }{
		{"p,1000,2048,2", one, ""},
		{"p,1001,2048,2", one, "CPU -2m and 0 bytes left, 2 pods of 2"},
		{"p,1000,2049,2", one, "CPU 0m and -2097152 bytes left, 2 pods of 2"},
		{"p,1,1,3", three, "3 pods of 2"},
	} {
		got := verdict(t, "pods.csv", "name,cpu_milli,memory_mib,count\n"+tc.pods+"\n", tc.plan)
		if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
			t.Errorf("%s: verdict is %q, want %q", tc.pods, got, tc.want)
		}
	}
}

// A pod with affinity to another pod waits for it, regardless of other pods.
func TestPodsAreBoundInAnOrderThatWorks(t *testing.T) {
	pod := func(name, app, demands string) string {
		return "---\napiVersion: v1\nkind: Pod\nmetadata: {name: " + name + ", labels: {app: " + app + "}}\nspec:\n  containers: [{name: c, image: i}]\n" + demands
	}
	near := func(app string) string {
		return "  affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: topology.kubernetes.io/zone, labelSelector: {matchLabels: {app: " + app + "}}}]}}\n"
	}
	text := pod("a", "web", near("cache")) + pod("b", "cache", near("db")) + pod("c", "other", "") + pod("d", "db", "")
	const plan = `{"machines": [{"flavor": "small", "count": 2}], "pricePerHour": 0.2,
		"purchases": [{"machine": "small-0", "flavor": "small", "zone": "a"}, {"machine": "small-1", "flavor": "small", "zone": "Z"}],
		"assignments": [{"pod": "a", "machine": "small-0"}, {"pod": "b", "machine": "small-0"}, {"pod": "c", "machine": "small-1"}, {"pod": "d", "machine": "small-1"}]}`
	if got := verdict(t, "pods.yaml", text, strings.ReplaceAll(plan, `"Z"`, `"a"`)); got != "" {
		t.Errorf("all in one zone: %s", got)
	}
	if got := verdict(t, "pods.yaml", text, strings.ReplaceAll(plan, `"Z"`, `"b"`)); !strings.Contains(got, "pod a cannot be bound") || !strings.Contains(got, "pod b cannot be bound") {
		t.Errorf("the database in another zone: verdict is %q, want that a and b cannot be bound", got)
	}
}

func TestDemandsOfManifestsAreChecked(t *testing.T) {
	pod := func(name, spec string) string {
		return "---\napiVersion: v1\nkind: Pod\nmetadata: {name: " + name + ", labels: {app: web}}\nspec:\n  containers: [{name: c, image: i, resources: {requests: {cpu: 500m}}}]\n" + spec
	}
	const apart = "  affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}]}}\n"
	const spread = "  topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}]\n"
	const two = `{"machines": [{"flavor": "small", "count": 2}], "pricePerHour": 0.2,
		"purchases": [{"machine": "small-0", "flavor": "small", "zone": "a"}, {"machine": "small-1", "flavor": "small", "zone": "Z"}],
		"assignments": [{"pod": "p", "machine": "small-0"}, {"pod": "q", "machine": "M"}, {"pod": "r", "machine": "small-1"}]}`
	place := func(machine, zone string) string {
		return strings.NewReplacer(`"M"`, `"`+machine+`"`, `"Z"`, `"`+zone+`"`).Replace(two)
	}
	for _, tc := range []struct{ name, pods, plan, want string }{
		{"apart and so they are", pod("p", apart) + pod("q", "") + pod("r", apart), place("small-0", "b"), "cannot be bound to small-0"},
		{"a node selector that fits", pod("p", "  nodeSelector: {topology.kubernetes.io/zone: a}\n") + pod("q", "") + pod("r", ""), place("small-0", "b"), ""},
		{"a node selector that does not", pod("p", "  nodeSelector: {topology.kubernetes.io/zone: b}\n") + pod("q", "") + pod("r", ""), place("small-0", "b"), "pod p may not be on small-0: "},
		{"spread over zones", pod("p", spread) + pod("q", spread) + pod("r", spread), place("small-1", "b"), ""},
		{"host ports that clash", strings.ReplaceAll(pod("p", "")+pod("q", "")+pod("r", ""), "image: i,", "image: i, ports: [{containerPort: 80, hostPort: 80}],"), place("small-0", "a"), "pod q cannot be bound to small-0 after the others: host port 80"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := verdict(t, "pods.yaml", tc.pods, tc.plan)
			if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("verdict is %q, want %q", got, tc.want)
			}
		})
	}
}

func TestASpreadIsCountedByZone(t *testing.T) {
	const spread = `  topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}]
`
	var text strings.Builder
	for _, name := range []string{"p", "q", "r", "s"} {
		text.WriteString("---\napiVersion: v1\nkind: Pod\nmetadata: {name: " + name + ", labels: {app: web}}\nspec:\n  containers: [{name: c, image: i}]\n" + spread)
	}
	const plan = `{"machines": [{"flavor": "small", "count": 3}], "pricePerHour": 0.3,
		"purchases": [{"machine": "small-0", "flavor": "small", "zone": "a"}, {"machine": "small-1", "flavor": "small", "zone": "b"}, {"machine": "small-2", "flavor": "small", "zone": "Z"}],
		"assignments": [{"pod": "p", "machine": "small-0"}, {"pod": "q", "machine": "small-0"}, {"pod": "r", "machine": "small-1"}, {"pod": "s", "machine": "small-2"}]}`
	if got := verdict(t, "pods.yaml", text.String(), strings.ReplaceAll(plan, `"Z"`, `"b"`)); got != "" {
		t.Errorf("two in each zone: %s", got)
	}
	if got := verdict(t, "pods.yaml", text.String(), strings.ReplaceAll(plan, `"Z"`, `"a"`)); !strings.Contains(got, "topology spread over topology.kubernetes.io/zone exceeds skew 1") {
		t.Errorf("three in one zone and one in the other: verdict is %q", got)
	}
}

func TestTaintsKeepPodsAway(t *testing.T) {
	const plan = `{"machines": [{"flavor": "dear", "count": 1}], "pricePerHour": 9,
		"purchases": [{"machine": "dear-0", "flavor": "dear", "zone": "a"}], "assignments": [{"pod": "p", "machine": "dear-0"}]}`
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers: [{name: c, image: i}]\n"
	if got := verdict(t, "pods.yaml", pod, plan); !strings.Contains(got, "pod p may not be on dear-0: ") {
		t.Errorf("verdict is %q, want that the taint keeps it away", got)
	}
	if got := verdict(t, "pods.yaml", pod+"  tolerations: [{key: only, operator: Exists}]\n", plan); got != "" {
		t.Errorf("with a toleration: %s", got)
	}
}
