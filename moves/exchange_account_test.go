package moves

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/test/fixtures/states"
)

// TestWhatAnExchangeSavesAndCosts uses machines at a dollar a minute that are 10 min old and billed by the minute. A
// new machine costs half a dollar a minute unless a case says otherwise. Amounts are in dollars, for half an hour from
// now.
func TestWhatAnExchangeSavesAndCosts(t *testing.T) {
	const minute = time.Minute
	migrate := ExchangeConfig{Horizon: 30 * minute, MoveServices: true, Margin: -1}
	evict := migrate
	evict.Method = cluster.Evict
	fresh := func(cents int64, cpu, memory int64) []cluster.Flavor {
		return []cluster.Flavor{{Name: "new", Size: size(cpu, memory), Arch: "amd64", MicroDollarsPerHour: cents * 600_000}}
	}
	lagging := func(s *cluster.State, lag time.Duration) *cluster.State { s.Lag = lag; return s }
	by := func(period time.Duration, s *cluster.State) *cluster.State { s.BillingPeriod = period; return s }
	released := func(s *cluster.State) *cluster.State { s.Release = 90 * time.Second; return s }
	web, half := state(node("a", service("p", 5, 5))), fresh(50, 5, 5)
	until := func(name string, end time.Duration) cluster.Node {
		return node(name, fixed(lasting(job("r-"+name, 5, 5), end)))
	}
	tests := []struct {
		name         string
		s            *cluster.State
		flavors      []cluster.Flavor
		c            ExchangeConfig
		saves, costs float64
	}{
		// a is paid for 11 min instead of 40, and half of the last minute is wasted.
		{"a service", states.Clone(web), half, migrate, 29 - 15 + 0.5, 0.5},
		{"evicted, it goes at once", states.Clone(web), half, evict, 30 - 15, 0},
		// Both are paid for 4 min.
		{"the new machine takes a while", lagging(states.Clone(web), 4*minute), half, evict, 26 - 15 + 2, 2},
		// 50 min of the started hour are lost. The new machine is paid for one hour, too.
		{"by the hour", by(time.Hour, state(with(node("a", service("p", 5, 5)), func(n *cluster.Node) { n.Age = 70 * minute }))), half, evict, 0 - 30 + 50, 50},
		{"to the moment", by(0, states.Clone(web)), half, migrate, 30 - 0.5 - 15, 0},
		// 41.5 and 11.5 min of a are paid as 42 and 12, and 31.5 min of the new one as 32.
		{"the release is paid", released(states.Clone(web)), half, evict, 30 - 16 + 0.5, 0.5},
		// p ends in 20 min, or in 20.5 if it is moved, which is paid as 21.
		{"a job ends by itself", state(node("a", lasting(job("p", 5, 5), 20*minute))), fresh(50, 10, 10), migrate, 20 - 1 - 10 + 0.5, 0.5 + 0.5},
		{"an evicted job starts again from nothing", state(node("a", ran(lasting(job("p", 5, 5), 20*minute), 6*minute))), fresh(50, 10, 10), evict, 20 - 10, 3},
		// It ends 8 min later, 4 of them after the horizon. Half of the machine for 8 min costs as much as the machine
		// for 4.
		{"and loses what it does until then", lagging(state(node("a", ran(lasting(job("p", 5, 5), 26*minute), 4*minute))), 4*minute), fresh(50, 10, 10), evict,
			26 - 4 - 13 + 2, 2 + 2},
		{"beyond the horizon its share counts", state(node("a", ran(lasting(job("p", 5, 8), 29*minute), 8*minute))), fresh(50, 10, 10), evict, 29 - 14.5, 3.2},
		{"a job that lasts longer than one looks", state(node("a", lasting(job("p", 5, 5), 300*minute))), half, evict, 30 - 15, 0},
		{"the last job decides", state(node("a", lasting(job("p", 5, 5), 5*minute), lasting(job("q", 5, 5), 20*minute))), fresh(50, 10, 10), evict, 20 - 10, 0},
		{"another node that is needed longer", state(node("a", lasting(job("p", 5, 5), 20*minute)), until("b", 15*minute)), nil, evict, 20 - 5, 0},
		{"one that is needed so long anyway", state(node("a", lasting(job("p", 5, 5), 20*minute)), until("b", 40*minute)), nil, evict, 20, 0},
		{"because of a service", state(node("a", lasting(job("p", 5, 5), 20*minute)), node("b", fixed(service("q", 5, 5)))), nil, evict, 20, 0},
		{"because it is kept", state(node("a", lasting(job("p", 5, 5), 20*minute)), with(node("b"), keep)), nil, evict, 20, 0},
		// p repeats 10 min of work on a tenth of b.
		{"repeated work takes a share of a node that stays", state(node("a", ran(lasting(job("p", 1, 0), 20*minute), 10*minute)), node("b", fixed(service("q", 5, 5)))), nil, evict, 20, 1},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			tc.s.Flavors = tc.flavors
			all := Exchange(tc.s, tc.c, thrifty)
			if tc.saves <= tc.costs {
				if len(all) > 0 {
					t.Errorf("it does not pay, but is done: %s", told(all))
				}
				return
			}
			if len(all) != 1 || !slices.Equal(all[0].Nodes, []string{"a"}) {
				t.Fatalf("exchanges %s", told(all))
			}
			got := []float64{float64(all[0].Saves) / 1e6, float64(all[0].Costs) / 1e6}
			if diff := cmp.Diff([]float64{tc.saves, tc.costs}, got); diff != "" {
				t.Errorf("dollars saved and spent (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnExchangeSaysWhatItIsAbout(t *testing.T) {
	c := ExchangeConfig{Horizon: time.Hour, MoveServices: true, Method: cluster.Evict}
	s := state(node("a", service("p", 4, 4), service("q", 2, 2)), node("b", fixed(service("r", 8, 8))))
	s.Flavors = []cluster.Flavor{flavor("small", 4, 4, 20)}
	want := []cluster.Exchange{{
		Nodes: []string{"a"}, Method: cluster.Evict, SavesPerHour: 40_000_000, Saves: 40_000_000,
		Buy:    []cluster.Purchase{{Flavor: "small", Class: "any", Pods: []string{"p"}, Reason: "replaces a"}},
		Moves:  []cluster.Move{{Pod: "q", Target: "b", Method: cluster.Evict}},
		Leave:  []cluster.Move{{Pod: "p", Method: cluster.Evict}},
		Reason: "1 machine for 1, and room on other nodes for 1 pod: saves $40.0000 an hour, and until 1h0m0s from now $40.0000 for $0.0000",
	}}
	if diff := cmp.Diff(want, Exchange(s, c, thrifty)); diff != "" {
		t.Errorf("exchanges (-want +got):\n%s", diff)
	}
}

func TestAnExchangeMustLeaveAMargin(t *testing.T) {
	// a costs 60 dollars an hour. By default, a machine that costs 51 is not cheap enough.
	for _, tc := range []struct {
		margin float64
		price  int64
		want   bool
	}{{0, 51, false}, {0, 50, true}, {-1, 59, true}, {-1, 60, false}, {0.5, 30, false}, {0.5, 29, true}} {
		s := state(node("a", service("p", 5, 5)))
		s.Flavors = []cluster.Flavor{flavor("new", 5, 5, tc.price)}
		c := ExchangeConfig{Horizon: time.Hour, MoveServices: true, Method: cluster.Evict, Margin: tc.margin}
		if got := len(Exchange(s, c, thrifty)) == 1; got != tc.want {
			t.Errorf("margin %v, %d dollars in the place of 60: exchanged %t", tc.margin, tc.price, got)
		}
	}
}

func TestOldAndNewMachinesTogetherStayWithinTheLimit(t *testing.T) {
	for limit, want := range map[int]string{2: "[]", 3: "[a -> small(p)]", 4: "[a b -> small(p) small(q)]"} {
		s := state(node("a", service("p", 6, 6)), node("b", service("q", 6, 6)))
		s.Flavors = []cluster.Flavor{flavor("small", 6, 6, 20)}
		s.MaxNodes = limit
		if got := fmt.Sprint(told(Exchange(s, day, thrifty))); got != want {
			t.Errorf("%d machines may be there: %s, want %s", limit, got, want)
		}
	}
}

func TestWhatIsPlannedBesidesIsNotThereForExchanges(t *testing.T) {
	small := []cluster.Flavor{most(flavor("small", 6, 6, 20), 1)}
	d := newDemands()
	kept := with(node("k", service("r", 4, 4)), keep)
	tests := []struct {
		name    string
		s       *cluster.State
		planned cluster.Plan
		want    string
	}{
		{"nothing", state(node("a", service("p", 6, 6)), kept), cluster.Plan{}, "[a -> p>k]"},
		{"the room is taken", state(node("a", service("p", 6, 6)), node("b", service("q", 6, 6)), kept),
			cluster.Plan{Drains: []cluster.Drain{{Node: "b", Moves: []cluster.Move{{Pod: "q", Target: "k"}}}}}, "[a -> small(p)]"},
		{"a node that is emptied is no target", state(node("a", service("p", 6, 6)), node("b", service("q", 1, 1)), kept),
			cluster.Plan{Drains: []cluster.Drain{{Node: "b", Moves: []cluster.Move{{Pod: "q", Target: "k"}}}}}, "[a -> small(p)]"},
		{"a target is not emptied", state(node("a", service("p", 6, 6)), node("b", service("q", 4, 4))),
			cluster.Plan{Drains: []cluster.Drain{{Node: "b", Moves: []cluster.Move{{Pod: "q", Target: "a"}}}}}, "[]"},
		{"the flavor is sold out", state(node("a", service("p", 6, 6))), cluster.Plan{Buy: []cluster.Purchase{{Flavor: "small"}}}, "[]"},
		{"by a replacement", state(node("a", service("p", 6, 6)), node("b", service("q", 6, 6))),
			cluster.Plan{Drains: []cluster.Drain{{Node: "b", Replacement: &cluster.Purchase{Flavor: "small"}}}}, "[]"},
		{"pods that moved keep others away", state(node("a", d.on(service("p", 1, 1), "p")), node("b", d.on(service("q", 1, 1), "q", apartFrom("p", hostname))), kept),
			cluster.Plan{Drains: []cluster.Drain{{Node: "b", Moves: []cluster.Move{{Pod: "q", Target: "k"}}}}}, "[a -> small(p)]"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			c := day
			c.Planned = tc.planned
			tc.s.Flavors = small
			if got := fmt.Sprint(told(Exchange(tc.s, c, thrifty))); got != tc.want {
				t.Errorf("exchanges %s, want %s", got, tc.want)
			}
		})
	}
}

func TestTheBuyerIsNotAskedWithoutEnd(t *testing.T) {
	s := state()
	for i := range 40 {
		s.Nodes = append(s.Nodes, node(fmt.Sprintf("n%02d", i), service(fmt.Sprintf("p%02d", i), 6, 6)))
	}
	s.Flavors = []cluster.Flavor{flavor("small", 6, 6, 20), flavor("dear", 6, 6, 1000)}
	for calls, most := range map[int]int{0: MostFutile, 7: 7} {
		asked := 0
		c := day
		c.Calls = calls
		Exchange(s, c, func(pods []cluster.Pod, nodes []cluster.Node, flavors []cluster.Flavor, most int) ([]cluster.Purchase, []cluster.Move, bool) {
			asked++
			return nil, nil, false
		})
		if asked != most {
			t.Errorf("%d calls allowed: asked %d times, want %d", calls, asked, most)
		}
	}
	// After an exchange that pays, it is asked again.
	asked := 0
	Exchange(s, day, func(pods []cluster.Pod, nodes []cluster.Node, flavors []cluster.Flavor, most int) ([]cluster.Purchase, []cluster.Move, bool) {
		if asked++; asked == MostFutile {
			return thrifty(pods, nodes, flavors, most)
		}
		return nil, nil, false
	})
	if want := 2 * MostFutile; asked != want {
		t.Errorf("asked %d times although call %d led to an exchange, want %d", asked, MostFutile, want)
	}
	// If even a machine without waste would not pay, the buyer is not called.
	s.Flavors = []cluster.Flavor{flavor("dear", 6, 6, 1000), flavor("tiny", 1, 1, 1)}
	never := func([]cluster.Pod, []cluster.Node, []cluster.Flavor, int) ([]cluster.Purchase, []cluster.Move, bool) {
		t.Error("asked about what cannot be or cannot pay")
		return nil, nil, false
	}
	few := day
	few.Limit = 5
	Exchange(s, few, never)
	for i := range s.Nodes {
		s.Nodes[i].Pods[0].Arch = "amd64"
	}
	s.Flavors = []cluster.Flavor{arm(flavor("arm", 6, 6, 1)), flavor("dear", 6, 6, 1000)}
	Exchange(s, few, never)
	// Nor is it called if a machine costs too much with the work that is repeated on it: in the five hours that a job still
	// runs, the machine would save 200 dollars, and 15 hours are repeated at 20 dollars.
	for i := range s.Nodes {
		s.Nodes[i].Pods[0] = ran(lasting(job(s.Nodes[i].Pods[0].Name, 6, 6), 5*time.Hour), 15*time.Hour)
	}
	s.Flavors = []cluster.Flavor{flavor("small", 6, 6, 20)}
	few.Method = cluster.Evict
	Exchange(s, few, never)
	// Nor is it called if nothing may be bought.
	s.Flavors, s.MaxNodes = []cluster.Flavor{flavor("small", 6, 6, 20)}, 40
	Exchange(s, day, never)
}

func TestPodsThatDependOnOthersAreBoughtForTogether(t *testing.T) {
	d := newDemands()
	in := func(f cluster.Flavor, name string) cluster.Flavor {
		f.Host = located(node(""), name).Host
		delete(f.Host.Labels, hostname)
		return f
	}
	x, y := in(flavor("x", 5, 5, 10), "x"), in(flavor("y", 5, 5, 11), "y")
	tests := []struct {
		name    string
		nodes   []cluster.Node
		flavors []cluster.Flavor
		want    string
	}{
		{"apart by zones", []cluster.Node{located(node("a", d.on(service("p", 1, 1), "p"), d.on(service("q", 1, 1), "q", apartFrom("p", zone))), "z")},
			[]cluster.Flavor{most(x, 1), y}, "[a -> x(p) y(q)]"},
		{"not at all if there is one zone", []cluster.Node{located(node("a", d.on(service("p", 1, 1), "p"), d.on(service("q", 1, 1), "q", apartFrom("p", zone))), "z")},
			[]cluster.Flavor{x}, "[]"},
		{"near one that stays", []cluster.Node{located(node("a", d.on(service("p", 1, 1), "p", near("q", zone))), "y"), located(with(node("k", d.on(service("q", 10, 10), "q")), keep), "y")},
			[]cluster.Flavor{y}, "[a -> y(p)]"},
		{"not elsewhere", []cluster.Node{located(node("a", d.on(service("p", 1, 1), "p", near("q", zone))), "y"), located(with(node("k", d.on(service("q", 10, 10), "q")), keep), "y")},
			[]cluster.Flavor{x}, "[]"},
		{"where only one label is", []cluster.Node{located(node("a", d.on(service("p", 1, 1), "p", inZone("y"))), "z")}, []cluster.Flavor{x, y}, "[a -> y(p)]"},
		{"beside what was bought before", []cluster.Node{
			located(node("a", d.on(service("p", 5, 5), "p", apartFrom("p", zone))), "z"), located(node("b", d.on(service("q", 5, 5), "p", apartFrom("p", zone))), "w")},
			[]cluster.Flavor{x}, "[a -> x(p)]"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s := state(tc.nodes...)
			s.Flavors = tc.flavors
			c := day
			c.Method = cluster.Evict
			if got := fmt.Sprint(told(Exchange(s, c, thrifty))); got != tc.want {
				t.Errorf("exchanges %s, want %s", got, tc.want)
			}
		})
	}
}

// TestTheBuyerMayUseRoomOnNodes has a pod with affinity to another one, which moves to the zone only with a purchase.
func TestTheBuyerMayUseRoomOnNodes(t *testing.T) {
	d := newDemands()
	s := state(
		located(node("a", d.on(service("p", 2, 2), "p", near("q", zone)), d.on(service("q", 5, 5), "q")), "z"),
		located(with(node("k", service("r", 6, 6)), keep), "x"), located(node("m", fixed(service("t", 10, 10))), "z"))
	f := flavor("new", 5, 5, 10)
	f.Host = located(node("new"), "x").Host
	s.Flavors = []cluster.Flavor{f}
	var asked []string
	buyer := func(pods []cluster.Pod, nodes []cluster.Node, _ []cluster.Flavor, _ int) ([]cluster.Purchase, []cluster.Move, bool) {
		asked = append(asked, fmt.Sprint(names(pods)))
		for _, n := range nodes {
			asked = append(asked, fmt.Sprintf("%s in phase %d with %v", n.Name, n.Phase, names(n.Pods)))
		}
		return []cluster.Purchase{{Flavor: "new", Class: "any", Pods: []string{"q"}}}, []cluster.Move{{Pod: "p", Target: "k"}}, true
	}
	if got, want := fmt.Sprint(told(Exchange(s, day, buyer))), "[a -> new(q) p>k]"; got != want {
		t.Errorf("exchanges %s, want %s", got, want)
	}
	want := []string{"[q p]", "a in phase 2 with []", "k in phase 1 with [r]", "m in phase 1 with [t]"}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("what the buyer was asked (-want +got):\n%s", diff)
	}
}

// scripted always returns the same answer.
func scripted(buy []cluster.Purchase, moves ...cluster.Move) Buyer {
	return func([]cluster.Pod, []cluster.Node, []cluster.Flavor, int) ([]cluster.Purchase, []cluster.Move, bool) {
		return buy, moves, true
	}
}

func buying(flavor string, pods ...string) cluster.Purchase {
	return cluster.Purchase{Flavor: flavor, Class: class.Any, Pods: pods}
}

// TestAWrongAnswerIsNotActedUpon has a node with three pods, two of which must not be together. The other nodes have no
// room for them because they are full (f), being released (e) or only for jobs (b).
func TestAWrongAnswerIsNotActedUpon(t *testing.T) {
	d := newDemands()
	small := buying("small", "p")
	rest := buying("wide", "q", "o")
	all := func(buy ...cluster.Purchase) []cluster.Purchase { return buy }
	to := func(node string) cluster.Move { return cluster.Move{Pod: "p", Target: node} }
	tests := []struct {
		name  string
		spare int
		buyer Buyer
		done  bool
	}{
		{"right", 2, scripted(all(small, rest)), true},
		{"more machines than there may be", 1, scripted(all(small, rest)), false},
		{"a pod is forgotten", 3, scripted(all(small, buying("wide", "q"))), false},
		{"a pod has two places", 3, scripted(all(small, small, rest)), false},
		{"a pod that is not there", 3, scripted(all(small, buying("wide", "q", "o", "r"))), false},
		{"a machine for nobody", 3, scripted(all(small, rest, buying("small"))), false},
		{"too small", 3, scripted(all(buying("slow", "p"), rest)), false},
		{"too small in memory", 3, scripted(all(buying("flat", "p"), rest)), false},
		{"too many pods", 3, scripted(all(small, buying("single", "q", "o"))), false},
		{"of another class", 3, scripted(all(cluster.Purchase{Flavor: "small", Class: class.Batch, Pods: []string{"p"}}, rest)), false},
		{"pods that must be apart", 3, scripted(all(buying("wide", "p", "q"), buying("small", "o"))), false},
		{"a flavor there is not", 3, scripted(all(buying("none", "p"), rest)), false},
		{"more of a flavor than there are", 3, scripted(all(buying("rare", "p"), buying("rare", "q"), buying("small", "o"))), false},
		{"a node without room", 3, scripted(all(rest), to("f")), false},
		{"a node that is about to go", 3, scripted(all(rest), to("e")), false},
		{"a node for jobs", 3, scripted(all(rest), to("b")), false},
		{"the node itself", 3, scripted(all(rest), to("a")), false},
		{"no node at all", 3, scripted(all(rest), to("x")), false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s := state(node("a", d.on(service("p", 3, 3), "p"), d.on(service("q", 3, 3), "q", apartFrom("p", hostname)), service("o", 1, 1)),
				of(with(node("b", job("t", 1, 1)), keep), class.Batch), node("e"), node("f", fixed(service("r", 10, 10))))
			for i := range s.Nodes {
				s.Nodes[i] = located(s.Nodes[i], "x")
			}
			single := flavor("single", 6, 6, 10)
			single.MaxPods = new(int64(1))
			s.Flavors = []cluster.Flavor{
				flavor("flat", 3, 2, 10), most(flavor("rare", 3, 3, 10), 1), single, flavor("slow", 2, 3, 10), flavor("small", 3, 3, 10), flavor("wide", 6, 6, 10),
			}
			s.MaxNodes = len(s.Nodes) + tc.spare
			if got := told(Exchange(s, day, tc.buyer)); (len(got) > 0) != tc.done {
				t.Errorf("exchanges %s", got)
			}
		})
	}
}

// TestTheBuyerIsAskedAgainWhenAFlavorIsSoldOut uses a buyer that buys the first available flavor.
func TestTheBuyerIsAskedAgainWhenAFlavorIsSoldOut(t *testing.T) {
	s := state(node("a", service("p", 6, 6)), node("b", service("q", 6, 5)))
	s.Flavors = []cluster.Flavor{most(flavor("first", 6, 6, 10), 1), flavor("second", 6, 6, 20)}
	buyer := func(pods []cluster.Pod, _ []cluster.Node, flavors []cluster.Flavor, _ int) (buy []cluster.Purchase, _ []cluster.Move, ok bool) {
		for _, p := range pods {
			buy = append(buy, buying(flavors[0].Name, p.Name))
		}
		return buy, nil, true
	}
	if got, want := fmt.Sprint(told(Exchange(s, day, buyer))), "[a -> first(p) b -> second(q)]"; got != want {
		t.Errorf("exchanges %s, want %s", got, want)
	}
}

// TestAnExchangeCountsForTheNext applies an exchange and checks the state for the next one.
func TestAnExchangeCountsForTheNext(t *testing.T) {
	d := newDemands()
	const minute = time.Minute
	apart := func(p cluster.Pod) cluster.Pod { return d.on(p, "p", apartFrom("p", zone)) }
	s := state(
		located(node("a", ran(lasting(apart(job("p", 5, 5)), 60*minute), 2*minute), ran(lasting(job("q", 2, 2), 20*minute), 3*minute)), "z"),
		located(of(node("b", apart(service("r", 5, 5))), class.Service), "w"),
		located(node("k", fixed(lasting(job("t", 8, 8), 5*minute))), "v"))
	s.Lag = 4 * minute
	x := flavor("x", 5, 5, 1)
	x.Host = located(node("x"), "x").Host
	s.Flavors = []cluster.Flavor{x}
	var saw []string
	buyer := func(pods []cluster.Pod, nodes []cluster.Node, _ []cluster.Flavor, _ int) ([]cluster.Purchase, []cluster.Move, bool) {
		saw = nil
		for _, n := range nodes {
			saw = append(saw, fmt.Sprintf("%s %v", n.Name, names(n.Pods)))
		}
		return []cluster.Purchase{buying("x", names(pods)...)}, nil, true
	}
	ex := newExchanger(s, ExchangeConfig{Method: cluster.Evict, MoveServices: true, Horizon: 2 * time.Hour}, buyer)
	o := ex.offer([]*cluster.Node{&s.Nodes[0]})
	if o == nil || ex.offer([]*cluster.Node{&s.Nodes[1]}) == nil {
		t.Fatal("no exchange of a or b")
	}
	ex.apply(o)
	// q would end in 20 min, repeats 3 and loses the 4 until the machine is ready.
	if got, want := ex.byName["k"].stay, 27*minute; got != want {
		t.Errorf("k is needed for %v, want %v", got, want)
	}
	if o := ex.offer([]*cluster.Node{&s.Nodes[1]}); o != nil {
		t.Errorf("r goes to zone x, where p has gone: %s", told([]cluster.Exchange{ex.exchange(o)}))
	}
	if diff := cmp.Diff([]string{"a []", "b []", "k [t q]", "bought-000000 [p]"}, saw); diff != "" {
		t.Errorf("the buyer sees (-want +got):\n%s", diff)
	}
}

func TestAReplacedNodeHasItsPodsUntilTheyMove(t *testing.T) {
	d := newDemands()
	s := state(
		located(node("a", d.on(service("p", 6, 6), "p", apartFrom("q", zone))), "z"),
		located(node("b", d.on(service("q", 6, 6), "q")), "x"))
	s.Flavors = []cluster.Flavor{flavor("x", 6, 6, 1)}
	c := day
	c.Planned.Drains = []cluster.Drain{{Node: "b", Replacement: &cluster.Purchase{Flavor: "x"}}}
	var saw []string
	Exchange(s, c, func(_ []cluster.Pod, nodes []cluster.Node, _ []cluster.Flavor, _ int) ([]cluster.Purchase, []cluster.Move, bool) {
		for _, n := range nodes {
			saw = append(saw, fmt.Sprintf("%s %v", n.Name, names(n.Pods)))
		}
		return nil, nil, false
	})
	if diff := cmp.Diff([]string{"a []", "b [q]"}, saw); diff != "" {
		t.Errorf("the buyer sees (-want +got):\n%s", diff)
	}
}

func TestTheMostWastefulMachinesAreTriedFirst(t *testing.T) {
	cheap := func(n cluster.Node, dollarsPerHour int64) cluster.Node {
		n.MicroDollarsPerHour = dollarsPerHour * 1_000_000
		return n
	}
	// Their shares of a flavor of 10 dollars, 10 by 10, cost 5, 2, 5 and 10.
	s := state(node("a", service("p", 5, 5)), node("b", service("q", 1, 2)), cheap(node("c", service("r", 5, 1)), 100), cheap(node("d", service("t", 10, 10)), 65),
		node("e", lasting(job("u", 1, 1), time.Minute)))
	s.Flavors = []cluster.Flavor{flavor("ten", 10, 10, 10), most(flavor("sold-out", 10, 10, 0), 0)}
	if diff := cmp.Diff([]string{"c", "b", "a", "d", "e"}, nodeNames(newExchanger(s, day, thrifty).candidates)); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func nodeNames(nodes []*cluster.Node) []string {
	var all []string
	for _, n := range nodes {
		all = append(all, n.Name)
	}
	return all
}

func TestOfEqualExchangesTheSmallerIsTaken(t *testing.T) {
	free := node("b", service("q", 1, 1))
	free.MicroDollarsPerHour, free.MaxPods = 0, new(int64(1))
	s := state(node("a", service("p", 1, 1)), free, with(node("k"), keep))
	if got, want := fmt.Sprint(told(Exchange(s, day, thrifty))), "[a -> p>k]"; got != want {
		t.Errorf("exchanges %s, want %s", got, want)
	}
}

func TestOnlySoManySetsAreTried(t *testing.T) {
	s := state()
	for i := range 2000 {
		s.Nodes = append(s.Nodes, node(fmt.Sprintf("n%04d", i), service(fmt.Sprintf("p%04d", i), 6, 6)))
	}
	x := newExchanger(s, day, thrifty)
	sets := x.sets()
	if len(sets) != mostSets {
		t.Errorf("%d sets, want %d", len(sets), mostSets)
	}
	longest := 0
	for _, set := range sets {
		longest = max(longest, len(set))
	}
	if longest != 2000 {
		t.Errorf("at most %d machines go together, want all", longest)
	}
}
