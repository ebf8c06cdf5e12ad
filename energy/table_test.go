package energy

import (
	"math"
	"strings"
	"testing"
)

func TestTheTableKnowsMachineTypes(t *testing.T) {
	m, ok := BuiltIn().MachineType("m5.large")
	if !ok || m.Idle != 4.4 || m.Full != 20 || math.Abs(float64(m.At(0.5)-14.1)) > 1e-9 || math.Abs(float64(m.At(0.1)-7)) > 1e-9 {
		t.Errorf("m5.large: %+v, %t; want 4.4, 7.0, 14.1 and 20.0 W", m, ok)
	}
	if m, ok := BuiltIn().MachineType("m5.enormous"); ok {
		t.Errorf("a machine type that does not exist draws %+v", m)
	}
	for name, m := range BuiltIn().types {
		if err := m.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := len(BuiltIn().types); n != 414 {
		t.Errorf("%d machine types, want 414", n)
	}
}

func TestTheTableKnowsVirtualCPUs(t *testing.T) {
	tests := []struct {
		name, cloud, architecture string
		n                         float64
		idle, full                Watts
		exact                     bool
	}{
		{"one of a known kind", "aws", "Cascade Lake", 1, 0.638949, 3.967305, true},
		{"eight, in other letters", "AWS", "cascade lake", 8, 5.111592, 31.73844, true},
		// The mean of the eleven rows of aws.
		{"of a kind not known there", "aws", "Itanium", 1, 1.135199, 4.339702, false},
	}
	for _, tc := range tests {
		m, exact := BuiltIn().CPUs(tc.cloud, tc.architecture, tc.n)
		if math.Abs(float64(m.Idle-tc.idle)) > 1e-5 || math.Abs(float64(m.Full-tc.full)) > 1e-5 || exact != tc.exact {
			t.Errorf("%s: %v to %v W, %t; want %v to %v, %t", tc.name, m.Idle, m.Full, exact, tc.idle, tc.full, tc.exact)
		}
	}
	if m, exact := BuiltIn().CPUs("nowhere", "", 2); exact || m.Validate() != nil || m.Idle < 1 || m.Idle > 4 {
		t.Errorf("a cloud that nobody knows: %+v, %t", m, exact)
	}
}

func TestTablesNameLineAndField(t *testing.T) {
	const types, cpus = "machine_type,vcpu,watts_idle,watts_10,watts_50,watts_100\n", "cloud,microarchitecture,watts_idle,watts_full\n"
	tests := []struct {
		name, types, cpus string
		says              []string
	}{
		{"no header", "", cpus, []string{"machine types", "header"}},
		{"a column is missing", "machine_type,vcpu\n", cpus, []string{"machine types", "watts_idle"}},
		{"no number", types + "a,1,1,2,3,4\nb,1,1,x,3,4\n", cpus, []string{"line 3", "watts_10", `"x"`}},
		{"NaN", types + "a,1,1,NaN,3,4\n", cpus, []string{"line 2", "watts_10"}},
		{"less for more load", types + "a,1,1,2,1.9,4\n", cpus, []string{"line 2", "watts_50"}},
		{"nothing when idle", types, cpus + "aws,x,0,1\n", []string{"virtual CPUs", "line 2", "watts_idle"}},
		{"a cell too few", types, cpus + "aws,x,1\n", []string{"virtual CPUs", "line 2"}},
	}
	for _, tc := range tests {
		_, err := NewTable(strings.NewReader(tc.types), strings.NewReader(tc.cpus))
		for _, part := range tc.says {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: error %v, want one that says %q", tc.name, err, part)
			}
		}
	}
}

// FuzzTable checks that any input gives valid models or an error.
func FuzzTable(f *testing.F) {
	f.Add("machine_type,vcpu,watts_idle,watts_10,watts_50,watts_100\na,1,1,2,3,4\n", "cloud,microarchitecture,watts_idle,watts_full\naws,x,1,2\n")
	f.Add(machineTypesCSV[:400], vcpuCSV)
	f.Fuzz(func(t *testing.T, types, cpus string) {
		table, err := NewTable(strings.NewReader(types), strings.NewReader(cpus))
		if err != nil {
			return
		}
		for _, models := range []map[string]Model{table.types, table.cpus, table.mean} {
			for name, m := range models {
				if err := m.Validate(); err != nil {
					t.Errorf("%q: %v", name, err)
				}
			}
		}
	})
}
