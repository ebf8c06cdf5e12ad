package rightsize

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"supercargo.dev/supercargo/internal/input/table"
	"supercargo.dev/supercargo/internal/packing"
)

// Flavor is a kind of machine.
type Flavor struct {
	Name     string
	Capacity Amounts
	// MicroDollarsPerHour is its price.
	MicroDollarsPerHour int64
	// MaxPods is how many entities it takes; 0 means any number.
	MaxPods int64
}

// Flavors are the kinds of machines of a file.
type Flavors struct {
	List []Flavor
	// MiB is set if memory is in MiB, because the file has memory_gib; else its unit is not known.
	MiB bool
}

// ReadFlavors reads a file of flavors with the columns name, cpu, memory or memory_gib, price_per_hour and optionally
// max_pods. cpu and memory are in the units of the files of use; memory_gib is for files of use that have MiB. Other
// columns are ignored. name is only used in errors, which are of type [*table.Errors].
func ReadFlavors(name string, file io.Reader) (*Flavors, error) {
	common := []string{"name", "cpu", "price_per_hour"}
	format := func(memory string) table.Format {
		return table.Format{Name: "flavors", Required: append(slices.Clone(common), memory), Optional: []string{"max_pods"}, Lenient: true}
	}
	t, chosen, err := table.Open(name, file, format("memory_gib"), format("memory"))
	if err != nil {
		return nil, err
	}
	flavors := &Flavors{MiB: slices.Contains(chosen.Required, "memory_gib")}
	lines := map[string]int{}
	for t.Next() {
		f := Flavor{Name: t.Cell("name"), MicroDollarsPerHour: t.AtMost("price_per_hour", t.Number("price_per_hour", 1e6, table.RoundDown), 1e12)}
		f.Capacity[CPU] = positive(t, "cpu")
		if flavors.MiB {
			f.Capacity[Memory] = 1024 * positive(t, "memory_gib")
		} else {
			f.Capacity[Memory] = positive(t, "memory")
		}
		if t.Cell("max_pods") != "" {
			f.MaxPods = t.Positive("max_pods", 1, table.Exact)
		}
		if line, twice := lines[f.Name]; twice || f.Name == "" {
			t.BadCell("name", fmt.Errorf("is not a name of its own: line %d has it too, or it is empty", line))
		}
		lines[f.Name] = t.Line()
		flavors.List = append(flavors.List, f)
	}
	slices.SortFunc(flavors.List, func(a, b Flavor) int { return strings.Compare(a.Name, b.Name) })
	return flavors, t.End(len(flavors.List))
}

func positive(t *table.Table, column string) float64 {
	return t.Float(column, func(x float64) bool { return x > 0 && x <= maxAmount*1000 }, "an amount above 0")
}

// sizeOf converts amounts for the planner, which counts in integers: requests are rounded up, capacities down.
func sizeOf(a Amounts, round func(float64) float64) packing.Size {
	return packing.Size{MilliCPU: int64(round(a[CPU] * milli)), MemoryBytes: int64(round(a[Memory] * mebi))}
}

const (
	milli = 1000
	mebi  = 1 << 20
)

// request returns the size of a request for the planner.
func request(a Amounts) packing.Size { return sizeOf(a, math.Ceil) }
