package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// retired maps words that Kubernetes users do not know to their replacements.
var retired = map[string]string{
	`LookedAfter`:                          "Reconciled",
	`DecidesAnew`:                          "Retrying",
	`(stands?|stood) still`:                "is frozen, has stopped, hangs",
	`falls? free`:                          "become empty",
	`by and by`:                            "gradually, exponentially weighted",
	`reckon(ed)?`:                          "compute",
	`foremost`:                             "first",
	`spoilt`:                               "invalid",
	`(written|wrote) down`:                 "dumped, recorded",
	`carried over`:                         "copied",
	`bereft`:                               "orphaned",
	`find no room`:                         "are unschedulable",
	`0 for ever`:                           "0 for no limit",
	`believe[sd]?`:                         "expect, use, trust",
	`(left|leaves?) alone`:                 "in back-off, unchanged, not scaled",
	`given up`:                             "abandoned, cancelled, timed out",
	`standing still`:                       "pausing, frozen",
	`stray`:                                "leftover, orphaned",
	`is free in the figures`:               "is counted as $0",
	`GiveBack`:                             "Release",
	`(gives?|gave|given|giving) back`:      "release",
	`hasten(s|ed|ing)?`:                    "accelerate",
	`looks_total`:                          "evaluations_total",
	`anew`:                                 "again, from the beginning",
	`(goes|going|went) on`:                 "continue, resume",
	`dearer`:                               "more expensive",
	`looked after`:                         "reconciled, managed",
	`vessel`:                               "bin",
	`bell`:                                 "signal",
	`turns? the pod that is too much away`: "rejects the excess pod",
}

// retiredWords finds any of them.
var retiredWords = regexp.MustCompile(`(?i)\b(` + strings.Join(slices.Collect(maps.Keys(retired)), "|") + `)\b`)

// TestNoRetiredWordIsShownToUsers checks the pages, the manifests and every string of the programs. It does
// not check comments, which users do not see; those of api become descriptions of the
// CustomResourceDefinitions, which are manifests.
func TestNoRetiredWordIsShownToUsers(t *testing.T) {
	for _, root := range []string{"../../README.md", "../../CONTRIBUTING.md", "../../docs", "../../manifests"} {
		walk(t, root, func(path string) {
			if strings.Contains(path, "decisions") { // decision records keep their original text
				return
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for i, line := range strings.Split(string(text), "\n") {
				tellRetired(t, path, i+1, line)
			}
		}, ".md", ".yaml", ".yml")
	}
	for _, root := range []string{"api", "autoscaler", "cmd", "descheduler", "internal", "lab", "plugins"} {
		walk(t, filepath.Join("..", "..", root), func(path string) {
			if strings.HasSuffix(path, "_test.go") {
				return
			}
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if literal, is := n.(*ast.BasicLit); is && literal.Kind == token.STRING {
					if text, err := strconv.Unquote(literal.Value); err == nil {
						tellRetired(t, path, files.Position(literal.Pos()).Line, text)
					}
				}
				return true
			})
		}, ".go")
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
		if got, _ := retiredIn(tc.text); got != tc.want {
			t.Errorf("in %q %q is found, want %q", tc.text, got, tc.want)
		}
	}
}

func tellRetired(t *testing.T, path string, line int, text string) {
	t.Helper()
	if word, instead := retiredIn(text); word != "" {
		t.Errorf("%s:%d says %q: say %q", path, line, word, instead)
	}
}

// retiredIn returns a retired word of the text and its replacement, or "".
func retiredIn(text string) (word, instead string) {
	found := retiredWords.FindString(text)
	for pattern, better := range retired {
		if found != "" && regexp.MustCompile(`(?i)^(`+pattern+`)$`).MatchString(found) {
			return found, better
		}
	}
	return "", ""
}

// walk calls a function with each file below root that has one of the extensions.
func walk(t *testing.T, root string, use func(path string), extensions ...string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		for _, extension := range extensions {
			if strings.HasSuffix(path, extension) {
				use(path)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
