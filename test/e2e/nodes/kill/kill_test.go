//go:build nodes

package kill

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
	"supercargo.dev/supercargo/test/e2e/nodes/moves"
)

// down is how long a killed part stays away: long enough for other parts to notice.
const down = 2 * time.Second

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

// part is a program or machine that can be killed. kill returns when it is dead, again when it is back.
type part struct {
	name        string
	kill, again func(ctx context.Context, w *town, source, target *cluster.Node) error
	// fatal means that the new pod dies with the part. After the hand-over, its work is lost.
	fatal bool
}

var parts = []part{
	{
		name: "agent of the source",
		kill: func(ctx context.Context, w *town, source, _ *cluster.Node) error {
			return w.fleet.Agents[source.Name].Kill(ctx)
		},
		again: func(_ context.Context, w *town, source, _ *cluster.Node) error {
			return w.fleet.Agents[source.Name].Start()
		},
	},
	{
		name: "agent of the target",
		kill: func(ctx context.Context, w *town, _, target *cluster.Node) error {
			return w.fleet.Agents[target.Name].Kill(ctx)
		},
		again: func(_ context.Context, w *town, _, target *cluster.Node) error {
			return w.fleet.Agents[target.Name].Start()
		},
	},
	{
		name:  "controller",
		kill:  func(ctx context.Context, w *town, _, _ *cluster.Node) error { return w.fleet.Descheduler.Kill(ctx) },
		again: func(_ context.Context, w *town, _, _ *cluster.Node) error { return w.fleet.Descheduler.Start() },
	},
	{
		name:  "containerd of the source",
		kill:  func(ctx context.Context, _ *town, source, _ *cluster.Node) error { return source.KillContainerd(ctx) },
		again: func(ctx context.Context, _ *town, source, _ *cluster.Node) error { return source.StartContainerd(ctx) },
	},
	{
		name:  "containerd of the target",
		kill:  func(ctx context.Context, _ *town, _, target *cluster.Node) error { return target.KillContainerd(ctx) },
		again: func(ctx context.Context, _ *town, _, target *cluster.Node) error { return target.StartContainerd(ctx) },
	},
	{
		name:  "kubelet of the source",
		kill:  func(ctx context.Context, _ *town, source, _ *cluster.Node) error { return source.KillKubelet(ctx) },
		again: func(ctx context.Context, _ *town, source, _ *cluster.Node) error { return source.StartKubelet(ctx) },
	},
	{
		name:  "kubelet of the target",
		kill:  func(ctx context.Context, _ *town, _, target *cluster.Node) error { return target.KillKubelet(ctx) },
		again: func(ctx context.Context, _ *town, _, target *cluster.Node) error { return target.StartKubelet(ctx) },
	},
	{
		name:  "node of the target",
		fatal: true,
		kill:  func(ctx context.Context, _ *town, _, target *cluster.Node) error { return target.Kill(ctx) },
		again: func(ctx context.Context, w *town, _, target *cluster.Node) error {
			if err := target.Start(ctx); err != nil {
				return err
			}
			return w.fleet.Agents[target.Name].Start()
		},
	},
}

// killPoint is a part that is killed when a step is reached.
type killPoint struct{ part, step int }

func (k killPoint) String() string { return parts[k.part].name + " at " + steps[k.step].name }

// came is the result of a kill point.
type came struct {
	Part    string  `json:"part"`
	Step    string  `json:"step"`
	Phase   string  `json:"phase"`
	Message string  `json:"message"`
	Seconds float64 `json:"seconds"`
	Lost    bool    `json:"workLost"`
	Right   bool    `json:"right"`
}

// chosen returns the kill points of this run.
func chosen() []killPoint {
	var all []killPoint
	for p := range parts {
		for s := range steps {
			all = append(all, killPoint{p, s})
		}
	}
	rnd := rand.New(rand.NewPCG(*killSeed, 0))
	rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if n := *killPoints; n > 0 && n < len(all) {
		return all[:n]
	}
	return all
}

func TestWhateverIsKilledNoWorkIsLostAndNoneIsDoneTwice(t *testing.T) {
	var report []came
	for _, point := range chosen() {
		t.Run(point.String(), func(t *testing.T) {
			result := came{Part: parts[point.part].name, Step: steps[point.step].name}
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

// killAt moves the pod of a Job and kills a part during the migration.
func (w *town) killAt(point killPoint, result *came) {
	const length = 120 // hashes, ten per second
	w.Chains("work", 1, length)
	pod := w.RunningPods(w.Context(), "work")["0"]
	source := w.fleet.Node(pod.Spec.NodeName)
	target := w.fleet.Nodes[0]
	if target == source {
		target = w.fleet.Nodes[1]
	}
	m := w.Move(pod.Name)
	w.Until(m, "reaches "+steps[point.step].name, func(m *v1alpha1.Migration) error {
		if !steps[point.step].is(m.Status) && !moves.Ended(m) && !passed(point.step, m.Status) {
			return errors.New("not yet")
		}
		return nil
	})
	killed := parts[point.part]
	if err := killed.kill(w.Context(), w, source, target); err != nil {
		w.Fatal(err)
	}
	time.Sleep(down) // what is simulated: the part is gone for so long
	if err := killed.again(w.Context(), w, source, target); err != nil {
		w.Fatal(err)
	}
	m = w.End(m)
	result.Phase, result.Message = string(m.Status.Phase), moves.EndMessage(m)
	w.judge(m, pod, killed.fatal, length, result)
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
func (w *town) judge(m *v1alpha1.Migration, was *corev1.Pod, fatal bool, length int64, result *came) {
	w.Helper()
	switch m.Status.Phase {
	case v1alpha1.MigrationSucceeded, v1alpha1.MigrationRolledBack:
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
	result.Lost = whole.Name != was.Name && whole.Name != m.Status.Plan.RestoredPod
	// If a machine dies after the hand-over, the pods on it are lost.
	if fatal && m.Status.Phase == v1alpha1.MigrationSucceeded {
		return
	}
	if result.Lost || job.Status.Failed != 0 || len(pods) != 1 {
		w.Errorf("pod %s ended the work that %s began; the Job counts %d failed and has %d pods, want the same work, 0 and 1",
			whole.Name, was.Name, job.Status.Failed, len(pods))
	}
}
