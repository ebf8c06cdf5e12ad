// Package rightsize replays measured use of CPU and memory over machines: a policy sets the request of each entity, the
// planner of the NodeFleet buys machines for these requests, and then what the entities really used shows how often a
// machine would have been overloaded, and what it cost.
package rightsize

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"supercargo.dev/supercargo/internal/input/table"
)

// Resource is a resource whose use was measured.
type Resource int

// The resources. Their order is that of all arrays of this package.
const (
	CPU Resource = iota
	Memory
	resources
)

// String returns the name of the resource.
func (r Resource) String() string { return [...]string{"cpu", "memory"}[r] }

// Amounts is an amount of each resource, in the units of the files.
type Amounts [resources]float64

// Entity is what a file has a column for: a container, a virtual machine, or a job.
type Entity struct {
	Name string
	// Requested is what it asked for; NaN if the file does not say.
	Requested Amounts
	// First and End are the interval in which it starts and the one before which it has ended.
	First, End int
	// Use is its use in each interval of the trace, NaN where there is no measurement; nil for a resource that was not
	// measured.
	Use [resources][]float64

	// startS and endS are the seconds that the file of entities states; NaN if it does not.
	startS, endS float64
}

// runs reports whether the entity runs in an interval.
func (e *Entity) runs(interval int) bool { return e.First <= interval && interval < e.End }

// Trace is the use of entities over time.
type Trace struct {
	// Begin is the time of the first interval, and Step the length of each.
	Begin, Step time.Duration
	Intervals   int
	// Measured says which resources were measured.
	Measured [resources]bool
	Entities []Entity
}

// at returns when an interval begins.
func (t *Trace) at(interval int) time.Duration { return t.Begin + time.Duration(interval)*t.Step }

// interval returns the first interval that does not begin before a time.
func (t *Trace) interval(at time.Duration) int {
	return int(min(max((at-t.Begin+t.Step-1)/t.Step, 0), time.Duration(t.Intervals)))
}

// MaxCells is the maximum number of cells of a file of use, which bounds the memory of a trace.
const MaxCells = 20_000_000

// Use is a file of use: a column of each entity, a row of each interval.
type Use struct {
	// Seconds are the beginnings of the intervals.
	Seconds []float64
	Columns map[string][]float64
}

const (
	timeColumn = "t_s"
	maxSeconds = 1e11
)

// ReadUse reads a file of use: a column t_s with the seconds at which each interval begins, equally far apart, and a
// column for each entity with what it used. An empty cell means that there was no measurement. name is only used in
// errors, which are of type [*table.Errors].
func ReadUse(name string, file io.Reader) (*Use, error) {
	format := table.Format{Name: "file of use", Required: []string{timeColumn}, Lenient: true}
	t, chosen, err := table.Open(name, file, format)
	if err != nil {
		return nil, err
	}
	u := &Use{Columns: map[string][]float64{}}
	entities := t.Ignored(chosen)
	if len(entities) == 0 {
		t.Fault(t.Line(), "", "has no column except t_s: must have one for each entity")
	}
	for t.Next() {
		if len(u.Seconds)*(len(entities)+1) >= MaxCells {
			t.Fault(t.Line(), "", fmt.Sprintf("exceeds %d cells, the maximum: keep fewer rows", MaxCells))
			break
		}
		u.Seconds = append(u.Seconds, t.Float(timeColumn, func(s float64) bool { return s >= 0 && s <= maxSeconds }, "seconds"))
		u.checkStep(t)
		for _, e := range entities {
			u.Columns[e] = append(u.Columns[e], cellOf(t, e))
		}
	}
	if len(u.Seconds) == 1 {
		t.Fault(t.Line(), timeColumn, "is the only row: two or more say how long an interval is")
	}
	return u, t.End(len(u.Seconds))
}

// checkStep checks that the last row is as far from the row before as the second one from the first.
func (u *Use) checkStep(t *table.Table) {
	n := len(u.Seconds)
	if n < 2 {
		return
	}
	step, gap := u.Seconds[1]-u.Seconds[0], u.Seconds[n-1]-u.Seconds[n-2]
	switch {
	case n == 2 && !(step >= 1 && step <= 3600):
		t.BadCell(timeColumn, errors.New("is not 1 to 3600 seconds after the previous row"))
	case math.Abs(gap-step) > 0.001:
		t.BadCell(timeColumn, fmt.Errorf("is not %g seconds after the previous row, as the second row is after the first", step))
	}
}

func cellOf(t *table.Table, column string) float64 {
	if t.Cell(column) == "" {
		return math.NaN()
	}
	return t.Float(column, amount, "an amount of 0 or more, or empty")
}

// maxAmount is larger than any amount of use, and small enough for a planner that counts thousandths.
const maxAmount = 1e6

func amount(x float64) bool { return x >= 0 && x <= maxAmount*1000 }

// ReadEntities reads a file of entities with the columns entity, cpu_requested, mem_requested, start_s and end_s, in
// the units of the files of use. Cells may be empty, except for the name. Other columns are ignored. name is only used in
// errors, which are of type [*table.Errors].
func ReadEntities(name string, file io.Reader) ([]Entity, error) {
	t, _, err := table.Open(name, file, table.Format{
		Name: "file of entities", Lenient: true,
		Required: []string{"entity", "cpu_requested", "mem_requested"}, Optional: []string{"start_s", "end_s"},
	})
	if err != nil {
		return nil, err
	}
	var entities []Entity
	lines := map[string]int{}
	for t.Next() {
		e := Entity{
			Name:      t.Cell("entity"),
			Requested: Amounts{cellOf(t, "cpu_requested"), cellOf(t, "mem_requested")},
			startS:    seconds(t, "start_s"), endS: seconds(t, "end_s"),
		}
		if line, twice := lines[e.Name]; twice || e.Name == "" {
			t.BadCell("entity", fmt.Errorf("is not a name of its own: line %d has it too, or it is empty", line))
		}
		if e.endS <= e.startS {
			t.BadCell("end_s", errors.New("is not after start_s"))
		}
		lines[e.Name] = t.Line()
		entities = append(entities, e)
	}
	return entities, t.End(len(entities))
}

func seconds(t *table.Table, column string) float64 {
	if t.Cell(column) == "" {
		return math.NaN()
	}
	return t.Float(column, func(s float64) bool { return math.Abs(s) <= maxSeconds }, "seconds, or empty")
}

// NewTrace joins entities with their use. memory may be nil: memory is then not measured. An entity runs from start_s to
// end_s, as far as these are stated, else from its first measurement to its last; one without any measurement is left
// out. Each column of use must have an entity.
func NewTrace(entities []Entity, cpu, memory *Use) (*Trace, error) {
	t := &Trace{
		Begin: time.Duration(cpu.Seconds[0] * float64(time.Second)), Intervals: len(cpu.Seconds),
		Step: time.Duration((cpu.Seconds[1] - cpu.Seconds[0]) * float64(time.Second)),
	}
	files := [resources]*Use{cpu, memory}
	if memory != nil && (len(memory.Seconds) != len(cpu.Seconds) || memory.Seconds[0] != cpu.Seconds[0] || memory.Seconds[1] != cpu.Seconds[1]) {
		return nil, errors.New("--use: the file of memory must have the same times as that of CPU")
	}
	known := map[string]bool{}
	for _, e := range entities {
		known[e.Name] = true
		first, end := t.Intervals, 0
		for r, file := range files {
			if file == nil {
				continue
			}
			t.Measured[r] = true
			if e.Use[r] = file.Columns[e.Name]; e.Use[r] == nil {
				e.Use[r] = missing(t.Intervals)
			}
			f, n := measured(e.Use[r])
			first, end = min(first, f), max(end, n)
		}
		if first >= end {
			continue
		}
		e.First, e.End = t.life(&e, first, end)
		if e.First < e.End {
			t.Entities = append(t.Entities, e)
		}
	}
	slices.SortFunc(t.Entities, func(a, b Entity) int { return cmp.Compare(a.Name, b.Name) })
	return t, t.check(known, files)
}

// life returns when an entity starts and has ended, of which first and end are its measurements.
func (t *Trace) life(e *Entity, first, end int) (int, int) {
	if !math.IsNaN(e.startS) {
		first = t.interval(time.Duration(e.startS * float64(time.Second)))
	}
	if !math.IsNaN(e.endS) {
		end = t.interval(time.Duration(e.endS * float64(time.Second)))
	}
	return first, end
}

// check checks that each column is an entity's.
func (t *Trace) check(known map[string]bool, files [resources]*Use) error {
	var errs []error
	for r, file := range files {
		if file == nil {
			continue
		}
		var strange []string
		for name := range file.Columns {
			if !known[name] {
				strange = append(strange, name)
			}
		}
		if slices.Sort(strange); len(strange) > 0 {
			errs = append(errs, fmt.Errorf("--use: the column %q of the file of %s, and %d others, are not in the file of entities", strange[0], Resource(r), len(strange)-1))
		}
	}
	if len(t.Entities) == 0 {
		errs = append(errs, errors.New("--entities: no entity has a measurement"))
	}
	return errors.Join(errs...)
}

func missing(n int) []float64 {
	use := make([]float64, n)
	for i := range use {
		use[i] = math.NaN()
	}
	return use
}

// measured returns the first interval with a measurement, and the one after the last.
func measured(use []float64) (first, end int) {
	first = len(use)
	for i, x := range use {
		if !math.IsNaN(x) {
			first, end = min(first, i), i+1
		}
	}
	return first, end
}
