package trace

import (
	"bufio"
	"io"
	"time"

	"supercargo.dev/supercargo/internal/input/table"
)

// writePods writes pods as a generic trace that [ReadPods] reads back equal,
// provided they are ordered by arrival and name and their names and other texts
// are valid. Memory that is no whole number of MiB is written with decimals.
func writePods(w io.Writer, pods []Pod) error {
	b := bufio.NewWriter(w)
	b.WriteString("arrival_s,cpu_milli,memory_mib,runtime_s,name,class,category,arch\n")
	var line []byte
	for _, p := range pods {
		line = table.AppendDecimal(line[:0], int64(p.Arrival), int64(time.Second))
		line = table.AppendDecimal(append(line, ','), p.MilliCPU, 1)
		line = table.AppendDecimal(append(line, ','), p.MemoryBytes, table.BytesPerMiB)
		line = table.AppendDecimal(append(line, ','), int64(p.Runtime), int64(time.Second))
		line = table.AppendCells(line, p.Name, string(p.Class), p.Category, p.Arch)
		b.Write(append(line, '\n'))
	}
	return b.Flush()
}
