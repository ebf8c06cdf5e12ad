// Package rule restricts a PromQL expression to what a client may see and selects: a
// namespace, objects, labels. It changes the parsed expression, never its text, so that no
// name or label value can inject PromQL.
//
// It is pure. A [Rule] is safe for concurrent use.
package rule

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	kubelabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// Rule is a valid PromQL expression for an instant query.
type Rule struct {
	expression string
	parser     parser.Parser
}

// New parses an expression. Its type must be instant vector or scalar.
func New(expression string) (*Rule, error) {
	r := &Rule{expression: expression, parser: parser.NewParser(parser.Options{})}
	parsed, err := r.parser.ParseExpr(expression)
	if err != nil {
		return nil, fmt.Errorf("parse %q: %w", expression, err)
	}
	if t := parsed.Type(); t != parser.ValueTypeVector && t != parser.ValueTypeScalar {
		return nil, fmt.Errorf("parse %q: type is %s, must be an instant vector or a scalar", expression, t)
	}
	return r, nil
}

// Narrow returns the expression with all conditions added to every series selector, also in
// subqueries; existing matchers remain. Without conditions it returns the expression
// unchanged. Cost: parsing it.
func (r *Rule) Narrow(conditions ...Condition) (string, error) {
	if len(conditions) == 0 {
		return r.expression, nil
	}
	parsed, err := r.parser.ParseExpr(r.expression)
	if err != nil {
		return "", fmt.Errorf("parse %q: %w", r.expression, err)
	}
	matchers := make([]*labels.Matcher, len(conditions))
	for i, c := range conditions {
		if matchers[i], err = c.matcher(); err != nil {
			return "", fmt.Errorf("narrow %q: %w", r.expression, err)
		}
	}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if s, ok := node.(*parser.VectorSelector); ok {
			s.LabelMatchers = append(slices.Clone(s.LabelMatchers), matchers...)
		}
		return nil
	})
	return parsed.String(), nil
}

// Condition requires that the value of a label is one of Values or, with Not, none of them.
type Condition struct {
	// Label is the name of the label.
	Label string
	// Values are the accepted values; the empty string matches a missing label.
	Values []string
	// Not inverts the condition.
	Not bool
}

// Is returns the condition that a label has one of the values.
func Is(label string, values ...string) Condition { return Condition{Label: label, Values: values} }

// Holds reports whether the labels meet the condition.
func (c Condition) Holds(of map[string]string) bool {
	return slices.Contains(c.Values, of[c.Label]) != c.Not
}

// matcher returns the condition as a PromQL matcher.
func (c Condition) matcher() (*labels.Matcher, error) {
	if len(c.Values) == 1 {
		kind := labels.MatchEqual
		if c.Not {
			kind = labels.MatchNotEqual
		}
		return labels.NewMatcher(kind, c.Label, c.Values[0])
	}
	quoted := make([]string, len(c.Values))
	for i, v := range c.Values {
		quoted[i] = regexp.QuoteMeta(v)
	}
	kind := labels.MatchRegexp
	if c.Not {
		kind = labels.MatchNotRegexp
	}
	return labels.NewMatcher(kind, c.Label, strings.Join(quoted, "|"))
}

// FromSelector returns a Kubernetes selector as conditions on series. names maps label names
// of the selector to label names of the series, where they differ. A selector with Gt or Lt
// is an error.
//
// As in Kubernetes, NotIn also matches if the label is missing.
func FromSelector(selector kubelabels.Selector, names map[string]string) ([]Condition, error) {
	if selector == nil {
		return nil, nil
	}
	requirements, selectable := selector.Requirements()
	if !selectable {
		return nil, fmt.Errorf("the selector matches nothing")
	}
	var conditions []Condition
	for _, r := range requirements {
		c := Condition{Label: r.Key(), Values: slices.Sorted(slices.Values(r.Values().UnsortedList()))}
		if name, ok := names[c.Label]; ok {
			c.Label = name
		}
		switch r.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
		case selection.NotEquals, selection.NotIn:
			c.Not = true
		case selection.Exists:
			c.Values, c.Not = []string{""}, true
		case selection.DoesNotExist:
			c.Values = []string{""}
		default:
			return nil, fmt.Errorf("requirement %q of the selector is not supported: the operator must be one of =, !=, in, notin, exists", r.String())
		}
		conditions = append(conditions, c)
	}
	return conditions, nil
}
