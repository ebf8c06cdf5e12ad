// Package simulated simulates migrations of modelled size and speed, on nodes that run no
// containers, such as kwok's. The archives that are sent are real but tiny; the reported sizes
// are modelled.
package simulated

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/descheduler/checkpoint/archive"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/movable/capability"
)

// Model sets sizes and speeds.
type Model struct {
	// MemoryFactor is a container's memory usage as a share of its memory request, in [0, 16]; 0
	// means half of it. A container without a request counts as 64 MiB.
	MemoryFactor float64
	// DumpRate and ShipRate are in bytes per second; 0 means no time.
	DumpRate, ShipRate int64
	// Freeze is how long it takes to freeze or thaw a container.
	Freeze time.Duration
	// Compression is the share of a dump that is sent, in (0, 1]; 0 means all.
	Compression float64
}

const (
	// noRequest is the memory request of a container that has none.
	noRequest = 64 << 20
	// maxBytes bounds the size of a received archive.
	maxBytes = 1 << 20
	// sizeFile is the file of an archive with the modelled size.
	sizeFile = archive.Checkpoint + "/modelled.json"
)

// size is the content of sizeFile.
type size struct {
	Bytes int64 `json:"bytes"`
}

// Backend is both source and target. Small files record which containers are frozen or killed,
// and which images exist, so that they survive the process as on real nodes.
type Backend struct {
	model Model
	dir   string
	clock clock.Clock
	pods  checkpoint.PodReader
}

var (
	_ checkpoint.Source = (*Backend)(nil)
	_ checkpoint.Target = (*Backend)(nil)
)

// New returns a back-end that keeps its files in dir, which it creates.
func New(model Model, dir string, c clock.Clock, pods checkpoint.PodReader) (*Backend, error) {
	if model.MemoryFactor == 0 {
		model.MemoryFactor = 0.5
	}
	if model.Compression == 0 {
		model.Compression = 1
	}
	if !(model.MemoryFactor > 0 && model.MemoryFactor <= 16) || !(model.Compression > 0 && model.Compression <= 1) || model.DumpRate < 0 || model.ShipRate < 0 || model.Freeze < 0 {
		return nil, fmt.Errorf("the model %+v is out of range", model)
	}
	for _, folder := range []string{"frozen", "killed", "images"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o700); err != nil {
			return nil, fmt.Errorf("create the folder of the simulation: %w", err)
		}
	}
	return &Backend{model: model, dir: dir, clock: c, pods: pods}, nil
}

// Inspect models the memory usage from the container's request.
func (b *Backend) Inspect(ctx context.Context, c checkpoint.Container) (checkpoint.Facts, error) {
	state, err := b.State(ctx, c)
	if err != nil {
		return checkpoint.Facts{}, err
	}
	if state != checkpoint.Running {
		return checkpoint.Facts{}, checkpoint.Fail(v1alpha1.MigrationReasonNotRunning, "%s is not running", c)
	}
	pod, err := b.pods(ctx, types.NamespacedName{Namespace: c.Namespace, Name: c.Pod})
	if err != nil {
		return checkpoint.Facts{}, fmt.Errorf("get pod %s/%s: %w", c.Namespace, c.Pod, err)
	}
	return checkpoint.Facts{MemoryBytes: b.memory(pod, c.Name), Requirements: capability.Requirements{Backend: v1alpha1.BackendSimulated}}, nil
}

func (b *Backend) memory(pod *corev1.Pod, container string) int64 {
	asked := int64(noRequest)
	for i := range pod.Spec.Containers {
		if request, ok := pod.Spec.Containers[i].Resources.Requests[corev1.ResourceMemory]; ok && pod.Spec.Containers[i].Name == container {
			asked = request.Value()
		}
	}
	return int64(float64(asked) * b.model.MemoryFactor)
}

// stateInStatus returns the state that the pod's status says: Running or Gone.
func (b *Backend) stateInStatus(ctx context.Context, c checkpoint.Container) (checkpoint.State, error) {
	pod, err := b.pods(ctx, types.NamespacedName{Namespace: c.Namespace, Name: c.Pod})
	switch {
	case apierrors.IsNotFound(err), err == nil && string(pod.UID) != c.PodUID:
		return checkpoint.Gone, nil
	case err != nil:
		return checkpoint.Unknown, fmt.Errorf("get pod %s/%s: %w", c.Namespace, c.Pod, err)
	case class.Ended(pod):
		return checkpoint.Gone, nil
	}
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == c.Name && status.State.Terminated != nil {
			return checkpoint.Gone, nil
		}
	}
	return checkpoint.Running, nil
}

// State returns what was done here, and otherwise what the pod's status says. The former is known
// without the API server, as with a real runtime.
func (b *Backend) State(ctx context.Context, c checkpoint.Container) (checkpoint.State, error) {
	state, unread := b.stateInStatus(ctx, c)
	if unread == nil && state == checkpoint.Gone {
		return state, nil
	}
	for _, done := range []struct {
		what string
		is   checkpoint.State
	}{{"killed", checkpoint.Gone}, {"frozen", checkpoint.Frozen}} {
		switch _, err := os.Stat(b.file(done.what, c.PodUID)); {
		case err == nil:
			return done.is, nil
		case !errors.Is(err, fs.ErrNotExist):
			return checkpoint.Unknown, fmt.Errorf("inspect %s: %w", c, err)
		}
	}
	if unread != nil {
		return checkpoint.Unknown, unread
	}
	return checkpoint.Running, nil
}

func (b *Backend) file(what, name string) string {
	return filepath.Join(b.dir, what, strings.NewReplacer("/", "_", ":", "_").Replace(name))
}

// Freeze takes the modelled time.
func (b *Backend) Freeze(ctx context.Context, c checkpoint.Container) error {
	if err := b.wait(ctx, b.model.Freeze); err != nil {
		return err
	}
	return b.mark("frozen", c.PodUID, nil)
}

// Interrupt does nothing: a dump ends with its context, or with the agent.
func (b *Backend) Interrupt(context.Context, checkpoint.Container, string) error { return nil }

// Thaw takes the modelled time.
func (b *Backend) Thaw(ctx context.Context, c checkpoint.Container) error {
	if err := b.wait(ctx, b.model.Freeze); err != nil {
		return err
	}
	return b.unmark("frozen", c.PodUID)
}

// Kill takes no time.
func (b *Backend) Kill(_ context.Context, c checkpoint.Container) error {
	if err := b.mark("killed", c.PodUID, nil); err != nil {
		return err
	}
	return b.unmark("frozen", c.PodUID)
}

// Dump takes the modelled time, and records the modelled size.
func (b *Backend) Dump(ctx context.Context, c checkpoint.Container, dir string) (int64, error) {
	pod, err := b.pods(ctx, types.NamespacedName{Namespace: c.Namespace, Name: c.Pod})
	if err != nil {
		return 0, fmt.Errorf("get pod %s/%s: %w", c.Namespace, c.Pod, err)
	}
	modelled := size{Bytes: b.memory(pod, c.Name)}
	if err := b.wait(ctx, takes(modelled.Bytes, b.model.DumpRate)); err != nil {
		return 0, err
	}
	text, err := json.Marshal(modelled)
	if err != nil {
		return 0, fmt.Errorf("dump %s: %w", c, err)
	}
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "size"), text, 0o600)); err != nil {
		return 0, fmt.Errorf("dump %s: %w", c, err)
	}
	return modelled.Bytes, nil
}

// Archive takes the modelled time, and writes a tiny archive.
func (b *Backend) Archive(ctx context.Context, c checkpoint.Container, dir string, w io.Writer) error {
	text, err := os.ReadFile(filepath.Join(dir, "size"))
	if err != nil {
		return fmt.Errorf("read the dump of %s: %w", c, err)
	}
	var modelled size
	if err := json.Unmarshal(text, &modelled); err != nil {
		return fmt.Errorf("read the dump of %s: %w", c, err)
	}
	a := archive.NewWriter(w)
	for _, part := range []string{archive.Config, archive.Spec, archive.Status} {
		if err := a.Bytes(part, []byte("{}")); err != nil {
			return err
		}
	}
	if err := b.wait(ctx, takes(b.Shipped(0, modelled.Bytes), b.model.ShipRate)); err != nil {
		return err
	}
	if err := a.Bytes(sizeFile, text); err != nil {
		return err
	}
	return a.Close()
}

// Shipped returns the modelled number of bytes sent for a dump.
func (b *Backend) Shipped(_, dumped int64) int64 {
	return int64(float64(dumped) * b.model.Compression)
}

// Forget does nothing.
func (b *Backend) Forget(context.Context, checkpoint.Container, string) error { return nil }

// Able always succeeds.
func (b *Backend) Able(context.Context, checkpoint.Image) error { return nil }

// Stage records the image.
func (b *Backend) Stage(_ context.Context, image checkpoint.Image, tar checkpoint.Verified) (checkpoint.Staged, error) {
	dir, err := os.MkdirTemp(b.dir, "stage")
	if err != nil {
		return checkpoint.Staged{}, fmt.Errorf("stage the checkpoint of migration %s: %w", image.Migration, err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // some tiny files
	modelled, err := unpack(dir, tar)
	if err != nil {
		return checkpoint.Staged{}, err
	}
	if err := b.mark("images", image.Node+"_"+image.Migration, []byte(tar.Sum())); err != nil {
		return checkpoint.Staged{}, err
	}
	return checkpoint.Staged{Digest: tar.Sum(), Bytes: modelled.Bytes}, nil
}

func unpack(dir string, tar checkpoint.Verified) (size, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return size{}, fmt.Errorf("unpack a checkpoint: %w", err)
	}
	defer func() { _ = root.Close() }() // nothing was written to it
	if _, err := archive.Extract(tar, root, maxBytes); err != nil {
		return size{}, err
	}
	text, err := root.ReadFile(sizeFile)
	if err != nil {
		return size{}, checkpoint.Fail(v1alpha1.MigrationReasonInvalidArchive, "the received data is not a simulated checkpoint: %v", err)
	}
	var modelled size
	if err := json.Unmarshal(text, &modelled); err != nil {
		return size{}, checkpoint.Fail(v1alpha1.MigrationReasonInvalidArchive, "the received data is not a simulated checkpoint: %v", err)
	}
	return modelled, nil
}

// Has reports whether it was staged.
func (b *Backend) Has(_ context.Context, image checkpoint.Image) (bool, error) {
	_, err := os.Stat(b.file("images", image.Node+"_"+image.Migration))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Remove removes the record of the image.
func (b *Backend) Remove(_ context.Context, image checkpoint.Image) error {
	return b.unmark("images", image.Node+"_"+image.Migration)
}

func (b *Backend) mark(what, name string, content []byte) error {
	if err := os.WriteFile(b.file(what, name), content, 0o600); err != nil {
		return fmt.Errorf("record that %s is %s: %w", name, what, err)
	}
	return nil
}

func (b *Backend) unmark(what, name string) error {
	if err := os.Remove(b.file(what, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("record that %s is no longer %s: %w", name, what, err)
	}
	return nil
}

// takes returns how long bytes take at a rate in bytes per second.
func takes(bytes, rate int64) time.Duration {
	if rate == 0 {
		return 0
	}
	return time.Duration(float64(bytes) / float64(rate) * float64(time.Second))
}

func (b *Backend) wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-b.clock.After(d):
		return nil
	}
}
