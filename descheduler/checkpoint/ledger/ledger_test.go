package ledger

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/descheduler/checkpoint/terms"
	"supercargo.dev/supercargo/test/kit/testfile"
)

func open(t *testing.T, dir string) *Ledger {
	t.Helper()
	l, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func entry(migration string, role Role) Entry {
	return Entry{
		ID: ID{Migration: migration, Node: "node-1", Role: role}, Namespace: "jobs", Name: "move", Since: time.Unix(1000, 5).UTC(), Key: "secret",
		Container: checkpoint.Container{Pod: "work"}, Stage: terms.Freezing, FrozenAt: time.Unix(1001, 0).UTC(), Staged: &checkpoint.Staged{Digest: "sha256:1"},
	}
}

func put(t *testing.T, l *Ledger, e Entry) {
	t.Helper()
	if err := l.Put(e); err != nil {
		t.Fatal(err)
	}
}

func TestAnotherProcessRemembers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ledger")
	first := open(t, dir)
	source, target := entry("m1", SourceRole), entry("m1", TargetRole)
	put(t, first, source)
	put(t, first, target)
	source.Fate = terms.Kill
	put(t, first, source)
	second := open(t, dir)
	if got, ok := second.Get(source.ID); !ok || !cmp.Equal(got, source) {
		t.Errorf("source: %v\n%s", ok, cmp.Diff(source, got))
	}
	if got := second.All(); len(got) != 2 {
		t.Errorf("there are %d entries, want 2", len(got))
	}
	if err := second.Remove(source.ID); err != nil {
		t.Fatal(err)
	}
	if err := second.Remove(source.ID); err != nil {
		t.Errorf("to remove what is not there: %v", err)
	}
	if _, ok := open(t, dir).Get(source.ID); ok {
		t.Error("an entry that was removed is there")
	}
}

func TestNobodyElseReadsTheKeys(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ledger")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, open(t, dir), entry("m1", SourceRole))
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files: %v, %v", files, err)
	}
	for file, want := range map[string]os.FileMode{dir: 0o700, files[0]: 0o600} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: mode %v (%v), want %v", file, info.Mode().Perm(), err, want)
		}
	}
}

func TestAWriteThatWasCutShortIsForgotten(t *testing.T) {
	dir := t.TempDir()
	put(t, open(t, dir), entry("m1", SourceRole))
	testfile.Write(t, filepath.Join(dir, "m1_node-1_source.json.123.tmp"), "{")
	if got := open(t, dir).All(); len(got) != 1 {
		t.Errorf("there are %d entries, want 1", len(got))
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.tmp")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestADamagedEntryIsNotGuessedAt(t *testing.T) {
	dir := t.TempDir()
	testfile.Write(t, filepath.Join(dir, "m1_node-1_source.json"), `{"Migration":"m1"`)
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "m1_node-1_source.json") {
		t.Errorf("opening gives %v, want an error that names the file", err)
	}
}

func TestNamesThatLeadElsewhereAreRefused(t *testing.T) {
	l := open(t, t.TempDir())
	for _, id := range []ID{{"../m", "n", SourceRole}, {"m", "a/b", SourceRole}, {"", "n", SourceRole}, {"m", "n", "other"}, {".", "n", TargetRole}} {
		if err := l.Put(Entry{ID: id}); err == nil {
			t.Errorf("an entry for %+v was written", id)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"Migration":"m1","Node":"n","Role":"source","Stage":"Freezing"}`))
	f.Add([]byte(`{"Migration":"../x","Node":"n","Role":"source"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := parse(text)
		if err == nil && (strings.ContainsAny(e.Migration+e.Node, "/\\") || e.Migration == "" || e.Migration[0] == '.') {
			t.Errorf("%q is an entry with the name %+v", text, e.ID)
		}
	})
}
