package nodefleet

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// No other test runs at the same time, so that its measurements are meaningful.
func TestAFleetGrowsToTwoHundredMachinesAndShrinksToNothing(t *testing.T) {
	b := newBench(t, "many")
	b.Patience = 10 * time.Minute
	b.flavor("small", "2", "32Gi", "0.05")
	b.flavor("large", "8", "8Gi", "0.30")
	highest := b.highest()
	b.fleet("all")
	b.autoscale()

	began := time.Now()
	b.pods("large", 120, "7500m", "1Gi") // one fills a large machine
	b.pods("small", 80, "500m", "30Gi")  // one fills a small machine
	b.Runs(200)
	b.becomes(map[string]int{"large": 120, "small": 80})
	t.Logf("200 machines after %.1f s; %s", time.Since(began).Seconds(), memory())
	if each, together := highest(); !cmp.Equal(map[string]int{"large": 120, "small": 80}, each) || together != 200 {
		t.Errorf("there were to be %v machines, %d together; want no more than the 200 that are needed", each, together)
	}
	b.Eventually("the bill is known", func() string {
		s := b.get("all").Status
		return cmp.Diff("200 machines, 0 in flight, $40.00/h", fmt.Sprintf("%d machines, %d in flight, $%s/h", s.Machines, s.InFlight, s.Cost.DollarsPerHour))
	})
	if d := b.get("all").Status.LastDecision; d.Expected.DollarsPerHour != "40.00" {
		t.Errorf("the last purchase was expected to lead to $%s/h, want 40.00", d.Expected.DollarsPerHour)
	}

	began = time.Now()
	b.removePods()
	b.becomes(map[string]int{})
	t.Logf("none after another %.1f s; %s", time.Since(began).Seconds(), memory())
	b.Eventually("no machine is left", func() string { return cmp.Diff(0, len(b.machines())) })
}

// memory describes the memory usage of this process, which contains the autoscaler and the control plane.
func memory() string {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	status, _ := os.ReadFile("/proc/self/status")
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	peak, _, _ = strings.Cut(peak, "\n")
	return fmt.Sprintf("autoscaler and control plane: heap %d MiB, resident at most %s", m.HeapAlloc>>20, strings.TrimSpace(peak))
}
