package outcome

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"supercargo.dev/supercargo/test/kit/testfile"
)

// parsed returns the page as a browser parses it.
func parsed(t testing.TB, page string) *html.Node {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// all returns the elements below n with the tag and the class; an empty class matches any.
func all(n *html.Node, tag, class string) []*html.Node {
	var found []*html.Node
	for d := range n.Descendants() {
		if d.Type == html.ElementNode && d.Data == tag && (class == "" || slices.Contains(strings.Fields(attribute(d, "class")), class)) {
			found = append(found, d)
		}
	}
	return found
}

// one returns the only such element.
func one(t testing.TB, n *html.Node, tag, class string) *html.Node {
	t.Helper()
	found := all(n, tag, class)
	if len(found) != 1 {
		t.Fatalf("page has %d <%s class=%q>, want one", len(found), tag, class)
	}
	return found[0]
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// textOf returns the text below n with single spaces.
func textOf(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data + " ")
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

func textsOf(list []*html.Node) []string {
	texts := make([]string, len(list))
	for i, n := range list {
		texts[i] = textOf(n)
	}
	return texts
}

// noisy returns a report of maximum size: no course stays level, so paths and samples are as long
// as possible.
func noisy(policies, samples int) Report {
	random := rand.New(rand.NewPCG(1, 2))
	r := Report{Scenario: "noise", Seed: 1}
	for i := range policies {
		p := Policy{Name: fmt.Sprintf("policy %d", i), LowerBoundDollars: 1000, Series: Series{StepSeconds: 60}}
		for j := range samples {
			s := &p.Series
			s.CostDollars = append(s.CostDollars, float64(j)*2+random.Float64())
			s.CPU = append(s.CPU, random.Float64())
			s.Memory = append(s.Memory, random.Float64())
			s.Machines = append(s.Machines, random.IntN(1000))
			s.Pending = append(s.Pending, random.IntN(1000))
			s.Moves = append(s.Moves, 10*j+random.IntN(10))
			p.CostDollars = float64(j)*2 + 1
		}
		r.Policies = append(r.Policies, p)
	}
	return r
}

func TestThePageShowsTheFiguresOfTheTable(t *testing.T) {
	doc := parsed(t, written(t, twoPolicies().WriteHTML))
	rows := all(all(doc, "table", "")[0], "tr", "")
	want := []string{
		"policy cost $ above bound % saved % energy kWh wait mean s wait p95 s CPU % memory % nodes peak nodes hours moves mig/evict lost work s completed /submitted undone pend/fail",
		"default 100.00 66.7 - 10.0 12.0 40.0 50.0 25.0 9 16.0 0/0 0.0 48/50 0/0",
		"packing 80.00 33.3 20.0 5.0 24.0 90.0 62.5 37.5 7 12.5 4/2 90.0 46/50 1/1",
	}
	if diff := cmp.Diff(want, textsOf(rows)); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	text := textOf(one(t, doc, "header", "")) + " " + textOf(one(t, doc, "main", ""))
	for _, part := range []string{
		"two days", "seed 7", "2 policies", "50 pods", "2 h simulated",
		"Lowest cost among those that left the fewest pods undone: default costs $100.00, 66.7 % above the lower bound.",
		"Lower bound: $60.00. No policy that does all the work can cost less.",
		"Pending with packing 1 × too large",
		"makespan min", "simulated in", "Events by kind",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in: %s", part, text)
		}
	}
}

func TestTheLeadNamesTheCheapestOfThoseThatDidMost(t *testing.T) {
	tests := []struct {
		name string
		edit func(p []Policy)
		want string
	}{
		{"the cheaper one left work undone", func([]Policy) {},
			"Lowest cost among those that left the fewest pods undone: default costs $100.00, 66.7 % above the lower bound."},
		{"both did all", func(p []Policy) { p[1].Pods.Pending, p[1].Pods.Failed = 0, 0 },
			"Lowest cost: packing costs $80.00, 20.0 % less than default and 33.3 % above the lower bound."},
		{"both left as much undone", func(p []Policy) { p[0].Pods.Pending = 2 },
			"Lowest cost: packing costs $80.00, 20.0 % less than default and 33.3 % above the lower bound."},
		{"the more expensive one did all", func(p []Policy) { p[0].Pods.Pending, p[1].CostDollars = 5, 150 },
			"Lowest cost among those that left the fewest pods undone: packing costs $150.00, 150.0 % above the lower bound."},
		{"a tie goes to the first", func(p []Policy) { p[0].Pods.Pending, p[1].CostDollars = 2, 100 },
			"Lowest cost: default costs $100.00, 66.7 % above the lower bound."},
		{"no bound is known", func(p []Policy) { p[0].Pods.Pending, p[0].LowerBoundDollars, p[1].LowerBoundDollars = 2, 0, 0 },
			"Lowest cost: packing costs $80.00, 20.0 % less than default."},
		{"less work was done than the bound is for", func(p []Policy) { p[0].Pods.Pending, p[1].CostDollars = 2, 40 },
			"Lowest cost: packing costs $40.00, 60.0 % less than default."},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			r := twoPolicies()
			tc.edit(r.Policies)
			if got := r.lead(); got != tc.want {
				t.Errorf("lead is %q, want %q", got, tc.want)
			}
		})
	}
	if got, want := named("a").lead(), "a costs $0.00."; got != want {
		t.Errorf("lead is %q, want %q", got, want)
	}
}

func TestEachChartHasALineForEachPolicy(t *testing.T) {
	doc := parsed(t, written(t, noisy(10, 20).WriteHTML))
	charts := all(doc, "svg", "lines")
	var titles []string
	for _, figure := range all(doc, "figure", "") {
		titles = append(titles, textOf(one(t, figure, "h3", "")))
	}
	want := []string{"Cost", "Time to schedule", "Cost so far", "Active machines", "CPU utilisation", "Memory utilisation", "Pending pods", "Moves so far"}
	if diff := cmp.Diff(want, titles); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
	for i, chart := range charts {
		paths := all(chart, "path", "")
		if len(paths) != 10 {
			t.Errorf("chart %d has %d lines, want 10", i, len(paths))
		}
		for j, path := range paths {
			if attribute(path, "data-p") != strconv.Itoa(j) || attribute(path, "class") != fmt.Sprintf("p%d", j) {
				t.Errorf("chart %d: line %d is of policy %s and looks like %s", i, j, attribute(path, "data-p"), attribute(path, "class"))
			}
		}
	}
	for i, bars := range all(doc, "svg", "bars") {
		if n := len(all(bars, "rect", "")); n != 10 {
			t.Errorf("bar chart %d has %d bars, want 10", i, n)
		}
	}
	if n := len(all(one(t, doc, "div", "legend"), "button", "")); n != 10 {
		t.Errorf("legend has %d entries, want 10", n)
	}
}

func TestEachPolicyHasAColourAndADashOfItsOwn(t *testing.T) {
	colours, dashes := map[string]bool{}, map[string]bool{}
	for _, m := range regexp.MustCompile(`\.p\d \{ --c: var\((--c\d)\); --d: ([^}]*) \}`).FindAllStringSubmatch(pageCSS, -1) {
		colours[m[1]], dashes[m[2]] = true, true
	}
	if len(colours) != styles || len(dashes) != styles {
		t.Errorf("%d colours and %d dashes, want %d", len(colours), len(dashes), styles)
	}
	for c := range colours {
		values := map[string]bool{}
		for _, m := range regexp.MustCompile(c+`: (#[0-9a-f]{6})`).FindAllStringSubmatch(pageCSS, -1) {
			values[m[1]] = true
		}
		if len(values) != 2 {
			t.Errorf("%s has the values %v, want one for light and one for dark", c, slices.Sorted(maps.Keys(values)))
		}
	}
	if styleOf(0) != "p0" || styleOf(9) != "p9" || styleOf(10) != "p0" {
		t.Errorf("looks are %s, %s, %s, want to start again after ten", styleOf(0), styleOf(9), styleOf(10))
	}
}

// TestLinesGoThroughTheSamples parses the paths, as a browser would, and checks the height of the
// line at each sample.
func TestLinesGoThroughTheSamples(t *testing.T) {
	r := noisy(3, 200)
	flat := &r.Policies[1].Series
	for i := range flat.CPU {
		flat.CPU[i], flat.Machines[i], flat.Pending[i] = float64(i/50)/4, 7, 20*(i%2)*(i/100)
	}
	r.Policies[2].Series.StepSeconds = 45 // ends earlier than the others
	doc := parsed(t, written(t, r.WriteHTML))
	for i, chart := range all(doc, "svg", "lines") {
		highest := highestTick(t, chart)
		for j, path := range all(chart, "path", "") {
			points := readPath(t, attribute(path, "d"))
			samples := courseOf(r.Policies[j].Series, i)
			step := r.Policies[j].Series.StepSeconds / (199 * 60) * 2000
			for k, v := range samples {
				want := 1000 * (1 - v/highest)
				if got := heightAt(points, float64(k)*step, want); math.Abs(got-want) > 2 {
					t.Fatalf("chart %d, policy %d: line is at %v at sample %d, want %v", i, j, got, k, want)
				}
			}
			if end := points[len(points)-1]; math.Abs(end.x-199*step) > 1 {
				t.Errorf("chart %d, policy %d: line ends at %v, want %v", i, j, end.x, 199*step)
			}
		}
	}
}

// courseOf returns the samples of the i-th chart in the units of its axis.
func courseOf(s Series, i int) []float64 {
	percent := func(shares []float64) []float64 {
		list := make([]float64, len(shares))
		for i, v := range shares {
			list[i] = 100 * v
		}
		return list
	}
	whole := func(counts []int) []float64 {
		list := make([]float64, len(counts))
		for i, n := range counts {
			list[i] = float64(n)
		}
		return list
	}
	return [][]float64{s.CostDollars, whole(s.Machines), percent(s.CPU), percent(s.Memory), whole(s.Pending), whole(s.Moves)}[i]
}

// highestTick returns the number at the top of the chart.
func highestTick(t *testing.T, chart *html.Node) float64 {
	t.Helper()
	for _, text := range all(one(t, chart, "g", "rows"), "text", "") {
		if attribute(text, "y") == "0%" {
			v, err := strconv.ParseFloat(strings.NewReplacer("$", "", " %", "", ",", "").Replace(textOf(text)), 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	t.Fatal("chart has no tick at its top")
	return 0
}

type point struct{ x, y float64 }

// readPath parses M x y followed by l and differences.
func readPath(t *testing.T, d string) []point {
	t.Helper()
	if !regexp.MustCompile(`^M\d+ \d+l-?\d+[ -]\d+([ -]\d+[ -]\d+)*$`).MatchString(d) {
		t.Fatalf("path is %.60q…", d)
	}
	var numbers []float64
	for _, text := range regexp.MustCompile(`-?\d+`).FindAllString(d, -1) {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, n)
	}
	points := []point{{numbers[0], numbers[1]}}
	for i := 2; i < len(numbers); i += 2 {
		last := points[len(points)-1]
		points = append(points, point{last.x + numbers[i], last.y + numbers[i+1]})
	}
	return points
}

// heightAt returns the height of the line near x that is closest to want: if samples are about a
// unit apart, rounding moves a corner by as much.
func heightAt(points []point, x, want float64) float64 {
	best := math.Inf(1)
	for i := 1; i < len(points); i++ {
		a, b := points[i-1], points[i]
		for _, near := range []float64{x - 0.6, x, x + 0.6} {
			near = min(max(near, points[0].x), points[len(points)-1].x)
			if near < a.x || near > b.x || a.x == b.x {
				continue
			}
			if y := a.y + (b.y-a.y)*(near-a.x)/(b.x-a.x); math.Abs(y-want) < math.Abs(best-want) {
				best = y
			}
		}
	}
	for _, p := range points {
		if math.Abs(p.x-x) <= 0.6 && math.Abs(p.y-want) < math.Abs(best-want) {
			best = p.y
		}
	}
	return best
}

func TestPlacesLieInThePicture(t *testing.T) {
	for share, want := range map[float64]string{0: "0", -1e-9: "0", 0.5: "50", 0.33333: "33.33", 0.101: "10.1", 1: "100", 1.00001: "100"} {
		if got := percentOf(share); got != want {
			t.Errorf("percentOf(%v) = %q, want %q", share, got, want)
		}
	}
}

func TestCoursesThatStayFlatAreShort(t *testing.T) {
	samples := make([]float64, 600)
	samples[599] = 1
	if got, want := path(samples, 1.0/599, 1), "M0 1000l1997 0 3-1000"; got != want {
		t.Errorf("path is %q, want %q", got, want)
	}
	if got, want := path([]float64{0, 1, 0, 1}, 1e-6, 1), "M0 1000l0-1000 0 1000 0-1000"; got != want {
		t.Errorf("path of samples that lie on each other is %q, want %q", got, want)
	}
}

func TestTheLowerBoundIsMarkedWhereItBelongs(t *testing.T) {
	r := twoPolicies() // axes end at 100 dollars, the bound is 60
	doc := parsed(t, written(t, r.WriteHTML))
	bounds := all(doc, "line", "bound")
	if len(bounds) != 2 {
		t.Fatalf("%d marks of the bound, want one for bars and one for the course of the cost", len(bounds))
	}
	if x := attribute(bounds[0], "x1"); x != "60%" || attribute(bounds[0], "x2") != x {
		t.Errorf("bars: bound is at %s, want 60%%", x)
	}
	if y := attribute(bounds[1], "y1"); y != "40%" || attribute(bounds[1], "y2") != y {
		t.Errorf("course: bound is at %s from the top, want 40%%", y)
	}
	var widths []string
	for _, bar := range all(all(doc, "svg", "bars")[0], "rect", "") {
		widths = append(widths, attribute(bar, "width"))
	}
	if diff := cmp.Diff([]string{"100%", "80%"}, widths); diff != "" {
		t.Errorf("bars of the cost (-want +got):\n%s", diff)
	}
	for i := range r.Policies {
		r.Policies[i].LowerBoundDollars = 0
	}
	if marks := all(parsed(t, written(t, r.WriteHTML)), "line", "bound"); len(marks) > 0 {
		t.Errorf("%d marks of a bound that is not known", len(marks))
	}
}

func TestALowerBoundAboveEveryCostIsStillInThePicture(t *testing.T) {
	r := twoPolicies()
	for i := range r.Policies {
		r.Policies[i].LowerBoundDollars = 190
	}
	bounds := all(parsed(t, written(t, r.WriteHTML)), "line", "bound")
	if x, y := attribute(bounds[0], "x1"), attribute(bounds[1], "y1"); x != "95%" || y != "5%" {
		t.Errorf("bound is at %s and %s, want 95%% of an axis to 200 dollars", x, y)
	}
}

func TestTheScriptGetsWhatTheLinesShow(t *testing.T) {
	r := twoPolicies()
	doc := parsed(t, written(t, r.WriteHTML))
	var samples *html.Node
	for _, script := range all(doc, "script", "") {
		if attribute(script, "id") == "samples" {
			samples = script
		}
	}
	if samples == nil {
		t.Fatal("page has no samples")
	}
	var got hoverData
	testfile.JSON(t, textOf(samples), &got)
	want := hoverData{
		Span: 7200,
		Charts: []hoverChart{
			{Prefix: "$", Digits: 2, Cumulative: true}, {}, {Suffix: " %", Digits: 1}, {Suffix: " %", Digits: 1}, {}, {Cumulative: true},
		},
		Policies: []hoverSeries{
			{Step: 3600, Values: [][]float64{{0, 40, 100}, {1, 9, 4}, {0, 50, 75}, {0, 25, 50}, {0, 3, 0}, {0, 0, 0}}},
			{Step: 3600, Values: [][]float64{{0, 50}, {1, 7}, {0, 100}, {0, 50}, {2, 1}, {0, 6}}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
}

func TestChartsAreToldInWords(t *testing.T) {
	doc := parsed(t, written(t, twoPolicies().WriteHTML))
	for _, chart := range append(all(doc, "svg", "lines"), all(doc, "svg", "bars")...) {
		if attribute(chart, "role") != "img" || attribute(chart, "aria-label") == "" {
			t.Errorf("chart has role %q and label %q", attribute(chart, "role"), attribute(chart, "aria-label"))
		}
	}
	for i, want := range []string{
		"Cost so far over 2 h. Lower bound $60.00. default: at most $100.00, $100.00 at the end. packing: at most $50.00, $50.00 at the end.",
		"Active machines over 2 h. default: at most 9, 4 at the end. packing: at most 7, 7 at the end.",
		"CPU utilisation over 2 h. default: at most 75.0 %, 75.0 % at the end. packing: at most 100.0 %, 100.0 % at the end.",
	} {
		if got := attribute(all(doc, "svg", "lines")[i], "aria-label"); got != want {
			t.Errorf("chart %d is called %q, want %q", i, got, want)
		}
	}
	want := "Cost of each policy. Lower bound $60.00. default: $100.00. packing: $80.00."
	if got := attribute(all(doc, "svg", "bars")[0], "aria-label"); got != want {
		t.Errorf("bars are called %q, want %q", got, want)
	}
	for _, button := range all(doc, "button", "") {
		if attribute(button, "aria-pressed") != "true" || attribute(button, "type") != "button" {
			t.Errorf("legend has a button with %v", button.Attr)
		}
	}
}

// TestThePageAsksForNothing searches for every way by which a page loads resources, and for styles
// and scripts other than those in its Content-Security-Policy.
func TestThePageAsksForNothing(t *testing.T) {
	doc := parsed(t, written(t, noisy(3, 10).WriteHTML))
	policy := ""
	for d := range doc.Descendants() {
		if d.Type != html.ElementNode {
			continue
		}
		switch d.Data {
		case "link", "img", "iframe", "object", "embed", "base", "form", "a", "use", "image", "audio", "video":
			t.Errorf("page has a <%s>", d.Data)
		case "meta":
			if attribute(d, "http-equiv") == "Content-Security-Policy" {
				policy = attribute(d, "content")
			}
		case "style", "script":
			if policy == "" {
				t.Errorf("<%s> comes before the policy", d.Data)
			}
			source := d.FirstChild.Data
			sum := sha256.Sum256([]byte(source))
			if attribute(d, "type") == "" && !strings.Contains(policy, base64.StdEncoding.EncodeToString(sum[:])) {
				t.Errorf("the policy %s does not allow the %s", policy, d.Data)
			}
			if strings.Contains(source, "@import") || strings.Contains(source, "url(") || strings.Contains(source, "fetch(") {
				t.Errorf("the %s asks for something", d.Data)
			}
		}
		for _, a := range d.Attr {
			if a.Key == "style" || a.Key == "src" || strings.HasPrefix(a.Key, "on") || strings.HasSuffix(a.Key, "href") {
				t.Errorf("<%s> has %s=%q", d.Data, a.Key, a.Val)
			}
		}
	}
	if !strings.HasPrefix(policy, "default-src 'none'; ") || strings.Contains(policy, "unsafe") {
		t.Errorf("policy is %s", policy)
	}
}

func TestTenPoliciesOf600SamplesStayBelowAMegabyte(t *testing.T) {
	if size := len(written(t, noisy(10, 600).WriteHTML)); size > 1_000_000 {
		t.Errorf("page has %d bytes", size)
	}
}

func TestReportsWithLittleInThemMakeAPage(t *testing.T) {
	oneSample := twoPolicies()
	for i := range oneSample.Policies {
		oneSample.Policies[i].Series = Series{CostDollars: []float64{3}, CPU: []float64{0.5}, Memory: []float64{1}, Machines: []int{2}, Pending: []int{0}, Moves: []int{0}}
	}
	mixed := twoPolicies()
	mixed.Policies[0].Series = Series{}
	failed := twoPolicies()
	failed.Policies[1] = Policy{Name: "packing", Error: "no room"}
	allFailed := Report{Policies: []Policy{{Name: "a", Error: "no room"}, {Name: "b", Error: "no time"}}}
	nothing := noisy(2, 5)
	for i := range nothing.Policies {
		nothing.Policies[i].CostDollars, nothing.Policies[i].LowerBoundDollars = 0, 0
		nothing.Policies[i].Series = Series{StepSeconds: 1, CostDollars: make([]float64, 5), CPU: make([]float64, 5), Memory: make([]float64, 5),
			Machines: make([]int, 5), Pending: make([]int, 5), Moves: make([]int, 5)}
	}
	tests := []struct {
		name                   string
		report                 Report
		charts, lines, markers int
	}{
		{"no policy", Report{}, 0, 0, 0},
		{"one policy without samples", named("a"), 8, 0, 0},
		{"one policy", noisy(1, 10), 8, 6, 6},
		{"one sample each", oneSample, 8, 0, 12},
		{"samples of one of two", mixed, 8, 6, 6},
		{"one of two that failed", failed, 8, 6, 6},
		{"two that failed", allFailed, 0, 0, 0},
		{"nothing ever happens and costs nothing", nothing, 8, 12, 12},
		{"ten policies", noisy(10, 3), 8, 60, 60},
		{"more policies than looks", noisy(23, 3), 8, 138, 138},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			page := written(t, tc.report.WriteHTML)
			doc := parsed(t, page)
			if n := len(all(doc, "figure", "")); n != tc.charts {
				t.Errorf("%d charts, want %d", n, tc.charts)
			}
			if n := len(all(doc, "path", "")); n != tc.lines {
				t.Errorf("%d lines, want %d", n, tc.lines)
			}
			if n := len(all(doc, "circle", "")); n != tc.markers {
				t.Errorf("%d ends of lines, want %d", n, tc.markers)
			}
			checkNumbers(t, doc)
		})
	}
}

// checkNumbers expects every attribute that is a position or a size to be a number within the
// picture.
func checkNumbers(t testing.TB, doc *html.Node) {
	t.Helper()
	places := []string{"x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "width", "height"}
	for d := range doc.Descendants() {
		for _, a := range d.Attr {
			if !slices.Contains(places, a.Key) {
				continue
			}
			v, err := strconv.ParseFloat(strings.TrimSuffix(a.Val, "%"), 64)
			percent := strings.HasSuffix(a.Val, "%")
			if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || percent && (v < 0 || v > 100) {
				t.Errorf("<%s> has %s=%q", d.Data, a.Key, a.Val)
			}
		}
	}
}

// shape returns the page without text and attribute values: a name must not change it.
func shape(t testing.TB, page string) []string {
	var parts []string
	for d := range parsed(t, page).Descendants() {
		switch d.Type {
		case html.ElementNode:
			part := "<" + d.Data
			for _, a := range d.Attr {
				part += " " + a.Key
			}
			parts = append(parts, part)
		case html.CommentNode:
			parts = append(parts, "<!--"+d.Data)
		}
	}
	return parts
}

// withNames sets every field that a user can type to one text.
func withNames(text string) Report {
	r := twoPolicies()
	r.Scenario = text
	r.Policies[1].Name = text
	r.Policies[1].PendingReasons = map[string]int64{text: 1}
	r.Policies[1].Events = map[string]int64{text: 1}
	return r
}

var hostileNames = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, `</title><script>alert(1)</script>`,
	`</script><script>alert(1)</script>`, `<!--`, `-->`, `]]>`, `<![CDATA[`, `&lt;b&gt;`, `&#60;b&#62;`, `{{.CSS}}`, `${alert(1)}`,
	`</style><style>*{display:none}`, `</svg><svg onload=alert(1)>`, `javascript:alert(1)`, "\x00<b>", "\xff<b>", "a`b", "\u2028", "",
}

func TestNamesCannotLeaveTheirPlace(t *testing.T) {
	want := shape(t, written(t, withNames("tame").WriteHTML))
	for _, name := range hostileNames {
		page := written(t, withNames(name).WriteHTML)
		if diff := cmp.Diff(want, shape(t, page)); diff != "" {
			t.Errorf("%q changes the page (-tame +hostile):\n%s", name, diff)
		}
		doc := parsed(t, page)
		if heading := textOf(one(t, doc, "h1", "")); heading != strings.Join(strings.Fields(shown(name)), " ") {
			t.Errorf("%q is shown as %q", name, heading)
		}
	}
}

func FuzzNamesCannotLeaveTheirPlace(f *testing.F) {
	for _, name := range hostileNames {
		f.Add(name)
	}
	want := shape(f, written(f, withNames("tame").WriteHTML))
	f.Fuzz(func(t *testing.T, name string) {
		if diff := cmp.Diff(want, shape(t, written(t, withNames(name).WriteHTML))); diff != "" {
			t.Errorf("%q changes the page (-tame +hostile):\n%s", name, diff)
		}
	})
}

// FuzzNumbersStayInThePicture passes arbitrary numbers to the page: it rejects them or draws them
// inside the picture.
func FuzzNumbersStayInThePicture(f *testing.F) {
	f.Add(1.0, 0.5, 60.0, 12.0, 0.3, 1.5, 3, 7)
	f.Add(1e18, 1e18, 1e18, 1e18, 1e18, 1e18, math.MaxInt, 0)
	f.Add(5e-324, 5e-324, 1e-9, 5e-324, 5e-324, 5e-324, 0, 1)
	f.Add(math.NaN(), math.Inf(1), -1.0, 0.0, 0.0, 0.0, -1, -1)
	f.Fuzz(func(t *testing.T, cost, bound, step, wait, share, energy float64, machines, moves int) {
		r := twoPolicies()
		for i := range r.Policies {
			r.Policies[i].LowerBoundDollars = bound
		}
		p := &r.Policies[1]
		p.CostDollars, p.Scheduling.P95, p.Utilization.CPU, p.EnergyJoules, p.Nodes.Peak, p.Moves.Evictions = cost, wait, share, energy, machines, moves
		p.EndSeconds, p.Moves.LostWorkSeconds = step, wait
		p.Series.StepSeconds = step
		p.Series.CostDollars[1], p.Series.Memory[1], p.Series.Machines[1], p.Series.Moves[1] = cost, share, machines, moves
		var page strings.Builder
		if err := r.WriteHTML(&page); err != nil {
			if page.Len() > 0 {
				t.Errorf("wrote %d bytes and then refused: %v", page.Len(), err)
			}
			return
		}
		checkNumbers(t, parsed(t, page.String()))
		if text := textOf(one(t, parsed(t, page.String()), "main", "")); strings.Contains(text, "NaN") || strings.Contains(text, "Inf ") {
			t.Errorf("page shows what is no number")
		}
		if text := written(t, r.WriteTable); strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
			t.Errorf("table shows what is no number:\n%s", text)
		}
	})
}

func BenchmarkWriteHTML(b *testing.B) {
	r := noisy(10, 600)
	b.ReportAllocs()
	for b.Loop() {
		written(b, r.WriteHTML)
	}
}
