package docs

import (
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
