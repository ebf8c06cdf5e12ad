package catalogue

import (
	"bufio"
	"io"

	"supercargo.dev/supercargo/internal/input/table"
)

// WriteFlavors writes a catalogue that [ReadFlavors] reads back equal, provided
// the flavors are ordered by name and valid.
func WriteFlavors(w io.Writer, flavors []Flavor) error {
	b := bufio.NewWriter(w)
	b.WriteString("cpu,memory_gib,price_per_hour,max_pods,watts_idle,watts_full,name,arch,machine_type\n")
	var line []byte
	for _, f := range flavors {
		line = table.AppendDecimal(line[:0], f.MilliCPU, 1000)
		line = table.AppendDecimal(append(line, ','), f.MemoryBytes, bytesPerGiB)
		line = table.AppendDecimal(append(line, ','), f.MicroDollarsPerHour, microPerDollar)
		line = appendOptional(line, f.MaxPods, 1, f.MaxPods > 0)
		line = appendOptional(line, f.MilliwattsIdle, 1000, f.MilliwattsFull > 0)
		line = appendOptional(line, f.MilliwattsFull, 1000, f.MilliwattsFull > 0)
		line = table.AppendCells(line, f.Name, f.Arch, f.MachineType)
		b.Write(append(line, '\n'))
	}
	return b.Flush()
}

// appendOptional writes a cell that stays empty when the number is not stated.
func appendOptional(dst []byte, value, unit int64, stated bool) []byte {
	dst = append(dst, ',')
	if !stated {
		return dst
	}
	return table.AppendDecimal(dst, value, unit)
}
