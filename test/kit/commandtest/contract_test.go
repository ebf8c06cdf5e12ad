package commandtest

import (
	"strings"
	"testing"
)

func TestAContractFindsWhatADocumentLacks(t *testing.T) {
	contract := Contract{
		Fields: `
			name       string
			pods[].cpu amount
			pods[].n   count
			full       share`,
		Values: map[string]any{"pods[].n": 2.0},
	}
	const good = `{"name": "x", "full": 0.5, "pods": [{"cpu": 1.5, "n": 2}], "more": 1}` + "\n"
	for _, tc := range []struct{ name, stdout, fault string }{
		{"all is there", good, ""},
		{"no document", "", "no JSON"},
		{"a line before it", "done\n" + good, "no JSON"},
		{"a line after it", good + "done\n", "comes more"},
		{"a renamed field", strings.Replace(good, "name", "title", 1), "name is missing"},
		{"a field that one element lacks", strings.Replace(good, `"n": 2}`, `"n": 2}, {"cpu": 1}`, 1), "n is missing"},
		{"an empty list", strings.Replace(good, `{"cpu": 1.5, "n": 2}`, "", 1), "has no element"},
		{"another type", strings.Replace(good, `1.5`, `"1.5"`, 1), "pods[].cpu is 1.5: must be of kind amount"},
		{"another unit", strings.Replace(good, `0.5`, `50`, 1), "full is 50: must be of kind share"},
		{"a fraction of a pod", strings.Replace(good, `"n": 2`, `"n": 2.5`, 1), "must be of kind count"},
		{"another value", strings.Replace(good, `"n": 2`, `"n": 3`, 1), "pods[].n is [3], want 2"},
		{"a null", strings.Replace(good, `"more": 1`, `"more": null`, 1), ".more is null"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			faults := strings.Join(contract.Faults(tc.stdout), "\n")
			if tc.fault == "" && faults != "" || !strings.Contains(faults, tc.fault) {
				t.Errorf("faults are %q, want %q", faults, tc.fault)
			}
		})
	}
}
