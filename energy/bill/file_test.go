package bill

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"supercargo.dev/supercargo/energy"
)

func TestWhatIsSavedIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		observed := cases(t)
		var file bytes.Buffer
		if err := Write(&file, "kepler", observed); err != nil {
			t.Fatal(err)
		}
		from, read, err := ReadFile(&file)
		if err != nil || from != "kepler" || !reflect.DeepEqual(read, observed) {
			t.Fatalf("%v: %+v, want %+v", err, read, observed)
		}
	})
}

const good = `{"format":"supercargo-energy/1","slices":[{"from":"2026-01-01T12:00:00Z","to":"2026-01-01T13:00:00Z",
"nodes":[{"node":"n","measuredJoules":5,"modelledJoules":0,"coveredSeconds":3600}],
"pods":[{"namespace":"a","pod":"p","node":"n","requestedCores":1}]}]}`

func TestFilesThatCannotBeAreRefused(t *testing.T) {
	tests := []struct {
		name, old, new string // the change to the valid file
		says           []string
	}{
		{"no JSON", "{", "[", []string{"byte"}},
		{"another format", "energy/1", "energy/2", []string{"format", "supercargo-energy/2"}},
		{"a field that nobody knows", `"pods"`, `"podz"`, []string{"podz"}},
		{"an end before the beginning", "13:00:00Z", "11:00:00Z", []string{"slices[0]", "11:00:00Z"}},
		{"negative energy", `"measuredJoules":5`, `"measuredJoules":-5`, []string{"slices[0].nodes[0] n", "measuredJoules", "-5"}},
		{"more time than there is", "3600", "3601", []string{"coveredSeconds"}},
		{"a node without a name", `"node":"n","measured`, `"node":"","measured`, []string{"nodes[0].node"}},
		{"a pod without a node", `"pod":"p","node":"n"`, `"pod":"p","node":""`, []string{"pods[0] a/p"}},
		{"a negative request", `"requestedCores":1`, `"requestedCores":-1`, []string{"pods[0] a/p", "requestedCores"}},
		{"a negative use", `"requestedCores":1`, `"requestedCores":1,"usedCores":-1`, []string{"usedCores"}},
		{"a pod twice", `"requestedCores":1}`, `"requestedCores":1},{"namespace":"a","pod":"p","node":"n","requestedCores":2}`, []string{"pods[1] a/p"}},
	}
	for _, tc := range tests {
		_, _, err := ReadFile(strings.NewReader(strings.Replace(good, tc.old, tc.new, 1)))
		for _, part := range tc.says {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: error %v, want one that says %q", tc.name, err, part)
			}
		}
	}
	_, observed, err := ReadFile(strings.NewReader(good))
	want := Pod{Namespace: "a", Name: "p", Workload: "p", Node: "n", Requested: 1}
	if err != nil || len(observed) != 1 || observed[0].Pods[0] != want || observed[0].Nodes[0].Energy != (energy.Usage{Measured: 5, Covered: time.Hour}) {
		t.Errorf("%+v, %v", observed, err)
	}
}

// FuzzReadFile checks that what is read can be billed, with finite and non-negative amounts.
func FuzzReadFile(f *testing.F) {
	f.Add(good)
	f.Fuzz(func(t *testing.T, text string) {
		_, observed, err := ReadFile(strings.NewReader(text))
		if err != nil {
			return
		}
		b := Make(observed, Tariffs{}, unknown)
		if j := b.Total.Total().Joules; !(j >= 0) || !(b.Unallocated.Total().Joules >= 0) || !(j <= mostJoules*1e6) {
			t.Errorf("%+v", b)
		}
	})
}
