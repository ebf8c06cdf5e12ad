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
	b.say(t, connection.Status{State: connection.Live, Label: "live", NoDecisions: "There are none in the cluster."})
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
	if got := ask[string](t, p, "document.querySelector('#matches').textContent"); got != "1 of 24 nodes, $0.192/h, $140/month" {
		t.Errorf("it says %q, want 1 of 24 nodes, and its price", got)
	}
}

func TestTheDashboardFiltersNodesByZoneCapacityTypeAndPool(t *testing.T) {
	b := newBoard(t)
	s := sampleCluster(24, start)
	b.show(t, s, start)
	p := b.visit(t, view{"light", 1400})
	choose := func(id, value string) {
		p.do(t, chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`{ const s = document.getElementById(%q); s.value = %q; s.dispatchEvent(new Event("input")) }`, id, value)))
	}
	matches := func(want string) {
		t.Helper()
		p.until(t, fmt.Sprintf("document.querySelector('#matches').textContent.startsWith(%q)", want))
	}
	if got := ask[string](t, p, "document.querySelector('#zone').innerText.replaceAll('\\n', ' ')"); got != "all us-east-1a (8) us-east-1b (8) us-east-1c (8)" {
		t.Errorf("zones are %q", got)
	}
	choose("zone", "us-east-1b")
	matches("8 of 24 nodes, $")
	choose("pool", "managed")
	matches("2 of 24 nodes, $") // of node-3, 7, 11, 15, 19 and 23, node-7 and node-19
	choose("zone", "")
	matches("6 of 24 nodes, $")
	choose("capacity", "spot")
	matches("1 of 24 nodes, 1 without a price")
	// The choice stays when the last node that it is for has gone.
	s.Nodes = slices.Delete(s.Nodes, 3, 4)
	b.show(t, s, start)
	matches("0 of 23 nodes")
	choose("capacity", "")
	matches("5 of 23 nodes, $")
}

func TestTheDashboardShowsNodesAsATable(t *testing.T) {
	b := newBoard(t)
	b.show(t, sampleCluster(24, start), start)
	for _, v := range []view{{"light", 1400}, {"dark", 2560}} {
		t.Run(v.String(), func(t *testing.T) {
			p := b.visit(t, v)
			p.table(t)
			row := ask[string](t, p, "[...document.querySelectorAll('.node[aria-label^=\"node-7,\"] span > span')].sort((a, b) => a.getBoundingClientRect().left - b.getBoundingClientRect().left).map((e) => e.textContent).join('|')")
			if row != "node-7|m5.xlarge|us-east-1b|on-demand|managed||6|94 %|$0.192|$140" {
				t.Errorf("the row of node-7 is %s", row)
			}
			// Each column stands under its title.
			for _, fault := range ask[[]string](t, p, `[...document.querySelectorAll('#columns span')].filter((title) => title.textContent).flatMap((title) => {
				const cell = document.querySelector('.node .' + title.className);
				const [a, b] = [title.getBoundingClientRect(), cell.getBoundingClientRect()];
				return !b.width || a.left < b.right && b.left < a.right ? [] : [title.textContent + " does not stand above its column"];
			})`) {
				t.Error(fault)
			}
			p.picture(t, "dashboard-table-"+v.String())
			for _, fault := range append(p.axe(t), p.seen(t)...) {
				t.Error(fault)
			}
		})
	}
}

// table shows the nodes as a table, where the window is wide enough.
func (p *tab) table(t *testing.T) {
	t.Helper()
	p.do(t, chromedp.Evaluate[chromedp.Void](`{ const s = document.querySelector("#view"); s.value = "table"; s.dispatchEvent(new Event("input")) }`))
	p.frames(t)
}

// TestAPendingPodIsExplainedInShortAndInFull also checks that what pods request does not look like a link.
func TestAPendingPodIsExplainedInShortAndInFull(t *testing.T) {
	b := newBoard(t)
	s := sampleCluster(24, start)
	for _, pod := range s.Pods {
		if strings.HasSuffix(pod.Name, "waits-13") || strings.HasSuffix(pod.Name, "waits-12") {
			pod.Spec.Containers[0].Resources.Requests = nil
		}
	}
	b.show(t, s, start)
	p := b.visit(t, view{"light", 1400})
	text := ask[string](t, p, "document.querySelector('#pending').innerText")
	for _, want := range []string{"Of 24 nodes, 22 have too little free CPU and 2 are cordoned.", "All 24 nodes lack the labels that the pod selects nodes by.", "Request 48 CPUs and 141 GiB of memory", "Request no CPU and no memory"} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "node(s)") || strings.Contains(text, "0 CPUs") {
		t.Errorf("it says:\n%s", text)
	}
	p.do(t, chromedp.Click(chromedp.CSS("#pending summary")))
	p.until(t, "document.querySelector('#pending').innerText.includes('The scheduler says: 0/24 nodes are available: 2 node(s) were unschedulable, 22 Insufficient cpu.')")
	if clip := ask[bool](t, p, "document.querySelector('#pending').scrollHeight > document.querySelector('#pending').clientHeight + 1"); clip {
		t.Error("the list of pending pods is cut off")
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
