package karpenter

import (
	"cmp"
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// classProblem returns why no machine of the NodeClass can be launched; empty if one can, or if the autoscaler may not
// read it.
func (p *Provider) classProblem(ctx context.Context) (string, error) {
	ref := p.spec.NodeClassRef
	mapping, err := p.claims.Mapper.RESTMapping(schema.GroupKind{Group: ref.Group, Kind: ref.Kind})
	if meta.IsNoMatchError(err) {
		return fmt.Sprintf("spec.karpenter.nodeClassRef: the cluster has no kind %s of group %s: install the provider of Karpenter that it belongs to, or correct the reference",
			ref.Kind, ref.Group), nil
	} else if err != nil {
		return "", fmt.Errorf("discover %s.%s: %w", ref.Kind, ref.Group, err)
	}
	class := &unstructured.Unstructured{}
	class.SetGroupVersionKind(mapping.GroupVersionKind)
	err = p.claims.Live.Get(ctx, types.NamespacedName{Name: ref.Name}, class)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("spec.karpenter.nodeClassRef: %s %s does not exist: create it, or correct the reference", ref.Kind, ref.Name), nil
	case apierrors.IsForbidden(err):
		return "", nil // Karpenter will report what is wrong with it
	case err != nil:
		return "", fmt.Errorf("read %s %s: %w", ref.Kind, ref.Name, err)
	}
	return unready(class), nil
}

// unready returns why a NodeClass is not ready; empty if it is, or if that is not known.
func unready(class *unstructured.Unstructured) string {
	var read struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(class.Object, &read); err != nil {
		return ""
	}
	c := meta.FindStatusCondition(read.Status.Conditions, "Ready")
	if c == nil || c.Status != metav1.ConditionFalse {
		return ""
	}
	return fmt.Sprintf("%s %s is not ready: %s", class.GetKind(), class.GetName(), cmp.Or(c.Message, c.Reason))
}
