package main

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	fakecr "sigs.k8s.io/controller-runtime/pkg/client/fake"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	requirement "sigs.k8s.io/karpenter/pkg/scheduling"

	"supercargo.dev/supercargo/cli/planfile"
)

// nowhere is the zone of flavors without a zone, because a Karpenter offering needs one.
const nowhere = "zone"

// solve runs Karpenter's provisioning scheduler once on the pods, and returns its plan. It measures only the
// time of Solve.
//
// The conditions favor Karpenter: no DaemonSet pods, no system reservation beyond what the flavors already
// exclude, all preferences respected, no timeout, all processors. Of the instance types that Karpenter allows
// for a node, the plan uses the cheapest.
func solve(ctx context.Context, pods []planfile.Pod, flavors []planfile.Flavor) (planfile.Document, error) {
	ctx = options.ToContext(injection.WithControllerName(ctx, "provisioner"), &options.Options{
		PreferencePolicy: options.PreferencePolicyRespect, MinValuesPolicy: options.MinValuesPolicyStrict,
	})
	pools, types := nodePools(flavors)
	manifests, nameOf := manifestsOf(pods)
	client := fakecr.NewClientBuilder().Build()
	realtime := clock.RealClock{}
	cluster := state.NewCluster(realtime, client, nil)
	concurrently := scheduling.NumConcurrentReconciles(runtime.GOMAXPROCS(0))
	topology, err := scheduling.NewTopology(ctx, client, cluster, nil, pools, types, manifests, concurrently)
	if err != nil {
		return planfile.Document{}, fmt.Errorf("track topology: %w", err)
	}
	// Without an allocator for dynamic resources, as by default in Karpenter.
	s := scheduling.NewScheduler(ctx, client, pools, cluster, nil, topology, types, nil,
		events.NewRecorder(&record.FakeRecorder{}), realtime, nil, nil, concurrently)
	start := time.Now()
	results, err := s.Solve(ctx, manifests)
	elapsed := time.Since(start)
	if err != nil {
		return planfile.Document{}, fmt.Errorf("solve: %w", err)
	}
	document := newDocument(results, nameOf, flavors)
	document.ElapsedMillis = float64(elapsed.Microseconds()) / 1000
	return document, nil
}

// nodePools creates a node pool for each set of taints, because in Karpenter only node pools have taints. It
// returns them with the instance types of each.
func nodePools(flavors []planfile.Flavor) ([]*v1.NodePool, map[string][]*cloudprovider.InstanceType) {
	var pools []*v1.NodePool
	instances := map[string][]*cloudprovider.InstanceType{}
	byTaints := map[string]*v1.NodePool{}
	keys := sets.New[string]()
	for _, f := range flavors {
		for _, l := range f.Labels {
			keys.Insert(l.Key)
		}
	}
	v1.WellKnownLabels.Insert(keys.UnsortedList()...) // as cloud providers do for their labels
	for _, f := range flavors {
		taints := f.NodeTaints()
		key := fmt.Sprint(taints)
		pool := byTaints[key]
		if pool == nil {
			pool = &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pool-%d", len(pools)), UID: types.UID(key)}}
			pool.Spec.Template.Spec = v1.NodeClaimTemplateSpec{Taints: taints, NodeClassRef: &v1.NodeClassReference{Group: "peer", Kind: "NodeClass", Name: "peer"}}
			byTaints[key] = pool
			pools = append(pools, pool)
		}
		instances[pool.Name] = append(instances[pool.Name], instanceType(f, keys))
	}
	return pools, instances
}

// instanceType converts a flavor to an instance type with an offering for each zone. Karpenter requires that
// it excludes the labels among keys that the flavor does not have.
func instanceType(f planfile.Flavor, keys sets.Set[string]) *cloudprovider.InstanceType {
	zones := f.Zoned()
	if len(f.Zones) == 0 {
		zones = []string{nowhere}
	}
	labels := f.NodeLabels("")
	labels[v1.CapacityTypeLabelKey] = v1.CapacityTypeOnDemand
	all := requirement.NewLabelRequirements(labels)
	all.Add(requirement.NewRequirement(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, zones...))
	for key := range keys {
		if _, has := labels[key]; !has {
			all.Add(requirement.NewRequirement(key, corev1.NodeSelectorOpDoesNotExist))
		}
	}
	it := &cloudprovider.InstanceType{
		Name: f.Name, Requirements: all, Overhead: &cloudprovider.InstanceTypeOverhead{},
		Capacity: corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(f.Size.MilliCPU, resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(f.Size.MemoryBytes, resource.BinarySI),
			corev1.ResourcePods:   *resource.NewQuantity(*f.MaxPods, resource.DecimalSI),
		},
	}
	for _, zone := range zones {
		it.Offerings = append(it.Offerings, &cloudprovider.Offering{
			Available: true, Price: float64(f.MicroDollarsPerHour) / 1e6,
			Requirements: requirement.NewLabelRequirements(map[string]string{
				corev1.LabelTopologyZone: zone, v1.CapacityTypeLabelKey: v1.CapacityTypeOnDemand,
			}),
		})
	}
	return it
}

// manifestsOf returns the pods as Kubernetes objects, and their names by UID.
func manifestsOf(pods []planfile.Pod) ([]*corev1.Pod, map[types.UID]string) {
	var manifests []*corev1.Pod
	nameOf := map[types.UID]string{}
	for _, p := range pods {
		m := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: p.Name}}
		if p.Manifest != nil {
			m = p.Manifest.DeepCopy()
			m.Namespace, m.Spec.NodeName = cmp.Or(m.Namespace, "default"), ""
		} else {
			m.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU:    *resource.NewMilliQuantity(p.Size.MilliCPU, resource.DecimalSI),
				corev1.ResourceMemory: *resource.NewQuantity(p.Size.MemoryBytes, resource.BinarySI),
			}}}}
		}
		if p.Arch != "" {
			m.Spec.NodeSelector = map[string]string{corev1.LabelArchStable: p.Arch}
		}
		m.UID = types.UID(p.Name) // Karpenter identifies pods by UID
		nameOf[m.UID] = p.Name
		manifests = append(manifests, m)
	}
	return manifests, nameOf
}

// newDocument returns the plan of Karpenter's results. Machines are numbered in the order of their first pods.
func newDocument(results scheduling.Results, nameOf map[types.UID]string, flavors []planfile.Flavor) planfile.Document {
	d := planfile.Document{Algorithm: "karpenter"}
	byName := map[string]planfile.Flavor{}
	for _, f := range flavors {
		byName[f.Name] = f
	}
	names := make([][]string, len(results.NewNodeClaims))
	order := make([]int, len(results.NewNodeClaims))
	for i, claim := range results.NewNodeClaims {
		order[i] = i
		for _, p := range claim.Pods {
			names[i] = append(names[i], nameOf[p.UID])
		}
		slices.Sort(names[i])
	}
	slices.SortFunc(order, func(a, b int) int { return slices.Compare(names[a], names[b]) })
	counts := map[string]int{}
	var total int64
	for _, i := range order {
		claim := results.NewNodeClaims[i]
		if len(names[i]) == 0 {
			continue
		}
		f, zone := cheapest(claim, byName)
		machine := fmt.Sprintf("%s-%d", f.Name, counts[f.Name])
		counts[f.Name]++
		total += f.MicroDollarsPerHour
		requests := claim.Spec.Resources.Requests
		d.Purchases = append(d.Purchases, planfile.Purchase{
			Machine: machine, Flavor: f.Name, Zone: zone, PricePerHour: float64(f.MicroDollarsPerHour) / 1e6, Pods: len(names[i]),
			CPUPercent: planfile.Percent(requests.Cpu().MilliValue(), f.Size.MilliCPU), MemoryPercent: planfile.Percent(requests.Memory().Value(), f.Size.MemoryBytes),
		})
		for _, name := range names[i] {
			d.Assignments = append(d.Assignments, planfile.Assignment{Pod: name, Machine: machine})
		}
	}
	d.PricePerHour = float64(total) / 1e6
	for name, count := range counts {
		d.Machines = append(d.Machines, planfile.Count{Flavor: name, Count: count, PricePerHour: float64(byName[name].MicroDollarsPerHour) / 1e6})
	}
	for p, err := range results.PodErrors {
		d.Unplaceable = append(d.Unplaceable, planfile.Reason{Pod: nameOf[p.UID], Reason: err.Error()})
	}
	slices.SortFunc(d.Machines, func(a, b planfile.Count) int { return strings.Compare(a.Flavor, b.Flavor) })
	slices.SortFunc(d.Assignments, func(a, b planfile.Assignment) int { return strings.Compare(a.Pod, b.Pod) })
	slices.SortFunc(d.Unplaceable, func(a, b planfile.Reason) int { return strings.Compare(a.Pod, b.Pod) })
	return d
}

// cheapest returns the cheapest flavor for the node, and its zone. Ties go to the first flavor by name, then
// to the first zone.
func cheapest(claim *scheduling.NodeClaim, byName map[string]planfile.Flavor) (best planfile.Flavor, where string) {
	for _, it := range claim.InstanceTypeOptions {
		f := byName[it.Name]
		offerings := it.Offerings.Available().Compatible(claim.Requirements)
		if len(offerings) == 0 {
			continue
		}
		if best.Name != "" && cmp.Or(cmp.Compare(best.MicroDollarsPerHour, f.MicroDollarsPerHour), cmp.Compare(best.Name, f.Name)) <= 0 {
			continue
		}
		best, where = f, ""
		for _, o := range offerings {
			if where == "" || o.Zone() < where {
				where = o.Zone()
			}
		}
	}
	if len(best.Zones) == 0 {
		where = ""
	}
	return best, where
}
