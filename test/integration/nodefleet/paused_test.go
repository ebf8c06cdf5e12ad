package nodefleet

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/app"
	"supercargo.dev/supercargo/cmd/supercargo/cli"
)

// command runs a command line that must succeed, and returns its output.
func (b *bench) command(args ...string) string {
	b.Helper()
	var out, faults bytes.Buffer
	args = append(append([]string{"supercargo"}, args...), "--kubeconfig", b.Site.KubeconfigPath())
	if code := cli.Main(args, strings.NewReader(""), &out, &faults); code != 0 {
		b.Fatalf("%v: exit code %d: %s", args, code, faults.String())
	}
	return out.String()
}

func TestAPausedFleetSaysWhatItWouldDoAndActsWhenItIsResumed(t *testing.T) {
	t.Parallel()
	b := newBench(t, "paused")
	b.flavor("a", "2", "4Gi", "0.10")
	b.command("pause", "--reason", "a test of the pause", "-n", b.Space)
	b.command("pause", "--reason", "an incident", "-n", b.Space) // replaces the reason
	highest := b.highest()
	b.fleet("all")
	b.autoscale(func(o *app.Options) { o.PauseNamespace = b.Space })
	b.pods("p", 2, "1900m", "1Gi")
	b.Eventually("it is said what would be bought, and why it is not", func() string {
		s := b.get("all").Status
		c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionPaused)
		switch d := s.LastDecision; {
		case c == nil || c.Reason != v1alpha1.ReasonPausedByConfigMap || !strings.Contains(c.Message, "an incident"):
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

	if said := b.command("resume", "-n", b.Space); said != "resumed\n" {
		t.Errorf("resume says %q", said)
	}
	if said := b.command("resume", "-n", b.Space); !strings.Contains(said, "not paused") {
		t.Errorf("resume of what is not paused says %q", said)
	}
	b.Runs(2)
	b.becomes(map[string]int{"a": 2})
	b.event(v1alpha1.ReasonResumed)
	b.Eventually("condition Paused is gone", func() string {
		if meta.FindStatusCondition(b.get("all").Status.Conditions, v1alpha1.ConditionPaused) != nil {
			return "there"
		}
		return ""
	})

	// A pause also keeps machines that would be released.
	resume := b.Site.Pause(t, b.Space, "")
	b.Eventually("it is paused again", func() string {
		if meta.FindStatusCondition(b.get("all").Status.Conditions, v1alpha1.ConditionPaused) == nil {
			return "not yet"
		}
		return ""
	})
	b.removePods()
	b.Eventually("it would give both machines back", func() string {
		if d := b.get("all").Status.LastDecision; d == nil || !strings.Contains(d.Summary, "would release") {
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
