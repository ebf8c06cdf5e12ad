package decide

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/internal/class"
	"supercargo.dev/supercargo/internal/cluster"
)

// full is a node whose one job leaves no room until it ends.
func full(name string, ends time.Duration) cluster.Node {
	return node(name, job("on-"+name, 10, ends))
}

// came adds pods that came so long ago, and were watched for seven minutes, which is how
// far a forecast looks.
func came(s *cluster.State, recent ...cluster.Pod) *cluster.State {
	s.Recent, s.Observed = recent, 7*minute
	return s
}

func ago(p cluster.Pod, waited time.Duration) cluster.Pod { p.Waited = waited; return p }

func observed(s *cluster.State, length time.Duration) *cluster.State { s.Observed = length; return s }

// TestLookAheadBuysForWhatStillWaits has machines that need two minutes, and forecasts of seven.
func TestLookAheadBuysForWhatStillWaits(t *testing.T) {
	p, q := job("p", 4, time.Hour), service("q", 4)
	few := func(n cluster.Node) cluster.Node { n.MaxPods = 1; return n }
	checkStrategy(t, LookAhead, []strategyCase{
		{"nothing waits", state(nil, full("a", minute)), []string{}},
		{"a job gets a machine of its class", state(podsOf(p)), []string{"small batch: p"}},
		{"a service gets one for both classes", state(podsOf(q)), []string{"small any: q"}},
		{"nothing between rounds", between(state(podsOf(p, q))), []string{}},
		{"nothing beyond the limit", limited(state(podsOf(p), full("a", time.Hour)), 1), []string{}},
		{"services first where there may be one more", limited(state(podsOf(job("p", 5, time.Hour), q)), 1), []string{"small any: q"}},
		{"a job that ends in time leaves room", state(podsOf(p), full("a", 6*minute)), []string{}},
		{"even at the last moment", state(podsOf(p), full("a", 7*minute)), []string{}},
		{"one that ends later does not", state(podsOf(p), full("a", 7*minute+1)), []string{"small batch: p"}},
		{"one that is overdue is expected to end half way", state(podsOf(p), full("a", 0)), []string{}},
		{"half of the time is left for another", state(podsOf(job("o", 10, 3*minute), job("p", 10, 2*minute)), full("a", 0)), []string{}},
		{"the longest job takes room first", state(podsOf(job("o", 2, 3*time.Hour), job("r", 7, time.Hour), job("s", 9, 2*time.Hour))), []string{"large batch: o, r", "large batch: s"}},
		{"a service leaves none", state(podsOf(p), node("a", service("x", 10))), []string{"small batch: p"}},
		{"two cannot have the room of one", state(podsOf(job("o", 8, 2*time.Hour), p), full("a", minute)), []string{"small batch: p"}},
		{"who takes the room leaves it again, if in time", state(podsOf(job("o", 8, 6*minute), job("p", 8, 5*minute)), full("a", minute)), []string{}},
		{"room that the scheduler has not given away yet", state(podsOf(p), node("a")), []string{}},
		{"room on a machine for another class is none", state(podsOf(p), of(class.Service, node("a"))), []string{"small batch: p"}},
		{"nor is it on one of another architecture", state(podsOf(needing(p, "amd64")), changedNode(node("a"), func(n *cluster.Node) { n.Arch = "arm64" })), []string{"small batch: p"}},
		{"nor on one with no place for another pod", state(podsOf(p), few(node("a", job("x", 1, time.Hour)))), []string{"small batch: p"}},
		{"unless that pod ends in time", state(podsOf(p), few(node("a", job("x", 1, minute)))), []string{}},
		{"a place is taken by the first alone", state(podsOf(job("o", 1, time.Hour), job("p", 1, 30*minute)), few(node("a"))), []string{"small batch: p"}},
		{"a machine that is being emptied is as good as gone", state(podsOf(p), changedNode(node("a"), func(n *cluster.Node) { n.Phase = cluster.Leaving })), []string{"small batch: p"}},
		{"a machine on order is enough", state(podsOf(p), due(minute, node("a"))), []string{}},
		{"even one that is ready at the last moment", state(podsOf(p), due(7*minute, node("a"))), []string{}},
		{"one that is late is not", state(podsOf(p), due(7*minute+1, node("a"))), []string{"small batch: p"}},
		{"jobs take what services leave of their machines", state(podsOf(service("q", 8), job("p", 2, time.Hour))), []string{"large any: q"}},
		{"services take nothing of the machines of jobs", state(podsOf(q), due(minute, of(class.Batch, node("a")))), []string{"small any: q"}},
		{"the best score for all that wait", state(podsOf(job("o", 4, time.Hour), job("p", 3, time.Hour), job("r", 3, time.Hour))), []string{"large batch: o, p, r"}},
		{"pods that fit no flavor buy nothing", state(podsOf(job("p", 11, minute), service("q", 11))), []string{}},
		{"nor do they keep others from buying", state(podsOf(job("o", 11, minute), p, service("q", 11))), []string{"small batch: p"}},
		{"no flavors", selling(state(podsOf(p, q))), []string{}},
		{"a flavor for a few pods", selling(state(podsOf(job("p", 1, time.Hour), job("q", 1, time.Hour), job("r", 1, time.Hour))), cluster.Flavor{
			Name: "two", Size: size(9, 9), MaxPods: 2, Arch: "amd64", MicroDollarsPerHour: 1,
		}), []string{"two batch: p, q", "two batch: r"}},
		{"a lag of nothing", changed(state(podsOf(p)), func(s *cluster.State) { s.Lag = 0 }), []string{"small batch: p"}},
		{"a lag and an interval of nothing", changed(came(state(podsOf(p, q)), ago(job("r", 1, minute), 0)), func(s *cluster.State) { s.Lag, s.ScalingInterval = 0, 0 }),
			[]string{"small any: q", "small batch: p"}},
	})
}

// TestLookAheadExpectsWhatCameToComeAgain repeats the last two minutes, the time that a
// machine needs. Only what comes within the first two may ask for a machine; for later ones
// the next round is early enough.
func TestLookAheadExpectsWhatCameToComeAgain(t *testing.T) {
	r := job("r", 4, time.Hour)
	short := job("r", 4, minute)
	arm := changedNode(node("a", job("x", 7, time.Hour)), func(n *cluster.Node) { n.Arch = "arm64" })
	checkStrategy(t, LookAhead, []strategyCase{
		{"nothing came", came(state(nil)), []string{}},
		{"what came a minute ago comes in 1, 3, 5 and 7 min", came(state(nil), ago(r, minute)),
			[]string{"large batch: r (expected in 1m0s), r (expected in 3m0s)"}},
		{"what came just now comes in 2, 4 and 6 min", came(state(nil), ago(r, 0)),
			[]string{"large batch: r (expected in 2m0s), r (expected in 4m0s)"}},
		{"what came longer ago than a machine needs does not count", came(state(nil), ago(r, 2*minute)), []string{}},
		{"one that came just within does", came(state(nil), ago(job("r", 10, time.Hour), 2*minute-1)), []string{"large batch: r (expected in 1ns)"}},
		{"what finds room buys nothing", came(state(nil, node("a"), node("b")), ago(r, minute)), []string{}},
		{"nor what leaves it in time for the next", came(state(nil, node("a", job("x", 6, time.Hour))), ago(short, minute)), []string{}},
		{"what comes too late for a machine bought now does not ask for one", came(state(nil, node("a", job("x", 2, time.Hour))), ago(r, minute)), []string{}},
		{"but is thought of where one is bought", came(state(podsOf(needing(job("p", 4, time.Hour), "amd64")), arm), ago(job("r", 3, time.Hour), minute)),
			[]string{"large batch: p, r (expected in 3m0s), r (expected in 5m0s)"}},
		{"services that came come again", came(state(nil), ago(service("r", 5), minute)),
			[]string{"large any: r (expected in 1m0s), r (expected in 3m0s)"}},
		{"a short look back is repeated as it is", observed(came(state(nil), ago(job("r", 10, time.Hour), minute)), 90*time.Second), // in 30 s and 2 min; names decide whose machine is named first
			[]string{"large batch: r (expected in 2m0s)", "large batch: r (expected in 2m0s)"}},
		{"before anything was watched nothing is expected", observed(came(state(nil), ago(r, 0)), 0), []string{}},
		{"a look of a moment says nothing", observed(came(state(nil), ago(r, 0)), time.Nanosecond), []string{}},
		{"nothing between rounds", between(came(state(nil), ago(r, minute))), []string{}},
	})
}

// TestALookThatIsTooShortSaysNothing walks the edge: seven minutes would have a pod come a
// thousand times if it came every 420 ms.
func TestALookThatIsTooShortSaysNothing(t *testing.T) {
	for length, want := range map[time.Duration]int{420 * time.Millisecond: 0, 420*time.Millisecond + 1: 999, 421 * time.Millisecond: 997} {
		s := observed(came(state(nil), ago(job("r", 1, minute), 0)), length)
		if got := len(newForecast(s, horizon(s), nil).events); got != want {
			t.Errorf("watched for %v, %d pods are expected, want %d", length, got, want)
		}
	}
}

// TestAGrowingStreamMakesItBuyAhead plays a stream of jobs that comes ever faster, and holds what
// is bought without a pod waiting against one that is steady.
func TestAGrowingStreamMakesItBuyAhead(t *testing.T) {
	stream := func(perMinute int) *cluster.State {
		s := state(nil, node("a"), node("b"))
		for i := range 2 * perMinute {
			s = came(s, append(s.Recent, ago(job(fmt.Sprintf("r%02d", i), 1, 4*minute), time.Duration(i)*minute/time.Duration(perMinute)))...)
		}
		return s
	}
	var machines []int
	for _, perMinute := range []int{1, 5, 20, 80} {
		machines = append(machines, len(LookAhead(stream(perMinute))))
	}
	// Two nodes hold 20 jobs of 4 min each: 5 a minute.
	if machines[0] != 0 || machines[1] != 0 || machines[2] == 0 || machines[3] < 4*machines[2] {
		t.Errorf("for 1, 5, 20 and 80 jobs a minute it buys %v machines", machines)
	}
}

func TestWhatIsExpectedFindsRoomOnTheMachinesBought(t *testing.T) {
	s := came(state(podsOf(job("p", 7, time.Hour), service("q", 6))), ago(job("r", 3, minute), minute), ago(service("w", 2), 90*time.Second))
	for _, p := range LookAhead(s) {
		order(s, p)
	}
	for _, w := range newForecast(s, horizon(s), nil).run() {
		if w.since <= s.Lag {
			t.Errorf("%s, who comes in %v, still waits", w.pod.Name, w.since)
		}
	}
}

func TestExpectedPodsHaveNamesOfTheirOwn(t *testing.T) {
	p := job("p", 1, minute)
	got := plannable([]waiter{{pod: &p}, {pod: &p, since: minute}, {pod: &p, since: 2 * minute}})
	var names []string
	for _, n := range got {
		names = append(names, n.Name)
	}
	if diff := cmp.Diff([]string{"p", "p (expected in 1m0s)", "p (expected in 2m0s)"}, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}
