package detect

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"supercargo.dev/supercargo/energy/profile"
)

const (
	twoCores = "processor\t: 0\nmodel name\t: Xeon\nphysical id\t: 0\ncore id\t\t: 0\n\nprocessor\t: 1\nmodel name\t: Xeon\nphysical id\t: 0\ncore id\t\t: 0\n" +
		"processor\t: 2\nmodel name\t: Xeon\nphysical id\t: 0\ncore id\t\t: 1\n\nprocessor\t: 3\nmodel name\t: Xeon\nphysical id\t: 0\ncore id\t\t: 1\n"
	bigLittle = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd03\n\nprocessor\t: 1\nCPU implementer\t: 0x41\nCPU part\t: 0xd09\n"
	meminfo   = "MemTotal:       16384000 kB\nMemFree: 1 kB\n"
)

func machine(t *testing.T, files map[string]string) Host {
	t.Helper()
	h := Host{Root: t.TempDir()}
	for name, content := range files {
		path := filepath.Join(h.Root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

func TestHardwareIsWhatTheKernelSays(t *testing.T) {
	tests := []struct {
		name  string
		files map[string]string
		want  profile.Hardware
	}{
		{"two cores of two threads, with cpufreq", map[string]string{
			"proc/cpuinfo": twoCores, "proc/meminfo": meminfo,
			"sys/devices/system/cpu/cpufreq/policy0/cpuinfo_max_freq": "3500000\n", "sys/devices/system/cpu/cpufreq/policy1/cpuinfo_max_freq": "3600000\n",
		}, profile.Hardware{Architecture: "amd64", CPUModel: "Xeon", Cores: 2, Threads: 4, MaxMegahertz: 3600, MemoryBytes: 16384000 << 10}},
		{"two kinds of ARM cores, without", map[string]string{"proc/cpuinfo": bigLittle, "proc/meminfo": meminfo},
			profile.Hardware{Architecture: "amd64", CPUModel: "ARM 0x41 0xd03 + ARM 0x41 0xd09", Cores: 2, Threads: 2, MemoryBytes: 16384000 << 10}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got, err := machine(t, tc.files).Hardware("amd64"); err != nil || got != tc.want {
				t.Errorf("%+v (%v), want %+v", got, err, tc.want)
			}
		})
	}
}

func TestHardwareThatCannotBeReadIsAnError(t *testing.T) {
	for what, files := range map[string]map[string]string{
		"cpuinfo":     {"proc/meminfo": meminfo},
		"processor":   {"proc/cpuinfo": "", "proc/meminfo": meminfo},
		"meminfo":     {"proc/cpuinfo": twoCores},
		"no MemTotal": {"proc/cpuinfo": twoCores, "proc/meminfo": "MemFree: 1 kB\n"},
		"MemTotal is": {"proc/cpuinfo": twoCores, "proc/meminfo": "MemTotal: much kB\n"},
		"frequencies": {"proc/cpuinfo": twoCores, "proc/meminfo": meminfo, "sys/devices/system/cpu/cpufreq/policy0/cpuinfo_max_freq": "fast"},
	} {
		if _, err := machine(t, files).Hardware("amd64"); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%v, want an error with %q", err, what)
		}
	}
}

func FuzzParseCPUs(f *testing.F) {
	f.Add(twoCores)
	f.Add(bigLittle)
	f.Fuzz(func(t *testing.T, text string) {
		model, cores, threads, err := parseCPUs(strings.NewReader(text))
		if err == nil && (len(model) > 256 || cores < 1 || threads < 1) {
			t.Errorf("%q, %d cores, %d threads", model, cores, threads)
		}
	})
}
