// Package pause is the switch that keeps Supercargo's controllers from acting on a cluster, whatever
// the objects that they serve say: while ConfigMap supercargo-pause is there, they only say what they
// would do.
package pause

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/platform/conditions"
	"supercargo.dev/supercargo/internal/text/clip"
)

const (
	// Name is that of the ConfigMap. While one of that name is in the programs' namespace, the cluster
	// is paused.
	Name = "supercargo-pause"
	// ReasonKey is the key in it under which people may say why.
	ReasonKey = "reason"
	// DefaultNamespace is where it is looked for by a program that has no namespace of its own.
	DefaultNamespace = "supercargo-system"
	// Reason is that of condition Paused.
	Reason = "PausedByConfigMap"
	// Resumed is the reason of the Event when a pause is over.
	Resumed = "Resumed"
)

// mostOfReason is how much of a reason is shown, in bytes.
const mostOfReason = 256

// State is whether the cluster is paused.
type State struct {
	// Paused says that it is. Nothing else has a meaning unless it does.
	Paused bool
	// Namespace is that of the ConfigMap.
	Namespace string
	// Why is what the ConfigMap says, which may be nothing.
	Why string
}

// Of returns what the ConfigMap says; nil is none.
func Of(object *corev1.ConfigMap) State {
	if object == nil {
		return State{}
	}
	return State{Paused: true, Namespace: object.Namespace, Why: clip.Bytes(object.Data[ReasonKey], mostOfReason)}
}

// Message says that the cluster is paused, why, and how to resume.
func (s State) Message() string {
	why := ""
	if s.Why != "" {
		why = " (" + s.Why + ")"
	}
	return fmt.Sprintf("Supercargo is paused%s: decisions are made and shown, and not carried out; to resume, delete ConfigMap %s/%s", why, s.Namespace, Name)
}

// Condition sets condition Paused among an object's conditions while the cluster is paused, and removes
// it when it is not. It returns whether a pause has begun or ended.
func (s State) Condition(list *[]metav1.Condition, generation int64, now time.Time) (changed bool) {
	if !s.Paused {
		return meta.RemoveStatusCondition(list, v1alpha1.ConditionPaused)
	}
	before := meta.IsStatusConditionTrue(*list, v1alpha1.ConditionPaused)
	conditions.Set(list, v1alpha1.ConditionPaused, true, Reason, s.Message(), generation, now)
	return !before
}

// Switch reads the ConfigMap. A nil one is never paused.
type Switch struct {
	// Client reads from a cache that was set up with Cache.
	Client client.Reader
	// Namespace is where the ConfigMap is.
	Namespace string
}

// Read returns whether the cluster is paused. An error says that this is not known: then nothing is to be
// done either.
func (s *Switch) Read(ctx context.Context) (State, error) {
	if s == nil {
		return State{}, nil
	}
	var object corev1.ConfigMap
	err := s.Client.Get(ctx, types.NamespacedName{Namespace: s.Namespace, Name: Name}, &object)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return State{}, fmt.Errorf("see whether Supercargo is paused: read ConfigMap %s/%s: %w", s.Namespace, Name, err)
	case err != nil:
		return State{}, nil
	}
	return Of(&object), nil
}

// Heed reads the switch for an object that is looked at: it sets or removes condition Paused, and tells once
// of each pause that begins or ends. said has the last message of each reason that tell does not repeat. It
// returns whether the cluster is paused; an error says that this is not known.
func (s *Switch) Heed(ctx context.Context, conditions *[]metav1.Condition, generation int64, now time.Time, said map[string]string,
	tell func(kind, reason, action, message string)) (paused bool, err error) {
	state, err := s.Read(ctx)
	if err != nil || !state.Condition(conditions, generation, now) {
		return state.Paused, err
	}
	if state.Paused {
		delete(said, Resumed) // for the end of this pause
		tell(corev1.EventTypeNormal, v1alpha1.ConditionPaused, "Hold", state.Message())
	} else {
		delete(said, v1alpha1.ConditionPaused)
		tell(corev1.EventTypeNormal, Resumed, "Act", "Supercargo is no longer paused")
	}
	return state.Paused, nil
}

// Cache has a manager's cache hold the one ConfigMap and no other: it is read and watched by its name, for
// which a program needs no right to read others.
func Cache(o *cache.Options, namespace string) {
	if o.ByObject == nil {
		o.ByObject = map[client.Object]cache.ByObject{}
	}
	o.ByObject[&corev1.ConfigMap{}] = cache.ByObject{
		Namespaces: map[string]cache.Config{namespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", Name)}},
	}
}
