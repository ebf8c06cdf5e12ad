package auditor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/cli/objects"
)

// note adds the notes for the reader.
func (b *observer) note(derivedDaemons int) {
	for _, of := range slices.SortedFunc(maps.Keys(b.pricer.asked), func(x, y place) int {
		return cmp.Or(cmp.Compare(x.list, y.list), cmp.Compare(x.region, y.region))
	}) {
		if at := b.pricer.asked[of]; at != of {
			b.notef("No list prices of %s in %s are included: nodes there have those of %s, the nearest region with prices.", of.list, cmp.Or(of.region, "an unknown region"), at.region)
		}
	}
	if b.Pending > 0 {
		b.notef("%d pods have no node and are not included in any figure.", b.Pending)
	}
	if derivedDaemons > 0 {
		b.notef("No DaemonSets were read: the requests of their pods on a machine are derived from the running pods of %d of them.", derivedDaemons)
	}
	for _, kind := range slices.Sorted(maps.Keys(b.objects.Missing)) {
		b.notef("%s were not read: %s.", kind, b.objects.Missing[kind])
	}
	if claims := b.unknownClaims(); claims > 0 && len(b.objects.Claims) == 0 {
		b.notef("No PersistentVolumeClaims were read: the nodes of %d pods with such claims stay as they are.", claims)
	}
	if slices.ContainsFunc(b.workers, func(w worker) bool { return spot(w.node) }) {
		b.notef("The prices of spot machines do not include interruptions: the cheapest machines are spot machines for all pods that may run there.")
	}
	if len(b.Flavors) == 0 {
		b.notef("No machine is for sale: no node has both a price and an instance type.")
	}
}

func (b *observer) notef(format string, args ...any) {
	b.Notes = append(b.Notes, fmt.Sprintf(format, args...))
}

// unknownClaims returns the number of pods with volume claims.
func (b *observer) unknownClaims() (n int) {
	for i := range b.view.Pods {
		if slices.ContainsFunc(b.view.Pods[i].Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil }) {
			n++
		}
	}
	return n
}

// daemons returns the objects with DaemonSets derived from their pods, if no DaemonSets were read,
// and the number of these. The node affinity of a DaemonSet cannot be derived: in its pods it is
// replaced by the node.
func daemons(from *objects.Objects) (*objects.Objects, int) {
	if len(from.Daemons) > 0 {
		return from, 0
	}
	sets := map[string]appsv1.DaemonSet{}
	for i := range from.Pods {
		pod := &from.Pods[i]
		owner := metav1.GetControllerOfNoCopy(pod)
		if owner == nil || owner.Kind != "DaemonSet" {
			continue
		}
		key := pod.Namespace + "/" + owner.Name
		if known, is := sets[key]; is && known.Annotations["of"] <= pod.Name {
			continue // use the first pod by name
		}
		spec := *pod.Spec.DeepCopy()
		spec.NodeName = ""
		if spec.Affinity != nil {
			spec.Affinity.NodeAffinity = nil
		}
		sets[key] = appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: owner.Name, Annotations: map[string]string{"of": pod.Name}},
			Spec:       appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}, Spec: spec}},
		}
	}
	if len(sets) == 0 {
		return from, 0
	}
	with := *from
	for _, key := range slices.Sorted(maps.Keys(sets)) {
		with.Daemons = append(with.Daemons, sets[key])
	}
	return &with, len(sets)
}
