package containerd

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	contentapi "github.com/containerd/containerd/api/services/content/v1"
	imagesapi "github.com/containerd/containerd/api/services/images/v1"
	leasesapi "github.com/containerd/containerd/api/services/leases/v1"
	snapshotsapi "github.com/containerd/containerd/api/services/snapshots/v1"
	"github.com/containerd/containerd/api/types"
	"google.golang.org/grpc/codes"
	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/descheduler/checkpoint/archive"
)

const (
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar"

	// containerAnnotation marks an image as a checkpoint to restore.
	containerAnnotation = "org.criu.checkpoint.container.name"
	// labelPinned keeps the kubelet from removing an image that no container uses yet.
	labelPinned = "io.cri-containerd.pinned"
	// labelSnapshot on an image is the name of its snapshot.
	labelSnapshot = "supercargo.dev/snapshot"
	// labelID on an image is its ID, which is also its second name: the CRI plugin gives this
	// name to images without its own label, and restores by it.
	labelID = "supercargo.dev/image-id"
	// snapshotSuffix follows the name of a lease in the name of an uncommitted snapshot.
	snapshotSuffix = "-new"

	// seenPoll is how often the CRI plugin is polled for the image, and seenPatience for how
	// long.
	seenPoll     = 20 * time.Millisecond
	seenPatience = 10 * time.Second
)

// Able fails if the image cannot be restored here.
func (c *Client) Able(ctx context.Context, image checkpoint.Image) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	base := image.Requirements.BaseImageID
	if base == "" {
		return checkpoint.Fail(v1alpha1.MigrationReasonNotSupported, "the report of the source's agent does not name the image of the container")
	}
	answer, err := c.criImages.ImageStatus(ctx, &criapi.ImageStatusRequest{Image: &criapi.ImageSpec{Image: base}})
	if err != nil {
		return fmt.Errorf("get image %s: %w", base, err)
	}
	if answer.GetImage() == nil || answer.GetImage().GetId() != base {
		return checkpoint.Fail(v1alpha1.MigrationReasonImageMissing, "node %s does not have image %s (%s) of the container: pull it there first, for example with a DaemonSet",
			image.Node, image.Requirements.BaseImage, base)
	}
	on, err := c.Restores(ctx)
	if err != nil {
		return err
	}
	if !on {
		return checkpoint.Fail(v1alpha1.MigrationReasonNotSupported, "containerd of node %s does not restore checkpoints: set enable_criu and enable_experimental_restore_via_create in its CRI plugin's configuration", image.Node)
	}
	return nil
}

// Restores reports whether the CRI plugin restores containers from images.
func (c *Client) Restores(ctx context.Context) (bool, error) {
	answer, err := c.runtime.Status(ctx, &criapi.StatusRequest{Verbose: true})
	if err != nil {
		return false, fmt.Errorf("get the configuration of containerd: %w", err)
	}
	return restores(answer.GetInfo()["config"])
}

// restores parses the CRI plugin's configuration. The option exists in 2.3.7 and later 2.3
// releases; versions without it do not restore.
func restores(config string) (bool, error) {
	var switches struct {
		CRIU    *bool `json:"enableCRIU"`
		Restore bool  `json:"enableExperimentalRestoreViaCreate"`
	}
	if err := json.Unmarshal([]byte(config), &switches); err != nil {
		return false, fmt.Errorf("read containerd's configuration: %w", err)
	}
	return switches.Restore && (switches.CRIU == nil || *switches.CRIU), nil
}

// Version returns containerd's version, such as "2.3.7".
func (c *Client) Version(ctx context.Context) (string, error) {
	answer, err := c.runtime.Version(ctx, &criapi.VersionRequest{})
	if err != nil {
		return "", fmt.Errorf("get the version of containerd: %w", err)
	}
	return strings.TrimPrefix(answer.GetRuntimeVersion(), "v"), nil
}

// Stage unpacks the checkpoint into a snapshot, and makes an image of it.
func (c *Client) Stage(ctx context.Context, image checkpoint.Image, stream checkpoint.Verified) (checkpoint.Staged, error) {
	if err := c.Remove(ctx, image); err != nil {
		return checkpoint.Staged{}, err
	}
	staged, err := c.stage(ctx, image, stream)
	if err == nil {
		return staged, nil
	}
	// Clean up even if ctx has ended with the transfer.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	if left := c.Remove(ctx, image); left != nil && checkpoint.AsFailure(err) == nil {
		err = errors.Join(err, left) // a failure keeps its message; order Clean removes the rest
	}
	return checkpoint.Staged{}, err
}

func (c *Client) stage(ctx context.Context, image checkpoint.Image, stream checkpoint.Verified) (checkpoint.Staged, error) {
	lease := imageLeasePrefix + image.Migration
	if err := c.makeLease(ctx, lease, image.Migration); err != nil {
		return checkpoint.Staged{}, err
	}
	ctx = leased(ctx, lease)
	prepared, err := c.snapshots.Prepare(ctx, &snapshotsapi.PrepareSnapshotRequest{
		Snapshotter: c.Snapshotter, Key: lease + snapshotSuffix, Labels: map[string]string{labelMigration: image.Migration},
	})
	if err != nil {
		return checkpoint.Staged{}, fmt.Errorf("create a snapshot for image %s: %w", image.Name, err)
	}
	dir, err := folder(prepared.GetMounts())
	if err != nil {
		return checkpoint.Staged{}, checkpoint.Fail(v1alpha1.MigrationReasonNotSupported, "snapshotter %s: %v", c.Snapshotter, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return checkpoint.Staged{}, fmt.Errorf("open the snapshot of image %s: %w", image.Name, err)
	}
	defer func() { _ = root.Close() }() // nothing was written to the folder itself
	size, err := archive.Extract(stream, root, c.MaxImageBytes)
	if err != nil {
		return checkpoint.Staged{}, err
	}
	digest, err := c.makeImage(ctx, lease, image, stream.Sum())
	if err != nil {
		return checkpoint.Staged{}, err
	}
	return checkpoint.Staged{Digest: digest, Bytes: size}, c.seen(ctx, image.Name)
}

// folder returns the folder of an uncommitted snapshot.
func folder(mounts []*types.Mount) (string, error) {
	if len(mounts) == 1 && mounts[0].GetType() == "bind" {
		return mounts[0].GetSource(), nil
	}
	return "", errors.New("its snapshots are not plain folders; those of overlayfs and native are")
}

// makeImage makes the image for the snapshot.
func (c *Client) makeImage(ctx context.Context, lease string, image checkpoint.Image, sum string) (string, error) {
	blobs, err := describeImage(image, sum, c.Snapshotter)
	if err != nil {
		return "", fmt.Errorf("create image %s: %w", image.Name, err)
	}
	for _, b := range blobs.all() {
		if err := c.writeBlob(ctx, b); err != nil {
			return "", err
		}
	}
	_, err = c.snapshots.Commit(ctx, &snapshotsapi.CommitSnapshotRequest{
		Snapshotter: c.Snapshotter, Key: lease + snapshotSuffix, Name: blobs.layer.digest, Labels: map[string]string{labelMigration: image.Migration},
	})
	if err != nil {
		return "", fmt.Errorf("commit the snapshot of image %s: %w", image.Name, err)
	}
	_, err = c.images.Create(ctx, &imagesapi.CreateImageRequest{Image: &imagesapi.Image{
		Name: image.Name, Target: blobs.manifest.descriptor(),
		Labels: map[string]string{labelPinned: "pinned", labelMigration: image.Migration, labelSnapshot: blobs.layer.digest, labelID: blobs.config.digest},
	}})
	if err != nil {
		return "", fmt.Errorf("create image %s: %w", image.Name, err)
	}
	return blobs.manifest.digest, nil
}

// blob is an object of the content store.
type blob struct {
	kind, digest string
	content      []byte
	labels       map[string]string
}

func newBlob(kind string, content []byte, labels map[string]string) blob {
	sum := sha256.Sum256(content)
	return blob{kind, "sha256:" + hex.EncodeToString(sum[:]), content, labels}
}

func (b blob) descriptor() *types.Descriptor {
	return &types.Descriptor{MediaType: b.kind, Digest: b.digest, Size: int64(len(b.content))}
}

// blobs are the parts of an image.
type blobs struct{ layer, config, manifest blob }

func (b blobs) all() []blob { return []blob{b.layer, b.config, b.manifest} }

// descriptor refers to a blob, in JSON.
type descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int    `json:"size"`
}

// describeImage makes the blobs of an image. Its only layer holds the UID of the migration and
// the checksum of the checkpoint, so that no two images share a snapshot. The labels are
// references for containerd's garbage collection.
func describeImage(image checkpoint.Image, sum, snapshotter string) (blobs, error) {
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	text := []byte(image.Migration + "\n" + sum + "\n")
	err := w.WriteHeader(&tar.Header{Name: ".supercargo-migration", Typeflag: tar.TypeReg, Size: int64(len(text)), Mode: 0o600, ModTime: time.Unix(0, 0)})
	if err == nil {
		_, err = w.Write(text)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return blobs{}, err
	}
	var b blobs
	b.layer = newBlob(layerType, layer.Bytes(), nil)
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": runtime.GOOS, "config": map[string]any{},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{b.layer.digest}},
	})
	if err != nil {
		return blobs{}, err
	}
	b.config = newBlob(configType, config, map[string]string{"containerd.io/gc.ref.snapshot." + snapshotter: b.layer.digest})
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": manifestType,
		"config":      descriptor{configType, b.config.digest, len(b.config.content)},
		"layers":      []descriptor{{layerType, b.layer.digest, len(b.layer.content)}},
		"annotations": map[string]string{containerAnnotation: image.Container},
	})
	if err != nil {
		return blobs{}, err
	}
	b.manifest = newBlob(manifestType, manifest, map[string]string{
		"containerd.io/gc.ref.content.config": b.config.digest, "containerd.io/gc.ref.content.l.0": b.layer.digest,
	})
	return b, nil
}

// writeBlob writes a small blob to the content store.
func (c *Client) writeBlob(ctx context.Context, b blob) error {
	stream, err := c.content.Write(ctx)
	if err != nil {
		return fmt.Errorf("write blob %s: %w", b.digest, err)
	}
	err = stream.Send(&contentapi.WriteContentRequest{
		Action: contentapi.WriteAction_COMMIT, Ref: "supercargo-" + b.digest, Total: int64(len(b.content)), Expected: b.digest, Data: b.content, Labels: b.labels,
	})
	if err == nil {
		_, err = stream.Recv()
	}
	if closed := stream.CloseSend(); err == nil {
		err = closed
	}
	if err != nil && !isCode(err, codes.AlreadyExists) {
		return fmt.Errorf("write blob %s: %w", b.digest, err)
	}
	return nil
}

// seen waits until the CRI plugin knows an image. It learns of it from an event of containerd.
func (c *Client) seen(ctx context.Context, name string) error {
	for waited := time.Duration(0); ; waited += seenPoll {
		answer, err := c.criImages.ImageStatus(ctx, &criapi.ImageStatusRequest{Image: &criapi.ImageSpec{Image: name}})
		switch {
		case err != nil:
			return fmt.Errorf("get image %s: %w", name, err)
		case answer.GetImage() != nil:
			return nil
		case waited >= seenPatience:
			return fmt.Errorf("get image %s: containerd's CRI plugin did not find it within %s", name, seenPatience)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.Clock.After(seenPoll):
		}
	}
}

// Has reports whether the image and its snapshot exist.
func (c *Client) Has(ctx context.Context, image checkpoint.Image) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	found, err := c.images.Get(ctx, &imagesapi.GetImageRequest{Name: image.Name})
	if notFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("get image %s: %w", image.Name, err)
	}
	_, err = c.snapshots.Stat(ctx, &snapshotsapi.StatSnapshotRequest{Snapshotter: c.Snapshotter, Key: found.GetImage().GetLabels()[labelSnapshot]})
	if notFound(err) {
		return false, nil
	}
	return err == nil, wrap(err, "get the snapshot of image %s", image.Name)
}

// Remove removes the image and what was made for it.
func (c *Client) Remove(ctx context.Context, image checkpoint.Image) error {
	found, err := c.images.Get(ctx, &imagesapi.GetImageRequest{Name: image.Name})
	switch {
	case notFound(err):
	case err != nil:
		return fmt.Errorf("get image %s: %w", image.Name, err)
	case found.GetImage().GetLabels()[labelMigration] != image.Migration:
		return checkpoint.Fail(v1alpha1.MigrationReasonNotSupported, "image %s already exists and does not belong to this migration: remove it", image.Name)
	default:
		// This removes both names, if the CRI plugin knows the image.
		if _, err := c.criImages.RemoveImage(ctx, &criapi.RemoveImageRequest{Image: &criapi.ImageSpec{Image: image.Name}}); err != nil {
			return fmt.Errorf("remove image %s: %w", image.Name, err)
		}
		for _, name := range []string{found.GetImage().GetLabels()[labelID], image.Name} {
			if _, err := c.images.Delete(ctx, &imagesapi.DeleteImageRequest{Name: name, Sync: true}); err != nil && !notFound(err) {
				return fmt.Errorf("remove image %s: %w", image.Name, err)
			}
		}
	}
	return c.dropImage(ctx, image.Migration)
}

// dropImage removes what staging made besides the image.
func (c *Client) dropImage(ctx context.Context, migration string) error {
	lease := imageLeasePrefix + migration
	_, err := c.snapshots.Remove(ctx, &snapshotsapi.RemoveSnapshotRequest{Snapshotter: c.Snapshotter, Key: lease + snapshotSuffix})
	if err != nil && !notFound(err) {
		return fmt.Errorf("remove snapshot %s: %w", lease+snapshotSuffix, err)
	}
	return c.dropLease(ctx, lease)
}

// Sweep removes images and leases of unknown migrations.
func (c *Client) Sweep(ctx context.Context, known func(migration string) bool) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	images, err := c.images.List(ctx, &imagesapi.ListImagesRequest{Filters: []string{`labels."` + labelMigration + `"`}})
	if err != nil {
		return fmt.Errorf("list images: %w", err)
	}
	leases, err := c.leases.List(ctx, &leasesapi.ListRequest{Filters: []string{`labels."` + labelMigration + `"`}})
	if err != nil {
		return fmt.Errorf("list leases: %w", err)
	}
	var errs []error
	for _, image := range images.GetImages() {
		if migration := image.GetLabels()[labelMigration]; !known(migration) {
			errs = append(errs, c.Remove(ctx, checkpoint.Image{Name: image.GetName(), Migration: migration}))
		}
	}
	for _, lease := range leases.GetLeases() {
		migration := lease.GetLabels()[labelMigration]
		switch {
		case known(migration):
		case strings.HasPrefix(lease.GetID(), leasePrefix):
			errs = append(errs, c.forget(ctx, migration))
		case strings.HasPrefix(lease.GetID(), imageLeasePrefix):
			errs = append(errs, c.dropImage(ctx, migration))
		}
	}
	return errors.Join(errs...)
}
