package world

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/packing"
)

// successors knows what controllers create in place of pods that are evicted. That may request more than the pod that
// runs: its requests may have been changed since it was created, and what admission adds may differ by now.
type successors struct {
	// templates are the pod templates of controllers with default requests, by UID.
	templates map[types.UID]*corev1.PodSpec
	// newest are the newest pods of controllers, by UID, with the requests with which they were created.
	newest map[types.UID]*corev1.Pod
}

// readSuccessors reads the pods of each controller.
func (v *View) readSuccessors() {
	v.successors = successors{templates: map[types.UID]*corev1.PodSpec{}, newest: map[types.UID]*corev1.Pod{}}
	for _, pod := range v.Pods {
		owner := metav1.GetControllerOfNoCopy(pod)
		if owner == nil || !asCreated(pod) {
			continue
		}
		if known := v.successors.newest[owner.UID]; known == nil || newer(pod, known) {
			v.successors.newest[owner.UID] = pod
		}
	}
}

// asCreated reports whether a pod has the spec with which its controller created it. The API server counts changes in the
// generation. Without one, in a dump that was written by hand, nothing is known.
func asCreated(pod *corev1.Pod) bool {
	return pod.Generation == 1 && pod.Annotations[v1alpha1.AnnotationMigrationName] == "" // else it is a copy of another pod
}

// newer reports whether a pod was created after another. Of pods of the same second, the one whose name is first is
// newer.
func newer(a, b *corev1.Pod) bool {
	if x, y := a.CreationTimestamp, b.CreationTimestamp; !x.Equal(&y) {
		return y.Before(&x)
	}
	return a.Name < b.Name
}

// successor returns what the pod requests that a controller would create in place of an evicted one, nil if not more than
// the pod itself: at least what the pod requests now and, of each controller,
//   - what its template requests, if the pod may have been changed since it was created,
//   - what its newest pod was created with: admission may add more than when this pod was created.
func (v *View) successor(pod *corev1.Pod) *packing.Size {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return nil
	}
	size := v.size(pod)
	most := size
	if template := v.template(pod.Namespace, owner); template != nil && !asCreated(pod) {
		asks := askedOf(raised(pod, template))
		of, _ := asks.sized(v.names)
		most = most.Most(of)
	}
	if newest := v.successors.newest[owner.UID]; newest != nil && newest.UID != pod.UID && newer(newest, pod) {
		most = most.Most(v.size(newest))
	}
	if most == size {
		return nil
	}
	return &most
}

// template returns the spec from which a controller creates pods, with default requests; nil if it is unknown.
func (v *View) template(namespace string, owner *metav1.OwnerReference) *corev1.PodSpec {
	if known, is := v.successors.templates[owner.UID]; is && owner.UID != "" {
		return known
	}
	var spec *corev1.PodSpec
	switch owner.Kind {
	case "ReplicaSet":
		if set := v.ReplicaSets[namespace+"/"+owner.Name]; set != nil {
			spec = set.Spec.Template.Spec.DeepCopy()
		}
	case "Job":
		if job := v.Jobs[namespace+"/"+owner.Name]; job != nil {
			spec = job.Spec.Template.Spec.DeepCopy()
		}
	}
	if spec != nil {
		constraint.DefaultRequests(spec)
	}
	v.successors.templates[owner.UID] = spec
	return spec
}

// raised returns a pod whose containers request no less than in the template. It keeps the containers that admission has
// added.
func raised(pod *corev1.Pod, template *corev1.PodSpec) *corev1.Pod {
	all := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: raisedContainers(pod.Spec.InitContainers, template.InitContainers),
		Containers:     raisedContainers(pod.Spec.Containers, template.Containers),
		Overhead:       pod.Spec.Overhead, Resources: pod.Spec.Resources,
	}}
	if of := template.Resources; of != nil {
		all.Spec.Resources = &corev1.ResourceRequirements{}
		if pod.Spec.Resources != nil {
			all.Spec.Resources.Requests = pod.Spec.Resources.Requests
		}
		all.Spec.Resources.Requests = raisedList(all.Spec.Resources.Requests, of.Requests)
	}
	return all
}

func raisedContainers(containers, template []corev1.Container) []corev1.Container {
	all := slices.Clone(containers)
	for i := range template {
		at := slices.IndexFunc(all, func(c corev1.Container) bool { return c.Name == template[i].Name })
		if at < 0 {
			all = append(all, template[i])
			continue
		}
		all[at].Resources.Requests = raisedList(all[at].Resources.Requests, template[i].Resources.Requests)
	}
	return all
}

// raisedList returns the larger amount of each resource.
func raisedList(a, b corev1.ResourceList) corev1.ResourceList {
	most := a.DeepCopy()
	for name, amount := range b {
		if have, has := most[name]; has && have.Cmp(amount) >= 0 {
			continue
		}
		if most == nil {
			most = corev1.ResourceList{}
		}
		most[name] = amount
	}
	return most
}

// copied reports whether a Migration would create the pod elsewhere as a copy of the one that runs.
func copied(pod *corev1.Pod) bool {
	return pod.Annotations[v1alpha1.AnnotationMigration] == v1alpha1.MigrationCheckpoint
}

// Controller identifies the controller of a pod: its kind, namespace and name. It is empty if the pod has none.
func Controller(pod *corev1.Pod) string {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return ""
	}
	return owner.Kind + " " + pod.Namespace + "/" + owner.Name
}
