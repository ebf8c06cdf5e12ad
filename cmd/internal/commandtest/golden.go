package commandtest

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write what commands print to testdata/golden")

// duration matches how long a computation took, which varies.
var duration = regexp.MustCompile(`"(wallSeconds|elapsedMillis)": [0-9.e-]+`)

// Golden is a command line and the file in testdata/golden that has what it prints.
type Golden struct {
	File, Stdin string
	Args        []string
}

// Compare runs the command lines and compares what they print with the files, byte for byte but for durations. With
// the flag -update it writes the files.
func Compare(t *testing.T, program Program, lines []Golden) {
	t.Helper()
	for _, line := range lines {
		t.Run(line.File, func(t *testing.T) {
			code, stdout, stderr := Run(t, program, line.Stdin, line.Args...)
			if code != 0 {
				t.Fatalf("exit code %d:\n%s", code, stderr)
			}
			got := duration.ReplaceAll([]byte(stdout), []byte(`"$1": 0`))
			path := filepath.Join("testdata", "golden", line.File)
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
				t.Errorf("%v prints something else (-want +got):\n%s", line.Args, cmp.Diff(string(want), string(got)))
			}
		})
	}
}
