// Package record holds what is known of a machine type between refits, so that it survives a
// restart: the report of its last complete probe, a bounded sample of finished pods, and the
// failures of probes. One record is at most [MaxBytes] of JSON, in a ConfigMap.
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

	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/energy/profile"
)

const (
	// MaxTasks is the maximum number of finished pods.
	MaxTasks = 512
	// MaxAge is their maximum age: older ones do not represent the machines any more.
	MaxAge = 30 * 24 * time.Hour
	// MaxBytes is the maximum length of a record.
	MaxBytes = 128 << 10
	// maxName bounds the names of pods and categories: two object names and a slash.
	maxName = 2*253 + 1
	// maxReport is the maximum length of a probe's report.
	maxReport = 4096
)

// Task is a finished pod.
type Task struct {
	// UID identifies the pod.
	UID string `json:"u"`
	// Category is shared by pods that do the same work.
	Category string `json:"c"`
	// Ended is the end, in seconds since 1970.
	Ended       int64 `json:"t"`
	MilliCPU    int64 `json:"p"`
	MemoryBytes int64 `json:"m"`
	// Millis is the duration in milliseconds.
	Millis int64 `json:"r"`
	// Decijoules is the energy in tenths of a joule; 0 if unknown.
	Decijoules int64 `json:"e,omitempty"`
}

// Sample returns the task as a sample for learning.
func (t Task) Sample() profile.Task {
	return profile.Task{Category: t.Category, Sample: profile.Sample{
		Size: profile.Size{MilliCPU: t.MilliCPU, MemoryBytes: t.MemoryBytes}, Runtime: time.Duration(t.Millis) * time.Millisecond,
		Energy: energy.Joules(float64(t.Decijoules) / 10), NoEnergy: t.Decijoules <= 0,
	}}
}

// Check returns an error for an implausible task.
func (t Task) Check() error {
	const most = math.MaxInt64 / int64(time.Millisecond)
	switch {
	case t.UID == "" || len(t.UID) > maxName || len(t.Category) > maxName:
		return fmt.Errorf("pod %.40q of category %.40q: the UID is required, and names must have at most %d bytes", t.UID, t.Category, maxName)
	case t.MilliCPU < 0 || t.MemoryBytes < 0 || t.Millis <= 0 || t.Millis > most || t.Decijoules < 0:
		return fmt.Errorf("pod %s: %d m CPU, %d bytes, %d ms, %d dJ: values must not be negative, and the time must be more than 0", t.UID, t.MilliCPU, t.MemoryBytes, t.Millis, t.Decijoules)
	}
	return nil
}

// Probe is a complete probe.
type Probe struct {
	// Report is the encoded report.
	Report string `json:"report"`
	// Node is its node, Ended its end, and Threads the number of CPUs of the machine.
	Node    string    `json:"node"`
	Ended   time.Time `json:"ended"`
	Threads int       `json:"threads"`
}

// Record is what is known of a machine type. The zero value is that of a new type.
type Record struct {
	MachineType string `json:"machineType"`
	// Fingerprint is that of the hardware that the record is about.
	Fingerprint string `json:"fingerprint"`
	// Probe is the last complete probe; nil if there was none.
	Probe *Probe `json:"probe,omitempty"`
	// Failures is the number of consecutive failed probes since then. Failed and Failure are the
	// time of the last one and its reason.
	Failures int       `json:"failures,omitempty"`
	Failed   time.Time `json:"failed,omitzero"`
	Failure  string    `json:"failure,omitempty"`
	// Tasks are finished pods, in the order of their keys.
	Tasks []Task `json:"tasks,omitempty"`
	// Learned is when models were last learned. Digest is that of these models, and Before that
	// of the profile's previous ones: models with any other digest are not the profiler's.
	Learned time.Time `json:"learned,omitzero"`
	Digest  string    `json:"digest,omitempty"`
	Before  string    `json:"before,omitempty"`
}

// key returns a pseudo-random but stable sort key.
func key(uid string) uint64 {
	sum := sha256.Sum256([]byte(uid))
	return binary.BigEndian.Uint64(sum[:])
}

func order(a, b Task) int {
	return cmp.Or(cmp.Compare(key(a.UID), key(b.UID)), cmp.Compare(a.UID, b.UID))
}

// Add adds a task if it is among the [MaxTasks] with the least keys of those of the last
// [MaxAge], and reports whether the record has changed. Keys are hashes of UIDs, so the kept
// tasks are a uniform sample of all that were added and do not depend on their order. A pod that
// is added twice counts once. Implausible tasks are ignored.
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

// expire drops tasks that are too old, and reports whether there were any.
func (r *Record) expire(now time.Time) bool {
	before, oldest := len(r.Tasks), now.Add(-MaxAge).Unix()
	r.Tasks = slices.DeleteFunc(r.Tasks, func(t Task) bool { return t.Ended < oldest })
	return len(r.Tasks) != before
}

// Of binds the record to hardware, and clears it if it was about other hardware. It reports
// whether it was.
func (r *Record) Of(machineType, fingerprint string) (changed bool) {
	if r.MachineType == machineType && r.Fingerprint == fingerprint {
		return false
	}
	*r = Record{MachineType: machineType, Fingerprint: fingerprint}
	return true
}

// Encode encodes a record. To stay within [MaxBytes] it drops tasks, those with the greatest keys
// first.
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

// Decode decodes a record. It validates everything, because somebody may have edited it. The
// error says what is wrong, and recommends to delete the record.
func Decode(text string) (*Record, error) {
	const hint = ": delete it, and its contents are learned again"
	r := &Record{}
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("read a record: %d bytes, must be at most %d%s", len(text), MaxBytes, hint)
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
