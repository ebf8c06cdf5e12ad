package nodefleet

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/app"
	"supercargo.dev/supercargo/test/kit"
)

// explain returns the output of the command line about a fleet.
func (b *bench) explain(fleet string) string {
	b.Helper()
	return b.command("explain", "nodefleet/"+b.Space+"-"+fleet)
}

func TestAFleetThatObservesSaysWhatItWouldDoAndActsWhenTold(t *testing.T) {
	t.Parallel()
	b := newBench(t, "observe")
	b.flavor("a", "2", "4Gi", "0.10")
	b.flavor("c", "2", "4Gi", "0.30")
	highest := b.highest()
	b.fleet("all", func(s *v1alpha1.NodeFleetSpec) { s.Mode = v1alpha1.FleetObserve })
	requests := &kit.Ledger{}
	b.autoscale(func(o *app.Options) { o.Config.Wrap(requests.Wrap) })
	mode := func(m v1alpha1.FleetMode) {
		b.change("all", func(s *v1alpha1.NodeFleetSpec) { s.Mode = m })
	}
	decides := func(mode v1alpha1.FleetMode, want string) {
		t.Helper()
		b.Eventually("it is decided: "+want, func() string {
			d := b.get("all").Status.LastDecision
			if d == nil || d.Mode != mode || !strings.Contains(d.Summary, want) {
				return "something else"
			}
			return ""
		})
		if text := b.explain("all"); !strings.Contains(text, want) {
			t.Errorf("explain says\n%s\nwant %q in it", text, want)
		}
	}
	onlyReports := func() {
		t.Helper()
		written, _ := requests.Read()
		for _, w := range written {
			if !strings.HasSuffix(w, "/nodefleets/observe-all/status") && !strings.Contains(w, "/events") {
				t.Errorf("a fleet that observes writes %s", w)
			}
		}
	}
	b.pods("p", 2, "1900m", "1Gi")
	decides(v1alpha1.FleetObserve, "would buy 2 observe-a for 2 pods at $0.20/h")
	onlyReports()
	if each, _ := highest(); len(each) > 0 {
		t.Errorf("a fleet that observes has bought %v", each)
	}

	mode(v1alpha1.FleetAct)
	b.Runs(2)
	b.becomes(map[string]int{"a": 2})
	decides(v1alpha1.FleetAct, "buy 2 observe-a for 2 pods at $0.20/h")
	b.Eventually("its outcome is measured", func() string {
		if d := b.get("all").Status.LastDecision; d.Measured == nil || d.Measured.DollarsPerHour != "0.20" {
			return "not measured"
		}
		return ""
	})

	mode(v1alpha1.FleetObserve)
	b.Eventually("it observes again", func() string {
		f := b.get("all")
		return cmp.Diff(f.Generation, f.Status.ObservedGeneration)
	})
	before, _ := requests.Read()
	b.removePods()
	decides(v1alpha1.FleetObserve, "would release ")
	after, _ := requests.Read()
	if at := slices.IndexFunc(after[len(before):], func(w string) bool { return strings.Contains(w, "/nodes/") || strings.Contains(w, "/scale") }); at >= 0 {
		t.Errorf("a fleet that observes writes %s", after[len(before)+at])
	}
	if diff := cmp.Diff(map[string]int{"a": 2}, b.count()) + b.untouched(); diff != "" {
		t.Errorf("a fleet that observes has released machines: %s", diff)
	}
	mode(v1alpha1.FleetAct)
	b.becomes(map[string]int{})
}

func TestADryRunWritesNothingAtAll(t *testing.T) {
	t.Parallel()
	b := newBench(t, "dry")
	b.flavor("a", "2", "4Gi", "0.10")
	b.fleet("all")
	b.pods("p", 2, "1900m", "1Gi")
	b.wait(2)
	requests := &kit.Ledger{}
	stop := b.autoscale(func(o *app.Options) { o.DryRun = true; o.Config.Wrap(requests.Wrap) })
	b.Eventually("the log says what would be bought", func() string {
		if text := b.Logs.Tail(1000) + kit.GlobalLog.Tail(1000); !strings.Contains(text, "would buy 2 dry-a for 2 pods") {
			return "silent"
		}
		return ""
	})
	stop()
	if written, _ := requests.Read(); len(written) > 0 {
		t.Errorf("a dry run writes %v", written)
	}
	if status := b.get("all").Status; !cmp.Equal(v1alpha1.NodeFleetStatus{}, status) {
		t.Errorf("a dry run has written a status: %+v", status)
	}
	b.autoscale()
	b.Runs(2)
}
