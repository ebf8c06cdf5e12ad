package gpushare

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"

	"supercargo.dev/supercargo/internal/packing/gpus"
)

// maxDevices is the maximum number of GPUs of a node.
const maxDevices = 16

// Node is one node of the cluster.
type Node struct {
	// Name is unique.
	Name string
	// Size is what it has without pods.
	Size gpus.Node
}

// ReadNodes reads a list of nodes as CSV with the columns sn, cpu_milli, memory_mib and gpu, which is the number of its GPUs.
// Other columns are ignored. An error names the line.
func ReadNodes(r io.Reader) ([]Node, error) {
	rows := csv.NewReader(r)
	header, err := rows.Read()
	if err != nil {
		return nil, fmt.Errorf("read the header of the list of nodes: %w", err)
	}
	at := map[string]int{}
	for i, name := range header {
		at[name] = i
	}
	for _, name := range []string{"sn", "cpu_milli", "memory_mib", "gpu"} {
		if _, is := at[name]; !is {
			return nil, fmt.Errorf("the list of nodes has no column %s", name)
		}
	}
	var nodes []Node
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return nodes, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the list of nodes: %w", err)
		}
		n, err := nodeOf(row, at)
		if err != nil {
			line, _ := rows.FieldPos(0)
			return nil, fmt.Errorf("list of nodes, line %d: %w", line, err)
		}
		nodes = append(nodes, n)
	}
}

func nodeOf(row []string, at map[string]int) (Node, error) {
	n := Node{Name: row[at["sn"]]}
	var numbers [3]int64
	for i, column := range []string{"cpu_milli", "memory_mib", "gpu"} {
		number, err := strconv.ParseInt(row[at[column]], 10, 32)
		if err != nil || number < 0 {
			return n, fmt.Errorf("%s: %q must be an integer from 0", column, row[at[column]])
		}
		numbers[i] = number
	}
	if numbers[2] > maxDevices {
		return n, fmt.Errorf("gpu: %d must be at most %d", numbers[2], maxDevices)
	}
	n.Size = gpus.Node{MilliCPU: numbers[0], MemoryBytes: numbers[1] << 20, Devices: gpus.Devices(int(numbers[2]), nil)}
	return n, nil
}
