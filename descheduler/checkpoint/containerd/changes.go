package containerd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	containersapi "github.com/containerd/containerd/api/services/containers/v1"
	contentapi "github.com/containerd/containerd/api/services/content/v1"
	diffapi "github.com/containerd/containerd/api/services/diff/v1"
	snapshotsapi "github.com/containerd/containerd/api/services/snapshots/v1"
	"github.com/containerd/containerd/api/types"
	"google.golang.org/grpc/codes"

	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/descheduler/checkpoint/archive"
	"supercargo.dev/supercargo/descheduler/checkpoint/upper"
)

// changed finds the files that a frozen container changed, and notes where they are. overlayfs keeps them in a folder, so
// that the size of the image does not matter. Other snapshotters have containerd compare the container with its image.
func (c *Client) changed(ctx context.Context, k checkpoint.Container, info *containersapi.Container, migration string, n *notes) error {
	found, err := c.snapshots.Mounts(ctx, &snapshotsapi.MountsRequest{Snapshotter: info.GetSnapshotter(), Key: info.GetSnapshotKey()})
	if err != nil {
		return fmt.Errorf("find the files of %s: %w", k, err)
	}
	if dir := upperFolder(found.GetMounts()); dir != "" {
		n.Upper = filepath.Join(c.HostRoot, dir)
		n.DiffBytes, err = upper.Size(n.Upper)
		// A path through an absolute link exists on the node alone, and not below HostRoot.
		if !errors.Is(err, upper.ErrUnsupported) && !errors.Is(err, fs.ErrNotExist) {
			return wrap(err, "%s", k)
		}
		n.Upper = ""
	}
	n.Diff, n.DiffBytes, err = c.compare(ctx, k, info, found.GetMounts(), migration)
	return err
}

// upperFolder returns the upper folder of a snapshot of overlayfs, or "" for another snapshotter.
func upperFolder(mounts []*types.Mount) string {
	if len(mounts) != 1 || mounts[0].GetType() != "overlay" {
		return ""
	}
	for _, option := range mounts[0].GetOptions() {
		if dir, is := strings.CutPrefix(option, "upperdir="); is && filepath.IsAbs(dir) {
			return dir
		}
	}
	return ""
}

// archiveChanges writes the files that a container changed.
func (c *Client) archiveChanges(ctx context.Context, a *archive.Writer, n notes) error {
	if n.Upper != "" {
		return a.Via(archive.RootfsDiff, n.DiffBytes, func(w io.Writer) error { return upper.Write(w, n.Upper) })
	}
	return a.From(archive.RootfsDiff, n.DiffBytes, &blobReader{ctx: ctx, content: c.content, digest: n.Diff})
}

// compare has containerd make a tar of the files that the container changed. It compares all files of the image, and works
// with every snapshotter.
func (c *Client) compare(ctx context.Context, k checkpoint.Container, info *containersapi.Container, mounts []*types.Mount, migration string) (digest string, size int64, err error) {
	lease := leasePrefix + migration
	if err := c.makeLease(ctx, lease, migration); err != nil {
		return "", 0, err
	}
	ctx = leased(ctx, lease)
	stat, err := c.snapshots.Stat(ctx, &snapshotsapi.StatSnapshotRequest{Snapshotter: info.GetSnapshotter(), Key: info.GetSnapshotKey()})
	if err != nil {
		return "", 0, fmt.Errorf("find the files of %s: %w", k, err)
	}
	view := lease + "-view"
	lower, err := c.snapshots.View(ctx, &snapshotsapi.ViewSnapshotRequest{Snapshotter: info.GetSnapshotter(), Key: view, Parent: stat.GetInfo().GetParent()})
	switch {
	case err == nil:
	case isCode(err, codes.AlreadyExists):
		again, seen := c.snapshots.Mounts(ctx, &snapshotsapi.MountsRequest{Snapshotter: info.GetSnapshotter(), Key: view})
		if seen != nil {
			return "", 0, fmt.Errorf("find the files of the image of %s: %w", k, seen)
		}
		lower = &snapshotsapi.ViewSnapshotResponse{Mounts: again.GetMounts()}
	default:
		return "", 0, fmt.Errorf("find the files of the image of %s: %w", k, err)
	}
	made, err := c.diff.Diff(ctx, &diffapi.DiffRequest{
		Left: lower.GetMounts(), Right: mounts, MediaType: layerType, Ref: lease, Labels: map[string]string{labelMigration: migration},
	})
	if err != nil {
		return "", 0, fmt.Errorf("collect the files that %s wrote: %w", k, err)
	}
	return made.GetDiff().GetDigest(), made.GetDiff().GetSize(), nil
}

// blobReader reads a blob of the content store.
type blobReader struct {
	ctx     context.Context
	content contentapi.ContentClient
	digest  string
	stream  contentapi.Content_ReadClient
	rest    []byte
}

// Read receives the next chunk when the last one is used up.
func (b *blobReader) Read(p []byte) (int, error) {
	if b.stream == nil {
		var err error
		if b.stream, err = b.content.Read(b.ctx, &contentapi.ReadContentRequest{Digest: b.digest}); err != nil {
			return 0, fmt.Errorf("read blob %s: %w", b.digest, err)
		}
	}
	for len(b.rest) == 0 {
		answer, err := b.stream.Recv()
		if errors.Is(err, io.EOF) {
			return 0, io.EOF
		}
		if err != nil {
			return 0, fmt.Errorf("read blob %s: %w", b.digest, err)
		}
		b.rest = answer.GetData()
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}
