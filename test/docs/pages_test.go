package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the root of the repository.
const root = "../.."

// skipped are folders without files of ours.
var skipped = []string{".git", "bin", "dist", "vendor", "testdata"}

// page is a page of the documentation.
type page struct {
	name string // from the root of the repository
	text string
}

// pages returns every page of the repository: the README and similar pages, docs/ with the decisions, and the
// pages beside manifests and data.
func pages(t *testing.T) (found []page) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains(skipped, entry.Name()) {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".md" {
			return nil
		}
		text, err := os.ReadFile(path)
		found = append(found, page{strings.TrimPrefix(filepath.ToSlash(path), root+"/"), string(text)})
		return err
	})
	if err != nil || len(found) < 25 {
		t.Fatalf("found %d pages: %v", len(found), err)
	}
	return found
}

// fence matches the delimiters of code blocks.
var fence = regexp.MustCompile("^\\s*```")

// prose returns the lines of a page with code blanked out, so that they keep their numbers.
func (p page) prose() (lines []string) {
	code := false
	for _, line := range strings.Split(p.text, "\n") {
		if fence.MatchString(line) {
			code, line = !code, ""
		}
		if code || strings.HasPrefix(line, "    ") {
			line = ""
		}
		lines = append(lines, line)
	}
	return lines
}

// brokenTables says where lines that look like a table are none, or lose cells: GitHub wants a
// line of dashes below the first and drops cells beyond it.
func brokenTables(p page) (faults []string) {
	separator := regexp.MustCompile(`^\|(?:\s*:?-+:?\s*\|)+\s*$`)
	columns := 0
	lines := p.prose()
	for i, line := range lines {
		if !strings.HasPrefix(line, "|") {
			columns = 0
			continue
		}
		n := cells(line)
		switch {
		case columns == 0 && (i+1 == len(lines) || !separator.MatchString(lines[i+1])):
			faults = append(faults, fmt.Sprintf("%s:%d: rows without a line of dashes below the first", p.name, i+1))
			columns = n
		case columns == 0:
			columns = n
		case n != columns:
			faults = append(faults, fmt.Sprintf("%s:%d: %d cells, and the table has %d", p.name, i+1, n, columns))
		}
	}
	return faults
}

// cells counts the cells of a row, whose pipes may be escaped.
func cells(row string) int {
	return strings.Count(strings.ReplaceAll(strings.TrimSpace(row), `\|`, ""), "|") - 1
}

func TestTablesAreWhole(t *testing.T) {
	for text, want := range map[string]int{
		"| a | b |\n| --- | --- |\n| 1 | 2 |":              0,
		"| a | b |\n| --- | --- |\n| 1 | 2 |\n\n| 3 | 4 |": 1,
		"| a | b |\n| --- | --- |\n| 1 |":                  1,
		"| a | b |\n| --- | --- |\n| 1 | x \\| y |":        0,
		"| a | b |\n| 1 | 2 |":                             1,
		"    | a | b |\n\n```\n| b |\n```":                 0,
	} {
		if got := brokenTables(page{"a page", text}); len(got) != want {
			t.Errorf("%q: faults %q, want %d", text, got, want)
		}
	}
	for _, p := range pages(t) {
		for _, fault := range brokenTables(p) {
			t.Error(fault)
		}
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`^#+ +(.*)$`)
	inSlug  = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// anchors returns the anchors that GitHub gives the headings of a page.
func (p page) anchors() map[string]bool {
	found := map[string]bool{}
	for _, line := range p.prose() {
		if match := heading.FindStringSubmatch(line); match != nil {
			text := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(match[1], "$1")
			found[strings.ReplaceAll(inSlug.ReplaceAllString(strings.ToLower(text), ""), " ", "-")] = true
		}
	}
	return found
}

// TestLinksLeadSomewhere: those into the repository, to files, folders and headings.
func TestLinksLeadSomewhere(t *testing.T) {
	all := pages(t)
	byName := map[string]page{}
	for _, p := range all {
		byName[p.name] = p
	}
	found := 0
	for _, p := range all {
		for i, line := range p.prose() {
			for _, match := range link.FindAllStringSubmatch(line, -1) {
				if strings.Contains(match[1], "://") || strings.HasPrefix(match[1], "mailto:") {
					continue
				}
				found++
				file, anchor, _ := strings.Cut(match[1], "#")
				target := filepath.ToSlash(filepath.Join(filepath.Dir(p.name), file))
				if file == "" {
					target = p.name
				}
				if _, err := os.Stat(filepath.Join(root, target)); err != nil {
					t.Errorf("%s:%d links to %s, which is not there", p.name, i+1, match[1])
				} else if to, ok := byName[target]; anchor != "" && ok && !to.anchors()[anchor] {
					t.Errorf("%s:%d links to %s, which has no such heading", p.name, i+1, match[1])
				}
			}
		}
	}
	if found < 100 {
		t.Errorf("found only %d links", found)
	}
}

// replacesArguments finds patches that set all arguments of a container in place of adding
// one: JSON patches, as kubectl patch and kustomize have them.
var replacesArguments = regexp.MustCompile(`path["']?\s*:\s*["']?[^\s"',}]*/(?:args|command)(?:/\d+)?["']?\s*(?:[,}]|$)`)

// TestNoPatchReplacesArguments: what the manifests, an overlay or another page gave a program
// must outlast the option that a page adds.
func TestNoPatchReplacesArguments(t *testing.T) {
	for text, bad := range map[string]bool{
		`-p '[{"op": "add", "path": "/spec/template/spec/containers/0/args", "value": ["--probing=Act"]}]'`:   true,
		`-p '[{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--probing=Act"}]'`:   false,
		"  path: /spec/template/spec/containers/0/args":                                                       true,
		"  path: /spec/template/spec/containers/0/args/0":                                                     true,
		"  path: /spec/template/spec/containers/0/args/-":                                                     false,
		"- {op: add, path: /spec/template/spec/containers/0/args, value: [--prometheus=x]}":                   true,
		"- {op: add, path: /spec/template/spec/containers/0/args/-, value: --prometheus-ca=/etc/args/ca.crt}": false,
	} {
		if replacesArguments.MatchString(text) != bad {
			t.Errorf("it is found to replace arguments: %v, want %v:\n%s", !bad, bad, text)
		}
	}
	texts := pages(t)
	err := filepath.WalkDir(root+"/manifests", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != "kustomization.yaml" {
			return err
		}
		text, err := os.ReadFile(path)
		texts = append(texts, page{path, string(text)})
		if strings.Contains(string(text), " args:") {
			t.Errorf("%s: a list of args in a strategic merge patch replaces all arguments; append to …/args/- by a JSON patch", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range texts {
		for i, line := range strings.Split(p.text, "\n") {
			if replacesArguments.MatchString(line) {
				t.Errorf("%s:%d replaces all arguments; append to …/args/-: %s", p.name, i+1, strings.TrimSpace(line))
			}
		}
	}
}
