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

	"supercargo.dev/supercargo/energy"
)

// powercap is the folder of RAPL's counters, relative to the node's root.
const powercap = "sys/class/powercap"

// overLimit is by which factor the mean power of a second may exceed the greatest power limit of
// a zone. RAPL enforces the limits over windows of milliseconds to some seconds, and short peaks
// exceed them; nothing draws twice as much.
const overLimit = 2

// stillInterval is the least time after which counters that have not moved are no meter. RAPL updates them every
// millisecond, and no computer draws 0 W; some hypervisors show them to virtual machines and never update them.
const stillInterval = time.Second / 2

// errStill is the error of counters that do not move.
var errStill = errors.New("the power counters do not move, as in virtual machines whose hypervisor does not update them")

// longestInterval is the maximum time between two readings of a counter. A counter wraps around
// after a few minutes at full power on large machines, and two wraps look like one.
const longestInterval = time.Minute

// zone is one counter of powercap.
type zone struct {
	dir   string // folder, also for error messages
	name  string // "package-0", "dram"
	wrap  uint64 // µJ after which the counter wraps to 0; 0 if unknown
	rated energy.Watts
}

// rapl is the sum of a node's zones that do not overlap.
type rapl struct {
	zones []zone
	last  []energy.Count // of each zone; nil before the first reading
}

// openRAPL finds the zones to add up, and reads each once. It returns nil without an error if
// there are none, and an error if there are some that cannot be read.
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

// findZones returns the zones that count, in the order of sortedZones.
//
// RAPL's planes overlap. A package includes its sub-zones core and uncore, and psys includes the
// packages, so none of these three is added to a package. The zone dram is below its package in
// powercap but is a plane of its own: the package's counter ends at the edge of the die (Khan et
// al., RAPL in Action, TOMPECS 2018, figure 1). Some machines have the same counter twice, in
// intel-rapl (registers) and in intel-rapl-mmio; only the first counts.
func findZones(root string) ([]zone, error) {
	dir := filepath.Join(root, powercap)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find power counters: %w", err)
	}
	var found []zone
	packages := map[string]string{} // name of a package -> its control type
	names := map[string]string{}    // folder -> name
	for _, e := range sortedZones(entries) {
		name, err := readText(filepath.Join(dir, e, "name"))
		if errors.Is(err, fs.ErrNotExist) {
			continue // the control type itself
		}
		if err != nil {
			return nil, fmt.Errorf("find power counters: %w", err)
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

// sortedZones returns the names of RAPL's zones. Control types are in order of name, so that
// intel-rapl comes before intel-rapl-mmio, and zones come before their sub-zones.
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

// splitZone returns the control type of a zone ("intel-rapl" of "intel-rapl:0:1") and its parent
// zone ("intel-rapl:0").
func splitZone(zone string) (control, parent string) {
	control, _, _ = strings.Cut(zone, ":")
	return control, zone[:strings.LastIndex(zone, ":")]
}

// describeZone reads the constant properties of a zone.
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
		// Some kernels have a limit file that cannot be read. Without a limit the zone has no
		// rated power.
		if microwatts, err := readNumber(file); err == nil {
			z.rated = max(z.rated, overLimit*energy.Watts(microwatts)/1e6)
		}
	}
	return z, nil
}

// read returns the zone's counter, in microjoules.
func (z zone) read() (uint64, error) {
	n, err := readNumber(filepath.Join(z.dir, "energy_uj"))
	if err != nil {
		return 0, fmt.Errorf("read power counter %s: %w", z.name, err)
	}
	return n, nil
}

func (r *rapl) source() energy.Source { return energy.SourceRAPL }

// rated returns the sum of the zones' rated power; 0 if one is unknown.
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

// read returns the mean power since the last time that all zones could be read. A fault of one
// zone is a fault of the sum, which would be too small without it.
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
	if before != nil && same(before, counts) {
		if counts[0].At.Sub(before[0].At) < stillInterval {
			return measurement{none: true}, nil
		}
		return measurement{}, errStill
	}
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

// same reports whether no counter has moved.
func same(a, b []energy.Count) bool {
	return slices.EqualFunc(a, b, func(a, b energy.Count) bool { return a.Microjoules == b.Microjoules })
}

// movesFrom reports whether a counter has another value than at the reading of another instrument of the same zones; true
// if there is none.
func (r *rapl) movesFrom(before []energy.Count) (bool, error) {
	if len(before) != len(r.zones) {
		return true, nil
	}
	for i, z := range r.zones {
		n, err := z.read()
		if err != nil || n != before[i].Microjoules {
			return true, err
		}
	}
	return false, nil
}

// readText returns the content of a sysfs file, without surrounding white space.
func readText(file string) (string, error) {
	text, err := os.ReadFile(file)
	return strings.TrimSpace(string(text)), err
}

// readNumber reads a sysfs file with one unsigned integer.
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
