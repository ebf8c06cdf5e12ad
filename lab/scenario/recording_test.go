package scenario

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/internal/packing"
)

const began = 1_795_000_000 * time.Second

func recordedNode(id, flavor string, after time.Duration, milliCPU, gib, micro int64) trace.Row {
	r := trace.Row{Time: began + after, Event: trace.EventNode, ID: id, Name: id, MilliCPU: milliCPU, MemoryBytes: gib << 30, MaxPods: 110, Flavor: flavor, Arch: "arm64"}
	if micro >= 0 {
		r.MicroDollarsPerHour = &micro
	}
	return r
}

// anHour is a recording of an hour: two small nodes from the beginning, one of which has more room
// for pods than the other, and a large node that joins after ten minutes and leaves half an hour
// later.
func anHour(more ...trace.Row) *trace.Recording {
	daemon := func(id, node string, event trace.Event, after time.Duration) trace.Row {
		return trace.Row{Time: began + after, Event: event, ID: id, Name: id, Node: node, MilliCPU: 100, MemoryBytes: 1 << 30}
	}
	pod := func(id string, c class.Class, event trace.Event, after time.Duration) trace.Row {
		return trace.Row{Time: began + after, Event: event, ID: id, Namespace: "jobs", Name: id, MilliCPU: 500, MemoryBytes: 2 << 30, Class: c, Migration: "restart"}
	}
	rows := []trace.Row{
		{Time: began, Event: trace.EventBegin, Name: trace.NamesPlain},
		recordedNode("a", "small", -time.Hour, 2000, 8, 100_000), recordedNode("b", "small", -2*time.Hour, 1900, 8, 100_000),
		daemon("logs-a", "a", trace.EventDaemon, -time.Hour), daemon("logs-b", "b", trace.EventDaemon, -time.Hour),
		pod("web", class.Service, trace.EventPod, -time.Hour), pod("web", "", trace.EventStart, -time.Hour),
		recordedNode("c", "large", 10*time.Minute, 16000, 64, 800_000),
		// The daemon of b is replaced: for a while there are two.
		daemon("logs-b2", "b", trace.EventDaemon, 15*time.Minute), daemon("logs-b", "", trace.EventEnd, 16*time.Minute),
		pod("job", class.Batch, trace.EventPod, 20*time.Minute), pod("job", "", trace.EventStart, 21*time.Minute), pod("job", "", trace.EventEnd, 31*time.Minute),
		{Time: began + 40*time.Minute, Event: trace.EventGone, ID: "c"},
		{Time: began + time.Hour, Event: trace.EventStop},
	}
	return &trace.Recording{Rows: append(rows, more...)}
}

func TestARecordingBecomesAScenario(t *testing.T) {
	got, notes, err := FromRecording("week.csv", anHour())
	if err != nil {
		t.Fatal(err)
	}
	want := defaults()
	want.Name, want.Horizon, want.HomogeneousFlavor = "week.csv", time.Hour, "small"
	flavor := func(name string, milliCPU, gib, pods, micro int64) Flavor {
		return Flavor{Speed: 1, Flavor: catalogue.Flavor{Flavor: cluster.Flavor{Name: name, Size: packing.Size{MilliCPU: milliCPU, MemoryBytes: gib << 30}, Arch: "arm64", MaxPods: new(pods), MicroDollarsPerHour: micro}, MachineType: name}}
	}
	// b has 1900m, of which two daemons requested 200m for a minute.
	want.Flavors = []Flavor{flavor("large", 16000, 64, 110, 800_000), flavor("small", 1700, 6, 108, 100_000)}
	want.Nodes = []Nodes{{Flavor: "small", Count: 2, Class: class.Any}}
	size := packing.Size{MilliCPU: 500, MemoryBytes: 2 << 30}
	want.Workload.Traces = []Trace{{TimeScale: 1, Pods: []Pod{
		{Pod: cluster.Pod{Item: packing.Item{Name: "web", Size: size}, Class: class.Service, Namespace: "jobs"}, Migration: MoveByRestart},
		{Pod: cluster.Pod{Item: packing.Item{Name: "job", Size: size, Arrival: 20 * time.Minute, Runtime: 10 * time.Minute}, Class: class.Batch, Namespace: "jobs"}, Migration: MoveByRestart},
	}}}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// Two small nodes for an hour, and a large one for half an hour.
	if text := strings.Join(notes, "; "); !strings.Contains(text, "3 nodes cost $0.6000") {
		t.Errorf("notes are %q, want what the nodes cost", text)
	}
	if _, err := got.Arrivals(1); err != nil {
		t.Errorf("its workload cannot be drawn: %v", err)
	}
}

// TestPricesAreStatedForTypesWithoutAPriceOnly has spot machines, whose price a recording does not have.
func TestPricesAreStatedForTypesWithoutAPriceOnly(t *testing.T) {
	stated := func(name string, price int64, spot *int64) catalogue.Price {
		return catalogue.Price{Flavor: catalogue.Flavor{Flavor: cluster.Flavor{Name: name, MicroDollarsPerHour: price}}, SpotMicroDollarsPerHour: spot}
	}
	rec := anHour(recordedNode("d", "odd", 0, 1000, 1, -1), recordedNode("e", "spot", 0, 1000, 1, -1), recordedNode("f", "late", 0, 1000, 1, -1), recordedNode("f", "late", time.Minute, 1000, 1, 50_000))
	StatePrices(rec, []catalogue.Price{stated("odd", 30_000, nil), stated("spot", 90_000, new(int64(20_000))), stated("small", 1, nil), stated("late", 1, nil), stated("other", 1, nil)})
	got, _, err := FromRecording("week.csv", rec)
	if err != nil {
		t.Fatal(err)
	}
	prices := map[string]int64{}
	for i := range got.Flavors {
		prices[got.Flavors[i].Name] = got.Flavors[i].MicroDollarsPerHour
	}
	if diff := cmp.Diff(map[string]int64{"small": 100_000, "large": 800_000, "odd": 30_000, "spot": 20_000, "late": 50_000}, prices); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestARecordingThatCannotBePlayedSaysWhatIsMissing(t *testing.T) {
	unpriced := recordedNode("d", "odd", 0, 1000, 1, -1)
	price := recordedNode("d", "odd", time.Minute, 1000, 1, 50_000)
	full := recordedNode("e", "full", 0, 50, 1, 1)
	for _, tc := range []struct {
		name string
		rec  *trace.Recording
		says string
	}{
		{"a flavor without a price", anHour(unpriced), "the price of odd is unknown"},
		{"a price that came later", anHour(unpriced, price), ""},
		{"a price that is no longer known", anHour(price, unpriced), ""},
		{"daemons that fill a node", anHour(full, trace.Row{Time: began, Event: trace.EventDaemon, ID: "x", Node: "e", MilliCPU: 50}), `use all of flavor "full"`},
		{"no node", &trace.Recording{Rows: []trace.Row{{Time: began, Event: trace.EventBegin}}}, "no nodes"},
		{"a word that is none", anHour(trace.Row{Time: began, Event: trace.EventPod, ID: "y", Name: "y", Migration: "teleport"}), "teleport"},
		{"a name that is none", anHour(trace.Row{Time: began, Event: trace.EventPod, ID: "y", Name: "No_Name"}), "No_Name"},
		{"more than ten years", anHour(trace.Row{Time: began + 2*MaxDuration, Event: trace.EventStop}), "must last at most"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := FromRecording("week.csv", tc.rec)
			if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("the error is %v, want %q", err, tc.says)
			}
		})
	}
}
