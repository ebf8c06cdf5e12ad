package catalogue

import (
	"encoding/csv"
	"io"
	"math/big"
	"strconv"
)

// writeFlavors writes a catalogue that [ReadFlavors] reads back equal, if the flavors are valid and sorted by name.
func writeFlavors(w io.Writer, flavors []Flavor) error {
	rows := [][]string{{"cpu", "memory_gib", "price_per_hour", "max_pods", "watts_idle", "watts_full", "name", "arch", "machine_type"}}
	for _, f := range flavors {
		row := []string{exact(f.Size.MilliCPU, 1000), exact(f.Size.MemoryBytes, bytesPerGiB), exact(f.MicroDollarsPerHour, microPerDollar), "", "", "", f.Name, f.Arch, f.MachineType}
		if f.MaxPods != nil {
			row[3] = strconv.FormatInt(*f.MaxPods, 10)
		}
		if f.MilliwattsFull > 0 {
			row[4], row[5] = exact(f.MilliwattsIdle, 1000), exact(f.MilliwattsFull, 1000)
		}
		rows = append(rows, row)
	}
	return csv.NewWriter(w).WriteAll(rows)
}

// exact formats value/unit with all decimals, for units up to that of a GiB.
func exact(value, unit int64) string { return big.NewRat(value, unit).FloatString(30) }
