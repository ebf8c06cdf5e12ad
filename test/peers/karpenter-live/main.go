// Command karpenter-live copies the source code of the Karpenter that this module requires to a new folder,
// with its constant waits divided by a factor, to build it there with `go build ./kwok`.
//
// A comparison in compressed time needs it: with machines that arrive within seconds and pods that live for
// seconds, waits that suit a cloud would determine the result.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// module is the module path of Karpenter.
const module = "sigs.k8s.io/karpenter"

func main() {
	factor := flag.Int("factor", 30, "what to divide waits by")
	out := flag.String("out", "", "folder for the copy, which must not be there yet")
	flag.Parse()
	if err := run(*factor, *out); err != nil {
		fmt.Fprintln(os.Stderr, "karpenter-live:", err)
		os.Exit(1)
	}
}

func run(factor int, out string) error {
	if factor < 1 {
		return fmt.Errorf("-factor %d: want 1 or more", factor)
	}
	if _, err := os.Lstat(out); out == "" || err == nil {
		return fmt.Errorf("-out %q: want a folder that is not there yet", out)
	}
	sources, err := findSources()
	if err != nil {
		return err
	}
	return copySources(sources, out, factor)
}

// findSources returns the folder of Karpenter's source code in the module cache.
func findSources() (string, error) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("find the sources of %s: %w", module, err)
	}
	return strings.TrimSpace(string(dir)), nil
}

// copySources copies the source code and shortens the waits in the copy.
func copySources(sources, out string, factor int) error {
	if err := os.CopyFS(out, os.DirFS(sources)); err != nil {
		return fmt.Errorf("copy Karpenter's sources: %w", err)
	}
	for _, w := range waits {
		file := filepath.Join(out, w.file)
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read a file of Karpenter: %w", err)
		}
		changed, err := w.shorten(string(text), factor)
		if err != nil {
			return fmt.Errorf("change Karpenter's %s: %w; adapt the list of waits to this version", w.file, err)
		}
		if err := os.WriteFile(file, []byte(changed), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// wait is a constant duration in a file of Karpenter.
type wait struct {
	file string
	// expression is the source text, with a bar on either side of the duration.
	expression string
	// times is the number of occurrences of the expression in the file.
	times int
}

// waits lists the waits that matter when machines are ordered, arrive and are released without failures.
var waits = []wait{
	// Between two checks for machines to release.
	{"pkg/controllers/disruption/controller.go", "const pollingPeriod = |10 * time.Second|", 1},
	// Until its cluster state has synced.
	{"pkg/controllers/disruption/controller.go", "reconciler.Result{RequeueAfter: |time.Second|}", 1},
	// Until a decision to release is validated.
	{"pkg/controllers/disruption/consolidation.go", "const commandValidationDelay = |15 * time.Second|", 1},
	// Between two checks whether a replacement has arrived.
	{"pkg/controllers/disruption/queue.go", "queueBaseDelay          = |1 * time.Second|", 1},
	// How long a node stays nominated for a pod, and is kept.
	{"pkg/controllers/state/statenode.go", "BatchMaxDuration, |10*time.Second|)", 1},
	// Until a pod that is still pending is checked again.
	{"pkg/controllers/provisioning/controller.go", "reconcile.Result{RequeueAfter: |10 * time.Second|}", 2},
	// Between two updates that the pods of a machine have changed.
	{"pkg/controllers/nodeclaim/podevents/controller.go", "const dedupeTimeout = |10 * time.Second|", 1},
	// After each write for a machine, and after a conflict.
	{"pkg/controllers/nodeclaim/lifecycle/controller.go", "c.clock.Sleep(|time.Second|)", 1},
	{"pkg/controllers/nodeclaim/lifecycle/controller.go", "[reconcile.Request](|time.Second|, time.Minute)", 1},
	// From the taint until an empty machine is deleted, and between two checks of a drain.
	{"pkg/controllers/node/termination/controller.go", "MinDrainTime  = |5 * time.Second|", 1},
	{"pkg/controllers/node/termination/controller.go", "reconcile.Result{RequeueAfter: |1 * time.Second|}", 3},
}

// shorten divides the wait in a file's text.
func (w wait) shorten(text string, factor int) (string, error) {
	parts := strings.Split(w.expression, "|")
	if len(parts) != 3 {
		return "", fmt.Errorf("%q marks no duration", w.expression)
	}
	original := strings.Join(parts, "")
	if found := strings.Count(text, original); found != w.times {
		return "", fmt.Errorf("%q stands in it %d times, want %d", original, found, w.times)
	}
	return strings.ReplaceAll(text, original, fmt.Sprintf("%s(%s)/%d%s", parts[0], parts[1], factor, parts[2])), nil
}
