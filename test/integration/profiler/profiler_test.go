package profiler

import (
	"math"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/energy/meterapi"
	"supercargo.dev/supercargo/energy/profile"
	"supercargo.dev/supercargo/energy/profiler"
)

// core is a pod of a CPU and 256 MiB.
var core = profile.Size{MilliCPU: 1000, MemoryBytes: 256 << 20}

// TestANewMachineTypeIsProbedAndTheSchedulerKnowsIt is one story, because its parts depend on each other. A
// busy node is not probed. An empty one is probed, except for a pod that waits. The result becomes a profile,
// by which pods are placed.
func TestANewMachineTypeIsProbedAndTheSchedulerKnowsIt(t *testing.T) {
	b := newBench(t)
	b.node("busy-1", "busy")
	b.pod("resident", "busy", "1", nil)
	b.runs("resident")

	b.node("fast-1", "fast")
	observe := b.deschedule(profiler.Observe)
	b.event("WouldProbe", "fast-1")
	if len(b.jobs()) != 0 || len(b.reserved()) != 0 || b.profile("fast").Name != "" {
		t.Error("a descheduler that only observes has begun a probe")
	}
	observe()

	stop := b.deschedule(profiler.Act)
	b.onlyTheEmptyNodeIsProbed()
	b.aPodThatWaitsComesFirst()
	b.aProbeThatFailsIsTriedAgain()

	b.say(b.probe("fast"), corev1.PodSucceeded, report(t, 2, 40))
	fast := b.learned("fast")
	// 10 s of CPU time at twice the speed; 40 W for each second.
	if seconds, joules := b.predicted(fast, core); math.Abs(seconds/5-1) > 0.05 || math.Abs(joules/200-1) > 0.05 {
		t.Errorf("a pod of a CPU takes %v s and %v J, want 5 and 200", seconds, joules)
	}
	b.allIsReleased()

	b.node("frugal-1", "frugal")
	b.say(b.probe("frugal"), corev1.PodSucceeded, report(t, 0.5, 2))
	b.learned("frugal")
	b.allIsReleased()

	b.aStatusThatIsEditedIsLearnedAgain()
	b.podsGoWhereTheirOwnersWish()

	stop()
	again := b.deschedule(profiler.Act)
	b.otherHardwareIsProbedAgain()
	again()
	if _, forbade := b.requests.Read(); len(forbade) > 0 {
		t.Errorf("the rights in the manifests do not allow %v", forbade)
	}
	b.requests.FitsMode(t, "probing", account)
}

func (b *bench) onlyTheEmptyNodeIsProbed() {
	b.Helper()
	p := b.probe("fast")
	if p.Spec.NodeName != "fast-1" || len(b.jobs()) != 1 || strings.Join(b.reserved(), " ") != "fast-1" {
		b.Errorf("the probe is on %s, %d Jobs, reserved %q", p.Spec.NodeName, len(b.jobs()), b.reserved())
	}
	if b.profile("busy").Name != "" {
		b.Error("a type of which no node can be probed has a profile")
	}
	c := p.Spec.Containers[0]
	var mounts []string
	for _, m := range c.VolumeMounts {
		mounts = append(mounts, m.Name)
	}
	if s := c.SecurityContext; s.Privileged != nil || s.Capabilities.Drop[0] != "ALL" || strings.Join(mounts, " ") != "cpu state node-meter" ||
		p.Spec.AutomountServiceAccountToken == nil || *p.Spec.AutomountServiceAccountToken {
		b.Errorf("the probe has more than it needs: %+v", p.Spec)
	}
	// Its only token is valid only for node meters.
	if token := p.Spec.Volumes[2].Projected.Sources[0].ServiceAccountToken; token.Audience != meterapi.Audience {
		b.Errorf("the probe's token is for audience %q, want %q", token.Audience, meterapi.Audience)
	}
}

func (b *bench) aPodThatWaitsComesFirst() {
	b.Helper()
	b.pod("urgent", "fast", "3", nil)
	if node := b.runs("urgent"); node != "fast-1" {
		b.Errorf("the pod that waited is on %s", node)
	}
	b.Eventually("the probe has left", func() string {
		if n := len(b.jobs()); n > 0 || len(b.reserved()) > 0 {
			return "there"
		}
		return ""
	})
	b.event("PodsPending", "fast")
	if err := b.Delete(b.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: work, Name: "urgent"}}); err != nil {
		b.Fatal(err)
	}
	b.probe("fast")
}

// aProbeThatFailsIsTriedAgain checks that the Job replaces the pod, and that a new Job follows after a while
// when the first has failed.
func (b *bench) aProbeThatFailsIsTriedAgain() {
	b.Helper()
	first := b.jobs()[0]
	before := first.DeepCopy()
	// As the Job controller does at the back-off limit.
	now := metav1.Now()
	first.Status.StartTime = &now
	first.Status.Conditions = append(first.Status.Conditions,
		batchv1.JobCondition{Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue, Reason: "BackoffLimitExceeded", Message: "it has failed too often", LastTransitionTime: now})
	if err := b.Status().Patch(b.Context(), &first, client.MergeFrom(before)); err != nil {
		b.Fatal(err)
	}
	b.event("ProbeFailed", "fast")
	b.Eventually("another Job is made", func() string {
		if jobs := b.jobs(); len(jobs) != 1 || jobs[0].UID == first.UID {
			return "not yet"
		}
		return ""
	})
}

func (b *bench) allIsReleased() {
	b.Helper()
	b.Eventually("nodes and Jobs are as before", func() string {
		if len(b.jobs()) != 0 || len(b.reserved()) != 0 {
			return strings.Join(b.reserved(), " ")
		}
		return ""
	})
}

func (b *bench) aStatusThatIsEditedIsLearnedAgain() {
	b.Helper()
	p := b.profile("fast")
	before := p.DeepCopy()
	for i := range p.Status.Models.Energy.Terms {
		p.Status.Models.Energy.Terms[i].Coefficient = "1e9"
	}
	if err := b.Status().Patch(b.Context(), p, client.MergeFrom(before)); err != nil {
		b.Fatal(err)
	}
	b.event("ModelsInvalid", "fast")
	b.Eventually("the models are those that were learned", func() string {
		if _, joules := b.predicted(b.profile("fast"), core); math.Abs(joules/200-1) > 0.05 {
			return "wrong"
		}
		return ""
	})
}

// podsGoWhereTheirOwnersWish checks that the scheduler's plugin places by the profiles, and that explain
// shows the weights.
func (b *bench) podsGoWhereTheirOwnersWish() {
	b.Helper()
	b.Eventually("the scheduler knows both types", func() string {
		for weight, want := range map[string]string{"0": "fast-1", "1": "frugal-1"} {
			name := "h" + weight + "-" + time.Now().Format("150405.000000")
			b.pod(strings.ReplaceAll(name, ".", "-"), "", "1", map[string]string{v1alpha1.AnnotationEnergyWeight: weight})
			node := b.runs(strings.ReplaceAll(name, ".", "-"))
			if err := b.Delete(b.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: work, Name: strings.ReplaceAll(name, ".", "-")}}); err != nil {
				b.Fatal(err)
			}
			if node != want {
				return "with H=" + weight + " a pod is on " + node
			}
		}
		return ""
	})
	if out := b.supercargo("explain", "machineprofile/fast"); !strings.Contains(out, "15") || !strings.Contains(out, "fast") {
		b.Errorf("explain says of the profile:\n%s", out)
	}
	b.pod("shown", "", "1", map[string]string{v1alpha1.AnnotationEnergyWeight: "1"})
	b.runs("shown")
	if out := b.supercargo("explain", "pod/shown", "-n", work); !strings.Contains(out, "fast-1") || !strings.Contains(out, "frugal-1") {
		b.Errorf("explain says of the pod:\n%s", out)
	}
}

// otherHardwareIsProbedAnew checks that what was learned of the old hardware is no longer used meanwhile.
// Types whose hardware has not changed are not probed again after a restart.
func (b *bench) otherHardwareIsProbedAgain() {
	b.Helper()
	var n corev1.Node
	if err := b.Get(b.Context(), types.NamespacedName{Name: "fast-1"}, &n); err != nil {
		b.Fatal(err)
	}
	before := n.DeepCopy()
	n.Annotations[v1alpha1.AnnotationHardware] = strings.Replace(n.Annotations[v1alpha1.AnnotationHardware], hardware, "fedcba9876543210", 1)
	if err := b.Patch(b.Context(), &n, client.MergeFrom(before)); err != nil {
		b.Fatal(err)
	}
	p := b.probe("fast")
	if jobs := b.jobs(); len(jobs) != 1 || p.Spec.NodeName != "fast-1" {
		b.Errorf("%d Jobs, the probe is on %s", len(jobs), p.Spec.NodeName)
	}
	if _, err := profile.FromObject(b.profile("fast")); err == nil {
		b.Error("models of other hardware are still used")
	}
	b.say(p, corev1.PodSucceeded, report(b, 4, 40))
	b.Eventually("the new hardware is learned", func() string {
		m, err := profile.FromObject(b.profile("fast"))
		if err != nil {
			return err.Error()
		}
		if seconds := m.Profile.Runtime.Predict(core, 0).Value; math.Abs(seconds/2.5-1) > 0.05 {
			return "not yet"
		}
		return ""
	})
}
