package constraint

import (
	"cmp"
	"net"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// term returns the pods that an affinity term selects: as kube-scheduler evaluates the term when the pod itself is
// being placed, and when the pod is already placed and another one is being placed. The two differ only with a
// namespace selector:
//
//   - For a pod that is being placed, the selector is resolved to the names of the namespaces that it selects, and then,
//     unless ResolvesNamespaces is set, also evaluated against empty labels. A selector that matches those
//     (`tier notin (x)`) selects all namespaces.
//   - For a placed pod, the selector is evaluated against the labels of the other pod's namespace, which are empty if the
//     namespace is unknown.
func (d *draft) term(in *corev1.PodAffinityTerm, path *field.Path) (incoming, placed part, errs field.ErrorList) {
	selector, err := metav1.LabelSelectorAsSelector(withLabelKeys(in, d.pod.Labels))
	if err != nil {
		errs = append(errs, field.Invalid(path.Child("labelSelector"), "", err.Error()))
	}
	ofNamespaces, err := metav1.LabelSelectorAsSelector(in.NamespaceSelector)
	if err != nil {
		errs = append(errs, field.Invalid(path.Child("namespaceSelector"), "", err.Error()))
	}
	if len(errs) > 0 {
		return part{}, part{}, errs
	}
	names := map[string]bool{}
	if len(in.Namespaces) == 0 && in.NamespaceSelector == nil {
		names[d.pod.Namespace] = true
	}
	for _, name := range in.Namespaces {
		names[name] = true
	}
	for name, set := range d.c.namespaces {
		if ofNamespaces.Matches(set) {
			names[name] = true
		}
	}
	unlabelled := ofNamespaces.Matches(labels.Set{})
	everywhere := unlabelled && !d.c.ResolvesNamespaces || ofNamespaces.Empty()
	return newPart(selector, everywhere, false, names), newPart(selector, ofNamespaces.Empty(), unlabelled, names), nil
}

// withLabelKeys merges matchLabelKeys and mismatchLabelKeys into the selector as the API server does, unless it already
// did.
func withLabelKeys(in *corev1.PodAffinityTerm, own map[string]string) *metav1.LabelSelector {
	if in.LabelSelector == nil || len(in.MatchLabelKeys) == 0 && len(in.MismatchLabelKeys) == 0 {
		return in.LabelSelector // a nil selector matches no pods, whatever is added
	}
	merged := in.LabelSelector.DeepCopy()
	merge := func(keys []string, op metav1.LabelSelectorOperator) {
		for _, key := range keys {
			value, has := own[key]
			there := slices.ContainsFunc(in.LabelSelector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool {
				return r.Key == key && r.Operator == op
			})
			if has && !there {
				merged.MatchExpressions = append(merged.MatchExpressions,
					metav1.LabelSelectorRequirement{Key: key, Operator: op, Values: []string{value}})
			}
		}
	}
	merge(in.MatchLabelKeys, metav1.LabelSelectorOpIn)
	merge(in.MismatchLabelKeys, metav1.LabelSelectorOpNotIn)
	return merged
}

// allAddresses is the address of a host port that is bound on every address.
const allAddresses = "0.0.0.0"

func newPort(in corev1.ContainerPort) port {
	p := port{ip: cmp.Or(in.HostIP, allAddresses), protocol: cmp.Or(in.Protocol, corev1.ProtocolTCP), number: in.HostPort}
	at := strconv.Itoa(int(p.number))
	if p.ip != allAddresses {
		at = net.JoinHostPort(p.ip, at)
	}
	p.reason = "host port " + at + "/" + string(p.protocol)
	return p
}

// clashes reports whether the two ports cannot be used on one host.
func (p *port) clashes(q *port) bool {
	return p.number == q.number && p.protocol == q.protocol &&
		(p.ip == q.ip || p.ip == allAddresses || q.ip == allAddresses)
}

func comparePorts(a, b port) int {
	return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.protocol, b.protocol), cmp.Compare(a.ip, b.ip))
}
