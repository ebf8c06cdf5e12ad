package record

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"supercargo.dev/supercargo/energy/profile"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func task(i int) Task {
	return Task{UID: fmt.Sprintf("uid-%d", i), Category: "ns/c", Ended: noon.Unix(), MilliCPU: 500, MemoryBytes: 1 << 30, Millis: 1000, Decijoules: 25}
}

// TestWhatIsKeptDoesNotDependOnTheOrder: nor on tasks that are added twice.
func TestWhatIsKeptDoesNotDependOnTheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []Task
		for i := range rapid.IntRange(1, 2*MaxTasks).Draw(t, "tasks") {
			all = append(all, task(i))
		}
		var one, other Record
		for _, x := range all {
			one.Add(x, noon)
		}
		for _, x := range slices.Backward(all) {
			other.Add(x, noon)
			other.Add(x, noon)
		}
		if !reflect.DeepEqual(one, other) {
			t.Fatal("the order matters")
		}
		if want := min(len(all), MaxTasks); len(one.Tasks) != want {
			t.Fatalf("%d of %d are kept, want %d", len(one.Tasks), len(all), want)
		}
	})
}

// TestWhatIsKeptIsAFairSample: of ten thousand pods, early and late ones alike.
func TestWhatIsKeptIsAFairSample(t *testing.T) {
	const n = 10000
	var r Record
	for i := range n {
		r.Add(task(i), noon)
	}
	early := 0
	for _, x := range r.Tasks {
		var i int
		if _, err := fmt.Sscanf(x.UID, "uid-%d", &i); err != nil {
			t.Fatal(err)
		}
		if i < n/2 {
			early++
		}
	}
	// Of 512 flips of a fair coin: within five standard deviations.
	if early < MaxTasks/2-57 || early > MaxTasks/2+57 {
		t.Errorf("%d of %d are of the first half", early, len(r.Tasks))
	}
}

func TestOldTasksGoAndImpossibleOnesDoNotCome(t *testing.T) {
	var r Record
	old := task(1)
	old.Ended = noon.Add(-MaxAge - time.Second).Unix()
	if r.Add(old, noon) {
		t.Error("a task of long ago is kept")
	}
	for _, isNew := range []bool{true, false} {
		if r.Add(task(2), noon) != isNew {
			t.Errorf("it changes the record: %v, want %v", !isNew, isNew)
		}
	}
	// The record changes by expiry; task 3 ended too long ago by then.
	if !r.Add(task(3), noon.Add(MaxAge+time.Minute)) || len(r.Tasks) != 0 {
		t.Errorf("%+v after a month", r.Tasks)
	}
	for _, change := range []func(*Task){
		func(x *Task) { x.UID = "" }, func(x *Task) { x.UID = strings.Repeat("x", 600) }, func(x *Task) { x.Category = strings.Repeat("x", 600) },
		func(x *Task) { x.Millis = 0 }, func(x *Task) { x.Millis = 1 << 62 }, func(x *Task) { x.MilliCPU = -1 }, func(x *Task) { x.MemoryBytes = -1 }, func(x *Task) { x.Decijoules = -1 },
	} {
		x := task(1)
		change(&x)
		if r.Add(x, noon) || x.Check() == nil {
			t.Errorf("%.100v is kept", x)
		}
	}
}

func TestARecordComesThrough(t *testing.T) {
	r := Record{
		MachineType: "xeon", Fingerprint: "0123456789abcdef", Probe: &Probe{Report: "{}", Node: "a", Ended: noon, Threads: 8},
		Failures: 2, Failed: noon, Failure: "killed", Learned: noon, Digest: "x",
	}
	for i := range 20 {
		r.Add(task(i), noon)
	}
	text, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if back, err := Decode(text); err != nil || !reflect.DeepEqual(*back, r) {
		t.Errorf("%+v (%v), want %+v", back, err, r)
	}
}

func TestTheLongestRecordIsBounded(t *testing.T) {
	r := Record{Probe: &Probe{Report: strings.Repeat(`"`, maxReport)}}
	for i := range MaxTasks {
		x := task(i)
		x.Category = fmt.Sprintf("%0507d", i)
		r.Add(x, noon)
	}
	text, err := r.Encode()
	if err != nil || len(text) > MaxBytes {
		t.Fatalf("%d bytes, %v", len(text), err)
	}
	back, err := Decode(text)
	if err != nil || len(back.Tasks) < 150 || len(r.Tasks) != MaxTasks {
		t.Errorf("%d tasks come back (%v), and %d are left", len(back.Tasks), err, len(r.Tasks))
	}
}

func TestOtherHardwareBeginsAgain(t *testing.T) {
	r := Record{MachineType: "xeon", Fingerprint: "a", Failures: 3}
	r.Add(task(1), noon)
	if r.Of("xeon", "a") || len(r.Tasks) != 1 {
		t.Error("the same hardware is taken for another")
	}
	if !r.Of("xeon", "b") || len(r.Tasks) != 0 || r.Failures != 0 || r.Fingerprint != "b" {
		t.Errorf("%+v", r)
	}
}

func TestATaskWithoutEnergyIsForItsRuntime(t *testing.T) {
	x := task(1)
	if s := x.Sample(); s.NoEnergy || s.Energy != 2.5 || s.Runtime != time.Second || s.Size != (profile.Size{MilliCPU: 500, MemoryBytes: 1 << 30}) {
		t.Errorf("%+v", s)
	}
	x.Decijoules = 0
	if s := x.Sample(); !s.NoEnergy {
		t.Errorf("%+v", s)
	}
}

func FuzzDecode(f *testing.F) {
	r := Record{MachineType: "x"}
	r.Add(task(1), noon)
	r.Add(task(2), noon)
	text, err := r.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(`{"tasks":[{"u":"a","r":1},{"u":"a","r":1}]}`)
	f.Add(`{"failures":-1}`)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Decode(text)
		if err != nil {
			return
		}
		for _, x := range r.Tasks {
			if s := x.Sample(); s.Runtime <= 0 || s.Size.MilliCPU < 0 {
				t.Errorf("%+v", s)
			}
		}
	})
}
