package moves

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
)

// step is one round of a planner.
type step struct {
	at   time.Duration // since noon
	s    *cluster.State
	want string // the plan, and "wake in TIME" if it has a Wake
}

func checkSteps(t *testing.T, c DrainConfig, steps []step) {
	t.Helper()
	p := NewPlanner(c)
	for _, s := range steps {
		plan := p.Plan(noon.Add(s.at), s.s)
		got := lines(plan)
		if plan.Wake != 0 {
			got = append(got, fmt.Sprintf("wake in %v", plan.Wake))
		}
		if text := strings.Join(got, "; "); text != s.want {
			t.Errorf("after %v: %q, want %q", s.at, text, s.want)
		}
	}
}

func TestANodeMustHaveBeenUnderUsedForLongEnough(t *testing.T) {
	const minute = time.Minute
	tenMinutes := DrainConfig{Threshold: 0.5, After: 10 * minute}
	low, full := node("a", job("p", 1, 1)), node("a", job("p", 8, 8))
	rest := node("b", job("r", 6, 6))
	tests := []struct {
		name  string
		steps []step
	}{
		{"it goes when the time is over, to the nanosecond", []step{
			{0, state(low, rest), "wake in 10m0s"},
			{4 * minute, state(low, rest), "wake in 6m0s"},
			{10*minute - 1, state(low, rest), "wake in 1ns"},
			{10 * minute, state(low, rest), "drain a: p>b"},
		}},
		{"as long as nobody does it, it is proposed again", []step{
			{0, state(low, rest), "wake in 10m0s"},
			{10 * minute, state(low, rest), "drain a: p>b"},
			{12 * minute, state(low, rest), "drain a: p>b"},
		}},
		{"use in between begins the time again", []step{
			{0, state(low, rest), "wake in 10m0s"},
			{9 * minute, state(full, rest), ""},
			{10 * minute, state(low, rest), "wake in 10m0s"},
			{19 * minute, state(low, rest), "wake in 1m0s"},
			{20 * minute, state(low, rest), "drain a: p>b"},
		}},
		{"so does a pod on its way there", []step{
			{0, state(low, rest), "wake in 10m0s"},
			{9 * minute, state(with(low, func(n *cluster.Node) { n.Incoming = 1 }), rest), ""},
			{10 * minute, state(low, rest), "wake in 10m0s"},
		}},
		{"a node that went and came back is another one", []step{
			{0, state(low, rest), "wake in 10m0s"},
			{5 * minute, state(rest), ""},
			{10 * minute, state(low, rest), "wake in 10m0s"},
		}},
		{"time before it was ready does not count", []step{
			{0, state(with(low, func(n *cluster.Node) { n.Phase = cluster.Ordered }), rest), ""},
			{10 * minute, state(low, rest), "wake in 10m0s"},
		}},
		{"a node that lost its last pods has been under-used all the time", []step{
			{0, state(low, rest), "wake in 10m0s"},
			{6 * minute, state(node("a"), rest), "wake in 4m0s"},
			{10 * minute, state(node("a"), rest), "release a"},
		}},
		{"an empty node that is kept for now is no target", []step{
			{0, state(low, node("b", job("r", 8, 8)), node("c", job("s", 9, 10))), "wake in 10m0s"},
			{9 * minute, state(low, node("b"), node("c", job("s", 9, 10))), "wake in 1m0s"},
			{10 * minute, state(low, node("b"), node("c", job("s", 9, 10))), "wake in 9m0s"},
		}},
		{"each node has its own time; the next one says when to evaluate again", []step{
			{0, state(low, rest), "wake in 10m0s"},
			{3 * minute, state(low, rest, node("c")), "wake in 7m0s"},
			{10 * minute, state(rest, node("c")), "wake in 3m0s"},
			{13 * minute, state(rest, node("c")), "release c"},
		}},
		{"a clock that is set back releases nothing early", []step{
			{0, state(low, rest), "wake in 10m0s"},
			{-5 * minute, state(low, rest), "wake in 15m0s"},
			{9 * minute, state(low, rest), "wake in 1m0s"},
		}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) { checkSteps(t, tenMinutes, tc.steps) })
	}
}

func pending(s *cluster.State, queueEmpty time.Duration, pods ...cluster.Pod) *cluster.State {
	s.QueueEmpty, s.Pending = queueEmpty, pods
	return s
}

func TestTheQueueHoldsNodesBack(t *testing.T) {
	const minute = time.Minute
	htas := DrainConfig{Threshold: 0.5, QueueEmpty: 5 * minute}
	compact := DrainConfig{Threshold: 0.5, AnyPending: true}
	low := func(c class.Class) *cluster.State {
		return state(of(node("a", job("p", 1, 1)), c), of(node("b", job("r", 6, 6)), c))
	}
	empty := func(c class.Class) *cluster.State { return state(of(node("a"), c)) }
	tests := []struct {
		name   string
		config DrainConfig
		steps  []step
	}{
		{"the batch queue must have been empty for long enough", htas, []step{
			{0, pending(low(class.Batch), 0), "wake in 5m0s"},
			{minute, pending(low(class.Batch), minute), "wake in 4m0s"},
			{5*minute - 1, pending(low(class.Batch), 5*minute-1), "wake in 1ns"},
			{5 * minute, pending(low(class.Batch), 5*minute), "drain a: p>b"},
		}},
		{"that holds for machines for both as well", htas, []step{
			{0, pending(low(class.Any), 4*minute), "wake in 1m0s"},
			{minute, pending(low(class.Any), 5*minute), "drain a: p>b"},
		}},
		{"and for empty ones", htas, []step{
			{0, pending(empty(class.Batch), 4*minute), "wake in 1m0s"},
			{minute, pending(empty(class.Batch), 5*minute), "release a"},
		}},
		{"the longer of both times counts", DrainConfig{Threshold: 0.5, QueueEmpty: 5 * minute, After: 10 * minute}, []step{
			{0, pending(low(class.Batch), 2*minute), "wake in 10m0s"},
			{8 * minute, pending(low(class.Batch), 2*minute), "wake in 3m0s"},
			{11 * minute, pending(low(class.Batch), 5*minute), "drain a: p>b"},
		}},
		{"without such a rule nothing holds back", DrainConfig{Threshold: 0.5}, []step{
			{0, pending(low(class.Batch), 0, job("q", 1, 1), service("s", 1, 1)), "drain a: p>b"},
		}},
		{"any pending pod holds all back", compact, []step{
			{0, pending(low(class.Any), 0, job("q", 1, 1)), ""},
			{minute, pending(low(class.Any), 9*minute, service("s", 1, 1)), ""},
			{2 * minute, pending(empty(class.Service), 9*minute, job("q", 1, 1)), ""},
			{3 * minute, pending(low(class.Any), 0), "drain a: p>b"},
		}},
		{"time continues while it does", DrainConfig{Threshold: 0.5, AnyPending: true, After: 2 * minute}, []step{
			{0, pending(low(class.Any), 0, job("q", 1, 1)), "wake in 2m0s"},
			{2 * minute, pending(low(class.Any), 0), "drain a: p>b"},
		}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) { checkSteps(t, tc.config, tc.steps) })
	}
}

func TestMachinesOfServicesWaitForServicesAlone(t *testing.T) {
	tests := []struct {
		name    string
		pending []cluster.Pod
		want    string
	}{
		{"nothing is pending", nil, "release a"},
		{"a batch pod is", []cluster.Pod{job("p", 1, 1)}, "release a"},
		{"a service is", []cluster.Pod{service("q", 1, 1)}, ""},
		{"both are", []cluster.Pod{job("p", 1, 1), service("q", 1, 1)}, ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s := pending(state(of(node("a"), class.Service)), 0, tc.pending...)
			if got := strings.Join(lines(NewPlanner(DrainConfig{QueueEmpty: time.Minute}).Plan(noon, s)), "; "); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func TestAMachineOfServicesIsAskedAboutWhenItsOwnTimeIsOver(t *testing.T) {
	c := DrainConfig{QueueEmpty: 10 * time.Minute, After: 2 * time.Minute}
	checkSteps(t, c, []step{
		{0, pending(state(of(node("a"), class.Service)), 0), "wake in 2m0s"},
		{2 * time.Minute, pending(state(of(node("a"), class.Service)), 0), "release a"},
	})
	checkSteps(t, c, []step{
		{0, pending(state(of(node("a"), class.Batch)), 0), "wake in 10m0s"},
	})
}

func TestANodeMayHaveLimitsOfItsOwn(t *testing.T) {
	const minute = time.Minute
	own := func(share float64, after time.Duration) cluster.Node {
		n := node("a", job("p", 4, 4))
		n.UnderUsed, n.UnneededFor = &share, &after
		return n
	}
	rest := node("b", job("r", 6, 6))
	c := DrainConfig{Threshold: 0.5, After: 10 * minute}
	checkSteps(t, c, []step{
		{0, state(own(0.3, 0), rest), ""}, // 40 % utilised
		{minute, state(own(0.41, 2*minute), rest), "wake in 2m0s"},
		{3 * minute, state(own(0.41, 2*minute), rest), "drain a: p>b"},
	})
}
