package governor

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// sysfs is a machine with a number of frequency policies, as plain files.
type sysfs struct {
	*testing.T
	root, state string
}

func machine(t *testing.T, policies int) *sysfs {
	t.Helper()
	m := &sysfs{T: t, root: t.TempDir(), state: filepath.Join(t.TempDir(), "state")}
	for i := range policies {
		m.put(i, "scaling_governor", "schedutil\n")
		m.put(i, "scaling_available_governors", "performance schedutil powersave\n")
	}
	return m
}

func (m *sysfs) name(policy int, file string) string {
	return filepath.Join(m.root, "devices/system/cpu/cpufreq", fmt.Sprintf("policy%d", policy), file)
}

func (m *sysfs) put(policy int, file, content string) {
	m.Helper()
	name := m.name(policy, file)
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(content), 0o600)); err != nil {
		m.Fatal(err)
	}
}

// all checks the governors of all policies.
func (m *sysfs) all(want ...string) {
	m.Helper()
	for i, w := range want {
		got, err := os.ReadFile(m.name(i, "scaling_governor"))
		if err != nil || strings.TrimSpace(string(got)) != w {
			m.Errorf("policy %d has governor %q (%v), want %s", i, got, err, w)
		}
	}
}

func (m *sysfs) open() *Switch {
	m.Helper()
	s, err := Open(m.root, m.state)
	if err != nil {
		m.Fatal(err)
	}
	return s
}

func (m *sysfs) recorded() bool {
	_, err := os.Stat(filepath.Join(m.state, file))
	return err == nil
}

func TestGovernorsAreSwitchedAndPutBack(t *testing.T) {
	m := machine(t, 2)
	m.put(1, "scaling_governor", "performance")
	s := m.open()
	if got := s.Home(); got != "performance,schedutil" {
		t.Errorf("at home are %q", got)
	}
	if got := strings.Join(s.Available(Powersave, "turbo", Performance), " "); got != "powersave performance" {
		t.Errorf("available are %q", got)
	}
	for _, g := range []string{Powersave, Performance} {
		if err := s.Set(g); err != nil {
			t.Fatal(err)
		}
		m.all(g, g)
		if !m.recorded() {
			t.Error("nothing is on record")
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	m.all("schedutil", "performance")
	if m.recorded() {
		t.Error("the record is still there")
	}
}

func TestAMachineWithoutGovernorsHasNone(t *testing.T) {
	s := machine(t, 0).open()
	if s.Home() != "" || s.Available(Powersave) != nil {
		t.Errorf("home %q, available %q", s.Home(), s.Available(Powersave))
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestGovernorsThatCannotBeWrittenAreNotAvailable(t *testing.T) {
	m := machine(t, 2)
	s := m.open()
	if err := os.Remove(m.name(1, "scaling_governor")); err != nil {
		t.Fatal(err)
	}
	if got := s.Available(Powersave); got != nil {
		t.Errorf("available are %q", got)
	}
}

func TestIfOneCannotBeSwitchedAllArePutBack(t *testing.T) {
	m := machine(t, 3)
	s := m.open()
	if err := os.RemoveAll(m.name(2, "")); err != nil { // it is removed meanwhile
		t.Fatal(err)
	}
	if err := s.Set(Powersave); err == nil {
		t.Error("a policy that has gone is switched")
	}
	m.all("schedutil", "schedutil")
	if m.recorded() {
		t.Error("the record is still there")
	}
}

func TestWhatCannotBePutBackStaysOnRecord(t *testing.T) {
	m := machine(t, 2)
	s := m.open()
	if err := s.Set(Powersave); err != nil {
		t.Fatal(err)
	}
	name := m.name(0, "scaling_governor")
	if err := errors.Join(os.Remove(name), os.Mkdir(name, 0o700)); err != nil { // not writable, even for root
		t.Fatal(err)
	}
	if err := s.Restore(); err == nil {
		t.Error("it is put back")
	}
	if got, _ := os.ReadFile(m.name(1, "scaling_governor")); string(got) != "schedutil" {
		t.Errorf("the other has %q", got)
	}
	if !m.recorded() {
		t.Fatal("the record has gone")
	}
	if err := errors.Join(os.Remove(name), os.WriteFile(name, []byte(Powersave), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	m.all("schedutil", "schedutil")
}

// beKilled makes this test program change governors and wait.
const beKilled = "SUPERCARGO_TEST_SWITCH_GOVERNORS"

func TestMain(m *testing.M) {
	if where := os.Getenv(beKilled); where != "" {
		root, state, _ := strings.Cut(where, ":")
		s, err := Open(root, state)
		if err == nil {
			err = s.Set(Powersave)
		}
		fmt.Println("switched", err)
		time.Sleep(time.Minute) // until the test kills it, or has ended without
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestWhoIsKilledHasItsGovernorsPutBackByAnother(t *testing.T) {
	m := machine(t, 2)
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), beKilled+"="+m.root+":"+m.state)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, len("switched <nil>"))
	if _, err := out.Read(said); err != nil || string(said) != "switched <nil>" {
		t.Fatalf("the child says %q (%v)", said, err)
	}
	m.all(Powersave, Powersave)
	if restored, err := Recover(m.root, m.state); restored || err != nil {
		t.Errorf("while it lives: %t, %v", restored, err)
	}
	if _, err := Open(m.root, m.state); !errors.Is(err, ErrBusy) {
		t.Errorf("a second one gets %v, want ErrBusy", err)
	}
	m.all(Powersave, Powersave)
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it was killed
	if restored, err := Recover(m.root, m.state); !restored || err != nil {
		t.Errorf("after its death: %t, %v", restored, err)
	}
	m.all("schedutil", "schedutil")
	if restored, err := Recover(m.root, m.state); restored || err != nil || m.recorded() {
		t.Errorf("a second time: %t, %v, on record: %t", restored, err, m.recorded())
	}
}

// TestWhoeverComesNextFindsTheMachineAsItWas: if the process dies before, in or after any write,
// Open restores the governors.
func TestWhoeverComesNextFindsTheMachineAsItWas(t *testing.T) {
	for _, at := range []string{"record", "first", "second", "restored"} {
		m := machine(t, 2)
		s := m.open()
		steps := map[string]func() error{
			"record": s.record,
			"first":  func() error { return errors.Join(s.record(), s.write("policy0", Powersave)) },
			"second": func() error { return s.Set(Powersave) },
			"restored": func() error {
				return errors.Join(s.Set(Powersave), s.write("policy0", "schedutil"))
			},
		}
		if err := errors.Join(steps[at](), s.lock.Close()); err != nil { // it dies
			t.Fatal(err)
		}
		next := m.open()
		m.all("schedutil", "schedutil")
		if next.Home() != "schedutil" || m.recorded() {
			t.Errorf("died at %s: home is %q, on record: %t", at, next.Home(), m.recorded())
		}
	}
}

func TestARecordThatIsNoneStopsTheSwitch(t *testing.T) {
	for _, text := range []string{"", "{", `{"../../policy0":"x"}`, `{"cpu0":"x"}`} {
		m := machine(t, 1)
		if err := errors.Join(os.MkdirAll(m.state, 0o700), os.WriteFile(filepath.Join(m.state, file), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(m.root, m.state); err == nil || !strings.Contains(err.Error(), "set the governors manually and remove the file") {
			t.Errorf("record %q: %v, want an error that says what to do", text, err)
		}
		m.all("schedutil")
	}
}
