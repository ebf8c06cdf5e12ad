package detect

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"supercargo.dev/supercargo/energy/profile"
)

// Hardware reads the properties that determine the node's speed and power from /proc/cpuinfo,
// /proc/meminfo and cpufreq.
func (h Host) Hardware(architecture string) (profile.Hardware, error) {
	hw := profile.Hardware{Architecture: architecture}
	read := func(name string, parse func(io.Reader) error) error {
		f, err := os.Open(filepath.Join(h.Root, name))
		if err != nil {
			return err
		}
		defer f.Close()
		return parse(f)
	}
	err := errors.Join(
		read("proc/cpuinfo", func(r io.Reader) (err error) { hw.CPUModel, hw.Cores, hw.Threads, err = parseCPUs(r); return err }),
		read("proc/meminfo", func(r io.Reader) (err error) { hw.MemoryBytes, err = parseMemory(r); return err }),
	)
	if err != nil {
		return profile.Hardware{}, fmt.Errorf("read the hardware of the machine: %w", err)
	}
	hw.MaxMegahertz, err = h.maxMegahertz()
	return hw, err
}

// parseCPUs reads /proc/cpuinfo. It counts distinct core ids; without them every thread counts as
// a core. ARM has implementer and part numbers instead of names, and may have several kinds of
// cores: these are joined in order of appearance.
func parseCPUs(r io.Reader) (model string, cores, threads int, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	seen, models := map[string]bool{}, []string{}
	var socket, implementer string
	name := func(m string) {
		if m != "" && (len(models) == 0 || models[len(models)-1] != m) {
			models = append(models, m)
		}
	}
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(key) {
		case "processor":
			threads++
		case "physical id":
			socket = value
		case "core id":
			seen[socket+"/"+value] = true
		case "model name":
			name(value)
		case "CPU implementer":
			implementer = value
		case "CPU part":
			name("ARM " + implementer + " " + value)
		}
	}
	if err := lines.Err(); err != nil {
		return "", 0, 0, err
	}
	if threads == 0 {
		return "", 0, 0, errors.New("/proc/cpuinfo lists no processor")
	}
	if cores = len(seen); cores == 0 {
		cores = threads
	}
	const most = 256 // the limit of the kind MachineProfile
	model = strings.Join(models, " + ")
	return model[:min(len(model), most)], cores, threads, nil
}

// parseMemory returns MemTotal of /proc/meminfo in bytes.
func parseMemory(r io.Reader) (int64, error) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if text, is := strings.CutPrefix(lines.Text(), "MemTotal:"); is {
			n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(text), " kB"), 10, 64)
			if err != nil || n <= 0 || n > 1<<50 {
				return 0, fmt.Errorf("/proc/meminfo: MemTotal is %q", strings.TrimSpace(text))
			}
			return n << 10, nil
		}
	}
	return 0, errors.Join(errors.New("/proc/meminfo has no MemTotal"), lines.Err())
}

// maxMegahertz returns the highest clock of any CPU, in MHz; 0 if the kernel does not report it.
func (h Host) maxMegahertz() (int64, error) {
	policies, err := filepath.Glob(filepath.Join(h.Root, "sys/devices/system/cpu/cpufreq/policy*/cpuinfo_max_freq"))
	if err != nil {
		return 0, fmt.Errorf("list the frequencies of the CPUs: %w", err)
	}
	most := int64(0)
	for _, p := range policies {
		text, err := os.ReadFile(p)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("read the frequencies of the CPUs: %w", err)
		}
		kilohertz, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read the frequencies of the CPUs: %s: %w", p, err)
		}
		most = max(most, kilohertz/1000)
	}
	return most, nil
}
