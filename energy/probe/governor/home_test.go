package governor

import (
	"os"
	"path/filepath"
	"testing"

	"supercargo.dev/supercargo/test/kit/testfile"
)

// TestTheGovernorOfAMachineIsThatWhichItHasAtHome: while a probe has changed the governor, Home
// returns the one that will be restored.
func TestTheGovernorOfAMachineIsThatWhichItHasAtHome(t *testing.T) {
	m := machine(t, 2)
	is := func(want string) {
		t.Helper()
		if got, err := Home(m.root, m.state); err != nil || got != want {
			t.Errorf("%q (%v), want %q", got, err, want)
		}
	}
	is("schedutil")
	s := m.open()
	is("schedutil")
	if err := s.Set(Powersave); err != nil {
		t.Fatal(err)
	}
	is("schedutil")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	m.put(1, "scaling_governor", Performance+"\n")
	is("performance,schedutil")
}

func TestAMachineWithoutGovernorsHasNoneAtHome(t *testing.T) {
	if got, err := Home(t.TempDir(), t.TempDir()); err != nil || got != "" {
		t.Errorf("%q, %v; want none", got, err)
	}
}

func TestAGarbledRecordIsAnError(t *testing.T) {
	m := machine(t, 1)
	if err := os.MkdirAll(m.state, 0o700); err != nil {
		t.Fatal(err)
	}
	testfile.Write(t, filepath.Join(m.state, file), "x")
	if got, err := Home(m.root, m.state); err == nil {
		t.Errorf("%q of a record that is none", got)
	}
}
