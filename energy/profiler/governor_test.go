package profiler

import (
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/energy/probe"
	"supercargo.dev/supercargo/energy/profile"
	"supercargo.dev/supercargo/energy/score"
)

// underGovernors returns a report under three governors. With powersave everything takes twice as
// long and half the energy, without the idle power of 5 W; with performance the energy was not
// measured.
func underGovernors(t *testing.T) probe.Report {
	t.Helper()
	r, err := probe.Decode([]byte(report(t, 1)))
	if err != nil {
		t.Fatal(err)
	}
	r.Home, r.Switched = "schedutil", true
	r.Idle[0].Governor = "schedutil"
	var others []probe.Run
	for i := range r.Runs {
		r.Runs[i].Governor = "schedutil"
		slow, fast := r.Runs[i], r.Runs[i]
		slow.Governor, slow.Runtime = "powersave", 2*slow.Runtime
		slow.Machine = energy.Joules(5*slow.Runtime.Seconds() + 50)
		fast.Governor, fast.Machine, fast.Measured = "performance", 0, false
		others = append(others, slow, fast)
	}
	r.Runs = append(r.Runs, others...)
	r.Idle = append(r.Idle, probe.Idle{Governor: "powersave", For: time.Minute, Machine: 300, Measured: true})
	return r
}

func TestWhatIsProbedUnderOtherGovernorsIsLearned(t *testing.T) {
	text, err := underGovernors(t).Encode()
	if err != nil {
		t.Fatal(err)
	}
	p := newPlay(t, nil, node("a", "xeon"))
	p.run(15 * time.Second)
	p.ends(batchv1.JobComplete, string(text))
	o := p.profile("xeon")
	m, err := profile.FromObject(o)
	if err != nil {
		t.Fatal(err)
	}
	size := profile.Size{MilliCPU: 1000, MemoryBytes: 128 << 20}
	for _, tc := range []struct {
		governor        string
		seconds, joules float64
		doubted         bool
	}{{"schedutil", 10, 200, false}, {"", 10, 200, false}, {"powersave", 20, 100, false}, {"performance", 10, 200, true}, {"conservative", 10, 200, true}} {
		got := score.Predict(m, tc.governor, size, false, p.clock.Now())
		if s, j := got.Runtime.Value/tc.seconds, got.Energy.Value/tc.joules; s < 0.98 || s > 1.02 || j < 0.98 || j > 1.02 || (got.Energy.Doubts&profile.OtherGovernor != 0) != tc.doubted {
			t.Errorf("%q: %+v, want %v s and %v J, doubted %v", tc.governor, got, tc.seconds, tc.joules, tc.doubted)
		}
	}
	c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ProfileLearned)
	for _, says := range []string{"under the CPU governor schedutil", "also under powersave", "not under performance, because no meter"} {
		if c == nil || !strings.Contains(c.Message, says) {
			t.Errorf("condition %+v does not say %q", c, says)
		}
	}
	p.start(nil) // it loses its memory
	p.run(time.Minute)
	if again := p.profile(o.Name); again.ResourceVersion != o.ResourceVersion {
		t.Errorf("after a restart the profile is written: %+v became %+v", o.Status, again.Status)
	}
}

// TestAnEditedModelOfAGovernorIsRefused: models under other governors are the profiler's like the
// rest.
func TestAnEditedModelOfAGovernorIsRefused(t *testing.T) {
	text, err := underGovernors(t).Encode()
	if err != nil {
		t.Fatal(err)
	}
	p := newPlay(t, nil, node("a", "xeon"))
	p.run(15 * time.Second)
	p.ends(batchv1.JobComplete, string(text))
	p.said()
	o := p.profile("xeon")
	good := o.DeepCopy()
	o.Status.Models.Governors[0].Energy.Terms[0].Coefficient = "NaN"
	if err := p.client.Status().Update(p.Context(), o); err != nil {
		t.Fatal(err)
	}
	p.run(10 * time.Second)
	if said := p.said(); !strings.Contains(said, "ModelsInvalid") || !strings.Contains(said, "status.models.governors[0].energy.terms[0]") {
		t.Errorf("it says %q, want which field is refused", said)
	}
	if again := p.profile("xeon"); again.Status.Models.Governors[0].Energy.Terms[0] != good.Status.Models.Governors[0].Energy.Terms[0] {
		t.Errorf("%+v, want what was learned", again.Status.Models.Governors[0].Energy)
	}
}

// TestGovernorsOfAReportAreJudged: a report comes from a pod, and its names are written to an
// object that the API server validates.
func TestGovernorsOfAReportAreJudged(t *testing.T) {
	r := underGovernors(t)
	for i := range r.Runs {
		if r.Runs[i].Governor == "powersave" {
			r.Runs[i].Governor = "Power\nSave"
		}
	}
	if g := governedBy(r); g.home != "schedutil" || len(g.others) != 0 || !slices.Equal(g.guessed, []string{"performance"}) {
		t.Errorf("%+v, want none of that name", g)
	}
	if g := governedBy(underGovernors(t).Under("no governor")); g.home != "" || g.others != nil {
		t.Errorf("%+v, want none beside one that cannot be", g)
	}
	r = underGovernors(t)
	for _, name := range []string{"a", "b", "c"} {
		for _, run := range slices.Clone(r.Runs) {
			if run.Governor == "powersave" {
				run.Governor = name
				r.Runs = append(r.Runs, run)
			}
		}
		r.Idle = append(r.Idle, probe.Idle{Governor: name, For: time.Minute, Machine: 300, Measured: true})
	}
	if g := governedBy(r); len(g.others) != mostGovernors {
		t.Errorf("%d governors, want %d at most", len(g.others), mostGovernors)
	}
}
