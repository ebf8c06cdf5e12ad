package commands

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"supercargo.dev/supercargo/test/kit/testfile"
)

// read returns the texts of the commands of a page.
func read(t *testing.T, text string) ([]string, error) {
	t.Helper()
	folder := t.TempDir()
	testfile.Write(t, filepath.Join(folder, "page.md"), text)
	all, err := Read(folder, "page.md")
	var texts []string
	for _, c := range all {
		texts = append(texts, c.Text)
	}
	return texts, err
}

func TestCommandsAreFoundInBlocks(t *testing.T) {
	for name, tc := range map[string]struct {
		page string
		want []string
	}{
		"an indented block, with comments": {"Text.\n\n    # first\n    make build   # all\n    kubectl get pods\n", []string{"make build", "kubectl get pods"}},
		"a list":                           {"1. Do:\n\n       helm list\n", []string{"helm list"}},
		"continued lines":                  {"\n    kubectl get \\\n      pods\n    supercargo plan |\n      kubectl apply -f -\n", []string{"kubectl get pods", "supercargo plan | kubectl apply -f -"}},
		"a fence with output":              {"```\n$ kubectl drain a\nnode/a drained\n```\n", []string{"kubectl drain a"}},
		"YAML below":                       {"\n    make\n\n    kind: Pod\n", []string{"make"}},
		"YAML in a fence":                  {"```yaml\nmake: 1\n```\n", nil},
		"a paragraph of a list":            {"1. make it\n    make no mistake\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := read(t, tc.page); err != nil || !slices.Equal(got, tc.want) {
				t.Errorf("found %q (%v), want %q", got, err, tc.want)
			}
		})
	}
}

func TestUnknownProgramsAreNotPassedOver(t *testing.T) {
	for _, page := range []string{"\n    frobnicate --all\n", "\n    make build\n    frobnicate --all\n", "```sh\nfrobnicate x\n```\n"} {
		if got, err := read(t, page); err == nil || !strings.Contains(err.Error(), "frobnicate") {
			t.Errorf("in %q it finds %q and the error %v, want one that names the program", page, got, err)
		}
	}
}

func TestTheFirstPlaceThatMatchesCounts(t *testing.T) {
	for text, runs := range map[string]bool{"make build": false, "supercargo audit": true, "kubectl get pods": true, "kubectl logs x": false} {
		if got := Of(Command{Page: "docs/x.md", Text: text}).Runs(); got != runs {
			t.Errorf("%s runs on the playground: %v, want %v", text, got, runs)
		}
	}
}
