package trace

import (
	"encoding/csv"
	"io"
	"math/big"
	"strconv"
	"time"

	"supercargo.dev/supercargo/internal/input/table"
)

// writePods writes pods as a generic trace from which [ReadPods] reads equal pods, if they are
// ordered by arrival and name and their names and other texts are valid. Memory that is not a whole
// number of MiB has decimals.
func writePods(w io.Writer, pods []Pod) error {
	rows := [][]string{{"arrival_s", "cpu_milli", "memory_mib", "runtime_s", "name", "class", "category", "arch"}}
	for _, p := range pods {
		rows = append(rows, []string{
			exact(int64(p.Arrival), int64(time.Second)), strconv.FormatInt(p.Size.MilliCPU, 10), exact(p.Size.MemoryBytes, table.BytesPerMiB),
			exact(int64(p.Runtime), int64(time.Second)), p.Name, string(p.Class), p.Category, p.Arch,
		})
	}
	return csv.NewWriter(w).WriteAll(rows)
}

// exact formats value/unit with all decimals, for units up to a MiB.
func exact(value, unit int64) string { return big.NewRat(value, unit).FloatString(20) }
