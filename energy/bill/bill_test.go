package bill

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/energy/tariff"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// hour returns the slice of the n-th hour after noon.
func hour(n int, nodes []Node, pods ...Pod) Slice {
	return Slice{From: noon.Add(time.Duration(n) * time.Hour), To: noon.Add(time.Duration(n+1) * time.Hour), Nodes: nodes, Pods: pods}
}

// node returns a node of four cores that drew the given watts for an hour.
func node(name string, measured, modelled float64) Node {
	return Node{Name: name, MachineType: "m", Zone: "z", Cores: 4, Energy: energy.Usage{
		Measured: energy.Joules(measured * 3600), Modelled: energy.Joules(modelled * 3600), Covered: time.Hour,
	}}
}

// pod returns a pod; its use is unknown if used is negative.
func pod(namespace, name, node string, requested, used float64) Pod {
	return Pod{Namespace: namespace, Name: name, Workload: name, Node: node, Requested: requested, Used: known(used)}
}

func known(used float64) *float64 {
	if used < 0 {
		return nil
	}
	return &used
}

func idle40(string) (energy.Watts, bool)  { return 40, true }
func unknown(string) (energy.Watts, bool) { return 0, false }

func find(t *testing.T, rows []Row, key Key) Cost {
	t.Helper()
	for _, r := range rows {
		if r.Key == key {
			return r.Cost
		}
	}
	t.Fatalf("no row %+v in %+v", key, rows)
	return Cost{}
}

// watts converts an energy to the power over an hour.
func watts(j energy.Joules) float64 { return math.Round(float64(j)/3600*1e9) / 1e9 }

func TestWhoPaysForWhat(t *testing.T) {
	tests := []struct {
		name        string
		nodes       []Node
		pods        []Pod
		idle        func(string) (energy.Watts, bool)
		want        map[string]float64 // watts by namespace
		unallocated float64
	}{
		{"load by use, idle power by request", []Node{node("n", 100, 0)}, []Pod{pod("a", "1", "n", 1, 3), pod("b", "1", "n", 3, 1)}, idle40,
			map[string]float64{"a": 45 + 10, "b": 15 + 30}, 0},
		{"room that nobody asked for is unallocated", []Node{node("n", 100, 0)}, []Pod{pod("a", "1", "n", 1, 3)}, idle40, map[string]float64{"a": 60 + 10}, 30},
		{"more asked for than there is", []Node{node("n", 100, 0)}, []Pod{pod("a", "1", "n", 6, 1), pod("b", "1", "n", 2, 1)}, idle40,
			map[string]float64{"a": 30 + 30, "b": 30 + 10}, 0},
		{"nobody knows what the node offers", []Node{{Name: "n", Energy: node("n", 100, 0).Energy}}, []Pod{pod("a", "1", "n", 1, 3)}, idle40, map[string]float64{"a": 100}, 0},
		{"nobody knows what a pod used: its request counts", []Node{node("n", 100, 0)}, []Pod{pod("a", "1", "n", 1, -1), pod("b", "1", "n", 3, 3)}, idle40,
			map[string]float64{"a": 15 + 10, "b": 45 + 30}, 0},
		{"a pod without request pays for its use", []Node{node("n", 100, 0)}, []Pod{pod("a", "1", "n", 0, 1)}, idle40, map[string]float64{"a": 60}, 40},
		{"a node without pods", []Node{node("n", 100, 0)}, nil, idle40, nil, 100},
		{"pods that neither ask nor do", []Node{node("n", 100, 0)}, []Pod{pod("a", "1", "n", 0, 0)}, idle40, map[string]float64{"a": 0}, 100},
		{"a node that used nothing", []Node{node("n", 0, 0)}, []Pod{pod("a", "1", "n", 1, 1)}, idle40, nil, 0},
		{"less than idle power", []Node{node("n", 30, 0)}, []Pod{pod("a", "1", "n", 2, 1)}, idle40, map[string]float64{"a": 15}, 15},
		{"a pod that did nothing pays for its room alone", []Node{node("n", 100, 0)}, []Pod{pod("a", "1", "n", 2, 0), pod("b", "1", "n", 2, 1)}, idle40,
			map[string]float64{"a": 20, "b": 20 + 60}, 0},
		{"two nodes", []Node{node("n", 100, 0), node("o", 60, 0)}, []Pod{pod("a", "1", "n", 4, 4), pod("a", "2", "o", 4, 4)}, idle40, map[string]float64{"a": 160}, 0},
		{"nobody knows the idle power: the least mean counts", []Node{node("n", 100, 0)}, []Pod{pod("a", "1", "n", 1, 4)}, unknown, map[string]float64{"a": 25}, 75},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			b := Make([]Slice{hour(0, tc.nodes, tc.pods...)}, Tariffs{}, tc.idle)
			if len(b.ByNamespace) != len(tc.want) {
				t.Errorf("%+v, want %d namespaces", b.ByNamespace, len(tc.want))
			}
			for namespace, want := range tc.want {
				if got := watts(find(t, b.ByNamespace, Key{Namespace: namespace}).Total().Joules); got != want {
					t.Errorf("%s is charged for %v W, want %v", namespace, got, want)
				}
			}
			if got := watts(b.Unallocated.Total().Joules); got != tc.unallocated {
				t.Errorf("%v W are unallocated, want %v", got, tc.unallocated)
			}
		})
	}
}

func TestMeasuredAndModelledStayApart(t *testing.T) {
	b := Make([]Slice{
		hour(0, []Node{node("n", 80, 20)}, pod("a", "1", "n", 4, 4)),
		hour(1, []Node{node("n", 0, 50), {Name: "gone", MachineType: "x", Energy: energy.Usage{Gaps: time.Hour}}}, pod("a", "1", "n", 4, 4), pod("a", "2", "gone", 1, 1), pod("a", "3", "nowhere", 1, 1)),
	}, Tariffs{Price: tariff.Flat(0.5), Carbon: tariff.Flat(300)}, unknown)
	a := find(t, b.ByNamespace, Key{Namespace: "a"})
	if watts(a.Measured.Joules) != 80 || watts(a.Modelled.Joules) != 70 || watts(a.Dynamic) != 50 {
		t.Errorf("%+v, want 80 W measured and 70 modelled, 50 of both by load", a)
	}
	if math.Abs(a.Measured.Dollars-0.04) > 1e-9 || math.Abs(a.Modelled.Dollars-0.035) > 1e-9 || math.Abs(a.Measured.Grams-24) > 1e-9 || math.Abs(a.Modelled.Grams-21) > 1e-9 {
		t.Errorf("%+v, want 0.04 and 0.035 dollars, 24 and 21 grams", a)
	}
	if b.Covered != 2*time.Hour || b.Gaps != time.Hour || b.Powerless != 2 || b.PricedShare != 1 || b.CarbonShare != 1 {
		t.Errorf("%v known, %v not, %d pods without power, %v and %v priced", b.Covered, b.Gaps, b.Powerless, b.PricedShare, b.CarbonShare)
	}
	if !b.From.Equal(noon) || !b.To.Equal(noon.Add(2*time.Hour)) || b.Idle["n"] != 50 {
		t.Errorf("from %v to %v, idle %v", b.From, b.To, b.Idle)
	}
}

// TestIdlePowerIsTheLeastThatIsKnown checks that the observed power is used if it is less than the stated one.
func TestIdlePowerIsTheLeastThatIsKnown(t *testing.T) {
	for _, tc := range []struct {
		seen []float64
		want energy.Watts
	}{{[]float64{30, 100}, 30}, {[]float64{100, 60}, 40}, {[]float64{100, 30, 50}, 30}} {
		var observed []Slice
		for i, w := range tc.seen {
			observed = append(observed, hour(i, []Node{node("n", w, 0)}))
		}
		if got := Make(observed, Tariffs{}, idle40).Idle["n"]; got != tc.want {
			t.Errorf("after %v W idle power is %v, want %v", tc.seen, got, tc.want)
		}
	}
}

func TestTablesAreOrdered(t *testing.T) {
	b := Make([]Slice{hour(0, []Node{node("n", 100, 0)}, pod("b", "1", "n", 1, 1), pod("a", "1", "n", 1, 1), pod("c", "big", "n", 2, 2))}, Tariffs{}, unknown)
	got := ""
	for _, r := range b.ByNamespace {
		got += r.Namespace
	}
	if got != "cab" {
		t.Errorf("namespaces are %s, want the greatest first, then by name", got)
	}
}

// cases draws observations of a cluster.
func cases(t *rapid.T) []Slice {
	var observed []Slice
	amount := rapid.Float64Range(0, 1000)
	for i := range rapid.IntRange(1, 4).Draw(t, "slices") {
		s := hour(i, nil)
		for n := range rapid.IntRange(0, 4).Draw(t, "nodes") {
			covered := time.Duration(rapid.IntRange(0, 3600).Draw(t, "covered")) * time.Second
			u := energy.Usage{Covered: covered, Gaps: time.Hour - covered}
			if covered > 0 {
				u.Measured, u.Modelled = energy.Joules(amount.Draw(t, "measured")), energy.Joules(amount.Draw(t, "modelled"))
			}
			s.Nodes = append(s.Nodes, Node{Name: fmt.Sprint("n", n), MachineType: rapid.SampledFrom([]string{"", "m", "x"}).Draw(t, "type"),
				Zone: rapid.SampledFrom([]string{"", "z"}).Draw(t, "zone"), Cores: rapid.Float64Range(0, 8).Draw(t, "cores"), Energy: u})
		}
		for p := range rapid.IntRange(0, 8).Draw(t, "pods") {
			s.Pods = append(s.Pods, Pod{Namespace: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "namespace"), Name: fmt.Sprint("p", p), Workload: fmt.Sprint("w", p%3),
				Node: fmt.Sprint("n", rapid.IntRange(0, 4).Draw(t, "node")), Requested: rapid.Float64Range(0, 4).Draw(t, "requested"), Used: known(rapid.Float64Range(-1, 4).Draw(t, "used"))})
		}
		observed = append(observed, s)
	}
	return observed
}

// TestThePartsAddUpToTheWhole checks that no joule, dollar or gram is lost, charged twice or negative.
func TestThePartsAddUpToTheWhole(t *testing.T) {
	prices := Tariffs{Price: tariff.Flat(0.3), Carbon: tariff.Flat(400)}
	rapid.Check(t, func(t *rapid.T) {
		observed := cases(t)
		var measured, modelled float64
		for _, s := range observed {
			for _, n := range s.Nodes {
				measured += float64(n.Energy.Measured)
				modelled += float64(n.Energy.Modelled)
			}
		}
		b := Make(observed, prices, func(string) (energy.Watts, bool) { return 0.1, true })
		same(t, "the total", b.Total, measured, modelled)
		for name, rows := range map[string][]Row{"namespaces": b.ByNamespace, "workloads": b.ByWorkload, "machine types": b.ByMachineType} {
			sum := Cost{}
			for _, r := range rows {
				sum.add(r.Cost)
				if r.Measured.Joules < 0 || r.Modelled.Joules < 0 || r.Dynamic < 0 || float64(r.Dynamic) > float64(r.Total().Joules)*(1+1e-9)+1e-9 {
					t.Fatalf("a row of %s is %+v", name, r)
				}
			}
			if name != "machine types" {
				sum.add(b.Unallocated)
			}
			same(t, name, sum, measured, modelled)
			if math.Abs(float64(sum.Dynamic-b.Total.Dynamic)) > 1e-6 {
				t.Fatalf("%s have %v J by load, want %v", name, sum.Dynamic, b.Total.Dynamic)
			}
		}
	})
}

func same(t *rapid.T, name string, c Cost, measured, modelled float64) {
	for _, v := range [][2]float64{
		{float64(c.Measured.Joules), measured}, {float64(c.Modelled.Joules), modelled},
		{c.Measured.Dollars, measured / 3.6e6 * 0.3}, {c.Modelled.Dollars, modelled / 3.6e6 * 0.3}, {c.Measured.Grams, measured / 3.6e6 * 400}, {c.Modelled.Grams, modelled / 3.6e6 * 400},
	} {
		if math.Abs(v[0]-v[1]) > 1e-6 {
			t.Fatalf("%s: %+v has %v, want %v", name, c, v[0], v[1])
		}
	}
}

// TestAPodInTwoHalvesPaysTheSame checks that splitting work into several pods saves nothing.
func TestAPodInTwoHalvesPaysTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		observed := cases(t)
		halved := make([]Slice, len(observed))
		for i, s := range observed {
			halved[i] = Slice{From: s.From, To: s.To, Nodes: s.Nodes}
			for _, p := range s.Pods {
				for _, half := range []string{"-1", "-2"} {
					q := p
					q.Name += half
					q.Requested /= 2
					if q.Used != nil {
						q.Used = new(*q.Used / 2)
					}
					halved[i].Pods = append(halved[i].Pods, q)
				}
			}
		}
		a, b := Make(observed, Tariffs{}, unknown), Make(halved, Tariffs{}, unknown)
		if len(a.ByWorkload) != len(b.ByWorkload) {
			t.Fatalf("%d workloads, then %d", len(a.ByWorkload), len(b.ByWorkload))
		}
		charged := map[Key]Cost{}
		for _, r := range b.ByWorkload {
			charged[r.Key] = r.Cost
		}
		for _, r := range a.ByWorkload {
			if math.Abs(float64(r.Total().Joules-charged[r.Key].Total().Joules)) > 1e-6 {
				t.Fatalf("%+v is charged %v in halves", r, charged[r.Key])
			}
		}
	})
}

func BenchmarkMake(b *testing.B) {
	s := hour(0, nil)
	for i := range 1000 {
		s.Nodes = append(s.Nodes, node(fmt.Sprint("n", i), 100, 0))
	}
	for i := range 10_000 {
		s.Pods = append(s.Pods, pod(fmt.Sprint("ns", i%50), fmt.Sprint("p", i), fmt.Sprint("n", i%1000), 0.3, 0.2))
	}
	b.ReportAllocs()
	for b.Loop() {
		Make([]Slice{s}, Tariffs{}, idle40)
	}
}
