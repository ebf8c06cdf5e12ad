package meter

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	testclock "k8s.io/utils/clock/testing"

	"supercargo.dev/supercargo/energy"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// tree is a node's root folder with files in the format of Linux.
type tree struct {
	t    *testing.T
	root string
}

func newTree(t *testing.T) tree { return tree{t, t.TempDir()} }

// write writes one line to a file below the root.
func (d tree) write(file string, value any) {
	d.t.Helper()
	path := filepath.Join(d.root, file)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(fmt.Sprintln(value)), 0o644); err != nil {
		d.t.Fatal(err)
	}
}

// wrapAt is the range of a package's counter on many machines.
const wrapAt = 262_143_328_850

// zone creates a counter of powercap. limit is its greatest power limit in watts; 0 for none.
func (d tree) zone(id, name string, limit int) {
	d.t.Helper()
	dir := filepath.Join(powercap, id)
	d.write(filepath.Join(dir, "name"), name)
	d.write(filepath.Join(dir, "max_energy_range_uj"), uint64(wrapAt))
	d.write(filepath.Join(dir, "energy_uj"), 1_000_000)
	if limit > 0 {
		d.write(filepath.Join(dir, "constraint_0_power_limit_uw"), limit*1_000_000)
		d.write(filepath.Join(dir, "constraint_0_max_power_uw"), limit*500_000)
	}
}

// counter sets the counter of a zone.
func (d tree) counter(id string, microjoules uint64) {
	d.t.Helper()
	d.write(filepath.Join(powercap, id, "energy_uj"), microjoules)
}

// server creates the counters of a machine with two packages: memory beside each, parts within
// each, the platform above them, and one package a second time.
func (d tree) server() {
	d.t.Helper()
	d.write(filepath.Join(powercap, "intel-rapl", "enabled"), 1) // the control type, which has no name
	d.zone("intel-rapl:0", "package-0", 200)
	d.zone("intel-rapl:0:0", "core", 0)
	d.zone("intel-rapl:0:1", "uncore", 0)
	d.zone("intel-rapl:0:2", "dram", 40)
	d.zone("intel-rapl:1", "package-1", 200)
	d.zone("intel-rapl:1:0", "dram", 40)
	d.zone("intel-rapl:2", "psys", 800)
	d.zone("intel-rapl-mmio:0", "package-0", 200)
	d.zone("intel-rapl-mmio:0:0", "dram", 40)
	d.zone("dtpm:0", "package-9", 0) // another control type
}

// sensor creates a power sensor of the board.
func (d tree) sensor(device, chip, file, label string, microwatts int64) {
	d.t.Helper()
	dir := filepath.Join(hwmonDir, device)
	d.write(filepath.Join(dir, "name"), chip)
	d.write(filepath.Join(dir, file), microwatts)
	if label != "" {
		name, _, _ := strings.Cut(file, "_")
		d.write(filepath.Join(dir, name+"_label"), label)
	}
}

// stat creates /proc/stat of a node with two CPUs with busy and idle time in ticks.
func (d tree) stat(busy, idle uint64) {
	d.t.Helper()
	d.write("proc/stat", fmt.Sprintf("cpu  %d 0 0 %d 0 0 0 0 0 0\ncpu0 1 1 1 1\ncpu1 1 1 1 1\nintr 5 5", busy, idle))
}

// meter returns the meter of the tree. Its clock stands at noon.
func (d tree) meter(o Options) (*Meter, *testclock.FakeClock) {
	d.t.Helper()
	clock := testclock.NewFakeClock(noon)
	o.Node, o.Root, o.Clock, o.Log = "n1", d.root, clock, testr.New(d.t)
	m, err := New(o)
	if err != nil {
		d.t.Fatal(err)
	}
	return m, clock
}

// wantReading checks the newest reading.
func wantReading(t *testing.T, m *Meter, source energy.Source, watts energy.Watts) {
	t.Helper()
	r, ok := m.Last()
	if !ok || r.Source != source || !(r.Watts > watts-1e-6 && r.Watts < watts+1e-6) || !r.At.Equal(m.Clock.Now()) {
		t.Fatalf("reading %+v, %t; want %v W from %s, now", r, ok, watts, source)
	}
}
