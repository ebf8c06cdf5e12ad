//go:build browser

package browser

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"supercargo.dev/supercargo/cli/audit"
	"supercargo.dev/supercargo/cli/status"
	"supercargo.dev/supercargo/internal/text/dollars"
)

// widths are those of windows, in pixels: from a telephone to two pages side by side on a large screen.
var widths = []int64{360, 400, 600, 768, 1024, 1280, 1600, 1920, 2560}

// TestNothingOnTheDashboardOverlapsAtAnyWidthAndAmount shows clusters that cost from a cent to $99,999 an hour in
// windows of all widths.
func TestNothingOnTheDashboardOverlapsAtAnyWidthAndAmount(t *testing.T) {
	for _, amount := range []struct {
		dollars float64
		figure  string
	}{{0.01, "$0.01"}, {9.99, "$9.99"}, {100, "$100.00"}, {1234.56, "$1,234.56"}, {99_999, "$99,999.00"}} {
		t.Run(amount.figure, func(t *testing.T) {
			b := newBoard(t)
			s := sampleCluster(24, start)
			cost(s, amount.dollars)
			b.show(t, s, start)
			p := b.visit(t, view{"light", widths[0]})
			p.until(t, fmt.Sprintf("document.querySelector('#dollars').textContent === %q", amount.figure))
			for _, width := range widths {
				p.resize(t, width)
				for _, shown := range []string{"bars", "table"} {
					if shown == "table" {
						p.table(t)
					}
					for _, fault := range append(ask[[]string](t, p, "checks.collisions()"), ask[[]string](t, p, "checks.overflow()")...) {
						t.Errorf("%s, %d px: %s", shown, width, fault)
					}
				}
				if t.Failed() {
					p.picture(t, fmt.Sprintf("dashboard-%v-%d", amount.dollars, width))
				}
			}
			for _, fault := range p.seen(t) {
				t.Error(fault)
			}
		})
	}
}

// resize sets the width of the window and waits until the page has been laid out.
func (p *tab) resize(t *testing.T, width int64) {
	t.Helper()
	p.do(t, command(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 900, DeviceScaleFactor: 1}))
	p.do(t, chromedp.Evaluate[chromedp.Void](`{ const s = document.querySelector("#view"); s.value = "bars"; s.dispatchEvent(new Event("input")) }`))
	p.frames(t)
	if got := ask[int64](t, p, "innerWidth"); got != width {
		t.Fatalf("the window is %d pixels wide, want %d", got, width)
	}
}

// frames waits until the page has been laid out.
func (p *tab) frames(t *testing.T) {
	t.Helper()
	result(t, p, chromedp.Evaluate[int](`(async () => { for (let i = 0; i < 4; i++) await new Promise(requestAnimationFrame); return 0; })()`, chromedp.EvalAwaitPromise))
}

// cost sets the prices of a cluster so that it costs an amount per hour, and those of its audit in proportion, with as
// many machines as so much money buys.
func cost(s *status.Snapshot, perHour float64) {
	var sum int64
	for _, price := range s.Prices {
		sum += price.MicroDollarsPerHour
	}
	factor := perHour * 1e6 / float64(sum)
	rest := int64(perHour * 1e6)
	last := ""
	for _, node := range s.Nodes {
		price := s.Prices[node.Name]
		if price.Unpriced != "" {
			continue
		}
		price.MicroDollarsPerHour = int64(float64(price.MicroDollarsPerHour) * factor)
		rest -= price.MicroDollarsPerHour
		s.Prices[node.Name], last = price, node.Name
	}
	price := s.Prices[last]
	price.MicroDollarsPerHour += rest
	s.Prices[last] = price
	r := s.Audit.Result
	many := max(1, int(min(factor, 400)))
	for _, b := range []*audit.Bill{&r.Now, &r.Moved, r.Homogeneous, &r.Cheapest} {
		b.PerHour = dollars.Amount(float64(b.PerHour) * factor)
		b.PerMonth = audit.HoursPerMonth * b.PerHour
		b.Nodes *= many
		for i := range b.Machines {
			b.Machines[i].Count *= many
		}
	}
	r.Bound = dollars.Amount(float64(r.Bound) * factor)
	r.MilliCPU *= int64(many)
}
