package karpenter

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	corehelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/cluster/constraint"
)

// labelNodePool is the label of the nodes of a NodePool, with its name.
const labelNodePool = "karpenter.sh/nodepool"

// pool is a NodePool, with the fields that decide for which pods Karpenter buys its machines.
type pool struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		// Replicas is set if the NodePool has a fixed number of machines.
		Replicas *int64 `json:"replicas"`
		Template struct {
			Metadata struct {
				Labels map[string]string `json:"labels"`
			} `json:"metadata"`
			Spec struct {
				Requirements []requirement  `json:"requirements"`
				Taints       []corev1.Taint `json:"taints"`
			} `json:"spec"`
		} `json:"template"`
		Limits corev1.ResourceList `json:"limits"`
	} `json:"spec"`
	Status struct {
		Resources  corev1.ResourceList `json:"resources"`
		Conditions []metav1.Condition  `json:"conditions"`
	} `json:"status"`
}

// requirement is a requirement on a label, of a NodePool or of a pod. The operators are those of both.
type requirement struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values"`
}

// rivals returns the NodePools that may buy machines for pending pods, ordered by name.
func (p *Provider) rivals(ctx context.Context) ([]provider.Rival, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(poolKind.WithVersion("v1").GroupVersion().WithKind(poolKind.Kind + "List"))
	err := p.claims.Live.List(ctx, list)
	switch {
	case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
		return nil, nil
	case apierrors.IsForbidden(err):
		return nil, forbidden("list NodePools", err)
	case err != nil:
		return nil, fmt.Errorf("list NodePools: %w", err)
	}
	var all []provider.Rival
	for i := range list.Items {
		var n pool
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &n); err != nil {
			return nil, fmt.Errorf("read NodePool %s: %w", list.Items[i].GetName(), err)
		}
		if n.buys() {
			all = append(all, provider.Rival{Name: "NodePool " + n.Name, Serves: n.serves, Apart: fmt.Sprintf(
				"For the fleet, set the pods' nodeSelector %s: %s. For the NodePool, set a taint in spec.karpenter.taints that its pods do not tolerate", v1alpha1.LabelFleet, p.fleet.Name)})
		}
	}
	slices.SortFunc(all, func(a, b provider.Rival) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// buys reports whether Karpenter buys machines of the pool for pending pods.
func (n *pool) buys() bool {
	return n.DeletionTimestamp == nil && n.Spec.Replicas == nil && !meta.IsStatusConditionFalse(n.Status.Conditions, "Ready")
}

// serves reports whether Karpenter may buy a machine of the pool for a pod. It decides like Karpenter by the pool's
// taints, labels, requirements and limits. It does not know the instance types of the pool: a pod that is too large for
// all of them counts as one that the pool serves.
func (n *pool) serves(pod *corev1.Pod) bool {
	if !n.leaves(pod) {
		return false
	}
	taints := slices.DeleteFunc(slices.Clone(n.Spec.Template.Spec.Taints), func(t corev1.Taint) bool { return t.Effect == corev1.TaintEffectPreferNoSchedule })
	if _, untolerated := corehelpers.FindMatchingUntoleratedTaint(klog.Background(), taints, pod.Spec.Tolerations, nil, false); untolerated {
		return false
	}
	for key, value := range pod.Spec.NodeSelector {
		if !n.admits(requirement{Key: key, Operator: "In", Values: []string{value}}) {
			return false
		}
	}
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil || pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return true
	}
	return slices.ContainsFunc(pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms, n.admitsTerm)
}

// leaves reports whether the limits of the pool leave room for a pod.
func (n *pool) leaves(pod *corev1.Pod) bool {
	milliCPU, memory, _ := constraint.Requests(pod)
	for name, limit := range n.Spec.Limits {
		left := limit.DeepCopy()
		left.Sub(n.Status.Resources[name])
		switch name {
		case corev1.ResourceCPU:
			if left.Sign() <= 0 || left.MilliValue() < milliCPU {
				return false
			}
		case corev1.ResourceMemory:
			if left.Sign() <= 0 || left.Value() < memory {
				return false
			}
		default:
			if left.Sign() <= 0 {
				return false
			}
		}
	}
	return true
}

// admitsTerm reports whether machines of the pool may fulfil one alternative of a required node affinity. Fields are
// names of nodes, which no future machine has.
func (n *pool) admitsTerm(term corev1.NodeSelectorTerm) bool {
	for _, e := range term.MatchExpressions {
		if !n.admits(requirement{Key: e.Key, Operator: string(e.Operator), Values: e.Values}) {
			return false
		}
	}
	return len(term.MatchFields) == 0 && len(term.MatchExpressions) > 0
}

// admits reports whether some machine of the pool may have a label as a pod requires it.
func (n *pool) admits(asked requirement) bool {
	own := n.about(asked.Key)
	absent := slices.ContainsFunc(own, func(r requirement) bool { return r.Operator == "DoesNotExist" })
	if absent || len(own) == 0 && !wellKnown(asked.Key) {
		return asked.Operator == "NotIn" || asked.Operator == "DoesNotExist"
	}
	all := slices.Concat(own, []requirement{asked})
	for _, r := range all {
		if r.Operator == "In" {
			return slices.ContainsFunc(r.Values, func(value string) bool {
				return !slices.ContainsFunc(all, func(r requirement) bool { return !r.allows(value) })
			})
		}
	}
	return asked.Operator != "DoesNotExist" || len(own) == 0
}

// about returns what the pool states about a label.
func (n *pool) about(key string) (all []requirement) {
	fixed := map[string]string{labelNodePool: n.Name}
	maps.Copy(fixed, n.Spec.Template.Metadata.Labels)
	if value, is := fixed[key]; is {
		all = append(all, requirement{Key: key, Operator: "In", Values: []string{value}})
	}
	for _, r := range n.Spec.Template.Spec.Requirements {
		if r.Key == key {
			all = append(all, r)
		}
	}
	return all
}

// operators are the operators that labels can be compared by. Karpenter's Gte and Lte are not among them.
var operators = map[string]selection.Operator{
	"In": selection.In, "NotIn": selection.NotIn, "Exists": selection.Exists, "DoesNotExist": selection.DoesNotExist, "Gt": selection.GreaterThan, "Lt": selection.LessThan,
}

// allows reports whether a label may have a value. A requirement that is not understood allows all.
func (r requirement) allows(value string) bool {
	read, err := labels.NewRequirement(r.Key, operators[r.Operator], r.Values)
	return err != nil || read.Matches(labels.Set{r.Key: value})
}

// wellKnown reports whether machines of a pool may have a label that the pool does not mention: its instance types and
// the cloud provide it.
func wellKnown(key string) bool {
	if key == corev1.LabelHostname {
		return false
	}
	domain, _, _ := strings.Cut(key, "/")
	return strings.HasPrefix(domain, "karpenter.") || slices.Contains([]string{
		"kubernetes.io", "node.kubernetes.io", "topology.kubernetes.io", "beta.kubernetes.io", "failure-domain.beta.kubernetes.io",
		"kubernetes.azure.com", "cloud.google.com", "topology.k8s.aws", "eks.amazonaws.com",
	}, domain)
}
