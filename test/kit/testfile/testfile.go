// Package testfile reads and writes the files of tests. An error ends the test.
package testfile

import (
	"os"
	"path/filepath"
	"testing"
)

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
func Write[T string | []byte](t testing.TB, path string, data T) {
	t.Helper()
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

// New creates a file in a new folder that ends with the test, and returns its path.
func New[T string | []byte](t testing.TB, name string, data T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	Write(t, path, data)
	return path
}
