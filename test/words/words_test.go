package words

import (
	"slices"
	"testing"
)

// root is the root of the repository.
const root = "../.."

// TestNoRetiredWordIsShownToUsers checks every place of the repository in which there are words, also those that only
// developers see.
func TestNoRetiredWordIsShownToUsers(t *testing.T) {
	found, err := find(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		t.Error(f)
	}
}

// TestRetiredWordsAreFoundInEachPlace reads a tree with one retired word in each place.
func TestRetiredWordsAreFoundInEachPlace(t *testing.T) {
	found, err := find("testdata/tree")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range found {
		got = append(got, f.String())
	}
	want := []string{
		`.ci/run:2 says "as ever": use "as usual"`,
		`CHANGELOG.md:3 says "reckons": use "compute"`,
		`Makefile:2 says "one does well": use "we recommend"`,
		`api/v1alpha1/reasons.go:4 says "falls free": use "become empty"`,
		`api/v1alpha1/reasons.go:5 says "Volume": use "what is wrong with it, such as VolumeUnsupported"`,
		`docs/page.md:3 says "only that is looked at": use "only that node is evaluated"`,
		`docs/page.md:6 says "says so": use "reports it"`,
		`fleet/apart_test.go:0 says "apart": use "otherCluster, antiaffinity"`,
		`fleet/fleet.go:3 says "lets go of": use "release"`,
		`fleet/fleet.go:6 says "give back": use "release, return"`,
		`fleet/fleet.go:9 says "tell": use "recordEvent, report, print"`,
		`fleet/fleet.go:9 says "told": use "reported, logged, printed"`,
		`fleet/fleet.go:9 says "dearer": use "more expensive"`,
		`fleet/fleet.go:11 says "goes on": use "continue, resume"`,
		`manifests/role.yaml:1 says "put right": use "fixed"`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("found\n%q\nwant\n%q", got, want)
	}
}

func TestRetiredWordsAreFound(t *testing.T) {
	tests := []struct{ text, want string }{
		{"Ready: True (LookedAfter)", "LookedAfter"},
		{"the pod stood still for 3 s", "stood still"},
		{"a machine was given back", "given back"},
		{"its state is computed first", ""},
		{"the bystander", ""},
	}
	for _, tc := range tests {
		got := ""
		for _, m := range matchers[prose].in(tc.text) {
			got = m.word
		}
		if got != tc.want {
			t.Errorf("in %q %q is found, want %q", tc.text, got, tc.want)
		}
	}
}

func TestUnusualWordsAreFound(t *testing.T) {
	for text, want := range map[string]string{
		"machines that are given back":             "given back",
		"pods wait for room that Comes free":       "Comes free",
		"is how often the fleet is looked at":      "looked at",
		"interval is the maximum time of a round":  "",
		"the saying of the day is that it goes by": "",
	} {
		got := ""
		for _, m := range matchers[api].in(text) {
			got = m.word
		}
		if got != want {
			t.Errorf("in %q %q is found, want %q", text, got, want)
		}
	}
}

func TestEachMatchContainsANeedle(t *testing.T) {
	for pattern, want := range map[string][]string{
		`heed(s|ed|ing)?`:                      {"heed"},
		`(stands?|stood) still|standing still`: {"still", "standing"},
		`looks?( at)? again`:                   {"again"},
		`tells?`:                               {"tell"},
		`look(s|ed)? (after|into)`:             {"look"},
		`LookedAfter`:                          {"lookedafter"},
		`(a|first) look|(two|three) looks`:     {"look", "looks"},
	} {
		if got := needles(pattern); !slices.Equal(got, want) {
			t.Errorf("the needles of %s are %q, want %q", pattern, got, want)
		}
	}
}

func TestNamesAreSplitIntoWords(t *testing.T) {
	for name, want := range map[string]string{
		"GiveBack": "give back", "give_back": "give back", "give-back": "give back", "HTTPServer": "http server", "look": "look", "Lookup": "lookup", "aB": "a b",
	} {
		if got := wordsOf(name); got != want {
			t.Errorf("the words of %s are %q, want %q", name, got, want)
		}
	}
}

// TestTheAPIAndManifestsAreDescribedInStandardTerms checks the output of kubectl explain, and what users read in manifests
// and the chart. Words that are unusual there may be used in pages and messages. Descriptions of flags come from the
// programs.
func TestTheAPIAndManifestsAreDescribedInStandardTerms(t *testing.T) {
	read := 0
	for _, path := range []string{"api/v1alpha1/nodefleet_types.go", "api/adapter/v1alpha1/types.go", "api/config/v1/types.go"} {
		if describes(path) {
			read++
		}
	}
	if read != 3 || describes("api/config/v1/defaults.go") {
		t.Error("the descriptions of some kinds are not read")
	}
}
