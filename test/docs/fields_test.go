package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// typesOfTheAPI returns the Go files whose comments describe the API kinds and configurations.
func typesOfTheAPI(t *testing.T) map[string]*ast.File {
	t.Helper()
	all, files := map[string]*ast.File{}, token.NewFileSet()
	for _, pattern := range []string{"v1alpha1/*.go", "adapter/v1alpha1/types.go", "config/v1/types.go"} {
		paths, err := filepath.Glob(filepath.Join("..", "..", "api", filepath.FromSlash(pattern)))
		if err != nil || len(paths) == 0 {
			t.Fatalf("there are no files api/%s: %v", pattern, err)
		}
		for _, path := range paths {
			file, err := parser.ParseFile(files, path, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			all[path] = file
		}
	}
	return all
}

// verbs are the verbs with which the description of a field begins, after its name.
var verbs = []string{"is", "are", "specifies", "contains", "refers", "explains", "identifies", "describes", "describe", "predicts", "maps", "list", "serve", "breaks", "disables", "selects", "explain"}

// TestEachFieldOfTheAPIIsDescribedByItsNameAndAVerb, as in Kubernetes: "replicas is the number of …".
func TestEachFieldOfTheAPIIsDescribedByItsNameAndAVerb(t *testing.T) {
	fields := 0
	for path, file := range typesOfTheAPI(t) {
		ast.Inspect(file, func(n ast.Node) bool {
			field, ok := n.(*ast.Field)
			if !ok || field.Tag == nil {
				return true
			}
			name, _, _ := strings.Cut(reflect.StructTag(strings.Trim(field.Tag.Value, "`")).Get("json"), ",")
			if name == "" || name == "metadata" { // inlined; described by Kubernetes
				return true
			}
			fields++
			words := strings.Fields(field.Doc.Text())
			if len(words) < 3 || words[0] != name || !slices.Contains(verbs, words[1]) {
				t.Errorf("%s: field %s is described as %q, want its name and a verb of %q", path, name, field.Doc.Text(), verbs)
			}
			return true
		})
	}
	if fields < 450 {
		t.Errorf("only %d fields were checked", fields)
	}
}
