package purchase

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"supercargo.dev/supercargo/test/families"
)

// familyPods draws pods of a family.
func familyPods(f families.Family, n int, seed uint64) []Pod {
	r := rand.New(rand.NewPCG(seed, uint64(n)))
	pods := make([]Pod, n)
	for i := range pods {
		cpu, memory := f.Draw(r)
		pods[i] = pod(fmt.Sprint(i), cpu, memory)
	}
	return pods
}

// familyFlavors returns a catalogue whose machines hold at most the given number of pods, or as many as the catalogue
// states if that is 0.
func familyFlavors(t testing.TB, c families.Catalogue, maxPods int64) []Flavor {
	t.Helper()
	read, err := c.Flavors("../../test/data")
	if err != nil {
		t.Fatal(err)
	}
	if maxPods > 0 {
		read = families.WithMaxPods(read, maxPods)
	}
	flavors := make([]Flavor, len(read))
	for i, f := range read {
		flavors[i] = Flavor{Name: f.Name, Size: size(f.Size.MilliCPU, f.Size.MemoryBytes), MaxPods: f.MaxPods, Arch: f.Arch, MicroDollarsPerHour: f.MicroDollarsPerHour}
	}
	return flavors
}

// TestNoFamilyOfPodsIsPlannedBadly guards the quality reached over all families. The goal is 1 % for each:
// docs/planner.md lists where that is missed.
func TestNoFamilyOfPodsIsPlannedBadly(t *testing.T) {
	const pods, most, mostOnAverage = 2_000, 0.05, 0.012
	sum, n := 0.0, 0
	for _, c := range families.Catalogues {
		for _, maxPods := range []int64{0, families.FewPods} {
			flavors := familyFlavors(t, c, maxPods)
			for i, f := range families.All {
				if (i+n/len(families.All))%4 > 0 {
					n++
					continue // each catalogue is combined with each family in turn
				}
				n++
				result := Supercargo(Request{Pods: familyPods(f, pods, 11), Flavors: flavors})
				if result.Gap > most || len(result.Unplaceable) > 0 {
					t.Errorf("%s, %s, %d pods for each machine: the plan is %.2f %% above its bound and leaves %d pods out, want %.0f %% at most and none",
						f.Name, c.Name, maxPods, 100*result.Gap, len(result.Unplaceable), 100*most)
				}
				sum += result.Gap
			}
		}
	}
	if mean := sum / float64(n/4); mean > mostOnAverage {
		t.Errorf("plans are %.2f %% above their bounds on average, want %.1f %% at most", 100*mean, 100*mostOnAverage)
	}
}

// TestFewKindsOfManyPodsArePlannedToWithinOnePercent because their relaxation is solved completely, and both the bound
// and the plan are derived from it.
func TestFewKindsOfManyPodsArePlannedToWithinOnePercent(t *testing.T) {
	const few, pods, most = "few kinds", 2_000, 0.01
	family := families.All[slices.IndexFunc(families.All, func(f families.Family) bool { return f.Name == few })]
	for _, c := range families.Catalogues {
		for _, maxPods := range []int64{0, families.FewPods} {
			result := Supercargo(Request{Pods: familyPods(family, pods, 12), Flavors: familyFlavors(t, c, maxPods)})
			if result.Gap > most || len(result.Unplaceable) > 0 {
				t.Errorf("%s, %d pods for each machine: the plan is %.2f %% above its bound and leaves %d pods out, want %.0f %% at most and none",
					c.Name, maxPods, 100*result.Gap, len(result.Unplaceable), 100*most)
			}
		}
	}
}

// TestPlansFarAboveTheirBoundAreSearchedForLonger has pods whose plans are 1.4 to 3.6 % above their bounds after the usual
// search.
func TestPlansFarAboveTheirBoundAreSearchedForLonger(t *testing.T) {
	for _, tc := range []struct {
		family, catalogue string
		maxPods           int64
		pods              int
		most              float64
	}{
		{"bimodal", "linear prices", 0, 500, 0.01},
		{"bimodal", "kwok", 0, 1_000, 0.01},
		{"many tiny, few huge", "Azure", 0, 3_000, 0.025},
		{"uniform", "linear prices", families.FewPods, 10_000, 0.01},
	} {
		family := families.All[slices.IndexFunc(families.All, func(f families.Family) bool { return f.Name == tc.family })]
		market := families.Catalogues[slices.IndexFunc(families.Catalogues, func(c families.Catalogue) bool { return c.Name == tc.catalogue })]
		result := Supercargo(Request{Pods: familyPods(family, tc.pods, 11), Flavors: familyFlavors(t, market, tc.maxPods)})
		if result.Gap > tc.most || len(result.Unplaceable) > 0 {
			t.Errorf("%s, %s, %d pods, %d for each machine: the plan is %.2f %% above its bound and leaves %d pods out, want %.1f %% at most and none",
				tc.family, tc.catalogue, tc.pods, tc.maxPods, 100*result.Gap, len(result.Unplaceable), 100*tc.most)
		}
	}
}

// BenchmarkSupercargoByFamily reports the gap between plans and their lower bound: the mean over several draws of the
// pods, and the maximum.
func BenchmarkSupercargoByFamily(b *testing.B) {
	const first, draws = 21, 5
	for _, c := range families.Catalogues {
		for _, maxPods := range []int64{0, families.FewPods} {
			flavors := familyFlavors(b, c, maxPods)
			for _, f := range families.All {
				for _, n := range []int{2_000, 10_000} {
					b.Run(fmt.Sprintf("%s/%s/maxPods=%d/pods=%d", f.Name, c.Name, maxPods, n), func(b *testing.B) {
						var draw [draws][]Pod
						for i := range draw {
							draw[i] = familyPods(f, n, first+uint64(i))
						}
						sum, worst := 0.0, 0.0
						for b.Loop() {
							sum, worst = 0, 0
							for _, pods := range draw {
								gap := Supercargo(Request{Pods: pods, Flavors: flavors}).Gap
								sum, worst = sum+gap, max(worst, gap)
							}
						}
						b.ReportMetric(b.Elapsed().Seconds()/float64(b.N*draws), "s/plan")
						b.ReportMetric(100*sum/draws, "gap-%")
						b.ReportMetric(100*worst, "worst-%")
					})
				}
			}
		}
	}
}

// BenchmarkSupercargoByEffort plans for the pods of each family with all machines of AWS and Azure, with the usual effort and
// with ten times as much. What the longer search saves is not a weakness of the bound.
func BenchmarkSupercargoByEffort(b *testing.B) {
	const seed, longer = 11, 10
	for _, c := range families.Catalogues {
		if c.Name != "AWS" && c.Name != "Azure" {
			continue
		}
		flavors := familyFlavors(b, c, 0)
		for _, f := range families.All {
			for _, n := range []int{3_000, 10_000} {
				for _, times := range []int{1, longer} {
					b.Run(fmt.Sprintf("%s/%s/pods=%d/effort=%d", f.Name, c.Name, n, times), func(b *testing.B) {
						r := Request{Pods: familyPods(f, n, seed), Flavors: flavors}
						r.Options.Effort = times * r.Options.effort(n)
						var result Result
						for b.Loop() {
							result = Supercargo(r)
						}
						b.ReportMetric(100*result.Gap, "gap-%")
					})
				}
			}
		}
	}
}

// TestWherePricesAreLinearThePlanIsNotBoundToTheSmallestMachines keeps the planner from preferring only some of many
// equally good flavors: the gap was 0.8 % then.
func TestWherePricesAreLinearThePlanIsNotBoundToTheSmallestMachines(t *testing.T) {
	linear, uniform := families.Catalogues[len(families.Catalogues)-1], families.All[0]
	result := Supercargo(Request{Pods: familyPods(uniform, 2_000, 11), Flavors: familyFlavors(t, linear, 0)})
	if result.Gap > 0.005 {
		t.Errorf("the plan of %s pods with %s is %.2f %% above its bound, want 0.5 %% at most", uniform.Name, linear.Name, 100*result.Gap)
	}
}
