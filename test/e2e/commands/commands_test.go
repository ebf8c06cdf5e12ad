//go:build commands

package commands

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"supercargo.dev/supercargo/test/docs/commands"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// TestTenMinutesOnAPlaygroundAreAsDescribed runs all commands of docs/start-playground.md in order.
func TestTenMinutesOnAPlaygroundAreAsDescribed(t *testing.T) {
	s := newShell(t)
	for _, c := range read(t, "docs/start-playground.md") {
		switch {
		case strings.Contains(c.Text, "supercargo playground "):
			s.playground("exec " + c.Text)
		case commands.Of(c).Runs():
			s.runs(c)
		}
		if t.Failed() {
			return // later commands depend on this one
		}
	}
}

// TestTheCommandsOfThePagesWork runs the commands of all other pages on one playground, page by page.
func TestTheCommandsOfThePagesWork(t *testing.T) {
	s := newShell(t)
	s.prepare()
	ran := 0
	for _, page := range pages(t) {
		t.Run(page, func(t *testing.T) {
			in := *s
			in.T = t
			in.must("kubectl apply --server-side --force-conflicts -f test/e2e/commands/testdata/objects.yaml")
			for _, c := range read(t, page) {
				if commands.Of(c).Runs() {
					ran++
					in.runs(c)
				}
			}
		})
	}
	if ran < 100 {
		t.Errorf("only %d commands were run", ran)
	}
}

// pages returns the pages with commands that run here. operations.md is last, because it removes what other pages need.
func pages(t *testing.T) []string {
	t.Helper()
	all := []string{"README.md"}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, entry fs.DirEntry, err error) error {
		if name, ok := strings.CutPrefix(filepath.ToSlash(path), root+"/"); ok && strings.HasSuffix(name, ".md") {
			all = append(all, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	last := "docs/operations.md"
	return append(slices.DeleteFunc(all, func(page string) bool {
		runs := slices.ContainsFunc(read(t, page), func(c commands.Command) bool { return commands.Of(c).Runs() })
		return page == last || page == "docs/start-playground.md" || !runs
	}), last)
}

func read(t *testing.T, page string) []commands.Command {
	t.Helper()
	all, err := commands.Read(root, page)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// names replaces the placeholders of the pages, in capitals, by the names of objects in testdata/objects.yaml.
var names = strings.NewReplacer("NAMESPACE", "shop", "FLEET", "batch", "POOL", "pool", "MACHINE", "machine", "NODE", "worker-3", "POD", "work-0-x7k2p", "NAME", "web")

// runs runs a command of a page.
func (s *shell) runs(c commands.Command) {
	s.Helper()
	text, place := c.Text, commands.Of(c)
	if place != nil {
		text = strings.NewReplacer(place.Replace...).Replace(text)
	}
	if !strings.Contains(text, "custom-columns") && !strings.Contains(text, "range .items") {
		text = names.Replace(text)
	}
	var err error
	if place != nil && place.Until != "" {
		err = s.runUntil("exec "+text, place.Until)
	} else {
		_, err = s.run(prints(text))
	}
	if err != nil {
		s.Errorf("%s:%d: %s: %v", c.Page, c.Line, text, err)
	}
}

// prepare starts a playground, installs the parts whose objects the commands name, and writes the user's files that they
// read.
func (s *shell) prepare() {
	s.Helper()
	s.playground("exec bin/supercargo playground --nodes 2 --flavors test/data/aws/flavors.csv --machine-lag 10s --kubeconfig playground.kubeconfig --metrics-adapter --query-bind-address 127.0.0.1:9090")
	// The playground's own webhook has another address than that of the manifests.
	s.must("kubectl delete validatingwebhookconfiguration supercargo-evictions --ignore-not-found")
	for _, part := range []string{"base", "autoscaler", "descheduler", "agent", "meter", "evictions/open", "scheduler/second"} {
		s.must("kubectl apply -k manifests/" + part)
	}
	s.must("kubectl apply -f manifests/samples/machineprofile.yaml")
	flavors := testfile.Read(s, root+"/test/data/aws/flavors.csv")
	s.write("flavors.csv", string(flavors))
	s.write("clouds.yaml", "clouds: {}\n")
	s.write("my-values.yaml", valuesOfThePage(s.T))
	s.write("my-manifests.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: mine}\n")
	var power strings.Builder
	power.WriteString("utilization,watts\n")
	for i := range 60 { // a machine that draws 100 W when idle and 300 W under full load
		fmt.Fprintf(&power, "%.3f,%.1f\n", float64(i*37%60)/60, 100+200*float64(i*37%60)/60+float64(i%3))
	}
	s.write("series.csv", power.String())
	// A time series of a service, with the column names that `fit service` expects.
	s.must("supercargo replicas -f test/data/web/wikipedia.csv --interpolate --law inversequeue --samples samples.csv >/dev/null" +
		" && { echo time,replicas,rate_per_s,response_s; tail -n +2 samples.csv | cut -d, -f1,7,3,4 | awk -F, '{print $1\",\"$4\",\"$2\",\"$3}'; } >service.csv")
}

// valuesOfThePage returns the values file that docs/operations.md shows.
func valuesOfThePage(t *testing.T) string {
	t.Helper()
	text := testfile.Read(t, root+"/docs/operations.md")
	_, after, ok := strings.Cut(string(text), "    # my-values.yaml\n")
	if !ok {
		t.Fatal("docs/operations.md shows no my-values.yaml")
	}
	values, _, _ := strings.Cut(after, "\n\n")
	return strings.ReplaceAll("\n"+values, "\n    ", "\n") + "\n"
}
