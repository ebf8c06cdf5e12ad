package imports

import (
	"fmt"
	"go/scanner"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"supercargo.dev/supercargo/test/kit/testfile"
)

// clusterWords are words of Kubernetes, in the singular and lower case.
var clusterWords = []string{
	"affinity", "autoscaler", "cluster", "container", "daemon", "deployment", "flavor", "kubernetes", "label", "namespace", "node",
	"nodepool", "pod", "replica", "scheduler", "selector", "spread", "taint", "toleration", "topology", "workload", "zone",
}

// TestPackagesOfNumbersDoNotMentionAWholeCluster checks identifiers and comments.
func TestPackagesOfNumbersDoNotMentionAWholeCluster(t *testing.T) {
	for _, dir := range numbersOnly {
		files, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no files: %v", dir, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			src := testfile.Read(t, file)
			for _, said := range clusterWordsIn(file, src) {
				t.Error(said)
			}
		}
	}
}

func TestWordsOfTheClusterAreFound(t *testing.T) {
	const src = "package a\n\nimport \"x.dev/autoscaler/a\"\n\n// b counts Pods.\nfunc b(nodeName string, episode, perTaint, nodes2 int) string { return \"pod\" }\n"
	want := []string{"a.go:5: pod", "a.go:6: node", "a.go:6: taint", "a.go:6: node"}
	if got := clusterWordsIn("a.go", []byte(src)); !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

// clusterWordsIn returns "FILE:LINE: WORD" for each word of the cluster in the identifiers and comments of a file.
// Strings, such as paths of imports, do not count.
func clusterWordsIn(name string, src []byte) []string {
	files := token.NewFileSet()
	file := files.AddFile(name, -1, len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, scanner.ScanComments)
	var found []string
	for {
		pos, kind, text := s.Scan()
		if kind == token.EOF {
			return found
		}
		if kind != token.IDENT && kind != token.COMMENT {
			continue
		}
		for _, word := range wordsOf(text) {
			word = strings.ToLower(word)
			if slices.Contains(clusterWords, word) || slices.Contains(clusterWords, strings.TrimSuffix(word, "s")) {
				found = append(found, fmt.Sprintf("%s:%d: %s", filepath.Base(name), files.Position(pos).Line, strings.TrimSuffix(word, "s")))
			}
		}
	}
}

// wordsOf splits a text at everything that is no letter, and before capitals.
func wordsOf(text string) []string {
	var words []string
	start := true
	for _, r := range text {
		switch {
		case !unicode.IsLetter(r):
			start = true
			continue
		case start || unicode.IsUpper(r):
			words = append(words, "")
		}
		start = false
		words[len(words)-1] += string(r)
	}
	return words
}
