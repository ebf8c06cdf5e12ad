package clusterapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/cluster/extended"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/text/dollars"
	"supercargo.dev/supercargo/internal/world"
)

// The annotations of cluster-autoscaler's provider for cluster-api.
const (
	capacityPrefix = "capacity.cluster-autoscaler.kubernetes.io/"
	optionsPrefix  = "cluster.x-k8s.io/autoscaling-options-"

	annotationCPU       = capacityPrefix + "cpu"
	annotationMemory    = capacityPrefix + "memory"
	annotationMaxPods   = capacityPrefix + "maxPods"
	annotationGPUType   = capacityPrefix + "gpu-type"
	annotationGPUCount  = capacityPrefix + "gpu-count"
	annotationDisk      = capacityPrefix + "ephemeral-disk"
	annotationDrivers   = capacityPrefix + "csi-driver"
	annotationLabels    = capacityPrefix + "labels"
	annotationTaints    = capacityPrefix + "taints"
	annotationThreshold = optionsPrefix + "scaledownutilizationthreshold"
	annotationUnneeded  = optionsPrefix + "scaledownunneededtime"
	annotationProvision = optionsPrefix + "maxnodeprovisiontime"
)

const (
	// defaultMaxPods is the default of kubelets.
	defaultMaxPods = 110
	defaultArch    = "amd64"
	// defaultGPUType is the resource of GPUs whose annotation states only their number.
	defaultGPUType = "nvidia.com/gpu"
)

var crdKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// flavorLike is flavor, but ignores a node that is not typical of new ones if the size is known without it.
func flavorLike(d *clusterv1.MachineDeployment, t *template, node *corev1.Node, typical bool) provider.Flavor {
	if node != nil && !typical {
		if f := flavor(d, t, nil); f.Size.MilliCPU > 0 && f.Size.MemoryBytes > 0 {
			return f
		}
	}
	f := flavor(d, t, node)
	f.Seen = node != nil && typical
	return f
}

// outdated reports whether cluster-api says that a Machine is not as its MachineDeployment states by now. A Machine about
// which it says nothing yet is new.
//
// From 1.14 on, cluster-api also says so of every Machine whose kubelet reports another version than the Machine states:
// those of EKS and k3s do for good, such as v1.35.4-eks-3abbec1. They are of the template nevertheless. The reason is that
// of Machines that are being updated in place, of which there is another condition.
func outdated(m *clusterv1.Machine) bool {
	c := meta.FindStatusCondition(m.Status.Conditions, clusterv1.MachineUpToDateCondition)
	return c != nil && c.Status == metav1.ConditionFalse &&
		(c.Reason != clusterv1.MachineUpToDateUpdatingReason || meta.IsStatusConditionTrue(m.Status.Conditions, clusterv1.MachineUpdatingCondition))
}

// flavor describes the machines of a deployment. A node of it takes precedence, then the annotations, then the
// infrastructure template, as in cluster-autoscaler: if the annotations promised more than machines have, machines
// would be bought without end for a pod that fits only the promise.
func flavor(d *clusterv1.MachineDeployment, t *template, node *corev1.Node) provider.Flavor {
	r := &reading{annotations: d.Annotations}
	f := provider.Flavor{Name: d.Name, Max: provider.Unlimited}
	if d.Spec.Replicas != nil {
		f.Want = int(*d.Spec.Replicas)
	}
	f.Min = r.count(clusterv1.AutoscalerMinSizeAnnotation, 0)
	f.Max = r.count(clusterv1.AutoscalerMaxSizeAnnotation, provider.Unlimited)
	f.Labels, f.Taints, f.Stated = hostOf(d, t, node, r)
	f.InstanceType = f.Labels[corev1.LabelInstanceTypeStable]
	r.size(&f, t, node)
	f.Template = strings.Trim(d.Spec.Template.Spec.InfrastructureRef.Name+"/"+d.Spec.Template.Spec.Bootstrap.ConfigRef.Name, "/")
	r.price(&f)
	f.JoinTimeout = r.duration(annotationProvision)
	f.UnneededTime = r.duration(annotationUnneeded)
	f.Threshold = r.share(annotationThreshold)
	f.Held = held(d)
	f.Kept = f.Held
	f.Problem, f.Unsized = problem(d, &f, r)
	f.Warning = warning(d)
	return f
}

// warning reports that cluster-api stops draining a machine, and deletes it with its pods, sooner than a migration may
// take. Zero means no limit.
func warning(d *clusterv1.MachineDeployment) string {
	seconds := d.Spec.Template.Spec.Deletion.NodeDrainTimeoutSeconds
	if seconds == nil || *seconds == 0 {
		return ""
	}
	timeout := time.Duration(*seconds) * time.Second
	if timeout >= v1alpha1.DefaultMigrationDeadline {
		return ""
	}
	return fmt.Sprintf("spec.template.spec.deletion.nodeDrainTimeoutSeconds of the MachineDeployment allows deleting a machine with its pods after %v, "+
		"but a Migration may take %v: set it to 0, which waits without limit, or raise it", timeout, v1alpha1.DefaultMigrationDeadline)
}

// held describes why neither the replicas of the deployment nor its Machines may be changed, or returns "". It does not
// know whether the Cluster is paused: see [Provider.pausedCluster].
func held(d *clusterv1.MachineDeployment) string {
	switch {
	case hasKey(d.Annotations, clusterv1.PausedAnnotation) || d.Spec.Paused != nil && *d.Spec.Paused:
		return "the MachineDeployment is paused"
	case replicasOfTopology(d):
		return fmt.Sprintf("the topology of Cluster %s sets the replicas of the MachineDeployment, and would undo every change of them: remove replicas of %s from spec.topology.workers.machineDeployments of the Cluster",
			d.Spec.ClusterName, cmp.Or(d.Labels[clusterv1.ClusterTopologyMachineDeploymentNameLabel], d.Name))
	}
	return ""
}

// topologyManager is the field manager with which cluster-api applies the topology of a Cluster.
const topologyManager = "capi-topology"

// replicasOfTopology reports whether the topology of a Cluster sets spec.replicas. Without replicas in the topology, its
// controller leaves the field to others.
func replicasOfTopology(d *clusterv1.MachineDeployment) bool {
	return slices.ContainsFunc(d.ManagedFields, func(m metav1.ManagedFieldsEntry) bool {
		if m.Manager != topologyManager || m.Operation != metav1.ManagedFieldsOperationApply || m.FieldsV1 == nil {
			return false
		}
		var fields struct {
			Spec struct {
				Replicas *struct{} `json:"f:replicas"`
			} `json:"f:spec"`
		}
		return json.Unmarshal(m.FieldsV1.Raw, &fields) == nil && fields.Spec.Replicas != nil
	})
}

// rollout describes that cluster-api replaces the machines of a deployment, or returns "": they belong to more than one
// MachineSet. If its replicas were lowered now, cluster-api would choose the machines that go by MachineSet, whichever
// are marked, and with them the pods on them.
func rollout(machines []clusterv1.Machine) string {
	sets := map[string]bool{}
	for i := range machines {
		if set := machines[i].Labels[clusterv1.MachineSetNameLabel]; set != "" {
			sets[set] = true
		}
	}
	if len(sets) < 2 {
		return ""
	}
	return fmt.Sprintf("the MachineDeployment is being rolled out: its machines belong to %d MachineSets", len(sets))
}

// blocked returns how many of the desired Machines cluster-api does not create yet: a MachineSet counts Machines that are
// being deleted, and creates their successors when they are gone.
func blocked(want int, machines []clusterv1.Machine) int {
	deleted := 0
	for i := range machines {
		if machines[i].DeletionTimestamp != nil {
			deleted++
		}
	}
	return min(deleted, max(0, want-len(machines)+deleted))
}

// problem describes why no machine can be bought, and reports whether that is only that the size is unknown.
func problem(d *clusterv1.MachineDeployment, f *provider.Flavor, r *reading) (why string, unsized bool) {
	switch {
	case len(r.faults) > 0:
		return strings.Join(r.faults, "; "), false
	case d.DeletionTimestamp != nil:
		return "the MachineDeployment is being deleted", false
	case f.Held != "":
		return f.Held, false
	case f.Min > f.Max:
		return fmt.Sprintf("the annotation %s is %d, must be at most %s, which is %d",
			clusterv1.AutoscalerMinSizeAnnotation, f.Min, clusterv1.AutoscalerMaxSizeAnnotation, f.Max), false
	case f.Size.MilliCPU <= 0 || f.Size.MemoryBytes <= 0:
		return fmt.Sprintf("the capacity of its machines is unknown, because it has no node and its infrastructure template has no status.capacity: "+
			"set the annotations %s and %s", annotationCPU, annotationMemory), true
	}
	return "", false
}

// reading parses annotations and collects the errors.
type reading struct {
	annotations map[string]string
	faults      []string
}

func (r *reading) fault(key, want string) {
	r.faults = append(r.faults, fmt.Sprintf("the annotation %s is %q, must be %s", key, r.annotations[key], want))
}

func (r *reading) count(key string, otherwise int) int {
	if _, ok := r.annotations[key]; !ok {
		return otherwise
	}
	n, ok := r.whole(key, "a number of machines such as 3")
	if !ok {
		return otherwise
	}
	return n
}

func (r *reading) quantity(key string) (resource.Quantity, bool) {
	text, ok := r.annotations[key]
	if !ok {
		return resource.Quantity{}, false
	}
	q, err := resource.ParseQuantity(text)
	if err != nil || q.Sign() <= 0 {
		r.fault(key, "a positive quantity such as 4 or 16Gi")
		return resource.Quantity{}, false
	}
	return q, true
}

func (r *reading) duration(key string) *time.Duration {
	text, ok := r.annotations[key]
	if !ok {
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		r.fault(key, "a duration such as 10m")
		return nil
	}
	return &d
}

func (r *reading) share(key string) *float64 {
	text, ok := r.annotations[key]
	if !ok {
		return nil
	}
	share, err := strconv.ParseFloat(text, 64)
	if err != nil || !(share >= 0 && share <= 1) {
		r.fault(key, "a share such as 0.5")
		return nil
	}
	return &share
}

// size sets what pods can use from the first source that has it.
func (r *reading) size(f *provider.Flavor, t *template, node *corev1.Node) {
	pick := func(key string, name corev1.ResourceName) (resource.Quantity, bool) {
		annotated, ok := r.quantity(key) // read in any case, to report errors
		if node != nil {
			if q, ok := node.Status.Allocatable[name]; ok {
				return q, true
			}
		}
		if ok {
			return annotated, true
		}
		q, ok := t.capacity[name]
		return q, ok
	}
	if q, ok := pick(annotationCPU, corev1.ResourceCPU); ok {
		f.Size.MilliCPU = q.MilliValue()
	}
	if q, ok := pick(annotationMemory, corev1.ResourceMemory); ok {
		f.Size.MemoryBytes = q.Value()
	}
	f.MaxPods = defaultMaxPods
	if q, ok := pick(annotationMaxPods, corev1.ResourcePods); ok {
		f.MaxPods = q.Value()
	}
	f.Size = packing.Size{MilliCPU: max(0, f.Size.MilliCPU), MemoryBytes: max(0, f.Size.MemoryBytes)}
	f.Extended, f.Attaches = r.extended(t, node), r.drivers()
	if q, ok := pick(annotationDisk, corev1.ResourceEphemeralStorage); ok {
		f.EphemeralStorage = new(q.Value())
	}
}

// drivers reads comma-separated CSI drivers with the number of volumes that a machine can attach.
func (r *reading) drivers() map[string]int64 {
	var all map[string]int64
	for name, value := range r.pairs(annotationDrivers, wantsDrivers) {
		n, err := strconv.ParseInt(value, 10, 32)
		if err != nil || n < 0 {
			r.fault(annotationDrivers, wantsDrivers)
			return nil
		}
		if all == nil {
			all = map[string]int64{}
		}
		all[name] = n
	}
	return all
}

const (
	wantsLabels  = "labels such as disk=ssd,zone=a"
	wantsDrivers = "CSI drivers with numbers of volumes such as ebs.csi.aws.com=25"
)

// extended returns the extended resources of a machine, each from the first source that has some of it: the node, the
// annotations, the infrastructure template.
func (r *reading) extended(t *template, node *corev1.Node) map[corev1.ResourceName]int64 {
	all := map[corev1.ResourceName]int64{}
	maps.Copy(all, extended.Amounts(t.capacity))
	if gpus, ok := r.whole(annotationGPUCount, "a number of GPUs such as 1"); ok && gpus > 0 {
		all[r.gpuType()] = int64(gpus)
	}
	if node != nil {
		maps.Copy(all, extended.Amounts(node.Status.Allocatable))
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// gpuType returns the resource of the GPUs that are counted.
func (r *reading) gpuType() corev1.ResourceName {
	name := corev1.ResourceName(cmp.Or(r.annotations[annotationGPUType], defaultGPUType))
	if len(validation.IsQualifiedName(string(name))) > 0 || !extended.Considered(name) {
		r.fault(annotationGPUType, "the name of a resource such as "+defaultGPUType)
		return defaultGPUType
	}
	return name
}

// whole reads a number, and reports whether there is one.
func (r *reading) whole(key, want string) (int, bool) {
	text, ok := r.annotations[key]
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		r.fault(key, want)
		return 0, false
	}
	return int(n), true
}

// price reads the price in dollars per hour.
func (r *reading) price(f *provider.Flavor) {
	text, ok := r.annotations[v1alpha1.AnnotationPricePerHour]
	if !ok {
		return
	}
	price, err := dollars.Parse(text)
	if err != nil {
		r.fault(v1alpha1.AnnotationPricePerHour, "dollars per hour such as 0.192")
		return
	}
	f.MicroDollarsPerHour, f.HasPrice = price, true
}

// read reads the status of the template and its instance type.
func (t *template) read(object *unstructured.Unstructured) {
	capacity, _, _ := unstructured.NestedMap(object.Object, "status", "capacity")
	for name, value := range capacity {
		if q, err := resource.ParseQuantity(fmt.Sprint(value)); err == nil {
			t.capacity[corev1.ResourceName(name)] = q
		}
	}
	t.arch, _, _ = unstructured.NestedString(object.Object, "status", "nodeInfo", "architecture")
	t.os, _, _ = unstructured.NestedString(object.Object, "status", "nodeInfo", "operatingSystem")
	t.instanceType = instanceTypeOf(object)
}

// hostOf returns the labels and taints that nodes of the deployment have, and the taints that are stated for them.
// cluster-api also sets the labels and taints of Machines on existing nodes, so they count in addition to those of a
// node; annotations do not.
func hostOf(d *clusterv1.MachineDeployment, t *template, node *corev1.Node, r *reading) (labels map[string]string, taints, stated []corev1.Taint) {
	labels = map[string]string{corev1.LabelArchStable: defaultArch, corev1.LabelOSStable: string(corev1.Linux)}
	if t.arch != "" {
		labels[corev1.LabelArchStable] = t.arch
	}
	if t.os != "" {
		labels[corev1.LabelOSStable] = t.os
	}
	if t.instanceType != "" {
		labels[corev1.LabelInstanceTypeStable] = t.instanceType
	}
	pairs := r.pairs(annotationLabels, wantsLabels)
	region := cmp.Or(pairs[corev1.LabelTopologyRegion], t.region)
	if zone := zoneOf(d.Spec.Template.Spec.InfrastructureRef.Kind, d.Spec.Template.Spec.FailureDomain, region); zone != "" {
		labels[corev1.LabelTopologyZone] = zone
	}
	if node == nil && region != "" {
		labels[corev1.LabelTopologyRegion] = region
	}
	if node != nil {
		maps.Copy(labels, node.Labels)
		delete(labels, corev1.LabelHostname)
		taints = slices.DeleteFunc(slices.Clone(node.Spec.Taints), passing)
	}
	maps.Copy(labels, managedLabels(d.Spec.Template.Labels))
	if node == nil {
		maps.Copy(labels, pairs)
		constraint.AddFollowing(labels)
	}
	for _, taint := range d.Spec.Template.Spec.Taints {
		if taint.Propagation == clusterv1.MachineTaintPropagationAlways {
			stated = addTaint(stated, corev1.Taint{Key: taint.Key, Value: taint.Value, Effect: taint.Effect})
		}
	}
	for _, taint := range stated {
		taints = addTaint(taints, taint)
	}
	for _, taint := range r.taints() {
		if node == nil && !world.StartupTaint(taint.Key) {
			taints = addTaint(taints, taint)
		}
		stated = addTaint(stated, taint)
	}
	return labels, taints, stated
}

// passing reports whether a taint describes a temporary condition of the node.
func passing(t corev1.Taint) bool { return world.StateTaint(t.Key) || world.StartupTaint(t.Key) }

func addTaint(taints []corev1.Taint, t corev1.Taint) []corev1.Taint {
	if slices.ContainsFunc(taints, func(o corev1.Taint) bool { return o.Key == t.Key && o.Effect == t.Effect }) {
		return taints
	}
	return append(taints, t)
}

// pairs reads comma-separated key=value pairs.
func (r *reading) pairs(key, want string) map[string]string {
	found := map[string]string{}
	text := r.annotations[key]
	if text == "" {
		return found
	}
	for pair := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(pair), "=")
		if !ok || name == "" {
			r.fault(key, want)
			return map[string]string{}
		}
		found[name] = value
	}
	return found
}

// taints reads comma-separated key=value:effect items.
func (r *reading) taints() []corev1.Taint {
	text := r.annotations[annotationTaints]
	if text == "" {
		return nil
	}
	var found []corev1.Taint
	for item := range strings.SplitSeq(text, ",") {
		pair, effect, ok := strings.Cut(strings.TrimSpace(item), ":")
		key, value, _ := strings.Cut(pair, "=")
		known := []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}
		if !ok || key == "" || !slices.Contains(known, corev1.TaintEffect(effect)) {
			r.fault(annotationTaints, "taints such as gpu=true:NoSchedule")
			return nil
		}
		found = append(found, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)})
	}
	return found
}

// managedLabels returns those labels of a machine that cluster-api also writes to its node: roles, and names of the
// domains node-restriction.kubernetes.io and node.cluster.x-k8s.io and of domains below them. Patterns that
// cluster-api's flag --additional-sync-machine-labels adds are not known here.
func managedLabels(labels map[string]string) map[string]string {
	managed := map[string]string{}
	for name, value := range labels {
		domain, _, _ := strings.Cut(name, "/")
		within := func(d string) bool { return domain == d || strings.HasSuffix(domain, "."+d) }
		if domain == clusterv1.NodeRoleLabelPrefix || within(clusterv1.NodeRestrictionLabelDomain) || within(clusterv1.ManagedNodeLabelDomain) {
			managed[name] = value
		}
	}
	return managed
}
