package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAProgramIsFoundWhereItIsSaidToBe(t *testing.T) {
	dir := t.TempDir()
	place := func(name string, mode os.FileMode) string {
		path := filepath.Join(dir, name, "tool")
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	given, named, onPath, text := place("given", 0o700), place("named", 0o700), place("path", 0o700), place("text", 0o600)
	tool := Program{Name: "tool", Env: "SUPERCARGO_TEST_TOOL", Does: "does things"}
	for _, tc := range []struct {
		name, given, env, path string
		want, says             string
	}{
		{"given before all else", given, named, filepath.Dir(onPath), given, ""},
		{"named by the environment before PATH", "", named, filepath.Dir(onPath), named, ""},
		{"on PATH", "", "", filepath.Dir(onPath), onPath, ""},
		{"nowhere", "", "", "", "", "find tool, which does things"},
		{"given where it is not", filepath.Join(dir, "none"), "", filepath.Dir(onPath), "", "at the given path"},
		{"given and no program", text, "", filepath.Dir(onPath), "", "not an executable file"},
		{"named where it is not", "", filepath.Join(dir, "none"), filepath.Dir(onPath), "", "at SUPERCARGO_TEST_TOOL"},
		{"no program on PATH", "", "", filepath.Dir(text), "", "run `make build`"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv(tool.Env, tc.env)
			t.Setenv("PATH", tc.path)
			got, err := tool.Find(tc.given)
			if got != tc.want || (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("found %q (%v), want %q and an error that says %q", got, err, tc.want, tc.says)
			}
		})
	}
}
