package adopt

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/pricelist"
)

const (
	sizes  = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size: '1', cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size: '9'"
	priced = "supercargo.dev/price-per-hour: '0.192'"
)

// aGroup returns a node group of Cluster prod in namespace capi with these annotations. name may have a namespace.
func aGroup(kind, name, annotations string) Object {
	namespace, name, found := strings.Cut(name, "/")
	if !found {
		namespace, name = "capi", namespace
	}
	var fields map[string]any
	text := fmt.Sprintf("{apiVersion: cluster.x-k8s.io/v1beta2, kind: %s, metadata: {name: %s, namespace: %s, labels: {pool: workers, name: %s}, annotations: {%s}}, spec: {clusterName: prod, template: {spec: {infrastructureRef: {kind: AWSMachineTemplate}}}}}",
		kind, name, namespace, name, annotations)
	if err := yaml.Unmarshal([]byte(text), &fields); err != nil {
		panic(err)
	}
	return Object{Where: kind + " " + namespace + "/" + name, Fields: fields}
}

// adoptGroups adopts node groups, and returns the document and the notes as text.
func adoptGroups(t *testing.T, want Wanted, around Around, groups ...Object) (*Document, string) {
	t.Helper()
	want.Groups = true
	source, _, err := Gather(groups, &want)
	if err != nil {
		t.Fatal(err)
	}
	d, err := Convert(source, &around)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, n := range d.Notes {
		fmt.Fprintf(&b, "%s | %s | %s | %s | %s\n", n.Object, n.Field, n.Value, n.Difference, n.Action)
	}
	return d, b.String()
}

func TestTheMachineDeploymentsThatClusterAutoscalerScalesAreAFleet(t *testing.T) {
	all := []Object{aGroup(DeploymentKind, "b", sizes+", "+priced), aGroup(DeploymentKind, "a", sizes+", "+priced), aGroup(DeploymentKind, "control", "")}
	workers := &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "workers"}}
	for _, tc := range []struct {
		name   string
		want   Wanted
		groups []Object
		into   v1alpha1.ClusterAPIFlavors
	}{
		{"by name, in order", Wanted{}, all, v1alpha1.ClusterAPIFlavors{Names: []string{"a", "b"}}},
		{"by a selector that selects no other", Wanted{Selector: "pool=workers"}, all[:2], v1alpha1.ClusterAPIFlavors{Selector: workers}},
		{"by name, because the selector selects another", Wanted{Selector: "pool=workers"}, all, v1alpha1.ClusterAPIFlavors{Names: []string{"a", "b"}}},
		{"by an expression", Wanted{Selector: "name in (a)"}, all, v1alpha1.ClusterAPIFlavors{Selector: &metav1.LabelSelector{
			MatchLabels: map[string]string{}, MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "name", Operator: metav1.LabelSelectorOpIn, Values: []string{"a"}}},
		}}},
	} {
		d, notes := adoptGroups(t, tc.want, Around{}, tc.groups...)
		tc.into.Namespace, tc.into.ClusterName = "capi", "prod"
		want := newFleet("prod", Spec{Provider: v1alpha1.FleetClusterAPI, ClusterAPI: &tc.into, Consolidation: &Consolidation{
			Policy: v1alpha1.ConsolidateWhenUnderUsed, ThresholdPercent: new(int32(50)), After: "10m",
		}})
		if diff := cmp.Diff([]Fleet{want}, d.Items, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
		if left := len(tc.groups) == 3 && tc.into.Names != nil; strings.Contains(notes, "MachineDeployment capi/control | metadata.annotations | ") != left {
			t.Errorf("%s: notes:\n%s", tc.name, notes)
		}
	}
}

func TestEachClusterIsAFleetOfItsOwn(t *testing.T) {
	other := aGroup(DeploymentKind, "c", sizes)
	other.Fields["spec"].(map[string]any)["clusterName"] = "test"
	pool := Object{Where: "NodePool test", Fields: aPool("{}")}
	pool.Fields["metadata"].(map[string]any)["name"] = "test"
	pool.Fields["apiVersion"], pool.Fields["kind"] = PoolVersion, PoolKind
	source, around, err := Gather([]Object{aGroup(DeploymentKind, "a", sizes), other, aGroup(DeploymentKind, "far/a", sizes), pool}, &Wanted{Groups: true, Pools: true})
	if err != nil {
		t.Fatal(err)
	}
	d, err := Convert(source, around)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range d.Items {
		of := ""
		if c := f.Spec.ClusterAPI; c != nil {
			of = fmt.Sprintf(" %s/%s %v", c.Namespace, c.ClusterName, c.Names)
		}
		got = append(got, f.Metadata.Name+of)
	}
	if diff := cmp.Diff([]string{"capi-test capi/test [c]", "far-prod far/prod [a]", "prod capi/prod [a]", "test"}, got); diff != "" {
		t.Errorf("fleets (-want +got):\n%s", diff)
	}
}

func TestAnnotationsAreReadOrListed(t *testing.T) {
	const capacity, options = "capacity.cluster-autoscaler.kubernetes.io/", "cluster.x-k8s.io/autoscaling-options-"
	for _, tc := range []struct{ annotation, says string }{
		{capacity + "cpu: '4'", ""},
		{capacity + "memory: 16Gi", ""},
		{capacity + "maxPods: '110'", ""},
		{capacity + "labels: a=b", ""},
		{capacity + "taints: a=b:NoSchedule", ""},
		{options + "maxnodeprovisiontime: 20m", ""},
		{options + "scaledownutilizationthreshold: '0.4'", ""},
		{options + "scaledownunneededtime: 5m", ""},
		{"other: x", ""},
		{capacity + "ephemeral-disk: 100Gi", ""},
		{capacity + "gpu-type: nvidia.com/gpu", ""},
		{capacity + "gpu-count: '1'", ""},
		{capacity + "csi-driver: ebs.csi.aws.com=25", ""},
		{capacity + "dra-driver: gpu.nvidia.com", "gpu.nvidia.com | A fleet ignores this annotation."},
		{options + "scaledownunreadytime: 20m", "20m | A fleet ignores this annotation."},
		{options + "scaledowngpuutilizationthreshold: '0.5'", "0.5 | A fleet ignores this annotation."},
		{"cluster.x-k8s.io/cluster-api-autoscaler-node-group-novelty: x", "x | A fleet ignores this annotation."},
		{"cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size: few", "few | This is not a number of machines"},
		{"cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size: '-1'", "-1 | This is not a number of machines"},
	} {
		key, _, _ := strings.Cut(tc.annotation, ": ")
		all := tc.annotation + ", " + priced
		if !strings.Contains(key, "max-size") {
			all += ", cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size: '9'"
		}
		_, notes := adoptGroups(t, Wanted{}, Around{}, aGroup(DeploymentKind, "a", all))
		if listed := strings.Contains(notes, "MachineDeployment capi/a | "+key); listed != (tc.says != "") || !strings.Contains(notes, tc.says) {
			t.Errorf("%s: notes:\n%s\nwant %q", tc.annotation, notes, tc.says)
		}
	}
}

func TestMachinesWithoutAPriceAreListed(t *testing.T) {
	const annotate = "Run: kubectl annotate machinedeployment -n capi a supercargo.dev/price-per-hour=DOLLARS"
	for _, tc := range []struct {
		name, annotations string
		around            Around
		says              string
		list              *Pricing
	}{
		{"a price", priced, Around{}, "", nil},
		{"no price", "other: x", Around{}, "A fleet does not buy machines without a price. | " + annotate + "\n", nil},
		{"no price that can be read", "supercargo.dev/price-per-hour: much", Around{}, annotate + " --overwrite", nil},
		{"a list price", "other: x", Around{Region: "us-east-1", Prices: pricelist.Read}, "", &Pricing{List: "aws", Region: "us-east-1"}},
		{"no list of that region", "other: x", Around{Region: "eu-west-1", Prices: pricelist.Read}, annotate, nil},
	} {
		d, notes := adoptGroups(t, Wanted{}, tc.around, aGroup(DeploymentKind, "a", sizes+", "+tc.annotations))
		if listed := strings.Contains(notes, "price-per-hour"); listed != (tc.says != "") || !strings.Contains(notes, tc.says) {
			t.Errorf("%s: notes:\n%s\nwant %q", tc.name, notes, tc.says)
		}
		if diff := cmp.Diff(tc.list, d.Items[0].Spec.Pricing); diff != "" {
			t.Errorf("%s: pricing (-want +got):\n%s", tc.name, diff)
		}
	}
}

func TestMachineSetsAndMachinePoolsAreListed(t *testing.T) {
	owned := aGroup(SetKind, "a-x7k2p", sizes)
	owned.Fields["metadata"].(map[string]any)["ownerReferences"] = []any{map[string]any{"kind": DeploymentKind, "name": "a"}}
	d, notes := adoptGroups(t, Wanted{}, Around{}, aGroup(DeploymentKind, "a", sizes+", "+priced), owned, aGroup(SetKind, "alone", sizes), aGroup(MachinePool, "pool", sizes), aGroup(SetKind, "not", ""))
	if len(d.Items) != 1 || strings.Contains(notes, "a-x7k2p") || strings.Contains(notes, "capi/not") ||
		!strings.Contains(notes, "MachineSet capi/alone | metadata.annotations") || !strings.Contains(notes, "A fleet scales MachineDeployments, but no MachinePools.") {
		t.Errorf("%d fleets, notes:\n%s", len(d.Items), notes)
	}
	d, notes = adoptGroups(t, Wanted{}, Around{}, aGroup(MachinePool, "pool", sizes))
	if len(d.Items) != 0 || len(d.Steps) != 0 || notes == "" {
		t.Errorf("a MachinePool alone: %d fleets, %d steps, notes:\n%s", len(d.Items), len(d.Steps), notes)
	}
}

func TestInvalidMachineDeploymentsAreRefusedWithTheField(t *testing.T) {
	broken := func(field string, value any) Object {
		o := aGroup(DeploymentKind, "a", sizes)
		at := o.Fields
		path := strings.Split(field, ".")
		for _, key := range path[:len(path)-1] {
			at = at[key].(map[string]any)
		}
		at[path[len(path)-1]] = value
		return o
	}
	for field, value := range map[string]any{"metadata.namespace": "", "spec.clusterName": "a'b", "metadata.annotations": 3.0} {
		source := &Source{Groups: []Object{broken(field, value)}}
		if _, err := Convert(source, &Around{}); err == nil || !strings.HasPrefix(err.Error(), "MachineDeployment capi/a: "+field+": ") {
			t.Errorf("%s: %v", field, err)
		}
	}
	many := &Source{}
	for i := range mostNames + 1 {
		many.Groups = append(many.Groups, aGroup(DeploymentKind, fmt.Sprintf("md-%d", i), sizes))
	}
	if _, err := Convert(many, &Around{}); err == nil || !strings.Contains(err.Error(), "1001 MachineDeployments of Cluster prod: a fleet names at most 1000: select them by labels (-l)") {
		t.Errorf("1001 MachineDeployments: %v", err)
	}
}
