package words

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A finding is a retired word in a place.
type finding struct {
	path      string // from the root
	line      int    // 0 in names of files
	word, use string
}

func (f finding) String() string {
	return fmt.Sprintf("%s:%d says %q: use %q", f.path, f.line, f.word, f.use)
}

// matchers has one expression for each scope, with a group for each of its rules.
var matchers = func() map[scope]matcher {
	all := map[scope]matcher{}
	for _, where := range []scope{prose, names, shipped, files, reasons, pages, api} {
		var m matcher
		var patterns []string
		for _, r := range table {
			if r.where == where {
				pattern := strings.ReplaceAll(r.pattern, " ", `\s+`)
				patterns = append(patterns, pattern)
				m.rules = append(m.rules, regexp.MustCompile(`(?i)^(`+pattern+`)$`))
				m.uses = append(m.uses, r.use)
				for _, needle := range needles(r.pattern) {
					m.needles = append(m.needles, []byte(needle))
				}
			}
		}
		m.any = regexp.MustCompile(`(?i)\b(` + strings.Join(patterns, "|") + `)\b`)
		all[where] = m
	}
	return all
}()

type matcher struct {
	any   *regexp.Regexp
	rules []*regexp.Regexp
	uses  []string
	// needles are words without which no rule matches. Most texts have none, and finding out costs little.
	needles [][]byte
}

var (
	alternative = regexp.MustCompile(`(?:[^|()]|\([^()]*\)\??)+`)
	optional    = regexp.MustCompile(`\([^()]*\)\??|\[[^]]*\]|\\w\+|[a-z]\?`)
	letters     = regexp.MustCompile(`[a-z]+`)
)

// needles returns the longest word of each alternative of a pattern that is in every match of it.
func needles(pattern string) (all []string) {
	for _, a := range alternative.FindAllString(pattern, -1) {
		longest := ""
		for _, word := range letters.FindAllString(optional.ReplaceAllString(strings.ToLower(a), "|"), -1) {
			if len(word) > len(longest) {
				longest = word
			}
		}
		all = append(all, longest)
	}
	return all
}

// a match is a retired word at an offset of a text.
type match struct {
	at        int
	word, use string
}

// in returns the retired words of a text.
func (m matcher) in(text string) (found []match) {
	for _, part := range m.parts(text) {
		for _, at := range m.any.FindAllStringIndex(text[part.from:part.to], -1) {
			word := text[part.from+at[0] : part.from+at[1]]
			for i, rule := range m.rules {
				if rule.MatchString(word) {
					found = append(found, match{part.from + at[0], strings.Join(strings.Fields(word), " "), m.uses[i]})
					break
				}
			}
		}
	}
	return found
}

// A part is a part of a text, in bytes.
type part struct{ from, to int }

// around is the maximum length of a match, in bytes.
const around = 80

// parts returns the whole words around the needles in a text, in order and without overlap.
func (m matcher) parts(text string) (parts []part) {
	lower := []byte(text)
	for i, c := range lower {
		if 'A' <= c && c <= 'Z' {
			lower[i] = c + 'a' - 'A'
		}
	}
	for _, needle := range m.needles {
		for at := bytes.Index(lower, needle); at >= 0; {
			p := part{max(0, at-around), min(len(text), at+around)}
			for p.from > 0 && letter(lower[p.from-1]) {
				p.from--
			}
			for p.to < len(text) && letter(lower[p.to]) {
				p.to++
			}
			parts = append(parts, p)
			next := bytes.Index(lower[at+1:], needle)
			if next < 0 {
				break
			}
			at += 1 + next
		}
	}
	slices.SortFunc(parts, func(a, b part) int { return a.from - b.from })
	merged := parts[:0]
	for _, p := range parts {
		if last := len(merged) - 1; last >= 0 && p.from <= merged[last].to {
			merged[last].to = max(merged[last].to, p.to)
		} else {
			merged = append(merged, p)
		}
	}
	return merged
}

func letter(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '_' }

// skipped are folders without text of ours: built, recorded, and copied from other projects.
var skipped = []string{".git", "bin", "dist", "vendor", "testdata", "test/data", "test/words", "docs/decisions", "lab/playground/clusterapi"}

// find returns the retired words in all files below a root.
func find(root string) (found []finding, err error) {
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path) // path is below root
		name = filepath.ToSlash(name)
		if entry.IsDir() && (slices.Contains(skipped, name) || slices.Contains(skipped, entry.Name())) {
			return filepath.SkipDir
		}
		stem, _, _ := strings.Cut(entry.Name(), ".")
		for _, m := range append(matchers[prose].in(wordsOf(stem)), matchers[files].in(wordsOf(stem))...) {
			found = append(found, finding{path: name, word: m.word, use: m.use})
		}
		if !entry.Type().IsRegular() || !read(name) {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		more, err := inFile(name, string(text))
		found = append(found, more...)
		return err
	})
	return found, err
}

// read reports whether a file has text of ours.
func read(name string) bool {
	switch filepath.Ext(name) {
	case ".go":
		return !strings.HasPrefix(filepath.Base(name), "zz_generated")
	case ".yaml", ".yml":
		return strings.HasPrefix(name, "manifests/") || strings.HasPrefix(name, "hack/") || strings.HasPrefix(name, "test/scenarios/")
	case ".md", ".sh", ".tpl", ".js", ".html":
		return true
	}
	return filepath.Base(name) == "Makefile" || strings.HasPrefix(name, ".ci/") || strings.HasPrefix(name, "hack/") && filepath.Ext(name) == ""
}

// code matches what CHANGELOG quotes: old names and messages.
var code = regexp.MustCompile("(?s)`[^`]*`|\"[^\"]*\"")

// inFile returns the retired words of a file.
func inFile(name, text string) ([]finding, error) {
	switch {
	case filepath.Ext(name) == ".go":
		return inGo(name, text)
	case name == "CHANGELOG.md":
		text = code.ReplaceAllStringFunc(text, blank)
	}
	found := findings(name, 1, flat(text), prose)
	if filepath.Ext(name) == ".md" {
		found = append(found, findings(name, 1, flat(text), pages)...)
	}
	if strings.HasPrefix(name, "manifests/") {
		found = append(found, findings(name, 1, flat(text), api)...)
	}
	return found, nil
}

// inGo returns the retired words in the comments, the strings and the declared names of a Go file.
func inGo(name, text string) (found []finding, err error) {
	positions := token.NewFileSet()
	file, err := parser.ParseFile(positions, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", name, err)
	}
	line := func(n ast.Node) int { return positions.Position(n.Pos()).Line }
	checked := map[string]bool{} // names that are declared more than once are reported once
	for _, group := range file.Comments {
		comment := flat(text[positions.Position(group.Pos()).Offset:positions.Position(group.End()).Offset])
		found = append(found, findings(name, line(group), comment, prose)...)
		if describes(name) {
			found = append(found, findings(name, line(group), comment, api)...)
		}
	}
	tags := map[*ast.BasicLit]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		for _, id := range declared(n) {
			if checked[id.Name] {
				continue
			}
			checked[id.Name] = true
			found = append(found, findings(name, line(id), wordsOf(id.Name), prose)...)
			if !test.MatchString(id.Name) {
				found = append(found, findings(name, line(id), wordsOf(id.Name), names)...)
			}
			if !strings.HasSuffix(name, "_test.go") && !strings.HasPrefix(name, "test/") {
				found = append(found, findings(name, line(id), wordsOf(id.Name), shipped)...)
			}
		}
		switch n := n.(type) {
		case *ast.Field:
			tags[n.Tag] = true
		case *ast.BasicLit:
			if s, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING && !tags[n] {
				found = append(found, findings(name, line(n), s, prose)...)
				if strings.HasSuffix(name, "api/v1alpha1/reasons.go") {
					for _, m := range matchers[reasons].in(s) {
						if m.word == s {
							found = append(found, finding{name, line(n), m.word, m.use})
						}
					}
				}
			}
		}
		return true
	})
	return found, nil
}

// test matches the names of test functions.
var test = regexp.MustCompile(`^(Test|Benchmark|Fuzz|Example)`)

// describes reports whether the comments of a file are the descriptions of kinds.
func describes(name string) bool {
	dir, base := filepath.Split(name)
	return dir == "api/v1alpha1/" || dir == "api/adapter/v1alpha1/" && base == "types.go" || dir == "api/config/v1/" && base == "types.go"
}

// declared returns the identifiers that a node declares.
func declared(n ast.Node) (ids []*ast.Ident) {
	expressions := func(all ...ast.Expr) {
		for _, e := range all {
			if id, is := e.(*ast.Ident); is {
				ids = append(ids, id)
			}
		}
	}
	switch n := n.(type) {
	case *ast.File:
		return []*ast.Ident{n.Name}
	case *ast.FuncDecl:
		return []*ast.Ident{n.Name}
	case *ast.TypeSpec:
		return []*ast.Ident{n.Name}
	case *ast.ValueSpec:
		return n.Names
	case *ast.Field:
		return n.Names
	case *ast.AssignStmt:
		if n.Tok == token.DEFINE {
			expressions(n.Lhs...)
		}
	case *ast.RangeStmt:
		if n.Tok == token.DEFINE {
			expressions(n.Key, n.Value)
		}
	}
	return ids
}

// findings returns the retired words in a text that begins at a line of a file.
func findings(name string, line int, text string, where scope) (found []finding) {
	for _, m := range matchers[where].in(text) {
		found = append(found, finding{name, line + strings.Count(text[:m.at], "\n"), m.word, m.use})
	}
	return found
}

// marker matches the beginning of a line of a comment.
var marker = regexp.MustCompile(`(?m)^[ \t]*(//+|#+|\*|>)`)

// flat returns a text with the markers of its comments blanked out, so that a phrase may continue on the next line.
func flat(text string) string { return marker.ReplaceAllStringFunc(text, blank) }

// blank returns a text of the same length and with the same lines, but without words.
func blank(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' {
			return r
		}
		return ' '
	}, text)
}

// wordsOf returns the words of a name in lower case: "give back" of GiveBack, give_back and give-back.
func wordsOf(name string) string {
	var b strings.Builder
	for i, r := range name {
		switch {
		case r == '_' || r == '-':
			r = ' '
		case i > 0 && 'A' <= r && r <= 'Z' && (lower(name[i-1]) || i+1 < len(name) && lower(name[i+1])):
			b.WriteByte(' ')
		}
		b.WriteRune(r)
	}
	return strings.ToLower(b.String())
}

func lower(c byte) bool { return 'a' <= c && c <= 'z' }
