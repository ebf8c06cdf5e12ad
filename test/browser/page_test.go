//go:build browser

package browser

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/lab/outcome"
)

func threePolicies() outcome.Report {
	return sample("htas-cycle", 1, 400, "default", "packing", "packing + descheduler")
}

func oneFailed() outcome.Report {
	r := threePolicies()
	r.Policies[1] = outcome.Policy{Name: r.Policies[1].Name, Error: strings.Repeat("the plan cannot be carried out: ", 20) + strings.Repeat("x", 100)}
	return r
}

func tenPolicies() outcome.Report { return sample("ten policies", 1, 600, tenNames()...) }

func fiveSeeds(t *testing.T) outcome.Summary {
	t.Helper()
	var reports []outcome.Report
	for seed := range uint64(5) {
		reports = append(reports, sample("htas-cycle", seed+1, 400, "default", "packing", "packing + descheduler"))
	}
	s, err := outcome.Summarize(reports)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func written(t *testing.T, write func(io.Writer) error) string {
	t.Helper()
	var out bytes.Buffer
	if err := write(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// inspect returns all faults of a loaded page.
func inspect(t *testing.T, p *tab, charts int) []string {
	t.Helper()
	var faults []string
	for _, check := range []string{fmt.Sprintf("charts(%d)", charts), "overflow()", "overlaps()", "text()", "strokes()"} {
		faults = append(faults, ask[[]string](t, p, "checks."+check)...)
	}
	return append(faults, p.seen(t)...)
}

func TestPagesAreInOrderInLightAndDarkNarrowAndWide(t *testing.T) {
	pages := []struct {
		name   string
		write  func(io.Writer) error
		charts int
	}{
		{"three", threePolicies().WriteHTML, 8},
		{"ten", tenPolicies().WriteHTML, 8},
		{"one", sample("one policy", 1, 50, "default").WriteHTML, 8},
		{"seeds", fiveSeeds(t).WriteHTML, 2},
		{"failed", oneFailed().WriteHTML, 8},
	}
	for _, page := range pages {
		html := written(t, page.write)
		for _, v := range views {
			t.Run(page.name+"-"+v.String(), func(t *testing.T) {
				p := open(t, html, v)
				for _, fault := range inspect(t, p, page.charts) {
					t.Error(fault)
				}
				p.picture(t, page.name+"-"+v.String())
			})
		}
	}
}

func TestThePageFollowsTheSchemeOfTheReader(t *testing.T) {
	html := written(t, threePolicies().WriteHTML)
	colours := func(scheme string) string {
		return ask[string](t, open(t, html, view{scheme, 800}),
			"[document.documentElement, document.querySelector('figure')].map((e) => getComputedStyle(e).backgroundColor).join(' ')")
	}
	if got, want := colours("light"), "rgb(245, 246, 248) rgb(255, 255, 255)"; got != want {
		t.Errorf("light backgrounds are %s, want %s", got, want)
	}
	if got, want := colours("dark"), "rgb(14, 18, 22) rgb(22, 27, 33)"; got != want {
		t.Errorf("dark backgrounds are %s, want %s", got, want)
	}
}

func TestALegendEntryHidesItsPolicyInAllCharts(t *testing.T) {
	p := open(t, written(t, threePolicies().WriteHTML), view{"light", 1400})
	everywhere := func(policies ...int) {
		t.Helper()
		charts := ask[[][]int](t, p, "checks.shown()")
		if len(charts) != 8 {
			t.Fatalf("%d charts, want 8", len(charts))
		}
		for i, got := range charts {
			if diff := cmp.Diff(policies, got); diff != "" {
				t.Errorf("policies in chart %d (-want +got):\n%s", i, diff)
			}
		}
		for i := range 3 {
			pressed := ask[string](t, p, fmt.Sprintf("document.querySelectorAll('.legend button')[%d].getAttribute('aria-pressed')", i))
			if want := strconv.FormatBool(slices.Contains(policies, i)); pressed != want {
				t.Errorf("entry %d has aria-pressed=%s, want %s", i, pressed, want)
			}
		}
	}
	button := func(i int) chromedp.CSS { return chromedp.CSS(fmt.Sprintf(".legend button:nth-child(%d)", i+1)) }

	everywhere(0, 1, 2)
	p.do(t, chromedp.Click(button(1)))
	everywhere(0, 2)
	p.do(t, chromedp.Click(button(0)))
	everywhere(2)
	p.picture(t, "three-hidden")
	p.do(t, chromedp.Focus(button(1)), chromedp.KeyEvent(" "))
	everywhere(1, 2)
	p.do(t, chromedp.Focus(button(0)), chromedp.KeyEvent(kb.Enter))
	everywhere(0, 1, 2)
	for _, fault := range p.seen(t) {
		t.Error(fault)
	}
}

// tip is the text beside the pointer.
type tip struct {
	Inside bool        `json:"inside"`
	Time   string      `json:"time"`
	Rows   [][2]string `json:"rows"`
}

// hover moves the mouse to a share of the width of a line chart.
func (p *tab) hover(t *testing.T, chart int, share float64) *tip {
	t.Helper()
	box := result(t, p, chromedp.Evaluate[struct{ Left, Top, Width, Height float64 }](fmt.Sprintf("checks.box(%d)", chart), chromedp.EvalAwaitPromise))
	p.do(t, chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, box.Left+share*box.Width, box.Top+box.Height/2))
	return ask[*tip](t, p, "checks.tip()")
}

func TestPointingAtAChartTellsTheValuesOfAllPolicies(t *testing.T) {
	r := threePolicies()
	html := written(t, r.WriteHTML)
	for _, v := range views {
		t.Run(v.String(), func(t *testing.T) {
			p := open(t, html, v)
			if got := ask[*tip](t, p, "checks.tip()"); got != nil {
				t.Errorf("before the pointer comes, there is %v", got)
			}
			for chart := range 6 {
				for _, share := range []float64{0.02, 0.5, 0.9} {
					got := p.hover(t, chart, share)
					if got == nil || !got.Inside {
						t.Fatalf("chart %d at %v: box is %v, want it inside the window", chart, share, got)
					}
					if diff := cmp.Diff(valuesAt(r, chart, share), got.Rows); diff != "" {
						t.Errorf("chart %d at %v (-want +got):\n%s", chart, share, diff)
					}
				}
			}
			p.hover(t, 0, 0.6)
			p.picture(t, "three-hover-"+v.String())
			p.do(t, chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, 1, 1))
			if got := ask[*tip](t, p, "checks.tip()"); got != nil {
				t.Errorf("after the pointer has left, there is %v", got)
			}
			for _, fault := range p.seen(t) {
				t.Error(fault)
			}
		})
	}
}

// valuesAt returns the values that the chart shows at a share of its width, as a reader of the report would
// compute them: the time is that of the nearest sample of the policy with the closest samples.
func valuesAt(r outcome.Report, chart int, share float64) [][2]string {
	var span float64
	step := math.Inf(1)
	for _, p := range r.Policies {
		span = max(span, float64(len(p.Series.CPU)-1)*p.Series.StepSeconds)
		step = min(step, p.Series.StepSeconds)
	}
	at := math.Round(share*span/step) * step
	var rows [][2]string
	for _, p := range r.Policies {
		s := p.Series
		i := int(math.Round(at / s.StepSeconds))
		text := []func() string{
			func() string { return fmt.Sprintf("$%.2f", s.CostDollars[i]) },
			func() string { return strconv.Itoa(s.Machines[i]) },
			func() string { return fmt.Sprintf("%.1f %%", 100*s.CPU[i]) },
			func() string { return fmt.Sprintf("%.1f %%", 100*s.Memory[i]) },
			func() string { return strconv.Itoa(s.Pending[i]) },
			func() string { return strconv.Itoa(s.Moves[i]) },
		}[chart]()
		rows = append(rows, [2]string{p.Name, text})
	}
	return rows
}

func TestARunThatHasEndedSaysSo(t *testing.T) {
	r := threePolicies()
	s := &r.Policies[2].Series
	half := len(s.CPU) / 2
	s.CostDollars, s.CPU, s.Memory = s.CostDollars[:half], s.CPU[:half], s.Memory[:half]
	s.Machines, s.Pending, s.Moves = s.Machines[:half], s.Pending[:half], s.Moves[:half]
	p := open(t, written(t, r.WriteHTML), view{"light", 1400})
	for chart, want := range []string{fmt.Sprintf("$%.2f (ended)", s.CostDollars[half-1]), "ended", "ended", "ended", "ended", fmt.Sprintf("%d (ended)", s.Moves[half-1])} {
		if got := p.hover(t, chart, 0.9); got == nil || got.Rows[2][1] != want || strings.Contains(got.Rows[0][1], "ended") {
			t.Errorf("chart %d says %v, want %s of the third alone", chart, got, want)
		}
	}
	p.do(t, chromedp.Click(chromedp.CSS(".legend button:nth-child(2)")))
	if got := p.hover(t, 0, 0.3); got == nil || len(got.Rows) != 2 || got.Rows[1][0] != r.Policies[2].Name {
		t.Errorf("with the second hidden, the box says %v", got)
	}
}

func TestNothingThatSomebodyTypedRuns(t *testing.T) {
	const attack = `</script><script>alert(1)</script><img src="https://example.invalid/x" onerror="alert(2)"><b onmouseover="alert(3)">`
	r := sample(attack, 1, 20, "default", attack)
	r.Policies[1].PendingReasons = map[string]int64{attack: 1}
	r.Policies[1].Events[attack] = 1
	p := open(t, written(t, r.WriteHTML), view{"light", 1400})
	if got := p.hover(t, 0, 0.5); got == nil || got.Rows[1][0] != attack {
		t.Errorf("box says %v, want the name as it was typed", got)
	}
	for _, fault := range inspect(t, p, 8) {
		t.Error(fault)
	}
}

func TestThePageIsCompleteWithoutItsScript(t *testing.T) {
	p := open(t, written(t, threePolicies().WriteHTML), view{"light", 1400},
		command(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
	if ask[bool](t, p, "!document.querySelector('.hint').hidden") {
		t.Error("the script ran: this test checks nothing")
	}
	for _, fault := range inspect(t, p, 8) {
		t.Error(fault)
	}
}

func TestOnPaperEachChartCarriesItsOwnLegend(t *testing.T) {
	p := open(t, written(t, threePolicies().WriteHTML), view{"dark", 720})
	p.do(t, prefer("dark", "print"))
	if legend := ask[bool](t, p, "document.querySelector('.legend').checkVisibility()"); legend {
		t.Error("buttons are printed")
	}
	if keys := ask[int](t, p, "[...document.querySelectorAll('.key')].filter((e) => e.checkVisibility()).length"); keys != 6 {
		t.Errorf("%d charts have a legend of their own, want 6", keys)
	}
	if colour := ask[string](t, p, "getComputedStyle(document.documentElement).backgroundColor"); colour != "rgb(255, 255, 255)" {
		t.Errorf("paper is %s, want it white", colour)
	}
	faults := append(ask[[]string](t, p, "checks.overflow()"), ask[[]string](t, p, "checks.overlaps()")...)
	for _, fault := range append(faults, p.seen(t)...) {
		t.Error(fault)
	}
	p.picture(t, "three-print")
}
