// Package suites holds the lists of tests in the Makefile to tests that exist: a test that
// is renamed would otherwise silently run in no suite.
package suites

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

func TestEveryListedTestExistsOnce(t *testing.T) {
	defined := integrationTests(t)
	listed := map[string]string{}
	for _, list := range []string{"first_tests", "nightly_tests"} {
		names := listedTests(t, list)
		if len(names) == 0 {
			t.Errorf("Makefile: %s is empty", list)
		}
		for _, name := range names {
			if other, ok := listed[name]; ok {
				t.Errorf("Makefile: %s is in %s and in %s", name, other, list)
			}
			listed[name] = list
			if n := defined[name]; n != 1 {
				t.Errorf("Makefile: %s names %s, which %d integration tests are called", list, name, n)
			}
		}
	}
}

// listedTests reads a variable of the Makefile whose words stand on continued lines.
func listedTests(t *testing.T, variable string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, ok := strings.Cut(string(text), "\n"+variable+" := \\\n")
	if !ok {
		t.Fatalf("Makefile: no variable %s with a name on each line", variable)
	}
	var names []string
	for line := range strings.Lines(after) {
		name, goesOn := strings.CutSuffix(strings.TrimSpace(line), `\`)
		names = append(names, strings.TrimSpace(name))
		if !goesOn {
			break
		}
	}
	return names
}

// integrationTests counts the test functions under test/integration by name.
func integrationTests(t *testing.T) map[string]int {
	t.Helper()
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	count := map[string]int{}
	err := filepath.WalkDir(filepath.Join(root, "test/integration"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil || bytes.HasPrefix(source, []byte("//go:build")) {
			return err // a suite of its own
		}
		for _, match := range function.FindAllSubmatch(source, -1) {
			count[string(match[1])]++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return count
}
