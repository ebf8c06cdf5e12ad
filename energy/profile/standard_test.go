package profile

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"supercargo.dev/supercargo/energy"
)

// truth is the true cost of the standard work on a machine: 10 s of a CPU of this speed, and the given joules.
type truth struct{ speed, joules float64 }

func (m truth) sample(size Size, work float64) Sample {
	cpu := float64(size.MilliCPU) / 1000
	return Sample{Size: size, Runtime: time.Duration(work * 10 / m.speed / cpu * float64(time.Second)), Energy: energy.Joules(work * m.joules)}
}

func (m truth) profile(t *testing.T) Profile {
	t.Helper()
	var samples []Sample
	for _, cpu := range []int64{250, 500, 1000, 2000, 4000} {
		for _, memory := range []int64{1 << 28, 1 << 30} {
			samples = append(samples, m.sample(Size{cpu, memory}, 1))
		}
	}
	p, unusable, err := Learn(samples)
	if err != nil || unusable != 0 {
		t.Fatalf("%v, %d unusable", err, unusable)
	}
	return p
}

var (
	slowAndFrugal = truth{speed: 0.5, joules: 50}
	fastAndHungry = truth{speed: 2, joules: 300}
	sizes         = []Size{{500, 1 << 29}, {1000, 1 << 29}, {2000, 1 << 29}}
)

func near(got, want float64) bool { return math.Abs(got/want-1) < 0.02 }

// TestTasksOfAnyLengthAreMadeStandard checks that a category with a thousand times the work on one type and little on
// another gives the same results as probes.
func TestTasksOfAnyLengthAreMadeStandard(t *testing.T) {
	tasks := map[string][]Task{}
	for name, m := range map[string]truth{"slow": slowAndFrugal, "fast": fastAndHungry} {
		for _, size := range sizes {
			for category, work := range map[string]float64{"long": 1000, "short": 0.01} {
				for range 3 {
					tasks[name] = append(tasks[name], Task{category, m.sample(size, work)})
				}
			}
		}
	}
	standard := Standardize(tasks, map[string]Profile{"slow": slowAndFrugal.profile(t), "fast": fastAndHungry.profile(t)})
	for name, m := range map[string]truth{"slow": slowAndFrugal, "fast": fastAndHungry} {
		if len(standard[name]) != 6 {
			t.Fatalf("%d samples of %s, want one for each category and size", len(standard[name]), name)
		}
		for _, s := range standard[name] {
			want := m.sample(s.Size, 1)
			if !near(s.Runtime.Seconds(), want.Runtime.Seconds()) || !near(float64(s.Energy), float64(want.Energy)) || s.NoEnergy {
				t.Errorf("%s: %+v, want %+v", name, s, want)
			}
		}
	}
}

// TestATypeThatWasNeverProbedIsLearnedFromWhatRanElsewhereToo uses a type without probes.
func TestATypeThatWasNeverProbedIsLearnedFromWhatRanElsewhereToo(t *testing.T) {
	tasks := map[string][]Task{}
	for _, size := range sizes {
		tasks["fast"] = append(tasks["fast"], Task{"c", fastAndHungry.sample(size, 7)})
		tasks["slow"] = append(tasks["slow"], Task{"c", slowAndFrugal.sample(size, 7)})
	}
	standard := Standardize(tasks, map[string]Profile{"fast": fastAndHungry.profile(t)})
	for _, s := range standard["slow"] {
		if want := slowAndFrugal.sample(s.Size, 1); !near(s.Runtime.Seconds(), want.Runtime.Seconds()) || !near(float64(s.Energy), float64(want.Energy)) {
			t.Errorf("%+v, want %+v", s, want)
		}
	}
	if len(standard["slow"]) != len(sizes) {
		t.Errorf("%d samples", len(standard["slow"]))
	}
}

func TestWhatCannotBeComparedIsPassedOver(t *testing.T) {
	one := Task{"c", fastAndHungry.sample(sizes[0], 7)}
	probed := map[string]Profile{"fast": fastAndHungry.profile(t)}
	for name, tasks := range map[string]map[string][]Task{
		"one cell":         {"fast": {one, one}},
		"no profile":       {"slow": {one, {"c", slowAndFrugal.sample(sizes[1], 7)}}},
		"no time at all":   {"fast": {{"c", Sample{Size: sizes[0]}}, {"c", Sample{Size: sizes[1]}}}},
		"sizes far beyond": {"fast": {{"c", fastAndHungry.sample(Size{900000, 1 << 45}, 1)}, {"c", fastAndHungry.sample(Size{800000, 1 << 45}, 1)}}},
	} {
		if got := Standardize(tasks, probed); len(got) != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestTasksWithoutEnergyTeachRuntimeOnly(t *testing.T) {
	var samples []Sample
	for _, size := range sizes {
		samples = append(samples, fastAndHungry.sample(size, 1), fastAndHungry.sample(size, 1))
	}
	timed := fastAndHungry.sample(Size{4000, 1 << 29}, 1)
	timed.Energy, timed.NoEnergy = 0, true
	p, unusable, err := Learn(append(samples, timed))
	if err != nil || unusable != 0 || p.Runtime.Quality.Samples != 7 || p.Energy.Quality.Samples != 6 || p.Runtime.Range.Most.MilliCPU != 4000 || p.Energy.Range.Most.MilliCPU != 2000 {
		t.Errorf("%+v, %d unusable, %v", p, unusable, err)
	}
	if _, _, err := Learn([]Sample{timed, timed, timed, timed}); err == nil {
		t.Error("energy is learned from samples without")
	}
}

func TestTheOrderOfTasksDoesNotMatter(t *testing.T) {
	probed := map[string]Profile{"fast": fastAndHungry.profile(t), "slow": slowAndFrugal.profile(t)}
	rapid.Check(t, func(t *rapid.T) {
		var all []Task
		for range rapid.IntRange(1, 12).Draw(t, "tasks") {
			s := fastAndHungry.sample(rapid.SampledFrom(sizes).Draw(t, "size"), rapid.Float64Range(0.1, 10).Draw(t, "work"))
			s.NoEnergy = rapid.Bool().Draw(t, "no energy")
			all = append(all, Task{rapid.SampledFrom([]string{"a", "b"}).Draw(t, "category"), s})
		}
		other := rapid.Permutation(all).Draw(t, "other order")
		a, b := Standardize(map[string][]Task{"fast": all}, probed)["fast"], Standardize(map[string][]Task{"fast": other}, probed)["fast"]
		if len(a) != len(b) {
			t.Fatalf("%d and %d samples", len(a), len(b))
		}
		for i := range a {
			if a[i] != b[i] {
				t.Fatalf("%+v and %+v", a[i], b[i])
			}
		}
	})
}
