package moves

import (
	"strings"
	"testing"
	"time"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/test/kit/sentences"
)

// TestEachReasonWhyANodeStaysIsSaidWhereItIsTrueAndNotWhereItIsNot has all sentences of explain.go.
func TestEachReasonWhyANodeStaysIsSaidWhereItIsTrueAndNotWhereItIsNot(t *testing.T) {
	d := newDemands()
	told := func(change func(*DrainConfig), s *cluster.State) string {
		t.Helper()
		c := DrainConfig{Threshold: 0.5, Explain: true}
		change(&c)
		return strings.Join(whyNot(NewPlanner(c).Plan(noon, s)), "\n")
	}
	usual := func(*DrainConfig) {}
	say := func(nodes ...cluster.Node) string { t.Helper(); return told(usual, state(nodes...)) }
	small, used := node("a", job("p", 1, 1)), node("b", job("q", 8, 8))
	after := func(d time.Duration) string {
		t.Helper()
		return told(func(c *DrainConfig) { c.After = d }, state(small, used))
	}
	pending := func(pods ...cluster.Pod) string {
		t.Helper()
		s := state(small, used)
		s.Pending, s.QueueEmpty = pods, 0
		return told(func(c *DrainConfig) { c.AnyPending = true }, s)
	}
	kept := func(reason string) string {
		t.Helper()
		return say(with(small, func(n *cluster.Node) { n.Kept, n.KeptFor = true, reason }), used)
	}
	coming := say(with(small, func(n *cluster.Node) { n.Incoming = 1 }), used)
	// priced has a node that would be needed for some time longer if pods moved to it from the first one, unless it is needed
	// for that long anyway.
	priced := func(needed time.Duration, pods ...cluster.Pod) string {
		t.Helper()
		cost := func(n cluster.Node) cluster.Node { n.MicroDollarsPerHour = 600_000; return n }
		return told(func(c *DrainConfig) { c.Worthwhile, c.Margin = true, 0.9 }, state(cost(node("a", pods...)), cost(node("b", fixed(lasting(job("s", 8, 8), needed))))))
	}
	full := say(small, node("b", job("q", 10, 10)))
	apart := func(app string) string {
		t.Helper()
		return say(node("a", d.on(job("ns/p", 1, 1), "p", apartFrom("q", hostname))), node("b", d.on(job("r", 7, 7), app)))
	}
	one := say(node("a", job("ns/p", 1, 1)))
	together := say(node("a", job("ns/p", 2, 2), job("ns/q", 2, 2)), node("b", job("s", 8, 7)), node("c", job("t", 10, 10)))
	costly := priced(time.Minute, lasting(job("p", 1, 1), 10*time.Minute))
	little := priced(time.Hour, lasting(job("p", 1, 1), 10*time.Minute))
	partly := priced(time.Minute, lasting(job("p", 1, 1), 6*time.Minute), byWays(lasting(job("q", 1, 1), time.Minute), cluster.Wait))
	// The second pod, which has no constraint, breaks that of the first one.
	crowd := say(located(node("a", d.on(job("p", 2, 2), "web", spreadOver(zone, "web")), d.on(job("q", 1, 1), "web")), "x"), located(node("b", job("r", 6, 6)), "x"), located(node("c", job("s", 10, 10)), "y"))
	sentences.Check(t, []string{"explain.go"}, []sentences.Case{
		{"it must be kept", kept(""), kept("pod ns/q needs it")},
		{"%s %s moving to it", coming, full},
		{"under-used for %v, less than the required %v", after(time.Minute), after(0)},
		{"pods are pending, or were until recently", pending(job("w", 99, 99)), pending()},
		{"would save %s for %s%s%s", costly, full},
		{", which is less than %.0f%% of the remaining cost of the node", little, costly},
		{" by moving %s and waiting for %d", partly, little},
		{"its pods fit on other nodes one by one, but not together", crowd, full},
		{"%s %s on no other node%s%s", full, kept("")},
		{": of the nodes open to ", full, one},
		{"%d without room", full, one},
		{"%d ruled out by %s", apart("q"), apart("other")},
		{" once the others have moved", together, full},
	}, nil)
}
