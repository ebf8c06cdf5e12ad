package auditor

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/cli/audit"
	"supercargo.dev/supercargo/cli/objects"
	"supercargo.dev/supercargo/internal/text/plural"
)

// notePrices adds which prices are used, and what would price the other nodes.
func (b *observer) notePrices() {
	if used := b.pricer.Sources(); len(used) > 0 {
		b.pricingf("Prices: %s.", strings.Join(used, ", "))
	}
	for _, of := range slices.SortedFunc(maps.Keys(b.pricer.asked), byListAndRegion) {
		b.noteRegion(of, b.pricer.asked[of])
	}
	if r := b.pricer.Region; r != "" && !b.pricer.selects() {
		b.pricingf("--region %s selects no prices: no node that has a list price is of its cloud provider.", r)
	}
	if d := b.pricer.Discounts[audit.OnDemand]; d > 0 {
		b.pricingf("On-demand machines with a list price cost %v %% less than that, as --discount states.", math.Round(1000*d)/10)
	}
	if d := b.pricer.Discounts[audit.Spot]; d > 0 {
		b.pricingf("Spot machines without a price of their own cost %v %% less than on demand, as --discount states.", math.Round(1000*d)/10)
	}
	spots, bare := 0, 0
	for i := range b.Nodes {
		switch n := &b.Nodes[i]; n.Unpriced {
		case unknownSpot(InstanceType(b.view.Nodes[n.Name])):
			spots++
		case untyped:
			bare++
		}
	}
	if spots > 0 {
		b.pricingf("%s %s no known price: --discount spot=0.65 would price %s at 65 %% less than on demand.",
			plural.Count(spots, "spot node"), plural.Form(spots, "has", "have"), plural.Form(spots, "it", "them"))
	}
	if bare > 0 {
		b.pricingf("%s %s no instance type: --default-price-per-cpu-hour and --default-price-per-gib-hour would price %s by CPU and memory.",
			plural.Count(bare, "node"), plural.Form(bare, "has", "have"), plural.Form(bare, "it", "them"))
	}
	if sized := b.pricer.nominal; len(sized) > 0 {
		b.pricingf("Of %s in --prices, pods can use less than the size given, such as %s: the audit uses the size of the list of instance types.",
			plural.Count(len(sized), "type"), slices.Min(sized))
	}
}

// noteRegion adds which list prices nodes of a place have, if these are those of another region.
func (b *observer) noteRegion(of place, at *asked) {
	nodes := plural.Count(at.nodes, "node")
	switch {
	case at.nodes == 0 || at.place == of:
	case at.region == b.pricer.Region:
		b.pricingf("%s of %s in %s %s the list prices of %s, as --region states.", nodes, of.list, cmp.Or(of.region, "an unknown region"), plural.Form(at.nodes, "has", "have"), at.region)
	default:
		b.pricingf("No list prices of %s in %s are included: %s there %s those of %s; --region selects another region, and --prices states yours.",
			of.list, cmp.Or(of.region, "an unknown region"), nodes, plural.Form(at.nodes, "has", "have"), at.region)
	}
}

// note adds the other notes for the reader.
func (b *observer) note(derivedDaemons int) {
	b.noteArchs(b.omitted.archs)
	if n := b.omitted.unfit; n > 0 {
		b.notef("%s %s left out because the cloud provider's Kubernetes does not take %s as nodes, such as %s; --instance-types with the name includes one.",
			plural.Count(n, "instance type"), plural.Form(n, "is", "are"), plural.Form(n, "it", "them"), b.omitted.example)
	}
	if b.Pending > 0 {
		b.notef("%s %s no node and %s not included in any figure.", plural.Count(b.Pending, "pod"), plural.Form(b.Pending, "has", "have"), plural.Form(b.Pending, "is", "are"))
	}
	if n := len(b.unstarted); n > 0 {
		b.notef("%s %s not started yet and %s not released by moving pods, such as %s.",
			plural.Count(n, "node"), plural.Form(n, "has", "have"), plural.Form(n, "is", "are"), slices.Min(b.unstarted))
	}
	if pods, nodes := b.homeless(); len(nodes) > 0 {
		which := plural.Form(pods, "its", "their") + " node " + nodes[0]
		if len(nodes) > 1 {
			which = "their nodes, such as " + nodes[0] + ","
		}
		b.notef("%s %s not included in any figure: %s %s not read.",
			plural.Count(pods, "pod"), plural.Form(pods, "is", "are"), which, plural.Form(len(nodes), "was", "were"))
	}
	if derivedDaemons > 0 {
		b.notef("No DaemonSets were read: the requests of their pods on a machine are derived from the running pods of %s.", plural.Count(derivedDaemons, "DaemonSet"))
	}
	for _, kind := range slices.Sorted(maps.Keys(b.objects.Missing)) {
		b.notef("%s were not read: %s.", kind, b.objects.Missing[kind])
	}
	if b.objects.Missing == nil && len(b.objects.Budgets) == 0 {
		b.notef("The input has no PodDisruptionBudgets: if the cluster has some, what they prevent is not considered.")
	}
	if claims := b.unknownClaims(); claims > 0 && len(b.objects.Claims) == 0 {
		b.notef("No PersistentVolumeClaims were read: %s with such claims %s on %s.",
			plural.Count(claims, "pod"), plural.Form(claims, "stays", "stay"), plural.Form(claims, "its node", "their nodes"))
	}
	if slices.ContainsFunc(b.workers, func(w worker) bool { return spot(w.node) }) {
		b.notef("The prices of spot machines do not include interruptions.")
	}
	if b.Unsold = b.whyUnsold(); b.Unsold != "" {
		b.notef("%s", b.Unsold)
	}
}

// whyUnsold says why no machine is for sale; empty if one is.
func (b *observer) whyUnsold() string {
	switch priced := slices.ContainsFunc(b.Nodes, func(n audit.Node) bool { return n.Unpriced == "" }); {
	case len(b.Flavors) > 0:
		return ""
	case !priced:
		return "No machine is for sale: no node has a price."
	case len(b.workers) == 0:
		return "No machine is for sale: no node with a price is both outside the control plane and of a known size and architecture."
	}
	return "No machine is for sale: DaemonSet pods and static pods need all the room of each."
}

// homeless returns the number of pods whose nodes were not read, and the names of these nodes.
func (b *observer) homeless() (pods int, nodes []string) {
	missing := map[string]bool{}
	for i := range b.view.Pods {
		if node := b.view.Pods[i].Spec.NodeName; node != "" && b.view.Nodes[node] == nil {
			pods++
			missing[node] = true
		}
	}
	return pods, slices.Sorted(maps.Keys(missing))
}

// unread returns the kinds of which no objects were read although there may be some: those in Missing and, of a dump,
// those of which it has none. An audit reads no Migrations.
func unread(o *objects.Objects) []string {
	all := append(slices.Sorted(maps.Keys(o.Missing)), "Migrations")
	if o.Missing != nil {
		return all
	}
	for kind, objects := range map[string]int{"PodDisruptionBudgets": len(o.Budgets), "PersistentVolumeClaims": len(o.Claims), "PersistentVolumes": len(o.Volumes), "CSINodes": len(o.Drivers)} {
		if objects == 0 {
			all = append(all, kind)
		}
	}
	return all
}

func (b *observer) pricingf(format string, args ...any) {
	b.Pricing = append(b.Pricing, fmt.Sprintf(format, args...))
}

func (b *observer) notef(format string, args ...any) {
	b.Notes = append(b.Notes, fmt.Sprintf(format, args...))
}

// unknownClaims returns the number of pods on nodes with volume claims.
func (b *observer) unknownClaims() (n int) {
	for i := range b.view.Pods {
		if b.view.Pods[i].Spec.NodeName != "" && slices.ContainsFunc(b.view.Pods[i].Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil }) {
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
