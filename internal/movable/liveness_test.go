package movable

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A frozen container answers no probe, so its kubelet kills it. No container may be frozen for longer than its probes
// tolerate.
func TestAPodWhoseProbesKillAFrozenContainerIsRefused(t *testing.T) {
	probe := func(period, failures int32) *corev1.Probe {
		return &corev1.Probe{PeriodSeconds: period, FailureThreshold: failures, TimeoutSeconds: 1}
	}
	for _, tc := range []struct {
		name     string
		liveness *corev1.Probe
		startup  *corev1.Probe
		started  *bool
		policy   corev1.RestartPolicy
		deadline time.Duration
		reason   string // empty: it can be moved
		says     string
	}{
		{name: "no probe"},
		{name: "a probe with the defaults", liveness: probe(10, 3), reason: "LivenessProbeTooStrict", says: "kills it after 20s without a response, and the container can be frozen for up to 6m0s"},
		{name: "a probe that says nothing", liveness: &corev1.Probe{}, reason: "LivenessProbeTooStrict", says: "failureThreshold to at least 37"},
		{name: "a probe that kills just before the bound", liveness: probe(10, 36), reason: "LivenessProbeTooStrict", says: "after 5m50s"},
		{name: "a probe that tolerates the bound", liveness: probe(10, 37)},
		{name: "a probe that tolerates a short deadline alone", liveness: probe(10, 10), deadline: 30 * time.Second},
		{name: "a probe that tolerates the default deadline and not a longer one", liveness: probe(10, 37), deadline: time.Hour, reason: "LivenessProbeTooStrict", says: "1h1m0s"},
		{name: "a period that is not a part of the bound", liveness: probe(7, 3), reason: "LivenessProbeTooStrict", says: "failureThreshold to at least 53"},
		{name: "one failure is enough", liveness: probe(600, 1), reason: "LivenessProbeTooStrict", says: "after 0s"},
		{name: "a tolerant probe of a container that is started again", liveness: probe(10, 1000), policy: corev1.RestartPolicyAlways, reason: "LivenessProbeTooStrict", says: "second copy"},
		{name: "a tolerant probe of a container that is started again after failures", liveness: probe(10, 1000), policy: corev1.RestartPolicyOnFailure, reason: "LivenessProbeTooStrict", says: "restartPolicy OnFailure"},
		{name: "a startup probe that has not succeeded", startup: probe(10, 1000), started: new(false), reason: "StartupProbePending", says: "wait until it has started"},
		{name: "a startup probe of which nothing is known", startup: probe(10, 1000), reason: "StartupProbePending"},
		{name: "a startup probe that has succeeded", startup: probe(10, 3), started: new(true)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := movableInput()
			c := &in.Pod.Spec.Containers[0]
			c.LivenessProbe, c.StartupProbe, c.ReadinessProbe = tc.liveness, tc.startup, probe(1, 1)
			in.Pod.Status.ContainerStatuses[0].Started = tc.started
			if tc.policy != "" {
				in.Pod.Spec.RestartPolicy = tc.policy
			}
			in.Deadline = tc.deadline
			got := Check(in).Refusals
			if Reason(got) != tc.reason || !strings.Contains(Message(got), tc.says) {
				t.Errorf("refused for %q: %s; want %q, which says %q", Reason(got), Message(got), tc.reason, tc.says)
			}
		})
	}
}
