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

	"supercargo.dev/supercargo/internal/energy"
)

// hwmonDir is where Linux shows the sensors of the board, from the node's root.
const hwmonDir = "sys/class/hwmon"

// sensor is one power sensor.
type sensor struct {
	file  string // what it shows, in microwatts
	chip  string // "power_meter"
	name  string // "power1"
	label string // what the board's maker calls it: "pin"
}

// String returns the sensor as --hwmon-sensors names it.
func (s sensor) String() string { return s.chip + "/" + s.name }

// hwmon adds up power sensors of the board.
type hwmon struct{ sensors []sensor }

// openHwmon finds the sensors that together show what the node draws and reads each
// once. It returns nil without error where there are none, and an error where one that
// was named is not there or cannot be read.
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
		return nil, fmt.Errorf("look for power sensors: %w", err)
	}
	var all []sensor
	for _, dir := range chips {
		chip, err := readText(filepath.Join(dir, "name"))
		if err != nil {
			return nil, fmt.Errorf("look for power sensors: %w", err)
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

// sensorsOf returns the power sensors of a chip. One that shows power now and a mean is
// read now.
func sensorsOf(dir, chip string) ([]sensor, error) {
	var found []sensor
	seen := map[string]bool{}
	for _, kind := range []string{"_input", "_average"} {
		files, err := filepath.Glob(filepath.Join(dir, "power*"+kind))
		if err != nil {
			return nil, fmt.Errorf("look for power sensors: %w", err)
		}
		for _, file := range files {
			name := strings.TrimSuffix(filepath.Base(file), kind)
			if seen[name] {
				continue
			}
			seen[name] = true
			label, err := readText(filepath.Join(dir, name+"_label"))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("look for power sensors: %w", err)
			}
			found = append(found, sensor{file: file, chip: chip, name: name, label: label})
		}
	}
	return found, nil
}

// chooseSensors returns those that show the whole machine: the ACPI power meter if there
// is one, else the inputs of all power supplies (PMBus calls them pin). Other sensors
// show parts that may overlap, and are counted only when they are named.
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

// namedSensors returns the sensors of the names, all that have one.
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
			return nil, fmt.Errorf("power sensor %s is not there: the node has %s", name, orNone(have))
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

// rated is not shown by sensors.
func (h *hwmon) rated() energy.Watts { return 0 }

// read returns the power now.
func (h *hwmon) read(now func() time.Time) (measurement, error) {
	sum, err := h.watts()
	return measurement{Reading: energy.Reading{Source: energy.SourceHwmon, At: now(), Watts: sum}}, err
}

// watts adds up the sensors. Some can show less than 0, which is the reader's to judge.
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
