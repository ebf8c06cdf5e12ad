package meter

import (
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

// hwmonDir is the folder of the board's sensors, relative to the node's root.
const hwmonDir = "sys/class/hwmon"

// sensor is one power sensor.
type sensor struct {
	file  string // has the power in microwatts
	chip  string // "power_meter"
	name  string // "power1"
	label string // of the board's vendor: "pin"
}

// String returns the name of the sensor in --hwmon-sensors.
func (s sensor) String() string { return s.chip + "/" + s.name }

// hwmon is the sum of power sensors of the board.
type hwmon struct{ sensors []sensor }

// openHwmon finds the sensors whose sum is the node's power, and reads each once. It returns nil
// without an error if there are none, and an error if a named one does not exist or one cannot be
// read.
func openHwmon(root string, named []string) (*hwmon, error) {
	all, err := findSensors(root)
	if err != nil {
		return nil, err
	}
	chosen := chooseSensors(all)
	if len(named) > 0 {
		if chosen, err = namedSensors(all, named); err != nil {
			return nil, err
		}
	}
	if len(chosen) == 0 {
		return nil, nil
	}
	h := &hwmon{sensors: chosen}
	if _, err := h.watts(); err != nil {
		return nil, err
	}
	return h, nil
}

// findSensors returns the power sensors, by chip and name.
func findSensors(root string) ([]sensor, error) {
	chips, err := filepath.Glob(filepath.Join(root, hwmonDir, "hwmon*"))
	if err != nil {
		return nil, fmt.Errorf("find power sensors: %w", err)
	}
	var all []sensor
	for _, dir := range chips {
		chip, err := readText(filepath.Join(dir, "name"))
		if err != nil {
			return nil, fmt.Errorf("find power sensors: %w", err)
		}
		found, err := sensorsOf(dir, chip)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	slices.SortFunc(all, func(a, b sensor) int { return strings.Compare(a.String()+a.file, b.String()+b.file) })
	return all, nil
}

// sensorsOf returns the power sensors of a chip. If a sensor has both momentary and mean power,
// it reads the former.
func sensorsOf(dir, chip string) ([]sensor, error) {
	var found []sensor
	seen := map[string]bool{}
	for _, kind := range []string{"_input", "_average"} {
		files, err := filepath.Glob(filepath.Join(dir, "power*"+kind))
		if err != nil {
			return nil, fmt.Errorf("find power sensors: %w", err)
		}
		for _, file := range files {
			name := strings.TrimSuffix(filepath.Base(file), kind)
			if seen[name] {
				continue
			}
			seen[name] = true
			label, err := readText(filepath.Join(dir, name+"_label"))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("find power sensors: %w", err)
			}
			found = append(found, sensor{file: file, chip: chip, name: name, label: label})
		}
	}
	return found, nil
}

// chooseSensors returns the sensors that cover the whole machine: the ACPI power meter if there
// is one, else the inputs of all power supplies (PMBus labels them pin). Other sensors cover
// parts that may overlap, and only count if they are named.
func chooseSensors(all []sensor) []sensor {
	for _, s := range all {
		if s.chip == "power_meter" {
			return []sensor{s}
		}
	}
	var inputs []sensor
	for _, s := range all {
		if strings.HasPrefix(s.label, "pin") {
			inputs = append(inputs, s)
		}
	}
	return inputs
}

// namedSensors returns all sensors with one of the names.
func namedSensors(all []sensor, names []string) ([]sensor, error) {
	var chosen []sensor
	have := make([]string, 0, len(all))
	for _, s := range all {
		have = append(have, s.String())
		if slices.Contains(names, s.String()) {
			chosen = append(chosen, s)
		}
	}
	for _, name := range names {
		if !slices.Contains(have, name) {
			return nil, fmt.Errorf("power sensor %s not found: the node has %s", name, orNone(have))
		}
	}
	return chosen, nil
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(slices.Compact(names), ", ")
}

func (h *hwmon) source() energy.Source { return energy.SourceHwmon }

// rated returns 0, because sensors do not state it.
func (h *hwmon) rated() energy.Watts { return 0 }

// read returns the current power.
func (h *hwmon) read(now func() time.Time) (measurement, error) {
	sum, err := h.watts()
	return measurement{Reading: energy.Reading{Source: energy.SourceHwmon, At: now(), Watts: sum}}, err
}

// watts sums the sensors. Some can be negative; the caller checks that.
func (h *hwmon) watts() (energy.Watts, error) {
	sum := energy.Watts(0)
	for _, s := range h.sensors {
		text, err := os.ReadFile(s.file)
		if err != nil {
			return 0, fmt.Errorf("read power sensor %s: %w", s, err)
		}
		microwatts, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read power sensor %s: %w", s, err)
		}
		sum += energy.Watts(microwatts) / 1e6
	}
	return sum, nil
}
