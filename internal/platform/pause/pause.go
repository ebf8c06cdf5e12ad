// Package pause is the switch that prevents Supercargo's controllers from acting on a cluster. While ConfigMap
// supercargo-pause exists, they only report what they would do.
package pause

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/platform/conditions"
	"supercargo.dev/supercargo/internal/text/clip"
)

const (
	// Name is the name of the ConfigMap. While it exists in the programs' namespace, the cluster is paused.
	Name = "supercargo-pause"
	// ReasonKey is the key in the ConfigMap of an optional reason.
	ReasonKey = "reason"
	// DefaultNamespace is the namespace of the ConfigMap for programs without a namespace of their own.
	DefaultNamespace = "supercargo-system"
)

// mostOfReason is the maximum length in bytes of the displayed reason.
const mostOfReason = 256

// State is the pause state of the cluster.
type State struct {
	// Paused means that the cluster is paused. The other fields are only meaningful if it is set.
	Paused bool
	// Namespace is the namespace of the ConfigMap.
	Namespace string
	// Why is the reason in the ConfigMap; it may be empty.
	Why string
	// Withheld is why the program may never act on these objects, which it then treats as paused; empty if it may act.
	Withheld string
}

// Of returns the state for the ConfigMap, or for nil if there is none.
func Of(object *corev1.ConfigMap) State {
	if object == nil {
		return State{}
	}
	return State{Paused: true, Namespace: object.Namespace, Why: clip.Bytes(object.Data[ReasonKey], mostOfReason)}
}

// Message returns a message that the cluster is paused, why, and how to resume.
func (s State) Message() string {
	if s.Withheld != "" {
		return s.Withheld
	}
	why := ""
	if s.Why != "" {
		why = " (" + s.Why + ")"
	}
	return fmt.Sprintf("Supercargo is paused%s: decisions are reported but not executed; to resume, delete ConfigMap %s/%s", why, s.Namespace, Name)
}

// Condition sets condition Paused while the cluster is paused and removes it otherwise. It returns whether a pause has
// begun or ended.
func (s State) Condition(list *[]metav1.Condition, generation int64, now time.Time) (changed bool) {
	if !s.Paused {
		return meta.RemoveStatusCondition(list, v1alpha1.ConditionPaused)
	}
	before := meta.IsStatusConditionTrue(*list, v1alpha1.ConditionPaused)
	reason := v1alpha1.ReasonPausedByConfigMap
	if s.Withheld != "" {
		reason = v1alpha1.ReasonActionDisabled
	}
	conditions.Set(list, v1alpha1.ConditionPaused, true, reason, s.Message(), generation, now)
	return !before
}

// Switch reads the ConfigMap. A nil Switch is never paused.
type Switch struct {
	// Client reads from a cache, which needs only this ConfigMap: see package operator.
	Client client.Reader
	// Namespace is the namespace of the ConfigMap.
	Namespace string
	// Withheld is why the program may never act; empty if it may. Its permissions are then those of a program that only
	// reports: it must not even undo what it did before.
	Withheld string
}

// Withholds reports whether the program may never act, and must not undo what it did before.
func (s *Switch) Withholds() bool { return s != nil && s.Withheld != "" }

// Read returns whether the cluster is paused, or acting is withheld. On an error this is unknown, and the caller must
// not act.
func (s *Switch) Read(ctx context.Context) (State, error) {
	if s == nil {
		return State{}, nil
	}
	if s.Withholds() {
		return State{Paused: true, Namespace: s.Namespace, Withheld: s.Withheld}, nil
	}
	var object corev1.ConfigMap
	err := s.Client.Get(ctx, types.NamespacedName{Namespace: s.Namespace, Name: Name}, &object)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return State{}, fmt.Errorf("check whether Supercargo is paused: read ConfigMap %s/%s: %w", s.Namespace, Name, err)
	case err != nil:
		return State{}, nil
	}
	return Of(&object), nil
}

// Apply reads the switch during the reconciliation of an object: it sets or removes condition Paused, and records an
// Event at the beginning and the end of each pause. An object whose own mode does not act (acts is false) has no
// condition about an action that is withheld, because nothing is withheld from it. Apply returns whether the cluster is
// paused, or acting is withheld; on an error this is unknown.
func (s *Switch) Apply(ctx context.Context, to *conditions.Reporter, acts bool) (paused bool, err error) {
	state, err := s.Read(ctx)
	if err != nil {
		return state.Paused, err
	}
	paused = state.Paused
	if state.Withheld != "" && !acts {
		state = State{}
	}
	if !state.Condition(to.Conditions, to.Object.GetGeneration(), to.Now) {
		return paused, nil
	}
	if state.Paused {
		delete(to.Last, v1alpha1.ReasonResumed) // so that the end of this pause is reported
		to.Event(corev1.EventTypeNormal, v1alpha1.ReasonPaused, v1alpha1.ActionWait, state.Message())
	} else {
		delete(to.Last, v1alpha1.ConditionPaused)
		to.Event(corev1.EventTypeNormal, v1alpha1.ReasonResumed, v1alpha1.ActionResume, "Supercargo is no longer paused")
	}
	return paused, nil
}
