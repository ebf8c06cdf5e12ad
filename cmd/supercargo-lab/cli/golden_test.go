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

// wall matches the duration of a simulation, which varies.
var wall = regexp.MustCompile(`"wallSeconds": [0-9.e-]+`)

// TestCommandsPrintWhatTheyPrintedBefore compares with testdata/golden, byte for byte: the
// decisions of a seed change only on purpose. Write the files again with
//
//	go test ./cmd/supercargo-lab/cli -run PrintWhatTheyPrintedBefore -update
func TestCommandsPrintWhatTheyPrintedBefore(t *testing.T) {
	const root = "../../../test/"
	// An hour in which the rate doubles, falls to a tenth and recovers.
	const rates = "time_s,rate_per_s\n0,40\n600,80\n1200,85\n1800,8\n2400,12\n3000,60\n3600,60\n"
	for _, tc := range []struct {
		name, stdin string
		args        []string
	}{
		{"simulate.txt", "", []string{"simulate", "-f", root + "scenarios/htas-on-off.yaml", "--policy", "default,htas,supercargo"}},
		{"simulate-recording.txt", "", []string{"simulate", "-f", root + "scenarios/shop.csv", "--policy", "default,supercargo"}},
		{"simulate.json", "", []string{"simulate", "-f", root + "scenarios/htas-stable.yaml", "--policy", "supercargo", "-o", "json"}},
		{"simulate-energy.txt", "", []string{"simulate", "-f", root + "scenarios/heats.yaml", "--policy", "default,heats-0.618,heats-0", "--repeat", "2"}},
		{"replicas.txt", rates, []string{"replicas", "--trace", "-", "--warmup", "0s", "--interval", "1m", "--law", "predictive,inversequeue,doublethreshold,hpa"}},
		{"replicas.json", rates, []string{"replicas", "--trace", "-", "--warmup", "0s", "--interval", "1m", "--interpolate", "--law", "qmdl", "-o", "json"}},
		{"workers.txt", "", []string{"workers", "--tasks", root + "scenarios/workers/blast.csv", "--start-workers", "3", "--max-workers", "20"}},
		{"workers.json", "", []string{"workers", "--tasks", root + "scenarios/workers/blast.csv", "--start-workers", "3", "--max-workers", "20", "--law", "hpa-20", "-o", "json"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, stdout, stderr := supercargo(t, tc.stdin, tc.args...)
			if code != command.ExitOK {
				t.Fatalf("exit code %d:\n%s", code, stderr)
			}
			got := wall.ReplaceAll([]byte(stdout), []byte(`"wallSeconds": 0`))
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
