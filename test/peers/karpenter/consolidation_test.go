package main

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakecr "sigs.k8s.io/controller-runtime/pkg/client/fake"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	"sigs.k8s.io/karpenter/pkg/test/v1alpha1"

	"supercargo.dev/supercargo/cli/planfile"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/lab/karpenter"
)

// seller is a cloud provider that only lists instance types.
type seller struct {
	cloudprovider.CloudProvider
	types []*cloudprovider.InstanceType
}

func (s seller) GetInstanceTypes(context.Context, *v1.NodePool) ([]*cloudprovider.InstanceType, error) {
	return s.types, nil
}

func (seller) GetSupportedNodeClasses() []status.Object {
	return []status.Object{&v1alpha1.TestNodeClass{}}
}

// valid is a validator that accepts each command immediately.
type valid struct{}

func (valid) Validate(_ context.Context, c disruption.Command, _ time.Duration) (disruption.Command, error) {
	return c, nil
}

// decision lists the nodes to remove, and the flavor that replaces them.
type decision struct {
	nodes  []string
	flavor string
}

func (d decision) String() string { return fmt.Sprintf("remove %v, buy %q", d.nodes, d.flavor) }

const pool = "pool"

// karpentersDecision returns the decision of Karpenter's own multi-node consolidation for a cluster with these nodes. If
// that finds nothing, it returns the decision of the single-node consolidation.
func karpentersDecision(t *testing.T, nodes []cluster.Node, flavors []planfile.Flavor) decision {
	t.Helper()
	ctx := options.ToContext(t.Context(), &options.Options{
		PreferencePolicy: options.PreferencePolicyRespect, MinValuesPolicy: options.MinValuesPolicyStrict, IgnoreDRARequests: true, CPURequests: 1000,
		BatchMaxDuration: 10 * time.Second,
	})
	byName := map[string]planfile.Flavor{}
	var cloud seller
	for _, f := range flavors {
		byName[f.Name] = f
		cloud.types = append(cloud.types, instanceType(f, sets.New[string]()))
	}
	objects := []client.Object{nodePool()}
	for i := range nodes {
		objects = append(objects, objectsOf(&nodes[i], byName[nodes[i].Flavor])...)
	}
	c := fakecr.NewClientBuilder().WithObjects(objects...).WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string {
		return []string{o.(*corev1.Pod).Spec.NodeName}
	}).Build()
	realtime, recorder := clock.RealClock{}, events.NewRecorder(&record.FakeRecorder{})
	seen := state.NewCluster(realtime, c, cloud)
	for _, o := range objects {
		var err error
		switch o := o.(type) {
		case *v1.NodeClaim:
			seen.UpdateNodeClaim(o)
		case *corev1.Node:
			err = seen.UpdateNode(ctx, o)
		case *corev1.Pod:
			err = seen.UpdatePod(ctx, o)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	seen.MarkUnconsolidated()
	provisioner := provisioning.NewProvisioner(c, recorder, cloud, seen, realtime, nil, nil)
	queue := disruption.NewQueue(c, recorder, seen, realtime, provisioner)
	all := disruption.MakeConsolidation(realtime, seen, c, provisioner, cloud, recorder, queue)
	for _, m := range []disruption.Method{
		disruption.NewMultiNodeConsolidation(all, disruption.WithValidator(valid{})),
		disruption.NewSingleNodeConsolidation(all, disruption.WithValidator(valid{})),
	} {
		candidates, err := disruption.GetCandidates(ctx, seen, c, recorder, realtime, cloud, m.ShouldDisrupt, m.Class(), queue)
		if err != nil {
			t.Fatal(err)
		}
		if len(candidates) != len(nodes) {
			t.Fatalf("%d of %d nodes are candidates", len(candidates), len(nodes))
		}
		commands, err := m.ComputeCommands(ctx, map[string]int{pool: len(nodes)}, candidates...)
		if err != nil {
			t.Fatal(err)
		}
		if len(commands) > 0 {
			return decisionOf(commands[0], byName)
		}
	}
	return decision{}
}

func decisionOf(c disruption.Command, byName map[string]planfile.Flavor) decision {
	var d decision
	for _, candidate := range c.Candidates {
		d.nodes = append(d.nodes, candidate.Name())
	}
	slices.Sort(d.nodes)
	for _, r := range c.Replacements {
		f, _ := cheapest(r.NodeClaim, byName)
		d.flavor = f.Name
	}
	return d
}

// nodePool returns a ready NodePool with default settings and without spot machines.
func nodePool() *v1.NodePool {
	p := &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: pool, UID: pool}}
	p.Spec.Template.Spec.NodeClassRef = &v1.NodeClassReference{Group: v1alpha1.Group, Kind: "TestNodeClass", Name: "class"}
	p.Spec.Template.Spec.Requirements = []v1.NodeSelectorRequirementWithMinValues{
		{Key: v1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{v1.CapacityTypeOnDemand}},
	}
	p.Spec.Disruption.ConsolidationPolicy = v1.ConsolidationPolicyWhenEmptyOrUnderutilized
	p.Spec.Disruption.ConsolidateAfter = v1.NillableDuration{Duration: new(time.Duration)}
	for _, c := range []string{v1.ConditionTypeValidationSucceeded, v1.ConditionTypeNodeClassReady, v1.ConditionTypeNodeRegistrationHealthy} {
		p.StatusConditions().SetTrue(c)
	}
	return p
}

// objectsOf returns the NodeClaim and Node of a node, and its pods.
func objectsOf(n *cluster.Node, f planfile.Flavor) []client.Object {
	labels := f.NodeLabels(nowhere)
	for key, value := range map[string]string{
		v1.NodePoolLabelKey: pool, v1.CapacityTypeLabelKey: v1.CapacityTypeOnDemand, v1.NodeRegisteredLabelKey: "true", v1.NodeInitializedLabelKey: "true",
		corev1.LabelHostname: n.Name,
	} {
		labels[key] = value
	}
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(f.Size.MilliCPU, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(f.Size.MemoryBytes, resource.BinarySI),
		corev1.ResourcePods:   *resource.NewQuantity(*f.MaxPods, resource.DecimalSI),
	}
	claim := &v1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: labels, UID: types.UID("claim-" + n.Name)}}
	claim.Spec.NodeClassRef = nodePool().Spec.Template.Spec.NodeClassRef
	claim.Status.ProviderID, claim.Status.NodeName, claim.Status.Capacity, claim.Status.Allocatable = "peer:///"+n.Name, n.Name, capacity, capacity
	for _, c := range []string{v1.ConditionTypeLaunched, v1.ConditionTypeRegistered, v1.ConditionTypeInitialized, v1.ConditionTypeConsolidatable} {
		claim.StatusConditions().SetTrue(c)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: labels, UID: types.UID("node-" + n.Name)}}
	node.Spec.ProviderID = claim.Status.ProviderID
	node.Status.Capacity, node.Status.Allocatable = capacity, capacity
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	all := []client.Object{claim, node}
	for i := range n.Pods {
		pods, _ := manifestsOf([]planfile.Pod{{Pod: n.Pods[i]}})
		pods[0].Spec.NodeName = n.Name
		pods[0].Status.Phase = corev1.PodRunning
		all = append(all, pods[0])
	}
	return all
}

// policysDecision returns the decision of the simulator's policy, with a budget of all nodes.
func policysDecision(nodes []cluster.Node, flavors []cluster.Flavor) decision {
	settings := karpenter.Defaults()
	settings.BudgetPercent = 100
	c := karpenter.New(settings)
	s := &cluster.State{Nodes: nodes, Flavors: flavors, MaxNodes: 100}
	now := time.Unix(0, 0)
	c.Decide(now, s)
	plan := c.Decide(now.Add(15*time.Second), s) // when the decision is validated
	var d decision
	for _, drain := range plan.Drains {
		d.nodes = append(d.nodes, drain.Node)
	}
	slices.Sort(d.nodes)
	for _, p := range plan.Buy {
		d.flavor = p.Flavor
	}
	return d
}

// drawNodes draws nodes with pods. No two have the same price per disruption, because Karpenter defines no tie rule.
func drawNodes(r *rand.Rand, flavors []cluster.Flavor) []cluster.Node {
	var nodes []cluster.Node
	for range 2 + r.IntN(7) {
		f := flavors[r.IntN(len(flavors))]
		n := cluster.Node{
			Name: fmt.Sprintf("node-%02d", len(nodes)), Flavor: f.Name, Class: class.Any, Capacity: f.Size, MaxPods: f.MaxPods, Arch: f.Arch,
			MicroDollarsPerHour: f.MicroDollarsPerHour, Phase: cluster.Ready,
		}
		for i := range 1 + r.IntN(5) {
			var p cluster.Pod
			p.Name = fmt.Sprintf("pod-%02d-%d", len(nodes), i)
			p.Size.MilliCPU, p.Size.MemoryBytes = 50*int64(1+r.IntN(60)), 64<<20*int64(1+r.IntN(64))
			if n.HasRoom(&p) {
				n.Pods = append(n.Pods, p)
			}
		}
		equal := func(o cluster.Node) bool {
			return n.MicroDollarsPerHour*int64(1+len(o.Pods)) == o.MicroDollarsPerHour*int64(1+len(n.Pods))
		}
		if len(n.Pods) > 0 && !slices.ContainsFunc(nodes, equal) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// The simulator's policy karpenter removes and buys the same machines as Karpenter's own consolidation.
func TestThePolicyConsolidatesAsKarpenterDoes(t *testing.T) {
	const cases = 200
	removed, replaced, several := 0, 0, 0
	for seed := range uint64(cases) {
		r := rand.New(rand.NewPCG(seed, 1))
		_, flavors := draw(r, 1)
		var sold []cluster.Flavor
		for i := range flavors {
			sold = append(sold, flavors[i].Flavor.Flavor)
		}
		slices.SortFunc(sold, func(a, b cluster.Flavor) int { return cmp.Compare(a.Name, b.Name) })
		nodes := drawNodes(r, sold)
		if len(nodes) == 0 {
			continue
		}
		got, want := policysDecision(nodes, sold), karpentersDecision(t, nodes, flavors)
		if got.String() != want.String() {
			t.Errorf("seed %d, %d nodes: %v; Karpenter: %v", seed, len(nodes), got, want)
		}
		removed += len(want.nodes)
		if len(want.nodes) > 1 {
			several++
		}
		if want.flavor != "" {
			replaced++
		}
	}
	t.Logf("%d clusters: %d nodes removed, %d replacements, %d times several nodes", cases, removed, replaced, several)
	if removed == 0 || replaced == 0 || several == 0 {
		t.Error("some kind of decision is not covered")
	}
}
