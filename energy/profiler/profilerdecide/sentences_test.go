package profilerdecide

import (
	"testing"
	"time"

	"supercargo.dev/supercargo/test/kit/sentences"
)

func TestEachSentenceOfAStepIsSaidWhereItIsTrueAndNotWhereItIsNot(t *testing.T) {
	inactive := acting
	inactive.Inactive = "Supercargo is paused"
	say := func(c Limits, types ...Type) string { return Decide(c, types, noon)[0].Message }
	runs := func(change ...func(*Type)) string {
		return say(acting, fresh(append([]func(*Type){job(Running)}, change...)...))
	}
	held := func(change ...func(*Type)) string {
		return say(acting, fresh(append([]func(*Type){reservedFor(time.Minute)}, change...)...))
	}
	free := func(change ...func(*Type)) string { return say(acting, fresh(change...)) }
	hardware := func(is string) func(*Type) { return func(t *Type) { t.Hardware = is } }
	done := func(t *Type) { t.Probed = t.Hardware }
	failed := func(n int) func(*Type) { return func(t *Type) { t.Failures, t.Last = n, noon } }
	needed := func(unclear bool) func(*Type) {
		return node(func(n *Node) { n.Wanted, n.Unclear = "ns/p", unclear })
	}
	busy := node(func(n *Node) { n.Busy = "ns/p" })
	of := func(is string) func(*Type) { return node(func(n *Node) { n.Hardware = is }) }
	second := func(t *Type) {
		t.Nodes = append(t.Nodes, Node{Name: "b", Hardware: "new", Reserved: noon.Add(-time.Minute)})
	}
	beside := func(others int) string {
		types := []Type{fresh()}
		types[0].Name = "a"
		for i := range others {
			types = append(types, fresh(job(Leaving)))
			types[i+1].Name = string(rune('b' + i))
		}
		return say(acting, types...)
	}
	sentences.Check(t, []string{"*.go"}, []sentences.Case{
		// Jobs.
		{"the probe on node ", say(acting, fresh(job(Leaving))), runs()},
		{" is being deleted", say(acting, fresh(job(Leaving))), runs()},
		{" was probed", say(acting, fresh(job(Succeeded))), say(acting, fresh(job(Failed)))},
		{"the probe on node %s failed: %s", say(acting, fresh(job(Failed))), say(acting, fresh(job(Succeeded)))},
		{"the probe is cancelled: ", runs(busy), held(busy)},
		{"node %s no longer exists or has another machine type", runs(func(t *Type) { t.Nodes = nil }), runs()},
		{"node %s no longer reports its hardware", runs(of("")), runs(of("newer"))},
		{"the hardware of node %s has changed since the start of the probe", runs(of("newer")), runs(hardware("newer"))},
		{"the profile is for other hardware than that of node %s", runs(hardware("newer")), runs(of("newer"))},
		{"pod %s is on node %s too", runs(busy), runs(needed(false))},
		{" is reserved again for its probe", runs(node(func(n *Node) { n.Reserved = time.Time{} })), runs()},
		{" is being probed", runs(), runs(busy)},

		// Reserved nodes.
		{"another node of its machine type is reserved", held(second), held()},
		{" is not probed: ", held(busy), held()},
		{" is reserved for a probe", free(), held()},
		{"it does not report its hardware", held(of("")), held(of("other"))},
		{"its hardware differs from that of the profile", held(of("other")), held(of(""))},
		{" is on it", held(busy), held(needed(false))},
		{" is pending, and the node has room for it", held(needed(false)), held(needed(true))},
		{" is pending, and it is unknown which nodes suit it", held(needed(true)), held(needed(false))},

		// Machine types.
		{"no node agent has reported the hardware of its machines", runs(hardware("")), runs(done)},
		{"its hardware has been probed", runs(done), runs(hardware(""))},
		{"%s failed in a row; the next starts at %s at the earliest", free(failed(1)), free()},
		{"1 probe has", free(failed(1)), free(failed(2))},
		{"%d probes have", free(failed(2)), free(failed(1))},
		{"another machine type has a probe or a reserved node", beside(1), beside(2)},
		{"%d other machine types have a probe or a reserved node", beside(2), beside(1)},
		{"the machine type has no node", free(func(t *Type) { t.Nodes = nil }), free(busy)},
		{" can be probed, but is not: ", say(inactive, fresh()), free()},
		{"no node can be probed: ", free(busy), free()},
	}, nil)
	for _, text := range []string{say(inactive, fresh()), say(inactive, fresh(job(Running))), say(inactive, fresh(reservedFor(time.Minute)))} {
		if want := "Supercargo is paused"; text[max(0, len(text)-len(want)):] != want {
			t.Errorf("during a pause it says %q", text)
		}
	}
}
