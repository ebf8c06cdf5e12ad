package trace

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"

	"supercargo.dev/supercargo/internal/input/table"
)

// manyDigits matches large counts, among other things.
var manyDigits = regexp.MustCompile(`[0-9]{5}`)

// FuzzReadPods covers both pod formats: every accepted input satisfies the conditions of [Pod], and
// survives being written and read again.
func FuzzReadPods(f *testing.F) {
	f.Add([]byte(genericHeader + "1,2,3,4\n0.5,100,0.3,60\n"))
	f.Add([]byte("\ufeffname,class,category,count,arch," + genericHeader + "a,batch,\"x,y\",3,arm64,1,2,3,4\r\n"))
	f.Add([]byte(openbHeader + "openb-pod-0000,12000,16384,1,1000,,LS,Running,0,12537496,0\nb,1,1,0,0,,BE,Pending,5,9,\n"))
	f.Add([]byte(genericHeader + "NaN,-1,1e9,9223372036854775807\n"))
	f.Fuzz(func(t *testing.T, input []byte) {
		if bytes.Contains(input, []byte("count")) && manyDigits.Match(input) {
			t.Skip("may stand for so many pods that little else is tried")
		}
		pods, err := ReadPods("t.csv", bytes.NewReader(input))
		if err != nil {
			checkRefusal(t, err)
			return
		}
		names := make(map[string]bool)
		for _, p := range pods {
			if p.Arrival < 0 || p.Runtime < 0 || p.Size.MilliCPU < 0 || p.Size.MemoryBytes < 0 || p.Arrival+p.Runtime < 0 {
				t.Fatalf("%+v has a negative number", p)
			}
			if names[p.Name] {
				t.Fatalf("name %q is there twice", p.Name)
			}
			names[p.Name] = true
		}
		var file bytes.Buffer
		if err := writePods(&file, pods); err != nil {
			t.Fatal(err)
		}
		again, err := ReadPods("t.csv", &file)
		if err != nil {
			t.Fatal(err)
		}
		for i := range pods {
			pods[i].MilliGPUs = 0 // a generic trace has none
		}
		if diff := cmp.Diff(pods, again); diff != "" {
			t.Fatalf("pods (-first +again):\n%s", diff)
		}
	})
}

// FuzzReadPodList covers pod lists: accepted pods are bounded, named and not negative, and every
// input that [Read] accepts is accepted too.
func FuzzReadPodList(f *testing.F) {
	f.Add([]byte("name,cpu_milli,memory_mib\na,1,1\n"))
	f.Add([]byte("\ufeffname,class,count,arch,runtime_s,memory_mib,cpu_milli\na,batch,3,arm64,1.5,0.3,2\r\n"))
	f.Add([]byte(genericHeader + "1,2,3,4\n"))
	f.Add([]byte(openbHeader + "b,1,1,0,0,,BE,Pending,5,9,\n"))
	f.Add([]byte("name,cpu_milli,memory_mib,count\na,-1,NaN,-3\n"))
	f.Fuzz(func(t *testing.T, input []byte) {
		if bytes.Contains(input, []byte("count")) && manyDigits.Match(input) {
			t.Skip("may stand for so many pods that little else is tried")
		}
		list, err := ReadPodList("t.csv", bytes.NewReader(input))
		if err != nil {
			checkRefusal(t, err)
			if _, err := Read("t.csv", bytes.NewReader(input)); err == nil {
				t.Fatal("is a trace and no pod list")
			}
			return
		}
		names := make(map[string]bool)
		for _, p := range list.Pods {
			if p.Runtime < 0 || p.Size.MilliCPU < 0 || p.Size.MemoryBytes < 0 || len(validation.IsDNS1123Subdomain(p.Name)) > 0 || names[p.Name] {
				t.Fatalf("%+v has a negative number, or a name that is bad or taken", p)
			}
			names[p.Name] = true
		}
	})
}

// checkRefusal expects that an error names the file and is short.
func checkRefusal(t *testing.T, err error) {
	t.Helper()
	var all *table.Errors
	if !errors.As(err, &all) || len(all.List) == 0 || len(all.List) > table.MaxErrors {
		t.Fatalf("refused with %T %v, want *table.Errors within the bound", err, err)
	}
	for _, fault := range all.List {
		if !strings.HasSuffix(fault.File, ".csv") || fault.Problem == "" {
			t.Fatalf("fault %+v does not say where or what", fault)
		}
	}
}
