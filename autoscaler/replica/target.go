package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// Scaler reads and writes the scale subresource of any kind, bypassing the cache.
type Scaler interface {
	// Scale reads a scale.
	Scale(ctx context.Context, kind schema.GroupVersionKind, key types.NamespacedName) (*autoscalingv1.Scale, error)
	// SetScale writes a scale that was read before. It fails with a conflict if the object has changed since.
	SetScale(ctx context.Context, kind schema.GroupVersionKind, scale *autoscalingv1.Scale) error
}

// NewScaler returns a Scaler that uses c.
func NewScaler(c client.SubResourceClientConstructor) Scaler { return scaler{c} }

type scaler struct {
	client.SubResourceClientConstructor
}

func parent(kind schema.GroupVersionKind, key types.NamespacedName) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	object.SetNamespace(key.Namespace)
	object.SetName(key.Name)
	return object
}

// Scale implements [Scaler].
func (s scaler) Scale(ctx context.Context, kind schema.GroupVersionKind, key types.NamespacedName) (*autoscalingv1.Scale, error) {
	raw := &unstructured.Unstructured{}
	raw.SetGroupVersionKind(autoscalingv1.SchemeGroupVersion.WithKind("Scale"))
	if err := s.SubResource("scale").Get(ctx, parent(kind, key), raw); err != nil {
		return nil, err
	}
	scale := &autoscalingv1.Scale{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw.Object, scale); err != nil {
		return nil, fmt.Errorf("read the scale of %s %s: %w", kind.Kind, key, err)
	}
	return scale, nil
}

// SetScale implements [Scaler].
func (s scaler) SetScale(ctx context.Context, kind schema.GroupVersionKind, scale *autoscalingv1.Scale) error {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(scale)
	if err != nil {
		return fmt.Errorf("write the scale of %s %s/%s: %w", kind.Kind, scale.Namespace, scale.Name, err)
	}
	raw := &unstructured.Unstructured{Object: object}
	raw.SetGroupVersionKind(autoscalingv1.SchemeGroupVersion.WithKind("Scale"))
	return s.SubResource("scale").Update(ctx, parent(kind, client.ObjectKeyFromObject(scale)), client.WithSubResourceBody(raw))
}

// scaled is the scale of a target, as last read.
type scaled struct {
	uid        types.UID
	generation int64
	readAt     time.Time
	asked      int
	selector   labels.Selector
	// apps is set for kinds of apps.
	apps bool
}

// scaleAge is the maximum age of a scale whose target has no generation.
const scaleAge = 30 * time.Second

// targetFault is the reason why a target cannot be scaled. reason is for the condition Ready.
type targetFault struct {
	reason string
	error
}

// Unwrap returns the wrapped error.
func (f *targetFault) Unwrap() error { return f.error }

// groupKind returns the group and kind of a target. It is empty if the apiVersion is invalid.
func groupKind(t v1alpha1.ReplicaTarget) schema.GroupKind {
	gv, err := schema.ParseGroupVersion(t.APIVersion)
	if err != nil {
		return schema.GroupKind{}
	}
	return gv.WithKind(t.Kind).GroupKind()
}

// target returns the scale of a policy's target. It reads the scale again if the generation in the cache has changed.
func (e *evaluation) target(ctx context.Context) (*scaled, error) {
	t := e.object.Spec.Target
	key := types.NamespacedName{Namespace: e.key.Namespace, Name: t.Name}
	kind, ok, err := e.Kinds.of(groupKind(t), e.now)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, &targetFault{v1alpha1.PolicyReasonKindNotAllowed, fmt.Errorf("spec.target: the autoscaler may not scale %s of %s, or the cluster does not serve it: add it to --scale-kinds, and grant get, list and watch on it and get and update on its scale", t.Kind, t.APIVersion)}
	}
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	if err := e.Client.Get(ctx, key, object); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, &targetFault{v1alpha1.PolicyReasonTargetNotFound, fmt.Errorf("%s %s does not exist", t.Kind, key)}
		}
		return nil, fmt.Errorf("read %s %s: %w", t.Kind, key, err)
	}
	if s := e.scale; s != nil && s.uid == object.UID && s.generation == object.Generation && (s.generation != 0 || e.now.Sub(s.readAt) < scaleAge) {
		return s, nil
	}
	read, err := e.Scaler.Scale(ctx, kind, key)
	switch {
	case apierrors.IsNotFound(err):
		return nil, &targetFault{v1alpha1.PolicyReasonNotScalable, fmt.Errorf("%s %s has no scale subresource, or was just deleted", t.Kind, key)}
	case apierrors.IsForbidden(err):
		return nil, &targetFault{v1alpha1.PolicyReasonForbidden, fmt.Errorf("read the scale of %s %s: %w", t.Kind, key, err)}
	case err != nil:
		return nil, fmt.Errorf("read the scale of %s %s: %w", t.Kind, key, err)
	case read.Status.Selector == "":
		return nil, &targetFault{v1alpha1.PolicyReasonNotScalable, fmt.Errorf("the scale of %s %s has no status.selector", t.Kind, key)}
	}
	selector, err := labels.Parse(read.Status.Selector)
	if err != nil {
		return nil, &targetFault{v1alpha1.PolicyReasonNotScalable, fmt.Errorf("the scale of %s %s has an invalid status.selector %q: %w", t.Kind, key, read.Status.Selector, err)}
	}
	e.scale = &scaled{uid: object.UID, generation: object.Generation, readAt: e.now, asked: int(read.Spec.Replicas), selector: selector, apps: kind.Group == appsv1.GroupName}
	return e.scale, nil
}

// isFault reports whether an error is a fault of the target, and not an error of reading it.
func isFault(err error) (*targetFault, bool) {
	var fault *targetFault
	return fault, errors.As(err, &fault)
}
