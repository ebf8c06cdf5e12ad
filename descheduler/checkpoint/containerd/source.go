package containerd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	containersapi "github.com/containerd/containerd/api/services/containers/v1"
	leasesapi "github.com/containerd/containerd/api/services/leases/v1"
	snapshotsapi "github.com/containerd/containerd/api/services/snapshots/v1"
	tasksapi "github.com/containerd/containerd/api/services/tasks/v1"
	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/descheduler/checkpoint/archive"
	"supercargo.dev/supercargo/descheduler/checkpoint/podvolumes"
	"supercargo.dev/supercargo/internal/text/plural"
)

const (
	// labelMigration marks what is made for a migration, with its UID.
	labelMigration = v1alpha1.LabelMigration
	// leasePrefix comes before the UID in the names of a source's leases.
	leasePrefix = "supercargo-dump-"
	// layerType is the type of a tar of changed files.
	layerType = "application/vnd.oci.image.layer.v1.tar"
	// dumpNotes is a file of the work folder that lists what else belongs to the dump.
	dumpNotes = "notes.json"
	// maxLogBytes is the maximum size of a container log that is sent.
	maxLogBytes = 16 << 20
)

var (
	_ checkpoint.Source = (*Client)(nil)
	_ checkpoint.Target = (*Client)(nil)
	_ checkpoint.Giver  = (*Client)(nil)
)

// notes lists what belongs to a dump besides the files of the work folder.
type notes struct {
	// Log is the container's log file, and LogBytes how many bytes of it are sent.
	Log      string
	LogBytes int64
	// Upper is the upper folder of overlayfs, on the node, with the files that the container changed, or Diff is their
	// digest in the content store. DiffBytes is the size of their tar.
	Upper     string
	Diff      string
	DiffBytes int64
	// Volumes are those whose contents are sent, and VolumeBytes is their size without holes.
	Volumes     []podvolumes.Volume
	VolumeBytes int64
}

// Inspect fails if the container cannot be dumped, as far as that is known in advance.
func (c *Client) Inspect(ctx context.Context, k checkpoint.Container) (checkpoint.Facts, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := c.own(ctx, k); err != nil {
		return checkpoint.Facts{}, err
	}
	pid, state, err := c.task(ctx, k)
	if err != nil {
		return checkpoint.Facts{}, err
	}
	switch state {
	case checkpoint.Unknown:
		return checkpoint.Facts{}, fmt.Errorf("inspect %s: its state is unknown", k)
	case checkpoint.Frozen, checkpoint.Gone:
		return checkpoint.Facts{}, checkpoint.Fail(v1alpha1.MigrationReasonNotRunning, "%s is %s: only running containers can be moved", k, state)
	}
	volumes, err := c.movable(ctx, k, pid)
	if err != nil {
		return checkpoint.Facts{}, err
	}
	facts, err := c.describe(ctx, k)
	if err != nil {
		return checkpoint.Facts{}, err
	}
	facts.VolumeBytes, err = c.volumeBytes(k, pid, volumes, c.MaxImageBytes)
	return facts, err
}

// describe is Inspect without its checks.
func (c *Client) describe(ctx context.Context, k checkpoint.Container) (checkpoint.Facts, error) {
	info, err := c.runtime.ContainerStatus(ctx, &criapi.ContainerStatusRequest{ContainerId: k.ID})
	if err != nil {
		return checkpoint.Facts{}, fmt.Errorf("inspect %s: %w", k, err)
	}
	memory, err := c.memory(ctx, k)
	if err != nil {
		return checkpoint.Facts{}, fmt.Errorf("read the memory usage of %s: %w", k, err)
	}
	needs, err := c.Requires(ctx)
	if err != nil {
		return checkpoint.Facts{}, err
	}
	needs.Backend, needs.Runtime = v1alpha1.BackendContainerd, "containerd"
	needs.BaseImage, needs.BaseImageID = info.GetStatus().GetImage().GetImage(), imageID(info.GetStatus())
	return checkpoint.Facts{MemoryBytes: memory, Requirements: needs}, nil
}

// memory returns the expected size of a dump, in bytes: the memory that the processes wrote.
func (c *Client) memory(ctx context.Context, k checkpoint.Container) (int64, error) {
	pids, err := c.processes(ctx, k)
	if err != nil {
		return 0, err
	}
	return memoryOf(c.Proc, pids)
}

// processes returns the IDs of the processes of a container.
func (c *Client) processes(ctx context.Context, k checkpoint.Container) (pids []int, err error) {
	answer, err := c.tasks.ListPids(ctx, &tasksapi.ListPidsRequest{ContainerID: k.ID})
	for _, process := range answer.GetProcesses() {
		pids = append(pids, int(process.GetPid()))
	}
	return pids, err
}

// imageID returns the ID of the container's image. The name in the pod may refer to another image
// by now.
func imageID(s *criapi.ContainerStatus) string {
	if id := s.GetImageId(); id != "" {
		return id
	}
	return s.GetImageRef()
}

// movable refuses containers whose dump would fail, and returns the volumes whose contents go with the others.
func (c *Client) movable(ctx context.Context, k checkpoint.Container, pid uint32) ([]podvolumes.Volume, error) {
	info, err := c.containers.Get(ctx, &containersapi.GetContainerRequest{ID: k.ID})
	if err != nil {
		return nil, fmt.Errorf("inspect %s: %w", k, err)
	}
	var spec struct {
		Process struct {
			Terminal bool `json:"terminal"`
		} `json:"process"`
		Root struct {
			Readonly bool `json:"readonly"`
		} `json:"root"`
	}
	if err := json.Unmarshal(info.GetContainer().GetSpec().GetValue(), &spec); err != nil {
		return nil, fmt.Errorf("read the specification of %s: %w", k, err)
	}
	if spec.Process.Terminal {
		return nil, checkpoint.Fail(v1alpha1.MigrationReasonNotSupported, "%s has a terminal, which cannot be moved: remove tty from the pod", k)
	}
	if spec.Root.Readonly {
		has, err := hasTmp(filepath.Join(c.Proc, strconv.FormatUint(uint64(pid), 10), "root"))
		if err != nil {
			return nil, fmt.Errorf("check for /tmp in %s: %w", k, err)
		}
		if !has {
			return nil, checkpoint.Fail(v1alpha1.MigrationReasonNotSupported, "%s has a read-only root file system without a folder /tmp, which CRIU needs to restore it: add an empty /tmp to its image, or remove readOnlyRootFilesystem", k)
		}
	}
	if _, err := c.freezerOf(pid, k.ID); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, checkpoint.Fail(v1alpha1.MigrationReasonNotSupported, "%s cannot be frozen: %v", k, err)
	}
	if err := c.checkSockets(k, pid); err != nil {
		return nil, err
	}
	volumes, err := volumesOf(info.GetContainer(), k)
	if err != nil {
		return nil, err
	}
	return volumes, c.checkFiles(ctx, k, volumes)
}

// checkSockets refuses containers whose sockets cannot be moved.
func (c *Client) checkSockets(k checkpoint.Container, pid uint32) error {
	open, err := socketsOf(filepath.Join(c.Proc, strconv.FormatUint(uint64(pid), 10), "net"))
	switch {
	case err != nil:
		return fmt.Errorf("list the connections of %s: %w", k, err)
	case open.TCP > 0 && !c.OpenConnections:
		return checkpoint.Fail(v1alpha1.MigrationReasonOpenConnections,
			"the network namespace of %s has %s, which cannot be moved: close %s, or let CRIU do so (tcp-close in /etc/criu/runc.conf on every node, and --allow-open-connections for the node agents)", k, plural.Count(open.TCP, "open TCP connection"), plural.Form(open.TCP, "it", "them"))
	case open.UDP > 0:
		return checkpoint.Fail(v1alpha1.MigrationReasonOpenConnections,
			"the network namespace of %s has %s, which cannot be moved, because the new pod has another address: close %s", k, plural.Count(open.UDP, "connected UDP socket"), plural.Form(open.UDP, "it", "them"))
	case open.Bound.IsValid():
		return checkpoint.Fail(v1alpha1.MigrationReasonAddressUnsupported,
			"a socket of %s is bound to %s, and the new pod has another address: bind it to all addresses instead", k, open.Bound)
	}
	return nil
}

// checkFiles refuses containers whose open files or locks cannot be moved.
func (c *Client) checkFiles(ctx context.Context, k checkpoint.Container, moved []podvolumes.Volume) error {
	pids, err := c.processes(ctx, k)
	if err != nil {
		return fmt.Errorf("list the processes of %s: %w", k, err)
	}
	own := map[string]bool{}
	for _, v := range moved {
		own[v.Destination] = true
	}
	used, err := filesOf(c.Proc, pids, own)
	if err != nil {
		return fmt.Errorf("list the open files of %s: %w", k, err)
	}
	switch {
	case used.Versioned != "":
		return checkpoint.Fail(v1alpha1.MigrationReasonVolumeFilesOpen,
			"%s has opened %s, a file of a volume that the kubelet writes, which has another path on another node: close it once it is read", k, used.Versioned)
	case used.Locked != "":
		return checkpoint.Fail(v1alpha1.MigrationReasonFileLocksHeld,
			"%s has locked %s, a file of a volume, and its copy on another node would wait for the lock: release the lock", k, used.Locked)
	}
	return nil
}

// own fails if the container with that ID belongs to another pod. Every method that touches a
// container calls it first. A missing container is no error.
//
// The result holds for the container's lifetime: its ID is random and never reused, and its
// labels do not change.
func (c *Client) own(ctx context.Context, k checkpoint.Container) error {
	info, err := c.containers.Get(ctx, &containersapi.GetContainerRequest{ID: k.ID})
	switch {
	case notFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("inspect %s: %w", k, err)
	case !k.Is(info.GetContainer().GetLabels()):
		return k.Foreign()
	}
	return nil
}

// Dump has CRIU write into the work folder, and containerd store the files that the container
// changed.
func (c *Client) Dump(ctx context.Context, k checkpoint.Container, dir string) (int64, error) {
	if err := c.own(ctx, k); err != nil {
		return 0, err
	}
	images, work := filepath.Join(dir, archive.Checkpoint), workOf(dir)
	if err := c.interrupt(ctx, dir); err != nil {
		return 0, err
	}
	err := os.RemoveAll(dir)
	for _, folder := range []string{dir, images, work} {
		if err == nil {
			err = os.Mkdir(folder, 0o700)
		}
	}
	if err != nil {
		return 0, fmt.Errorf("create a folder for the dump of %s: %w", k, err)
	}
	info, err := c.containers.Get(ctx, &containersapi.GetContainerRequest{ID: k.ID})
	if err != nil {
		return 0, fmt.Errorf("inspect %s: %w", k, err)
	}
	seen, err := c.runtime.ContainerStatus(ctx, &criapi.ContainerStatusRequest{ContainerId: k.ID})
	if err != nil {
		return 0, fmt.Errorf("inspect %s: %w", k, err)
	}
	if err := describe(dir, k, info.GetContainer(), seen.GetStatus(), c.Clock.Now()); err != nil {
		return 0, err
	}
	if err := c.criu(ctx, k, dir, images, work); err != nil {
		return 0, err
	}
	var n notes
	if err := c.changed(ctx, k, info.GetContainer(), filepath.Base(dir), &n); err != nil {
		return 0, err
	}
	if err := c.collectVolumes(ctx, k, info.GetContainer(), &n); err != nil {
		return 0, err
	}
	n.Log, n.LogBytes = seen.GetStatus().GetLogPath(), logBytes(seen.GetStatus().GetLogPath())
	text, err := json.Marshal(n)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, dumpNotes), text, 0o600)
	}
	if err != nil {
		return 0, fmt.Errorf("record the contents of the dump of %s: %w", k, err)
	}
	size, err := treeBytes(images)
	return size + n.DiffBytes + n.VolumeBytes + n.LogBytes, err
}

// logBytes returns how many bytes of a log are sent: all or nothing, since a part would be taken
// for the whole log.
func logBytes(file string) int64 {
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxLogBytes {
		return 0
	}
	return info.Size()
}

// config is the content of config.dump.
type config struct {
	ID              string    `json:"id"`
	Name            string    `json:"name"`
	RootfsImage     string    `json:"rootfsImage,omitempty"`
	RootfsImageRef  string    `json:"rootfsImageRef,omitempty"`
	RootfsImageName string    `json:"rootfsImageName,omitempty"`
	OCIRuntime      string    `json:"runtime,omitempty"`
	CreatedTime     time.Time `json:"createdTime"`
	CheckpointedAt  time.Time `json:"checkpointedTime"`
}

// describe writes the three files that describe the container.
func describe(dir string, k checkpoint.Container, info *containersapi.Container, status *criapi.ContainerStatus, now time.Time) error {
	who, err := json.Marshal(config{
		ID: k.ID, Name: k.Name, RootfsImage: status.GetImage().GetImage(), RootfsImageName: status.GetImage().GetImage(),
		// Every node that has the image finds it by its ID, whatever its name.
		RootfsImageRef: imageID(status), OCIRuntime: info.GetRuntime().GetName(), CreatedTime: info.GetCreatedAt().AsTime(), CheckpointedAt: now,
	})
	if err != nil {
		return fmt.Errorf("describe %s: %w", k, err)
	}
	how, err := json.Marshal(status)
	if err != nil {
		return fmt.Errorf("describe %s: %w", k, err)
	}
	for name, text := range map[string][]byte{archive.Config: who, archive.Status: how, archive.Spec: info.GetSpec().GetValue()} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return fmt.Errorf("describe %s: %w", k, err)
		}
	}
	return nil
}

// Archive writes what Dump collected.
func (c *Client) Archive(ctx context.Context, k checkpoint.Container, dir string, w io.Writer) error {
	n, err := readNotes(k, dir)
	if err != nil {
		return err
	}
	a := archive.NewWriter(w)
	if err := c.archiveRest(ctx, k, a, dir, n, nil); err != nil {
		return err
	}
	return a.Close()
}

// readNotes reads what Dump noted.
func readNotes(k checkpoint.Container, dir string) (n notes, err error) {
	text, err := os.ReadFile(filepath.Join(dir, dumpNotes))
	if errors.Is(err, fs.ErrNotExist) {
		return n, checkpoint.Fail(v1alpha1.MigrationReasonDumpLost, "the dump of %s is missing", k)
	}
	if err == nil {
		err = json.Unmarshal(text, &n)
	}
	if err != nil {
		return n, fmt.Errorf("read the record of the dump of %s: %w", k, err)
	}
	return n, nil
}

// archiveRest adds all of a dump but the images that were sent.
func (c *Client) archiveRest(ctx context.Context, k checkpoint.Container, a *archive.Writer, dir string, n notes, sent map[string]int64) error {
	for _, part := range []string{archive.Config, archive.Spec, archive.Status} {
		if err := a.File(part, filepath.Join(dir, part)); err != nil {
			return err
		}
	}
	if n.LogBytes > 0 {
		if err := archiveLog(a, n); err != nil {
			return err
		}
	}
	if err := c.archiveChanges(ctx, a, n); err != nil {
		return err
	}
	if err := c.archiveVolumes(ctx, k, a, n); err != nil {
		return err
	}
	return a.Tree(archive.Checkpoint, filepath.Join(dir, archive.Checkpoint), func(file string) bool {
		_, is := sent[file]
		return !is
	})
}

func archiveLog(a *archive.Writer, n notes) error {
	f, err := os.Open(n.Log)
	if err != nil {
		return fmt.Errorf("read the log of the container: %w", err)
	}
	defer f.Close()
	return a.From(archive.Log, n.LogBytes, f)
}

// Forget removes what containerd stores for the dump.
func (c *Client) Forget(ctx context.Context, _ checkpoint.Container, dir string) error {
	return c.forget(ctx, filepath.Base(dir))
}

func (c *Client) forget(ctx context.Context, migration string) error {
	lease := leasePrefix + migration
	_, err := c.snapshots.Remove(ctx, &snapshotsapi.RemoveSnapshotRequest{Snapshotter: c.Snapshotter, Key: lease + "-view"})
	if err != nil && !notFound(err) {
		return fmt.Errorf("remove snapshot %s-view: %w", lease, err)
	}
	return c.dropLease(ctx, lease)
}

// sweepLeases removes what containerd stores for the dumps of unknown migrations.
func (c *Client) sweepLeases(ctx context.Context, known func(migration string) bool) error {
	leases, err := c.leases.List(ctx, &leasesapi.ListRequest{Filters: []string{`labels."` + labelMigration + `"`}})
	if err != nil {
		return fmt.Errorf("list leases: %w", err)
	}
	var errs []error
	for _, lease := range leases.GetLeases() {
		if migration := lease.GetLabels()[labelMigration]; !known(migration) && strings.HasPrefix(lease.GetID(), leasePrefix) {
			errs = append(errs, c.forget(ctx, migration))
		}
	}
	return errors.Join(errs...)
}

// treeBytes returns the total size of the files below a folder.
func treeBytes(dir string) (int64, error) {
	var total int64
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			total += info.Size()
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("measure the dump: %w", err)
	}
	return total, nil
}

// wrap adds context to an error; nil stays nil.
func wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}
