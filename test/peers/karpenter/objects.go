package main

import (
	"context"
	"time"

	"github.com/awslabs/operatorpkg/object"
	opstatus "github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/karpenter/kwok/apis/v1alpha1"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	"supercargo.dev/supercargo/cli/planfile"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/test/halfempty"
)

// poolName is the name of the only NodePool.
const poolName = "pool"

// cloud sells the flavors. Nothing else is asked of it.
type cloud struct {
	cloudprovider.CloudProvider // nil
	types                       []*cloudprovider.InstanceType
}

// GetInstanceTypes returns all instance types.
func (c *cloud) GetInstanceTypes(context.Context, *v1.NodePool) ([]*cloudprovider.InstanceType, error) {
	return c.types, nil
}

// IsDrifted reports that no claim has drifted.
func (c *cloud) IsDrifted(context.Context, *v1.NodeClaim) (cloudprovider.DriftReason, error) {
	return "", nil
}

// GetSupportedNodeClasses returns the kind to which the NodePool refers.
func (c *cloud) GetSupportedNodeClasses() []opstatus.Object {
	return []opstatus.Object{&v1alpha1.KWOKNodeClass{}}
}

// sold returns the flavors as those of the planner.
func sold(c *halfempty.Cluster) []planfile.Flavor {
	var all []planfile.Flavor
	for _, f := range c.Flavors {
		all = append(all, planfile.Flavor{Offer: catalogue.Offer{Zones: []string{f.Zone}, Flavor: catalogue.Flavor{Flavor: cluster.Flavor{
			Name: f.Name, Arch: planfile.DefaultArch, Size: packing.Size{MilliCPU: f.MilliCPU, MemoryBytes: f.MemoryBytes},
			MaxPods: new(int64(halfempty.MaxPods)), MicroDollarsPerHour: f.MicroDollarsPerHour,
		}}}})
	}
	return all
}

func newCloud(flavors []planfile.Flavor) *cloud {
	c := &cloud{}
	for _, f := range flavors {
		c.types = append(c.types, instanceType(f, sets.New[string]()))
	}
	return c
}

// newPool returns a NodePool with Karpenter's defaults, except the budget. It buys on demand only, as does that of AWS
// which states nothing.
func newPool(budget string) *v1.NodePool {
	p := &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: poolName, UID: poolName}}
	p.Spec.Template.Spec.NodeClassRef = nodeClass()
	p.Spec.Template.Spec.Requirements = []v1.NodeSelectorRequirementWithMinValues{
		{Key: v1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{v1.CapacityTypeOnDemand}},
	}
	p.Spec.Disruption = v1.Disruption{
		ConsolidateAfter: v1.MustParseNillableDuration("0s"), ConsolidationPolicy: v1.ConsolidationPolicyWhenEmptyOrUnderutilized,
		Budgets: []v1.Budget{{Nodes: budget}},
	}
	for _, c := range []string{v1.ConditionTypeValidationSucceeded, v1.ConditionTypeNodeClassReady} {
		p.StatusConditions().SetTrue(c)
	}
	return p
}

func nodeClass() *v1.NodeClassReference {
	kind := object.GVK(&v1alpha1.KWOKNodeClass{})
	return &v1.NodeClassReference{Group: kind.Group, Kind: kind.Kind, Name: "class"}
}

// machineLabels are the labels of a node that Karpenter has made.
func machineLabels(f *halfempty.Flavor, node string) map[string]string {
	return map[string]string{
		v1.NodePoolLabelKey: poolName, v1.NodeRegisteredLabelKey: "true", v1.NodeInitializedLabelKey: "true", v1.CapacityTypeLabelKey: v1.CapacityTypeOnDemand,
		corev1.LabelHostname: node, corev1.LabelInstanceTypeStable: f.Name, corev1.LabelTopologyZone: f.Zone,
		corev1.LabelArchStable: planfile.DefaultArch, corev1.LabelOSStable: string(corev1.Linux),
	}
}

func resources(f *halfempty.Flavor) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewMilliQuantity(f.MilliCPU, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(f.MemoryBytes, resource.BinarySI),
		corev1.ResourcePods: *resource.NewQuantity(halfempty.MaxPods, resource.DecimalSI),
	}
}

func providerID(node string) string { return "peer:///" + node }

// newNode returns a ready node. Its claim has the same name.
func newNode(f *halfempty.Flavor, name string, made time.Time) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("node-" + name), Labels: machineLabels(f, name), CreationTimestamp: metav1.NewTime(made)},
		Spec:       corev1.NodeSpec{ProviderID: providerID(name)},
	}
	n.Status.Capacity, n.Status.Allocatable = resources(f), resources(f)
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(made)}}
	return n
}

// newClaim returns the claim of a ready node.
func newClaim(f *halfempty.Flavor, name string, made time.Time) *v1.NodeClaim {
	c := &v1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("claim-" + name), CreationTimestamp: metav1.NewTime(made)}}
	c.Spec.NodeClassRef = nodeClass()
	launch(c, f)
	initialize(c)
	return c
}

// launch makes a claim have a machine of a flavor, whose node does not exist yet.
func launch(c *v1.NodeClaim, f *halfempty.Flavor) {
	labels := machineLabels(f, c.Name)
	delete(labels, v1.NodeRegisteredLabelKey)
	delete(labels, v1.NodeInitializedLabelKey)
	c.Labels = labels
	c.Status.ProviderID, c.Status.Capacity, c.Status.Allocatable = providerID(c.Name), resources(f), resources(f)
	c.StatusConditions().SetTrue(v1.ConditionTypeLaunched)
}

// initialize makes a claim have a ready node. It may be consolidated at once, as with consolidateAfter: 0s.
func initialize(c *v1.NodeClaim) {
	c.Labels[v1.NodeRegisteredLabelKey], c.Labels[v1.NodeInitializedLabelKey] = "true", "true"
	c.Status.NodeName = c.Name
	for _, condition := range []string{v1.ConditionTypeRegistered, v1.ConditionTypeInitialized, v1.ConditionTypeConsolidatable} {
		c.StatusConditions().SetTrue(condition)
	}
}

// newPod returns a running pod.
func newPod(p halfempty.Pod, s *halfempty.Service, made time.Time) *corev1.Pod {
	start := metav1.NewTime(made)
	labels := map[string]string{"app": s.Name}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.Namespace, Name: p.Name, UID: types.UID(p.Name), Labels: labels, CreationTimestamp: start,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: s.Name, UID: types.UID(s.Name), Controller: new(true)}},
	}}
	pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "registry.example.com/app:1.2.3", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewMilliQuantity(s.MilliCPU, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(s.MemoryBytes, resource.BinarySI),
	}}}}
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &start, Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionTrue},
	}}
	return pod
}
