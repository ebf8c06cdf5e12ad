package record

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/test/kit/testfile"
)

func begun(t *testing.T, path string, hash bool) *File {
	t.Helper()
	f, err := OpenFile(path, hash)
	if err != nil {
		t.Fatal(err)
	}
	name := trace.NamesPlain
	if f.Hashed {
		name = trace.NamesHashed
	}
	if err := f.Append(trace.Row{Time: time.Hour, Event: trace.EventBegin, Name: name}, trace.Row{Time: 2 * time.Hour, Event: trace.EventPod, ID: f.Name("uid"), Name: f.Name("secret-project")}); err != nil {
		t.Fatal(err)
	}
	return f
}

func closed(t *testing.T, f *File) {
	t.Helper()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestWhatWasCutOffIsRemovedBeforeMoreIsAppended(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.csv")
	closed(t, begun(t, path, false))
	whole := testfile.Read(t, path)
	for n := 0; n <= len(whole); n++ { // a crash after each byte
		testfile.Write(t, path, whole[:n])
		f := begun(t, path, false)
		closed(t, f)
		got := testfile.Read(t, path)
		rec, err := trace.ReadRecording(path, bytes.NewReader(got))
		if err != nil {
			t.Fatalf("cut off after %d bytes and continued: %v\n%s", n, err, got)
		}
		if kept := max(0, bytes.Count(whole[:n], []byte("\n"))-1); len(rec.Rows) != kept+2 {
			t.Fatalf("cut off after %d bytes and continued: %d rows, want %d and 2 more", n, len(rec.Rows), kept)
		}
	}
}

func TestTwoDoNotAppendToOneFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.csv")
	f := begun(t, path, false)
	if _, err := OpenFile(path, false); err == nil || !strings.Contains(err.Error(), "another supercargo record") {
		t.Errorf("the error is %v, want the other recorder named", err)
	}
	closed(t, f)
	closed(t, begun(t, path, false))
}

func TestAFileThatIsNoRecordingIsLeftAsItIs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "precious.csv")
	const text = "arrival_s,cpu_milli,memory_mib,runtime_s\n1,2,3,4\n"
	testfile.Write(t, path, text)
	if _, err := OpenFile(path, false); err == nil || !strings.Contains(err.Error(), "is not a recording") {
		t.Errorf("the error is %v, want that it is no recording", err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != text {
		t.Errorf("the file is %q (%v) afterwards", got, err)
	}
}

func TestHashedNamesStayEqualInAFileAndNowhereElse(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "r.csv")
	f := begun(t, path, true)
	first := f.Name("secret-project")
	closed(t, f)
	text, err := os.ReadFile(path)
	if err != nil || bytes.Contains(text, []byte("secret")) || bytes.Contains(text, []byte("uid,")) || !bytes.Contains(text, []byte(first)) {
		t.Fatalf("the file (%v) has a name, or not its hash %s:\n%s", err, first, text)
	}
	f = begun(t, path, false) // an existing file stays hashed
	if got := f.Name("secret-project"); !f.Hashed || got != first {
		t.Errorf("continued, the name is %s (hashed %v), want %s", got, f.Hashed, first)
	}
	closed(t, f)
	other := begun(t, filepath.Join(dir, "other.csv"), true)
	if got := other.Name("secret-project"); got == first {
		t.Error("another file has the same hash")
	}
	closed(t, other)

	if err := os.Remove(path + ".salt"); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFile(path, true); err == nil || !strings.Contains(err.Error(), ".salt") {
		t.Errorf("without the salt the error is %v, want it named", err)
	}
	plainPath := filepath.Join(dir, "plain.csv")
	closed(t, begun(t, plainPath, false))
	if _, err := OpenFile(plainPath, true); err == nil || !strings.Contains(err.Error(), "--hash-names") {
		t.Errorf("hashing a file with names: the error is %v, want a refusal", err)
	}
}
