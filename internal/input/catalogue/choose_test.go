package catalogue

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/internal/cluster"
)

func TestPatternsChooseFlavors(t *testing.T) {
	named := func(name, kind string) Flavor { return Flavor{Flavor: cluster.Flavor{Name: name}, Kind: kind} }
	all := []Flavor{named("m7i.large", ""), named("t3.large", "Burstable"), named("c7i.metal", ""), named("g5.large", "Accelerated"), named("shared/gp1.small", "Burstable")}
	for _, tc := range []struct {
		name     string
		patterns []string
		want     []string
		unknown  []string
	}{
		{"none chooses all that are not special", nil, []string{"m7i.large", "c7i.metal"}, nil},
		{"a name chooses a special one", []string{"t3.large"}, []string{"t3.large"}, nil},
		{"a star stands for any text", []string{"*.large"}, []string{"m7i.large", "t3.large", "g5.large"}, nil},
		{"an exclusion alone narrows down the default", []string{"!*.metal"}, []string{"m7i.large"}, nil},
		{"an exclusion goes before a choice, in whatever order", []string{"!*.metal", "c7i.*", "m*"}, []string{"m7i.large"}, nil},
		{"patterns that match nothing are told", []string{"m7i.*", "x9.*", "!y*"}, []string{"m7i.large"}, []string{"x9.*", "!y*"}},
		{"a star stands for slashes too", []string{"*.small"}, []string{"shared/gp1.small"}, nil},
		{"an exclusion covers names with slashes", []string{"*", "!shared*"}, []string{"m7i.large", "t3.large", "c7i.metal", "g5.large"}, nil},
		{"a question mark stands for a slash too", []string{"shared?gp1.small"}, []string{"shared/gp1.small"}, nil},
		{"a slash stands for itself", []string{"shared/gp*", "m7i/*"}, []string{"shared/gp1.small"}, []string{"m7i/*"}},
		{"a malformed one matches nothing", []string{"[m"}, nil, []string{"[m"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			chosen, unmatched := Choose(tc.patterns, all)
			var names []string
			for _, f := range chosen {
				names = append(names, f.Name)
			}
			if diff := cmp.Diff(tc.want, names); diff != "" {
				t.Errorf("chosen (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.unknown, unmatched); diff != "" {
				t.Errorf("unmatched (-want +got):\n%s", diff)
			}
		})
	}
}
