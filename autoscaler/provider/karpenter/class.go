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
	class, err := p.class(ctx, false)
	if apierrors.IsNotFound(err) { // or its kind is served in another version since the provider was upgraded
		class, err = p.class(ctx, true)
	}
	switch {
	case meta.IsNoMatchError(err):
		return fmt.Sprintf("spec.karpenter.nodeClassRef: the cluster has no kind %s of group %s: install the provider of Karpenter that it belongs to, or correct the reference",
			ref.Kind, ref.Group), nil
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("spec.karpenter.nodeClassRef: %s %s does not exist: create it, or correct the reference", ref.Kind, ref.Name), nil
	case apierrors.IsForbidden(err):
		return "", nil // Karpenter will report what is wrong with it
	case err != nil:
		return "", fmt.Errorf("read %s %s: %w", ref.Kind, ref.Name, err)
	}
	return unready(class), nil
}

// class reads the NodeClass, in the served version that is known or, if again is set, is discovered again.
func (p *Provider) class(ctx context.Context, again bool) (*unstructured.Unstructured, error) {
	mapper, err := p.claims.mapper(again)
	if err != nil {
		return nil, err
	}
	ref := p.spec.NodeClassRef
	mapping, err := mapper.RESTMapping(schema.GroupKind{Group: ref.Group, Kind: ref.Kind})
	if err != nil {
		return nil, err
	}
	class := &unstructured.Unstructured{}
	class.SetGroupVersionKind(mapping.GroupVersionKind)
	return class, p.claims.Live.Get(ctx, types.NamespacedName{Name: ref.Name}, class)
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
