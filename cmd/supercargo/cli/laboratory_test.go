package cli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/cmd/internal/command"
	laboratorycli "supercargo.dev/supercargo/cmd/supercargo-lab/cli"
)

func TestDescriptionsOfTheLaboratoryAreItsOwn(t *testing.T) {
	want := map[string]string{}
	for _, c := range laboratorycli.NewRootCommand("supercargo").Commands() {
		if c.Name() != "version" {
			want[c.Name()] = c.Short
		}
	}
	if diff := cmp.Diff(want, laboratoryCommands); diff != "" {
		t.Errorf("descriptions (-laboratory +here):\n%s", diff)
	}
}

func TestWhatTheLaboratoryRuns(t *testing.T) {
	for line, want := range map[string]bool{
		"":                               false,
		"simulate":                       true,
		"simulate -f x --policy default": true,
		"playground --help":              true,
		"fit power -h":                   true,
		"help simulate":                  true,
		"help fit power":                 true,
		"help":                           false,
		"help audit":                     false,
		"audit simulate":                 false,
		"plan --pods simulate":           false,
		"__complete simul":               false, // the name itself
		"__complete simulate":            false,
		"__complete simulate --pol":      true,
		"__completeNoDesc fit power -":   true,
		"__complete audit --re":          false,
		"simulat":                        false,
		"version":                        false,
	} {
		if got := isLaboratory(strings.Fields(line)); got != want {
			t.Errorf("supercargo %s: %v, want %v", line, got, want)
		}
	}
}

func TestTheLaboratoryIsFoundBesideSupercargoElseOnThePath(t *testing.T) {
	program := func(dir, name string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700); err != nil { // #nosec G306 -- a program
			t.Fatal(err)
		}
		return path
	}
	beside, links, onPath, empty := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	own := program(beside, "supercargo")
	link := filepath.Join(links, "kubectl-supercargo")
	if err := os.Symlink(own, link); err != nil {
		t.Fatal(err)
	}
	besideLab, onPathLab := program(beside, laboratoryProgram), program(onPath, laboratoryProgram)
	alone := program(empty, "supercargo")
	for _, tc := range []struct {
		name, own, path, want string
	}{
		{"beside", own, onPath, besideLab},
		{"beside what a link leads to", link, onPath, besideLab},
		{"on the PATH", alone, onPath, onPathLab},
		{"nowhere", alone, empty, ""},
		{"where this program is, is not known", "", onPath, onPathLab},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv("PATH", tc.path)
			got, err := findLaboratory(func() (string, error) {
				if tc.own == "" {
					return "", errors.New("unknown")
				}
				return tc.own, nil
			})
			if got != tc.want || (err == nil) != (tc.want != "") {
				t.Errorf("found %q (%v), want %q", got, err, tc.want)
			}
		})
	}
}

func TestWithoutTheLaboratoryItsCommandsSayHowToGetIt(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var stdout, stderr bytes.Buffer
	for _, args := range [][]string{{"supercargo", "simulate", "-f", "-"}, {"supercargo", "help", "fit"}} {
		stdout.Reset()
		stderr.Reset()
		code := Main(args, strings.NewReader(""), &stdout, &stderr)
		if code != command.ExitFailed || stdout.Len() > 0 {
			t.Errorf("%v: exit code %d and %q on stdout, want %d and nothing", args, code, stdout.String(), command.ExitFailed)
		}
		for _, want := range []string{"supercargo-lab", "PATH", "make bin/supercargo-lab"} {
			if !strings.Contains(stderr.String(), want) {
				t.Errorf("%v: stderr is %q, want it to mention %q", args, stderr.String(), want)
			}
		}
	}
}
