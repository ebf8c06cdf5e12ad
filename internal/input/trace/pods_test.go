package trace

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/input/table"
	"supercargo.dev/supercargo/internal/packing"
)

const (
	genericHeader = "arrival_s,cpu_milli,memory_mib,runtime_s\n"
	openbHeader   = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
)

func TestReadPodsReadsTheGenericTrace(t *testing.T) {
	const input = "\ufeffruntime_s,arrival_s,memory_mib,cpu_milli,category,class,name,arch,count\r\n" +
		"0.25,7,0.5,100,\"a,\"\"b\"\"\",batch,late,arm64,\r\n" +
		"\r\n" +
		"60,0.000000001,1,0,,service,web,,2\r\n" +
		"60,7,1,100.0,,,,,1"
	want := []Pod{
		{Item: packing.Item{Name: "web-0", Arrival: 1, Runtime: time.Minute, Size: packing.Size{MemoryBytes: 1 << 20}}, Class: class.Service},
		{Item: packing.Item{Name: "web-1", Arrival: 1, Runtime: time.Minute, Size: packing.Size{MemoryBytes: 1 << 20}}, Class: class.Service},
		{Item: packing.Item{Name: "late", Arrival: 7 * time.Second, Runtime: 250 * time.Millisecond, Size: packing.Size{MilliCPU: 100, MemoryBytes: 1 << 19}},
			Class: class.Batch, Category: `a,"b"`, Arch: "arm64"},
		{Item: packing.Item{Name: "pod-5", Arrival: 7 * time.Second, Runtime: time.Minute, Size: packing.Size{MilliCPU: 100, MemoryBytes: 1 << 20}}},
	}
	got, err := ReadPods("t.csv", strings.NewReader(input))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
}

func TestReadPodsReadsTheOpenbList(t *testing.T) {
	const input = openbHeader +
		"openb-pod-0002,3152,5600,2,1000,V100,BE,Succeeded,30,100,40\n" +
		"openb-pod-0001,12000,16384,1,1000,,Guaranteed,Pending,10,70,\n" +
		"openb-pod-0003,1,1,0,0,,Burstable,Failed,10,10,10\n" +
		"openb-pod-0000,1,1,0,0,,LS,Running,11,12,12\n"
	want := []Pod{
		{Item: packing.Item{Name: "openb-pod-0001", Arrival: 10 * time.Second, Runtime: time.Minute, Size: packing.Size{MilliCPU: 12000, MemoryBytes: 16 << 30}}, Class: class.Service, MilliGPUs: 1000},
		{Item: packing.Item{Name: "openb-pod-0003", Arrival: 10 * time.Second, Size: packing.Size{MilliCPU: 1, MemoryBytes: 1 << 20}}, Class: class.Service},
		{Item: packing.Item{Name: "openb-pod-0000", Arrival: 11 * time.Second, Size: packing.Size{MilliCPU: 1, MemoryBytes: 1 << 20}}, Class: class.Service},
		{Item: packing.Item{Name: "openb-pod-0002", Arrival: 30 * time.Second, Runtime: time.Minute, Size: packing.Size{MilliCPU: 3152, MemoryBytes: 5600 << 20}}, Class: class.Batch, MilliGPUs: 2000},
	}
	got, err := Read("t.csv", strings.NewReader(input))
	if err != nil {
		t.Fatal(err)
	}
	wantTrace := &Trace{Format: "openb pod list", Ignored: []string{"num_gpu", "gpu_milli", "gpu_spec", "pod_phase"}, Pods: want}
	if diff := cmp.Diff(wantTrace, got); diff != "" {
		t.Errorf("trace (-want +got):\n%s", diff)
	}
}

func TestReadPodsRefusesBadInput(t *testing.T) {
	long := strings.Repeat("1", table.MaxLineBytes+1)
	tests := []struct{ name, input, want string }{
		{"nothing at all", "", "t.csv: is empty: must have a header row"},
		{"only a byte order mark", "\ufeff", "t.csv: is empty"},
		{"a header without rows", genericHeader, "t.csv: has a header but no rows"},
		{"a header of no format", "a,b\n1,2\n", "t.csv:1: has no known column: the header must have arrival_s,cpu_milli"},
		{"a missing column", "arrival_s,cpu_milli,memory_mib\n1,2,3\n", "t.csv:1: runtime_s: is missing from the header"},
		{"a missing openb column", "name,cpu_milli,memory_mib,qos,creation_time\n", "t.csv:1: deletion_time: is missing"},
		{"an unknown column", "arrival_s,cpu_milli,memory_mib,runtime_s,gpu\n", "t.csv:1: gpu: is not a column of the generic trace"},
		{"a column twice", "arrival_s,cpu_milli,memory_mib,runtime_s,arrival_s\n", "t.csv:1: arrival_s: is in the header twice"},
		{"an openb column twice", "qos," + openbHeader, "t.csv:1: qos: is in the header twice"},
		{"too few cells", genericHeader + "1,2,3\n", "t.csv:2: has 3 cells: must be 4"},
		{"too many cells", genericHeader + "1,2,3,4,5\n", "t.csv:2: has 5 cells: must be 4"},
		{"an empty number", genericHeader + "1,,3,4\n", "t.csv:2: cpu_milli: is empty: a number is required"},
		{"not a number", genericHeader + "NaN,2,3,4\n", `t.csv:2: arrival_s: "NaN" is not a plain decimal number`},
		{"infinity", genericHeader + "1,2,3,+Inf\n", `t.csv:2: runtime_s: "+Inf" is not a plain decimal number`},
		{"an exponent", genericHeader + "1e3,2,3,4\n", `t.csv:2: arrival_s: "1e3" is not a plain decimal number`},
		{"a negative number", genericHeader + "1,2,-3,4\n", `t.csv:2: memory_mib: "-3" must be 0 or more`},
		{"an overflow", genericHeader + "99999999999999999999,2,3,4\n", "is too large"},
		{"an end beyond all time", genericHeader + "9000000000,2,3,9000000000\n", "t.csv:2: runtime_s: \"9000000000\" is too large"},
		{"more CPU than any machine has", genericHeader + "1,1000000001,3,4\n", "t.csv:2: cpu_milli: \"1000000001\" is too large"},
		{"a very long number", genericHeader + "1," + strings.Repeat("0", 41) + ",3,4\n", "has more than 40 characters"},
		{"half a milli-CPU", genericHeader + "1,2.5,3,4\n", `t.csv:2: cpu_milli: "2.5" must be a whole number`},
		{"less than a nanosecond", genericHeader + "0.0000000001,2,3,4\n", "must be a multiple of 1/1000000000"},
		{"a point without digits", genericHeader + "1.,2,3,4\n", "is not a plain decimal number"},
		{"a leftover quote", genericHeader + "1\",2,3,4\n", "t.csv:2: has a quote within a cell"},
		{"a quote left open", genericHeader + "\"1,2,3,4\n", "t.csv:2: has a quote within a cell"},
		{"bad UTF-8", genericHeader + "\xff,2,3,4\n", "t.csv:2: is not valid UTF-8"},
		{"a long line", genericHeader + long + "\n", "t.csv:2: is longer than 16384 bytes"},
		{"a long header", long, "t.csv:1: is longer than 16384 bytes"},
		{"a bad name", "name," + genericHeader + "Ä,1,2,3,4\n", `t.csv:2: name: "Ä" is not a valid pod name: must be`},
		{"a bad class", "class," + genericHeader + "BE,1,2,3,4\n", `t.csv:2: class: "BE" must be batch, service or empty`},
		{"a bad category", "category," + genericHeader + "\x01,1,2,3,4\n", "t.csv:2: category:"},
		{"a bad architecture", "arch," + genericHeader + "x86_64,1,2,3,4\n", `t.csv:2: arch: "x86_64" is not an architecture`},
		{"a count of nothing", "count," + genericHeader + "0,1,2,3,4\n", `t.csv:2: count: "0" must be 1 or more`},
		{"a name twice", "name," + genericHeader + "a,1,2,3,4\na,1,2,3,4\n", `t.csv:3: name: "a" is also the name of a pod at line 2`},
		{"a name twice by count", "name,count," + genericHeader + "a-1,1,1,2,3,4\na,2,1,2,3,4\n", `t.csv:3: name: "a-1" is also`},
		{"an end before the beginning", openbHeader + "a,1,2,0,0,,LS,Running,10,9,10\n", `t.csv:2: deletion_time: "9" must not be before creation_time "10"`},
		{"a start before the arrival", openbHeader + "a,1,2,0,0,,LS,Running,10,19,9\n", `t.csv:2: scheduled_time: "9" must not be before creation_time "10"`},
		{"a start after the end", openbHeader + "a,1,2,0,0,,LS,Running,10,19,20\n", `t.csv:2: scheduled_time: "20" must not be after deletion_time "19"`},
		{"a negative number of GPUs", openbHeader + "a,1,2,-1,0,,LS,Running,10,19,10\n", `t.csv:2: num_gpu: `},
		{"too many GPUs", openbHeader + "a,1,2,33,0,,LS,Running,10,19,10\n", `t.csv:2: num_gpu: "33" must be from 0 to 32`},
		{"more than a GPU of each", openbHeader + "a,1,2,1,1001,,LS,Running,10,19,10\n", `t.csv:2: gpu_milli: "1001" must be from 0 to 1000`},
		{"an unknown quality of service", openbHeader + "a,1,2,0,0,,,Running,10,19,10\n", `t.csv:2: qos: "" must be BE, LS`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			pods, err := ReadPods("t.csv", strings.NewReader(tc.input))
			if err == nil || pods != nil {
				t.Fatalf("ReadPods = %v, %v, want no pods and an error", pods, err)
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is\n%s\nwant it to contain\n%s", err, tc.want)
			}
		})
	}
}

func TestReadPodsListsEveryFaultUpToTheBound(t *testing.T) {
	var input strings.Builder
	input.WriteString(genericHeader)
	for range table.MaxErrors {
		input.WriteString("x,1,1,-1\n")
	}
	_, err := ReadPods("t.csv", strings.NewReader(input.String()))
	var all *table.Errors
	if !errors.As(err, &all) {
		t.Fatalf("error is %T, want *table.Errors", err)
	}
	if len(all.List) != table.MaxErrors || all.More != table.MaxErrors {
		t.Errorf("lists %d faults and counts %d more, want %d and %d", len(all.List), all.More, table.MaxErrors, table.MaxErrors)
	}
	want := table.Error{File: "t.csv", Line: 2, Column: "runtime_s", Problem: `"-1" must be 0 or more`}
	if all.List[1] != want {
		t.Errorf("second fault is %+v, want %+v", all.List[1], want)
	}
	var first table.Error
	if !errors.As(err, &first) || first.Column != "arrival_s" {
		t.Errorf("errors.As found %+v, want the fault of arrival_s", first)
	}
	if !strings.HasSuffix(err.Error(), "... and 20 more") {
		t.Errorf("error does not say that there are more:\n%s", err)
	}
}

func TestReadPodsContinuesAfterALongLine(t *testing.T) {
	input := genericHeader + strings.Repeat("1", 3*table.MaxLineBytes) + "\n1,2,3\n"
	_, err := ReadPods("t.csv", strings.NewReader(input))
	for _, want := range []string{"t.csv:2: is longer", "t.csv:3: has 3 cells"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want it to contain %q", err, want)
		}
	}
}

func TestReadPodsRefusesMorePodsThanTheBound(t *testing.T) {
	input := "count," + genericHeader + fmt.Sprintf("%d,1,2,3,4\n1,1,2,3,4\n", table.MaxRows)
	_, err := ReadPods("t.csv", strings.NewReader(input))
	if err == nil || !strings.Contains(err.Error(), "t.csv:3: exceeds the limit of 1000000 pods") {
		t.Errorf("error is %v, want one that states the bound", err)
	}
}

// endless repeats one line forever.
type endless struct{ line string }

func (e endless) Read(p []byte) (int, error) { return copy(p, e.line), nil }

func TestReadPodsRefusesInputWithoutEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("reads as much as is ever read")
	}
	_, err := ReadPods("t.csv", endless{line: "arrival_s\n"})
	if err == nil {
		t.Fatal("no error")
	}
	_, err = ReadPods("t.csv", endless{line: "\n"})
	if err == nil || !strings.Contains(err.Error(), "input is larger than 67108864 bytes") {
		t.Errorf("error is %v, want one that states the bound", err)
	}
}

func TestRebaseMovesTheFirstArrivalToZero(t *testing.T) {
	pods := []Pod{{Item: packing.Item{Name: "b", Arrival: 5}}, {Item: packing.Item{Name: "a", Arrival: 3}}}
	got := Rebase(pods)
	if got[0].Arrival != 2 || got[1].Arrival != 0 {
		t.Errorf("arrivals are %d and %d, want 2 and 0", got[0].Arrival, got[1].Arrival)
	}
	if pods[0].Arrival != 5 {
		t.Error("the argument was changed")
	}
	if len(Rebase(nil)) != 0 {
		t.Error("no pods became some")
	}
}

func TestReadPodListReadsPodsWithoutTimes(t *testing.T) {
	const input = "memory_mib,name,cpu_milli,count,arch,class,runtime_s\n" +
		"0.5,web,250,2,arm64,service,\n" +
		"1024,a,0,,,batch,0.5\n"
	want := &Trace{Format: "pod list", Pods: []Pod{
		{Item: packing.Item{Name: "a", Size: packing.Size{MemoryBytes: 1 << 30}, Runtime: 500 * time.Millisecond}, Class: class.Batch},
		{Item: packing.Item{Name: "web-0", Size: packing.Size{MilliCPU: 250, MemoryBytes: 1 << 19}}, Arch: "arm64", Class: class.Service},
		{Item: packing.Item{Name: "web-1", Size: packing.Size{MilliCPU: 250, MemoryBytes: 1 << 19}}, Arch: "arm64", Class: class.Service},
	}}
	got, err := ReadPodList("p.csv", strings.NewReader(input))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
}

func TestReadPodListTellsTheFormatsApart(t *testing.T) {
	for header, want := range map[string]string{
		"name,cpu_milli,memory_mib\n":                      "pod list",
		"runtime_s,name,cpu_milli,memory_mib\n":            "pod list",
		genericHeader:                                      "generic trace",
		strings.TrimSpace(genericHeader) + ",name,count\n": "generic trace",
		openbHeader: "openb pod list",
	} {
		row := "a" + strings.Repeat(",1", strings.Count(header, ",")) + "\n"
		switch want {
		case "generic trace":
			row = "1" + strings.Repeat(",1", strings.Count(header, ",")) + "\n"
		case "openb pod list":
			row = "a,1,1,0,0,,LS,Running,1,1,1\n"
		case "pod list":
			if strings.HasPrefix(header, "runtime_s") {
				row = "1,a,1,1\n"
			}
		}
		got, err := ReadPodList("p.csv", strings.NewReader(header+row))
		if err != nil {
			t.Errorf("%q: %v", header, err)
		} else if got.Format != want {
			t.Errorf("%q is read as %s, want %s", header, got.Format, want)
		}
	}
}

func TestATraceIsNoPodListWhereOneIsWanted(t *testing.T) {
	_, err := Read("p.csv", strings.NewReader("name,cpu_milli,memory_mib\na,1,1\n"))
	if err == nil || !strings.Contains(err.Error(), "is missing from the header") {
		t.Errorf("a trace without times gives %v, want what is missing", err)
	}
}
