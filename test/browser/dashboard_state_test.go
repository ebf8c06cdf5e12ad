//go:build browser

package browser

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"supercargo.dev/supercargo/cli/dashboard/connection"
)

// TestADashboardWithoutACurrentClusterAssertsNothing shows each state of the connection, before and after the cluster
// was read. Nothing may say that there is none of something, unless that was looked up.
func TestADashboardWithoutACurrentClusterAssertsNothing(t *testing.T) {
	since := start.Add(-3 * time.Minute).UnixMilli()
	for _, tc := range []struct {
		name string
		read bool
		said connection.Status
		pill string
	}{
		{"connecting", false, connection.Status{State: connection.Connecting, Label: "connecting", Line: "Connecting to the API server at https://x."}, "connecting"},
		{"never reached", false, connection.Status{State: connection.Unreachable, Label: "unreachable", Line: "The API server at https://x refuses connections."}, "unreachable"},
		{"denied", false, connection.Status{State: connection.Denied, Label: "permission missing", Line: "Permission missing: you may not list pods."}, "permission missing"},
		{"unreachable", true, connection.Status{State: connection.Unreachable, Since: since, Label: "unreachable since {since}", Line: "The API server at https://x does not answer. The figures are from {since}."}, "unreachable since "},
		{"stale", true, connection.Status{State: connection.Stale, Since: since, Label: "stale since {since}", Line: "Pods are shown as of {since}.", NoDecisionsThen: "There were none in the cluster at {since}."}, "stale since "},
		{"incomplete", true, connection.Status{State: connection.Live, Label: "live, incomplete", Notes: []string{"permission missing: you may not list events.events.k8s.io: the page lacks Events"}, NoDecisions: "Not known: Events were not read."}, "live, incomplete"},
		{"live", true, connection.Status{State: connection.Live, Label: "live", NoDecisions: "There are none in the cluster."}, "live"},
	} {
		for _, width := range []int64{360, 1280} {
			t.Run(fmt.Sprintf("%s-%d", tc.name, width), func(t *testing.T) {
				b := newBoard(t)
				if tc.read {
					s := sampleCluster(3, start)
					s.Pods, s.Fleets, s.Policies, s.Pools, s.Events, s.Decisions = nil, nil, nil, nil, nil, nil
					b.show(t, s, start)
				}
				b.say(t, tc.said)
				p := visit(t, b.http.URL+"/?token=t0ken", b.http.URL+"/", view{"light", width})
				p.until(t, fmt.Sprintf("document.querySelector('#state').dataset.state === %q", tc.said.State))
				p.until(t, "document.querySelector('#state').textContent.startsWith('"+tc.pill+"')")
				inThePast := tc.read && tc.said.State != connection.Live
				p.until(t, fmt.Sprintf("document.body.innerText.includes('No pod waited for a node at ') === %v", inThePast))
				text := ask[string](t, p, "document.body.innerText")
				if strings.Contains(text, "{since}") || strings.Contains(text, "Invalid Date") {
					t.Errorf("it says:\n%s", text)
				}
				for _, absence := range []string{"No pod waits", "None waits"} {
					if said, may := strings.Contains(text, absence), tc.said.State == connection.Live; said != may {
						t.Errorf("it says %q: %v, want %v:\n%s", absence, said, may, text)
					}
				}
				if said, may := strings.Contains(text, "There are none in the cluster"), tc.name == "live"; said != may {
					t.Errorf("it says that there are no decisions: %v, want %v:\n%s", said, may, text)
				}
				faults := append(ask[[]string](t, p, "checks.overflow()"), p.axe(t)...)
				for _, fault := range append(faults, p.seen(t)...) {
					t.Error(fault)
				}
			})
		}
	}
}

// TestTimesGoOnWithoutNewData checks also that they stop once the figures are not current.
func TestTimesGoOnWithoutNewData(t *testing.T) {
	b := newBoard(t)
	s := sampleCluster(3, start)
	b.show(t, s, start)
	p := b.visit(t, view{"light", 1280})
	waits := "document.querySelector('#pending [data-since]').textContent"
	created := time.Now().Add(-20 * time.Second).Truncate(time.Second)
	for _, pod := range s.Pods {
		pod.CreationTimestamp.Time = created
	}
	b.show(t, s, start)
	p.until(t, waits+".endsWith(' s')")
	first := ask[string](t, p, waits)
	p.until(t, waits+" !== '"+first+"'")
	b.say(t, connection.Status{State: connection.Unreachable, Since: created.Add(10 * time.Second).UnixMilli(), Label: "unreachable since {since}", Line: "x"})
	p.until(t, "document.querySelector('#state').dataset.state === 'unreachable'")
	p.until(t, waits+".endsWith('for up to 10 s')")
}

// TestASilentDashboardIsFoundWithinTheBound asks the page's own function, for a server that has vanished without the end
// of its connection.
func TestASilentDashboardIsFoundWithinTheBound(t *testing.T) {
	b := newBoard(t)
	b.show(t, sampleCluster(3, start), start)
	p := b.visit(t, view{"light", 1280})
	state := func(heard, now int) string {
		return ask[string](t, p, fmt.Sprintf(`(() => { const s = window.stateOf({ said: { state: "live", label: "live" }, known: true, heard: %d, now: %d }); return s.state + " " + s.at })()`, heard, now))
	}
	p.until(t, `(import("./state.js").then((m) => (window.stateOf = m.stateOf)), import("./text.js").then((m) => (window.clock = m.clock)), window.stateOf !== undefined && window.clock !== undefined)`)
	for silence, want := range map[int]string{0: "live 100000", 8000: "live 108000", 8001: "stale 100000"} {
		if got := state(100_000, 100_000+silence); got != want {
			t.Errorf("after %d ms of silence: %s, want %s", silence, got, want)
		}
	}
	// What the page itself says of its connection, and what must be true for it.
	for _, tc := range []struct{ what, asked, want string }{
		{"nothing was heard yet", "{ heard: 0, now: 1 }", "connecting|"},
		{"nothing was ever heard, and the connection is broken", "{ heard: 0, now: 1, cut: true }", "no connection|This page gets no answer from the dashboard. Nothing is known about the cluster. It tries again by itself."},
		{"the server is another one", "{ heard: 0, now: 1, stopped: true }", "no connection|The dashboard has stopped. Nothing is known about the cluster. Start it again, and open the address that it prints."},
		{"the server beats, and says nothing of a cluster", "{ heard: 1, now: 1 }", "connecting|"},
		{"the cluster is current", `{ said: { state: "live", label: "live" }, heard: 1, now: 1 }`, "live|"},
		{"the connection broke before anything was known of a cluster", `{ said: { state: "connecting", label: "x" }, heard: 100000, now: 100000, cut: true }`, "no connection|This page gets no answer from the dashboard. Nothing is known about the cluster. It tries again by itself."},
		{"the connection broke at 100 s", `{ said: { state: "live", label: "live" }, known: true, heard: 100000, now: 100000, cut: true }`, "stale since T|This page gets no answer from the dashboard. The figures are from T. It tries again by itself."},
		{"the figures were old before", `{ said: { state: "unreachable", since: 90000, label: "x" }, known: true, heard: 100000, now: 100000, cut: true }`, "stale since U|This page gets no answer from the dashboard. The figures are from U. It tries again by itself."},
		{"it was stopped", `{ said: { state: "live", label: "live" }, known: true, heard: 100000, now: 100000, stopped: true }`, "stale since T|The dashboard has stopped. The figures are from T. Start it again, and open the address that it prints."},
	} {
		got := ask[string](t, p, fmt.Sprintf(`(() => { const s = window.stateOf(%s); return (s.label + "|" + s.line).replaceAll(window.clock(100000), "T").replaceAll(window.clock(90000), "U") })()`, tc.asked))
		if want := strings.ReplaceAll(tc.want, "U", ask[string](t, p, `window.clock(100000) === window.clock(90000) ? "T" : "U"`)); got != want {
			t.Errorf("%s: it says %q, want %q", tc.what, got, want)
		}
	}
	if limit := int(connection.Found / time.Millisecond); state(100_000, 100_000+limit) != "stale 100000" {
		t.Errorf("after %d ms of silence it is not stale", limit)
	}
}
