package nodefleet

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/app"
	"supercargo.dev/supercargo/internal/platform/pause"
)

func TestAPausedFleetSaysWhatItWouldDoAndActsWhenItIsResumed(t *testing.T) {
	t.Parallel()
	b := newBench(t, "paused")
	b.flavor("a", "2", "4Gi", "0.10")
	resume := b.site.Pause(t, b.name, "an incident")
	highest := b.highest()
	b.fleet("all")
	b.autoscale(func(o *app.Options) { o.PauseNamespace = b.name })
	b.pods("p", 2, "1900m", "1Gi")
	b.eventually("it is said what would be bought, and why it is not", func() string {
		s := b.get("all").Status
		c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionPaused)
		switch d := s.LastDecision; {
		case c == nil || c.Reason != pause.Reason || !strings.Contains(c.Message, "an incident"):
			return "condition Paused does not say so"
		case d == nil || d.Mode != v1alpha1.FleetObserve || !strings.Contains(d.Summary, "would buy 2 paused-a"):
			return "there is no such decision"
		}
		return ""
	})
	b.event(v1alpha1.ConditionPaused)
	if each, _ := highest(); len(each) > 0 {
		t.Errorf("a paused fleet has bought %v", each)
	}
	if text := b.explain("all"); !strings.Contains(text, "an incident") {
		t.Errorf("explain says nothing of the pause:\n%s", text)
	}

	resume()
	b.run(2)
	b.becomes(map[string]int{"a": 2})
	b.event(pause.Resumed)
	b.eventually("condition Paused is gone", func() string {
		if meta.FindStatusCondition(b.get("all").Status.Conditions, v1alpha1.ConditionPaused) != nil {
			return "there"
		}
		return ""
	})

	// A pause holds machines, too, that are to go.
	resume = b.site.Pause(t, b.name, "")
	b.eventually("it is paused again", func() string {
		if meta.FindStatusCondition(b.get("all").Status.Conditions, v1alpha1.ConditionPaused) == nil {
			return "not yet"
		}
		return ""
	})
	b.removePods()
	b.eventually("it would give both machines back", func() string {
		if d := b.get("all").Status.LastDecision; d == nil || !strings.Contains(d.Summary, "would give back") {
			return "there is no such decision"
		}
		return ""
	})
	if n := len(b.machines()); n != 2 {
		t.Errorf("%d machines of a paused fleet, want 2", n)
	}
	resume()
	b.becomes(map[string]int{})
}
