package pause

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"supercargo.dev/supercargo/api/v1alpha1"
)

func TestTheClusterIsPausedWhileTheConfigMapIsThere(t *testing.T) {
	there := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "home", Name: Name}, Data: map[string]string{ReasonKey: "an incident"}}
	elsewhere := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: Name}}
	for _, tc := range []struct {
		name   string
		object []client.Object
		want   State
	}{
		{"there is none", nil, State{}},
		{"it is in another namespace", []client.Object{elsewhere}, State{}},
		{"it is there", []client.Object{there, elsewhere}, State{Paused: true, Namespace: "home", Why: "an incident"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &Switch{Client: fake.NewClientBuilder().WithObjects(tc.object...).Build(), Namespace: "home"}
			got, err := s.Read(t.Context())
			if err != nil || got != tc.want {
				t.Errorf("%+v, %v; want %+v", got, err, tc.want)
			}
		})
	}
	if got, err := (*Switch)(nil).Read(t.Context()); err != nil || got.Paused {
		t.Errorf("without a switch: %+v, %v", got, err)
	}
}

func TestASwitchThatCannotBeReadIsAnError(t *testing.T) {
	gone := errors.New("the cache is not there")
	c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return gone
		},
	}).Build()
	if _, err := (&Switch{Client: c, Namespace: "home"}).Read(t.Context()); !errors.Is(err, gone) || !strings.Contains(err.Error(), "home/"+Name) {
		t.Errorf("%v", err)
	}
}

func TestConditionPausedIsThereWhileItHolds(t *testing.T) {
	var conditions []metav1.Condition
	now := time.Unix(1_800_000_000, 0)
	paused := State{Paused: true, Namespace: "home", Why: strings.Repeat("much ", 200)}
	paused.Why = Of(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "home"}, Data: map[string]string{ReasonKey: paused.Why}}).Why
	for i, step := range []struct {
		state   State
		changed bool
	}{{State{}, false}, {paused, true}, {paused, false}, {State{}, true}, {State{}, false}} {
		if changed := step.state.Condition(&conditions, 3, now); changed != step.changed {
			t.Errorf("step %d: changed is %v", i, changed)
		}
		c := meta.FindStatusCondition(conditions, v1alpha1.ConditionPaused)
		if (c != nil) != step.state.Paused {
			t.Fatalf("step %d: %+v", i, c)
		}
		if c != nil && (c.Status != metav1.ConditionTrue || c.Reason != "PausedByConfigMap" || c.ObservedGeneration != 3 || !strings.Contains(c.Message, "delete ConfigMap home/"+Name) || len(c.Message) > 512) {
			t.Errorf("step %d: %+v", i, c)
		}
	}
}
