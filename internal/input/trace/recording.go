package trace

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/input/table"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/text/plural"
)

// Event is the kind of a row of a recording.
type Event string

const (
	// EventBegin begins a recording, or resumes it after an interruption. Its name is [NamesPlain]
	// or [NamesHashed].
	EventBegin Event = "begin"
	// EventAlive means that the recording continues and nothing else has happened.
	EventAlive Event = "alive"
	// EventStop means that the recording was stopped in an orderly way.
	EventStop Event = "stop"
	// EventNode is a node that exists or has changed.
	EventNode Event = "node"
	// EventGone is a node that was removed.
	EventGone Event = "gone"
	// EventPod is a pod that was created.
	EventPod Event = "pod"
	// EventDaemon is a pod of a DaemonSet or of a node itself. It reduces the allocatable resources
	// of its node.
	EventDaemon Event = "daemon"
	// EventStart is a pod that has started to run on a node.
	EventStart Event = "start"
	// EventEnd is a pod that has ended or was deleted.
	EventEnd Event = "end"
)

// The kinds of names in a recording: those of the cluster, or hashes of them.
const (
	NamesPlain  = "plain"
	NamesHashed = "hashed"
)

// Row is a line of a recording. The event determines which fields have a meaning; the others are
// zero.
type Row struct {
	// Time is the time of the event, by the cluster's clock, since 1970.
	Time  time.Duration
	Event Event
	// ID distinguishes consecutive pods and nodes with the same name.
	ID string
	// Namespace and Name identify a pod; a node has only Name.
	Namespace, Name string
	// MilliCPU and MemoryBytes are the requests of a pod, or the allocatable resources of a node.
	MilliCPU, MemoryBytes int64
	// Class, Category and Migration are as in [Pod] and as declared by pods.
	Class     class.Class
	Category  string
	Migration string
	// Arch is the architecture that a pod requires, or that of a node.
	Arch string
	// Runtime is the declared runtime of a batch pod; 0 for none.
	Runtime time.Duration
	// EnergyWeight is the energy weight that a pod declares; nil for none.
	EnergyWeight *float64
	// Node is the ID of the node on which a pod starts.
	Node string
	// Flavor is the machine type of a node, and MicroDollarsPerHour its price, or nil if unknown.
	Flavor              string
	MicroDollarsPerHour *int64
	// MaxPods is the maximum number of pods of a node.
	MaxPods int64
}

// recordingColumns are the columns of every recording, in file order.
var recordingColumns = []string{
	"time_s", "event", "id", "namespace", "name", "cpu_milli", "memory_mib", "class", "category", "migration", "arch", "runtime_s", "energy_weight",
	"node", "flavor", "price_per_hour", "max_pods",
}

// RecordingHeader is the first line of a recording, including its newline.
var RecordingHeader = strings.Join(recordingColumns, ",") + "\n"

var recordingFormat = table.Format{Name: "recording", Required: recordingColumns}

// Append appends the row to the slice as a complete line with its newline, so that rows can be
// appended to a file one by one.
func (r *Row) Append(to []byte) []byte {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	// Writes to a buffer never fail.
	_ = w.Write([]string{
		decimal(int64(r.Time), int64(time.Second)), string(r.Event), r.ID, r.Namespace, r.Name, integer(r.MilliCPU), decimal(r.MemoryBytes, table.BytesPerMiB),
		string(r.Class), r.Category, r.Migration, r.Arch, decimal(int64(r.Runtime), int64(time.Second)), weight(r.EnergyWeight), r.Node, r.Flavor, dollars(r.MicroDollarsPerHour), integer(r.MaxPods),
	})
	w.Flush()
	return append(to, b.Bytes()...)
}

// Recordable reports whether a row can have a text of a pod as its category or architecture. Annotations and selectors
// may have any text, but a row is one line of limited length.
func Recordable(text string) bool {
	return utf8.ValidString(text) && table.Printable(text, maxCategoryBytes)
}

func integer(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// decimal formats n units exactly, and 0 as an empty string. A unit is a power of ten or of two.
func decimal(n, unit int64) string {
	if n == 0 {
		return ""
	}
	whole, part := n/unit, n%unit
	text := strconv.FormatInt(whole, 10)
	if part == 0 {
		return text
	}
	text += "."
	for part > 0 {
		part *= 10
		text += strconv.FormatInt(part/unit, 10)
		part %= unit
	}
	return text
}

func weight(h *float64) string {
	if h == nil {
		return ""
	}
	return strconv.FormatFloat(*h, 'f', -1, 64)
}

func dollars(micro *int64) string {
	switch {
	case micro == nil:
		return ""
	case *micro == 0:
		return "0"
	}
	return decimal(*micro, 1_000_000)
}

// Recording is the recording of a cluster.
type Recording struct {
	// Rows are in file order.
	Rows []Row
	// Whole is the number of bytes of complete rows. An incomplete row after a crash follows them.
	Whole int64
}

// IsRecording reports whether a file that begins with begin is a recording.
func IsRecording(begin []byte) bool { return bytes.HasPrefix(begin, []byte(RecordingHeader)) }

// ReadRecording reads a recording. It drops an incomplete last row, as after a crash. file and
// errors are as for [Read]. Cost: O(n).
func ReadRecording(file string, r io.Reader) (*Recording, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	t, _, err := table.Open(file, bytes.NewReader(text), recordingFormat)
	if err != nil {
		return nil, err
	}
	rec := &Recording{Whole: int64(len(text))}
	for t.Next() {
		rec.Rows = append(rec.Rows, recordedRow(t))
	}
	if err := t.End(len(rec.Rows)); err != nil {
		return nil, err
	}
	return rec, nil
}

var events = []Event{EventBegin, EventAlive, EventStop, EventNode, EventGone, EventPod, EventDaemon, EventStart, EventEnd}

func recordedRow(t *table.Table) Row {
	r := Row{
		Time:  time.Duration(t.Number("time_s", int64(time.Second), table.Exact)),
		Event: Event(t.Cell("event")), ID: t.Cell("id"), Namespace: t.Cell("namespace"), Name: t.Cell("name"),
		MilliCPU:    t.AtMost("cpu_milli", t.OptionalNumber("cpu_milli", 1, table.Exact), table.MaxMilliCPU),
		MemoryBytes: t.AtMost("memory_mib", t.OptionalNumber("memory_mib", table.BytesPerMiB, table.RoundUp), table.MaxMemoryBytes),
		Class:       class.Class(t.Cell("class")), Category: t.Cell("category"), Migration: t.Cell("migration"), Arch: t.Cell("arch"),
		Runtime: time.Duration(t.OptionalNumber("runtime_s", int64(time.Second), table.Exact)),
		Node:    t.Cell("node"), Flavor: t.Cell("flavor"), MaxPods: t.OptionalNumber("max_pods", 1, table.Exact),
	}
	if !slices.Contains(events, r.Event) {
		t.BadCell("event", fmt.Errorf("must be one of %v", events))
	}
	if !slices.Contains([]class.Class{"", class.Batch, class.Service}, r.Class) {
		t.BadCell("class", errors.New("must be batch, service or empty"))
	}
	if !Recordable(r.Arch) { // a pod may require what is no architecture, and so run nowhere
		t.BadCell("arch", fmt.Errorf("must be at most %d bytes without control characters", maxCategoryBytes))
	}
	if t.Cell("price_per_hour") != "" {
		price := t.Number("price_per_hour", 1_000_000, table.RoundUp)
		r.MicroDollarsPerHour = &price
	}
	if t.Cell("energy_weight") != "" {
		h := t.Float("energy_weight", func(h float64) bool { return h >= 0 && h <= 1 }, "a number from 0 to 1")
		r.EnergyWeight = &h
	}
	return r
}

// Recorded is a pod of a recording, with its times.
type Recorded struct {
	// Row is the row of the pod. Its Time is the creation of the pod.
	Row
	// Started and Ended are when it started and ended; 0 if that was not observed.
	Started, Ended time.Duration
	// Node is the ID of the node on which it last started; empty if it never started.
	Node string
}

// Pods returns the pods of a recording in creation order, including those of DaemonSets and of
// nodes themselves. Ties are ordered by ID.
func (r *Recording) Pods() []*Recorded {
	byID := map[string]*Recorded{}
	var all []*Recorded
	for i := range r.Rows {
		row := &r.Rows[i]
		p := byID[row.ID]
		switch row.Event {
		case EventPod, EventDaemon:
			if p == nil {
				p = &Recorded{Row: *row}
				byID[row.ID] = p
				all = append(all, p)
			}
		case EventStart:
			if p != nil {
				p.Started, p.Node = row.Time, row.Node
			}
		case EventEnd:
			if p != nil {
				p.Ended = row.Time
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *Recorded) int { return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.ID, b.ID)) })
	return all
}

// Span returns the start and end of the recording, including interruptions.
func (r *Recording) Span() (from, to time.Duration) {
	for i := range r.Rows {
		if row := &r.Rows[i]; row.Event == EventBegin {
			from = row.Time
			break
		}
	}
	to = from
	for i := range r.Rows {
		to = max(to, r.Rows[i].Time)
	}
	return from, to
}

// defaultRuntime is the runtime of a batch pod that neither declares one nor was observed to run.
// internal/runtimes uses the same value.
const defaultRuntime = 10 * time.Minute

// resolution is the resolution of the times at which Kubernetes says that pods start and end, and the shortest runtime.
// A pod may end in the second of its start, or before it by another clock, and a service that runs for 0 s never ends.
const resolution = time.Second

// Workload returns the pods of a recording as a workload that begins with it, without those of
// DaemonSets and of nodes themselves, and notes about what is unknown. A pod that existed before
// the recording arrives at zero. A pod that had not ended runs for its declared runtime, but at
// least as long as it was observed to run; a service that had not ended has a runtime of 0. Pods
// that were deleted before they ran are dropped.
//
// Pods with the same name get a number as a suffix.
func (r *Recording) Workload() (pods []Pod, like []*Recorded, notes []string) {
	from, to := r.Span()
	var waiting, open, never int
	taken := map[string]int{}
	for _, p := range r.Pods() {
		if p.Event == EventDaemon {
			continue
		}
		if p.Started == 0 && p.Ended > 0 {
			never++
			continue
		}
		q := Pod{
			Item: packing.Item{Arrival: max(0, p.Time-from), Size: packing.Size{MilliCPU: p.MilliCPU, MemoryBytes: p.MemoryBytes}}, Class: p.Class, Category: p.Category, Arch: p.Arch,
		}
		began := max(p.Started, from)
		seen := max(resolution, cmp.Or(p.Ended, to)-began)
		switch {
		case p.Started == 0 && p.Class == class.Batch:
			q.Runtime = cmp.Or(p.Runtime, defaultRuntime)
			waiting++
		case p.Ended > 0:
			q.Runtime = seen
		case p.Started > 0 && p.Class == class.Batch:
			q.Runtime = max(seen, p.Runtime-(began-p.Started))
			open++
		}
		q.Name = uniqueName(p.Name, taken)
		pods, like = append(pods, q), append(like, p)
	}
	if waiting > 0 {
		notes = append(notes, fmt.Sprintf("%s had not started: %s declared runtime, else for %v", plural.Count(waiting, "batch pod"), runsFor(waiting), defaultRuntime))
	}
	if open > 0 {
		notes = append(notes, fmt.Sprintf("%s had not ended: %s declared runtime, but at least for as long as %s observed", plural.Count(open, "batch pod"), runsFor(open), plural.Form(open, "it was", "they were")))
	}
	if never > 0 {
		notes = append(notes, fmt.Sprintf("%s deleted before %s started, and %s left out", plural.Count(never, "pod")+plural.Form(never, " was", " were"), plural.Form(never, "it", "they"), plural.Form(never, "is", "are")))
	}
	return pods, like, notes
}

// runsFor begins a statement about the runtimes of n pods.
func runsFor(n int) string { return plural.Form(n, "it runs for its", "they run for their") }

// uniqueName returns the name, with a number as a suffix if it is taken.
func uniqueName(name string, taken map[string]int) string {
	for {
		taken[name]++
		n := taken[name]
		if n == 1 {
			return name
		}
		tail := "-" + strconv.Itoa(n)
		next := strings.TrimRight(name[:min(len(name), maxNameBytes-len(tail))], "-.") + tail
		if taken[next] == 0 {
			taken[next] = 1
			return next
		}
	}
}

// readRecorded reads a recording as a trace, if the file is one.
func readRecorded(file string, b *bufio.Reader) (*Trace, bool, error) {
	begin, _ := b.Peek(len(RecordingHeader)) // a shorter file is not a recording
	if !IsRecording(begin) {
		return nil, false, nil
	}
	rec, err := ReadRecording(file, b)
	if err != nil {
		return nil, true, err
	}
	pods, _, _ := rec.Workload()
	from, to := rec.Span()
	for i := range pods {
		if pods[i].Class != class.Batch && pods[i].Runtime == 0 { // runs to the end
			pods[i].Runtime = min(max(time.Second, to-from-pods[i].Arrival), math.MaxInt64-pods[i].Arrival)
		}
	}
	SortPods(pods)
	return &Trace{Format: recordingFormat.Name, Pods: pods}, true, nil
}
