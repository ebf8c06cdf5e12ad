package meter

import (
	"slices"
	"strings"
	"testing"

	"supercargo.dev/supercargo/energy"
)

func TestStatIsRead(t *testing.T) {
	const text = "cpu  10 20 30 400 50 6 7 80 9 1\ncpu0 1 2 3 4\ncpu1 1 2 3 4\ncpu2 1 2 3 4\nintr 1 2 3\nctxt 5\n"
	// Busy: user, nice, system, irq, softirq. Guest time is part of user; steal is not busy.
	want := load{busy: 10 + 20 + 30 + 6 + 7, all: 10 + 20 + 30 + 400 + 50 + 6 + 7 + 80, cpus: 3}
	if l, err := parseStat(strings.NewReader(text)); err != nil || l != want {
		t.Errorf("%+v, %v; want %+v", l, err, want)
	}
	long := text + strings.Repeat("1 ", 100_000)
	if l, err := parseStat(strings.NewReader(long)); err != nil || l != want {
		t.Errorf("with a long line of interrupts: %+v, %v; want %+v", l, err, want)
	}
	for _, bad := range []string{"", "intr 5", "cpu 1 2 3", "cpu a b c d", "cpu 1 2 3 -4", "cpu 1 2 3 4\ncpu 1 2 3 4", "cpu 1 2 3 99999999999999999999"} {
		if l, err := parseStat(strings.NewReader(bad)); err == nil {
			t.Errorf("%q gives %+v", bad, l)
		}
	}
}

func FuzzStat(f *testing.F) {
	f.Add("cpu  10 20 30 400 50 6 7 80 9 1\ncpu0 1 2 3 4\nintr 1 2 3\n", "cpu 1 2 3 4\n")
	f.Fuzz(func(t *testing.T, first, second string) {
		a, errA := parseStat(strings.NewReader(first))
		b, errB := parseStat(strings.NewReader(second))
		if errA != nil || errB != nil {
			return
		}
		if u, ok := b.since(a); ok && !(u >= 0 && u <= 1) {
			t.Errorf("utilisation %v from %+v to %+v", u, a, b)
		}
	})
}

func TestMicroarchitectures(t *testing.T) {
	tests := []struct{ text, want string }{
		{"processor : 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 85\nmodel name\t: x\nstepping\t: 7\n\nprocessor : 1\nmodel : 63\n", "Cascade Lake"},
		{"vendor_id : GenuineIntel\ncpu family : 6\nmodel : 85\nstepping : 4\n", "Skylake"},
		{"vendor_id : GenuineIntel\ncpu family : 6\nmodel : 63\n", "Haswell"},
		{"vendor_id : GenuineIntel\ncpu family : 6\nmodel : 207\n", ""},
		{"vendor_id : GenuineIntel\ncpu family : 15\nmodel : 63\n", ""},
		{"vendor_id : AuthenticAMD\ncpu family : 23\nmodel : 1\n", "EPYC 1st Gen"},
		{"vendor_id : AuthenticAMD\ncpu family : 23\nmodel : 49\n", "EPYC 2nd Gen"},
		{"vendor_id : AuthenticAMD\ncpu family : 25\nmodel : 1\n", "EPYC 3rd Gen"},
		{"CPU implementer : 0x41\n", ""}, {"", ""},
	}
	for _, tc := range tests {
		if got := parseMicroarchitecture(strings.NewReader(tc.text)); got != tc.want {
			t.Errorf("%q is %q, want %q", tc.text, got, tc.want)
		}
	}
	if got := microarchitecture(t.TempDir()); got != "" {
		t.Errorf("a node that shows no CPU has a %q", got)
	}
}

func TestModelsAreChosen(t *testing.T) {
	tests := []struct {
		name         string
		machine      Machine
		architecture string
		origin       string
		idle         energy.Watts
	}{
		{"a machine type of the table", Machine{Type: "m5.large", ProviderID: "aws:///a/i-1"}, "Skylake", originType, 4.4},
		{"a CPU of its cloud", Machine{Type: "mine", ProviderID: "gce://p/z/n"}, "Haswell", originCPU, 4 * 1.900568},
		{"a CPU that another name has there", Machine{ProviderID: "aws:///a/i-1"}, "Skylake", originCPU, 4 * 0.644604},
		{"a CPU of another cloud", Machine{ProviderID: "azure:///s"}, "Ivy Bridge", originCPU, 4 * 3.036927},
		{"a machine of one's own", Machine{Type: "rack-7"}, "Cascade Lake", originCPU, 4 * 0.638949},
	}
	for _, tc := range tests {
		m, origin := chooseModel(energy.BuiltIn(), tc.machine, tc.architecture, 4)
		if origin != tc.origin || !(m.Idle > tc.idle-1e-6 && m.Idle < tc.idle+1e-6) {
			t.Errorf("%s: %v W by %s, want %v by %s", tc.name, m.Idle, origin, tc.idle, tc.origin)
		}
	}
	m, origin := chooseModel(energy.BuiltIn(), Machine{}, "", 8)
	if origin != originGuess || m.Validate() != nil || m.Full < 8 || m.Full > 80 {
		t.Errorf("a machine that nobody knows: %+v by %s", m, origin)
	}
}

func TestSensorsAreChosen(t *testing.T) {
	board := func(d tree) {
		d.sensor("hwmon3", "pmbus", "power1_input", "pin", 120_000_000)
		d.sensor("hwmon3", "pmbus", "power2_input", "pout1", 100_000_000)
		d.sensor("hwmon4", "pmbus", "power1_input", "pin", 130_000_000)
		d.sensor("hwmon5", "amdgpu", "power1_average", "PPT", 50_000_000)
		d.sensor("hwmon6", "k10temp", "temp1_input", "", 40_000)
		d.sensor("hwmon7", "ina2xx", "power1_input", "", 5_000_000)
		d.sensor("hwmon7", "ina2xx", "power1_average", "", 6_000_000)
	}
	tests := []struct {
		name    string
		make    func(tree)
		sensors []string
		files   int
		watts   energy.Watts
	}{
		{"both power supplies", board, nil, 2, 250},
		{"the platform's meter alone", func(d tree) { board(d); d.sensor("hwmon8", "power_meter", "power1_average", "", 240_000_000) }, nil, 1, 240},
		{"those that are named", board, []string{"ina2xx/power1", "amdgpu/power1"}, 2, 55},
		{"parts of a machine are not taken for it", func(d tree) { d.sensor("hwmon5", "amdgpu", "power1_average", "PPT", 1) }, nil, 0, 0},
		{"no sensor", func(tree) {}, nil, 0, 0},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			d := newTree(t)
			tc.make(d)
			h, err := openHwmon(d.root, tc.sensors)
			if err != nil {
				t.Fatal(err)
			}
			if h == nil {
				if tc.files != 0 {
					t.Error("no sensor was found")
				}
				return
			}
			if w, err := h.watts(); err != nil || len(h.sensors) != tc.files || w != tc.watts {
				t.Errorf("%v W from %v, %v; want %v", w, h.sensors, err, tc.watts)
			}
		})
	}
	d := newTree(t)
	board(d)
	if _, err := openHwmon(d.root, []string{"ina2xx/power9"}); err == nil || !strings.Contains(err.Error(), "ina2xx/power9") || !strings.Contains(err.Error(), "amdgpu/power1") {
		t.Errorf("error %v, want one that names the sensor and what there is", err)
	}
	d.write("sys/class/hwmon/hwmon7/power1_input", "x")
	if _, err := openHwmon(d.root, []string{"ina2xx/power1"}); err == nil {
		t.Error("a sensor that shows no number is good")
	}
}

func TestKindsAreListed(t *testing.T) {
	if !slices.Contains(Kinds(), Auto) || !slices.Contains(Kinds(), None) {
		t.Errorf("%v", Kinds())
	}
}
