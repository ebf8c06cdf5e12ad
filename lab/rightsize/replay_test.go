package rightsize

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func run(t *testing.T, c Config, p Policy) Result {
	t.Helper()
	r, err := Run(context.Background(), c, p)
	if err != nil {
		t.Fatal(err)
	}
	return *r
}

// TestWhatAMachineLacksIsCounted: requests of 4 have a machine of 4 each, and one of them uses 5 in one interval.
func TestWhatAMachineLacksIsCounted(t *testing.T) {
	c := Config{
		Trace:   traceOf(t, "entity,cpu_requested,mem_requested\na,4,\nb,4,\n", "t_s,a,b\n0,1,1\n300,1,1\n600,5,4\n900,1,1\n", ""),
		Flavors: flavors(t, "name,cpu,memory,price_per_hour\nsmall,4,100,1\n"), TrainUntil: 10 * time.Minute,
	}
	want := Result{Policy: "requests", Machines: 2, MachineIntervals: 4, MicroDollarsPerHour: 2e6, Overloaded: [resources]int{1, 0}, OverloadedMachines: 1}
	if diff := cmp.Diff(want, run(t, c, Requested{})); diff != "" {
		t.Error(diff)
	}
}

// scripted asks for the next of some requests at the end of each interval.
type scripted struct {
	static
	script []map[int]Amounts
	sets   *[][][]int
	// alone says that it accepts no two entities on a machine, and leaves whether the first of several must leave.
	alone, leaves bool
}

func (s *scripted) Holds(set []int, _ Amounts) bool { return !s.alone || len(set) < 2 }

func (s *scripted) Leave(set []int, _ Amounts) []int {
	if s.leaves && len(set) > 1 {
		return slices.Clone(set[:1])
	}
	return nil
}

func (scripted) Name() string { return "scripted" }

func (s *scripted) Requests(_ time.Duration, sets [][]int, _ []Amounts) map[int]Amounts {
	*s.sets = append(*s.sets, sets)
	if len(s.script) == 0 {
		return nil
	}
	next := s.script[0]
	s.script = s.script[1:]
	return next
}

// TestADecisionTakesEffectAnIntervalLater: at the end of the first judged interval, b grows so much that one of both
// leaves the machine. In the second interval both are still there, and it is overloaded; in the third they are apart.
func TestADecisionTakesEffectAnIntervalLater(t *testing.T) {
	c := Config{
		Trace:   traceOf(t, "entity,cpu_requested,mem_requested\na,2,\nb,2,\n", "t_s,a,b\n0,2,2\n300,2,2\n600,2,4\n900,2,4\n1200,2,4\n", ""),
		Flavors: flavors(t, "name,cpu,memory,price_per_hour\nsmall,4,100,1\n"), TrainUntil: 5 * time.Minute,
	}
	var sets [][][]int
	got := run(t, c, &scripted{script: []map[int]Amounts{nil, nil, {1: {4, 0}}}, sets: &sets})
	// Intervals of machines: 1 + 1 (overloaded) + 1 (overloaded) + 2. The new machine is paid from the third interval.
	want := Result{
		Policy: "scripted", Machines: 5.0 / 4, MachineIntervals: 5, MicroDollarsPerHour: 6e6 / 4, Overloaded: [resources]int{2, 0}, OverloadedMachines: 1, Resizes: 1, Moves: 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestWhatShrinksLeavesItsMachineWithinAnHour: two machines become one, and then a cheaper one.
func TestWhatShrinksLeavesItsMachineWithinAnHour(t *testing.T) {
	var cpu strings.Builder
	cpu.WriteString("t_s,a,b\n")
	for i := range 60 {
		fmt.Fprintf(&cpu, "%d,1,1\n", 300*i)
	}
	c := Config{
		Trace:   traceOf(t, "entity,cpu_requested,mem_requested\na,8,\nb,8,\n", cpu.String(), ""),
		Flavors: flavors(t, flavorsFile), TrainUntil: time.Hour,
	}
	var sets [][][]int
	got := run(t, c, &scripted{script: []map[int]Amounts{nil, {0: {1, 0}, 1: {1, 0}}}, sets: &sets})
	last := sets[len(sets)-1]
	if len(last) != 1 || got.Moves < 1 || got.Resizes != 2 || got.MicroDollarsPerHour >= 2*1.9e6 {
		t.Errorf("at the end entities are on %v, with %+v; want both on one machine", last, got)
	}
}

// twoHours is a trace of two entities that use 1 for two hours.
func twoHours(t *testing.T) *Trace {
	var cpu strings.Builder
	cpu.WriteString("t_s,a,b\n")
	for i := range 36 {
		fmt.Fprintf(&cpu, "%d,1,1\n", 300*i)
	}
	return traceOf(t, "entity,cpu_requested,mem_requested\na,4,\nb,4,\n", cpu.String(), "")
}

// TestEntitiesThatAPolicyKeepsApartStayApart although one machine would hold their requests.
func TestEntitiesThatAPolicyKeepsApartStayApart(t *testing.T) {
	c := Config{Trace: twoHours(t), Flavors: flavors(t, "name,cpu,memory,price_per_hour\nsmall,4,100,1\n"), TrainUntil: time.Hour}
	var sets [][][]int
	got := run(t, c, &scripted{script: []map[int]Amounts{nil, {0: {1, 0}, 1: {1, 0}}}, sets: &sets, alone: true})
	if got.Moves != 0 || got.MachineIntervals != 48 {
		t.Errorf("%+v, want no moves, and two machines in each of 24 intervals", got)
	}
}

// TestAnEntityThatMustLeaveGetsAMachineThatThePolicyAccepts: not the one that has room, which has another entity.
func TestAnEntityThatMustLeaveGetsAMachineThatThePolicyAccepts(t *testing.T) {
	c := Config{
		Trace:   traceOf(t, "entity,cpu_requested,mem_requested\na,2,\nb,2,\nc,3,\n", "t_s,a,b,c\n0,1,1,1\n300,1,1,1\n600,1,1,1\n900,1,1,1\n1200,1,1,1\n", ""),
		Flavors: flavors(t, "name,cpu,memory,price_per_hour\nsmall,5,100,1\n"), TrainUntil: 5 * time.Minute,
	}
	var sets [][][]int
	got := run(t, c, &scripted{sets: &sets, leaves: true, alone: true})
	if last := sets[len(sets)-1]; got.Moves != 1 || len(last) != 3 {
		t.Errorf("%+v, and at the end %v; want one move, and each on a machine of its own", got, last)
	}
}

func TestAnEntityThatOutgrowsAllFlavorsStaysWhereItIs(t *testing.T) {
	c := Config{Trace: twoHours(t), Flavors: flavors(t, "name,cpu,memory,price_per_hour\nsmall,4,100,1\n"), TrainUntil: time.Hour}
	var sets [][][]int
	if got := run(t, c, &scripted{script: []map[int]Amounts{nil, {0: {9, 0}}}, sets: &sets}); got.Moves != 0 || got.Resizes != 1 {
		t.Errorf("%+v, want one resize and no move", got)
	}
}

// TestMachinesOfAPlanAreThoseWithMostEntitiesInCommon, of the same flavor.
func TestMachinesOfAPlanAreThoseWithMostEntitiesInCommon(t *testing.T) {
	f, g := &Flavor{Name: "f"}, &Flavor{Name: "g"}
	on := func(name string, flavor *Flavor, entities ...int) *machine {
		return &machine{hardware: &hardware{name, flavor}, entities: entities}
	}
	c := &cluster{machines: []*machine{on("p1", f, 1, 2), on("p2", f, 3, 4, 5), on("p3", f, 6), on("p4", g, 7, 8)}}
	c.keep([]*machine{on("old1", f, 3, 4), on("old2", f, 1, 5, 7, 8), on("old3", g, 9)})
	var names []string
	for _, m := range c.machines {
		names = append(names, m.name)
	}
	if diff := cmp.Diff([]string{"old2", "old1", "p3", "old3"}, names); diff != "" {
		t.Error(diff)
	}
}

func TestThePercentileRuleForgetsWhatIsOlderThanTwoWeeks(t *testing.T) {
	p := NewPercentile(&Trace{Measured: [resources]bool{true, true}, Step: time.Hour})
	for i := range 15 * 24 {
		p.Learn(0, time.Duration(i)*time.Hour, Amounts{1, map[bool]float64{true: 1000, false: 100}[i < 24]})
	}
	if got := p.Requests(15*24*time.Hour, [][]int{{0}}, make([]Amounts, 1))[0][Memory]; math.Abs(got-115) > 1e-9 {
		t.Errorf("memory is %v, want 115: the peak of 1000 was 15 days ago", got)
	}
}

// TestAMachineIsNotRunningOutOfWhatItsEntitiesNeverUse: its only two entities use all that they may, and never more.
func TestAMachineIsNotRunningOutOfWhatItsEntitiesNeverUse(t *testing.T) {
	f := NewFit(&Trace{Measured: [resources]bool{CPU: true}}, Amounts{0.01, 0.001})
	for e := range 2 {
		f.Start(e, Amounts{4, 0}, 0)
		for i := range 100 {
			f.Learn(e, time.Duration(i)*5*time.Minute, Amounts{float64(4 - (i/2+1)%2*e), math.NaN()})
		}
	}
	if got := f.Leave([]int{0, 1}, Amounts{8, 1}); got != nil {
		t.Errorf("%v leave a machine of 8, want none", got)
	}
	if got := f.Leave([]int{0, 1}, Amounts{6.5, 1}); len(got) != 1 {
		t.Errorf("%v leave a machine of 6.5, want one", got)
	}
	for e := range 2 {
		f.Learn(e, 501*time.Minute, Amounts{math.NaN(), math.NaN()})
	}
	if got := f.Leave([]int{0, 1}, Amounts{6.5, 1}); got != nil {
		t.Errorf("%v leave a machine of whose entities nothing is known now", got)
	}
}

func TestEntitiesComeAndGo(t *testing.T) {
	c := Config{
		Trace: traceOf(t, "entity,cpu_requested,mem_requested\na,4,\nb,4,\nc,4,\n",
			"t_s,a,b,c\n0,1,1,\n300,1,1,\n600,1,,\n900,1,,2\n1200,1,,2\n", ""),
		Flavors: flavors(t, "name,cpu,memory,price_per_hour\nsmall,4,100,1\n"), TrainUntil: 5 * time.Minute,
	}
	// a in four intervals, b in one, c in two.
	if got := run(t, c, Requested{}); got.MachineIntervals != 7 || got.MicroDollarsPerHour != 7e6/4 || got.Moves != 0 {
		t.Errorf("%+v, want seven intervals of machines, all paid, and no moves", got)
	}
}

func TestAnEntityThatNoFlavorHoldsIsNamed(t *testing.T) {
	c := Config{
		Trace:   traceOf(t, "entity,cpu_requested,mem_requested\na,40,\nb,2,\n", useFile, ""),
		Flavors: flavors(t, flavorsFile), TrainUntil: 10 * time.Minute,
	}
	if _, err := Run(context.Background(), c, Requested{}); err == nil || !strings.Contains(err.Error(), `entity "a"`) {
		t.Errorf("%v, want an error that names a", err)
	}
}

func TestAnInterruptedReplayEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c := Config{Trace: traceOf(t, entitiesFile, useFile, ""), Flavors: flavors(t, flavorsFile), TrainUntil: 10 * time.Minute}
	if _, err := Run(ctx, c, Requested{}); err == nil {
		t.Error("it continued")
	}
}

func TestThePercentileRuleIsThatOfKRR(t *testing.T) {
	p := NewPercentile(&Trace{Measured: [resources]bool{true, true}, Step: 5 * time.Minute})
	for i := range 100 {
		p.Learn(0, time.Duration(i)*5*time.Minute, Amounts{float64(100 - i), 200})
	}
	p.Learn(0, 501*time.Minute, Amounts{math.NaN(), 1000})
	got := p.Requests(9*time.Hour, [][]int{{0, 1}}, make([]Amounts, 2))
	if diff := cmp.Diff(map[int]Amounts{0: {95, 1150}}, got); diff != "" {
		t.Errorf("%s; nothing is known of 1", diff)
	}
	if p.Requests(10*time.Hour, [][]int{{0}}, make([]Amounts, 1)) != nil {
		t.Error("it decides again within a day")
	}
}

// TestVPARecommendsThe90thPercentileAnd15PercentMore within the width of a bucket of its histogram.
func TestVPARecommendsThe90thPercentileAnd15PercentMore(t *testing.T) {
	v := NewVPA(&Trace{Measured: [resources]bool{true, true}, Step: 5 * time.Minute}, true)
	for i := range 10 * 288 {
		v.Learn(0, time.Duration(i)*5*time.Minute, Amounts{float64(1 + 4*(i%5/4)), 1000})
	}
	got := v.Requests(240*time.Hour, [][]int{{0}}, []Amounts{{16, 8192}})[0]
	if cpu := got[CPU] / (5 * 1.15); cpu < 0.95 || cpu > 1.1 {
		t.Errorf("CPU is %v, want about 5 * 1.15", got[CPU])
	}
	if memory := got[Memory] / (1000 * 1.15); memory < 0.95 || memory > 1.1 {
		t.Errorf("memory is %v, want about 1000 * 1.15", got[Memory])
	}
	if again := v.Requests(241*time.Hour, [][]int{{0}}, []Amounts{got}); len(again) != 0 {
		t.Errorf("what has its target changes to %v", again)
	}
	if idle := v.Requests(242*time.Hour, [][]int{{1}}, make([]Amounts, 2)); len(idle) != 0 {
		t.Errorf("what nobody measured changes to %v", idle)
	}
}

// made is a made-up trace of entities that work by day, by night, at any time, or in bursts, with memory that grows
// for some.
func made(entities, days int, seed uint64) *Trace {
	random := rand.New(rand.NewPCG(seed, 7))
	t := &Trace{Step: 5 * time.Minute, Intervals: days * 288, Measured: [resources]bool{true, true}}
	for i := range entities {
		e := Entity{Name: fmt.Sprintf("e%03d", i), End: t.Intervals}
		level, phase, burst := 0.2+min(2.5, random.ExpFloat64()), random.IntN(288), 0
		memory := 200 + 2000*random.Float64()
		for k := range t.Intervals {
			if burst--; burst < 0 && random.IntN(400) == 0 {
				burst = random.IntN(12)
			}
			x := level * (1 + 0.8*math.Sin(2*math.Pi*float64(k+phase*(i%2))/288) + 0.2*random.NormFloat64())
			if burst > 0 {
				x += 2 * level
			}
			e.Use[CPU] = append(e.Use[CPU], max(0, x))
			e.Use[Memory] = append(e.Use[Memory], memory*(1+0.02*random.NormFloat64()))
		}
		e.Requested = Amounts{2 * math.Ceil(level*2), 2 * memory}
		e.startS, e.endS = math.NaN(), math.NaN()
		t.Entities = append(t.Entities, e)
	}
	return t
}

const madeFlavors = "name,cpu,memory_gib,price_per_hour\nm4,4,16,0.2\nm8,8,32,0.4\nm16,16,64,0.8\nc8,8,16,0.34\nr4,4,32,0.25\n"

// TestTheStatedRiskIsKeptOnTracesThatWereNotTunedOn, for two thirds of what the requests as they are cost.
func TestTheStatedRiskIsKeptOnTracesThatWereNotTunedOn(t *testing.T) {
	for seed := range uint64(2) {
		c := Config{Trace: made(20, 6, 100+seed), Flavors: flavors(t, madeFlavors), TrainUntil: 3 * 24 * time.Hour}
		stated := Amounts{0.01, 0.001}
		requests, fit := run(t, c, Requested{}), run(t, c, NewFit(c.Trace, stated))
		for r := range resources {
			if got := fit.Overload(r); got > stated[r] {
				t.Errorf("seed %d: %v is overloaded in %.4f of the intervals, stated are %.4f: %+v", seed, r, got, stated[r], fit)
			}
		}
		if fit.MicroDollarsPerHour > requests.MicroDollarsPerHour*2/3 {
			t.Errorf("seed %d: it costs %.0f, requests as they are %.0f", seed, fit.MicroDollarsPerHour, requests.MicroDollarsPerHour)
		}
	}
}

func TestAReplayIsTheSameEachTime(t *testing.T) {
	c := Config{Trace: made(10, 3, 5), Flavors: flavors(t, madeFlavors), TrainUntil: 54 * time.Hour}
	for _, policy := range []func() Policy{
		func() Policy { return NewVPA(c.Trace, true) }, func() Policy { return NewFit(c.Trace, Amounts{0.01, 0.001}) },
	} {
		if diff := cmp.Diff(run(t, c, policy()), run(t, c, policy())); diff != "" {
			t.Error(diff)
		}
	}
}

func TestEachRunningEntityHasOneMachine(t *testing.T) {
	c := Config{Trace: made(10, 3, 9), Flavors: flavors(t, madeFlavors), TrainUntil: 54 * time.Hour}
	p := &watched{Fit: NewFit(c.Trace, Amounts{0.01, 0.001}), t: t}
	run(t, c, p)
	if p.seen == 0 {
		t.Error("no decision was seen")
	}
}

// watched checks that every running entity has one machine.
type watched struct {
	*Fit
	t    *testing.T
	seen int
}

func (w *watched) Requests(now time.Duration, sets [][]int, requests []Amounts) map[int]Amounts {
	var all []int
	for _, s := range sets {
		all = append(all, s...)
	}
	slices.Sort(all)
	if len(slices.Compact(all)) != 10 {
		w.t.Errorf("at %v entities are on machines as %v, want each of 10 once", now, sets)
	}
	w.seen++
	return w.Fit.Requests(now, sets, requests)
}

// TestWhatIsNotMeasuredKeepsItsRequest: nothing shrinks on absent data.
func TestWhatIsNotMeasuredKeepsItsRequest(t *testing.T) {
	trace := made(5, 3, 3)
	trace.Measured[Memory] = false
	for i := range trace.Entities {
		trace.Entities[i].Use[Memory] = nil
	}
	for _, p := range []Policy{NewVPA(trace, true), NewPercentile(trace), NewFit(trace, Amounts{0.01, 0.001})} {
		for i := range 288 {
			if i == 0 {
				p.Start(0, trace.Entities[0].Requested, 0)
			}
			p.Learn(0, trace.at(i), Amounts{trace.Entities[0].Use[CPU][i], math.NaN()})
		}
		requests := []Amounts{trace.Entities[0].Requested}
		if got := p.Requests(24*time.Hour, [][]int{{0}}, requests)[0]; got[Memory] != requests[0][Memory] || got[CPU] == requests[0][CPU] {
			t.Errorf("%s: the request %v becomes %v", p.Name(), requests[0], got)
		}
	}
}
