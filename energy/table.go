package energy

import (
	_ "embed" // for the tables below
	"fmt"
	"io"
	"strings"
	"sync"

	"supercargo.dev/supercargo/internal/input/table"
)

// machineTypesCSV and vcpuCSV are described in data/README.md.
var (
	//go:embed data/machine_types.csv
	machineTypesCSV string
	//go:embed data/vcpu.csv
	vcpuCSV string
)

// Table holds power models by machine type and by virtual CPU. It is immutable and safe for concurrent use.
type Table struct {
	types map[string]Model
	cpus  map[string]Model // "cloud/microarchitecture", lower case
	mean  map[string]Model // cloud, lower case; "" is the mean of all rows
}

// builtIn reads the embedded tables. A test reads them too, so they are known to be valid.
var builtIn = sync.OnceValues(func() (*Table, error) {
	return NewTable(strings.NewReader(machineTypesCSV), strings.NewReader(vcpuCSV))
})

// BuiltIn returns the embedded table. data/README.md names its sources.
func BuiltIn() *Table {
	t, err := builtIn()
	if err != nil {
		panic(err) // the file is embedded
	}
	return t
}

// NewTable reads a table from two CSV files with header rows. machineTypes has the columns machine_type, vcpu,
// watts_idle, watts_10, watts_50 and watts_100, per machine. cpus has cloud, microarchitecture, watts_idle and
// watts_full, per virtual CPU. Watts must be above 0 and must not decrease with load. Errors name line and field.
func NewTable(machineTypes, cpus io.Reader) (*Table, error) {
	t := &Table{types: map[string]Model{}, cpus: map[string]Model{}, mean: map[string]Model{}}
	if err := readRows("machine types", machineTypes, []string{"machine_type", "vcpu", "watts_idle", "watts_10", "watts_50", "watts_100"}, t.addType); err != nil {
		return nil, err
	}
	rows := map[string]float64{}
	err := readRows("virtual CPUs", cpus, []string{"cloud", "microarchitecture", "watts_idle", "watts_full"}, func(r *table.Table) {
		w := watts(r, "watts_idle", "watts_full")
		cloud := strings.ToLower(r.Cell("cloud"))
		t.cpus[cloud+"/"+strings.ToLower(r.Cell("microarchitecture"))] = Model{Idle: w[0], Full: w[1]}
		for _, group := range []string{cloud, ""} {
			sum := t.mean[group]
			t.mean[group], rows[group] = Model{Idle: sum.Idle + w[0], Full: sum.Full + w[1]}, rows[group]+1
		}
	})
	if err != nil {
		return nil, err
	}
	for group, n := range rows {
		t.mean[group] = t.mean[group].Times(1 / n)
	}
	return t, nil
}

func (t *Table) addType(r *table.Table) {
	w := watts(r, "watts_idle", "watts_10", "watts_50", "watts_100")
	m := Model{Idle: w[0], Full: w[3]}
	if m.Full > m.Idle {
		share := func(w Watts) float64 { return float64((w - m.Idle) / (m.Full - m.Idle)) }
		var err error
		if m.Curve, err = NewCurve(Point{}, Point{0.1, share(w[1])}, Point{0.5, share(w[2])}, Point{1, 1}); err != nil {
			r.Fault(r.Line(), "", err.Error())
		}
	}
	t.types[r.Cell("machine_type")] = m
}

// MachineType returns the model of a machine type, and false if the table does not contain it.
func (t *Table) MachineType(name string) (Model, bool) {
	m, ok := t.types[name]
	return m, ok
}

// CPUs returns the model of a machine with n virtual CPUs of a cloud (aws, azure, gcp) and microarchitecture ("Cascade
// Lake"), case-insensitively. For an unknown microarchitecture it returns the mean of the cloud, for an unknown cloud
// the mean of all; exact is false for both.
func (t *Table) CPUs(cloud, microarchitecture string, n float64) (m Model, exact bool) {
	cloud, microarchitecture = strings.ToLower(cloud), strings.ToLower(microarchitecture)
	if m, ok := t.cpus[cloud+"/"+microarchitecture]; ok {
		return m.Times(n), true
	}
	if m, ok := t.mean[cloud]; ok {
		return m.Times(n), false
	}
	return t.mean[""].Times(n), false
}

// watts reads non-decreasing powers from the columns and records faults.
func watts(t *table.Table, columns ...string) []Watts {
	least, read := 0.0, make([]Watts, 0, len(columns))
	for _, c := range columns {
		w := t.Float(c, func(w float64) bool { return w > 0 && w <= 1e6 && w >= least }, "a number above 0, at most 1000000 and at least the value of the previous column")
		least = max(least, w)
		read = append(read, Watts(w))
	}
	return read
}

// readRows calls add for each row of a CSV file. The header must contain the columns, in any order. add records faults
// in the table.
func readRows(name string, file io.Reader, columns []string, add func(*table.Table)) error {
	t, _, err := table.Open("", file, table.Format{Name: "power table", Required: columns, Lenient: true})
	if err == nil {
		for t.Next() {
			add(t)
		}
		err = t.Err()
	}
	if err != nil {
		return fmt.Errorf("read power table of %s: %w", name, err)
	}
	return nil
}
