package command

import "testing"

func TestWordsAreEnumerated(t *testing.T) {
	for want, w := range map[string]Words{
		"":                       nil,
		"table":                  {"table"},
		"table or json":          TableOrJSON,
		"table, json or csv":     TableJSONOrCSV,
		"table, json or yaml":    TableJSONOrYAML,
		"fast, good, cheap or 3": {"fast", "good", "cheap", "3"},
	} {
		if got := w.String(); got != want {
			t.Errorf("%q: %q", []string(w), got)
		}
	}
}
