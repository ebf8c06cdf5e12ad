package cli

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/cmd/internal/command"
)

var update = flag.Bool("update", false, "write what commands print to testdata/golden")

// elapsed matches the duration of a computation, which varies.
var elapsed = regexp.MustCompile(`"elapsedMillis": [0-9.e-]+`)

// TestCommandsPrintWhatTheyPrintedBefore compares with testdata/golden, byte for byte: the
// decisions of a seed, and about a cluster of six nodes that test/auditdump made with -nodes 6 -pods 40 -seed 5,
// change only on purpose. Write the files again with
//
//	go test ./cmd/supercargo/cli -run PrintWhatTheyPrintedBefore -update
func TestCommandsPrintWhatTheyPrintedBefore(t *testing.T) {
	const root = "../../../test/"
	for _, tc := range []struct {
		name, stdin string
		args        []string
	}{
		{"audit.txt", "", []string{"audit", "--from", "testdata/dump.json"}},
		{"audit.json", "", []string{"audit", "--from", "testdata/dump.json", "-o", "json"}},
		{"plan.txt", "", []string{"plan", "--pods", root + "data/openb/pods.csv", "--flavors", root + "data/aws/flavors.csv", "--deterministic"}},
		{"plan.json", "name,arrival_s,cpu_milli,memory_mib,runtime_s,class\na,0,900,512,60,batch\nb,0,3100,2048,0,service\nc,0,1500,9000,600,batch\n",
			[]string{"plan", "--pods", "-", "--flavors", root + "data/aws/flavors.csv", "--deterministic", "--explain", "-o", "json"}},
		{"plan-greedy.txt", "", []string{"plan", "--pods", root + "data/openb/pods.csv", "--flavors", root + "data/aws/flavors.csv", "--deterministic", "--algorithm", "greedy"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, stdout, stderr := supercargo(t, tc.stdin, tc.args...)
			if code != command.ExitOK {
				t.Fatalf("exit code %d:\n%s", code, stderr)
			}
			got := elapsed.ReplaceAll([]byte(stdout), []byte(`"elapsedMillis": 0`))
			path := filepath.Join("testdata", "golden", tc.name)
			if *update {
				if err := os.WriteFile(path, got, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%v prints something else (-want +got):\n%s", tc.args, cmp.Diff(string(want), string(got)))
			}
		})
	}
}
