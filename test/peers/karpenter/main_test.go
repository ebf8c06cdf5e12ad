package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"supercargo.dev/supercargo/cli/planfile"
	"supercargo.dev/supercargo/test/plancheck"
)

// planned runs the program on files with this content, and returns its plan after checking it.
func planned(t *testing.T, podsFile, pods, flavors string) planfile.Document {
	t.Helper()
	dir := t.TempDir()
	podsFile, flavorsFile := filepath.Join(dir, podsFile), filepath.Join(dir, "flavors.csv")
	for path, content := range map[string]string{podsFile: pods, flavorsFile: flavors} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if err := run(t.Context(), podsFile, flavorsFile, &out); err != nil {
		t.Fatal(err)
	}
	var d planfile.Document
	if err := json.Unmarshal(out.Bytes(), &d); err != nil {
		t.Fatal(err)
	}
	input, err := planfile.ReadPods(podsFile, strings.NewReader(pods))
	if err != nil {
		t.Fatal(err)
	}
	machines, err := planfile.ReadFlavors(flavorsFile, strings.NewReader(flavors))
	if err != nil {
		t.Fatal(err)
	}
	if err := plancheck.Plan(input.Pods, machines, d); err != nil {
		t.Errorf("the plan is wrong: %v", err)
	}
	return d
}

// Four pods fill one large machine, which costs less than two small ones. The fifth
// needs another architecture, and the sixth is larger than any machine.
func TestKarpenterPlansOnOurFiles(t *testing.T) {
	d := planned(t, "pods.csv",
		"name,cpu_milli,memory_mib,count,arch\nweb,1000,2048,4,amd64\nedge,500,512,,arm64\nhuge,64000,1,,\n",
		"name,cpu,memory_gib,price_per_hour,arch,max_pods\nsmall,2,4,0.11,,\nlarge,4,8,0.2,amd64,4\narm,2,4,0.08,arm64,\n")
	if d.Algorithm != "karpenter" || math.Abs(d.PricePerHour-0.28) > 1e-9 || d.ElapsedMillis <= 0 {
		t.Errorf("plan by %s costs %v after %v ms, want 0.28", d.Algorithm, d.PricePerHour, d.ElapsedMillis)
	}
	if len(d.Unplaceable) != 1 || d.Unplaceable[0].Pod != "huge" || len(d.Assignments) != 5 {
		t.Errorf("%d pods are assigned and %v unplaceable, want 5 and huge", len(d.Assignments), d.Unplaceable)
	}
}

// A machine holds the number of pods in its flavor and no more.
func TestKarpenterRespectsTheNumberOfPods(t *testing.T) {
	d := planned(t, "pods.csv", "name,cpu_milli,memory_mib,count\nweb,1,1,7\n",
		"name,cpu,memory_gib,price_per_hour,max_pods\nsmall,2,4,0.1,3\n")
	if len(d.Purchases) != 3 || len(d.Assignments) != 7 {
		t.Errorf("%d machines for %d pods, want 3 for 7", len(d.Purchases), len(d.Assignments))
	}
}

func TestKarpenterRespectsDemands(t *testing.T) {
	const pod = `---
apiVersion: v1
kind: Pod
metadata: {name: NAME, labels: {app: web}}
spec:
  containers: [{name: c, image: i, resources: {requests: {cpu: 100m, memory: 1Mi}}}]
`
	const apart = "  affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}]}}\n"
	const spread = "  topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}]\n"
	const flavors = "name,cpu,memory_gib,price_per_hour,zones,labels,taints\n" +
		"small,2,4,0.1,a;b,,\nssd,2,4,0.2,a,disk=ssd,\nspot,2,4,0.01,a,,spot:NoSchedule\n"
	pods := func(demands string) string {
		return strings.ReplaceAll(pod, "NAME", "p") + demands + strings.ReplaceAll(pod, "NAME", "q") + demands
	}
	for _, tc := range []struct {
		name, demands string
		machines      int
		price         float64
	}{
		{"nothing", "", 1, 0.1},
		{"another node each", apart, 2, 0.2},
		{"another zone each", spread, 2, 0.2},
		{"a label", "  nodeSelector: {disk: ssd}\n", 1, 0.2},
		{"a taint that is tolerated", "  tolerations: [{key: spot, operator: Exists}]\n  nodeSelector: {node.kubernetes.io/instance-type: spot}\n", 1, 0.01},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := planned(t, "pods.yaml", pods(tc.demands), flavors)
			if len(d.Purchases) != tc.machines || math.Abs(d.PricePerHour-tc.price) > 1e-9 || len(d.Unplaceable) > 0 {
				t.Errorf("%d machines for %v and %v unplaceable, want %d for %v", len(d.Purchases), d.PricePerHour, d.Unplaceable, tc.machines, tc.price)
			}
		})
	}
}

func TestFilesThatAreNotThereAreAnError(t *testing.T) {
	if err := run(t.Context(), "none.csv", "none.csv", &bytes.Buffer{}); err == nil {
		t.Error("no error")
	}
}
