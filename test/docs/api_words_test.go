package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// unusual maps words that Kubernetes' API reference and manifests do not use to standard terms. Unlike
// retired words, they may be used in pages and messages.
var unusual = map[string]string{
	`(gives?|given|gave|giving) (\w+ )?(back|away)`: "released, deleted",
	`comes? free`:                                 "becomes available",
	`(is|are|was|were) taken (to|for)`:            "is assumed to, counts as",
	`(is|are|was|were) told`:                      "is configured, is instructed",
	`looks? (at|for|into)|looked (at|after|into)`: "evaluates, checks, reads",
	`who(ever|soever)`:                            "clients that",
	`those that there are`:                        "existing",
	`so many`:                                     "this number of",
	`goes on|go on|went on`:                       "continues",
	`anew`:                                        "again",
	`reckon(s|ed)?`:                               "computes",
	`heeds?`:                                      "respects",
	`passed over`:                                 "ignored, not chosen",
	`put right`:                                   "fixed",
	`on (its|their) way`:                          "starting, in progress",
	`under way`:                                   "in progress",
	`says? (which|what|how|when|where|why|so|that|it)`: "specifies, explains, reports",
	`(is|are) to (be|do|have|follow|buy|keep)`:         "should, will, must",
	`stands? in`: "is in",
	`said to be`: "named",
	`what (is|was|are) (said|seen|measured|done|bought)`: "a noun",
}

var unusualWords = regexp.MustCompile(`(?i)\b(` + strings.Join(slices.Sorted(maps.Keys(unusual)), "|") + `)\b`)

// unusualIn returns an unusual word of the text and its replacement, or "".
func unusualIn(text string) (word, instead string) {
	found := unusualWords.FindString(text)
	for _, pattern := range slices.Sorted(maps.Keys(unusual)) {
		if found != "" && regexp.MustCompile(`(?i)^(`+pattern+`)$`).MatchString(found) {
			return found, unusual[pattern]
		}
	}
	return "", ""
}

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

// TestTheAPIAndManifestsAreDescribedInStandardTerms checks the output of kubectl explain, and what users read
// in manifests and the chart. Descriptions of flags come from the programs.
func TestTheAPIAndManifestsAreDescribedInStandardTerms(t *testing.T) {
	for path, file := range typesOfTheAPI(t) {
		for _, group := range file.Comments {
			if word, instead := unusualIn(strings.Join(strings.Fields(group.Text()), " ")); word != "" {
				t.Errorf("%s says %q in %q: say %q", path, word, group.Text(), instead)
			}
		}
	}
	walk(t, "../../manifests", func(path string) {
		if filepath.Base(path) == "values.schema.json" {
			return
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			if word, instead := unusualIn(line); word != "" {
				t.Errorf("%s:%d says %q: say %q", path, i+1, word, instead)
			}
		}
	}, ".yaml", ".json", ".txt", ".tmpl", ".md")
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
		t.Errorf("only %d fields were looked at", fields)
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
		if got, _ := unusualIn(text); got != want {
			t.Errorf("in %q %q is found, want %q", text, got, want)
		}
	}
}
