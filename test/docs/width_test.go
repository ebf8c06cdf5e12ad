package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// widest is the maximum width of a line of prose.
const widest = 140

// TestProseIsWrapped fails for lines of prose that are too wide. Tables are not wrapped, nor are links, code and other text
// without a place to break it.
func TestProseIsWrapped(t *testing.T) {
	for _, p := range pages(t) {
		if !slices.Contains([]string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"}, p.name) && !strings.HasPrefix(p.name, "docs/") ||
			strings.HasPrefix(p.name, "docs/reference/") || strings.HasPrefix(p.name, "docs/decisions/") || p.name == "docs/exported-metrics.md" {
			continue
		}
		for i, line := range p.prose() {
			if tooWide(line) {
				t.Errorf("%s:%d has %d columns, want at most %d", p.name, i+1, utf8.RuneCountInString(line), widest)
			}
		}
	}
}

// widestCell is the maximum width of a cell of a table, without the targets of links: longer text belongs below the table, or in
// several rows.
const widestCell = 240

// TestCellsAreShort fails for cells of tables that are too wide. Generated pages have the texts of the programs.
func TestCellsAreShort(t *testing.T) {
	for _, p := range pages(t) {
		if !strings.HasPrefix(p.name, "docs/") && strings.Contains(p.name, "/") ||
			strings.HasPrefix(p.name, "docs/reference/") || strings.HasPrefix(p.name, "docs/decisions/") || p.name == "docs/exported-metrics.md" {
			continue
		}
		for i, line := range p.prose() {
			if width := widestOf(line); width > widestCell {
				t.Errorf("%s:%d has a cell of %d columns, want at most %d", p.name, i+1, width, widestCell)
			}
		}
	}
}

// linkTarget matches the target of a link.
var linkTarget = regexp.MustCompile(`\]\([^)]*\)`)

// widestOf returns the width of the widest cell of a row, or 0 if the line is no row.
func widestOf(line string) (width int) {
	if !strings.HasPrefix(line, "|") {
		return 0
	}
	for _, cell := range strings.Split(strings.ReplaceAll(line, `\|`, "/"), "|") {
		width = max(width, utf8.RuneCountInString(strings.TrimSpace(linkTarget.ReplaceAllString(cell, "]"))))
	}
	return width
}

func TestTheWidestCellIsFound(t *testing.T) {
	for line, want := range map[string]int{"| a | four |": 4, "| a \\| b | c |": 5, "| [link](" + strings.Repeat("x", 300) + ") |": 6, "a | longer": 0} {
		if got := widestOf(line); got != want {
			t.Errorf("the widest cell of %q has %d columns, want %d", line, got, want)
		}
	}
}

func tooWide(line string) bool {
	text := strings.TrimSpace(line)
	if utf8.RuneCountInString(line) <= widest || strings.HasPrefix(text, "|") || strings.HasPrefix(text, "#") || strings.HasPrefix(text, "<!--") {
		return false
	}
	return !strings.ContainsAny(strings.TrimLeft(text, "(!*- ")[:1], "[`")
}

func TestWideProseIsFound(t *testing.T) {
	word := strings.Repeat("word ", 30)
	for line, want := range map[string]bool{word: true, "- " + word: true, "| " + word: false, "short": false, "[a link](" + strings.Repeat("x", 150) + ")": false} {
		if got := tooWide(line); got != want {
			t.Errorf("tooWide(%q) is %v", line, got)
		}
	}
}
