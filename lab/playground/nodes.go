package playground

import (
	"context"
	"fmt"
	"maps"
	"strconv"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// The annotation kwokAnnotation with the value kwokFake marks nodes that kwok simulates.
const (
	kwokAnnotation = "kwok.x-k8s.io/node"
	kwokFake       = "fake"
)

// defaultPods is the default maximum number of pods per node, as in the kubelet.
const defaultPods = 110

// NodeSpec describes a node to create.
type NodeSpec struct {
	Name        string
	CPU         string // quantity: "2", "500m"
	Memory      string // quantity: "8Gi"
	Pods        int    // 0 means 110
	MachineType string // becomes the labels machine-type and instance-type; may be empty
	Labels      map[string]string
	Taints      []corev1.Taint
	Annotations map[string]string
}

// fleetTypes are the machine types of [Fleet], with their prices in dollars per
// hour.
var fleetTypes = []struct{ name, cpu, memory, price string }{
	{"t3.xsmall", "1", "1Gi", "0.0198"},
	{"m3.small", "2", "4Gi", "0.0686"},
	{"m1.medium", "2", "8Gi", "0.1371"},
	{"m1.large", "4", "16Gi", "0.2746"},
	{"m1.xlarge", "8", "32Gi", "0.5479"},
}

// Fleet returns the specs of n nodes of different sizes: node-0, node-1 and so on cycle through
// five machine types, from 1 CPU with 1 GiB to 8 CPUs with 32 GiB, annotated with their price.
func Fleet(n int) []NodeSpec {
	specs := make([]NodeSpec, n)
	for i := range specs {
		t := fleetTypes[i%len(fleetTypes)]
		specs[i] = NodeSpec{
			Name: "node-" + strconv.Itoa(i), CPU: t.cpu, Memory: t.memory, MachineType: t.name,
			Annotations: map[string]string{v1alpha1.AnnotationPricePerHour: t.price},
		}
	}
	return specs
}

// Node returns the Node for the spec: a node that kwok simulates and that is Ready from the start.
func (s NodeSpec) Node() (*corev1.Node, error) {
	resources, err := s.resources()
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", s.Name, err)
	}
	labels := map[string]string{
		corev1.LabelHostname:   s.Name,
		corev1.LabelArchStable: "amd64",
		corev1.LabelOSStable:   "linux",
	}
	if s.MachineType != "" {
		labels[corev1.LabelInstanceTypeStable] = s.MachineType
		labels[v1alpha1.LabelMachineType] = s.MachineType
	}
	maps.Copy(labels, s.Labels)
	annotations := map[string]string{kwokAnnotation: kwokFake}
	maps.Copy(annotations, s.Annotations)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: s.Name, Labels: labels, Annotations: annotations},
		Spec:       corev1.NodeSpec{Taints: s.Taints},
		Status: corev1.NodeStatus{
			Capacity: resources, Allocatable: resources.DeepCopy(),
			Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
				LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(),
			}},
			NodeInfo: corev1.NodeSystemInfo{
				Architecture: labels[corev1.LabelArchStable], OperatingSystem: labels[corev1.LabelOSStable],
				KubeletVersion: "kwok", ContainerRuntimeVersion: "kwok",
			},
		},
	}, nil
}

func (s NodeSpec) resources() (corev1.ResourceList, error) {
	cpu, err := resource.ParseQuantity(s.CPU)
	if err != nil {
		return nil, fmt.Errorf("cpu %q: %w", s.CPU, err)
	}
	memory, err := resource.ParseQuantity(s.Memory)
	if err != nil {
		return nil, fmt.Errorf("memory %q: %w", s.Memory, err)
	}
	pods := s.Pods
	if pods == 0 {
		pods = defaultPods
	}
	return corev1.ResourceList{
		corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory,
		corev1.ResourcePods: *resource.NewQuantity(int64(pods), resource.DecimalSI),
	}, nil
}

// createParallelism is the number of concurrent create calls.
const createParallelism = 16

// CreateNodes creates nodes for kwok to simulate. It leaves existing nodes unchanged.
func CreateNodes(ctx context.Context, client kubernetes.Interface, specs []NodeSpec) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(createParallelism)
	for _, spec := range specs {
		group.Go(func() error {
			node, err := spec.Node()
			if err != nil {
				return err
			}
			_, err = client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
			if err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("create node %s: %w", spec.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}
