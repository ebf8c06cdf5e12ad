package moves

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/energy/profile"
	"supercargo.dev/supercargo/energy/tariff"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/packing"
)

// machineModel returns a machine with equal predictions for pods of every size.
func machineModel(joules, seconds, idleWatts float64) *profile.Machine {
	of := func(v float64) profile.Model {
		return profile.Model{Terms: []profile.Term{profile.One}, Coefficients: []float64{v}, Range: profile.Range{
			Most: profile.Size{MilliCPU: 1000, MemoryBytes: 1000}, LeastValue: v, MostValue: v,
		}}
	}
	m := &profile.Machine{Profile: profile.Profile{Energy: of(joules), Runtime: of(seconds)}}
	m.Power.Idle, m.Power.Full = energy.Watts(idleWatts), energy.Watts(idleWatts+100)
	return m
}

// fleet has a fast machine type, a frugal one and one in between; strange is unknown. The type of a node is its flavor.
var fleet = profile.Set{"fast": machineModel(2000, 50, 40), "frugal": machineModel(500, 200, 5), "middling": machineModel(1000, 100, 20)}

func machinesFor(h float64) Machines {
	return Machines{
		Profiles: fleet, Now: noon,
		Type:   func(n *cluster.Node) string { return n.Flavor },
		Weight: func(*cluster.Pod) float64 { return h },
	}
}

func typed(flavor, name string, pods ...cluster.Pod) cluster.Node {
	n := node(name, pods...)
	n.Flavor = flavor
	return n
}

func byWays(p cluster.Pod, ways ...cluster.Method) cluster.Pod {
	p.Ways = cluster.WaysOf(ways...)
	return p
}

func residing(p cluster.Pod, there time.Duration) cluster.Pod { p.Resided = there; return p }

func transfers(all []Transfer) []string {
	lines := []string{}
	for _, t := range all {
		lines = append(lines, fmt.Sprintf("%s %s>%s %v", t.Pod, t.From, t.To, t.Method))
	}
	return lines
}

func TestWhichPodsSuitOtherMachinesBetter(t *testing.T) {
	idle := TransferConfig{IdleCounts: true}
	other := func(n cluster.Node) cluster.Node { n.Arch = "arm64"; return n }
	leaving := func(n cluster.Node) cluster.Node { n.Phase = cluster.Leaving; return n }
	busy := byWays(job("z", 1, 1), cluster.Wait)
	a := job("a", 1, 1)
	tests := []struct {
		name   string
		config TransferConfig
		h      float64
		nodes  []cluster.Node
		want   []string
	}{
		{"energy alone", TransferConfig{}, 1, []cluster.Node{typed("fast", "m"), typed("frugal", "n"), typed("middling", "o", a)}, []string{"a o>n migrate"}},
		{"runtime alone", TransferConfig{}, 0, []cluster.Node{typed("fast", "m"), typed("frugal", "n"), typed("middling", "o", a)}, []string{"a o>m migrate"}},
		{"it is where it is best", TransferConfig{}, 1, []cluster.Node{typed("fast", "m"), typed("frugal", "n", a)}, nil},
		{"there is no room", TransferConfig{}, 1, []cluster.Node{typed("fast", "m", a), typed("frugal", "n", byWays(job("z", 10, 10), cluster.Wait))}, nil},
		{"nothing is known of where it is", TransferConfig{}, 1, []cluster.Node{typed("strange", "m", a), typed("frugal", "n")}, nil},
		{"nothing is known of where it could go", TransferConfig{}, 1, []cluster.Node{typed("fast", "m", a), typed("strange", "n")}, nil},
		{"it is a service", TransferConfig{}, 1, []cluster.Node{typed("fast", "m", service("a", 1, 1)), typed("frugal", "n")}, nil},
		{"it is fixed", TransferConfig{}, 1, []cluster.Node{typed("fast", "m", fixed(a)), typed("frugal", "n")}, nil},
		{"it may only be waited for", TransferConfig{}, 1, []cluster.Node{typed("fast", "m", byWays(a, cluster.Wait)), typed("frugal", "n")}, nil},
		{"it has just come", TransferConfig{PodResidence: time.Minute}, 1, []cluster.Node{typed("fast", "m", residing(a, 59*time.Second)), typed("frugal", "n")}, nil},
		{"it has been there for long enough", TransferConfig{PodResidence: time.Minute}, 1, []cluster.Node{typed("fast", "m", residing(a, time.Minute)), typed("frugal", "n")}, []string{"a m>n migrate"}},
		{"its node is being emptied", TransferConfig{}, 1, []cluster.Node{leaving(typed("fast", "m", a)), typed("frugal", "n")}, nil},
		{"the other is being emptied", TransferConfig{}, 1, []cluster.Node{typed("fast", "m", a), leaving(typed("frugal", "n"))}, nil},
		{"its state continues on no other architecture", TransferConfig{}, 1, []cluster.Node{typed("fast", "m", a), other(typed("frugal", "n"))}, nil},
		{
			"it may start again on another architecture", TransferConfig{}, 1,
			[]cluster.Node{typed("fast", "m", byWays(a, cluster.Evict)), other(typed("frugal", "n"))}, []string{"a m>n evict"},
		},
		{
			"what it has done is worth more", TransferConfig{}, 1,
			[]cluster.Node{typed("fast", "m", byWays(ran(a, 4*time.Hour), cluster.Evict)), typed("frugal", "n")}, nil,
		},
		{
			"it ends before the move repays", TransferConfig{}, 0,
			[]cluster.Node{typed("frugal", "m", lasting(a, 30*time.Second)), typed("fast", "n")}, nil,
		},
		{
			"it continues long enough", TransferConfig{}, 0,
			[]cluster.Node{typed("frugal", "m", lasting(a, 2*time.Minute)), typed("fast", "n")}, []string{"a m>n migrate"},
		},
		{
			"the gain is below the margin", TransferConfig{Gain: 80}, 1,
			[]cluster.Node{typed("fast", "m", a), typed("frugal", "n")}, nil,
		},
		{
			"of the nodes of a kind the fullest takes it", TransferConfig{}, 1,
			[]cluster.Node{typed("fast", "m", a), typed("frugal", "n"), typed("frugal", "o", busy)}, []string{"a m>o migrate"},
		},
		{
			"to wake a machine takes more than it saves", idle, 1, // 10 W of its own against 5 W plus the idle power
			[]cluster.Node{typed("middling", "m", a, busy), with(typed("frugal", "n"), func(n *cluster.Node) { n.Flavor = "thirsty" })}, nil,
		},
		{
			"it leaves a machine that can be switched off then", idle, 1,
			[]cluster.Node{typed("frugal", "m", a), typed("frugal", "n", busy)}, []string{"a m>n migrate"},
		},
		{
			"the greatest gain comes first, and takes the room", TransferConfig{}, 1,
			[]cluster.Node{typed("middling", "m", job("b", 10, 10)), typed("fast", "n", job("c", 10, 10)), typed("frugal", "o")}, []string{"c n>o migrate"},
		},
		{
			"the budget is kept", TransferConfig{Budget: Budget{Pods: 1}}, 1,
			[]cluster.Node{typed("fast", "m", a, job("b", 1, 1)), typed("frugal", "n")}, []string{"a m>n migrate"},
		},
		{
			"those on their way count", TransferConfig{Budget: Budget{Pods: 1}}, 1,
			[]cluster.Node{typed("fast", "m", a), with(typed("frugal", "n", busy), func(n *cluster.Node) { n.Incoming = 1 })}, nil,
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if tc.want == nil {
				tc.want = []string{}
			}
			m := machinesFor(tc.h)
			m.Profiles = profile.Set{"thirsty": machineModel(500, 200, 300)}
			for name, machine := range fleet {
				m.Profiles[name] = machine
			}
			got := Better(tc.config, m, state(tc.nodes...))
			if diff := cmp.Diff(tc.want, transfers(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, g := range got {
				if g.Score-g.Stays < max(1, tc.config.Gain) || !strings.Contains(g.Reason, "scores") {
					t.Errorf("%+v", g)
				}
			}
		})
	}
}

func TestRoomThatIsPromisedIsNotTakenForBetter(t *testing.T) {
	s := state(typed("fast", "m", job("a", 1, 1)), typed("frugal", "n"))
	waiting := job("w", 10, 10)
	waiting.Promised = "n"
	s.Pending = []cluster.Pod{waiting}
	if got := Better(TransferConfig{}, machinesFor(1), s); len(got) > 0 {
		t.Errorf("%v, want none", transfers(got))
	}
}

func TestWhatAMoveIsExpectedToSave(t *testing.T) {
	// An hour on the fast machine at 40 W; four hours on the frugal one at 2.5 W, half a minute later, and in one of
	// fifty cases the work of half an hour again.
	s := state(typed("fast", "m", ran(job("a", 1, 1), 30*time.Minute)), typed("frugal", "n"))
	got := Better(TransferConfig{}, machinesFor(1), s)
	if len(got) != 1 {
		t.Fatalf("%v", got)
	}
	runs := 4*(3600+0.02*1800) + 30
	joules, sooner := 40*3600-(2.5*runs+40*30), 3600-runs
	if math.Abs(got[0].Joules-joules) > 1e-6 || math.Abs(got[0].Sooner.Seconds()-sooner) > 1e-3 || got[0].Takes != 30*time.Second {
		t.Errorf("%+v, want %v J and %v s", got[0], joules, sooner)
	}
}

// TestPodsMoveWhereTheirEnergyIsCheaper uses machines of one type in zones, named by their nodes, with the given
// prices.
func TestPodsMoveWhereTheirEnergyIsCheaper(t *testing.T) {
	stays := job("a", 1, 1)
	tests := []struct {
		name   string
		flavor string // of the target node
		h      float64
		prices map[string]float64
		want   []string
	}{
		{"a cheaper zone", "fast", 1, map[string]float64{"m": 0.4, "n": 0.1}, []string{"a m>n migrate"}},
		{"a more expensive zone", "fast", 1, map[string]float64{"m": 0.1, "n": 0.4}, []string{}},
		{"a frugal machine where energy is too dear", "frugal", 1, map[string]float64{"m": 0.1, "n": 0.5}, []string{}},
		{"runtime alone", "fast", 0, map[string]float64{"m": 0.4, "n": 0.1}, []string{}},
		{"so little cheaper that the move does not repay", "fast", 1, map[string]float64{"m": 0.4, "n": 0.399}, []string{}},
		{"a price that is not known is the mean", "fast", 1, map[string]float64{"m": 0.4}, []string{}},
		{"no price is known: joules alone", "frugal", 1, nil, []string{"a m>n migrate"}},
	}
	for _, tc := range tests {
		m := machinesFor(tc.h)
		m.Unit = tariff.Dollars
		m.Price = func(n *cluster.Node, until time.Time) tariff.Price {
			if until != noon.Add(time.Hour) && until != noon {
				t.Errorf("asked for the price until %v, want that of now and until the pod ends", until)
			}
			perKWh, known := tc.prices[n.Name]
			return tariff.Price{PerKWh: perKWh, Known: known}
		}
		got := Better(TransferConfig{Gain: 1}, m, state(typed("fast", "m", stays), typed(tc.flavor, "n")))
		if diff := cmp.Diff(tc.want, transfers(got)); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", tc.name, diff)
		}
		for _, g := range got {
			if g.Priced != (tc.prices != nil) || g.Priced != strings.Contains(g.Reason, " J for $") {
				t.Errorf("%s: %+v", tc.name, g)
			}
		}
	}
}

// TestPodsMoveToNodesUnderABetterGovernor uses machines of one type. Nodes whose names begin with p run under
// powersave.
func TestPodsMoveToNodesUnderABetterGovernor(t *testing.T) {
	both := machineModel(2000, 50, 40)
	both.Governor = "performance"
	both.Others = []profile.Governed{{Governor: "powersave", Profile: fleet["frugal"].Profile}}
	for _, tc := range []struct {
		h          float64
		from, want string
	}{{0, "p", "a p>m migrate"}, {1, "m", "a m>p migrate"}} {
		m := machinesFor(tc.h)
		m.Profiles = profile.Set{"fast": both}
		m.Governor = func(n *cluster.Node) string {
			return map[bool]string{true: "powersave", false: "performance"}[strings.HasPrefix(n.Name, "p")]
		}
		nodes := []cluster.Node{typed("fast", "m"), typed("fast", "n"), typed("fast", "p")}
		for i := range nodes {
			if nodes[i].Name == tc.from {
				nodes[i].Pods = []cluster.Pod{job("a", 1, 1)}
			}
		}
		if diff := cmp.Diff([]string{tc.want}, transfers(Better(TransferConfig{}, m, state(nodes...)))); diff != "" {
			t.Errorf("h = %v (-want +got):\n%s", tc.h, diff)
		}
	}
}

// TestPodsDoNotMoveBeforeEnergyIsCheaper has energy that becomes dear in the zone of m after 10 minutes, and is dear in
// that of n until then.
func TestPodsDoNotMoveBeforeEnergyIsCheaper(t *testing.T) {
	turn := noon.Add(10 * time.Minute)
	for after, want := range map[time.Duration][]string{0: {}, 9 * time.Minute: {}, 10 * time.Minute: {"a m>n migrate"}} {
		m := machinesFor(1)
		m.Now = noon.Add(after)
		m.Price = func(n *cluster.Node, until time.Time) tariff.Price {
			early := max(0, turn.Sub(m.Now).Seconds())
			share := early / max(early, until.Sub(m.Now).Seconds(), 1) // of the time before the change
			if n.Name == "n" {
				share = 1 - share
			}
			return tariff.Price{PerKWh: 400 - 360*share, Known: true}
		}
		got := transfers(Better(TransferConfig{}, m, state(typed("fast", "m", job("a", 1, 1)), typed("fast", "n"))))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("after %v (-want +got):\n%s", after, diff)
		}
	}
}

func TestOfTheNodesOfATypeTheCheapestTakesThePod(t *testing.T) {
	m := machinesFor(1)
	perKWh := map[string]float64{"m": 0.4, "n": 0.3, "o": 0.1, "p": 0.2}
	m.Price = func(n *cluster.Node, _ time.Time) tariff.Price {
		return tariff.Price{PerKWh: perKWh[n.Name], Known: true}
	}
	got := Better(TransferConfig{}, m, state(typed("fast", "m", job("a", 1, 1)), typed("fast", "n"), typed("fast", "o"), typed("fast", "p")))
	if diff := cmp.Diff([]string{"a m>o migrate"}, transfers(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// 40 W for an hour at 0.4; at 0.1 for half a minute more, in which the old machine draws the same power at 0.4.
	saves := 40.0 / 1000 * (0.4 - 0.1*3630/3600 - 0.4*30/3600)
	if len(got) == 1 && (!got[0].Priced || math.Abs(got[0].Saves-saves) > 1e-9 || math.Abs(got[0].Joules+2*30*40) > 1e-6) {
		t.Errorf("%+v, want to save $%v and take 2400 J more", got[0], saves)
	}
}

func TestInvalidKnowledgeMovesNothing(t *testing.T) {
	for name, h := range map[string]float64{"energy": 1, "runtime": 0, "both": 0.5} {
		m := machinesFor(h)
		m.Profiles = profile.Set{"fast": machineModel(math.NaN(), math.NaN(), 0), "frugal": machineModel(math.Inf(1), math.NaN(), 0)}
		if got := Better(TransferConfig{}, m, state(typed("fast", "m", job("a", 1, 1)), typed("frugal", "n"))); len(got) > 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestMovesToBetterMachinesKeepTheirPromises draws clusters. Every pod moves at most once, to a node that has room for
// it and suits it, and its gain is confirmed by a calculation that does not use scores.
func TestMovesToBetterMachinesKeepTheirPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		types := []string{"fast", "frugal", "middling", "strange"}
		h := rapid.Float64Range(0, 1).Draw(t, "h")
		config := TransferConfig{
			Gain: rapid.Int64Range(0, 20).Draw(t, "gain"), Budget: Budget{Pods: rapid.IntRange(0, 3).Draw(t, "budget")},
			IdleCounts: rapid.Bool().Draw(t, "idle"),
		}
		var nodes []cluster.Node
		made := 0
		for i := range rapid.IntRange(1, 5).Draw(t, "nodes") {
			n := typed(rapid.SampledFrom(types).Draw(t, "type"), fmt.Sprintf("n%d", i))
			for range rapid.IntRange(0, 3).Draw(t, "pods") {
				p := job(fmt.Sprintf("p%02d", made), int64(rapid.IntRange(1, 3).Draw(t, "size")), 1)
				p.Runtime = time.Duration(rapid.IntRange(1, 7200).Draw(t, "rest")) * time.Second
				p.Ran = time.Duration(rapid.IntRange(0, 7200).Draw(t, "ran")) * time.Second
				p.Ways = cluster.WaysOf(rapid.SampledFrom([]cluster.Method{cluster.Migrate, cluster.Evict, cluster.Wait}).Draw(t, "way"))
				made++
				n.Pods = append(n.Pods, p)
			}
			nodes = append(nodes, n)
		}
		s, m := state(nodes...), machinesFor(h)
		all := Better(config, m, s)
		if config.Budget.Pods > 0 && len(all) > config.Budget.Pods {
			t.Fatalf("%d moves, and the budget is %d", len(all), config.Budget.Pods)
		}
		free, byName := map[string]packing.Size{}, map[string]*cluster.Node{}
		for i := range s.Nodes {
			free[s.Nodes[i].Name], byName[s.Nodes[i].Name] = s.Nodes[i].Free(), &s.Nodes[i]
		}
		for i, tr := range all {
			p := podOf(byName[tr.From], tr.Pod)
			if p == nil || !p.Ways.Has(tr.Method) || tr.From == tr.To {
				t.Fatalf("%+v", tr)
			}
			for _, other := range all[:i] {
				if other.Pod == tr.Pod {
					t.Fatalf("%s moves twice", tr.Pod)
				}
			}
			if !p.Size.Fits(free[tr.To]) {
				t.Fatalf("%s does not fit on %s", tr.Pod, tr.To)
			}
			free[tr.To] = free[tr.To].Minus(p.Size)
			if !config.IdleCounts && h*tr.Joules <= 0 && (1-h)*tr.Sooner.Seconds() <= 0 {
				t.Fatalf("%+v gains nothing by h = %v", tr, h)
			}
		}
	})
}

// TestAPodThatMovedDoesNotGoBack draws a pod and two machines. After the pod has moved, moving back must not pay a
// moment later.
func TestAPodThatMovedDoesNotGoBack(t *testing.T) {
	types := []string{"fast", "frugal", "middling"}
	rapid.Check(t, func(t *rapid.T) {
		from, to := rapid.SampledFrom(types).Draw(t, "from"), rapid.SampledFrom(types).Draw(t, "to")
		p := job("p", 1, 1)
		p.Runtime = time.Duration(rapid.IntRange(1, 100_000).Draw(t, "rest")) * time.Second
		p.Ran = time.Duration(rapid.IntRange(0, 100_000).Draw(t, "ran")) * time.Second
		config := TransferConfig{Gain: rapid.Int64Range(0, 20).Draw(t, "gain"), IdleCounts: rapid.Bool().Draw(t, "idle")}
		m := machinesFor(rapid.Float64Range(0, 1).Draw(t, "h"))
		if len(Better(config, m, state(typed(from, "a", p), typed(to, "b")))) == 0 {
			return
		}
		slower := fleet[to].Profile.Runtime.Coefficients[0] / fleet[from].Profile.Runtime.Coefficients[0]
		p.Runtime = time.Duration(float64(p.Runtime) * slower)
		if back := Better(config, m, state(typed(from, "a"), typed(to, "b", p))); len(back) > 0 {
			t.Fatalf("it goes back: %+v", back)
		}
	})
}

func podOf(n *cluster.Node, name string) *cluster.Pod {
	for i := range n.Pods {
		if n.Pods[i].Name == name {
			return &n.Pods[i]
		}
	}
	return nil
}

func TestWhatPodsDemandIsKeptWhereTheyAreBetterOff(t *testing.T) {
	d := newDemands()
	apart := func(name string) cluster.Pod { return d.on(job(name, 1, 1), "x", apartFrom("x", hostname)) }
	tests := []struct {
		name string
		s    *cluster.State
		want []string
	}{
		{
			"of two pods that shun each other one goes to the better machine",
			state(located(typed("fast", "m", apart("a")), "z"), located(typed("fast", "n", apart("b")), "z"), located(typed("frugal", "o"), "z")),
			[]string{"a m>o migrate"},
		},
		{
			"a pod keeps to its zone",
			state(located(typed("fast", "m", d.on(job("a", 1, 1), "x", inZone("z"))), "z"), located(typed("frugal", "n"), "y")),
			[]string{},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, transfers(Better(TransferConfig{}, machinesFor(1), tc.s))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
