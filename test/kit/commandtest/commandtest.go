// Package commandtest runs command lines in the process of a test.
package commandtest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Program runs a command line, of which the first argument is the program's name, and returns its exit code.
type Program func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int

// Run runs `supercargo ARGS...`.
func Run(t *testing.T, program Program, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = program(t.Context(), append([]string{"supercargo"}, args...), strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

// File creates a file and returns its path.
func File(t *testing.T, content string) string {
	t.Helper()
	return filepath.Join(Directory(t, map[string]string{"input.yaml": content}), "input.yaml")
}

// Directory creates a directory with files.
func Directory(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// MachineCSV returns samples of a machine of 60 W to 210 W, with 60 % of the rise in the first half.
func MachineCSV(samples int) string {
	var b strings.Builder
	b.WriteString("time,watts,utilization\n")
	for i := range samples {
		u := float64(i*7%101) / 100
		watts := 60 + 150*(min(u, 0.5)/0.5*0.6+max(0, u-0.5)/0.5*0.4)
		fmt.Fprintf(&b, "%d,%.3f,%v\n", i, watts, u)
	}
	return b.String()
}
