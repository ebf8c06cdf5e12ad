package rule

import (
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	kubelabels "k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"
)

func TestEverySeriesThatIsReadIsNarrowed(t *testing.T) {
	shop := Is("namespace", "shop")
	for _, c := range []struct {
		expression string
		conditions []Condition
		want       string
	}{
		{"up", nil, "up"},
		{"up", []Condition{shop}, `up{namespace="shop"}`},
		{`up{namespace="other"}`, []Condition{shop}, `up{namespace="other",namespace="shop"}`},
		{"sum(rate(a[1m])) / sum(b)", []Condition{shop}, `sum(rate(a{namespace="shop"}[1m])) / sum(b{namespace="shop"})`},
		{"max_over_time(rate(a[1m])[5m:1s])", []Condition{shop}, `max_over_time(rate(a{namespace="shop"}[1m])[5m:1s])`},
		{"a offset 5m @ end()", []Condition{shop}, `a{namespace="shop"} @ end() offset 5m`},
		{"scalar(a)", []Condition{shop}, `scalar(a{namespace="shop"})`},
		{"2", []Condition{shop}, "2"},
		{"up", []Condition{Is("pod", "a", "b.c")}, `up{pod=~"a|b\\.c"}`},
		{"up", []Condition{Is("pod")}, `up{pod=~""}`},
		{"up", []Condition{{Label: "pod", Values: []string{"a"}, Not: true}}, `up{pod!="a"}`},
		{"up", []Condition{{Label: "pod", Values: []string{"a", ""}, Not: true}}, `up{pod!~"a|"}`},
		{"up", []Condition{Is("app.kubernetes.io/name", "x")}, `up{"app.kubernetes.io/name"="x"}`},
		{"up", []Condition{Is("namespace", `shop"} or vector(1) #`)}, `up{namespace="shop\"} or vector(1) #"}`},
	} {
		r, err := New(c.expression)
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.Narrow(c.conditions...)
		if err != nil || got != c.want {
			t.Errorf("%s with %v is %s (%v), want %s", c.expression, c.conditions, got, err, c.want)
		}
	}
}

func TestWhatHasNoValueAtAMomentIsRefused(t *testing.T) {
	for _, expression := range []string{"", "sum(", "up[5m]", `"text"`, "up{namespace=}", "rate(up)"} {
		if _, err := New(expression); err == nil || !strings.Contains(err.Error(), "parse ") {
			t.Errorf("%q: error %v", expression, err)
		}
	}
}

func TestSelectorsBecomeConditions(t *testing.T) {
	r, err := New("up")
	if err != nil {
		t.Fatal(err)
	}
	for selector, want := range map[string]string{
		"":                                  "up",
		"pod=a":                             `up{pod="a"}`,
		"pod==a,app!=b":                     `up{app!="b",pod="a"}`,
		"pod in (b,a)":                      `up{pod=~"a|b"}`,
		"pod notin (b,a)":                   `up{pod!~"a|b"}`,
		"pod":                               `up{pod!=""}`,
		"!pod":                              `up{pod=""}`,
		"app.kubernetes.io/name=x":          `up{app="x"}`,
		"app.kubernetes.io/name=x,tier=web": `up{app="x",tier="web"}`,
	} {
		parsed, err := kubelabels.Parse(selector)
		if err != nil {
			t.Fatal(err)
		}
		conditions, err := FromSelector(parsed, map[string]string{"app.kubernetes.io/name": "app"})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := r.Narrow(conditions...); err != nil || got != want {
			t.Errorf("%s gives %s (%v), want %s", selector, got, err, want)
		}
	}
	larger, err := kubelabels.Parse("size>3")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []kubelabels.Selector{larger, kubelabels.Nothing()} {
		if got, err := FromSelector(s, nil); err == nil {
			t.Errorf("%s gives %v, want an error", s, got)
		}
	}
	if got, err := FromSelector(nil, nil); got != nil || err != nil {
		t.Errorf("no selector gives %v, %v", got, err)
	}
}

// TestConditionsHoldOfLabelsAsTheyDoOfSeries compares Holds with PromQL's matcher.
func TestConditionsHoldOfLabelsAsTheyDoOfSeries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.SampledFrom([]string{"", "a", "b", "a.b", "|", "[", ".*"})
		c := Condition{Label: "l", Values: rapid.SliceOfN(word, 1, 4).Draw(t, "values"), Not: rapid.Bool().Draw(t, "not")}
		value := word.Draw(t, "value")
		m, err := c.matcher()
		if err != nil {
			t.Fatal(err)
		}
		if got, want := c.Holds(map[string]string{"l": value}), m.Matches(value); got != want {
			t.Errorf("%v of %q: %v, and %s: %v", c, value, got, m, want)
		}
	})
}

// FuzzNarrow checks that, for any expression and value, the result is PromQL, and each of its
// selectors has the condition.
func FuzzNarrow(f *testing.F) {
	f.Add("sum(rate(a{b=\"c\"}[5m])) by (d)", "shop")
	f.Add("a or b unless on(c) d", "\"}")
	f.Add("histogram_quantile(0.9, sum by (le) (rate(a_bucket[1m:5s])))", "\n")
	f.Add("{__name__=~\"a.*\"}", "é")
	f.Add("{\"a.b\"}", "\xff")
	f.Fuzz(func(t *testing.T, expression, value string) {
		r, err := New(expression)
		if err != nil {
			return
		}
		narrowed, err := r.Narrow(Is("namespace", value))
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := r.parser.ParseExpr(narrowed)
		if err != nil {
			t.Fatalf("%q narrowed to %q gives %q, which is not PromQL: %v", expression, value, narrowed, err)
		}
		parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
			s, ok := node.(*parser.VectorSelector)
			if !ok {
				return nil
			}
			for _, m := range s.LabelMatchers {
				if m.Name == "namespace" && m.Value == value {
					return nil
				}
			}
			t.Errorf("%q narrowed to %q gives %q: a selector is not narrowed", expression, value, narrowed)
			return nil
		})
	})
}

func BenchmarkNarrow(b *testing.B) {
	r, err := New("sum(rate(nginx_ingress_controller_requests[30s])) / count(up)")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Narrow(Is("namespace", "shop"), Is("service", "web")); err != nil {
			b.Fatal(err)
		}
	}
}
