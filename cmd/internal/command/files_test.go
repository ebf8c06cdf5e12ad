package command

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestAPageThatNoBrowserOpensIsSaidWhereItIs replaces the program that opens browsers.
func TestAPageThatNoBrowserOpensIsSaidWhereItIs(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the program has another name")
	}
	for name, tc := range map[string]struct {
		script string // of xdg-open; empty for none
		says   string // empty for nothing
	}{
		"no program":                    {"", "there is no program xdg-open"},
		"a program without a browser":   {"#!/bin/sh\nexit 3\n", "xdg-open failed: exit status 3"},
		"a program that opens the page": {"#!/bin/sh\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			if tc.script != "" {
				if err := os.WriteFile(filepath.Join(folder, "xdg-open"), []byte(tc.script), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("PATH", folder)
			var said bytes.Buffer
			OpenPage(t.Context(), "http://127.0.0.1:1/?token=t", &said)
			if tc.says == "" && said.Len() > 0 || !strings.Contains(said.String(), tc.says) {
				t.Errorf("it says %q, want %q", said.String(), tc.says)
			}
			if tc.says != "" && !strings.Contains(said.String(), "open http://127.0.0.1:1/?token=t in a browser") {
				t.Errorf("it says %q, and not where the page is", said.String())
			}
		})
	}
}

func TestABrowserThatStaysOpenIsNotWaitedFor(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "xdg-open"), []byte("#!/bin/sh\nexec /bin/sleep 5\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", folder)
	start := time.Now()
	if err := openBrowser(t.Context(), "http://127.0.0.1:1/", 50*time.Millisecond); err != nil || time.Since(start) > 4*time.Second {
		t.Errorf("after %v: %v", time.Since(start), err)
	}
}
