package trace

import (
	"bufio"
	"io"
	"strings"
	"time"
)

// WritePods writes pods as a generic trace that [ReadPods] reads back equal,
// provided they are ordered by arrival and name and their names and other texts
// are valid. Memory that is no whole number of MiB is written with decimals.
func WritePods(w io.Writer, pods []Pod) error {
	b := bufio.NewWriter(w)
	b.WriteString("arrival_s,cpu_milli,memory_mib,runtime_s,name,class,category,arch\n")
	var line []byte
	for _, p := range pods {
		line = appendDecimal(line[:0], int64(p.Arrival), int64(time.Second))
		line = appendDecimal(append(line, ','), p.MilliCPU, 1)
		line = appendDecimal(append(line, ','), p.MemoryBytes, bytesPerMiB)
		line = appendDecimal(append(line, ','), int64(p.Runtime), int64(time.Second))
		line = appendCells(line, p.Name, string(p.Class), p.Category, p.Arch)
		b.Write(append(line, '\n'))
	}
	return b.Flush()
}

// WriteFlavors writes a catalogue that [ReadFlavors] reads back equal, provided
// the flavors are ordered by name and valid.
func WriteFlavors(w io.Writer, flavors []Flavor) error {
	b := bufio.NewWriter(w)
	b.WriteString("cpu,memory_gib,price_per_hour,max_pods,watts_idle,watts_full,name,arch,machine_type\n")
	var line []byte
	for _, f := range flavors {
		line = appendDecimal(line[:0], f.MilliCPU, 1000)
		line = appendDecimal(append(line, ','), f.MemoryBytes, bytesPerGiB)
		line = appendDecimal(append(line, ','), f.MicroDollarsPerHour, microPerDollar)
		line = appendOptional(line, f.MaxPods, 1, f.MaxPods > 0)
		line = appendOptional(line, f.MilliwattsIdle, 1000, f.MilliwattsFull > 0)
		line = appendOptional(line, f.MilliwattsFull, 1000, f.MilliwattsFull > 0)
		line = appendCells(line, f.Name, f.Arch, f.MachineType)
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
	return appendDecimal(dst, value, unit)
}

// appendCells writes texts, each after a comma and quoted where it must be.
func appendCells(dst []byte, texts ...string) []byte {
	for _, text := range texts {
		dst = append(dst, ',')
		if !strings.ContainsAny(text, ",\"") {
			dst = append(dst, text...)
			continue
		}
		dst = append(dst, '"')
		dst = append(dst, strings.ReplaceAll(text, `"`, `""`)...)
		dst = append(dst, '"')
	}
	return dst
}
