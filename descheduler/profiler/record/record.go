// Package record is what is kept of a machine type between refits, so that it outlives a
// restart: the report of its last complete probe, a bounded sample of finished pods, and
// how probes have failed. One record is at most [MaxBytes] as JSON, in a ConfigMap.
package record

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"supercargo.dev/supercargo/internal/energy"
	"supercargo.dev/supercargo/internal/energy/profile"
)

const (
	// MaxTasks is how many finished pods are kept.
	MaxTasks = 512
	// MaxAge is for how long: what machines were like longer ago does not matter any more.
	MaxAge = 30 * 24 * time.Hour
	// MaxBytes is the longest record.
	MaxBytes = 128 << 10
	// maxName bounds the names of pods and categories: two names of objects and a slash.
	maxName = 2*253 + 1
	// maxReport is the longest report of a probe.
	maxReport = 4096
)

// Task is a finished pod.
type Task struct {
	// UID tells pods apart.
	UID string `json:"u"`
	// Category is whose pods do the same work.
	Category string `json:"c"`
	// Ended is when, in seconds since 1970.
	Ended       int64 `json:"t"`
	MilliCPU    int64 `json:"p"`
	MemoryBytes int64 `json:"m"`
	// Millis is how many milliseconds it ran.
	Millis int64 `json:"r"`
	// Decijoules is the energy in tenths of a joule, 0 if it is not known.
	Decijoules int64 `json:"e,omitempty"`
}

// Sample returns the task as it is learned from.
func (t Task) Sample() profile.Task {
	return profile.Task{Category: t.Category, Sample: profile.Sample{
		Size: profile.Size{MilliCPU: t.MilliCPU, MemoryBytes: t.MemoryBytes}, Runtime: time.Duration(t.Millis) * time.Millisecond,
		Energy: energy.Joules(float64(t.Decijoules) / 10), NoEnergy: t.Decijoules <= 0,
	}}
}

// Check returns what cannot be true of a task.
func (t Task) Check() error {
	const most = math.MaxInt64 / int64(time.Millisecond)
	switch {
	case t.UID == "" || len(t.UID) > maxName || len(t.Category) > maxName:
		return fmt.Errorf("pod %.40q of category %.40q: want a UID, and names of at most %d bytes", t.UID, t.Category, maxName)
	case t.MilliCPU < 0 || t.MemoryBytes < 0 || t.Millis <= 0 || t.Millis > most || t.Decijoules < 0:
		return fmt.Errorf("pod %s: %d m CPU, %d bytes, %d ms, %d dJ: want none negative, and some time", t.UID, t.MilliCPU, t.MemoryBytes, t.Millis, t.Decijoules)
	}
	return nil
}

// Probe is a complete probe.
type Probe struct {
	// Report is what the probe wrote.
	Report string `json:"report"`
	// Node is where it ran, Ended when it ended, Threads how many CPUs the machine has.
	Node    string    `json:"node"`
	Ended   time.Time `json:"ended"`
	Threads int       `json:"threads"`
}

// Record is what is kept of a machine type. The zero value is of one that is new.
type Record struct {
	MachineType string `json:"machineType"`
	// Fingerprint is that of the hardware that all of it is about.
	Fingerprint string `json:"fingerprint"`
	// Probe is the last complete one, nil if there was none.
	Probe *Probe `json:"probe,omitempty"`
	// Failures is how many probes have failed in a row since, Failed when and Failure why
	// the last did.
	Failures int       `json:"failures,omitempty"`
	Failed   time.Time `json:"failed,omitzero"`
	Failure  string    `json:"failure,omitempty"`
	// Tasks are finished pods, in the order of their keys.
	Tasks []Task `json:"tasks,omitempty"`
	// Learned is when models were learned last, Digest that of the models as they are to be
	// in the profile, and Before that of those before them: others are not ours.
	Learned time.Time `json:"learned,omitzero"`
	Digest  string    `json:"digest,omitempty"`
	Before  string    `json:"before,omitempty"`
}

// key orders tasks as if by chance, and always alike.
func key(uid string) uint64 {
	sum := sha256.Sum256([]byte(uid))
	return binary.BigEndian.Uint64(sum[:])
}

func order(a, b Task) int {
	return cmp.Or(cmp.Compare(key(a.UID), key(b.UID)), cmp.Compare(a.UID, b.UID))
}

// Add keeps a task if it is among the [MaxTasks] with the least keys of those of the last
// [MaxAge], and reports whether the record has changed. Keys are hashes of UIDs, so what is
// kept is a uniform sample of all that were added, does not depend on their order, and
// a pod that is added twice counts once. What cannot be true is not kept.
func (r *Record) Add(t Task, now time.Time) (changed bool) {
	if t.Check() != nil {
		return false
	}
	changed = r.expire(now)
	if time.Unix(t.Ended, 0).Before(now.Add(-MaxAge)) {
		return changed
	}
	at, has := slices.BinarySearchFunc(r.Tasks, t, order)
	if has || at == MaxTasks {
		return changed
	}
	r.Tasks = slices.Insert(r.Tasks, at, t)
	r.Tasks = r.Tasks[:min(len(r.Tasks), MaxTasks)]
	return true
}

// expire drops tasks that are too old, and reports whether there were some.
func (r *Record) expire(now time.Time) bool {
	before, oldest := len(r.Tasks), now.Add(-MaxAge).Unix()
	r.Tasks = slices.DeleteFunc(r.Tasks, func(t Task) bool { return t.Ended < oldest })
	return len(r.Tasks) != before
}

// Of makes the record one about some hardware: what is known of other hardware is
// forgotten. It reports whether it was about another.
func (r *Record) Of(machineType, fingerprint string) (changed bool) {
	if r.MachineType == machineType && r.Fingerprint == fingerprint {
		return false
	}
	*r = Record{MachineType: machineType, Fingerprint: fingerprint}
	return true
}

// Encode writes a record. It leaves out as many tasks as it must to keep to [MaxBytes],
// those that would be the next to go.
func (r *Record) Encode() (string, error) {
	out := *r
	for {
		text, err := json.Marshal(&out)
		if err != nil {
			return "", fmt.Errorf("write the record of machine type %s: %w", r.MachineType, err)
		}
		if len(text) <= MaxBytes || len(out.Tasks) == 0 {
			return string(text), nil
		}
		out.Tasks = out.Tasks[:len(out.Tasks)*9/10]
	}
}

// Decode reads a record. It trusts nothing, since somebody may have edited it: an error
// says what is wrong, and that it is best deleted.
func Decode(text string) (*Record, error) {
	const hint = ": delete it, and what it knew is learned again"
	r := &Record{}
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("read a record: %d bytes, want at most %d%s", len(text), MaxBytes, hint)
	}
	if err := json.Unmarshal([]byte(text), r); err != nil {
		return nil, fmt.Errorf("read a record: %w%s", err, hint)
	}
	if r.Failures < 0 || len(r.Tasks) > MaxTasks || r.Probe != nil && (len(r.Probe.Report) > maxReport || r.Probe.Threads < 0) {
		return nil, fmt.Errorf("read the record of machine type %.63q: %d failures, %d tasks%s", r.MachineType, r.Failures, len(r.Tasks), hint)
	}
	for i, t := range r.Tasks {
		if err := t.Check(); err != nil {
			return nil, fmt.Errorf("read the record of machine type %.63q: %w%s", r.MachineType, err, hint)
		}
		if i > 0 && order(r.Tasks[i-1], t) >= 0 {
			return nil, fmt.Errorf("read the record of machine type %.63q: task %d is out of order%s", r.MachineType, i, hint)
		}
	}
	return r, nil
}
