package replay

import (
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/lab/report"
)

// LabelRun is a label of every pod of a replay. Its value identifies the run.
const LabelRun = v1alpha1.GroupName + "/replay"

// PodOf returns the pod for a row of a trace. Its annotated runtime is the given one, which is its
// actual runtime in the replay, not the recorded one. Its container requests the row's CPU and
// memory, never ends by itself and stops at once when the pod is deleted.
func PodOf(row trace.Pod, runtime time.Duration, opts Options) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: row.Name, Namespace: opts.Namespace,
			Labels:      map[string]string{LabelRun: opts.Run},
			Annotations: map[string]string{v1alpha1.AnnotationRuntime: runtime.String()},
		},
		Spec: corev1.PodSpec{
			SchedulerName:                 opts.SchedulerName,
			NodeSelector:                  maps.Clone(opts.NodeSelector),
			TerminationGracePeriodSeconds: ptr.To[int64](0),
			AutomountServiceAccountToken:  ptr.To(false),
			EnableServiceLinks:            ptr.To(false),
			Containers: []corev1.Container{{
				Name: "pause", Image: "pause",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU:    *resource.NewMilliQuantity(row.Size.MilliCPU, resource.DecimalSI),
					corev1.ResourceMemory: *resource.NewQuantity(row.Size.MemoryBytes, resource.BinarySI),
				}},
			}},
		},
	}
	if row.Class != "" {
		pod.Labels[v1alpha1.LabelClass] = string(row.Class)
	}
	if row.Category != "" {
		pod.Annotations[v1alpha1.AnnotationCategory] = row.Category
	}
	if row.Arch != "" {
		if pod.Spec.NodeSelector == nil {
			pod.Spec.NodeSelector = map[string]string{}
		}
		pod.Spec.NodeSelector[corev1.LabelArchStable] = row.Arch
	}
	return pod
}

// Machines returns the allocatable resources and, from the price annotation, the prices of nodes.
// Every node must have both. Prices finer than a micro-dollar are rounded up.
func Machines(nodes []corev1.Node) ([]report.Machine, error) {
	var errs []error
	machines := make([]report.Machine, 0, len(nodes))
	for i := range nodes {
		m, err := machineOf(&nodes[i])
		if err != nil {
			errs = append(errs, fmt.Errorf("node %s: %w", nodes[i].Name, err))
			continue
		}
		machines = append(machines, m)
	}
	return machines, errors.Join(errs...)
}

func machineOf(node *corev1.Node) (report.Machine, error) {
	text, ok := node.Annotations[v1alpha1.AnnotationPricePerHour]
	if !ok {
		return report.Machine{}, fmt.Errorf("has no annotation %s: must be its price in dollars per hour", v1alpha1.AnnotationPricePerHour)
	}
	price, err := resource.ParseQuantity(text)
	if err != nil || price.Sign() < 0 {
		return report.Machine{}, fmt.Errorf("annotation %s is %q: must be dollars per hour, such as 0.25", v1alpha1.AnnotationPricePerHour, text)
	}
	m := report.Machine{
		Name:                node.Name,
		MilliCPU:            node.Status.Allocatable.Cpu().MilliValue(),
		MemoryBytes:         node.Status.Allocatable.Memory().Value(),
		MicroDollarsPerHour: price.ScaledValue(resource.Micro),
	}
	if m.MilliCPU <= 0 || m.MemoryBytes <= 0 {
		return report.Machine{}, errors.New("has no allocatable CPU or memory")
	}
	return m, nil
}
