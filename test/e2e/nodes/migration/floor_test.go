//go:build nodes

package migration

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
	"supercargo.dev/supercargo/test/e2e/nodes/workload"
)

// floor measures what no move can be faster than: runc checkpoints a counter to memory and restores it on the same node,
// and nothing is sent. It returns the pauses that the counter sees.
func (w *town) floor(tb testing.TB, size memory, times int) figure {
	tb.Helper()
	var pauses []float64
	for i := range times {
		pauses = append(pauses, w.floorOnce(tb, size, fmt.Sprintf("floor-%d-%d-%d", size.Mebibytes, size.Zeros, i)).Seconds())
	}
	return figureOf(pauses)
}

func (w *town) floorOnce(tb testing.TB, size memory, id string) time.Duration {
	tb.Helper()
	node := w.fleet.Nodes[0]
	dir := filepath.Join(node.Dir, id)
	w.onNode(tb, node, fmt.Sprintf(`mkdir -p %[1]s/bundle/rootfs %[1]s/memory && mount -t tmpfs -o size=4g none %[1]s/memory && cp %[2]s %[1]s/bundle/rootfs/counter && cd %[1]s/bundle && runc spec`,
		dir, cluster.ProgramPath("workload/counter")))
	tb.Cleanup(func() {
		w.onNode(tb, node, fmt.Sprintf("runc --root %[1]s/state delete --force %[2]s; umount %[1]s/memory; rm -rf %[1]s", dir, id))
	})
	changeSpec(tb, filepath.Join(dir, "bundle/config.json"), size)
	// The output goes through a pipe, because CRIU does not dump a file outside of the container.
	const start = `runc --root %[1]s/state %[2]s --bundle %[1]s/bundle %[3]s </dev/null 2>&1 | cat >>%[1]s/output &`
	w.onNode(tb, node, fmt.Sprintf(start, dir, "run --detach", id))
	before := w.counted(tb, filepath.Join(dir, "output"), 5)
	images := fmt.Sprintf("--image-path %[1]s/memory --work-path %[1]s", dir)
	w.onNode(tb, node, fmt.Sprintf("runc --root %s/state checkpoint %s %s", dir, images, id)+" && "+fmt.Sprintf(start, dir, "restore --detach "+images, id))
	ticks := w.counted(tb, filepath.Join(dir, "output"), before+5)
	all, err := workload.ParseTicks(w.read(tb, filepath.Join(dir, "output")))
	if err == nil {
		err = workload.CheckTicks(all, 1)
	}
	if err != nil || ticks < before {
		tb.Fatalf("the counter that runc restored: %v", err)
	}
	pause, _ := workload.LongestPause(all)
	return pause
}

// changeSpec makes the specification that runc wrote that of a counter.
func changeSpec(tb testing.TB, file string, size memory) {
	tb.Helper()
	var spec map[string]any
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &spec)
	}
	if err != nil {
		tb.Fatal(err)
	}
	process := spec["process"].(map[string]any)
	process["args"], process["terminal"] = []string{"/counter"}, false
	process["env"] = []string{fmt.Sprintf("MB=%d", size.Mebibytes), fmt.Sprintf("ZERO_MB=%d", size.Zeros)}
	spec["root"].(map[string]any)["readonly"] = false
	if text, err = json.Marshal(spec); err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// counted waits until a counter has written a number of values to a file, and returns how many there are.
func (w *town) counted(tb testing.TB, file string, want int) int {
	tb.Helper()
	have := 0
	w.Eventually(fmt.Sprintf("%d values in %s", want, file), func(context.Context) error {
		ticks, err := workload.ParseTicks(w.read(tb, file))
		if have = len(ticks); err == nil && have < want {
			err = fmt.Errorf("it has %d", have)
		}
		return err
	})
	return have
}

func (w *town) read(tb testing.TB, file string) []byte {
	tb.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		tb.Fatal(err)
	}
	return text
}

func (w *town) onNode(tb testing.TB, node *cluster.Node, script string) {
	tb.Helper()
	if out, err := node.Run(w.Context(), "sh", "-c", script); err != nil {
		tb.Fatalf("%s: %v\n%s", script, err, out)
	}
}
