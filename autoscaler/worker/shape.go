package worker

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/worker/estimate"
	"supercargo.dev/supercargo/autoscaler/worker/workerdecide"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/text/dollars"
	"supercargo.dev/supercargo/internal/text/plural"
)

// refusal is the reason why no decision is possible.
type refusal struct{ reason, message string }

// config returns the configuration of the pool.
func (rc *reconciliation) config(ctx context.Context) (workerdecide.Config, refusal, error) {
	spec := &rc.pool.Spec
	c := workerdecide.ConfigOf(spec)
	if spec.Worker.NodeFleet == "" {
		return c, refusal{}, nil
	}
	var fleet v1alpha1.NodeFleet
	switch err := rc.Client.Get(ctx, types.NamespacedName{Name: spec.Worker.NodeFleet}, &fleet); {
	case apierrors.IsNotFound(err):
		return c, refusal{v1alpha1.PoolReasonNodeFleetMissing, fmt.Sprintf("spec.worker.nodeFleet: NodeFleet %s does not exist", spec.Worker.NodeFleet)}, nil
	case err != nil:
		return c, refusal{}, fmt.Errorf("read NodeFleet %s: %w", spec.Worker.NodeFleet, err)
	}
	var daemons appsv1.DaemonSetList
	if err := rc.Client.List(ctx, &daemons); err != nil {
		return c, refusal{}, fmt.Errorf("list DaemonSets: %w", err)
	}
	reserved := reserve(&spec.Worker, daemons.Items)
	if template, err := parseTemplate(rc.pool); err == nil { // a fault of the template is reported elsewhere
		beside := beside(template)
		reserved.MilliCores, reserved.MemoryBytes = reserved.MilliCores+beside.MilliCores, reserved.MemoryBytes+beside.MemoryBytes
	}
	for i := range fleet.Status.Flavors {
		f := &fleet.Status.Flavors[i]
		if len(spec.Worker.Flavors) == 0 || slices.Contains(spec.Worker.Flavors, f.Name) {
			c.Flavors = append(c.Flavors, rc.flavor(f, reserved))
		}
	}
	switch {
	case len(fleet.Status.Flavors) == 0:
		return c, refusal{v1alpha1.PoolReasonNoFlavors, fmt.Sprintf("spec.worker.nodeFleet: the status of NodeFleet %s lists no flavors yet", fleet.Name)}, nil
	case len(c.Flavors) == 0:
		return c, refusal{v1alpha1.PoolReasonNoFlavors, fmt.Sprintf("spec.worker.flavors: the status of NodeFleet %s lists none of them", fleet.Name)}, nil
	}
	return c, refusal{}, nil
}

// reserve returns what each machine reserves besides workers: what the spec says plus the requests of DaemonSets. A
// DaemonSet that selects nodes by more than their operating system is left out, because its machines are not known
// here; the spec may account for it.
func reserve(w *v1alpha1.WorkerShape, daemons []appsv1.DaemonSet) (r estimate.Resources) {
	for i := range daemons {
		pod := corev1.Pod{Spec: daemons[i].Spec.Template.Spec}
		selects := len(pod.Spec.NodeSelector)
		if _, os := pod.Spec.NodeSelector[corev1.LabelOSStable]; os {
			selects--
		}
		if selects > 0 || pod.Spec.Affinity != nil && pod.Spec.Affinity.NodeAffinity != nil {
			continue
		}
		cpu, memory, _ := constraint.Requests(&pod)
		r.MilliCores += cpu
		r.MemoryBytes += memory
	}
	r.MilliCores += valueOf(w.Reserved.CPU).MilliValue()
	r.MemoryBytes += valueOf(w.Reserved.Memory).Value()
	return r
}

// beside returns what a pod of the template requests besides the worker, which is its first container: sidecars and
// overhead. Init containers that end before the worker starts do not run beside it.
func beside(template *corev1.PodTemplateSpec) estimate.Resources {
	pod := corev1.Pod{Spec: *template.Spec.DeepCopy()}
	pod.Spec.Containers[0].Resources, pod.Spec.Resources = corev1.ResourceRequirements{}, nil
	pod.Spec.InitContainers = slices.DeleteFunc(pod.Spec.InitContainers, func(c corev1.Container) bool {
		return c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways
	})
	constraint.DefaultRequests(&pod.Spec)
	cpu, memory, _ := constraint.Requests(&pod)
	return estimate.Resources{MilliCores: cpu, MemoryBytes: memory}
}

// flavor returns the worker for a machine of a flavor. A worker that fills its machine has the whole cores and MiB that
// are left on it.
func (rc *reconciliation) flavor(f *v1alpha1.FlavorStatus, reserved estimate.Resources) workerdecide.Flavor {
	out := workerdecide.Flavor{Name: f.Name, Trouble: f.Message}
	if f.BackOffUntil != nil && f.BackOffUntil.After(rc.now) {
		out.Trouble = "in back-off until " + f.BackOffUntil.UTC().Format(time.RFC3339) + ": its last machines did not become usable, or did not stay so"
	}
	if f.CPU == nil || f.Memory == nil {
		out.Trouble = "the capacity of its machines is not known yet"
		return out
	}
	left := estimate.Resources{
		MilliCores: max(0, f.CPU.MilliValue()-reserved.MilliCores) / 1000 * 1000, MemoryBytes: workerdecide.WholeMiB(f.Memory.Value() - reserved.MemoryBytes), DiskBytes: workerdecide.Boundless,
	}
	out.MicroDollarsPerHour, _ = dollars.Parse(f.PricePerHour) // 0 if it is not known
	if stated := rc.pool.Spec.Worker.Resources; stated != nil {
		out.Worker = workerdecide.SizeOf(stated)
		if on := out.Worker; on.MilliCores > left.MilliCores || on.MemoryBytes > left.MemoryBytes {
			out.Trouble = fmt.Sprintf("a machine has %s and %d MiB of memory for workers, which is too little for one", plural.Count(left.MilliCores/1000, "whole core"), left.MemoryBytes>>20)
		}
		if rc.pool.Spec.Worker.Packing == v1alpha1.WorkersPacked && left.MilliCores > 0 && left.MemoryBytes > 0 {
			share := max(float64(out.Worker.MilliCores)/float64(left.MilliCores), float64(out.Worker.MemoryBytes)/float64(left.MemoryBytes))
			out.MicroDollarsPerHour = int64(float64(out.MicroDollarsPerHour) * min(1, share))
		}
		return out
	}
	out.Worker = left
	if left.MilliCores < 1000 || left.MemoryBytes == 0 {
		out.Trouble = fmt.Sprintf("a machine (%s CPU, %s memory) has less than one core or one MiB left for a worker", f.CPU, f.Memory)
	}
	return out
}
