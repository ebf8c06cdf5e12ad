package containerd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	containersapi "github.com/containerd/containerd/api/services/containers/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/descheduler/checkpoint/archive"
	"supercargo.dev/supercargo/descheduler/checkpoint/podvolumes"
	"supercargo.dev/supercargo/descheduler/checkpoint/restoreapi"
	"supercargo.dev/supercargo/descheduler/checkpoint/upper"
)

// maxVolumesFile bounds the list of volumes in a checkpoint, in bytes.
const maxVolumesFile = 32 << 10

// volumesOf returns the volumes whose contents go with a container.
func volumesOf(info *containersapi.Container, k checkpoint.Container) ([]podvolumes.Volume, error) {
	var spec struct {
		Mounts []podvolumes.Mount `json:"mounts"`
	}
	if err := json.Unmarshal(info.GetSpec().GetValue(), &spec); err != nil {
		return nil, fmt.Errorf("read the mounts of %s: %w", k, err)
	}
	return podvolumes.Of(spec.Mounts, k.PodUID), nil
}

// volumeBytes returns how many bytes the volumes have. It stops once it has counted more than most.
func (c *Client) volumeBytes(k checkpoint.Container, pid uint32, volumes []podvolumes.Volume, most int64) (int64, error) {
	total := int64(0)
	for _, v := range volumes {
		bytes, err := func() (int64, error) {
			opened, err := c.openVolume(pid, v)
			if err != nil {
				return 0, err
			}
			defer func() { _ = opened.Root.Close() }() // nothing is written to it
			return opened.Bytes(most - total)
		}()
		if errors.Is(err, fs.ErrNotExist) {
			return 0, checkpoint.Fail(v1alpha1.MigrationReasonNotSupported, "the volume at %s of %s cannot be read: %v", v.Destination, k, err)
		}
		if total += bytes; err != nil {
			return 0, fmt.Errorf("volume at %s of %s: %w", v.Destination, k, err)
		}
		if total > most {
			break
		}
	}
	return total, nil
}

// openVolume opens a volume where a process has it: the agent need not see the folders of the kubelet. A link that leads
// out of the container is not followed. It fails if nothing is mounted there for the process, which may have changed its
// root: another folder may have that path then.
func (c *Client) openVolume(pid uint32, v podvolumes.Volume) (*upper.Volume, error) {
	dir := filepath.Join(c.Proc, strconv.FormatUint(uint64(pid), 10))
	mounts, err := mountsOf(dir)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(slices.Collect(maps.Values(mounts)), v.Destination) {
		return nil, fmt.Errorf("its process %d does not see it: %w", pid, fs.ErrNotExist)
	}
	root, err := os.OpenRoot(filepath.Join(dir, "root"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }() // nothing is written to it
	volume, err := root.OpenRoot(strings.TrimPrefix(v.Destination, "/"))
	if err != nil {
		return nil, err
	}
	opened := &upper.Volume{Root: volume, Skip: map[string]bool{}}
	for _, path := range v.Skip {
		opened.Skip[path] = true
	}
	return opened, nil
}

// collectVolumes notes the volumes of a frozen container. Shared memory without files is left out.
func (c *Client) collectVolumes(ctx context.Context, k checkpoint.Container, info *containersapi.Container, n *notes) error {
	volumes, err := volumesOf(info, k)
	if err != nil || len(volumes) == 0 {
		return err
	}
	pid, _, err := c.task(ctx, k)
	if err != nil {
		return err
	}
	for _, v := range volumes {
		bytes, err := c.volumeBytes(k, pid, []podvolumes.Volume{v}, 1<<62)
		if err != nil {
			return err
		}
		if v.Destination == podvolumes.SharedMemory && bytes <= emptyVolume {
			continue
		}
		n.Volumes, n.VolumeBytes = append(n.Volumes, v), n.VolumeBytes+bytes
	}
	return nil
}

// emptyVolume is what a volume without files is counted as, in bytes.
const emptyVolume = 1 << 10

// archiveVolumes adds the volumes. They are read in the container, which still exists.
func (c *Client) archiveVolumes(ctx context.Context, k checkpoint.Container, a *archive.Writer, n notes) error {
	if len(n.Volumes) == 0 {
		return nil
	}
	pid, _, err := c.task(ctx, k)
	if err != nil {
		return err
	}
	var destinations []string
	for i, v := range n.Volumes {
		destinations = append(destinations, v.Destination)
		if err := c.archiveVolume(ctx, k, pid, a, i, v); err != nil {
			return err
		}
	}
	text, err := json.Marshal(destinations)
	if err == nil && len(text) > maxVolumesFile {
		err = fmt.Errorf("their paths have more than %d bytes", maxVolumesFile)
	}
	if err != nil {
		return fmt.Errorf("list the volumes of %s: %w", k, err)
	}
	return a.Bytes(archive.Volumes, text)
}

func (c *Client) archiveVolume(ctx context.Context, k checkpoint.Container, pid uint32, a *archive.Writer, i int, v podvolumes.Volume) error {
	opened, err := c.openVolume(pid, v)
	if err != nil {
		return fmt.Errorf("volume at %s of %s: %w", v.Destination, k, err)
	}
	defer func() { _ = opened.Root.Close() }() // nothing is written to it
	// The folder is that of the container only if its process had not ended when it was opened: its number may be another's.
	again, state, err := c.task(ctx, k)
	if err != nil {
		return err
	}
	if again != pid || state != checkpoint.Frozen {
		return checkpoint.Fail(v1alpha1.MigrationReasonDumpLost, "%s is no longer frozen, so the files in its volumes may not belong to its dump", k)
	}
	return a.Stream(archive.VolumeFiles(i), func(w io.Writer) error { return opened.Write(w) })
}

// stagedVolumes returns the volumes of a staged checkpoint.
func stagedVolumes(dir string) (volumes []restoreapi.Volume, err error) {
	f, err := os.Open(filepath.Join(dir, archive.Volumes))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the volumes of a checkpoint: %w", err)
	}
	defer f.Close()
	var destinations []string
	if err := json.NewDecoder(io.LimitReader(f, maxVolumesFile)).Decode(&destinations); err != nil {
		return nil, fmt.Errorf("read the volumes of a checkpoint: %w", err)
	}
	for i, destination := range destinations {
		volumes = append(volumes, restoreapi.Volume{Destination: destination, Files: filepath.Join(dir, archive.VolumeFiles(i))})
	}
	return volumes, nil
}
