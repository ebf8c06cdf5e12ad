package chart

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"

	metricslist "supercargo.dev/supercargo/hack/metrics/exported"
	"supercargo.dev/supercargo/test/kit/testfile"
)

const (
	alertFiles = chart + "/monitoring/alerts/*.yaml"
	alertTests = "testdata/alerts/*.yaml"
	runbooks   = "../../../docs/runbooks/"
)

// alert is an alerting rule of Prometheus.
type alert struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// files returns the files that match a pattern, and fails if there are none.
func files(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) == 0 {
		t.Fatalf("there are no files %s: %v", pattern, err)
	}
	return found
}

// alerts returns all alerts of the chart, by name.
func alerts(t *testing.T) map[string]alert {
	t.Helper()
	all := map[string]alert{}
	for _, file := range files(t, alertFiles) {
		text := testfile.Read(t, file)
		var rules struct {
			Groups []struct {
				Name  string  `json:"name"`
				Rules []alert `json:"rules"`
			} `json:"groups"`
		}
		testfile.StrictYAML(t, text, &rules)
		for _, group := range rules.Groups {
			for _, a := range group.Rules {
				if _, twice := all[a.Alert]; twice {
					t.Errorf("%s: there are two alerts %s", file, a.Alert)
				}
				all[a.Alert] = a
			}
		}
	}
	return all
}

func TestPromtoolFindsNoFaultWithTheAlerts(t *testing.T) {
	if out, errs, err := run(t, nil, "promtool", append([]string{"check", "rules", "--lint=all", "--lint-fatal"}, files(t, alertFiles)...)...); err != nil {
		t.Errorf("%v\n%s%s", err, out, errs)
	}
}

// TestAlertsFireWhenTheyShouldAndNotElse evaluates the rules on test series with promtool. Each alert has a
// test in which it fires, but not before its time has passed, and a test in which it does not fire.
func TestAlertsFireWhenTheyShouldAndNotElse(t *testing.T) {
	if out, errs, err := run(t, nil, "promtool", append([]string{"test", "rules"}, files(t, alertTests)...)...); err != nil {
		t.Errorf("%v\n%s%s", err, out, errs)
	}
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, file := range files(t, alertTests) {
		text := testfile.Read(t, file)
		var played struct {
			Tests []struct {
				Name   string           `json:"name"`
				Series []map[string]any `json:"input_series"`
				Asked  []struct {
					Expr    string           `json:"expr"`
					Samples []map[string]any `json:"exp_samples"`
				} `json:"promql_expr_test"`
			} `json:"tests"`
		}
		testfile.YAML(t, text, &played)
		for _, p := range played.Tests {
			name, what, _ := strings.Cut(p.Name, " ")
			before, after := 0, 0 // empty and non-empty results
			for _, asked := range p.Asked {
				if want := fmt.Sprintf(`ALERTS{alertname="%s", alertstate="firing"}`, name); asked.Expr != want {
					t.Errorf("%s: %q asks for %s, want %s", file, p.Name, asked.Expr, want)
				}
				if len(asked.Samples) == 0 {
					before++
				} else {
					after++
				}
			}
			switch {
			case len(p.Series) == 0:
				t.Errorf("%s: %q plays nothing", file, p.Name)
			case what == "fires":
				fires[name] = before > 0 && after > 0
			case strings.HasPrefix(what, "does not fire while "):
				quiet[name] = before > 0 && after == 0
			default:
				t.Errorf("%s: %q is no sentence about an alert", file, p.Name)
			}
		}
	}
	for name := range alerts(t) {
		if !fires[name] || !quiet[name] {
			t.Errorf("alert %s: a test in which it fires, and not before its time: %v; one in which it does not: %v", name, fires[name], quiet[name])
		}
	}
}

// TestAlertsSayWhatIsWrongInPlainWords checks the severity, the time, a summary and a description that
// differ, and the URL of a page.
func TestAlertsSayWhatIsWrongInPlainWords(t *testing.T) {
	for name, a := range alerts(t) {
		severity, summary, description := a.Labels["severity"], a.Annotations["summary"], a.Annotations["description"]
		if !slices.Contains([]string{"critical", "warning", "info"}, severity) || a.For == "" {
			t.Errorf("alert %s has severity %q and fires after %q", name, severity, a.For)
		}
		if !strings.HasSuffix(summary, ".") && !strings.HasSuffix(summary, ").") || len(description) <= len(summary) || !strings.HasSuffix(description, ".") {
			t.Errorf("alert %s says %q and %q, want a sentence, and more in the second", name, summary, description)
		}
		if want := "https://supercargo.dev/docs/runbooks/" + name + ".md"; a.Annotations["runbook_url"] != want {
			t.Errorf("alert %s leads to %q, want %s", name, a.Annotations["runbook_url"], want)
		}
	}
}

// TestEachAlertHasItsPageAndEachPageItsAlert checks that each page has the meaning of the alert, a diagnosis
// with commands to copy, a mitigation, and when to ignore it, and that the index names it.
func TestEachAlertHasItsPageAndEachPageItsAlert(t *testing.T) {
	all := alerts(t)
	index := testfile.Read(t, runbooks+"README.md")
	for _, file := range files(t, runbooks+"*.md") {
		name := strings.TrimSuffix(filepath.Base(file), ".md")
		if name == "README" {
			continue
		}
		a, ok := all[name]
		if !ok {
			t.Errorf("%s is about an alert that does not exist", file)
			continue
		}
		delete(all, name)
		page := testfile.Read(t, file)
		last := -1
		for _, want := range []string{"# " + name, "**" + a.Labels["severity"] + "**, after " + a.For, "## What it means", "## Diagnosis", "## Mitigation", "## When to ignore it"} {
			at := strings.Index(string(page), want)
			if at <= last {
				t.Errorf("%s: want %q, after what comes before it", file, want)
			}
			last = at
		}
		_, diagnosis, _ := strings.Cut(string(page), "## Diagnosis")
		if diagnosis, _, _ = strings.Cut(diagnosis, "## Mitigation"); !strings.Contains(diagnosis, "\n    kubectl ") {
			t.Errorf("%s: there is no kubectl command for the diagnosis", file)
		}
		if !strings.Contains(string(index), "["+name+"]("+name+".md)") {
			t.Errorf("the index of the runbooks does not name %s", name)
		}
	}
	for name := range all {
		t.Errorf("alert %s has no page %s%s.md", name, runbooks, name)
	}
}

// TestTheChartHasTheAlertsOfWhatItInstalls checks that there is one PrometheusRule for each part, with the
// address of the runbooks in the values, and none without its CRD.
func TestTheChartHasTheAlertsOfWhatItInstalls(t *testing.T) {
	const kind = "monitoring.coreos.com/v1/PrometheusRule"
	count := func(v values, more ...string) (names []string, text string) {
		for _, o := range render(t, home, v, more...) {
			if o.GetKind() == "PrometheusRule" {
				names = append(names, o.GetName())
				text += fmt.Sprint(o.Object["spec"])
			}
		}
		slices.Sort(names)
		return names, text
	}
	off := maps.Clone(everything)
	off["monitoring.alerts.enabled"] = false
	for name, tc := range map[string]struct {
		values values
		more   []string
		want   int
	}{
		"without the kind": {everything, nil, 0},
		"switched off":     {off, []string{"--api-versions", kind}, 0},
		"all parts":        {everything, []string{"--api-versions", kind}, 6},
		"one part":         {only(values{"descheduler.enabled": true}), []string{"--api-versions", kind}, 1},
	} {
		if got, _ := count(tc.values, tc.more...); len(got) != tc.want {
			t.Errorf("%s: PrometheusRules %q, want %d", name, got, tc.want)
		}
	}
	moved := maps.Clone(everything)
	moved["monitoring.alerts.runbooks"] = "https://wiki.example/supercargo/"
	_, text := count(moved, "--api-versions", kind)
	for name := range alerts(t) {
		if !strings.Contains(text, "alert:"+name+" ") || !strings.Contains(text, "runbook_url:https://wiki.example/supercargo/"+name+".md ") {
			t.Errorf("alert %s is not in the chart, or leads elsewhere", name)
		}
	}
}

// query is an expression and its location.
type query struct{ where, expr string }

// dashboard contains the fields of a dashboard that the test reads.
type dashboard struct {
	Title  string `json:"title"`
	UID    string `json:"uid"`
	Panels []struct {
		Title   string         `json:"title"`
		GridPos map[string]int `json:"gridPos"`
		Targets []struct {
			Expr   string `json:"expr"`
			Legend string `json:"legendFormat"`
		} `json:"targets"`
	} `json:"panels"`
	Templating struct {
		List []struct {
			Name       string `json:"name"`
			Definition string `json:"definition"`
		} `json:"list"`
	} `json:"templating"`
}

// dashboards returns the dashboards that the chart installs, by the name of their ConfigMap.
func dashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	v, all := maps.Clone(everything), map[string]dashboard{}
	v["monitoring.dashboards.enabled"] = true
	for _, o := range render(t, home, v) {
		if o.GetKind() != "ConfigMap" || o.GetLabels()["grafana_dashboard"] == "" {
			continue
		}
		for file, text := range o.Object["data"].(map[string]any) {
			var d dashboard
			testfile.JSON(t, text.(string), &d)
			if file != d.UID+".json" {
				t.Errorf("%s has a dashboard with uid %s", file, d.UID)
			}
			all[o.GetName()] = d
		}
	}
	return all
}

// TestTheDashboardsAreThereWhenAskedFor checks that there is one for each part, with the label that Grafana's
// sidecar selects.
func TestTheDashboardsAreThereWhenAskedFor(t *testing.T) {
	all := dashboards(t)
	var names []string
	for name, d := range all {
		names = append(names, strings.TrimPrefix(name, "supercargo-dashboard-"))
		if len(d.Panels) < 10 {
			t.Errorf("%s has only %d panels", d.Title, len(d.Panels))
		}
		for i, p := range d.Panels {
			if len(p.Targets) == 0 || p.GridPos["x"]+p.GridPos["w"] > 24 {
				t.Errorf("%s: panel %q has %d queries, and is at %v", d.Title, p.Title, len(p.Targets), p.GridPos)
			}
			for _, q := range d.Panels[:i] {
				a, b := p.GridPos, q.GridPos
				if a["x"] < b["x"]+b["w"] && b["x"] < a["x"]+a["w"] && a["y"] < b["y"]+b["h"] && b["y"] < a["y"]+a["h"] {
					t.Errorf("%s: panels %q and %q overlap", d.Title, p.Title, q.Title)
				}
			}
		}
	}
	slices.Sort(names)
	if want := []string{"energy", "fleets", "migrations", "replicas", "scheduler", "workers"}; !slices.Equal(names, want) {
		t.Errorf("dashboards %q, want %q", names, want)
	}
	for _, o := range render(t, home, everything) {
		if o.GetKind() == "ConfigMap" && strings.HasPrefix(o.GetName(), "supercargo-dashboard-") {
			t.Errorf("%s is there although nobody asked for it", id(o))
		}
	}
}

// scraped are the labels that Prometheus adds to the series from the chart's monitors.
var scraped = []string{"job", "instance", "namespace", "pod", "container", "endpoint", "service"}

// exported maps the series of all programs to their labels.
func exported(t *testing.T) map[string][]string {
	t.Helper()
	all, err := metricslist.All()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{"up": scraped}
	for _, m := range all {
		for _, series := range m.Series() {
			labels := slices.Concat(m.Labels, scraped)
			if strings.HasSuffix(series, "_bucket") {
				labels = append(labels, "le")
			}
			found[series] = append(found[series], labels...)
		}
	}
	return found
}

var (
	legend   = regexp.MustCompile(`\{\{\s*([a-z_]+)\s*\}\}`)
	ofAlert  = regexp.MustCompile(`\$labels\.([a-z_]+)`)
	variable = regexp.MustCompile(`^label_values\((.*), ([a-z_]+)\)$`)
)

// TestQueriesAskForWhatTheProgramsExport checks every metric in a dashboard or an alert, with every label in
// its matchers, groupings and texts.
func TestQueriesAskForWhatTheProgramsExport(t *testing.T) {
	known := exported(t)
	asked := 0
	check := func(q query, written []string) {
		t.Helper()
		asked++
		for _, fault := range faults(known, q.expr, written) {
			t.Errorf("%s: %s: %s", q.where, fault, q.expr)
		}
	}
	for name, a := range alerts(t) {
		var written []string
		for _, m := range ofAlert.FindAllStringSubmatch(fmt.Sprint(a.Annotations), -1) {
			written = append(written, m[1])
		}
		check(query{"alert " + name, a.Expr}, written)
	}
	for _, d := range dashboards(t) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				var written []string
				for _, m := range legend.FindAllStringSubmatch(target.Legend, -1) {
					written = append(written, m[1])
				}
				expr := strings.ReplaceAll(target.Expr, "$__rate_interval", "5m")
				check(query{d.Title + ", " + p.Title, expr}, written)
			}
		}
		for _, v := range d.Templating.List[1:] { // the first selects the data source
			m := variable.FindStringSubmatch(v.Definition)
			if m == nil {
				t.Errorf("%s: variable %s is %q", d.Title, v.Name, v.Definition)
				continue
			}
			check(query{d.Title + ", variable " + v.Name, m[1]}, m[2:])
		}
	}
	if asked < 100 {
		t.Errorf("only %d queries were checked", asked)
	}
}

// faults returns the metrics and labels of a query that do not exist. Labels in written must be in the
// result: an aggregation keeps only the labels that it names.
func faults(known map[string][]string, expr string, written []string) (found []string) {
	e, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		return []string{err.Error()}
	}
	var labels, kept []string // of all selected metrics; named by aggregations
	var wanted []string       // by matchers and aggregations
	aggregates := false
	parser.Inspect(e, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			has, ok := known[n.Name]
			if !ok {
				found = append(found, "no program exports "+n.Name)
			}
			labels = append(labels, has...)
			for _, m := range n.LabelMatchers {
				if m.Name != "__name__" && ok && !slices.Contains(has, m.Name) {
					found = append(found, n.Name+" has no label "+m.Name)
				}
			}
		case *parser.AggregateExpr:
			aggregates, kept, wanted = true, append(kept, n.Grouping...), append(wanted, n.Grouping...)
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				wanted = append(append(wanted, n.VectorMatching.MatchingLabels...), n.VectorMatching.Include...)
			}
		}
		return nil
	})
	for _, name := range slices.Concat(wanted, written) {
		if !slices.Contains(labels, name) {
			found = append(found, "nothing that is asked for has a label "+name)
		}
	}
	for _, name := range written {
		if aggregates && !slices.Contains(kept, name) {
			found = append(found, "label "+name+" is written out, and no aggregation keeps it")
		}
	}
	return found
}

// TestAQueryForWhatDoesNotExistIsFound shows that the test above can fail.
func TestAQueryForWhatDoesNotExistIsFound(t *testing.T) {
	known := map[string][]string{"seen": {"fleet", "job"}, "seconds_bucket": {"fleet", "job", "le"}}
	for _, tc := range []struct {
		expr    string
		written []string
		want    string // empty: no fault
	}{
		{`sum by (fleet) (rate(seen{job="a"}[5m]))`, []string{"fleet"}, ""},
		{`histogram_quantile(0.9, sum by (le, fleet) (rate(seconds_bucket[5m])))`, []string{"fleet"}, ""},
		{`sum(unseen)`, nil, "no program exports unseen"},
		{`sum(seen_bucket)`, nil, "no program exports seen_bucket"},
		{`sum(seen{flavor="a"})`, nil, "seen has no label flavor"},
		{`sum by (flavor) (seen)`, nil, "nothing that is asked for has a label flavor"},
		{`seen and on (flavor) seen`, nil, "nothing that is asked for has a label flavor"},
		{`sum(seen)`, []string{"fleet"}, "label fleet is written out, and no aggregation keeps it"},
		{`sum(seen`, nil, "unclosed left parenthesis"},
	} {
		got := strings.Join(faults(known, tc.expr, tc.written), "; ")
		if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", tc.expr, got, tc.want)
		}
	}
}
