package containerd

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	containersapi "github.com/containerd/containerd/api/services/containers/v1"
	diffapi "github.com/containerd/containerd/api/services/diff/v1"
	leasesapi "github.com/containerd/containerd/api/services/leases/v1"
	snapshotsapi "github.com/containerd/containerd/api/services/snapshots/v1"
	"github.com/containerd/containerd/api/types"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/descheduler/checkpoint/archive"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// These are of a containerd with one snapshot, whose comparison with its image has the digest sha256:compared. Other
// calls panic.
type (
	store struct {
		snapshotsapi.SnapshotsClient
		mount *types.Mount
	}
	comparing struct{ diffapi.DiffClient }
	leasing   struct{ leasesapi.LeasesClient }
)

func (s *store) Mounts(context.Context, *snapshotsapi.MountsRequest, ...grpc.CallOption) (*snapshotsapi.MountsResponse, error) {
	return &snapshotsapi.MountsResponse{Mounts: []*types.Mount{s.mount}}, nil
}

func (s *store) Stat(context.Context, *snapshotsapi.StatSnapshotRequest, ...grpc.CallOption) (*snapshotsapi.StatSnapshotResponse, error) {
	return &snapshotsapi.StatSnapshotResponse{}, nil
}

func (s *store) View(context.Context, *snapshotsapi.ViewSnapshotRequest, ...grpc.CallOption) (*snapshotsapi.ViewSnapshotResponse, error) {
	return &snapshotsapi.ViewSnapshotResponse{}, nil
}

func (comparing) Diff(context.Context, *diffapi.DiffRequest, ...grpc.CallOption) (*diffapi.DiffResponse, error) {
	return &diffapi.DiffResponse{Diff: &types.Descriptor{Digest: "sha256:compared", Size: 7}}, nil
}

func (leasing) Create(context.Context, *leasesapi.CreateRequest, ...grpc.CallOption) (*leasesapi.CreateResponse, error) {
	return &leasesapi.CreateResponse{}, nil
}

func TestOnlyWhatAContainerChangedIsRead(t *testing.T) {
	const dir, renamed = "/var/lib/containerd/1/fs", "/var/lib/containerd/2/fs"
	host := t.TempDir()
	for _, made := range []string{dir, renamed + "/d"} {
		if err := os.MkdirAll(filepath.Join(host, made), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	testfile.Write(t, filepath.Join(host, dir, "result"), "42")
	testfile.Write(t, filepath.Join(host, renamed, "d/-"), "")
	if err := unix.Setxattr(filepath.Join(host, renamed, "d"), "user.overlay.redirect", []byte("/e"), 0); err != nil {
		t.Fatal(err)
	}
	overlay := func(dir string) *types.Mount {
		return &types.Mount{Type: "overlay", Options: []string{"index=off", "workdir=/w", "upperdir=" + dir, "lowerdir=/l"}}
	}
	for name, tc := range map[string]struct {
		mount *types.Mount
		upper bool
	}{
		"overlayfs":                            {overlay(dir), true},
		"overlayfs with a renamed folder":      {overlay(renamed), false},
		"overlayfs that is not below the root": {overlay("/mnt/elsewhere"), false},
		"overlayfs by a relative path":         {overlay("fs"), false},
		"an image without layers":              {&types.Mount{Type: "bind", Source: dir}, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := &Client{Options: Options{HostRoot: host}, snapshots: &store{mount: tc.mount}, diff: comparing{}, leases: leasing{}}
			var n notes
			if err := c.changed(context.Background(), checkpoint.Container{}, &containersapi.Container{}, "m", &n); err != nil {
				t.Fatal(err)
			}
			if got := n.Upper == filepath.Join(host, dir) && n.Diff == ""; got != tc.upper {
				t.Fatalf("it notes %+v", n)
			}
			if !tc.upper {
				if n.Upper != "" || n.Diff != "sha256:compared" || n.DiffBytes != 7 {
					t.Errorf("it notes %+v, want what containerd compared", n)
				}
				return
			}
			var out bytes.Buffer
			w := archive.NewWriter(&out)
			if err := c.archiveChanges(context.Background(), w, n); err != nil {
				t.Fatal(err)
			}
			if text := out.String(); !strings.Contains(text, "result") || !strings.Contains(text, "42") || int64(out.Len()) != 512+n.DiffBytes {
				t.Errorf("the archive has %d bytes: %.200q", out.Len(), text)
			}
			testfile.Write(t, filepath.Join(host, dir, "later"), fmt.Sprint(tc))
			if err := c.archiveChanges(context.Background(), archive.NewWriter(&out), n); err == nil {
				t.Error("a folder that has changed since is archived")
			}
		})
	}
}
