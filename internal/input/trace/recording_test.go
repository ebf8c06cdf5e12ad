package trace

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/packing"
)

const epoch = 1_795_000_000 * time.Second

// at returns a row some time after the recording began.
func at(after time.Duration, event Event, id string, change ...func(*Row)) Row {
	r := Row{Time: epoch + after, Event: event, ID: id}
	if event == EventPod || event == EventDaemon {
		r.Namespace, r.Name, r.MilliCPU, r.MemoryBytes, r.Class = "jobs", id, 500, 1<<30, class.Batch
	}
	for _, c := range change {
		c(&r)
	}
	return r
}

func service(r *Row) { r.Class = class.Service }

func on(node string) func(*Row) { return func(r *Row) { r.Node = node } }

func recorded(rows ...Row) *Recording {
	begin := at(0, EventBegin, "", func(r *Row) { r.Name = NamesPlain })
	return &Recording{Rows: append([]Row{begin}, rows...)}
}

func written(rec *Recording) []byte {
	text := []byte(RecordingHeader)
	for i := range rec.Rows {
		text = rec.Rows[i].Append(text)
	}
	return text
}

func TestARecordingIsReadAsItWasWritten(t *testing.T) {
	price, h := int64(192_000), 0.618
	rec := recorded(
		at(1500*time.Millisecond, EventNode, "n", func(r *Row) {
			r.Name, r.MilliCPU, r.MemoryBytes, r.Flavor, r.MicroDollarsPerHour, r.MaxPods, r.Arch = "worker", 3920, 16<<30-1, `m5 "large", of us`, &price, 110, "amd64"
		}),
		at(time.Nanosecond, EventPod, "p", func(r *Row) {
			r.Category, r.Migration, r.Arch, r.Runtime, r.EnergyWeight = "render", "checkpoint", "arm64", 90*time.Second, &h
		}),
		at(2*time.Second, EventStart, "p", on("n")), at(3*time.Second, EventEnd, "p"), at(4*time.Second, EventGone, "n"), at(5*time.Second, EventAlive, ""), at(6*time.Second, EventStop, ""),
	)
	free := int64(0)
	rec.Rows[1].MicroDollarsPerHour = &price
	rec.Rows = append(rec.Rows, at(7*time.Second, EventNode, "m", func(r *Row) { r.MicroDollarsPerHour = &free }))
	text := written(rec)
	got, err := ReadRecording("r.csv", bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rec.Rows, got.Rows); diff != "" || got.Whole != int64(len(text)) {
		t.Errorf("%d bytes are whole of %d; (-written +read):\n%s", got.Whole, len(text), diff)
	}
}

// TestWhateverACrashLeavesIsRead truncates a recording after each of its bytes.
func TestWhateverACrashLeavesIsRead(t *testing.T) {
	rec := recorded(at(time.Second, EventPod, "p"), at(2*time.Second, EventStart, "p", on("n")), at(time.Minute, EventEnd, "p"))
	text := written(rec)
	for n := len(RecordingHeader); n <= len(text); n++ {
		got, err := ReadRecording("r.csv", bytes.NewReader(text[:n]))
		whole := bytes.Count(text[:n], []byte("\n")) - 1
		if whole == 0 {
			continue // a file without rows is an error
		}
		if err != nil || len(got.Rows) != whole || !bytes.Equal(text[:got.Whole], text[:bytes.LastIndexByte(text[:n], '\n')+1]) {
			t.Fatalf("after %d bytes: %d rows (%v), want %d", n, len(got.Rows), err, whole)
		}
	}
}

func TestARecordingBecomesAWorkload(t *testing.T) {
	declared := func(d time.Duration) func(*Row) { return func(r *Row) { r.Runtime = d } }
	named := func(name string) func(*Row) { return func(r *Row) { r.Name = name } }
	for _, tc := range []struct {
		name string
		rows []Row
		want []Pod // arrival, runtime and name of each
		note string
	}{
		{"it came, ran and ended", []Row{at(10*time.Second, EventPod, "a"), at(15*time.Second, EventStart, "a"), at(45*time.Second, EventEnd, "a")},
			[]Pod{{Item: packing.Item{Name: "a", Arrival: 10 * time.Second, Runtime: 30 * time.Second}}}, ""},
		{"it ran before the recording began", []Row{at(-time.Hour, EventPod, "a"), at(-time.Hour, EventStart, "a"), at(45*time.Second, EventEnd, "a")},
			[]Pod{{Item: packing.Item{Name: "a", Runtime: 45 * time.Second}}}, ""},
		{"it still runs, and says for how long", []Row{at(0, EventPod, "a", declared(time.Hour)), at(0, EventStart, "a"), at(time.Minute, EventStop, "")},
			[]Pod{{Item: packing.Item{Name: "a", Runtime: time.Hour}}}, "had not ended"},
		{"it still runs, and has run for a part of what it says", []Row{at(-time.Minute, EventPod, "a", declared(time.Hour)), at(-time.Minute, EventStart, "a"), at(time.Minute, EventStop, "")},
			[]Pod{{Item: packing.Item{Name: "a", Runtime: 59 * time.Minute}}}, "had not ended"},
		{"it still runs, for longer than it says", []Row{at(0, EventPod, "a", declared(time.Second)), at(0, EventStart, "a"), at(time.Minute, EventStop, "")},
			[]Pod{{Item: packing.Item{Name: "a", Runtime: time.Minute}}}, "1 batch pod had not ended: it runs for its declared runtime, but at least for as long as it was observed"},
		{"it still waits", []Row{at(0, EventPod, "a"), at(time.Minute, EventStop, "")}, []Pod{{Item: packing.Item{Name: "a", Runtime: 10 * time.Minute}}}, "1 batch pod had not started: it runs for its declared runtime, else for 10m0s"},
		{"it was deleted while it waited", []Row{at(0, EventPod, "a"), at(time.Minute, EventEnd, "a")}, nil, "1 pod was deleted before it started, and is left out"},
		{"two were deleted while they waited", []Row{at(0, EventPod, "a"), at(0, EventPod, "b"), at(time.Minute, EventEnd, "a"), at(time.Minute, EventEnd, "b")}, nil, "2 pods were deleted before they started, and are left out"},
		{"a service that continues", []Row{at(time.Second, EventPod, "a", service), at(2*time.Second, EventStart, "a"), at(time.Minute, EventStop, "")}, []Pod{{Item: packing.Item{Name: "a", Arrival: time.Second}}}, ""},
		{"a service that went", []Row{at(0, EventPod, "a", service), at(2*time.Second, EventStart, "a"), at(time.Minute, EventEnd, "a")}, []Pod{{Item: packing.Item{Name: "a", Runtime: 58 * time.Second}}}, ""},
		{"a service that went in the second in which it came does not run forever", []Row{at(0, EventPod, "a", service), at(2*time.Second, EventStart, "a"), at(2*time.Second, EventEnd, "a")}, []Pod{{Item: packing.Item{Name: "a", Runtime: time.Second}}}, ""},
		{"a pod whose node's clock is ahead", []Row{at(0, EventPod, "a"), at(5*time.Second, EventStart, "a"), at(2*time.Second, EventEnd, "a")}, []Pod{{Item: packing.Item{Name: "a", Runtime: time.Second}}}, ""},
		{"three of a name, and one with the name that the second would get", []Row{
			at(1*time.Second, EventPod, "a", service, named("x")), at(2*time.Second, EventPod, "b", service, named("x-2")), at(3*time.Second, EventPod, "c", service, named("x")), at(4*time.Second, EventPod, "d", service, named("x")),
		}, []Pod{{Item: packing.Item{Name: "x", Arrival: time.Second}}, {Item: packing.Item{Name: "x-2", Arrival: 2 * time.Second}}, {Item: packing.Item{Name: "x-3", Arrival: 3 * time.Second}}, {Item: packing.Item{Name: "x-4", Arrival: 4 * time.Second}}}, ""},
		{"a pod of a DaemonSet", []Row{at(0, EventDaemon, "a")}, nil, ""},
		{"the same told twice, as after an interruption", []Row{at(0, EventPod, "a"), at(0, EventStart, "a"), at(9*time.Second, EventBegin, ""), at(0, EventPod, "a"), at(0, EventStart, "a"), at(10*time.Second, EventEnd, "a")},
			[]Pod{{Item: packing.Item{Name: "a", Runtime: 10 * time.Second}}}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pods, _, notes := recorded(tc.rows...).Workload()
			var got []Pod
			for _, p := range pods {
				got = append(got, Pod{Item: packing.Item{Name: p.Name, Arrival: p.Arrival, Runtime: p.Runtime}})
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if text := strings.Join(notes, "; "); !strings.Contains(text, tc.note) || tc.note == "" && text != "" {
				t.Errorf("notes are %q, want %q", text, tc.note)
			}
		})
	}
}

func TestARecordingIsATrace(t *testing.T) {
	rec := recorded(at(10*time.Second, EventPod, "b"), at(15*time.Second, EventStart, "b"), at(45*time.Second, EventEnd, "b"), at(0, EventPod, "a", service), at(time.Minute, EventStop, ""))
	for name, read := range map[string]func() (*Trace, error){
		"Read":        func() (*Trace, error) { return Read("r.csv", bytes.NewReader(written(rec))) },
		"ReadPodList": func() (*Trace, error) { return ReadPodList("r.csv", bytes.NewReader(written(rec))) },
	} {
		got, err := read()
		if err != nil || got.Format != "recording" || len(got.Pods) != 2 || got.Pods[0].Name != "a" || got.Pods[0].Runtime != time.Minute || got.Pods[1].Runtime != 30*time.Second {
			t.Errorf("%s: %+v (%v); want a service to the end of the minute, and 30 s of a batch pod", name, got, err)
		}
	}
}

// TestARecordingIsReadWhateverArchitectureAPodRequires: one pod that can run nowhere does not make a week unreadable.
func TestARecordingIsReadWhateverArchitectureAPodRequires(t *testing.T) {
	for _, arch := range []string{"x86_64", "ARM", "arm64-v8", strings.Repeat("a", 253)} {
		rec := recorded(at(0, EventPod, "p", func(r *Row) { r.Arch = arch }))
		got, err := ReadRecording("r.csv", bytes.NewReader(written(rec)))
		if err != nil || got.Rows[1].Arch != arch {
			t.Errorf("%s: rows %v, %v", arch, got, err)
		}
	}
}

func TestRowsThatAreNoneAreRefusedWithTheirLine(t *testing.T) {
	for name, line := range map[string]string{
		"an event":  "1,vanish,x" + strings.Repeat(",", 14),
		"a class":   "1,pod,x,n,x,,,idle" + strings.Repeat(",", 9),
		"a weight":  "1,pod,x,n,x,,,,,,,,2,,,,",
		"a price":   "1,node,x,,x,,,,,,,,,,f,-1,",
		"no line":   "1,pod,x,n,x,,,,,,a\tb,,,,,,",
		"a time":    "soon,pod,x" + strings.Repeat(",", 14),
		"too short": "1,pod,x",
	} {
		_, err := ReadRecording("r.csv", strings.NewReader(RecordingHeader+line+"\n"))
		if err == nil || !strings.Contains(err.Error(), "r.csv:2") {
			t.Errorf("%s: the error is %v, want one at line 2", name, err)
		}
	}
}

func TestAmountsAreWrittenExactly(t *testing.T) {
	for _, tc := range []struct {
		n, unit int64
		want    string
	}{
		{0, 1000, ""}, {1, 1000, "0.001"}, {1500, 1000, "1.5"}, {1<<30 + 1, 1 << 20, "1024.00000095367431640625"}, {math.MaxInt64, 1, "9223372036854775807"},
	} {
		if got := decimal(tc.n, tc.unit); got != tc.want {
			t.Errorf("%d of %d is %s, want %s", tc.n, tc.unit, got, tc.want)
		}
	}
}
