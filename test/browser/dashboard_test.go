//go:build browser

package browser

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"supercargo.dev/supercargo/cli/dashboard"
	"supercargo.dev/supercargo/cli/dashboard/connection"
	"supercargo.dev/supercargo/cli/status"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// board is a dashboard that shows the data of a test.
type board struct {
	server *dashboard.Server
	http   *httptest.Server
	items  []status.Item
}

func newBoard(t *testing.T) *board {
	t.Helper()
	done := make(chan struct{})
	b := &board{server: dashboard.NewServer(dashboard.ServerOptions{Token: "t0ken", Done: done})}
	b.http = httptest.NewServer(b.server.Handler())
	t.Cleanup(func() {
		close(done)
		b.http.Close()
	})
	return b
}

func (b *board) show(t *testing.T, s *status.Snapshot, now time.Time) {
	t.Helper()
	items, err := status.Of(s, now).Items()
	if err != nil {
		t.Fatal(err)
	}
	b.items = items
	b.say(t, connection.Status{State: connection.Live, Label: "live"})
}

// say shows a state of the connection, beside what is shown of the cluster.
func (b *board) say(t *testing.T, s connection.Status) {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	b.server.Show(append(slices.Clip(b.items), status.Item{Section: "connection", JSON: text}))
}

// visit opens the page and waits until it shows a cluster.
func (b *board) visit(t *testing.T, v view) *tab {
	t.Helper()
	p := visit(t, b.http.URL+"/?token=t0ken", b.http.URL+"/", v)
	p.until(t, "document.querySelector('#state').dataset.state === 'live' && document.querySelectorAll('.node').length > 0")
	return p
}

// until waits until an expression of JavaScript is true.
func (p *tab) until(t *testing.T, expression string) {
	t.Helper()
	for end := time.Now().Add(15 * time.Second); !ask[bool](t, p, expression); {
		if time.Now().After(end) {
			t.Fatalf("it is still not true that %s; the page says:\n%s", expression, ask[string](t, p, "document.body.innerText"))
		}
	}
}

// axe runs axe-core and returns its accessibility faults, one per line.
func (p *tab) axe(t *testing.T) []string {
	t.Helper()
	code := testfile.Read(t, "../data/axe-core/axe.min.js")
	p.do(t, chromedp.Evaluate[chromedp.Void](string(code)+";0"))
	return result(t, p, chromedp.Evaluate[[]string](`axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] })
		.then((r) => r.violations.flatMap((v) => v.nodes.map((n) => v.id + ": " + n.html.slice(0, 150) + ": " + n.failureSummary)))`, chromedp.EvalAwaitPromise))
}

// start is the time of all samples: the page compares their times with the server's.
var start = time.Now().Truncate(time.Second)

func TestTheDashboardIsInOrderInLightAndDarkNarrowAndWide(t *testing.T) {
	b := newBoard(t)
	b.show(t, sampleCluster(24, start), start)
	for _, v := range views {
		t.Run(v.String(), func(t *testing.T) {
			p := b.visit(t, v)
			p.picture(t, "dashboard-"+v.String())
			faults := append(ask[[]string](t, p, "checks.overflow()"), ask[[]string](t, p, "checks.text()")...)
			faults = append(faults, p.axe(t)...)
			for _, fault := range append(faults, p.seen(t)...) {
				t.Error(fault)
			}
		})
	}
}

func TestANodeOfTheDashboardIsOpenedByMouseAndByKeys(t *testing.T) {
	b := newBoard(t)
	b.show(t, sampleCluster(24, start), start)
	for _, v := range views {
		t.Run(v.String(), func(t *testing.T) {
			p := b.visit(t, v)
			title := func() string {
				return ask[string](t, p, "document.querySelector('#detail').open ? document.querySelector('#detail-title').textContent : ''")
			}
			p.do(t, chromedp.Click(chromedp.CSS(".node[aria-label^='node-1,']")))
			if got := title(); got != "node-1" {
				t.Errorf("a click opens %q, want node-1", got)
			}
			if rows := ask[int](t, p, "document.querySelectorAll('#detail-pods tr').length"); rows < 2 {
				t.Errorf("%d pods are listed, want those of the node", rows)
			}
			p.picture(t, "dashboard-node-"+v.String())
			faults := append(p.axe(t), ask[[]string](t, p, "checks.overflow()")...)
			p.do(t, chromedp.KeyEvent(kb.Escape))
			if got := title(); got != "" {
				t.Errorf("after Escape %q is open, want nothing", got)
			}
			p.do(t, chromedp.KeyEvent(kb.End), chromedp.KeyEvent(kb.ArrowLeft), chromedp.KeyEvent(kb.Enter))
			if got := title(); got != "node-22" {
				t.Errorf("End, left and Enter open %q, want node-22, the last but one", got)
			}
			for _, fault := range append(faults, p.seen(t)...) {
				t.Error(fault)
			}
		})
	}
}

func TestTheDashboardFollowsTheCluster(t *testing.T) {
	b := newBoard(t)
	s := sampleCluster(24, start)
	b.show(t, s, start)
	p := b.visit(t, view{"light", 1400})
	pods := func(node string) string {
		return fmt.Sprintf("(document.querySelector(\".node[aria-label^='%s,']\")?.getAttribute('aria-label') ?? '')", node)
	}
	before := ask[string](t, p, pods("node-4"))
	moved := 0
	for _, pod := range s.Pods {
		if pod.Spec.NodeName == "node-0" {
			pod.Spec.NodeName = "node-4"
			moved++
		}
	}
	s.Nodes = s.Nodes[:23]
	b.show(t, s, start.Add(time.Minute))
	if moved == 0 {
		t.Fatal("node-0 has no pod: this test moves nothing")
	}
	p.until(t, pods("node-0")+".includes(' 0 pods,')")
	if after := ask[string](t, p, pods("node-4")); after == before {
		t.Errorf("node-4 still says %q after %d pods have come", after, moved)
	}
	if gone := ask[string](t, p, pods("node-23")); gone != "" {
		t.Errorf("the node that has gone says %q", gone)
	}
	for _, fault := range p.seen(t) {
		t.Error(fault)
	}
}

func TestTheDashboardFiltersNodes(t *testing.T) {
	b := newBoard(t)
	b.show(t, sampleCluster(24, start), start)
	p := b.visit(t, view{"light", 1400})
	p.do(t, chromedp.Focus(chromedp.CSS("#filter")), chromedp.KeyEvent("node-7"))
	p.until(t, "document.querySelectorAll('.node').length === 1")
	if got := ask[string](t, p, "document.querySelector('#matches').textContent"); got != "1 node of 24" {
		t.Errorf("it says %q, want 1 node of 24", got)
	}
}

func TestFiveThousandNodesAreFewElementsAndQuicklyShown(t *testing.T) {
	b := newBoard(t)
	s := sampleCluster(5000, start)
	b.show(t, s, start)
	p := b.visit(t, view{"light", 1400})
	p.until(t, "document.querySelector('#node-count').textContent === '5,000'")
	if cells := ask[int](t, p, "document.querySelectorAll('.node').length"); cells > 120 {
		t.Errorf("%d nodes are elements, want those that can be seen", cells)
	}
	// The longest of 30 frames while the list is scrolled from end to end.
	worst := result(t, p, chromedp.Evaluate[float64](`(async () => {
		const box = document.querySelector('#nodes');
		let worst = 0, last = await new Promise(requestAnimationFrame);
		for (let i = 1; i <= 30; i++) {
			box.scrollTop = box.scrollHeight * i / 30;
			const now = await new Promise(requestAnimationFrame);
			worst = Math.max(worst, now - last);
			last = now;
		}
		return worst;
	})()`, chromedp.EvalAwaitPromise))
	t.Logf("the longest frame took %.0f ms", worst)
	if worst > 500 {
		t.Errorf("a frame took %.0f ms, want less than half a second on any machine", worst)
	}
	p.until(t, `[...document.querySelectorAll('.node')].some((n) => n.getAttribute('aria-label').startsWith('node-4999,'))`)
	for _, fault := range p.seen(t) {
		t.Error(fault)
	}
}

func TestNamesOnTheDashboardAreText(t *testing.T) {
	const attack = `<img src=x onerror=alert(1)>`
	b := newBoard(t)
	s := sampleCluster(3, start)
	s.Nodes[0].Name = attack
	s.Fleets[0].Status.LastDecision.Summary = attack
	b.show(t, s, start)
	b.say(t, connection.Status{State: connection.Live, Label: "live", Notes: []string{attack}})
	p := b.visit(t, view{"light", 1400})
	if n := strings.Count(ask[string](t, p, "document.body.innerText"), attack); n < 3 {
		t.Errorf("the page has the name %d times as text, want 3", n)
	}
	for _, fault := range p.seen(t) {
		t.Error(fault)
	}
}

func TestADashboardWhoseServerHasEndedSaysSo(t *testing.T) {
	b := newBoard(t)
	b.show(t, sampleCluster(3, start), start)
	p := b.visit(t, view{"light", 1400})
	b.http.CloseClientConnections()
	b.http.Listener.Close()
	p.until(t, "document.querySelector('#state').textContent.startsWith('stale since')")
	if line := ask[string](t, p, "document.querySelector('#trouble').textContent"); !strings.Contains(line, "no answer from the dashboard") {
		t.Errorf("it says %q", line)
	}
}
