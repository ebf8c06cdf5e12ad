package rightsize

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

const (
	useFile      = "t_s,a,b\n0,1,\n300,2,0.5\n600,,1.5\n900,4,1\n"
	entitiesFile = "entity,cpu_requested,mem_requested,start_s,end_s,class\na,4,,,,web\nb,,,300,900,\n"
	flavorsFile  = "name,cpu,memory,price_per_hour\nsmall,4,100,1\nlarge,8,200,1.9\n"
)

// traceOf reads a trace from files; memory may be empty.
func traceOf(t *testing.T, entities, cpu, memory string) *Trace {
	t.Helper()
	var m *Use
	if memory != "" {
		m = use(t, memory)
	}
	e, err := ReadEntities("entities.csv", strings.NewReader(entities))
	if err != nil {
		t.Fatal(err)
	}
	trace, err := NewTrace(e, use(t, cpu), m)
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

func use(t *testing.T, text string) *Use {
	t.Helper()
	u, err := ReadUse("use.csv", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func flavors(t *testing.T, text string) []Flavor {
	t.Helper()
	f, err := ReadFlavors("flavors.csv", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return f.List
}

func TestAnEntityRunsFromItsStartToItsEnd(t *testing.T) {
	trace := traceOf(t, entitiesFile, useFile, "")
	if trace.Step != 5*time.Minute || trace.Intervals != 4 || len(trace.Entities) != 2 || trace.Measured != [resources]bool{CPU: true} {
		t.Fatalf("trace is %+v", trace)
	}
	a, b := trace.Entities[0], trace.Entities[1]
	if a.First != 0 || a.End != 4 {
		t.Errorf("a runs in [%d, %d), want all four intervals: a gap does not end it", a.First, a.End)
	}
	if b.First != 1 || b.End != 3 {
		t.Errorf("b runs in [%d, %d), want as it is stated, [1, 3)", b.First, b.End)
	}
	if a.Requested[CPU] != 4 || !math.IsNaN(a.Requested[Memory]) || !math.IsNaN(b.Requested[CPU]) {
		t.Errorf("requests are %v and %v", a.Requested, b.Requested)
	}
}

func TestAnEntityWithoutMeasurementsIsLeftOut(t *testing.T) {
	if trace := traceOf(t, entitiesFile+"c,1,1,,,\n", useFile, ""); len(trace.Entities) != 2 {
		t.Errorf("entities are %+v, want a and b", trace.Entities)
	}
}

func TestMemoryIsReadInMiBOrInTheUnitOfTheFile(t *testing.T) {
	for _, tc := range []struct {
		text string
		want float64
		mib  bool
	}{
		{"name,cpu,memory_gib,price_per_hour,max_pods,arch\nx,2,4,0.1,,amd64\n", 4096, true},
		{"name,cpu,memory,price_per_hour\nx,3200,4,0.1\n", 4, false},
	} {
		f, err := ReadFlavors("", strings.NewReader(tc.text))
		if err != nil || f.MiB != tc.mib || f.List[0].Capacity[Memory] != tc.want || f.List[0].MicroDollarsPerHour != 100_000 {
			t.Errorf("%q: %+v, %v, want %v of memory", tc.text, f, err, tc.want)
		}
	}
}

func TestFilesThatCannotBeAreRefusedByLineAndColumn(t *testing.T) {
	readUse := func(s string) error { _, err := ReadUse("f.csv", strings.NewReader(s)); return err }
	readEntities := func(s string) error { _, err := ReadEntities("f.csv", strings.NewReader(s)); return err }
	readFlavors := func(s string) error { _, err := ReadFlavors("f.csv", strings.NewReader(s)); return err }
	for _, tc := range []struct {
		name, text string
		read       func(string) error
		says       []string
	}{
		{"use without times", "a,b\n1,2\n", readUse, []string{"f.csv:1", "t_s"}},
		{"use of nobody", "t_s\n0\n300\n", readUse, []string{"f.csv:1", "one for each entity"}},
		{"one row", "t_s,a\n0,1\n", readUse, []string{"f.csv:2", "two or more"}},
		{"times that do not change", "t_s,a\n0,1\n0,1\n", readUse, []string{"f.csv:3", "1 to 3600 seconds"}},
		{"a row too few", "t_s,a\n0,1\n300,1\n900,1\n", readUse, []string{"f.csv:4", "300 seconds after"}},
		{"less than nothing", "t_s,a\n0,1\n300,-1\n", readUse, []string{"f.csv:3", "a", "0 or more"}},
		{"a word", "t_s,a\n0,much\n300,1\n", readUse, []string{"f.csv:2", "much"}},
		{"infinite use", "t_s,a\n0,Inf\n300,1\n", readUse, []string{"f.csv:2", "Inf"}},
		{"an entity twice", "entity,cpu_requested,mem_requested\na,1,1\na,2,2\n", readEntities, []string{"f.csv:3", "line 2"}},
		{"an entity without a name", "entity,cpu_requested,mem_requested\n,1,1\n", readEntities, []string{"f.csv:2", "entity"}},
		{"an end before the start", "entity,cpu_requested,mem_requested,start_s,end_s\na,1,1,5,5\n", readEntities, []string{"f.csv:2", "end_s", "after start_s"}},
		{"no requests", "entity,start_s\na,5\n", readEntities, []string{"cpu_requested"}},
		{"a flavor without memory", "name,cpu,price_per_hour\nx,1,1\n", readFlavors, []string{"memory"}},
		{"a flavor of nothing", "name,cpu,memory,price_per_hour\nx,0,1,1\n", readFlavors, []string{"f.csv:2", "cpu", "above 0"}},
		{"a flavor twice", "name,cpu,memory,price_per_hour\nx,1,1,1\nx,1,1,1\n", readFlavors, []string{"f.csv:3", "line 2"}},
		{"no flavors", "name,cpu,memory,price_per_hour\n", readFlavors, []string{"no rows"}},
	} {
		err := tc.read(tc.text)
		for _, part := range tc.says {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v, want an error that says %q", tc.name, err, part)
			}
		}
	}
}

func TestFilesThatDoNotBelongTogetherAreRefused(t *testing.T) {
	entities, err := ReadEntities("", strings.NewReader(entitiesFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, cpu, memory, says string }{
		{"a column of nobody", "t_s,a,z,y\n0,1,1,1\n300,1,1,1\n", "", `column "y" of the file of cpu, and 1 others`},
		{"memory at other times", useFile, "t_s,a\n0,1\n300,1\n", "same times"},
		{"nobody runs", "t_s,a\n0,\n300,\n", "", "no entity has a measurement"},
	} {
		var memory *Use
		if tc.memory != "" {
			memory = use(t, tc.memory)
		}
		if _, err := NewTrace(entities, use(t, tc.cpu), memory); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, want an error that says %q", tc.name, err, tc.says)
		}
	}
}

func TestAReplayNeedsBothPartsAndRequests(t *testing.T) {
	for _, tc := range []struct {
		name, entities string
		until          time.Duration
		says           string
	}{
		{"nothing to learn from", entitiesFile, 0, "--train-until"},
		{"nothing to judge", entitiesFile, time.Hour, "--train-until"},
		{"a request that nobody knows", strings.Replace(entitiesFile, "b,,,300", "b,,,600", 1), 5 * time.Minute, `entity "b": cpu_requested is not stated`},
	} {
		c := Config{Trace: traceOf(t, tc.entities, useFile, ""), Flavors: flavors(t, flavorsFile), TrainUntil: tc.until}
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, want an error that says %q", tc.name, err, tc.says)
		}
	}
	c := Config{Trace: traceOf(t, entitiesFile, useFile, ""), TrainUntil: 10 * time.Minute}
	if err := c.Validate(); err != nil {
		t.Errorf("the peak of what was learned is a request: %v", err)
	}
}

func FuzzFilesOfUse(f *testing.F) {
	f.Add(useFile)
	f.Add("t_s,a\n0,1e3\n300,\n")
	f.Fuzz(func(t *testing.T, text string) {
		u, err := ReadUse("f", strings.NewReader(text))
		if err != nil {
			return
		}
		for name, column := range u.Columns {
			if len(column) != len(u.Seconds) {
				t.Errorf("column %q has %d rows of %d", name, len(column), len(u.Seconds))
			}
			for _, x := range column {
				if x < 0 || math.IsInf(x, 0) {
					t.Error(fmt.Errorf("column %q has %v", name, x))
				}
			}
		}
	})
}
