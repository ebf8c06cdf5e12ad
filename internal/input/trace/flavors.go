package trace

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Flavor is one kind of machine that can be had.
type Flavor struct {
	// Name is unlike that of any other flavor of the catalogue.
	Name string
	// MilliCPU is the CPU that pods can use, in thousandths of a core.
	MilliCPU int64
	// MemoryBytes is the memory that pods can use.
	MemoryBytes int64
	// MicroDollarsPerHour is the price in millionths of a dollar per hour.
	MicroDollarsPerHour int64
	// Arch is the CPU architecture as in GOARCH; empty when not stated.
	Arch string
	// MachineType groups flavors of equal speed and power; empty when not
	// stated.
	MachineType string
	// Kind is KindBurstable or KindAccelerated; empty for any other.
	Kind string
	// MaxPods is how many pods a machine holds; 0 when not stated.
	MaxPods int64
	// MilliwattsIdle and MilliwattsFull are the power drawn without load and at
	// full load. Both are 0 when not stated.
	MilliwattsIdle, MilliwattsFull int64
}

// The kinds of machines that are not bought unless somebody asks for them.
const (
	// KindBurstable has full use of its CPUs only for a while.
	KindBurstable = "Burstable"
	// KindAccelerated has GPUs or other accelerators.
	KindAccelerated = "Accelerated"
)

const (
	bytesPerGiB            = 1 << 30
	microPerDollar         = 1_000_000
	maxMicroDollarsPerHour = 1_000_000 * microPerDollar
	maxMaxPods             = 1_000_000
	maxMilliwatts          = 1_000_000_000
	maxLabelBytes          = 63
)

var flavorFormat = format{
	name:     "flavor catalogue",
	required: []string{"name", "cpu", "memory_gib", "price_per_hour"},
	optional: []string{"arch", "machine_type", "max_pods", "watts_idle", "watts_full", "kind"},
}

// ReadFlavors reads a flavor catalogue. file is only used in errors, which are
// of type [*Errors] and list every fault up to [MaxErrors].
//
// cpu is in cores with up to three decimals, or in milli-CPU with the suffix m
// ("1930m"). memory_gib may have decimals and is rounded down to a byte.
// price_per_hour is in dollars with up to six decimals, zero included. Watts
// come in pairs with up to three decimals, idle no more than full.
//
// The result is ordered by name. Cost: O(n log n).
func ReadFlavors(file string, r io.Reader) ([]Flavor, error) {
	return readCatalogue(file, r, flavorFormat, (*table).flavor, func(f Flavor) string { return f.Name })
}

// readCatalogue reads a row per flavor, each with a name of its own, and returns
// them ordered by name.
func readCatalogue[F any](file string, r io.Reader, f format, row func(*table) F, nameOf func(F) string) ([]F, error) {
	t, _, err := openTable(file, r, []format{f})
	if err != nil {
		return nil, err
	}
	var flavors []F
	lineOf := make(map[string]int)
	for t.next() {
		if len(flavors) == MaxRows {
			t.fault(t.line, "", fmt.Sprintf("goes beyond %d flavors, the most one catalogue may have", MaxRows))
			break
		}
		f := row(t)
		if line, taken := lineOf[nameOf(f)]; taken {
			t.badCell("name", fmt.Errorf("is also the name of line %d, want a name of its own", line))
			continue
		}
		lineOf[nameOf(f)] = t.line
		flavors = append(flavors, f)
	}
	if len(flavors) == 0 && len(t.faults.List) == 0 {
		t.fault(0, "", "has a header but no rows, want at least one")
	}
	if err := t.faults.orNil(); err != nil {
		return nil, err
	}
	slices.SortFunc(flavors, func(a, b F) int { return cmp.Compare(nameOf(a), nameOf(b)) })
	return flavors, nil
}

// flavor reads the present row.
func (t *table) flavor() Flavor {
	f := Flavor{
		Name:        t.cell("name"),
		MilliCPU:    t.cores("cpu"),
		MemoryBytes: t.atMost("memory_gib", t.positive("memory_gib", bytesPerGiB, roundDown), maxMemoryBytes),
		MicroDollarsPerHour: t.atMost("price_per_hour",
			t.number("price_per_hour", microPerDollar, exact), maxMicroDollarsPerHour),
		Arch:        t.cell("arch"),
		MachineType: t.cell("machine_type"),
		Kind:        t.cell("kind"),
	}
	if f.Name == "" || !printable(f.Name, maxNameBytes) {
		t.badCell("name", fmt.Errorf("is no flavor name, want 1 to %d bytes without control characters", maxNameBytes))
	}
	t.checkArch(f.Arch)
	if !validLabel(f.MachineType) {
		t.badCell("machine_type", fmt.Errorf("is no label value, want up to %d letters, digits, '-', '_' and '.', with a letter or digit at either end", maxLabelBytes))
	}
	if f.Kind != "" && f.Kind != KindBurstable && f.Kind != KindAccelerated {
		t.badCell("kind", fmt.Errorf("is no kind of machine, want %s, %s or nothing", KindBurstable, KindAccelerated))
	}
	if t.cell("max_pods") != "" {
		f.MaxPods = t.atMost("max_pods", t.positive("max_pods", 1, exact), maxMaxPods)
	}
	t.watts(&f)
	return f
}

// cores reads a number of cores, or of milli-CPU with the suffix m.
func (t *table) cores(column string) int64 {
	text, milli := strings.CutSuffix(t.cell(column), "m")
	if !milli {
		return t.atMost(column, t.positive(column, 1000, exact), maxMilliCPU)
	}
	value, err := decimal(text, 1, exact)
	if err == nil && value == 0 {
		err = errZero
	}
	if err != nil {
		t.badCell(column, err)
	}
	return t.atMost(column, value, maxMilliCPU)
}

var errZero = errors.New("is zero, want more")

// positive is [table.number], but zero is a fault.
func (t *table) positive(column string, unit int64, r rounding) int64 {
	faults := len(t.faults.List) + t.faults.More
	value := t.number(column, unit, r)
	if value == 0 && len(t.faults.List)+t.faults.More == faults {
		t.badCell(column, errZero)
	}
	return value
}

// watts reads the power of a flavor.
func (t *table) watts(f *Flavor) {
	idle, full := t.cell("watts_idle") != "", t.cell("watts_full") != ""
	switch {
	case idle && !full:
		t.fault(t.line, "watts_full", "is missing beside watts_idle, want both or neither")
	case full && !idle:
		t.fault(t.line, "watts_idle", "is missing beside watts_full, want both or neither")
	}
	f.MilliwattsIdle = t.atMost("watts_idle", t.optionalNumber("watts_idle", 1000, exact), maxMilliwatts)
	f.MilliwattsFull = t.atMost("watts_full", t.optionalNumber("watts_full", 1000, exact), maxMilliwatts)
	if idle && full && f.MilliwattsIdle > f.MilliwattsFull {
		t.badCell("watts_idle", fmt.Errorf("is more than watts_full %q, want at most that", t.cell("watts_full")))
	}
}

// validLabel reports whether s can be a label's value. Empty is one.
func validLabel(s string) bool {
	for i := range len(s) {
		c := s[i]
		alnum := isNameByte(c) || 'A' <= c && c <= 'Z'
		inner := (c == '-' || c == '_' || c == '.') && i > 0 && i < len(s)-1
		if !alnum && !inner {
			return false
		}
	}
	return len(s) <= maxLabelBytes
}
