package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// reasonWord matches literals that may be reasons or actions.
var reasonWord = regexp.MustCompile(`^"[A-Z][a-z]+(?:[A-Z][A-Za-z]*)*"$`)

// notReported are folders whose reasons are in no condition and no Event of ours.
var notReported = []string{
	"cli",            // it prints the reasons of others
	"cmd",            // as above
	"internal/world", // conditions of pods, which it reads
	"plugins/checkpointstaging/stagingdecide", // words of log lines
}

// TestReasonsAndActionsAreConstants fails for each literal where a reason or an action is expected, and for each
// constant that nothing uses.
func TestReasonsAndActionsAreConstants(t *testing.T) {
	used := map[string]bool{}
	for _, folder := range []string{"autoscaler", "cli", "cmd", "descheduler", "energy", "internal", "moves", "plugins"} {
		walk(t, filepath.Join(root, folder), func(path string) {
			if strings.HasSuffix(path, "_test.go") {
				return
			}
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if s, is := n.(*ast.SelectorExpr); is {
					used[s.Sel.Name] = true
				}
				return true
			})
			if !slices.ContainsFunc(notReported, func(f string) bool { return strings.HasPrefix(path, filepath.Join(root, f)) }) {
				for _, literal := range reasonLiterals(file) {
					t.Errorf("%s: %s is a reason or an action: use a constant of api/v1alpha1/reasons.go", files.Position(literal.Pos()), literal.Value)
				}
			}
		}, ".go")
	}
	for name, value := range reasonConstants(t) {
		if !used[name] {
			t.Errorf("nothing uses %s", name)
		}
		if !strings.HasSuffix(name, value) {
			t.Errorf("constant %s is %q", name, value)
		}
	}
}

// reasonLiterals returns the literals in a file where a reason or an action is expected: as an argument of a function that
// records Events, or sets conditions or failures, and as the value of a field or variable reason, Reason or Action.
func reasonLiterals(file *ast.File) (found []*ast.BasicLit) {
	note := func(e ast.Expr) {
		if literal, is := e.(*ast.BasicLit); is && reasonWord.MatchString(literal.Value) {
			found = append(found, literal)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if takesReasons.MatchString(nameOf(n.Fun)) {
				for _, e := range n.Args {
					note(e)
				}
			}
		case *ast.CompositeLit:
			if holdsReasons.MatchString(nameOf(n.Type)) {
				for _, e := range n.Elts {
					note(e)
				}
			}
		case *ast.KeyValueExpr:
			if isReason(n.Key) {
				note(n.Value)
			}
		case *ast.AssignStmt:
			for i, to := range n.Lhs {
				if isReason(to) && len(n.Lhs) == len(n.Rhs) {
					note(n.Rhs[i])
				}
			}
		case *ast.ValueSpec:
			for i, name := range n.Names {
				if strings.HasPrefix(strings.ToLower(name.Name), "reason") && i < len(n.Values) {
					note(n.Values[i])
				}
			}
		}
		return true
	})
	return found
}

// takesReasons matches functions, and holdsReasons types, that have a reason among their arguments or fields.
var (
	takesReasons = regexp.MustCompile(`^(Eventf|Event|EventAbout|Condition|record\w*Event\w*|tell\w*|condition|set|setCondition|refuse|refused|fail|failed|idle|notReady|Fail)$`)
	holdsReasons = regexp.MustCompile(`^(waiting|refusal|Refusal|fault|targetFault|Event|Told)$`)
)

func isReason(e ast.Expr) bool {
	name := nameOf(e)
	return name == "reason" || name == "Reason" || name == "action" || name == "Action"
}

// nameOf returns the last part of the name of a function, type, field or variable, or "".
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// reasonConstants returns the constants of the file of reasons, and their values.
func reasonConstants(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "api/v1alpha1/reasons.go"), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		if v, is := n.(*ast.ValueSpec); is {
			if literal, is := v.Values[0].(*ast.BasicLit); is {
				all[v.Names[0].Name], _ = strconv.Unquote(literal.Value) // the parser has accepted it
			}
		}
		return true
	})
	if len(all) < 200 {
		t.Fatalf("found only %d constants", len(all))
	}
	return all
}

// TestReasonsInPagesExist finds conditions such as `Ready=False, Failed` in pages. CHANGELOG has old names.
func TestReasonsInPagesExist(t *testing.T) {
	known := map[string]bool{}
	for _, value := range reasonConstants(t) {
		known[value] = true
	}
	found := 0
	for _, p := range pages(t) {
		if p.name == "CHANGELOG.md" || strings.HasPrefix(p.name, "docs/decisions/") {
			continue
		}
		for _, match := range conditionWithReason.FindAllStringSubmatch(p.text, -1) {
			if found++; !known[match[1]] {
				t.Errorf("%s says %s, which is no reason", p.name, match[0])
			}
		}
	}
	if found < 10 {
		t.Errorf("found only %d", found)
	}
}

// conditionWithReason matches a condition and its reason in a page.
var conditionWithReason = regexp.MustCompile("`[A-Z]\\w+=(?:True|False|Unknown),\\s+([A-Z]\\w+)`")

func TestLiteralsInPlaceOfReasonsAreFound(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "", `package p
func f() {
	r.Eventf(o, nil, kind, "Scaled", v1alpha1.ActionScale, "text %s")
	c := metav1.Condition{Type: v1alpha1.FleetReady, Reason: "Failed"}
	reason, message := "NoRoom", "There is none"
	panic(fault{"Gone", "it is gone"})
}`, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, literal := range reasonLiterals(file) {
		got = append(got, literal.Value)
	}
	if want := []string{`"Scaled"`, `"Failed"`, `"NoRoom"`, `"Gone"`}; !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
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
