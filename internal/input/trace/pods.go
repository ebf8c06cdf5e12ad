package trace

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"
)

// Class says which kind of work a pod is.
type Class string

const (
	// ClassUnset leaves the class to whoever makes the pod.
	ClassUnset Class = ""
	// ClassBatch is work that ends by itself.
	ClassBatch Class = "batch"
	// ClassService is work that runs until it is taken away.
	ClassService Class = "service"
)

// Pod is one pod of a trace.
type Pod struct {
	// Name is a valid pod name, unlike that of any other pod of the trace.
	Name string
	// Arrival is when the pod was created, since the zero of the trace.
	Arrival time.Duration
	// Runtime is how long it ran from its start; it may be zero.
	Runtime time.Duration
	// MilliCPU is the requested CPU in thousandths of a core.
	MilliCPU int64
	// MemoryBytes is the requested memory.
	MemoryBytes int64
	// Class is batch, service or unset.
	Class Class
	// Category groups pods that do the same kind of work; empty when unknown.
	Category string
	// Arch is the CPU architecture as in GOARCH; empty means any.
	Arch string
}

// Bounds of single numbers, wide enough for any machine and small enough for
// sums over a trace.
const (
	maxMilliCPU      = 1_000_000_000
	maxMemoryBytes   = 1 << 50
	maxCount         = MaxRows
	bytesPerMiB      = 1 << 20
	maxNameBytes     = 253
	maxCategoryBytes = 253
	maxArchBytes     = 16
)

var (
	genericFormat = format{
		name:     "generic trace",
		required: []string{"arrival_s", "cpu_milli", "memory_mib", "runtime_s"},
		optional: []string{"name", "class", "category", "count", "arch"},
	}
	podListFormat = format{
		name:     "pod list",
		required: []string{"name", "cpu_milli", "memory_mib"},
		optional: []string{"count", "arch", "class", "runtime_s"},
	}
	openbFormat = format{
		name:     "openb pod list",
		required: []string{"name", "cpu_milli", "memory_mib", "qos", "creation_time", "deletion_time"},
		optional: []string{"scheduled_time"},
		lenient:  true,
	}
)

// Trace is a workload as read from a file.
type Trace struct {
	// Format names the file's format: "generic trace", "openb pod list" or "pod
	// list".
	Format string
	// Ignored lists the columns of the file that were not read, in their order.
	Ignored []string
	// Pods is ordered by arrival, then name.
	Pods []Pod
}

// Read reads a generic trace or an openb pod list; the header tells which.
// file is only used in errors, which are of type [*Errors] and list every fault
// up to [MaxErrors].
//
// Generic trace: times are seconds with up to nine decimals, and cpu_milli is
// whole. memory_mib may have decimals and is rounded up to a byte. A row with a
// count of n > 1 stands for n pods called name-0 to name-(n-1). A row without a
// name is called pod-LINE.
//
// openb pod list: made for CPU and memory clusters, so the columns num_gpu,
// gpu_milli and gpu_spec are IGNORED: a pod that asked for GPUs is read as if it
// asked for CPU and memory alone. pod_phase and unknown columns are ignored too.
// Arrival is creation_time. Runtime is deletion_time less scheduled_time, or
// less creation_time for pods that were never scheduled. The quality of service
// BE is read as batch; LS, Burstable and Guaranteed as service.
//
// Cost: O(n log n).
func Read(file string, r io.Reader) (*Trace, error) {
	return read(file, r, genericFormat, openbFormat)
}

// ReadPodList reads pods that are there together, so that nothing is said of when
// they come: a pod list, whose columns mean what they mean in a generic trace, or
// anything that [Read] reads. Every row of a pod list has a name, and runtime_s may
// be empty, which makes it zero. file, errors and cost are as for [Read].
func ReadPodList(file string, r io.Reader) (*Trace, error) {
	return read(file, r, podListFormat, genericFormat, openbFormat)
}

// read reads whichever of the formats the header fits best, the first of equals.
func read(file string, r io.Reader, formats ...format) (*Trace, error) {
	t, f, err := openTable(file, r, formats)
	if err != nil {
		return nil, err
	}
	rows := podRows{table: t, lineOf: make(map[string]int)}
	for t.next() && !rows.full {
		switch f.name {
		case openbFormat.name:
			rows.openb()
		case podListFormat.name:
			rows.listed()
		default:
			rows.generic()
		}
	}
	if len(rows.pods) == 0 && len(t.faults.List) == 0 {
		t.fault(0, "", "has a header but no rows, want at least one")
	}
	if err := t.faults.orNil(); err != nil {
		return nil, err
	}
	SortPods(rows.pods)
	return &Trace{Format: f.name, Ignored: t.ignored(f), Pods: rows.pods}, nil
}

// ReadPods is [Read] for those who want the pods alone.
func ReadPods(file string, r io.Reader) ([]Pod, error) {
	t, err := Read(file, r)
	if err != nil {
		return nil, err
	}
	return t.Pods, nil
}

// SortPods orders pods by arrival, then name.
func SortPods(pods []Pod) {
	slices.SortFunc(pods, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(a.Arrival, b.Arrival), cmp.Compare(a.Name, b.Name))
	})
}

// Rebase returns a copy of pods whose earliest arrival is zero.
func Rebase(pods []Pod) []Pod {
	moved := slices.Clone(pods)
	if len(moved) == 0 {
		return moved
	}
	first := moved[0].Arrival
	for _, p := range moved {
		first = min(first, p.Arrival)
	}
	for i := range moved {
		moved[i].Arrival -= first
	}
	return moved
}

// podRows turns rows into pods.
type podRows struct {
	*table
	pods   []Pod
	lineOf map[string]int // where a name was first used
	full   bool
}

// generic reads the present row of a generic trace.
func (r *podRows) generic() {
	p := Pod{
		Name:     r.cell("name"),
		Arrival:  time.Duration(r.number("arrival_s", int64(time.Second), exact)),
		Runtime:  time.Duration(r.number("runtime_s", int64(time.Second), exact)),
		Category: r.cell("category"),
	}
	r.requests(&p)
	if p.Name == "" {
		p.Name = "pod-" + strconv.Itoa(r.line)
	}
	r.kind(&p)
	if !printable(p.Category, maxCategoryBytes) {
		r.badCell("category", fmt.Errorf("is no category, want at most %d bytes without control characters", maxCategoryBytes))
	}
	if p.Arrival > maxInt64-p.Runtime {
		r.badCell("runtime_s", errTooLarge)
	}
	r.addCounted(p)
}

// listed reads the present row of a pod list.
func (r *podRows) listed() {
	p := Pod{Name: r.cell("name"), Runtime: time.Duration(r.optionalNumber("runtime_s", int64(time.Second), exact))}
	r.requests(&p)
	r.kind(&p)
	r.addCounted(p)
}

// kind reads class and architecture.
func (r *podRows) kind(p *Pod) {
	p.Class, p.Arch = Class(r.cell("class")), r.cell("arch")
	if !slices.Contains([]Class{ClassUnset, ClassBatch, ClassService}, p.Class) {
		r.badCell("class", errors.New("is no class, want batch, service or nothing"))
	}
	r.checkArch(p.Arch)
}

// openb reads the present row of an openb pod list.
func (r *podRows) openb() {
	faults := len(r.faults.List) + r.faults.More
	p := Pod{
		Name:    r.cell("name"),
		Arrival: time.Duration(r.number("creation_time", int64(time.Second), exact)),
	}
	deleted := time.Duration(r.number("deletion_time", int64(time.Second), exact))
	r.requests(&p)
	started := p.Arrival
	if r.cell("scheduled_time") != "" {
		started = time.Duration(r.number("scheduled_time", int64(time.Second), exact))
	}
	p.Runtime = deleted - started
	if len(r.faults.List)+r.faults.More == faults {
		r.checkOrder(p.Arrival, started, deleted)
	}
	p.Class = r.classOfQoS()
	r.add(p)
}

// checkOrder notes times of an openb row that run backwards.
func (r *podRows) checkOrder(created, started, deleted time.Duration) {
	switch {
	case deleted < created:
		r.badCell("deletion_time", fmt.Errorf("is before creation_time %q, want it at or after", r.cell("creation_time")))
	case started < created:
		r.badCell("scheduled_time", fmt.Errorf("is before creation_time %q, want it at or after", r.cell("creation_time")))
	case deleted < started:
		r.badCell("scheduled_time", fmt.Errorf("is after deletion_time %q, want it at or before", r.cell("deletion_time")))
	}
}

// classOfQoS reads an openb row's quality of service.
func (r *podRows) classOfQoS() Class {
	switch r.cell("qos") {
	case "BE":
		return ClassBatch
	case "LS", "Burstable", "Guaranteed":
		return ClassService
	}
	r.badCell("qos", errors.New("is no quality of service, want BE, LS, Burstable or Guaranteed"))
	return ClassUnset
}

// requests reads the columns that both formats share.
func (r *podRows) requests(p *Pod) {
	p.MilliCPU = r.atMost("cpu_milli", r.number("cpu_milli", 1, exact), maxMilliCPU)
	p.MemoryBytes = r.atMost("memory_mib", r.number("memory_mib", bytesPerMiB, roundUp), maxMemoryBytes)
}

// addCounted adds the pods that a row with a count stands for.
func (r *podRows) addCounted(p Pod) {
	if r.cell("count") == "" {
		r.add(p)
		return
	}
	count := r.atMost("count", r.number("count", 1, exact), maxCount)
	switch {
	case count == 1:
		r.add(p)
	case count < 1:
		if r.cell("count") == "0" {
			r.badCell("count", errors.New("stands for no pod, want 1 or more"))
		}
	default:
		base := p.Name
		for i := int64(0); i < count && !r.full; i++ {
			p.Name = base + "-" + strconv.FormatInt(i, 10)
			r.add(p)
		}
	}
}

// add keeps one pod unless its name is bad or taken.
func (r *podRows) add(p Pod) {
	if len(r.pods) == MaxRows {
		r.fault(r.line, "", fmt.Sprintf("goes beyond %d pods, the most one trace may have", MaxRows))
		r.full = true
		return
	}
	if !validName(p.Name) {
		r.fault(r.line, "name", fmt.Sprintf("%q is no pod name, want up to %d lower-case letters, digits, '-' and '.', with a letter or digit at either end and beside each '.'",
			clip(p.Name), maxNameBytes))
		return
	}
	if line, taken := r.lineOf[p.Name]; taken {
		r.fault(r.line, "name", fmt.Sprintf("%q is also the name of a pod of line %d, want a name of its own", clip(p.Name), line))
		return
	}
	r.lineOf[p.Name] = r.line
	r.pods = append(r.pods, p)
}

// atMost notes a value above most and returns it bounded.
func (t *table) atMost(column string, value, most int64) int64 {
	if value > most {
		t.badCell(column, errTooLarge)
		return 0
	}
	return value
}

// checkArch notes text that cannot be an architecture.
func (t *table) checkArch(arch string) {
	ok := len(arch) <= maxArchBytes
	for i := range len(arch) {
		ok = ok && isNameByte(arch[i])
	}
	if !ok {
		t.badCell("arch", errors.New("is no architecture, want one such as amd64 or arm64"))
	}
}

// validName reports whether s can be the name of a pod: an RFC 1123 subdomain.
func validName(s string) bool {
	if s == "" || len(s) > maxNameBytes {
		return false
	}
	for i := range len(s) {
		inside := i > 0 && i < len(s)-1
		switch c := s[i]; {
		case isNameByte(c):
		case c == '-' && inside && s[i-1] != '.' && s[i+1] != '.':
		case c == '.' && inside && isNameByte(s[i-1]) && isNameByte(s[i+1]):
		default:
			return false
		}
	}
	return true
}

// isNameByte reports whether c is a lower-case letter or digit.
func isNameByte(c byte) bool { return 'a' <= c && c <= 'z' || isDigit(c) }

// printable reports whether s has at most most bytes and no control characters.
func printable(s string, most int) bool {
	for _, c := range s {
		if c < ' ' || c == 0x7f {
			return false
		}
	}
	return len(s) <= most
}
