package containerd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/descheduler/checkpoint/archive"
	"supercargo.dev/supercargo/descheduler/checkpoint/restoreapi"
)

const (
	// RuntimeName is the name of the program that restores containers, which containerd starts in place of runc.
	RuntimeName = "runc-supercargo"
	// unfinished is the end of the name of a folder with an incomplete checkpoint.
	unfinished = ".part"
)

// Able fails if the image cannot be restored here. Otherwise the new pod's container starts with the checkpoint only, and
// the kubelet does not remove the container's image.
func (c *Client) Able(ctx context.Context, image checkpoint.Image) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	base := image.Requirements.BaseImageID
	if base == "" {
		return checkpoint.Fail(v1alpha1.MigrationReasonNotSupported, "the report of the source's agent does not name the image of the container")
	}
	answer, err := c.criImages.ImageStatus(ctx, &criapi.ImageStatusRequest{Image: &criapi.ImageSpec{Image: image.Requirements.BaseImage}})
	if err != nil {
		return fmt.Errorf("get image %s: %w", base, err)
	}
	if answer.GetImage().GetId() != base {
		return checkpoint.Fail(v1alpha1.MigrationReasonImageMissing, "node %s does not have image %s (%s) of the container: pull it there first, for example with a DaemonSet",
			image.Node, image.Requirements.BaseImage, base)
	}
	on, err := c.Restores(ctx)
	if err != nil {
		return err
	}
	if !on {
		return checkpoint.Fail(v1alpha1.MigrationReasonNotSupported, "containerd of node %s does not start %s in place of runc: install it there and name it as BinaryName of the default runtime", image.Node, RuntimeName)
	}
	if err := c.pin(ctx, image); err != nil {
		return err
	}
	if err := c.Restore.Make(); err != nil {
		return err
	}
	return c.Restore.Expect(image.Pod)
}

// Restores reports whether containerd starts containers with the program that restores them.
func (c *Client) Restores(ctx context.Context) (bool, error) {
	answer, err := c.runtime.Status(ctx, &criapi.StatusRequest{Verbose: true})
	if err != nil {
		return false, fmt.Errorf("get the configuration of containerd: %w", err)
	}
	program, err := runtimeProgram(answer.GetInfo()["config"])
	if err != nil || filepath.Base(program) != RuntimeName {
		return false, err
	}
	info, err := os.Stat(filepath.Join(c.HostRoot, program))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("find the container runtime: %w", err)
	}
	return info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0, nil
}

// runtimeProgram parses the CRI plugin's configuration and returns the program of the default runtime; empty if it is
// runc.
func runtimeProgram(config string) (string, error) {
	var parsed struct {
		Containerd struct {
			Default  string `json:"defaultRuntimeName"`
			Runtimes map[string]struct {
				Options struct {
					BinaryName string
				} `json:"options"`
			} `json:"runtimes"`
		} `json:"containerd"`
	}
	if err := json.Unmarshal([]byte(config), &parsed); err != nil {
		return "", fmt.Errorf("read containerd's configuration: %w", err)
	}
	return parsed.Containerd.Runtimes[parsed.Containerd.Default].Options.BinaryName, nil
}

// Version returns containerd's version, such as "2.3.7".
func (c *Client) Version(ctx context.Context) (string, error) {
	answer, err := c.runtime.Version(ctx, &criapi.VersionRequest{})
	if err != nil {
		return "", fmt.Errorf("get the version of containerd: %w", err)
	}
	return strings.TrimPrefix(answer.GetRuntimeVersion(), "v"), nil
}

// staged returns the folder of a staged checkpoint.
func (c *Client) staged(image checkpoint.Image) string {
	return filepath.Join(c.StagingDir, image.Migration)
}

// Stage unpacks the checkpoint into a folder of its own. The folder gets its name when it is complete. It is not synced
// to disk: it is not used after a crash of the node, see Has.
func (c *Client) Stage(ctx context.Context, image checkpoint.Image, stream checkpoint.Verified) (checkpoint.Staged, error) {
	size, err := c.stage(image, stream)
	if err == nil {
		return checkpoint.Staged{Digest: stream.Sum(), Bytes: size}, nil
	}
	if left := c.drop(image); left != nil && checkpoint.AsFailure(err) == nil {
		err = errors.Join(err, left) // a failure keeps its message; order Clean removes the rest
	}
	return checkpoint.Staged{}, err
}

func (c *Client) stage(image checkpoint.Image, stream checkpoint.Verified) (int64, error) {
	if err := c.drop(image); err != nil {
		return 0, err
	}
	part := c.staged(image) + unfinished
	if err := os.MkdirAll(part, 0o700); err != nil {
		return 0, fmt.Errorf("create a folder for a checkpoint: %w", err)
	}
	root, err := os.OpenRoot(part)
	if err != nil {
		return 0, fmt.Errorf("open the folder of a checkpoint: %w", err)
	}
	defer func() { _ = root.Close() }() // nothing was written to the folder itself
	size, err := archive.Extract(stream, root, c.MaxImageBytes)
	if err != nil {
		return 0, err
	}
	if err := os.Rename(part, c.staged(image)); err != nil {
		return 0, fmt.Errorf("keep a checkpoint: %w", err)
	}
	return size, nil
}

// Has reports whether the checkpoint is staged. It is lost if the node has restarted since, because its files may be
// incomplete then. The list of pods is in memory, and tells.
func (c *Client) Has(_ context.Context, image checkpoint.Image) (bool, error) {
	if !c.Restore.Has(image.Pod) {
		return false, nil
	}
	_, err := os.Stat(c.staged(image))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, wrap(err, "find a checkpoint")
}

// Remove removes the checkpoint, complete or not, and no longer keeps the new pod from starting.
func (c *Client) Remove(ctx context.Context, image checkpoint.Image) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if image.Pod != "" {
		if err := c.Restore.Release(image.Pod); err != nil {
			return err
		}
	}
	if err := c.drop(image); err != nil {
		return err
	}
	return c.unpin(ctx, image)
}

func (c *Client) drop(image checkpoint.Image) error {
	for _, dir := range []string{c.staged(image), c.staged(image) + unfinished} {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove a checkpoint: %w", err)
		}
	}
	return nil
}

// Give describes the staged checkpoint to the runtime that creates the container with this ID. It fails if that is not
// the container of the new pod, or if its image is another than that of the old one.
func (c *Client) Give(ctx context.Context, image checkpoint.Image, id string) (restoreapi.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	seen, err := c.runtime.ContainerStatus(ctx, &criapi.ContainerStatusRequest{ContainerId: id})
	if err != nil {
		return restoreapi.Answer{}, fmt.Errorf("inspect container %s: %w", id, err)
	}
	s := seen.GetStatus()
	if labels := s.GetLabels(); labels[checkpoint.LabelPodUID] != image.Pod || labels[checkpoint.LabelContainer] != image.Container {
		return restoreapi.Answer{}, checkpoint.Fail(v1alpha1.MigrationReasonForeignContainer, "container %s is not container %s of pod %s", id, image.Container, image.Pod)
	}
	if got := imageID(s); got != image.Requirements.BaseImageID {
		return restoreapi.Answer{}, checkpoint.Fail(v1alpha1.MigrationReasonImageMissing, "image %s is %s on node %s, and was %s when the container was checkpointed: the tag was moved",
			image.Requirements.BaseImage, got, image.Node, image.Requirements.BaseImageID)
	}
	dir := c.staged(image)
	a := restoreapi.Answer{Images: filepath.Join(dir, archive.Checkpoint), Changes: filepath.Join(dir, archive.RootfsDiff)}
	if a.Volumes, err = stagedVolumes(dir); err != nil {
		return restoreapi.Answer{}, err
	}
	if _, err := os.Stat(filepath.Join(dir, archive.Log)); err == nil {
		a.EarlierLog, a.Log = filepath.Join(dir, archive.Log), s.GetLogPath()
	}
	return a, nil
}

// Sweep removes the dumps and checkpoints of unknown migrations. The agent releases unknown pods.
func (c *Client) Sweep(ctx context.Context, known func(migration string) bool) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	errs := []error{c.sweepLeases(ctx, known), c.sweepPins(ctx, known)}
	entries, err := os.ReadDir(c.StagingDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, fmt.Errorf("list the staged checkpoints: %w", err))
	}
	for _, entry := range entries {
		migration := strings.TrimSuffix(entry.Name(), unfinished)
		if !known(migration) {
			errs = append(errs, c.drop(checkpoint.Image{Migration: migration}))
		}
	}
	return errors.Join(errs...)
}
