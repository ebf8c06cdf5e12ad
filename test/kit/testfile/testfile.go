// Package testfile reads, writes and decodes the files of tests. An error ends the test.
package testfile

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write golden files")

// Golden compares text with a golden file, byte for byte. With the flag -update it writes the file.
func Golden[T ~string | ~[]byte](t testing.TB, path string, got T) {
	t.Helper()
	if *update {
		Write(t, path, got)
	}
	if diff := cmp.Diff(string(Read(t, path)), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// Read returns the content of a file.
func Read(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Write creates or replaces a file.
func Write[T ~string | ~[]byte](t testing.TB, path string, data T) {
	t.Helper()
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

// New creates a file in a new folder that ends with the test, and returns its path.
func New[T ~string | ~[]byte](t testing.TB, name string, data T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	Write(t, path, data)
	return path
}

// JSON decodes JSON.
func JSON[T ~string | ~[]byte](t testing.TB, data T, into any) {
	t.Helper()
	decode(t, json.Unmarshal([]byte(data), into), data)
}

// YAML decodes YAML by the JSON names of fields.
func YAML[T ~string | ~[]byte](t testing.TB, data T, into any) {
	t.Helper()
	decode(t, yaml.Unmarshal([]byte(data), into), data)
}

// StrictYAML is YAML without unknown fields.
func StrictYAML[T ~string | ~[]byte](t testing.TB, data T, into any) {
	t.Helper()
	decode(t, yaml.UnmarshalStrict([]byte(data), into), data)
}

func decode[T ~string | ~[]byte](t testing.TB, err error, data T) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v in\n%s", err, string(data))
	}
}
