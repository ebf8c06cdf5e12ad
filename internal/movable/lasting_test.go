package movable

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestEveryReasonForWhichAPodIsRefusedLastsOrPasses reads the reasons of condition Eligible=False from their declaration,
// so that a reason that is missing in the table, and would be taken for one that passes, is found.
func TestEveryReasonForWhichAPodIsRefusedLastsOrPasses(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../../api/v1alpha1/reasons.go", nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		if !is || !strings.HasPrefix(spec.Names[0].Name, "MigrationReason") || !strings.Contains(spec.Doc.Text()+markers(spec.Doc), "Eligible=False") {
			return true
		}
		reason, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		found++
		if _, ok := lasting[reason]; !ok {
			t.Errorf("reason %s is not in the table", reason)
		}
		return true
	})
	if found < 30 {
		t.Errorf("only %d reasons were found", found)
	}
}

// markers returns the lines of a comment that its text omits.
func markers(doc *ast.CommentGroup) string {
	var lines []string
	for _, c := range doc.List {
		lines = append(lines, c.Text)
	}
	return strings.Join(lines, "\n")
}

func TestRefusalsThatLastAreToldFromThoseThatPass(t *testing.T) {
	all := []Refusal{{Reason: "NodeNotReady"}, {Reason: "EmptyDirUnsupported"}, {Reason: "TargetUnsuitable"}, {Reason: "ServiceUnsupported"}, {Reason: "OfALaterAgent"}}
	lasting, passing := Split(all)
	if diff := cmp.Diff([]Refusal{all[1], all[3]}, lasting); diff != "" {
		t.Errorf("those that last (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Refusal{all[0], all[2], all[4]}, passing); diff != "" {
		t.Errorf("those that pass (-want +got):\n%s", diff)
	}
}
