package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const help = `Do something

Usage:
  descheduler [flags]

Examples:
  descheduler --consolidation Act

Flags:
      --consolidation string                  what to do: Off, Observe or Act (default "Observe")
      --dry-run                               only log what would be done
      --eviction-webhook-client-names names   names of which that certificate must have one (default: any)
  -h, --help                                  help for descheduler
      --interval duration                     how often (default 20s)
      --kubeconfig file                       kubeconfig file
      --lock-object string                    DEPRECATED: not used any more
      --max-migrations int                    how many (default 10)
      --migration-bandwidth bits              bits per second (default 1200000000)
      --ciphers strings                       which ciphers. 
                                              --not-an-option is none
      --probe-image image                     image of the node agent
      --scale-kinds resource.group            what may be scaled (default [deployments.apps,statefulsets.apps])
  -v, --v Level                               number for the log level verbosity
      --weight float                          weight
`

func TestOptionsAreReadFromTheHelp(t *testing.T) {
	got := map[string]any{}
	for name, schema := range optionsOf("descheduler", help) {
		got[name] = schema.(map[string]any)["type"]
	}
	want := map[string]any{
		"consolidation": "string", "dry-run": "boolean", "interval": "string", "max-migrations": "integer", "v": "integer", "weight": "number",
		"eviction-webhook-client-names": []string{"array", "number", "string"}, "ciphers": []string{"array", "number", "string"},
		"migration-bandwidth": []string{"array", "number", "string"}, "scale-kinds": []string{"array", "string"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("options and their types (-want +got):\n%s", diff)
	}
	about := optionsOf("descheduler", help)["max-migrations"].(map[string]any)["description"]
	if about != "how many (default 10)" {
		t.Errorf("max-migrations is described as %q", about)
	}
}

func TestWhatCannotBeReadIsRefused(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		t.Helper()
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	program := write("program", "#!/bin/sh\necho nothing\n", 0o755)
	for name, tc := range map[string]struct{ schema, program, want string }{
		"no schema":          {filepath.Join(folder, "none"), program, "no such file"},
		"no JSON":            {write("a", "{", 0o644), program, "read schema"},
		"no definitions":     {write("b", "{}", 0o644), program, `has no object "definitions"`},
		"no program":         {write("c", `{"definitions": {}}`, 0o644), filepath.Join(folder, "none"), "none --help"},
		"a help without any": {write("d", `{"definitions": {}}`, 0o644), program, "shows only 0 options"},
	} {
		if err := run(tc.schema, []string{tc.program}); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q in it", name, err, tc.want)
		}
	}
}
