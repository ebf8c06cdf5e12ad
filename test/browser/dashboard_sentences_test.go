//go:build browser

package browser

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/cli/dashboard/connection"
	"supercargo.dev/supercargo/cli/status"
	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/test/kit/sentences"
)

// text returns what a page says: its visible text, that of closed parts, and the names of its elements.
func (p *tab) text(t *testing.T) string {
	t.Helper()
	return ask[string](t, p, `[document.body.innerText, document.querySelector("#remarks").textContent, ...[...document.querySelectorAll("details")].map((d) => d.textContent),
		...[...document.querySelectorAll(".unseen")].map((e) => e.textContent), ...[...document.querySelectorAll("[aria-label]")].map((e) => e.getAttribute("aria-label"))].join("\n")`)
}

// scene shows a cluster of four nodes as changed, and returns what the page says, with the first node open if that is asked for.
func scene(t *testing.T, open bool, change func(*status.Snapshot)) string {
	t.Helper()
	b := newBoard(t)
	s := sampleCluster(4, start)
	if change != nil {
		change(s)
	}
	b.show(t, s, start)
	p := b.visit(t, view{"light", 1400})
	if open {
		p.do(t, chromedp.Click(chromedp.CSS(".node[aria-label^='node-0,']")))
		p.until(t, "document.querySelector('#detail').open")
	}
	return p.text(t)
}

// TestEachSentenceOfTheScriptsIsSaidOnlyWhereItIsTrue has each sentence that the page's scripts decide about with a page on
// which it is true, and a near one on which it is not. All others come from the server.
func TestEachSentenceOfTheScriptsIsSaidOnlyWhereItIsTrue(t *testing.T) {
	finish := func(in time.Duration) func(*status.Snapshot) {
		return func(s *status.Snapshot) {
			for _, p := range s.Pods {
				p.Spec.NodeName = "node-0"
				p.Labels = map[string]string{v1alpha1.LabelClass: "batch"}
				p.Annotations[v1alpha1.AnnotationExpectedFinish] = runtimes.Format(start.Add(in))
			}
		}
	}
	empty := func(s *status.Snapshot) { s.Pods = nil }
	unpriced := func(s *status.Snapshot) { s.Prices["node-0"] = status.Price{Unpriced: "nobody knows it"} }
	full, plain, late, none, dear := scene(t, true, finish(time.Hour)), scene(t, false, nil), scene(t, true, finish(-time.Hour)), scene(t, true, empty), scene(t, true, unpriced)
	quiet := scene(t, false, func(s *status.Snapshot) {
		s.Audit, s.Pools, s.Migrations, s.Fleets, s.Decisions, s.Events = nil, nil, nil, nil, nil, nil
		s.Nodes[1].Annotations, s.Nodes[1].Spec.Unschedulable = nil, false
	})
	silent := scene(t, false, func(s *status.Snapshot) {
		since := metav1.NewTime(start.Add(-time.Minute))
		s.Pools[0].Status.SilentSince = &since
	})
	gone, reset := afterwards(t, false), afterwards(t, true)
	cases := []sentences.Case{
		{"%s no longer exists", gone, reset},
		{"Not known.", reset, gone},
		{"0, it is empty", none, full},
		{"%s ago", late, full},
		{"%s per hour, %s per month", full, dear},
		{"The manager has not answered since %s.", silent, plain},
		{"being emptied by %s", plain, quiet},
	}
	for _, c := range cases {
		if !sentences.Pattern(c[0]).MatchString(c[1]) {
			t.Errorf("%q is not said where it is true:\n%s", c[0], c[1])
		}
		if at := sentences.Pattern(c[0]).FindString(c[2]); at != "" {
			t.Errorf("%q is said where it is not true, as %q", c[0], at)
		}
	}
}

// afterwards opens a node, and returns what the page says once it has gone: from the cluster, or because nothing is known
// of the cluster any longer, as of a server that starts again.
func afterwards(t *testing.T, unknown bool) string {
	t.Helper()
	b := newBoard(t)
	s := sampleCluster(4, start)
	b.show(t, s, start)
	p := b.visit(t, view{"light", 1400})
	p.do(t, chromedp.Click(chromedp.CSS(".node[aria-label^='node-0,']")))
	p.until(t, "document.querySelector('#detail').open")
	if unknown {
		b.items = nil
		b.say(t, connection.Status{State: connection.Connecting, Label: "connecting", Line: "Reading nodes and pods."})
		p.until(t, "document.querySelector('#state').textContent === 'connecting'")
		p.until(t, "document.querySelectorAll('.node').length === 0")
		return p.text(t)
	}
	s.Nodes = s.Nodes[1:]
	b.show(t, s, start)
	p.until(t, "document.querySelectorAll('.node').length === 3")
	return p.text(t)
}
