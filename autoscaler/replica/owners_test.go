package replica

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/test/fixtures"
	"supercargo.dev/supercargo/test/kit/testapi"
)

// TestWhosePodsAre has pods that the selector of Deployment web matches, by their controllers.
func TestWhosePodsAre(t *testing.T) {
	orphan := replicaSet("orphan")
	orphan.OwnerReferences = nil
	again := replicaSet("again")
	again.UID = "another"
	c := fixtures.Client(replicaSet("web"), replicaSet("worker"), orphan, again).Build()
	for _, tc := range []struct {
		kind, name  string // of the controller
		mine, known bool
		otherKind   bool // whether it counts for a target outside of apps
	}{
		{"ReplicaSet", "web", true, true, true},
		{"ReplicaSet", "worker", false, true, false},
		{"ReplicaSet", "orphan", false, true, true},
		{"ReplicaSet", "unseen", false, false, false},
		{"ReplicaSet", "again", false, false, false}, // made again under the same name
		{"Deployment", "web", true, true, true},      // the target itself
		{"StatefulSet", "web", false, true, true},
		{"Job", "web", false, true, true},
		{"", "", false, true, true},
	} {
		var p corev1.Pod
		p.Namespace = "shop"
		if tc.kind != "" {
			p.OwnerReferences = controlledBy(tc.kind, tc.name)
		}
		for _, apps := range []bool{true, false} {
			o := owners{target: "Deployment/web", apps: apps}
			sure, err := o.find(t.Context(), c, []corev1.Pod{p})
			want := map[bool]bool{true: tc.mine, false: tc.otherKind}[apps]
			if mine, known := o.mine(&p); err != nil || mine != want || known != tc.known || sure != tc.known {
				t.Errorf("a pod of %s %s: mine %v, known %v, sure %v, %v, want %v, %v", tc.kind, tc.name, mine, known, sure, err, want, tc.known)
			}
		}
	}
}

// TestPodsOfOthersNeitherCountNorTeach: the pods of Deployment worker have the labels of web too. They do not count as
// its replicas, and their start-up times are not its own.
func TestPodsOfOthersNeitherCountNorTeach(t *testing.T) {
	s := newStage(t)
	testapi.Create(s, s.Client, replicaSet("worker"))
	start := func(name, of string, took time.Duration) {
		p := pod(name, false)
		p.OwnerReferences, p.CreationTimestamp = controlledBy("ReplicaSet", of), metav1.NewTime(s.clock.Now())
		testapi.Create(s, s.Client, p)
		s.podChanged(nil, p)
		after := p.DeepCopy()
		after.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(s.clock.Now().Add(took))}}
		if err := s.Client.Status().Update(s.Context(), after); err != nil {
			s.Fatal(err)
		}
		s.podChanged(p, after)
	}
	start("worker-0", "worker", time.Hour)
	s.evaluate()
	for i := range 5 {
		start(fmt.Sprint("worker-", i+1), "worker", time.Hour)
	}
	start("web-new", "web", 7*time.Second)
	s.clock.Step(time.Second)
	s.evaluate()
	got := s.tracked[web]
	if o := got.last.Observation; o.Ready != 11 || got.status.Replicas != 11 {
		t.Errorf("%d of %d pods are Ready, want the 11 of web", o.Ready, got.status.Replicas)
	}
	if up := got.status.StartUp; up == nil || up.Samples != 1 || up.Mean.Duration != 7*time.Second {
		t.Errorf("it has learned %+v, want 7 s", up)
	}
}

// TestAReplicaSetThatTheCacheDoesNotHaveYet: its pods count as those of the target until it is known whose they are,
// which is read again without a change of a pod.
func TestAReplicaSetThatTheCacheDoesNotHaveYet(t *testing.T) {
	s := newStage(t)
	p := pod("late-0", true)
	p.OwnerReferences = controlledBy("ReplicaSet", "late")
	testapi.Create(s, s.Client, p)
	ready := func() int {
		s.clock.Step(time.Second)
		s.evaluate()
		return s.tracked[web].last.Observation.Ready
	}
	if n := ready(); n != 11 {
		t.Errorf("%d Ready pods, want 11", n)
	}
	set := replicaSet("late") // of a Deployment late
	testapi.Create(s, s.Client, set)
	if n := ready(); n != 10 {
		t.Errorf("%d Ready pods once the ReplicaSet is known, want 10", n)
	}
}
