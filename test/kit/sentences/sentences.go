// Package sentences checks that every sentence which a package can print is in a table of its tests, with a case in which
// the sentence is printed because it is true, and a near case in which it is not true and not printed.
package sentences

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Case is a sentence as the source has it, with its verbs such as %s; what is printed where it is true; and what is
// printed in a near case, where it is not.
type Case [3]string

// Check fails for each case whose sentence is not printed where it is true, or is printed where it is not, and for each sentence of the sources that has no
// case. The files are patterns as of [filepath.Glob]. exempt are sentences that are not printed, each with the reason.
func Check(t *testing.T, files []string, cases []Case, exempt map[string]string) {
	t.Helper()
	found := In(t, files...)
	known := map[string]bool{}
	for _, c := range cases {
		text, says, not := c[0], c[1], c[2]
		known[text] = true
		if _, is := found[text]; !is {
			t.Errorf("%q is in the table but not in the sources", text)
		}
		pattern := Pattern(text)
		if !pattern.MatchString(says) {
			t.Errorf("%q is not printed where it is true:\n%s", text, says)
		}
		if at := pattern.FindString(not); at != "" {
			t.Errorf("%q is printed where it is not true, as %q", text, at)
		}
	}
	for text := range exempt {
		if _, is := found[text]; !is || known[text] {
			t.Errorf("%q is exempt but not in the sources, or has a case", text)
		}
	}
	for text, at := range found {
		if !known[text] && exempt[text] == "" {
			t.Errorf("%s: the sentence %q has no case in the table", at, text)
		}
	}
}

var (
	verb = regexp.MustCompile(`%[-+#0-9.*]*[a-zA-Z]`)
	word = regexp.MustCompile(`\p{L}{2,}`)
)

// Pattern matches the texts that a format string can print.
func Pattern(format string) *regexp.Regexp {
	parts := verb.Split(strings.ReplaceAll(format, "%%", "\x00"), -1)
	for i := range parts {
		parts[i] = regexp.QuoteMeta(strings.ReplaceAll(parts[i], "\x00", "%"))
	}
	return regexp.MustCompile(strings.TrimSpace(strings.Join(parts, `.*?`)))
}

// In returns the sentences of Go files, without tests, each with its position: the strings of at least two words that are
// no tag, no import, and no text of an error that the caller gets.
func In(t *testing.T, patterns ...string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no files %s: %v", pattern, err)
		}
		for _, file := range files {
			if !strings.HasSuffix(file, "_test.go") {
				read(t, file, all)
			}
		}
	}
	return all
}

func read(t *testing.T, file string, into map[string]string) {
	t.Helper()
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			return n.Tag == nil // tags are in struct types, whose fields have no other strings
		case *ast.CallExpr:
			return !fails(n.Fun)
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING && isSentence(text) {
				into[text] = set.Position(n.Pos()).String()
			}
		}
		return true
	})
}

// fails reports whether a function makes an error or ends the program.
func fails(function ast.Expr) bool {
	switch f := function.(type) {
	case *ast.Ident:
		return f.Name == "panic"
	case *ast.SelectorExpr:
		of, _ := f.X.(*ast.Ident)
		return of != nil && (of.Name == "fmt" && f.Sel.Name == "Errorf" || of.Name == "errors")
	}
	return false
}

// isSentence reports whether a string has at least two words.
func isSentence(text string) bool {
	return strings.Contains(strings.TrimSpace(text), " ") && len(word.FindAllString(verb.ReplaceAllString(text, ""), 2)) == 2
}
