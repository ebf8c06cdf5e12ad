package criulog

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestErrorsOfCRIUAreFound(t *testing.T) {
	file := filepath.Join(t.TempDir(), "dump.log")
	if got := Errors(file); got != "CRIU has not written a log" {
		t.Errorf("without a log: %q", got)
	}
	for log, want := range map[string]string{
		"(00.1) pie: 1\n": "the log of CRIU has no error",
		"(00.1) pie: 1\n(00.2) Error (criu/sk-inet.c:191): inet: Connected TCP socket\nmore\n": "(00.2) Error (criu/sk-inet.c:191): inet: Connected TCP socket",
		strings.Repeat("Error\n", 9): "Error; Error; Error; Error",
	} {
		if err := os.WriteFile(file, []byte(log), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := Errors(file); got != want {
			t.Errorf("%q: %q, want %q", log, got, want)
		}
	}
}
