package probe

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/energy/profile"
)

// Run is the result of one task at one size.
type Run struct {
	Task Task
	Size profile.Size
	// Governor is the CPU governor; empty if there is none.
	Governor string
	// Started is the start, Runtime the duration, and CPU the CPU time.
	Started      time.Time
	Runtime, CPU time.Duration
	// Machine is the energy that the machine used. Measured is false if it was modelled, or if it
	// is unknown and so 0.
	Machine  energy.Joules
	Measured bool
	// Checksum is the checksum of the result.
	Checksum uint64
}

// Idle is the energy that the machine used without load, under a governor.
type Idle struct {
	Governor string
	// Started is the start, and For the duration.
	Started  time.Time
	For      time.Duration
	Machine  energy.Joules
	Measured bool
}

// Watts returns the idle power; false if it is unknown.
func (i Idle) Watts() (energy.Watts, bool) {
	if i.For <= 0 || !(i.Machine > 0) || math.IsInf(float64(i.Machine), 0) {
		return 0, false
	}
	return energy.Watts(float64(i.Machine) / i.For.Seconds()), true
}

// Report is the results of a probe so far.
type Report struct {
	// Home is the machine's own governor. Switched is whether others could be set.
	Home     string
	Switched bool
	Idle     []Idle
	Runs     []Run
	// Complete means that no work is left. Failure is why some is.
	Complete bool
	Failure  string
}

// ReportBytes is the maximum length of a report: the limit of Kubernetes for a termination
// message.
const ReportBytes = 4096

// wire is the encoding of a report, which must be short. A row is a run; it refers to governors,
// sizes and the tasks in the order of Tasks by index.
type wire struct {
	Version   int      `json:"v"`
	Governors []string `json:"g"` // the first is the machine's own
	Switched  bool     `json:"s,omitempty"`
	Complete  bool     `json:"c,omitempty"`
	Failure   string   `json:"f,omitempty"`
	// Idle has governor, milliseconds, decijoules, measured.
	Idle [][4]int64 `json:"i,omitempty"`
	// Sizes have milli-CPU and MiB.
	Sizes [][2]int64 `json:"z,omitempty"`
	// Rows have task, governor, size, milliseconds, milliseconds of CPU time, decijoules,
	// measured.
	Rows [][7]int64 `json:"r"`
}

const wireVersion = 1

// Encode encodes a report in at most [ReportBytes]. It truncates a long failure. An error means
// that the report has more runs than a plan of [SizesFor].
func (r Report) Encode() ([]byte, error) {
	w := wire{Version: wireVersion, Governors: []string{r.Home}, Switched: r.Switched, Complete: r.Complete, Failure: r.Failure, Rows: [][7]int64{}}
	w.Failure = plain(w.Failure)
	governor := func(name string) int64 {
		for i, g := range w.Governors {
			if g == name {
				return int64(i)
			}
		}
		w.Governors = append(w.Governors, name)
		return int64(len(w.Governors) - 1)
	}
	for _, i := range r.Idle {
		w.Idle = append(w.Idle, [4]int64{governor(i.Governor), i.For.Milliseconds(), decijoules(i.Machine), bit(i.Measured)})
	}
	for _, run := range r.Runs {
		size := [2]int64{run.Size.MilliCPU, run.Size.MemoryBytes >> 20}
		at := slices.Index(w.Sizes, size)
		if at < 0 {
			at, w.Sizes = len(w.Sizes), append(w.Sizes, size)
		}
		w.Rows = append(w.Rows, [7]int64{
			int64(slices.Index(Tasks(), run.Task)), governor(run.Governor), int64(at), run.Runtime.Milliseconds(),
			run.CPU.Milliseconds(), decijoules(run.Machine), bit(run.Measured),
		})
	}
	text, err := json.Marshal(w)
	if err != nil {
		return nil, fmt.Errorf("write the report of a probe: %w", err)
	}
	if len(text) > ReportBytes {
		return nil, fmt.Errorf("write the report of a probe: %d runs take %d bytes: must be at most %d", len(r.Runs), len(text), ReportBytes)
	}
	return text, nil
}

// plain returns the start of a text, with only characters that take one byte in JSON.
func plain(text string) string {
	const most = 256
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || strings.ContainsRune("\"\\<>&", r) {
			return '\''
		}
		return r
	}, text[:min(len(text), most)])
}

// Others returns the governors of runs other than the machine's own, in the order of the runs.
func (r Report) Others() []string {
	var all []string
	for _, run := range r.Runs {
		if run.Governor != r.Home && !slices.Contains(all, run.Governor) {
			all = append(all, run.Governor)
		}
	}
	return all
}

// Under returns the report with another governor as the machine's own.
func (r Report) Under(governor string) Report {
	r.Home = governor
	return r
}

// OnlyHome returns the report without results under governors other than the machine's own.
func (r Report) OnlyHome() Report {
	r.Runs = slices.DeleteFunc(slices.Clone(r.Runs), func(run Run) bool { return run.Governor != r.Home })
	r.Idle = slices.DeleteFunc(slices.Clone(r.Idle), func(i Idle) bool { return i.Governor != r.Home })
	return r
}

func decijoules(e energy.Joules) int64 { return int64(math.Round(float64(e) * 10)) }

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// mostMillis is the longest duration in a report: a year.
const mostMillis = int64(time.Hour * 24 * 365 / time.Millisecond)

// Decode decodes a report. It validates everything, because the text comes from a pod.
func Decode(text []byte) (Report, error) {
	const doing = "read the report of a probe"
	var w wire
	if len(text) > ReportBytes {
		return Report{}, fmt.Errorf("%s: %d bytes: must be at most %d", doing, len(text), ReportBytes)
	}
	if err := json.Unmarshal(text, &w); err != nil {
		return Report{}, fmt.Errorf("%s: %w", doing, err)
	}
	if w.Version != wireVersion || len(w.Governors) == 0 {
		return Report{}, fmt.Errorf("%s: version %d with %d governors: must be version %d: run the same release of agent and descheduler", doing, w.Version, len(w.Governors), wireVersion)
	}
	for n, z := range w.Sizes {
		if z[0] < 1 || z[0] > 1e9 || z[1] < 1 || z[1] > 1<<30 {
			return Report{}, fmt.Errorf("%s: size %d: %v", doing, n, z)
		}
	}
	r := Report{Home: w.Governors[0], Switched: w.Switched, Complete: w.Complete, Failure: w.Failure}
	for n, row := range w.Idle {
		i, ok := w.idle(row)
		if !ok {
			return Report{}, fmt.Errorf("%s: idle time %d: %v", doing, n, row)
		}
		r.Idle = append(r.Idle, i)
	}
	for n, row := range w.Rows {
		run, ok := w.run(row)
		if !ok {
			return Report{}, fmt.Errorf("%s: run %d: %v", doing, n, row)
		}
		r.Runs = append(r.Runs, run)
	}
	return r, nil
}

// indexes reports whether i is an index of n elements.
func indexes(i int64, n int) bool { return i >= 0 && i < int64(n) }

// lasts reports whether a duration is valid.
func lasts(millis int64) bool { return millis >= 0 && millis <= mostMillis }

func (w *wire) idle(row [4]int64) (Idle, bool) {
	if !indexes(row[0], len(w.Governors)) || !lasts(row[1]) || row[2] < 0 {
		return Idle{}, false
	}
	return Idle{Governor: w.Governors[row[0]], For: time.Duration(row[1]) * time.Millisecond, Machine: energy.Joules(float64(row[2]) / 10), Measured: row[3] == 1}, true
}

func (w *wire) run(row [7]int64) (Run, bool) {
	if !indexes(row[0], len(Tasks())) || !indexes(row[1], len(w.Governors)) || !indexes(row[2], len(w.Sizes)) || !lasts(row[3]) || !lasts(row[4]) || row[5] < 0 {
		return Run{}, false
	}
	size := w.Sizes[row[2]]
	return Run{
		Task: Tasks()[row[0]], Governor: w.Governors[row[1]], Size: profile.Size{MilliCPU: size[0], MemoryBytes: size[1] << 20},
		Runtime: time.Duration(row[3]) * time.Millisecond, CPU: time.Duration(row[4]) * time.Millisecond,
		Machine: energy.Joules(float64(row[5]) / 10), Measured: row[6] == 1,
	}, true
}

// Power is the power model of a machine with Threads threads, for runs whose energy was not
// measured.
type Power struct {
	energy.Model
	Threads int
}

// Samples returns the samples in a report: for each size the standard work, which is all tasks in
// turn, under the machine's own governor. The energy is that of the machine minus its idle
// energy. If it was not measured, it follows from the power model and the CPU time; modelled is
// the number of such samples. Sizes without all tasks are left out.
func (r Report) Samples(power Power) (samples []profile.Sample, modelled int) {
	type key struct {
		profile.Size
		Task
	}
	runs, sizes := map[key]Run{}, []profile.Size{}
	for _, run := range r.Runs {
		if run.Governor != r.Home {
			continue
		}
		if run.Task == Tasks()[0] {
			sizes = append(sizes, run.Size)
		}
		runs[key{run.Size, run.Task}] = run
	}
	for _, size := range sizes {
		s, complete, guessed := profile.Sample{Size: size}, true, false
		for _, task := range Tasks() {
			run, has := runs[key{size, task}]
			complete = complete && has
			e, measured := r.energy(run, power)
			s.Runtime += run.Runtime
			s.Energy += e
			guessed = guessed || !measured
		}
		if !complete {
			continue
		}
		if samples = append(samples, s); guessed {
			modelled++
		}
	}
	return samples, modelled
}

// energy returns the energy of the task alone, and whether it was measured.
func (r Report) energy(run Run, power Power) (energy.Joules, bool) {
	if run.Measured {
		for _, i := range r.Idle {
			if w, known := i.Watts(); known && i.Measured && i.Governor == run.Governor {
				return run.Machine - energy.Joules(float64(w)*run.Runtime.Seconds()), true
			}
		}
	}
	if run.Runtime <= 0 || power.Threads < 1 {
		return 0, false
	}
	busy := run.CPU.Seconds() / run.Runtime.Seconds() / float64(power.Threads)
	return energy.Joules(float64(power.At(busy)-power.Idle) * run.Runtime.Seconds()), false
}
