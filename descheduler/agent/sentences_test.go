package agent

import (
	"context"
	"fmt"
	"io"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/descheduler/checkpoint/ledger"
	"supercargo.dev/supercargo/test/kit/sentences"
)

// TestAContainerWhoseStateIsUnknownIsAskedAgain: the runtime may not say what state it is in.
func TestAContainerWhoseStateIsUnknownIsAskedAgain(t *testing.T) {
	for state, reason := range map[checkpoint.State]string{checkpoint.Frozen: "", checkpoint.Running: "Thawed", checkpoint.Gone: "ContainerGone", checkpoint.Unknown: "retry"} {
		err := stillFrozen(t.Context(), inState{state: state}, checkpoint.Container{Name: "main", Namespace: "jobs", Pod: "work"})
		got := ""
		if f := checkpoint.AsFailure(err); f != nil {
			got = f.Reason
		} else if err != nil {
			got = "retry"
		}
		if got != reason {
			t.Errorf("of a container that is %q it says %v, want %q", state, err, reason)
		}
	}
}

// inState is a back-end whose containers are in one state.
type inState struct {
	checkpoint.Source
	state checkpoint.State
}

func (s inState) State(context.Context, checkpoint.Container) (checkpoint.State, error) {
	return s.state, nil
}

// TestEachSentenceOfAnAgentIsSaidWhereItIsTrueAndNotWhereItIsNot has the sentences of its reports, which become Events of
// the Migration. Those of decisions and of back-ends have tables of their own.
func TestEachSentenceOfAnAgentIsSaidWhereItIsTrueAndNotWhereItIsNot(t *testing.T) {
	says := func(limits func(*Config), change func(*corev1.Pod, *v1alpha1.Migration), before func(*cluster, *moving)) string {
		c := newCluster(t, limits)
		m := c.move(t, change)
		m.carryOut(v1alpha1.OrderPrepare)
		if before != nil {
			before(c, m)
		}
		m.carryOut(v1alpha1.OrderFreeze)
		text := ""
		if s := m.migration().Status.Source; s != nil {
			text += s.Message + "\n"
		}
		if s := m.migration().Status.Target; s != nil {
			text += s.Message
		}
		return text
	}
	well := says(nil, nil, nil)
	at := func(node string, limits Limits) func(*Config) {
		return func(c *Config) {
			if c.Node == node {
				c.Limits.ImageBytes, c.Limits.Images, c.Limits.TotalBytes = limits.ImageBytes, limits.Images, limits.TotalBytes
			}
		}
	}
	backend := func(name v1alpha1.MigrationBackend) func(*corev1.Pod, *v1alpha1.Migration) {
		return func(p *corev1.Pod, m *v1alpha1.Migration) {
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = *resource.NewQuantity(1<<61, resource.BinarySI)
			m.Status.Plan.Backend = name
		}
	}
	endless := func(c *Config) { c.Limits.ImageBytes = 1 << 62 }
	noMemory := func(c *Config) { c.FreeMemory = func() (int64, error) { return memoryReserve, nil } }
	by := func(name v1alpha1.MigrationBackend) func(*corev1.Pod, *v1alpha1.Migration) {
		return func(_ *corev1.Pod, m *v1alpha1.Migration) { m.Status.Plan.Backend = name }
	}
	// Ten bytes in volumes, and a maximum with room for that many besides the memory.
	crowded := func(room int64) string {
		c := newCluster(t, func(c *Config) { c.Limits.ImageBytes = memory + room })
		c.from.backend.volumes = 10
		m := c.move(t, nil)
		m.carryOut(v1alpha1.OrderPrepare)
		return m.migration().Status.Source.Message
	}
	dumping := func(fails error) func(*cluster, *moving) {
		return func(_ *cluster, m *moving) { m.from.backend.fails("Dump", fails) }
	}
	while := func(action string, do func(context.Context, *moving) error) func(*cluster, *moving) {
		return func(_ *cluster, m *moving) {
			m.from.backend.on(action, func(ctx context.Context) error { return do(ctx, m) })
		}
	}
	resumed := says(nil, nil, while("Dump", func(ctx context.Context, m *moving) error { return m.from.backend.Backend.Thaw(ctx, m.container()) }))
	killed := says(nil, nil, while("Dump", func(ctx context.Context, m *moving) error { return m.from.backend.Backend.Kill(ctx, m.container()) }))
	unreadable := says(nil, nil, func(_ *cluster, m *moving) {
		if err := m.to.ledger.Remove(ledger.ID{Migration: m.uid, Node: "to", Role: ledger.TargetRole}); err != nil {
			t.Fatal(err)
		}
		m.change(func(s *v1alpha1.MigrationStatus) { s.Target, s.Source.Requirements = nil, "nonsense" })
	})
	full := func(err error) string {
		return fmt.Sprint(notRecorded(ledger.Entry{Container: checkpoint.Container{Name: "main", Namespace: "jobs", Pod: "work"}}, err))
	}
	reached := func(tries int32) string {
		c := newCluster(t, nil)
		m := c.move(t, nil)
		m.carryOut(v1alpha1.OrderPrepare)
		entry, _ := m.entry(ledger.SourceRole)
		entry.ReachTries = tries
		m.to.stop()
		return fmt.Sprint(c.from.reach(t.Context(), nil, entry, m.migration()))
	}
	staged := func(sum string) string {
		tar := summed("one")
		entry := ledger.Entry{Staged: &checkpoint.Staged{}, Sum: sum}
		_, err := newCluster(t, nil).to.stage(t.Context(), entry, tar)
		return fmt.Sprint(err)
	}

	sentences.Check(t, []string{"source.go", "transfer.go", "target.go", "report.go"}, []sentences.Case{
		{"record the state of %s: %v: free space on the disk of --state-dir", full(errFull), full(context.Canceled)},
		{"%s uses %d bytes of memory, more than the maximum of %d for a checkpoint: raise --max-image-bytes of the node agents", says(at("from", Limits{ImageBytes: memory - 1}), nil, nil), well},
		{"%s has more in its emptyDirs and in /dev/shm than the %d bytes that a checkpoint may have besides its memory: raise --max-image-bytes of the node agents, or remove files",
			crowded(9), crowded(10)},
		{"%s uses %d bytes of memory, and the work folder of the agent on its node has only %d bytes free that no other migration needs: raise --work-size, or wait until other migrations end",
			says(endless, backend(v1alpha1.BackendContainerd), nil), says(endless, backend(v1alpha1.BackendSimulated), nil)},
		{"%s uses %d bytes of memory, and its node has only %d bytes available for its dump: the dump is in memory. Wait until the node has more, or move other pods away first",
			says(noMemory, by(v1alpha1.BackendContainerd), nil), says(noMemory, by(v1alpha1.BackendSimulated), nil)},
		{"%v, after %d attempts: check that the agents can reach each other", reached(reachTries - 1), reached(reachTries - 2)},
		{"the dump of %s has %d bytes, more than the maximum of %d: raise --max-image-bytes of the node agents",
			says(nil, nil, func(_ *cluster, m *moving) { m.from.Limits.ImageBytes = memory - 1 }), well},
		{"dump %s: the work folder is full: raise --work-size of the node agents (%v)", says(nil, nil, dumping(errFull)), says(nil, nil, dumping(checkpoint.Fail("NoRoom", "no room")))},
		{"%s was frozen and is now %s: something else resumed it, so its checkpoint is outdated", resumed, killed},
		{"%s ended while it was frozen", killed, resumed},
		{"the agent of this node does not support back-end %s: see annotation %s of the node", says(nil, backend("Other"), nil), well},
		{"read the requirements in the report of the source's agent: %v", unreadable, well},
		{"the container uses %d bytes of memory, more than the maximum of %d for a checkpoint on this node: raise --max-image-bytes of the node agents",
			says(at("to", Limits{ImageBytes: memory - 1, Images: 8, TotalBytes: 1 << 40}), nil, nil), says(at("to", Limits{ImageBytes: memory, Images: 8, TotalBytes: 1 << 40}), nil, nil)},
		{"the node would hold %s with %d bytes, and its maximum is %d with %d: wait until other migrations end, or raise --max-images and --max-total-bytes of the node agents",
			says(at("to", Limits{ImageBytes: memory, Images: 1, TotalBytes: memory - 1}), nil, nil), says(at("to", Limits{ImageBytes: memory, Images: 1, TotalBytes: memory}), nil, nil)},
		{"another checkpoint of this migration is already staged", staged("another"), staged("one")},
	}, map[string]string{
		"Failed to end the dump that another agent has begun; retrying before the container continues":                    "a line of the log",
		"Failed to resume the container; it stays frozen until an agent runs on the node again":                           "a line of the log",
		"The agent is shutting down: the container continues, and is frozen again when an agent runs on the node again":   "a line of the log",
		"The deadline has passed, and this could not be recorded: check the disk of --state-dir; the container continues": "a line of the log",
		"The deadline has passed and the container's state was not sent: the container continues":                         "a line of the log",
		"The Migration was deleted and its pod was not: the container continues":                                          "a line of the log",
		"Failed to create the Event; the report has the same message":                                                     "a line of the log",
	})
}

// summed is an archive with a checksum.
type summed string

func (s summed) Read([]byte) (int, error) { return 0, io.EOF }
func (s summed) Sum() string              { return string(s) }
