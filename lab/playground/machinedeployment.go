package playground

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"supercargo.dev/supercargo/lab/playground/controlplane"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/lab/playground/machines"
)

// The annotations of MachineDeployments that cluster-autoscaler reads.
const (
	annotationMinSize  = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
	annotationMaxSize  = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"
	annotationCapacity = "capacity.cluster-autoscaler.kubernetes.io/"
)

// MachineDeploymentSpec describes a MachineDeployment to create: machines of one flavor, simulated
// by kwok.
type MachineDeploymentSpec struct {
	Name      string
	Namespace string // empty means default

	Flavor       string // becomes the label instance-type; may be empty
	MachineType  string // becomes the label machine-type; may be empty
	CPU          string // quantity: "2", "500m"
	Memory       string // quantity: "8Gi"
	MaxPods      int    // 0 means 110
	Arch         string // as in GOARCH; empty means amd64
	PricePerHour string // in dollars: "0.1371"; empty means unknown
	Labels       map[string]string
	Taints       []corev1.Taint

	// Min and Max are the limits for autoscalers. They are annotations: Replicas may be outside.
	Min, Max int
	Replicas int

	// AcquisitionLag is the time from the request of a machine to its Node; it is the mean if
	// AcquisitionLagSD is not 0. ReleaseLag is how long the machine stays after its deletion is
	// requested.
	AcquisitionLag, AcquisitionLagSD, ReleaseLag time.Duration

	// Fault is the simulated fault of the machines. Empty means none.
	Fault machines.Fault
}

// AddMachineDeployment creates a MachineDeployment, a template of its machines with the same name,
// and the Cluster they belong to. It leaves existing objects unchanged. The playground must have
// been started with ClusterAPI.
func (p *Playground) AddMachineDeployment(ctx context.Context, spec MachineDeploymentSpec) error {
	fail := func(err error) error { return fmt.Errorf("add MachineDeployment %s: %w", spec.Name, err) }
	if !p.opts.ClusterAPI {
		return fail(errors.New("the playground runs without cluster-api"))
	}
	if spec.Namespace == "" {
		spec.Namespace = metav1.NamespaceDefault
	}
	template, err := spec.template()
	if err != nil {
		return fail(&controlplane.InputError{Err: err})
	}
	client, err := dynamic.NewForConfig(p.plane.Config())
	if err != nil {
		return fail(err)
	}
	if err := p.EnsureCluster(ctx, spec.Namespace); err != nil {
		return fail(err)
	}
	if err := p.create(ctx, client, kwokTemplates, spec.Namespace, spec.Name, template); err != nil {
		return fail(err)
	}
	if err := p.create(ctx, client, machineDeployments, spec.Namespace, spec.Name, spec.deployment()); err != nil {
		return fail(err)
	}
	return nil
}

// MarketSpec describes a MachineDeployment from which one is copied for each instance type on sale.
type MarketSpec struct {
	Name      string // of the MachineDeployment and of its template
	Namespace string // empty means default
	Types     string // the instance types, as a CSV catalogue
	Labels    map[string]string
	// AcquisitionLag and ReleaseLag are those of the machines, see MachineDeploymentSpec.
	AcquisitionLag, ReleaseLag time.Duration
}

// AddMarket creates a MachineDeployment without replicas, whose template sets only the instance
// type of its machines, and the ConfigMap with the instance types (see machines.Market). It leaves
// existing objects unchanged.
func (p *Playground) AddMarket(ctx context.Context, spec MarketSpec) error {
	fail := func(err error) error { return fmt.Errorf("add MachineDeployment %s: %w", spec.Name, err) }
	if !p.opts.ClusterAPI {
		return fail(errors.New("the playground runs without cluster-api"))
	}
	types, err := catalogue.ReadFlavors(machines.MarketTypes, strings.NewReader(spec.Types))
	if err != nil {
		return fail(&controlplane.InputError{Err: err})
	}
	spec.Namespace = cmp.Or(spec.Namespace, metav1.NamespaceDefault)
	client, err := dynamic.NewForConfig(p.plane.Config())
	if err != nil {
		return fail(err)
	}
	if err := p.EnsureCluster(ctx, spec.Namespace); err != nil {
		return fail(err)
	}
	template := &machines.KwokMachineTemplate{TypeMeta: metav1.TypeMeta{Kind: "KwokMachineTemplate"}}
	template.Spec.Template.Spec = machines.KwokMachineSpec{
		InstanceType: types[0].Name, NodeLabels: spec.Labels, AcquisitionLag: metav1.Duration{Duration: spec.AcquisitionLag}, ReleaseLag: metav1.Duration{Duration: spec.ReleaseLag},
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(template)
	if err != nil {
		return fail(err)
	}
	market := map[string]any{"kind": "ConfigMap", "data": map[string]any{machines.MarketTypes: spec.Types}}
	if err := p.create(ctx, client, corev1.SchemeGroupVersion.WithResource("configmaps"), spec.Namespace, machines.Market, market); err != nil {
		return fail(err)
	}
	if err := p.create(ctx, client, kwokTemplates, spec.Namespace, spec.Name, fields); err != nil {
		return fail(err)
	}
	deployment := MachineDeploymentSpec{Name: spec.Name, Namespace: spec.Namespace}
	model := deployment.deployment()
	delete(model, "metadata") // the annotations describe the machines of a single flavor
	if labels := pairs(spec.Labels); labels != "" {
		model["metadata"] = map[string]any{"annotations": map[string]any{annotationCapacity + "labels": labels}}
	}
	if err := p.create(ctx, client, machineDeployments, spec.Namespace, spec.Name, model); err != nil {
		return fail(err)
	}
	return nil
}

// nodeLabels returns the labels that are specific to the machines' Nodes.
func (s *MachineDeploymentSpec) nodeLabels() map[string]string {
	labels := map[string]string{}
	if s.Flavor != "" {
		labels[corev1.LabelInstanceTypeStable] = s.Flavor
	}
	if s.MachineType != "" {
		labels[v1alpha1.LabelMachineType] = s.MachineType
	}
	maps.Copy(labels, s.Labels)
	return labels
}

// template returns the fields of the KwokMachineTemplate.
func (s *MachineDeploymentSpec) template() (map[string]any, error) {
	resources, err := NodeSpec{CPU: s.CPU, Memory: s.Memory, Pods: s.MaxPods}.resources()
	if err != nil {
		return nil, err
	}
	machine := machines.KwokMachineSpec{
		CPU: resources[corev1.ResourceCPU], Memory: resources[corev1.ResourceMemory],
		Pods: int32(resources.Pods().Value()), Arch: s.Arch, InstanceType: s.Flavor,
		NodeLabels: s.nodeLabels(), NodeTaints: s.Taints,
		AcquisitionLag:   metav1.Duration{Duration: s.AcquisitionLag},
		AcquisitionLagSD: metav1.Duration{Duration: s.AcquisitionLagSD},
		ReleaseLag:       metav1.Duration{Duration: s.ReleaseLag},
		Fault:            s.Fault,
	}
	if s.PricePerHour != "" {
		machine.NodeAnnotations = map[string]string{v1alpha1.AnnotationPricePerHour: s.PricePerHour}
	}
	object := &machines.KwokMachineTemplate{TypeMeta: metav1.TypeMeta{Kind: "KwokMachineTemplate"}}
	object.Spec.Template.Spec = machine
	return runtime.DefaultUnstructuredConverter.ToUnstructured(object)
}

// deployment returns the fields of the MachineDeployment.
func (s *MachineDeploymentSpec) deployment() map[string]any {
	selected := map[string]any{"playground.supercargo.dev/machine-deployment": s.Name}
	return map[string]any{
		"kind":     "MachineDeployment",
		"metadata": map[string]any{"annotations": s.annotations()},
		"spec": map[string]any{
			"clusterName": ClusterName,
			"replicas":    int64(s.Replicas),
			"selector":    map[string]any{"matchLabels": selected},
			"template": map[string]any{
				"metadata": map[string]any{"labels": maps.Clone(selected)},
				"spec": map[string]any{
					"clusterName": ClusterName,
					"bootstrap":   map[string]any{"dataSecretName": ""}, // there is no bootstrap
					"infrastructureRef": map[string]any{
						"apiGroup": machines.GroupVersion.Group, "kind": "KwokMachineTemplate", "name": s.Name,
					},
				},
			},
		},
	}
}

// annotations returns the annotations that tell autoscalers the limits and the size of machines.
func (s *MachineDeploymentSpec) annotations() map[string]any {
	pods := s.MaxPods
	if pods == 0 {
		pods = defaultPods
	}
	annotations := map[string]any{
		annotationMinSize:              strconv.Itoa(s.Min),
		annotationMaxSize:              strconv.Itoa(s.Max),
		annotationCapacity + "cpu":     s.CPU,
		annotationCapacity + "memory":  s.Memory,
		annotationCapacity + "maxPods": strconv.Itoa(pods),
	}
	if s.PricePerHour != "" {
		annotations[v1alpha1.AnnotationPricePerHour] = s.PricePerHour
	}
	var taints []string
	for _, taint := range s.Taints {
		taints = append(taints, taint.ToString())
	}
	if labels := pairs(s.nodeLabels()); labels != "" {
		annotations[annotationCapacity+"labels"] = labels
	}
	if len(taints) > 0 {
		annotations[annotationCapacity+"taints"] = strings.Join(taints, ",")
	}
	return annotations
}

// pairs formats labels for annotations.
func pairs(labels map[string]string) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		all = append(all, key+"="+labels[key])
	}
	return strings.Join(all, ",")
}

// machineNode returns the Node of a machine.
func machineNode(m *machines.KwokMachine) (*corev1.Node, error) {
	labels := maps.Clone(m.Spec.NodeLabels)
	if labels == nil {
		labels = map[string]string{}
	}
	if m.Spec.Arch != "" {
		labels[corev1.LabelArchStable] = m.Spec.Arch
	}
	if m.Spec.InstanceType != "" {
		labels[corev1.LabelInstanceTypeStable] = m.Spec.InstanceType
	}
	return NodeSpec{
		Name: m.Name, CPU: m.Spec.CPU.String(), Memory: m.Spec.Memory.String(), Pods: int(m.Spec.Pods),
		Labels: labels, Annotations: m.Spec.NodeAnnotations, Taints: m.Spec.NodeTaints,
	}.Node()
}
