package containerd

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/containerd/api/types"

	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/test/kit/testfile"
)

func TestEstablishedConnectionsAreCounted(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
   1: 0100007F:1F90 0100007F:C001 01 00000000:00000000 00:00000000 00000000     0        0 2 1 0 100 0 0 10 0
   2: 0100007F:C001 0100007F:1F90 06 00000000:00000000 00:00000000 00000000     0        0 3 1 0 100 0 0 10 0
   3: 0100007F:C002 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 4 1 0 100 0 0 10 0
`
	dir := t.TempDir()
	testfile.Write(t, filepath.Join(dir, "tcp"), table)
	if got, err := connections(dir); err != nil || got != 2 {
		t.Errorf("there are %d connections (%v), want 2: those that listen and those that end do not count", got, err)
	}
}

func TestAFolderForTheOldRootIsSearched(t *testing.T) {
	for name, tc := range map[string]struct {
		make func(root string) error
		want bool
	}{
		"an image FROM scratch":     {func(string) error { return nil }, false},
		"an image with /tmp":        {func(root string) error { return os.Mkdir(filepath.Join(root, "tmp"), 0o700) }, true},
		"a file of that name":       {func(root string) error { return os.WriteFile(filepath.Join(root, "tmp"), nil, 0o600) }, false},
		"a link of that name to it": {func(root string) error { return os.Symlink("/", filepath.Join(root, "tmp")) }, false},
	} {
		root := t.TempDir()
		if err := tc.make(root); err != nil {
			t.Fatal(err)
		}
		if got, err := hasTmp(root); err != nil || got != tc.want {
			t.Errorf("%s: there is a folder: %v (%v), want %v", name, got, err, tc.want)
		}
	}
}

func TestWhetherContainerdRestores(t *testing.T) {
	tests := []struct {
		name, config string
		want         bool
	}{
		{"both switches on", `{"enableCRIU":true,"enableExperimentalRestoreViaCreate":true}`, true},
		{"CRIU is on unless it is off", `{"enableExperimentalRestoreViaCreate":true}`, true},
		{"CRIU off", `{"enableCRIU":false,"enableExperimentalRestoreViaCreate":true}`, false},
		{"restore off", `{"enableCRIU":true,"enableExperimentalRestoreViaCreate":false}`, false},
		{"a version that does not know it", `{"snapshotter":"overlayfs"}`, false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got, err := restores(tc.config); err != nil || got != tc.want {
				t.Errorf("restores: %v (%v), want %v", got, err, tc.want)
			}
		})
	}
	if _, err := restores("no JSON"); err == nil {
		t.Error("what is no configuration was read")
	}
}

func TestOnlyPlainFoldersAreWrittenTo(t *testing.T) {
	if dir, err := folder([]*types.Mount{{Type: "bind", Source: "/snapshots/1/fs"}}); err != nil || dir != "/snapshots/1/fs" {
		t.Errorf("a bind mount: %q, %v", dir, err)
	}
	for _, mounts := range [][]*types.Mount{nil, {{Type: "overlay"}}, {{Type: "ext4", Source: "/dev/dm-1"}}, {{Type: "bind"}, {Type: "bind"}}} {
		if dir, err := folder(mounts); err == nil {
			t.Errorf("%v gives %q, want an error", mounts, dir)
		}
	}
}

// TestImageIsOneThatContainerdTakes parses the blobs as containerd does.
func TestImageIsOneThatContainerdTakes(t *testing.T) {
	image := checkpoint.Image{Name: "checkpoint.test/a:1", Container: "main", Migration: "uid-1"}
	b, err := describeImage(image, "sha256:abc", "overlayfs")
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Annotations map[string]string
		Config      struct{ Digest string }
		Layers      []struct{ Digest string }
	}
	var config struct {
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		} `json:"rootfs"`
	}
	if json.Unmarshal(b.manifest.content, &manifest) != nil || json.Unmarshal(b.config.content, &config) != nil {
		t.Fatalf("not JSON: %s, %s", b.manifest.content, b.config.content)
	}
	if manifest.Annotations["org.criu.checkpoint.container.name"] != "main" {
		t.Errorf("the manifest does not say that this is a checkpoint: %s", b.manifest.content)
	}
	if len(manifest.Layers) != 1 || manifest.Layers[0].Digest != b.layer.digest || manifest.Config.Digest != b.config.digest || len(config.RootFS.DiffIDs) != 1 || config.RootFS.DiffIDs[0] != b.layer.digest {
		t.Errorf("the blobs do not name each other: %s, %s", b.manifest.content, b.config.content)
	}
	if b.config.labels["containerd.io/gc.ref.snapshot.overlayfs"] != b.layer.digest || b.manifest.labels["containerd.io/gc.ref.content.config"] != b.config.digest {
		t.Errorf("the labels do not keep the snapshot from containerd's garbage collection: %v, %v", b.config.labels, b.manifest.labels)
	}
	header, err := tar.NewReader(bytes.NewReader(b.layer.content)).Next()
	if err != nil || header.Typeflag != tar.TypeReg {
		t.Errorf("the layer is no tar with a file: %+v, %v", header, err)
	}
}

func TestNoTwoCheckpointsShareASnapshot(t *testing.T) {
	image := checkpoint.Image{Container: "main", Migration: "uid-1"}
	seen := map[string]bool{}
	for _, change := range []func() string{
		func() string { return "sha256:1" }, func() string { return "sha256:2" }, func() string { image.Migration = "uid-2"; return "sha256:1" },
	} {
		b, err := describeImage(image, change(), "overlayfs")
		if err != nil {
			t.Fatal(err)
		}
		if seen[b.layer.digest] {
			t.Errorf("two checkpoints have layer %s", b.layer.digest)
		}
		seen[b.layer.digest] = true
	}
}

func TestComplaintsOfCRIUAreFound(t *testing.T) {
	file := filepath.Join(t.TempDir(), "dump.log")
	if got := complaints(file); got != "there is no log" {
		t.Errorf("without a log: %q", got)
	}
	log := "(00.1) pie: 1\n(00.2) Error (criu/sk-inet.c:191): inet: Connected TCP socket\nmore\n"
	testfile.Write(t, file, log)
	if got := complaints(file); !strings.Contains(got, "Connected TCP socket") || strings.Contains(got, "pie") {
		t.Errorf("complaints are %q", got)
	}
}

func TestALogThatIsTooLongIsLeftOut(t *testing.T) {
	file := filepath.Join(t.TempDir(), "0.log")
	for size, want := range map[int64]int64{0: 0, 5: 5, maxLogBytes: maxLogBytes, maxLogBytes + 1: 0} {
		f, err := os.Create(file)
		if err == nil {
			err = f.Truncate(size)
		}
		if err != nil {
			t.Fatal(err, f.Close())
		}
		if got := logBytes(file); got != want {
			t.Errorf("of %d bytes %d are sent, want %d", size, got, want)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got := logBytes(filepath.Join(t.TempDir(), "none")); got != 0 {
		t.Errorf("of no log %d bytes are sent", got)
	}
}
