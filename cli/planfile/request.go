package planfile

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"supercargo.dev/supercargo/autoscaler/purchase"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/cluster/extended"
	"supercargo.dev/supercargo/internal/packing"
)

// Request is the input of the planner. Create it with [NewRequest].
type Request struct {
	pods []purchase.Pod
	// flavors are the flavors of the catalogue, once per zone if some pod may depend on it. origin
	// maps their names to the catalogue.
	flavors   []cluster.Flavor
	origin    map[string]zoned
	catalogue []Flavor
	names     extended.Names // of the extended resources that are planned
	// unplaceable are pods that are not planned, because it is unknown where they may run.
	unplaceable []Reason
	skipped     []Skipped
	others      map[string]int // objects that are not pods, by kind
}

// zoned is a flavor in a zone.
type zoned struct {
	flavor Flavor
	zone   string
}

// NewRequest compiles the constraints of the pods of a file, whose name is used in errors. flavors
// must be ordered by name. It returns an error that lists all constraints that an API server would
// have rejected.
func NewRequest(file string, pods *Pods, flavors []Flavor) (*Request, error) {
	r := &Request{origin: map[string]zoned{}, catalogue: flavors, skipped: pods.Skipped, others: pods.Others}
	stated := r.nameResources(pods)
	compiler := constraint.NewCompiler(nil)
	demanding, limited := false, slices.ContainsFunc(flavors, func(f Flavor) bool { return f.EphemeralStorage != nil })
	var errs []error
	for _, p := range pods.Pods {
		pod := purchase.PodOf(&p.Pod) // without a runtime: the price per hour is minimized
		pod.Size.Extended, _ = r.names.Requests(p.Extended)
		if p.Manifest != nil {
			demanding = true
			if reason := r.unknowable(&p, stated); reason != "" {
				r.unplaceable = append(r.unplaceable, Reason{Pod: p.Name, Reason: reason})
				continue
			}
			var err error
			if pod.Demands, err = compiler.CompileSuccessor(inNamespace(p.Manifest)); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", file, err))
			} else if limited {
				pod.Demands = pod.Demands.Needing(diskOf(p.Manifest), false)
			}
		}
		r.pods = append(r.pods, pod)
	}
	for _, f := range flavors {
		zones := f.Zoned()
		if !demanding {
			zones = zones[:1] // no pod depends on the zone
		}
		for _, zone := range zones {
			r.add(zoned{f, zone})
		}
	}
	return r, errors.Join(errs...)
}

// nameResources gives slots to the extended resources that pods request and flavors state, and returns those that flavors
// state. Where no flavor states a resource, pods of tables are planned without it.
func (r *Request) nameResources(pods *Pods) (stated map[corev1.ResourceName]bool) {
	stated, requested := map[corev1.ResourceName]bool{}, map[corev1.ResourceName]bool{}
	for i := range r.catalogue {
		for name := range r.catalogue[i].Extended {
			stated[name] = true
		}
	}
	for i := range pods.Pods {
		for name := range pods.Pods[i].Extended {
			requested[name] = requested[name] || stated[name]
		}
	}
	maps.DeleteFunc(requested, func(_ corev1.ResourceName, is bool) bool { return !is })
	r.names = r.names.With(requested)
	return stated
}

// add makes a flavor available in a zone.
func (r *Request) add(o zoned) {
	f := o.flavor.Flavor.Flavor
	f.Size.Extended, f.GPUs, f.Resources = r.names.Capacity(o.flavor.Extended), r.names.GPUs(o.flavor.Extended), &r.names
	f.Host = &constraint.Host{Name: f.Name, Labels: o.flavor.NodeLabels(o.zone), Taints: o.flavor.NodeTaints()}
	if o.flavor.EphemeralStorage != nil {
		f.Host.Disk = &constraint.Disk{Total: *o.flavor.EphemeralStorage, Free: *o.flavor.EphemeralStorage}
	}
	if len(o.flavor.Zones) > 1 {
		f.Name += "\x00" + o.zone // no flavor name contains this
	}
	r.origin[f.Name] = o
	r.flavors = append(r.flavors, f)
}

// diskOf returns the ephemeral storage that a pod requests, in bytes.
func diskOf(pod *corev1.Pod) int64 {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	return requests.StorageEphemeral().Value()
}

// unknowable returns the reason why the two files do not determine where a pod may run, or an empty
// string. stated are the extended resources that flavors state.
func (r *Request) unknowable(p *Pod, stated map[corev1.ResourceName]bool) string {
	pod := p.Manifest
	if what := constraint.Unsupported(pod); what != "" {
		return "has " + what + ", and the nodes that this allows are unknown here"
	}
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	_, missing := r.names.Requests(p.Extended)
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		switch quantity := requests[name]; {
		case name == corev1.ResourceCPU, name == corev1.ResourceMemory, name == corev1.ResourceEphemeralStorage, quantity.IsZero(), stated[name] && name != missing:
		case stated[name]:
			return fmt.Sprintf("requests %v %s, and a plan considers %d kinds of extended resources", &quantity, name, packing.Slots)
		default:
			return fmt.Sprintf("requests %v %s, which flavors do not specify", &quantity, name)
		}
	}
	return ""
}

// inNamespace returns the pod with the default namespace if it has none.
func inNamespace(pod *corev1.Pod) *corev1.Pod {
	if pod.Namespace != "" {
		return pod
	}
	pod = pod.DeepCopy()
	pod.Namespace = metav1.NamespaceDefault
	return pod
}
