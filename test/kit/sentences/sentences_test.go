package sentences

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"supercargo.dev/supercargo/test/kit/testfile"
)

func TestSentencesAreTheStringsOfSeveralWordsThatAreNoErrors(t *testing.T) {
	dir := t.TempDir()
	testfile.Write(t, filepath.Join(dir, "a.go"), `// Package a says nothing here.
package a

import "fmt"

type kind struct {
	Field string `+"`json:\"a field\"`"+`
}

func said(n int) (string, error) {
	if n < 0 {
		return "", fmt.Errorf("a negative number %d", n)
	}
	return "one" + fmt.Sprintf("%d %s, %d", n, "moved to a node", n), nil
}
`)
	testfile.Write(t, filepath.Join(dir, "a_test.go"), "package a\n\nconst of = \"a test only\"\n")
	if got := slices.Collect(maps.Keys(In(t, filepath.Join(dir, "*.go")))); !slices.Equal(got, []string{"moved to a node"}) {
		t.Errorf("found %q, want the one sentence", got)
	}
}

func TestAPatternMatchesWhatAFormatPrints(t *testing.T) {
	for format, texts := range map[string][2]string{ // what matches, and what does not
		"%d of its %s fit": {"2 of its 3 pods fit", "2 of its 3 pods do not"},
		"%.1f %% more":     {"3.5 % more", "3.5 more"},
		" Used: %s":        {"Used: 3 %", "Unused: 3 %"},
	} {
		if p := Pattern(format); !p.MatchString(texts[0]) || p.MatchString(texts[1]) {
			t.Errorf("%q gives %v, which must match %q and not %q", format, p, texts[0], texts[1])
		}
	}
}
