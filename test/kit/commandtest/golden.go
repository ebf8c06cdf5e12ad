package commandtest

import (
	"path/filepath"
	"regexp"
	"testing"

	"supercargo.dev/supercargo/test/kit/testfile"
)

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
			testfile.Golden(t, filepath.Join("testdata", "golden", line.File), got)
		})
	}
}
