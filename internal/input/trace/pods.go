package trace

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/input/table"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/text/clip"
)

// Pod is one pod of a trace. Its name is valid and unique in the trace. Its Arrival is relative to
// the origin of the trace. Its Runtime, from its start, may be zero.
type Pod struct {
	packing.Item
	// Class is batch, service or empty, which leaves the choice to the creator of the pod.
	Class class.Class
	// Category groups pods that do the same kind of work; empty if unknown.
	Category string
	// Arch is the CPU architecture as in GOARCH; empty means any.
	Arch string
	// MilliGPUs is what it requests of GPUs, in thousandths of a GPU. Only pods of openb pod lists have any, and only plans
	// consider them.
	MilliGPUs int64
}

const (
	maxCount         = table.MaxRows
	maxNameBytes     = 253
	maxCategoryBytes = 253
	maxGPUs          = 32
	milliPerGPU      = 1000
)

var (
	genericFormat = table.Format{
		Name:     "generic trace",
		Required: []string{"arrival_s", "cpu_milli", "memory_mib", "runtime_s"},
		Optional: []string{"name", "class", "category", "count", "arch"},
	}
	podListFormat = table.Format{
		Name:     "pod list",
		Required: []string{"name", "cpu_milli", "memory_mib"},
		Optional: []string{"count", "arch", "class", "runtime_s"},
	}
	openbFormat = table.Format{
		Name:     "openb pod list",
		Required: []string{"name", "cpu_milli", "memory_mib", "qos", "creation_time", "deletion_time"},
		Optional: []string{"scheduled_time"},
		Lenient:  true,
	}
)

// Trace is a workload as read from a file.
type Trace struct {
	// Format names the file's format: "generic trace", "openb pod list", "pod
	// list" or "recording".
	Format string
	// Ignored has the columns of the file that are not replayed, in file order.
	Ignored []string
	// Pods is ordered by arrival, then name.
	Pods []Pod
}

// Read reads a generic trace, an openb pod list or the pods of a recording. The header determines
// the format. file is only used in errors, which are of type [*table.Errors] and list every fault
// up to [table.MaxErrors].
//
// Generic trace: times are seconds with up to nine decimals, and cpu_milli is an integer.
// memory_mib may have decimals and is rounded up to a byte. A row with a count of n > 1 represents
// n pods named name-0 to name-(n-1). A row without a name is named pod-LINE.
//
// openb pod list: a pod requests num_gpu GPUs, of each gpu_milli thousandths. Replays are of CPU and memory only, and
// ignore that. The kinds of GPUs in gpu_spec, pod_phase and unknown columns are ignored. Arrival is creation_time. Runtime is deletion_time
// minus scheduled_time, or minus creation_time for pods that were never scheduled. The quality of
// service BE is read as batch, and LS, Burstable and Guaranteed as service.
//
// Recording: see [Recording.Workload]. A service that had not ended runs to the end of the
// recording.
//
// Cost: O(n log n).
func Read(file string, r io.Reader) (*Trace, error) {
	b := bufio.NewReader(r)
	if t, is, err := readRecorded(file, b); is {
		return t, err
	}
	return read(file, b, genericFormat, openbFormat)
}

// ReadPodList reads pods that exist at the same time, without arrivals: a pod list, whose columns
// have the same meaning as in a generic trace, or any format of [Read]. Every row of a pod list has
// a name. An empty runtime_s means zero. file, errors and cost are as for [Read].
func ReadPodList(file string, r io.Reader) (*Trace, error) {
	b := bufio.NewReader(r)
	if t, is, err := readRecorded(file, b); is {
		return t, err
	}
	return read(file, b, podListFormat, genericFormat, openbFormat)
}

// read reads the format that fits the header best; ties go to the first.
func read(file string, r io.Reader, formats ...table.Format) (*Trace, error) {
	t, f, err := table.Open(file, r, formats...)
	if err != nil {
		return nil, err
	}
	rows := podRows{Table: t, lineOf: make(map[string]int)}
	for t.Next() && !rows.full {
		switch f.Name {
		case openbFormat.Name:
			rows.openb()
		case podListFormat.Name:
			rows.listed()
		default:
			rows.generic()
		}
	}
	if err := t.End(len(rows.pods)); err != nil {
		return nil, err
	}
	SortPods(rows.pods)
	return &Trace{Format: f.Name, Ignored: t.Ignored(f), Pods: rows.pods}, nil
}

// ReadPods is [Read] without the other fields of the trace.
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

// Rebase returns a copy of pods shifted so that the earliest arrival is zero.
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

// podRows converts rows to pods.
type podRows struct {
	*table.Table
	pods   []Pod
	lineOf map[string]int // where a name was first used
	full   bool
}

// generic reads the current row of a generic trace.
func (r *podRows) generic() {
	p := Pod{
		Item:     packing.Item{Name: r.Cell("name"), Arrival: time.Duration(r.Number("arrival_s", int64(time.Second), table.Exact)), Runtime: time.Duration(r.Number("runtime_s", int64(time.Second), table.Exact))},
		Category: r.Cell("category"),
	}
	r.requests(&p)
	if p.Name == "" {
		p.Name = "pod-" + strconv.Itoa(r.Line())
	}
	r.kind(&p)
	if !table.Printable(p.Category, maxCategoryBytes) {
		r.BadCell("category", fmt.Errorf("is not a valid category: must be at most %d bytes without control characters", maxCategoryBytes))
	}
	if p.Arrival > math.MaxInt64-p.Runtime {
		r.BadCell("runtime_s", table.ErrTooLarge)
	}
	r.addCounted(p)
}

// listed reads the current row of a pod list.
func (r *podRows) listed() {
	p := Pod{Item: packing.Item{Name: r.Cell("name"), Runtime: time.Duration(r.OptionalNumber("runtime_s", int64(time.Second), table.Exact))}}
	r.requests(&p)
	r.kind(&p)
	r.addCounted(p)
}

// kind reads class and architecture.
func (r *podRows) kind(p *Pod) {
	p.Class, p.Arch = class.Class(r.Cell("class")), r.Cell("arch")
	if !slices.Contains([]class.Class{"", class.Batch, class.Service}, p.Class) {
		r.BadCell("class", errors.New("must be batch, service or empty"))
	}
	r.CheckArch(p.Arch)
}

// openb reads the current row of an openb pod list.
func (r *podRows) openb() {
	faults := r.Faults()
	p := Pod{
		Item: packing.Item{Name: r.Cell("name"), Arrival: time.Duration(r.Number("creation_time", int64(time.Second), table.Exact))},
	}
	deleted := time.Duration(r.Number("deletion_time", int64(time.Second), table.Exact))
	r.requests(&p)
	r.gpus(&p)
	started := p.Arrival
	if r.Cell("scheduled_time") != "" {
		started = time.Duration(r.Number("scheduled_time", int64(time.Second), table.Exact))
	}
	p.Runtime = deleted - started
	if r.Faults() == faults {
		r.checkOrder(p.Arrival, started, deleted)
	}
	p.Class = r.classOfQoS()
	r.add(p)
}

// gpus reads the GPUs of an openb row: whole ones, or a share of one.
func (r *podRows) gpus(p *Pod) {
	number, share := r.OptionalNumber("num_gpu", 1, table.Exact), r.OptionalNumber("gpu_milli", 1, table.Exact)
	switch {
	case number < 0 || number > maxGPUs:
		r.BadCell("num_gpu", fmt.Errorf("must be from 0 to %d", maxGPUs))
	case share < 0 || share > milliPerGPU:
		r.BadCell("gpu_milli", fmt.Errorf("must be from 0 to %d", milliPerGPU))
	default:
		p.MilliGPUs = number * share
	}
}

// checkOrder records an error if the times of an openb row are not in order.
func (r *podRows) checkOrder(created, started, deleted time.Duration) {
	switch {
	case deleted < created:
		r.BadCell("deletion_time", fmt.Errorf("must not be before creation_time %q", r.Cell("creation_time")))
	case started < created:
		r.BadCell("scheduled_time", fmt.Errorf("must not be before creation_time %q", r.Cell("creation_time")))
	case deleted < started:
		r.BadCell("scheduled_time", fmt.Errorf("must not be after deletion_time %q", r.Cell("deletion_time")))
	}
}

// classOfQoS reads an openb row's quality of service.
func (r *podRows) classOfQoS() class.Class {
	switch r.Cell("qos") {
	case "BE":
		return class.Batch
	case "LS", "Burstable", "Guaranteed":
		return class.Service
	}
	r.BadCell("qos", errors.New("must be BE, LS, Burstable or Guaranteed"))
	return ""
}

// requests reads the columns that all formats share.
func (r *podRows) requests(p *Pod) {
	p.Size.MilliCPU = r.AtMost("cpu_milli", r.Number("cpu_milli", 1, table.Exact), table.MaxMilliCPU)
	p.Size.MemoryBytes = r.AtMost("memory_mib", r.Number("memory_mib", table.BytesPerMiB, table.RoundUp), table.MaxMemoryBytes)
}

// addCounted adds the pods of a row with a count.
func (r *podRows) addCounted(p Pod) {
	if r.Cell("count") == "" {
		r.add(p)
		return
	}
	count := r.AtMost("count", r.Number("count", 1, table.Exact), maxCount)
	switch {
	case count == 1:
		r.add(p)
	case count < 1:
		if r.Cell("count") == "0" {
			r.BadCell("count", errors.New("must be 1 or more"))
		}
	default:
		base := p.Name
		for i := int64(0); i < count && !r.full; i++ {
			p.Name = base + "-" + strconv.FormatInt(i, 10)
			r.add(p)
		}
	}
}

// add adds one pod unless its name is invalid or taken.
func (r *podRows) add(p Pod) {
	if len(r.pods) == table.MaxRows {
		r.Fault(r.Line(), "", fmt.Sprintf("exceeds the limit of %d pods in a trace", table.MaxRows))
		r.full = true
		return
	}
	if len(validation.IsDNS1123Subdomain(p.Name)) > 0 {
		r.Fault(r.Line(), "name", fmt.Sprintf("%q is not a valid pod name: must be up to %d lower-case letters, digits, '-' and '.', with a letter or digit at either end and beside each '.'",
			clip.Cell(p.Name), maxNameBytes))
		return
	}
	if line, taken := r.lineOf[p.Name]; taken {
		r.Fault(r.Line(), "name", fmt.Sprintf("%q is also the name of a pod at line %d: names must be unique", clip.Cell(p.Name), line))
		return
	}
	r.lineOf[p.Name] = r.Line()
	r.pods = append(r.pods, p)
}
