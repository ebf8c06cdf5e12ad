package kubelet

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/descheduler/checkpoint/archive"
	"supercargo.dev/supercargo/internal/movable/capability"
)

// freezer has one container.
type freezer struct{ Freezer }

func (freezer) Inspect(ctx context.Context, c checkpoint.Container) (checkpoint.Facts, error) {
	return freezer{}.Describe(ctx, c)
}

func (freezer) Describe(context.Context, checkpoint.Container) (checkpoint.Facts, error) {
	return checkpoint.Facts{MemoryBytes: 5, Requirements: capability.Requirements{Backend: v1alpha1.BackendContainerd, BaseImageID: "sha256:base"}}, nil
}

// bench is a kubelet, and a source that uses it.
type bench struct {
	*testing.T
	source *Source
	asked  []string
	answer func(w http.ResponseWriter)
	work   string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{T: t, work: filepath.Join(t.TempDir(), "work")}
	folder := t.TempDir()
	b.answer = func(w http.ResponseWriter) {
		file := filepath.Join(folder, "checkpoint-1.tar")
		if err := os.WriteFile(file, tarOf(t, `{"rootfsImageRef":"example.test/base@sha256:1","name":"main"}`), 0o600); err != nil {
			t.Error(err)
		}
		if err := json.NewEncoder(w).Encode(map[string][]string{"items": {"/somewhere/else/checkpoint-1.tar"}}); err != nil {
			t.Error(err)
		}
	}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.asked = append(b.asked, r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization"))
		b.answer(w)
	}))
	t.Cleanup(server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	client, err := Client(authority, "example.com", func() (string, error) { return "token", nil })
	if err != nil {
		t.Fatal(err)
	}
	b.source = &Source{Freezer: freezer{}, URL: server.URL, HTTP: client, Folder: folder}
	return b
}

func tarOf(t *testing.T, config string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for name, content := range map[string]string{"config.dump": config, "spec.dump": "{}", "status.dump": "{}", "checkpoint/pages-1.img": "pages"} {
		err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: int64(len(content)), Mode: 0o600})
		if _, written := io.WriteString(w, content); errors.Join(err, written) != nil {
			t.Fatal(err, written)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

var container = checkpoint.Container{Namespace: "jobs", Pod: "work", Name: "main", ID: "1"}

func TestKubeletIsAskedAndItsArchiveIsSent(t *testing.T) {
	b := newBench(t)
	if _, err := b.source.Dump(t.Context(), container, b.work); err != nil {
		t.Fatal(err)
	}
	if want := "POST /checkpoint/jobs/work/main Bearer token"; len(b.asked) != 1 || b.asked[0] != want {
		t.Errorf("the kubelet was asked %q, want %q", b.asked, want)
	}
	var sent bytes.Buffer
	if err := b.source.Archive(t.Context(), container, b.work, &sent); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close() //nolint:errcheck // nothing is written to it
	if _, err := archive.Extract(&sent, root, 1<<20); err != nil {
		t.Fatalf("what was sent is no checkpoint: %v", err)
	}
	text, err := os.ReadFile(filepath.Join(dir, archive.Config))
	if err != nil || !strings.Contains(string(text), `"rootfsImageRef":"sha256:base"`) || !strings.Contains(string(text), `"name":"main"`) {
		t.Errorf("config.dump is %s (%v): want the base image by its ID, and the rest as it was", text, err)
	}
	for range 2 {
		if err := b.source.Forget(t.Context(), container, b.work); err != nil {
			t.Fatal(err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(b.source.Folder, "*")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	if err := b.source.Archive(t.Context(), container, b.work, io.Discard); checkpoint.AsFailure(err) == nil {
		t.Errorf("an archive that is gone is sent: %v", err)
	}
}

// TestACheckpointWhoseAnswerWasLostIsRemoved: the agent died before the kubelet's response.
// Checkpoints of others stay.
func TestACheckpointWhoseAnswerWasLostIsRemoved(t *testing.T) {
	b := newBench(t)
	ours := "checkpoint-work_jobs-main-2026-11-23T12:00:01Z.tar"
	theirs := []string{
		"checkpoint-work_jobs-main-2026-11-23T12:00:00Z.tar", // taken before by somebody else
		"checkpoint-work_jobs-main-second-2026-11-23T12:00:01Z.tar", "checkpoint-other_jobs-main-2026-11-23T12:00:01Z.tar", "checkpoint-work_jobs-main-notes.tar",
	}
	write := func(name string) {
		if err := os.WriteFile(filepath.Join(b.source.Folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(theirs[0])
	b.answer = func(http.ResponseWriter) {
		for _, name := range append(theirs[1:], ours) {
			write(name)
		}
		panic(http.ErrAbortHandler) // the connection ends without a response
	}
	if _, err := b.source.Dump(t.Context(), container, b.work); err == nil || checkpoint.AsFailure(err) != nil {
		t.Errorf("without an answer the dump ends with %v", err)
	}
	for range 2 {
		if err := b.source.Forget(t.Context(), container, b.work); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range theirs {
		if _, err := os.Stat(filepath.Join(b.source.Folder, name)); err != nil {
			t.Errorf("a checkpoint of somebody else is gone: %v", err)
		}
	}
	if _, err := os.Stat(filepath.Join(b.source.Folder, ours)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the checkpoint, which has all secrets of the container, is left (%v)", err)
	}
}

func TestWhatTheKubeletRefusesIsAFailure(t *testing.T) {
	answers := map[string]func(http.ResponseWriter){
		"an error":        func(w http.ResponseWriter) { http.Error(w, "no CRIU", http.StatusInternalServerError) },
		"no right":        func(w http.ResponseWriter) { http.Error(w, "forbidden", http.StatusForbidden) },
		"no JSON":         func(w http.ResponseWriter) { http.Error(w, "hm", http.StatusOK) },
		"no file":         func(w http.ResponseWriter) { http.Error(w, `{"items":[]}`, http.StatusOK) },
		"a file not here": func(w http.ResponseWriter) { http.Error(w, `{"items":["/x/other.tar"]}`, http.StatusOK) },
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.answer = answer
			_, err := b.source.Dump(t.Context(), container, b.work)
			if f := checkpoint.AsFailure(err); f == nil || f.Reason != checkpoint.ReasonDumpFailed {
				t.Errorf("Dump gives %v, want a failure", err)
			}
			if err != nil && strings.Contains(err.Error(), "token") {
				t.Errorf("the error has the token: %v", err)
			}
		})
	}
}

func TestAnotherKubeletIsNotAsked(t *testing.T) {
	b := newBench(t)
	other := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was asked") }))
	defer other.Close()
	b.source.URL = other.URL
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: other.Certificate().Raw})
	client, err := Client(authority, "another.test", func() (string, error) { return "token", nil })
	if err != nil {
		t.Fatal(err)
	}
	b.source.HTTP = client
	if _, err := b.source.Dump(t.Context(), container, b.work); err == nil {
		t.Error("a kubelet whose certificate has another name was asked")
	}
	if _, err := Client([]byte("none"), "", nil); err == nil {
		t.Error("a file without a certificate is taken")
	}
}

func TestRequirementsNameTheBackend(t *testing.T) {
	facts, err := newBench(t).source.Inspect(t.Context(), container)
	if err != nil || facts.Requirements.Backend != v1alpha1.BackendKubelet || facts.MemoryBytes != 5 {
		t.Errorf("Inspect gives %+v, %v", facts, err)
	}
}
