package meter

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"supercargo.dev/supercargo/internal/energy"
)

// powercap is where Linux shows RAPL's counters, from the node's root.
const powercap = "sys/class/powercap"

// overLimit is how far the mean power of a second may be above the greatest power
// limit of a zone. RAPL holds a zone to its limits over windows of milliseconds to
// some seconds, and short peaks go over them; nothing draws twice as much.
const overLimit = 2

// longestInterval is how long two readings of a counter may be apart. A counter wraps
// around after a few minutes at full power on large machines, and one that wrapped
// twice looks as if it had wrapped once.
const longestInterval = time.Minute

// zone is one counter of powercap.
type zone struct {
	dir   string // folder, for error messages too
	name  string // "package-0", "dram"
	wrap  uint64 // µJ after which the counter begins again at 0; 0 if not known
	rated energy.Watts
}

// rapl adds up the zones of a node whose energies do not overlap.
type rapl struct {
	zones []zone
	last  []energy.Count // of each zone; nil before the first reading
}

// openRAPL finds the zones to add up and reads each once. It returns nil without error
// where there are none, and an error where there are some that cannot be read.
func openRAPL(root string) (*rapl, error) {
	zones, err := findZones(root)
	if err != nil || len(zones) == 0 {
		return nil, err
	}
	for _, z := range zones {
		if _, err := z.read(); err != nil {
			return nil, err
		}
	}
	return &rapl{zones: zones}, nil
}

// findZones returns the zones that are counted, by folder.
//
// RAPL's planes overlap. A package holds its sub-zones core and uncore, and psys holds
// the packages, so none of these three is counted beside a package. The zone dram
// stands below its package in powercap but is a plane of its own: the package's counter
// stops at the edge of the die (Khan et al., RAPL in Action, TOMPECS 2018, figure 1).
// The same counter is shown twice on some machines, by intel-rapl (registers) and by
// intel-rapl-mmio; the first is taken.
func findZones(root string) ([]zone, error) {
	dir := filepath.Join(root, powercap)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for power counters: %w", err)
	}
	var found []zone
	packages := map[string]string{} // name of a package -> who shows it
	names := map[string]string{}    // folder -> name
	for _, e := range sortedZones(entries) {
		name, err := readText(filepath.Join(dir, e, "name"))
		if errors.Is(err, fs.ErrNotExist) {
			continue // the control type itself
		}
		if err != nil {
			return nil, fmt.Errorf("look for power counters: %w", err)
		}
		control, parent := splitZone(e)
		names[e] = name
		switch {
		case strings.HasPrefix(name, "package-"):
			if _, twice := packages[name]; twice {
				continue
			}
			packages[name] = control
		case name == "dram" && strings.HasPrefix(names[parent], "package-") && packages[names[parent]] == control:
		default:
			continue
		}
		z, err := describeZone(filepath.Join(dir, e), name)
		if err != nil {
			return nil, err
		}
		found = append(found, z)
	}
	return found, nil
}

// sortedZones returns the names of RAPL's zones: control types by name, so that
// intel-rapl comes before intel-rapl-mmio, and zones before their sub-zones.
func sortedZones(entries []fs.DirEntry) []string {
	var zones []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "intel-rapl") && strings.Contains(e.Name(), ":") { // AMD's counters have this name too
			zones = append(zones, e.Name())
		}
	}
	slices.SortFunc(zones, func(a, b string) int {
		controlA, _ := splitZone(a)
		controlB, _ := splitZone(b)
		return cmp.Or(cmp.Compare(controlA, controlB), cmp.Compare(strings.Count(a, ":"), strings.Count(b, ":")), cmp.Compare(a, b))
	})
	return zones
}

// splitZone returns the control type of a zone ("intel-rapl" of "intel-rapl:0:1") and
// the zone that it is a part of ("intel-rapl:0").
func splitZone(zone string) (control, parent string) {
	control, _, _ = strings.Cut(zone, ":")
	return control, zone[:strings.LastIndex(zone, ":")]
}

// describeZone reads what does not change about a zone.
func describeZone(dir, name string) (zone, error) {
	z := zone{dir: dir, name: name}
	var err error
	if z.wrap, err = readNumber(filepath.Join(dir, "max_energy_range_uj")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return z, fmt.Errorf("read power counter %s: %w", name, err)
	}
	limits, err := filepath.Glob(filepath.Join(dir, "constraint_*_uw"))
	if err != nil {
		return z, fmt.Errorf("read power counter %s: %w", name, err)
	}
	for _, file := range limits {
		// Some kernels show a limit that they cannot read; without one the zone has no
		// rated power.
		if microwatts, err := readNumber(file); err == nil {
			z.rated = max(z.rated, overLimit*energy.Watts(microwatts)/1e6)
		}
	}
	return z, nil
}

// read returns what the zone's counter stands at, in microjoules.
func (z zone) read() (uint64, error) {
	n, err := readNumber(filepath.Join(z.dir, "energy_uj"))
	if err != nil {
		return 0, fmt.Errorf("read power counter %s: %w", z.name, err)
	}
	return n, nil
}

func (r *rapl) source() energy.Source { return energy.SourceRAPL }

// rated is what all zones may draw together, 0 if it is not known of one.
func (r *rapl) rated() energy.Watts {
	sum := energy.Watts(0)
	for _, z := range r.zones {
		if z.rated == 0 {
			return 0
		}
		sum += z.rated
	}
	return sum
}

// read returns the mean power since the last time that all zones could be read. A fault of one zone is one of
// the whole: a sum without it would be too small.
func (r *rapl) read(now func() time.Time) (measurement, error) {
	counts := make([]energy.Count, len(r.zones))
	for i, z := range r.zones {
		n, err := z.read()
		if err != nil {
			return measurement{}, err
		}
		counts[i] = energy.Count{At: now(), Microjoules: n}
	}
	before := r.last
	r.last = counts
	if before == nil {
		return measurement{none: true}, nil
	}
	sum := measurement{Reading: energy.Reading{Source: energy.SourceRAPL, At: counts[0].At}, since: before[0].At}
	if counts[0].At.Sub(before[0].At) > longestInterval {
		sum.fault = energy.Stale
		return sum, nil
	}
	for i, z := range r.zones {
		part, fault := energy.Limits{Rated: z.rated}.Between(energy.SourceRAPL, before[i], counts[i], z.wrap)
		if fault != energy.Sound {
			sum.fault = fault
			return sum, nil
		}
		sum.Watts += part.Watts
	}
	return sum, nil
}

// readText returns a file of sysfs without the line's end.
func readText(file string) (string, error) {
	text, err := os.ReadFile(file)
	return strings.TrimSpace(string(text)), err
}

// readNumber reads a file of sysfs that has one whole number not below 0.
func readNumber(file string) (uint64, error) {
	text, err := readText(file)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", file, err)
	}
	return n, nil
}
