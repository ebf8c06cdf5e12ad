//go:build nodes

package kill

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/e2e/nodes/moves"
)

// down is how long a killed part stays away: long enough for other parts to notice. long is longer than a kubelet
// waits until it syncs a pod again, and than a node may be silent until it counts as not ready.
const (
	down = 2 * time.Second
	long = 2 * time.Minute
)

// reached is a step of a migration, as visible in its status.
type reached struct {
	name string
	is   func(v1alpha1.MigrationStatus) bool
}

func sourceIs(step v1alpha1.SourceStep) func(v1alpha1.MigrationStatus) bool {
	return func(s v1alpha1.MigrationStatus) bool { return s.Source != nil && s.Source.Step == step }
}

func targetIs(step v1alpha1.TargetStep) func(v1alpha1.MigrationStatus) bool {
	return func(s v1alpha1.MigrationStatus) bool { return s.Target != nil && s.Target.Step == step }
}

func conditionIs(kind string) func(v1alpha1.MigrationStatus) bool {
	return func(s v1alpha1.MigrationStatus) bool { return meta.IsStatusConditionTrue(s.Conditions, kind) }
}

// steps are the steps at which a part is killed, in order.
var steps = []reached{
	{"Planned", func(s v1alpha1.MigrationStatus) bool { return s.Plan != nil }},
	{"SourcePrepared", sourceIs(v1alpha1.SourcePrepared)},
	{"Reserved", func(s v1alpha1.MigrationStatus) bool { return s.Reservation != nil }},
	{"TargetPrepared", targetIs(v1alpha1.TargetPrepared)},
	{"Frozen", sourceIs(v1alpha1.SourceFrozen)},
	{"Dumped", sourceIs(v1alpha1.SourceDumped)},
	{"Staged", targetIs(v1alpha1.TargetStaged)},
	{"Verified", conditionIs(v1alpha1.MigrationVerified)},
	{"HandedOver", conditionIs(v1alpha1.MigrationHandedOver)},
}

// killPoint is a part that is away from when a step is reached, while a workload moves.
type killPoint struct {
	workload workload
	part     part
	step     int
	away     time.Duration
}

func (k killPoint) String() string {
	name := k.workload.name + ", " + k.part.name + " at " + steps[k.step].name
	if k.away != down {
		name += " for " + k.away.String()
	}
	return name
}

// came is the result of a kill point.
type came struct {
	Workload string  `json:"workload"`
	Part     string  `json:"part"`
	Step     string  `json:"step"`
	Away     string  `json:"away"`
	Phase    string  `json:"phase"`
	Message  string  `json:"message"`
	Frozen   string  `json:"frozenSeconds"`
	Seconds  float64 `json:"seconds"`
	Lost     bool    `json:"workLost"`
	Right    bool    `json:"right"`
}

// all returns every kill point: each part at each step with a plain Job, what can end a frozen container with the
// other workloads, and what keeps a container frozen for long.
func all() []killPoint {
	frozen := slices.IndexFunc(steps, func(s reached) bool { return s.name == "Frozen" })
	var points []killPoint
	for _, part := range parts {
		for step := range steps {
			for _, workload := range workloads {
				if workload.plain || part.canEndTheSource && step >= frozen {
					points = append(points, killPoint{workload, part, step, down})
				}
			}
			for _, workload := range workloads {
				if part.holds && slices.Contains(heldAt, steps[step].name) && workload.held {
					points = append(points, killPoint{workload, part, step, long})
				}
			}
		}
	}
	return points
}

// chosen returns the kill points of this run, in the order of its seed. If they are few, no part is away for long, and
// each is killed once before any is killed twice.
func chosen() []killPoint {
	points := all()
	few := *killPoints > 0
	points = slices.DeleteFunc(points, func(p killPoint) bool {
		return few && p.away == long || !strings.Contains(p.String(), *killOnly)
	})
	rnd := rand.New(rand.NewPCG(*killSeed, 0))
	rnd.Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
	if !few {
		return points
	}
	killed := map[string]int{}
	turn := map[string]int{}
	for _, p := range points {
		turn[p.String()] = killed[p.part.name]
		killed[p.part.name]++
	}
	slices.SortStableFunc(points, func(a, b killPoint) int { return turn[a.String()] - turn[b.String()] })
	return points[:min(*killPoints, len(points))]
}

func TestWhateverIsKilledNoWorkIsLostAndNoneIsDoneTwice(t *testing.T) {
	var report []came
	for _, point := range chosen() {
		t.Run(point.String(), func(t *testing.T) {
			result := came{Workload: point.workload.name, Part: point.part.name, Step: steps[point.step].name, Away: point.away.String()}
			began := time.Now()
			defer func() {
				result.Seconds, result.Right = time.Since(began).Round(time.Millisecond).Seconds(), !t.Failed()
				report = append(report, result)
			}()
			newTown(t).killAt(point, &result)
		})
	}
	moves.WriteJSON(t, *killReport, map[string]any{"seed": *killSeed, "points": report})
}

// killAt moves the pod of a Job and takes a part away during the migration.
func (w *town) killAt(point killPoint, result *came) {
	const length = 120 // hashes, ten per second
	w.Chains("work", 1, length, point.workload.change)
	pod := w.RunningPods(w.Context(), "work")["0"]
	source := w.fleet.Node(pod.Spec.NodeName)
	target := w.fleet.Nodes[0]
	if target == source {
		target = w.fleet.Nodes[1]
	}
	at := place{w, source, target}
	if point.part.before != nil {
		if err := point.part.before(w.Context(), at); err != nil {
			w.Fatal(err)
		}
	}
	m := w.Move(pod.Name)
	w.Until(m, "reaches "+steps[point.step].name, func(m *v1alpha1.Migration) error {
		if !steps[point.step].is(m.Status) && !moves.Ended(m) && !passed(point.step, m.Status) {
			return errors.New("not yet")
		}
		return nil
	})
	if err := point.part.kill(w.Context(), at); err != nil {
		w.Fatal(err)
	}
	time.Sleep(point.away) // what is simulated: the part is gone for so long
	if err := point.part.again(w.Context(), at); err != nil {
		w.Fatal(err)
	}
	m = w.End(m)
	result.Phase, result.Message = string(m.Status.Phase), moves.EndMessage(m)
	if m.Status.Measured != nil {
		result.Frozen = m.Status.Measured.FrozenSeconds
	}
	w.judge(m, pod, point, length, result)
	w.nothingFrozen()
}

// passed reports whether a later step than the one at the index step has been reached.
func passed(step int, s v1alpha1.MigrationStatus) bool {
	for _, later := range steps[step+1:] {
		if later.is(s) {
			return true
		}
	}
	return false
}

// judge checks that the Job ended as if nothing had been killed.
func (w *town) judge(m *v1alpha1.Migration, was *corev1.Pod, point killPoint, length int64, result *came) {
	w.Helper()
	switch m.Status.Phase {
	case v1alpha1.MigrationSucceeded, v1alpha1.MigrationRolledBack:
	case v1alpha1.MigrationRefused:
		if point.part.ends == endsSource {
			break // its container was dead before anything was changed
		}
		fallthrough
	default:
		w.Errorf("the migration ended as %s: %s", m.Status.Phase, result.Message)
	}
	job := w.Complete("work")
	pods := w.PodsOf(w.Context(), "work")
	var whole *corev1.Pod
	for i := range pods {
		if pods[i].Status.Phase == corev1.PodSucceeded {
			whole = &pods[i]
		}
	}
	if whole == nil {
		w.Fatalf("the Job ended with %+v and no pod that succeeded", job.Status)
	}
	w.WholeChain(whole, length)
	w.eachStepOnce(whole, length)
	result.Lost = whole.Name != was.Name && (m.Status.Plan == nil || whole.Name != m.Status.Plan.RestoredPod) || restarts(whole) > 0
	// A machine or a shim that dies takes the containers on it along: the old one until the new one runs, and
	// then the new one.
	moved := m.Status.Phase == v1alpha1.MigrationSucceeded
	if point.part.ends == endsTarget && moved || point.part.ends == endsSource && !moved {
		return
	}
	if result.Lost || job.Status.Failed != 0 || len(pods) != 1 {
		w.Errorf("pod %s ended the work that %s began, with %d restarts; the Job counts %d failed and has %d pods, want the same work, 0 and 1",
			whole.Name, was.Name, restarts(whole), job.Status.Failed, len(pods))
	}
}

// restarts returns how often the kubelet has started the container of a pod again.
func restarts(pod *corev1.Pod) int32 {
	if len(pod.Status.ContainerStatuses) == 0 {
		return 0
	}
	return pod.Status.ContainerStatuses[0].RestartCount
}

// eachStepOnce checks that the pod that completed the work has printed each of its steps, in order: what it did on its
// earlier node moves with it. The hash alone does not show a step that was repeated from the same state.
func (w *town) eachStepOnce(pod *corev1.Pod, length int64) {
	w.Helper()
	output, err := w.Output(w.Context(), pod.Name)
	if err != nil {
		w.Fatal(err)
	}
	next := int64(1)
	for line := range strings.Lines(string(output)) {
		var index, step int64
		if n, err := fmt.Sscanf(line, "chain %d step %d", &index, &step); n < 2 || err != nil {
			continue
		}
		if step != next {
			w.Errorf("pod %s printed step %d where step %d was due", pod.Name, step, next)
			return
		}
		next++
	}
	if next != length+1 {
		w.Errorf("pod %s printed %d steps, want %d", pod.Name, next-1, length)
	}
}

// nothingFrozen checks that no control group of a pod is frozen.
func (w *town) nothingFrozen() {
	w.Helper()
	for _, node := range w.fleet.Nodes {
		w.Eventually("nothing is frozen on "+node.Name, func(ctx context.Context) error {
			frozen, err := node.Frozen()
			if err == nil && len(frozen) > 0 {
				err = fmt.Errorf("frozen are %q", frozen)
			}
			return err
		})
	}
}
