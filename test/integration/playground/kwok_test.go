package playground

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"supercargo.dev/supercargo/lab/playground"
)

// crashingKwok returns a kwok that ends the given number of times like a crashing Go program before it works.
func crashingKwok(t *testing.T, times int) (path string) {
	t.Helper()
	program, err := playground.FindKwok("")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path = filepath.Join(dir, "kwok")
	script := fmt.Sprintf(`#!/bin/sh
echo x >>%[1]s/starts
if [ "$(wc -l <%[1]s/starts)" -le %[2]d ]; then echo fatal error: concurrent map writes; exit 2; fi
exec %[3]s "$@"
`, dir, times, program)
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAKwokThatCrashesIsStartedAgain(t *testing.T) {
	p := playground.ForTest(t, playground.Options{KwokPath: crashingKwok(t, 2), Nodes: playground.Fleet(1)})
	if err := p.Err(); err != nil {
		t.Error(err)
	}
}

func TestAKwokThatKeepsCrashingIsAbandoned(t *testing.T) {
	p, err := playground.Start(t.Context(), playground.Options{KwokPath: crashingKwok(t, 100), Nodes: playground.Fleet(1)})
	if err == nil {
		_ = p.Stop()
		t.Fatal("it starts anyway")
	}
}
