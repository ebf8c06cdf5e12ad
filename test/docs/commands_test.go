package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"supercargo.dev/supercargo/test/docs/commands"
)

// TestEveryCommandOfThePagesIsRunByATest checks the list of places: each test in it exists, each entry is needed, and
// only commands that cannot run in a test lack one. test/e2e/commands runs the others.
func TestEveryCommandOfThePagesIsRunByATest(t *testing.T) {
	var names []string
	for _, p := range pages(t) {
		names = append(names, p.name)
	}
	all, err := commands.Read(root, names...)
	if err != nil {
		t.Fatal(err)
	}
	tests := testsOfTheTree(t)
	used := map[*commands.Place]bool{}
	ran := 0
	for _, c := range all {
		place := commands.Of(c)
		used[place] = true
		if place.Runs() {
			ran++
		}
	}
	for i := range commands.Places {
		p := &commands.Places[i]
		if !used[p] {
			t.Errorf("no command matches the entry %q of pages %q: remove it", p.Command, p.Pages)
		}
		if p.Test != "" && !tests[p.Test] {
			t.Errorf("there is no test %s, which the entry %q names", p.Test, p.Command)
		}
	}
	if len(all) < 250 || ran < 100 {
		t.Errorf("found %d commands, of which %d run on the playground", len(all), ran)
	}
}

// testsOfTheTree returns the names of all test functions.
func testsOfTheTree(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && slices.Contains(skipped, entry.Name()) {
			return filepath.SkipDir
		}
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, match := range function.FindAllSubmatch(text, -1) {
			found[string(match[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
