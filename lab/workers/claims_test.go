package workers

import (
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/worker/estimate"
	workerdecide "supercargo.dev/supercargo/autoscaler/worker/workerdecide"
	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/lab/definition"
	"supercargo.dev/supercargo/lab/scenario"
)

// paperPlan returns a workflow of the paper on its workers.
func paperPlan(t *testing.T, file string, start int, seed uint64) Plan {
	t.Helper()
	path := filepath.Join("..", "..", "test", "scenarios", "workers", file)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tasks, err := trace.ReadTasks(file, f)
	if err != nil {
		t.Fatal(err)
	}
	return Plan{
		Tasks: tasks, Worker: estimate.Resources{MilliCores: 3000, MemoryBytes: 12 << 30}, Start: start, Max: 20,
		InitTime: scenario.Lag{Mean: 157_400 * time.Millisecond, SD: 4200 * time.Millisecond}, Seed: seed,
		MicroDollarsPerHour: 190_000, BillingPeriod: time.Minute, IdleTimeout: 30 * time.Second,
	}
}

func mustRun(t *testing.T, p Plan, law Law) Result {
	t.Helper()
	r, err := Run(p, law)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func paperHPA(target float64) Law { return &HPA{Target: target, Min: 1, Max: 20} }

// paperHTA returns the algorithm of the paper with the settings of the paper.
func paperHTA() Law {
	return &PaperHTA{Limits: estimate.Pool{Worker: estimate.Resources{MilliCores: 3000, MemoryBytes: 12 << 30}, Max: 20, Cycle: 30 * time.Second}}
}

// pool returns a WorkerPool with the defaults of its kind.
func pool(law v1alpha1.WorkerLaw) Law {
	var p v1alpha1.WorkerPool
	err := definition.Complete("workerpools", map[string]any{"spec": map[string]any{
		"manager": map[string]any{}, "limits": map[string]any{"max": int64(20)}, "scaling": map[string]any{"law": string(law)},
		"worker": map[string]any{"resources": map[string]any{"cores": int64(3), "memory": "12Gi"}},
	}}, &p)
	if err != nil {
		panic(err)
	}
	return &Pool{Config: workerdecide.ConfigOf(&p.Spec)}
}

func hta() Law { return pool(v1alpha1.WorkerLawHTA) }

func ours() Law { return pool(v1alpha1.WorkerLawSupercargo) }

// TestBLASTIsWhatThePaperClaims runs each law with ten draws of initialization times.
func TestBLASTIsWhatThePaperClaims(t *testing.T) {
	for seed := range uint64(10) {
		p := paperPlan(t, "blast.csv", 3, seed)
		hpa20, hpa50 := mustRun(t, p, paperHPA(0.2)), mustRun(t, p, paperHPA(0.5))
		for _, l := range []struct {
			name   string
			law    Law
			longer float64
		}{{"hta-paper", paperHTA(), 1.152}, {"hta", hta(), 1.152}, {"supercargo", ours(), 1.05}} {
			r := mustRun(t, p, l.law)
			if 5.6*float64(r.WasteMilliCoreMillis) > float64(hpa20.WasteMilliCoreMillis) || 4.3*float64(r.WasteMilliCoreMillis) > float64(hpa50.WasteMilliCoreMillis) {
				t.Errorf("seed %d: %s wastes %d, want at most 1/5.6 of %d and 1/4.3 of %d", seed, l.name, r.WasteMilliCoreMillis, hpa20.WasteMilliCoreMillis, hpa50.WasteMilliCoreMillis)
			}
			if r.Makespan.Seconds() > l.longer*hpa20.Makespan.Seconds() {
				t.Errorf("seed %d: %s takes %v, want at most %v times %v", seed, l.name, r.Makespan, l.longer, hpa20.Makespan)
			}
			if r.MicroDollars > hpa20.MicroDollars || r.LostMilliCoreMillis > 0 {
				t.Errorf("seed %d: %s costs %d and loses %d, want at most %d and nothing", seed, l.name, r.MicroDollars, r.LostMilliCoreMillis, hpa20.MicroDollars)
			}
		}
	}
}

func TestIOBoundTasksAreWhatThePaperClaims(t *testing.T) {
	for seed := range uint64(10) {
		p := paperPlan(t, "io.csv", 1, seed)
		hpa20 := mustRun(t, p, paperHPA(0.2))
		for _, l := range []struct {
			name string
			law  Law
		}{{"hta-paper", paperHTA()}, {"hta", hta()}, {"supercargo", ours()}} {
			if r := mustRun(t, p, l.law); 3.65*r.Makespan.Seconds() > hpa20.Makespan.Seconds() {
				t.Errorf("seed %d: %s takes %v, want at most %v/3.65", seed, l.name, r.Makespan, hpa20.Makespan)
			}
		}
	}
}

// TestBaselinesAreNearThePapersTable checks the files, which were made to reproduce the paper's
// table.
func TestBaselinesAreNearThePapersTable(t *testing.T) {
	for _, tc := range []struct {
		file                           string
		start                          int
		target                         float64
		makespan, waste, shortage, off float64
	}{
		{"blast.csv", 3, 0.2, 2656, 51324, 34813, 0.25},
		{"blast.csv", 3, 0.5, 2480, 39353, 66611, 0.25},
		{"io.csv", 1, 0.2, 6670, 159, 337737, 0.36},
		{"io.csv", 1, 0.5, 7230, 82, 357640, 0.36},
	} {
		r := mustRun(t, paperPlan(t, tc.file, tc.start, 1), paperHPA(tc.target))
		for _, m := range []struct {
			name      string
			got, want float64
		}{
			{"makespan", r.Makespan.Seconds(), tc.makespan},
			{"waste", float64(r.WasteMilliCoreMillis) / 1e6, tc.waste},
			{"shortage", float64(r.ShortageMilliCoreMillis) / 1e6, tc.shortage},
		} {
			if !(math.Abs(m.got/m.want-1) <= tc.off) {
				t.Errorf("%s at %v: %s %.0f, want %.0f within %.0f %%", tc.file, tc.target, m.name, m.got, m.want, 100*tc.off)
			}
		}
	}
}
