// Package suites checks that the tests listed in the Makefile exist. Otherwise a renamed test would silently
// run in no suite.
package suites

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"supercargo.dev/supercargo/test/kit/testfile"
)

const root = "../.."

func TestEveryListedTestExistsOnce(t *testing.T) {
	defined := definedTests(t, "test/integration", "test/e2e/openstack", "test/e2e/nodes")
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
				t.Errorf("Makefile: %s names %s, which %d tests are called", list, name, n)
			}
		}
	}
}

// listedTests reads a variable of the Makefile whose words are on continued lines.
func listedTests(t *testing.T, variable string) []string {
	t.Helper()
	_, after, ok := strings.Cut(readMakefile(t), "\n"+variable+" := \\\n")
	if !ok {
		t.Fatalf("Makefile: no variable %s with a name on each line", variable)
	}
	var names []string
	for line := range strings.Lines(after) {
		name, continues := strings.CutSuffix(strings.TrimSpace(line), `\`)
		names = append(names, strings.TrimSpace(name))
		if !continues {
			break
		}
	}
	return names
}

// definedTests counts the test functions in and below folders by name.
func definedTests(t *testing.T, folders ...string) map[string]int {
	t.Helper()
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	count := map[string]int{}
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			for _, match := range function.FindAllSubmatch(source, -1) {
				count[string(match[1])]++
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return count
}

// TestEveryBuildTagHasATarget finds tests that no target builds.
func TestEveryBuildTagHasATarget(t *testing.T) {
	makefile := readMakefile(t)
	constraint := regexp.MustCompile(`(?m)^//go:build (.*)$`)
	for _, folder := range []string{"test", "autoscaler", "descheduler", "internal", "plugins", "cmd"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			match := constraint.FindSubmatch(source)
			if match == nil {
				return err
			}
			for _, tag := range strings.FieldsFunc(string(match[1]), func(r rune) bool { return strings.ContainsRune("&|!() ", r) }) {
				if tag != runtime.GOOS && !regexp.MustCompile(`-tags [a-z0-9.,]*\b`+tag+`\b`).MatchString(makefile) {
					t.Errorf("%s is built with the tag %s, and no target of the Makefile sets that", path, tag)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func readMakefile(t *testing.T) string {
	t.Helper()
	text := testfile.Read(t, filepath.Join(root, "Makefile"))
	return string(text)
}
