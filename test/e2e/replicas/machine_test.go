//go:build replicas

package replicas

import (
	"fmt"
	"strings"
	"testing"

	"supercargo.dev/supercargo/test/kit/testfile"
)

// machine contains the CPU time counters of the machine since boot, in ticks.
type machine struct {
	total, idle, stolen uint64
}

// readMachine reads /proc/stat.
func readMachine(t *testing.T) machine {
	t.Helper()
	text := testfile.Read(t, "/proc/stat")
	first, _, _ := strings.Cut(string(text), "\n")
	var user, nice, system, idle, wait, hard, soft, stolen uint64
	if _, err := fmt.Sscanf(first, "cpu %d %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &wait, &hard, &soft, &stolen); err != nil {
		t.Fatalf("read /proc/stat: %v", err)
	}
	return machine{total: user + nice + system + idle + wait + hard + soft + stolen, idle: idle + wait, stolen: stolen}
}

// since returns how busy the CPUs were, and the share of time that the host stole although processes were
// runnable. On such a machine replicas are slower than their quotas, whatever a law does.
func (m machine) since(before machine) (busyPercent, stolenPercent float64) {
	total := max(float64(m.total-before.total), 1)
	return round(100 * (1 - float64(m.idle-before.idle)/total)), round(100 * float64(m.stolen-before.stolen) / total)
}
