package catalogue

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/capacity"
	"supercargo.dev/supercargo/internal/cluster/extended"
	"supercargo.dev/supercargo/internal/input/table"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/text/clip"
)

// Flavor is one kind of machine in a price list. Of [cluster.Flavor], it has Name, Size, Arch, MaxPods, price and
// interruptions. Arch is empty and MaxPods nil if the list does not state them.
type Flavor struct {
	cluster.Flavor
	// MachineType groups flavors of equal speed and power; empty if not stated.
	MachineType string
	// Kind is KindBurstable or KindAccelerated; empty for any other.
	Kind string
	// Extended are the amounts of extended resources, such as GPUs, that pods can use of one machine; nil if none are stated.
	Extended map[corev1.ResourceName]int64
	// EphemeralStorage is what pods can use of the ephemeral storage of one machine, in bytes; nil if it is not stated.
	EphemeralStorage *int64
	// MilliwattsIdle and MilliwattsFull are the power without load and at full load. Both are 0 if not stated.
	MilliwattsIdle, MilliwattsFull int64
}

// Kinds of machines that are only bought on request.
const (
	// KindBurstable is a machine whose CPUs can be fully used only for a while.
	KindBurstable = "Burstable"
	// KindAccelerated is a machine with GPUs or other accelerators.
	KindAccelerated = "Accelerated"
)

const (
	bytesPerGiB            = 1 << 30
	microPerDollar         = 1_000_000
	maxMicroDollarsPerHour = 1_000_000 * microPerDollar
	maxMaxPods             = 1_000_000
	maxDiskBytes           = 1 << 50
	maxMilliwatts          = 1_000_000_000
	maxNameBytes           = 253
	maxLabelBytes          = 63
)

// The columns of resources besides CPU and memory.
const (
	columnExtended = "extended_resources"
	columnDisk     = "ephemeral_storage_gib"
)

// interruptionsColumn is the column with the interruptions per hour of machines that their seller may interrupt.
const interruptionsColumn = "interruptions_per_hour"

var flavorFormat = table.Format{
	Name:     "flavor catalogue",
	Required: []string{"name", "cpu", "memory_gib", "price_per_hour"},
	Optional: []string{"arch", "machine_type", "max_pods", "watts_idle", "watts_full", "kind", columnExtended, columnDisk, interruptionsColumn},
}

// ReadFlavors reads a flavor catalogue. file is only used in errors, which are of type [*table.Errors] and list every
// fault up to [table.MaxErrors].
//
// cpu is in cores with up to three decimals, or in milli-CPU with the suffix m ("1930m"). memory_gib may have decimals
// and is rounded down to a byte. price_per_hour is in dollars with up to six decimals; zero is allowed.
// interruptions_per_hour is more than 0 and at most 1, with up to six decimals, or empty. Watts must be
// given as a pair with up to three decimals, idle no more than full.
// extended_resources are separated by semicolons, such as "nvidia.com/gpu=2;hugepages-2Mi=1Gi"; ephemeral_storage_gib is read
// like memory_gib.
//
// The result is sorted by name. Cost: O(n log n).
func ReadFlavors(file string, r io.Reader) ([]Flavor, error) {
	return readCatalogue(file, r, flavorFormat, row.flavor, func(f Flavor) string { return f.Name })
}

// readCatalogue reads one flavor per row, with unique names, and returns them sorted by name.
func readCatalogue[F any](file string, r io.Reader, f table.Format, read func(row) F, nameOf func(F) string) ([]F, error) {
	t, _, err := table.Open(file, r, f)
	if err != nil {
		return nil, err
	}
	var flavors []F
	lineOf := make(map[string]int)
	for t.Next() {
		if len(flavors) == table.MaxRows {
			t.Fault(t.Line(), "", fmt.Sprintf("exceeds %d flavors, the maximum for a catalogue", table.MaxRows))
			break
		}
		f := read(row{t})
		if line, taken := lineOf[nameOf(f)]; taken {
			t.BadCell("name", fmt.Errorf("is also the name in line %d: must be unique", line))
			continue
		}
		lineOf[nameOf(f)] = t.Line()
		flavors = append(flavors, f)
	}
	if err := t.End(len(flavors)); err != nil {
		return nil, err
	}
	slices.SortFunc(flavors, func(a, b F) int { return cmp.Compare(nameOf(a), nameOf(b)) })
	return flavors, nil
}

// row is the current row of a table.
type row struct{ *table.Table }

// flavor reads a flavor.
func (t row) flavor() Flavor {
	size := t.size()
	f := t.priced()
	f.Size = size
	f.Extended = t.extended()
	if t.Cell(columnDisk) != "" {
		f.EphemeralStorage = new(t.AtMost(columnDisk, t.Positive(columnDisk, bytesPerGiB, table.RoundDown), maxDiskBytes))
	}
	return f
}

// extended reads the extended resources of a flavor.
func (t row) extended() (all map[corev1.ResourceName]int64) {
	for _, entry := range t.entries(columnExtended) {
		text, amount, _ := strings.Cut(entry, "=")
		name := corev1.ResourceName(text)
		q, err := resource.ParseQuantity(amount)
		switch _, twice := all[name]; {
		case err != nil || q.Sign() <= 0 || len(validation.IsQualifiedName(text)) > 0 || !extended.Considered(name):
			t.BadCell(columnExtended, fmt.Errorf("has %q, which is not a number of an extended resource: must be such as nvidia.com/gpu=2", clip.Cell(entry)))
		case twice:
			t.BadCell(columnExtended, errDuplicate)
		default:
			if all == nil {
				all = map[corev1.ResourceName]int64{}
			}
			all[name] = q.Value()
		}
	}
	return all
}

// size reads the size of a flavor.
func (t row) size() packing.Size {
	return packing.Size{
		MilliCPU:    t.Cores("cpu"),
		MemoryBytes: t.AtMost("memory_gib", t.Positive("memory_gib", bytesPerGiB, table.RoundDown), table.MaxMemoryBytes),
	}
}

// priced reads a flavor without its size.
func (t row) priced() Flavor {
	f := Flavor{MachineType: t.Cell("machine_type"), Kind: t.Cell("kind")}
	f.Name, f.Arch = t.Cell("name"), t.Cell("arch")
	f.MicroDollarsPerHour = t.AtMost("price_per_hour",
		t.Number("price_per_hour", microPerDollar, table.Exact), maxMicroDollarsPerHour)
	if f.Name == "" || !table.Printable(f.Name, maxNameBytes) {
		t.BadCell("name", fmt.Errorf("is not a valid flavor name: must have 1 to %d bytes without control characters", maxNameBytes))
	}
	t.CheckArch(f.Arch)
	if len(validation.IsValidLabelValue(f.MachineType)) > 0 {
		t.BadCell("machine_type", fmt.Errorf("is not a valid label value: must have at most %d letters, digits, '-', '_' and '.', and start and end with a letter or digit", maxLabelBytes))
	}
	if f.Kind != "" && f.Kind != KindBurstable && f.Kind != KindAccelerated {
		t.BadCell("kind", fmt.Errorf("is not a kind of machine: must be %s, %s or empty", KindBurstable, KindAccelerated))
	}
	if t.Cell("max_pods") != "" {
		f.MaxPods = new(t.AtMost("max_pods", t.Positive("max_pods", 1, table.Exact), maxMaxPods))
	}
	if t.Cell(interruptionsColumn) != "" {
		f.Interruptions = t.AtMost(interruptionsColumn, t.Positive(interruptionsColumn, capacity.Million, table.Exact), capacity.Million)
	}
	t.watts(&f)
	return f
}

// watts reads the power of a flavor.
func (t row) watts(f *Flavor) {
	idle, full := t.Cell("watts_idle") != "", t.Cell("watts_full") != ""
	switch {
	case idle && !full:
		t.Fault(t.Line(), "watts_full", "is missing, but watts_idle is set: set both or neither")
	case full && !idle:
		t.Fault(t.Line(), "watts_idle", "is missing, but watts_full is set: set both or neither")
	}
	f.MilliwattsIdle = t.AtMost("watts_idle", t.OptionalNumber("watts_idle", 1000, table.Exact), maxMilliwatts)
	f.MilliwattsFull = t.AtMost("watts_full", t.OptionalNumber("watts_full", 1000, table.Exact), maxMilliwatts)
	if idle && full && f.MilliwattsIdle > f.MilliwattsFull {
		t.BadCell("watts_idle", fmt.Errorf("must be at most watts_full, %q", t.Cell("watts_full")))
	}
}
