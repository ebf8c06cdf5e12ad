// Package draw runs properties on inputs that are the same in each run.
package draw

import (
	"flag"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// Fixed checks a property on n inputs that rapid draws from a fixed seed. A test that must meet a case counts it
// there: among the inputs that rapid.Check draws again in each run it may by chance not come up.
//
// It changes flags of rapid meanwhile: tests that call it must not run in parallel with others.
func Fixed(t *testing.T, n int, property func(*rapid.T)) {
	t.Helper()
	defer set(t, "rapid.seed", "1")()
	defer set(t, "rapid.checks", strconv.Itoa(n))()
	rapid.Check(t, property)
}

// set sets a flag and returns what sets it back.
func set(t *testing.T, name, value string) (restore func()) {
	t.Helper()
	before := flag.Lookup(name).Value.String()
	if err := flag.Set(name, value); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := flag.Set(name, before); err != nil {
			t.Fatal(err)
		}
	}
}
