package karpenter

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// claimKind is the kind of NodeClaims.
var claimKind = schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodeClaim"}

// labelCapacityType is the label of nodes of Karpenter with their capacity type.
const labelCapacityType = "karpenter.sh/capacity-type"

// poolKind is the kind of NodePools.
var poolKind = schema.GroupKind{Group: "karpenter.sh", Kind: "NodePool"}

// nameSpace is how much of the name of a fleet is in the names of its NodeClaims. A provider puts a prefix of ten
// characters before the name, and its cloud accepts 63.
const nameSpace = 36

// The conditions of NodeClaims.
const (
	conditionLaunched    = "Launched"
	conditionRegistered  = "Registered"
	conditionInitialized = "Initialized"
)

// awaiting is the reason of a condition that Karpenter has not worked on.
const awaiting = "AwaitingReconciliation"

// launchPatience is how long Karpenter may fail to launch a machine before the machine counts as failed. Karpenter
// retries errors that may be temporary.
const launchPatience = time.Minute

// uptakePatience is how long Karpenter may leave a NodeClaim untouched before it counts as down. It takes less than a
// second when it runs.
const uptakePatience = 20 * time.Second

// Kinds returns the objects whose changes concern a fleet. Their metadata suffices.
func Kinds() []client.Object {
	c := &metav1.PartialObjectMetadata{}
	c.SetGroupVersionKind(claimKind)
	return []client.Object{c}
}

// claim is a NodeClaim, with the fields that concern a fleet. Karpenter's own types need a newer Go.
type claim struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              claimSpec   `json:"spec"`
	Status            claimStatus `json:"status"`
}

type claimSpec struct {
	NodeClassRef           v1alpha1.KarpenterNodeClass     `json:"nodeClassRef"`
	Requirements           []v1alpha1.KarpenterRequirement `json:"requirements"`
	Taints                 []corev1.Taint                  `json:"taints,omitempty"`
	StartupTaints          []corev1.Taint                  `json:"startupTaints,omitempty"`
	ExpireAfter            string                          `json:"expireAfter,omitempty"`
	TerminationGracePeriod *metav1.Duration                `json:"terminationGracePeriod,omitempty"`
}

type claimStatus struct {
	NodeName    string              `json:"nodeName"`
	ProviderID  string              `json:"providerID"`
	Allocatable corev1.ResourceList `json:"allocatable"`
	Conditions  []metav1.Condition  `json:"conditions"`
}

// NewList returns an empty list of NodeClaims.
func NewList() *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(claimKind.GroupVersion().WithKind(claimKind.Kind + "List"))
	return list
}

// readClaims returns the NodeClaims of a list, ordered by name, without those of NodePools: Karpenter decides about them.
func readClaims(list *unstructured.UnstructuredList) ([]claim, error) {
	all := make([]claim, 0, len(list.Items))
	for i := range list.Items {
		var c claim
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &c); err != nil {
			return nil, fmt.Errorf("read NodeClaim %s: %w", list.Items[i].GetName(), err)
		}
		if !c.pooled() {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b claim) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// pooled reports whether a NodePool owns the claim. Its label is no proof: providers label every NodeClaim with the name
// of its NodePool, and those without one with the empty name.
func (c *claim) pooled() bool {
	return slices.ContainsFunc(c.OwnerReferences, func(o metav1.OwnerReference) bool {
		return schema.FromAPIVersionAndKind(o.APIVersion, o.Kind).GroupKind() == poolKind
	})
}

// unstructured returns the claim as an object that clients accept.
func (c *claim) unstructured() (*unstructured.Unstructured, error) {
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&c.Spec)
	if err != nil {
		return nil, fmt.Errorf("write NodeClaim %s: %w", c.Name, err)
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetGroupVersionKind(claimKind)
	u.SetName(c.Name)
	u.SetLabels(c.Labels)
	return u, nil
}

// claimName returns the name of a NodeClaim: the possibly shortened name of the fleet, a digest of the order, and the
// number in it. Equal orders give equal names. Nodes may be named after it, so it is a valid label.
func claimName(fleet, intent, flavor string, ordinal int) string {
	sum := sha256.Sum256([]byte(intent + "\n" + flavor))
	digest := strings.ToLower(base32.HexEncoding.EncodeToString(sum[:5]))
	fleet = strings.TrimRight(strings.ReplaceAll(fleet, ".", "-")[:min(len(fleet), nameSpace)], "-")
	return fmt.Sprintf("%s-%s-%d", fleet, digest, ordinal)
}

// only returns the single value that a requirement allows for a label; empty if it allows others.
func (s *claimSpec) only(key string) string {
	for i := range s.Requirements {
		if r := &s.Requirements[i]; r.Key == key && r.Operator == corev1.NodeSelectorOpIn && len(r.Values) == 1 {
			return r.Values[0]
		}
	}
	return ""
}

// flavor returns the name of the flavor that the claim is for. It is part of the spec, which cannot be changed.
func (c *claim) flavor() string {
	return offerName(cmp.Or(c.Spec.only(corev1.LabelInstanceTypeStable), "unknown"), c.Spec.only(corev1.LabelTopologyZone), c.Spec.only(labelCapacityType))
}

// is reports whether a condition of the claim is true.
func (c *claim) is(condition string) bool {
	return meta.IsStatusConditionTrue(c.Status.Conditions, condition)
}

// launchFails reports whether Karpenter has failed to launch the machine, and may try again.
func (c *claim) launchFails() bool {
	launched := meta.FindStatusCondition(c.Status.Conditions, conditionLaunched)
	return launched != nil && launched.Status != metav1.ConditionTrue && launched.Message != "" && launched.Reason != awaiting
}

// untouched reports whether Karpenter has not begun to process the claim.
func (c *claim) untouched() bool { return len(c.Status.Conditions) == 0 && c.DeletionTimestamp == nil }

// waits returns what the claim waits for; empty if it is initialized.
func (c *claim) waits() string {
	if len(c.Status.Conditions) == 0 {
		return fmt.Sprintf("Karpenter has not processed NodeClaim %s: check that it runs, and that its cloud provider has NodeClasses of kind %s.%s",
			c.Name, c.Spec.NodeClassRef.Kind, c.Spec.NodeClassRef.Group)
	}
	for _, kind := range []string{conditionLaunched, conditionRegistered, conditionInitialized} {
		found := meta.FindStatusCondition(c.Status.Conditions, kind)
		switch {
		case found == nil:
			return fmt.Sprintf("NodeClaim %s has no condition %s yet", c.Name, kind)
		case found.Status != metav1.ConditionTrue:
			return fmt.Sprintf("NodeClaim %s is not %s: %s", c.Name, kind, cmp.Or(found.Message, found.Reason))
		}
	}
	return ""
}

// ambiguous returns why the node of the claim is unknown; empty if it is known or does not exist.
func (c *claim) ambiguous() string {
	found := meta.FindStatusCondition(c.Status.Conditions, conditionRegistered)
	if found == nil || found.Status != metav1.ConditionFalse {
		return ""
	}
	return fmt.Sprintf("NodeClaim %s is not registered: %s. Several nodes have its provider ID %s: delete the superfluous one",
		c.Name, cmp.Or(found.Message, found.Reason), c.Status.ProviderID)
}

// nodesOf returns the nodes of claims, by the name of the claim. A node may join, and pods may be bound to it, before
// Karpenter registers it: then its provider ID counts.
func nodesOf(all []claim, nodes map[string]*corev1.Node) map[string]*corev1.Node {
	found, waiting := map[string]*corev1.Node{}, map[string]string{}
	for i := range all {
		c := &all[i]
		if n := nodes[c.Status.NodeName]; n != nil {
			found[c.Name] = n
		} else if c.Status.NodeName == "" && c.Status.ProviderID != "" {
			waiting[c.Status.ProviderID] = c.Name
		}
	}
	if len(waiting) == 0 {
		return found
	}
	for _, n := range nodes {
		if name := waiting[n.Spec.ProviderID]; name != "" && (found[name] == nil || n.Name < found[name].Name) {
			found[name] = n
		}
	}
	return found
}
