package autoscalers

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/kit/testfile"
)

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func TestMachinesArePaidForFromOrderToEnd(t *testing.T) {
	began := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return began.Add(time.Duration(s) * time.Second) }
	var r Run
	err := r.bill([]machine{
		{flavor: "a", price: 3_600_000, ordered: at(0), gone: at(10)},
		{flavor: "b", price: 7_200_000, ordered: at(5), gone: at(50)},
		{flavor: "a", price: 3_600_000, ordered: at(10), gone: at(20)},
		{flavor: "a", price: 3_600_000, ordered: at(45), gone: at(60)}, // after the window
	}, began, 40*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if want := 0.001 * (10 + 2*45 + 10 + 15); !near(r.Dollars, want) {
		t.Errorf("$%v, want $%v", r.Dollars, want)
	}
	if want := 3.6 * (10 + 2*35 + 10) / 40; !near(r.DollarsPerHour, want) {
		t.Errorf("$%v an hour, want $%v", r.DollarsPerHour, want)
	}
	if r.Machines != 4 || r.MachinesPeak != 2 || r.MachinesByFlavor["a"] != 3 || r.ShrinkSeconds != 20 {
		t.Errorf("%d machines, %d at the peak, %v, gone after %v s; want 4, 2, 3 of a, 20 s", r.Machines, r.MachinesPeak, r.MachinesByFlavor, r.ShrinkSeconds)
	}
	if err := r.bill([]machine{{ordered: at(0), gone: at(1)}}, began, time.Second); err == nil {
		t.Error("a machine of no flavor cost nothing, want an error")
	}
}

func TestCataloguesHaveAsManyFlavorsAsTheirNamesSay(t *testing.T) {
	for name, want := range map[string]int{"8": 8, "60": 60, wholeCatalogue: 757} {
		flavors, err := readCatalogue(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(flavors) != want {
			t.Errorf("catalogue %s has %d flavors", name, len(flavors))
		}
	}
	eight, _ := readCatalogue("8")
	sixty, _ := readCatalogue("60")
	for _, f := range eight {
		if !slices.ContainsFunc(sixty, func(g catalogue.Flavor) bool { return reflect.DeepEqual(f, g) }) {
			t.Errorf("flavor %s of the eight is not among the sixty, or differs there", f.Name)
		}
	}
}

func TestMachinesAreKnownByTheirMachineDeployments(t *testing.T) {
	all, err := readCatalogue(wholeCatalogue)
	if err != nil {
		t.Fatal(err)
	}
	var s fleetOfSupercargo
	seen := map[string]string{}
	for _, f := range all {
		if other, twice := seen[s.flavor(f)]; twice {
			t.Errorf("%s and %s are not told apart", other, f.Name)
		}
		seen[s.flavor(f)] = f.Name
	}
	for deployment, want := range map[string]string{
		"c7i.4xlarge": "c7i.4xlarge", "m-m7i-large-0123456789": "m7i.large", "m-u-6tb1-56xlarge-0123456789": "u-6tb1.56xlarge", "m-": "", "": "",
	} {
		if got := seen[s.flavorOf(map[string]string{"cluster.x-k8s.io/deployment-name": deployment})]; got != want {
			t.Errorf("machines of MachineDeployment %q are of flavor %q, want %q", deployment, got, want)
		}
	}
}

func TestLoadsAreReadAndSlowed(t *testing.T) {
	for _, name := range loadNames() {
		l, err := readLoad(name, "../../scenarios")
		if err != nil {
			t.Fatal(err)
		}
		if len(l.pods) < 400 {
			t.Errorf("load %s has %d pods, want some hundreds", name, len(l.pods))
		}
		for _, p := range l.pods {
			if arrives := time.Duration(float64(p.Arrival-l.pods[0].Arrival) / l.scale.Arrivals); arrives > l.window {
				t.Fatalf("load %s: pod %s arrives after %v, want it within the %v of the window", name, p.Name, arrives, l.window)
			}
		}
		if slow := l.slower(3); slow.window != 3*l.window || slow.scale.Arrivals*3 != l.scale.Arrivals || slow.scale.Lifetimes*3 != l.scale.Lifetimes {
			t.Errorf("load %s three times slower is %v in %v, was %v in %v", name, slow.scale, slow.window, l.scale, l.window)
		}
	}
}

// TestKarpenterGetsMachinesOfTheSameSizeAndPrice reads the file as the provider does.
func TestKarpenterGetsMachinesOfTheSameSizeAndPrice(t *testing.T) {
	f := catalogue.Flavor{Flavor: cluster.Flavor{Name: "m7i.large", Size: packing.Size{MilliCPU: 1930, MemoryBytes: 7 << 30}, MicroDollarsPerHour: 100_800, Arch: "amd64", MaxPods: new(int64(29))}}
	text, err := json.Marshal(playground.KarpenterTypes([]catalogue.Flavor{f}))
	if err != nil {
		t.Fatal(err)
	}
	var read []struct {
		Name      string
		Offerings []struct{ Price float64 }
		Resources corev1.ResourceList
	}
	testfile.JSON(t, text, &read)
	cpu, memory := read[0].Resources.Cpu().MilliValue(), read[0].Resources.Memory().Value()
	if read[0].Name != f.Name || cpu-100 != f.Size.MilliCPU || memory-10<<20 != f.Size.MemoryBytes || read[0].Resources.Pods().Value() != 29 || !near(read[0].Offerings[0].Price, 0.1008) {
		t.Errorf("the provider reads %s", text)
	}
}

func TestALagMayHaveFractionsOfASecond(t *testing.T) {
	schema := func(definition string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": definition},
			"spec": map[string]any{"versions": []any{map[string]any{"schema": map[string]any{"openAPIV3Schema": map[string]any{"properties": map[string]any{
				"spec": map[string]any{"properties": map[string]any{"nodeRegistrationDelay": map[string]any{"pattern": "whole seconds", "type": "string"}}},
			}}}}}},
		}}
	}
	for name, want := range map[string]bool{"kwoknodeclasses.karpenter.kwok.sh": false, "nodepools.karpenter.sh": true} {
		d := schema(name)
		if err := allowFractions(d); err != nil {
			t.Fatal(err)
		}
		text, _ := d.MarshalJSON()
		if kept := strings.Contains(string(text), "whole seconds"); kept != want {
			t.Errorf("%s: pattern kept: %v, want %v", name, kept, want)
		}
	}
}

func TestSupercargoIsSetBesideTheOthers(t *testing.T) {
	c := Comparison{Runs: []*Run{
		{Contestant: supercargoFleet, Dollars: 1, DollarsPerHour: 10, BindMeanSeconds: 2, BindP95Seconds: 4, PodsRestarted: 1, Pods: 100, PodsNeverBound: 5},
		{Contestant: karpenterDefault, Dollars: 2, DollarsPerHour: 40, BindMeanSeconds: 1, BindP95Seconds: 5, Pods: 100},
		{Contestant: supercargoFleet, Dollars: 3, DollarsPerHour: 30, BindMeanSeconds: 4, BindP95Seconds: 6, Pods: 100, PodsNeverBound: 5},
	}}
	c.average()
	ours, theirs := c.Means[0], c.Means[1]
	if ours.Dollars != 2 || ours.BindMeanSeconds != 3 || ours.PodsRestarted != 0.5 || ours.SupercargoTo != nil {
		t.Errorf("means of Supercargo are %+v", ours)
	}
	if want := (Ratios{Dollars: 1, DollarsPerHour: 0.5, BindMean: 3, BindP95: 1}); *theirs.SupercargoTo != want {
		t.Errorf("ratios are %+v, want %+v", *theirs.SupercargoTo, want)
	}
	c.Runs[0].PodsNeverBound = 6
	if c.average(); c.Means[1].SupercargoTo != nil {
		t.Errorf("ratios are %+v though more than a twentieth of the pods got no machine", *c.Means[1].SupercargoTo)
	}
}

func TestUnknownNamesAreRefused(t *testing.T) {
	s := settings{loads: []string{openb, "htas-stable"}, rounds: 1, stretch: 1}
	if err := s.check(); err != nil {
		t.Error(err)
	}
	s.loads = []string{openb, "none"}
	if err := s.check(); err == nil {
		t.Error("a load that is not there is taken")
	}
}
