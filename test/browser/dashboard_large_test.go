//go:build browser

package browser

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestALargeClusterIsFewElementsAndQuicklyShownAndFiltered logs what the documentation states of 500 and 5,000 nodes. Its
// limits are those of a busy machine.
func TestALargeClusterIsFewElementsAndQuicklyShownAndFiltered(t *testing.T) {
	for _, nodes := range []int{500, 5000} {
		t.Run(fmt.Sprintf("%d nodes", nodes), func(t *testing.T) {
			before := heap()
			b := newBoard(t)
			s := sampleCluster(nodes, start)
			b.show(t, s, start)
			used := heap() - before
			p := visit(t, b.http.URL+"/?token=t0ken", b.http.URL+"/", view{"light", 1400})
			first := p.measure(t, fmt.Sprintf(`(async () => {
				while (!document.querySelector('.node') || document.querySelector('#node-count').textContent.replace(',', '') !== '%d') await new Promise(requestAnimationFrame);
				return performance.now();
			})()`, nodes))
			filter := p.measure(t, typing("node-499"))
			pool := p.measure(t, choosing("pool", "managed"))
			cleared := p.measure(t, choosing("pool", "")+".then(() => "+typing("")+")")
			scroll := p.measure(t, scrolling)
			t.Logf("%d pods; server: %d MB; first shown after %.0f ms; filtered by a word in %.0f ms, by a pool in %.0f ms; all again in %.0f ms; longest frame while scrolling: %.0f ms",
				len(s.Pods), used>>20, first, filter, pool, cleared, scroll)
			if first > 20_000 {
				t.Errorf("the page shows nodes after %.0f ms", first)
			}
			for what, took := range map[string]float64{"to filter by a word": filter, "to filter by a pool": pool, "to show all again": cleared, "a frame while it is scrolled": scroll} {
				if took > 1000 {
					t.Errorf("it takes %.0f ms: %s", took, what)
				}
			}
			if used > 512<<20 {
				t.Errorf("the server uses %d MB", used>>20)
			}
			if cells := ask[int](t, p, "document.querySelectorAll('.node').length"); cells > 120 {
				t.Errorf("%d nodes are elements, want those that can be seen", cells)
			}
			p.until(t, fmt.Sprintf(`[...document.querySelectorAll('.node')].some((n) => n.getAttribute('aria-label').startsWith('node-%d,'))`, nodes-1))
			faults := append(ask[[]string](t, p, "checks.collisions()"), ask[[]string](t, p, "checks.overflow()")...)
			faults = append(faults, p.axe(t)...)
			p.table(t)
			faults = append(faults, ask[[]string](t, p, "checks.collisions()")...)
			for _, fault := range append(append(faults, p.axe(t)...), p.seen(t)...) {
				t.Error(fault)
			}
			runtime.KeepAlive(s)
		})
	}
}

// heap returns the memory of this process, which is the server, that is in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// measure returns how long something took, in milliseconds.
func (p *tab) measure(t *testing.T, expression string) float64 {
	t.Helper()
	return result(t, p, chromedp.Evaluate[float64](expression, chromedp.EvalAwaitPromise))
}

// typing sets the filter, and choosing a choice; both return the time until the frame that shows the nodes.
func typing(text string) string { return choosing("filter", text) }

func choosing(id, value string) string {
	return fmt.Sprintf(`(async () => {
		const start = performance.now(), e = document.getElementById(%q);
		e.value = %q;
		e.dispatchEvent(new Event("input"));
		await new Promise(requestAnimationFrame);
		return performance.now() - start;
	})()`, id, value)
}

// scrolling returns the longest of 30 frames while the list is scrolled from end to end.
const scrolling = `(async () => {
	const box = document.querySelector('#nodes');
	let worst = 0, last = await new Promise(requestAnimationFrame);
	for (let i = 1; i <= 30; i++) {
		box.scrollTop = box.scrollHeight * i / 30;
		const now = await new Promise(requestAnimationFrame);
		worst = Math.max(worst, now - last);
		last = now;
	}
	return worst;
})()`
