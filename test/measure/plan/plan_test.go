package plan

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/cli/planfile"
)

func TestTheSameSeedDrawsTheSameWorkload(t *testing.T) {
	for _, s := range append(slices.Clone(specs), familySpecs()[:4]...) {
		if s.pods > 2_000 {
			continue
		}
		dir := t.TempDir()
		first, err := s.write(dir, "../../data", 1)
		if err != nil {
			t.Fatalf("%s, %d pods: %v", s.name, s.pods, err)
		}
		again, err := s.write(dir, "../../data", 1)
		if err != nil {
			t.Fatal(err)
		}
		other, err := s.write(dir, "../../data", 2)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first.pods, again.pods); diff != "" || first.Pods != s.pods {
			t.Errorf("%s: %d pods, want %d; drawn again they differ (-first +again):\n%s", s.name, first.Pods, s.pods, diff)
		}
		if cmp.Equal(first.pods, other.pods) {
			t.Errorf("%s: another seed draws the same pods", s.name)
		}
	}
}

func TestOnlyTheGeneralFamiliesAreChosen(t *testing.T) {
	w, err := specs[0].write(t.TempDir(), "../../data", 1)
	if err != nil {
		t.Fatal(err)
	}
	if w.Flavors != 723 {
		t.Errorf("%d flavors, want the 723 x86-64 ones of c, m and r", w.Flavors)
	}
	for _, f := range w.flavors {
		if f.Arch != "amd64" || f.Name[:2] == "mac" {
			t.Errorf("%s is among them", f.Name)
		}
	}
}

func TestPodsBeyondAQuarterOfTheLargestMachineAreRefused(t *testing.T) {
	s := specs[0]
	s.draw = func(*rand.Rand, int) ([]byte, string) {
		return []byte("name,cpu_milli,memory_mib\nhuge,100000,1\n"), "csv"
	}
	if _, err := s.write(t.TempDir(), "../../data", 1); err == nil {
		t.Error("a pod of 100 CPUs is let in")
	}
}

func TestBarsTellTheWorstOfWhatWasRun(t *testing.T) {
	workload := func(name string, pods int, gap, toKarpenter float64) *Workload {
		return &Workload{
			Name: name, Pods: pods, KarpenterToSupercargo: toKarpenter,
			Planners: map[string]*Figures{"supercargo": {Gap: gap}},
		}
	}
	got := judge([]*Workload{
		workload(kwokTypes, 2_000, 0.009, 1.5), workload(generalFamilies, 2_000, 0.02, 0), workload(kwokTypes, 500, 0.03, 0.5), workload(diverseDemands, 500, 0.9, 0),
	})
	want := []Bar{
		{"plans all pods, and never wrong", 0, "kwok types, 2000 pods, seed 0", true},
		{"gap of 1 % at most from 2,000 pods", 0.02, "c, m and r families, 2000 pods, seed 0", false},
		{"gap of 3 % at most at 500 pods", 0.03, "kwok types, 500 pods, seed 0", true},
		{"never more expensive than Karpenter", 2, "kwok types, 500 pods, seed 0", false},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("bars (-want +got):\n%s", diff)
	}
}

func TestPlansForDifferentPodsAreNotCompared(t *testing.T) {
	whole := &Figures{PricePerHour: 2, right: 1}
	for _, lame := range []*Figures{{PricePerHour: 1, right: 1, Unplaceable: 1}, {LeftOut: "x"}, {Wrong: 3, Fault: "x"}} {
		if ratio(lame, whole) != 0 || ratio(whole, lame) != 0 {
			t.Errorf("%+v is compared", lame)
		}
	}
	if got := ratio(&Figures{PricePerHour: 3, right: 1}, whole); got != 1.5 {
		t.Errorf("ratio %v, want 1.5", got)
	}
}

func TestTheCheapestOfTheRightPlansCounts(t *testing.T) {
	f := &Figures{}
	f.keep(planfile.Document{PricePerHour: 1}, errors.New("over-filled"))
	f.keep(planfile.Document{PricePerHour: 4}, nil)
	f.keep(planfile.Document{PricePerHour: 3, Purchases: make([]planfile.Purchase, 2)}, nil)
	f.keep(planfile.Document{PricePerHour: 5}, nil)
	if f.PricePerHour != 3 || f.Machines != 2 || f.Wrong != 1 || f.Fault != "over-filled" {
		t.Errorf("figures are %+v, want those of the plan for 3, and one that is wrong", f)
	}
}

func TestAPlannerRunsInTheProgramThatHasIt(t *testing.T) {
	dir := t.TempDir()
	program := func(name string) string {
		file := filepath.Join(dir, name)
		script := "#!/bin/sh\necho " + name + " \"$@\" >" + file + ".called\necho '{\"elapsedMillis\": 7, \"lowerBoundPerHour\": 2}'\n"
		if err := os.WriteFile(file, []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		return file
	}
	s := settings{supercargo: program("supercargo"), karpenter: program("karpenter"), patience: time.Minute}
	for planner, want := range map[string]string{
		"greedy":    "supercargo plan -o json --algorithm greedy --pods p --flavors f\n",
		"karpenter": "karpenter --pods p --flavors f\n",
	} {
		w, f := &Workload{podsFile: "p", flavorsFile: "f"}, &Figures{Planner: planner}
		if err := w.once(t.Context(), s, f); err != nil {
			t.Fatal(err)
		}
		called, err := os.ReadFile(filepath.Join(dir, strings.Fields(want)[0]+".called"))
		if err != nil || string(called) != want {
			t.Errorf("%s: %q, %v, want %q", planner, called, err, want)
		}
		if f.LeftOut != "" || f.PlanningMillis != 7 || w.LowerBoundPerHour != 2 || !(f.ProcessMillis > 0 && f.PeakMemoryMiB > 0) {
			t.Errorf("%s: figures %+v and bound %v", planner, f, w.LowerBoundPerHour)
		}
	}
	s.karpenter = "/bin/false"
	f := &Figures{Planner: "karpenter"}
	if err := (&Workload{}).once(t.Context(), s, f); err != nil || !strings.HasPrefix(f.LeftOut, "failed: ") {
		t.Errorf("a planner that fails is left out because %q, error %v", f.LeftOut, err)
	}
}
