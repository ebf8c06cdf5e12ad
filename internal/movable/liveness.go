package movable

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// thawMargin is how long after its deadline a migration that is rolled back may take to remove the new pod and to thaw
// the container.
const thawMargin = time.Minute

// Defaults of the API server for probes.
const (
	defaultPeriodSeconds    = 10
	defaultFailureThreshold = 3
)

// deadline returns the deadline of the migration, or the default.
func (in *Input) deadline() time.Duration {
	if in.Deadline <= 0 {
		return v1alpha1.DefaultMigrationDeadline
	}
	return in.Deadline
}

// checkProbes refuses pods whose kubelet would kill the container while it is frozen, because a frozen container
// answers no probe. A kubelet that has decided to kill a container does so however soon it is thawed, so the grace
// period does not count.
//
// TCP and exec probes are refused like HTTP and gRPC probes. The kernel accepts TCP connections for a frozen process
// until its backlog is full, and the kubelet ignores that runtimes refuse to run a command in a paused container. But
// neither holds for all runtimes and for as long as a migration may take.
//
// A startup probe that has succeeded is not run again.
func (v *Verdict) checkProbes(in Input) {
	longest := in.deadline() + thawMargin
	for i := range in.Pod.Spec.Containers {
		c := &in.Pod.Spec.Containers[i]
		if c.StartupProbe != nil && !hasStarted(in.Pod, c.Name) {
			v.refuse(v1alpha1.MigrationReasonStartupProbePending, "the startup probe of container %s has not succeeded yet, and would kill the container while it is frozen: wait until it has started", c.Name)
		}
		if c.LivenessProbe == nil {
			continue
		}
		if policy := restartable(&in.Pod.Spec, c); policy != corev1.RestartPolicyNever {
			// If its target is lost, the container stays frozen for longer than any probe tolerates.
			v.refuse(v1alpha1.MigrationReasonLivenessProbeTooStrict, "container %s has a liveness probe, which kills a container that is frozen for too long, and with restartPolicy %s the kubelet would then start "+
				"a second copy in addition to the new pod: remove the probe, or use restartPolicy Never", c.Name, policy)
			continue
		}
		tolerates, period := tolerance(c.LivenessProbe)
		if tolerates < longest {
			v.refuse(v1alpha1.MigrationReasonLivenessProbeTooStrict, "the liveness probe of container %s kills it after %s without a response, and the container can be frozen for up to %s (the deadline and %s): "+
				"remove the probe, raise its failureThreshold to at least %d, or set a shorter deadline",
				c.Name, tolerates, longest, thawMargin, (longest+period-1)/period+1)
		}
	}
}

// tolerance returns the minimum time from when a container stops answering a probe until the kubelet kills it, and the
// period of the probe. Timeouts may add to that time.
func tolerance(p *corev1.Probe) (least, period time.Duration) {
	seconds, failures := p.PeriodSeconds, p.FailureThreshold
	if seconds <= 0 {
		seconds = defaultPeriodSeconds
	}
	if failures <= 0 {
		failures = defaultFailureThreshold
	}
	period = time.Duration(seconds) * time.Second
	return time.Duration(failures-1) * period, period
}

// hasStarted reports whether the startup probe of a container has succeeded.
func hasStarted(pod *corev1.Pod, container string) bool {
	for i := range pod.Status.ContainerStatuses {
		if s := &pod.Status.ContainerStatuses[i]; s.Name == container {
			return s.Started != nil && *s.Started
		}
	}
	return false
}

// restartable returns the policy by which the kubelet restarts a container after any exit for which it may: the
// container's own comes before that of the pod. Rules restart a container even if its policy is Never.
func restartable(spec *corev1.PodSpec, c *corev1.Container) corev1.RestartPolicy {
	policy := spec.RestartPolicy
	if c.RestartPolicy != nil {
		policy = corev1.RestartPolicy(*c.RestartPolicy)
	}
	if policy == corev1.RestartPolicyNever && len(c.RestartPolicyRules) > 0 {
		return corev1.RestartPolicyOnFailure
	}
	return cmp.Or(policy, corev1.RestartPolicyAlways)
}
