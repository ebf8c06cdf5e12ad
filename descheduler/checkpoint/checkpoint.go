// Package checkpoint defines the interfaces of back-ends, which take and restore the state of a
// container: containerd, a plain restart, and a simulation.
//
// A [Source] acts on the node that the container leaves, a [Target] on the node that it comes to.
// The state is sent as a tar in the layout that containerd's CRI plugin and CRI-O restore from;
// see [supercargo.dev/supercargo/descheduler/checkpoint/archive].
//
// Every method may be called again after a crash at any point of an earlier call.
package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/checkpoint/restoreapi"
	"supercargo.dev/supercargo/descheduler/checkpoint/terms"
	"supercargo.dev/supercargo/internal/movable/capability"
)

// Container is one container of a pod.
type Container struct {
	// Node is the node that it runs on.
	Node string
	// Namespace, Pod and PodUID identify its pod, and Name the container in it.
	Namespace, Pod, PodUID, Name string
	// ID is its container ID without the runtime's prefix.
	ID string
}

// String identifies the container in errors.
func (c Container) String() string {
	return fmt.Sprintf("container %s of pod %s/%s", c.Name, c.Namespace, c.Pod)
}

// The labels that the kubelet sets when it creates a container. Processes in the container cannot
// change them.
const (
	labelNamespace = "io.kubernetes.pod.namespace"
	labelPod       = "io.kubernetes.pod.name"
	LabelPodUID    = "io.kubernetes.pod.uid"
	LabelContainer = "io.kubernetes.container.name"
)

// Is reports whether the labels that the runtime has for the container with this ID are those of
// this container of this pod. The ID comes from the status of a Migration or of a pod, which
// others than the kubelet may be able to write. A container whose labels differ must not be
// touched.
func (c Container) Is(labels map[string]string) bool {
	return c.PodUID != "" && labels[LabelPodUID] == c.PodUID && labels[labelNamespace] == c.Namespace && labels[labelPod] == c.Pod && labels[LabelContainer] == c.Name
}

// Foreign returns the failure for a container ID in the plan of a Migration that does not belong
// to its pod.
func (c Container) Foreign() error {
	return Fail(v1alpha1.MigrationReasonForeignContainer, "container %s is not %s: the plan of the Migration names a container that is not of its pod; check which users can write the status of Migrations and of the pod", c.ID, c)
}

// State is the state of a container.
type State = terms.State

// The states.
const (
	Unknown = terms.Unknown
	Running = terms.Running
	Frozen  = terms.Frozen
	Gone    = terms.Gone
)

// Facts describe a container before it is moved.
type Facts struct {
	// MemoryBytes is its memory usage.
	MemoryBytes int64
	// VolumeBytes is the size of what is in its shared memory and its emptyDirs; more than the maximum for a checkpoint if
	// it has not been counted to the end.
	VolumeBytes int64
	// Requirements are its requirements of the target node.
	Requirements capability.Requirements
}

// Source takes the state of containers on the node that they leave.
type Source interface {
	// Inspect describes a running container. It returns a [*Failure] if the container cannot be
	// moved.
	Inspect(context.Context, Container) (Facts, error)
	// State returns the container's state.
	State(context.Context, Container) (State, error)
	// Freeze freezes it. It does nothing if the container is frozen.
	Freeze(context.Context, Container) error
	// Thaw thaws it. It does nothing if the container runs or is gone.
	Thaw(context.Context, Container) error
	// Kill kills it, frozen or not, and returns when it is dead. A frozen container does not run
	// again before it dies.
	Kill(context.Context, Container) error
	// Dump writes the state of a frozen container into a folder of its own, which may contain
	// leftovers of an earlier call, and returns the size in bytes. The container stays frozen.
	Dump(ctx context.Context, c Container, dir string) (int64, error)
	// Interrupt ends a Dump into the folder that still runs, perhaps since before a restart of the
	// agent. It returns when it has ended. Thaw and Kill may not have an effect before.
	Interrupt(ctx context.Context, c Container, dir string) error
	// Archive writes the dump in the folder as a tar. The container must still be frozen if it has files in shared memory
	// or in emptyDirs, which are read from there.
	Archive(ctx context.Context, c Container, dir string, w io.Writer) error
	// Forget removes what Dump made outside the folder.
	Forget(ctx context.Context, c Container, dir string) error
}

// Follower is a [Source] whose dump can be read while it is written.
type Follower interface {
	// Follow writes the dump in the folder as a tar, as Archive does, while Dump writes it. Nothing is
	// left in the folder of an earlier dump. Follow returns once dumped is closed and everything is
	// written. If the dump fails, the caller ends ctx.
	Follow(ctx context.Context, c Container, dir string, dumped <-chan struct{}, w io.Writer) error
}

// PageBytes is the size in bytes of the pages that are compared. It does not depend on the page size of the node.
const PageBytes = 4096

// PageWriter is a writer that does not send the pages of memory that the target already has.
type PageWriter interface {
	io.Writer
	// Pages announces that the next n bytes are pages of memory, from the beginning of one.
	Pages(n int64)
}

// Pager is a [Source] that reads the memory of a container that runs.
type Pager interface {
	// Pages calls visit with memory that is likely to be in the dump: whole pages, one after the other, valid until visit
	// returns. Pages that change meanwhile may have any content. It ends with the first error of visit. It may call visit with
	// nothing while it looks for more.
	Pages(ctx context.Context, c Container, visit func(pages []byte) error) error
}

// Image is a checkpoint to restore.
type Image struct {
	// Node is the node that has it.
	Node string
	// Container is the name of the container.
	Container string
	// Migration is the UID of its Migration.
	Migration string
	// Pod is the UID of the new pod.
	Pod string `json:",omitempty"`
	// Requirements are those that the source's agent reported.
	Requirements capability.Requirements
}

// Verified is a tar with a checksum. Read returns io.EOF only if the checksum is right.
type Verified interface {
	io.Reader
	// Sum returns the checksum, as "xxh64:..."; it is valid after io.EOF.
	Sum() string
}

// Staged describes a staged image.
type Staged struct {
	// Digest is the checksum of what was staged.
	Digest string
	// Bytes is its size on the node.
	Bytes int64
}

// Target makes checkpoints restorable on the node that containers come to.
type Target interface {
	// Able returns a [*Failure] if the image cannot be restored here, for instance because its
	// base image is missing. Otherwise, the container of the new pod does not start without the
	// image on this node until Remove.
	Able(context.Context, Image) error
	// Stage makes an image from a tar. On an error nothing is left of it. An existing image of
	// the same Migration is replaced.
	Stage(ctx context.Context, image Image, tar Verified) (Staged, error)
	// Has reports whether the image exists and is complete.
	Has(context.Context, Image) (bool, error)
	// Remove removes the image, and the leftovers of an interrupted Stage.
	Remove(context.Context, Image) error
}

// Giver is a [Target] whose checkpoints the container runtime of the node restores.
type Giver interface {
	// Give describes a staged image to the runtime that creates the container with this ID. It
	// returns a [*Failure] if the container is not the one that the image is for.
	Give(ctx context.Context, image Image, id string) (restoreapi.Answer, error)
}

// Backend is one way to take and restore the state of containers.
type Backend struct {
	// Source is nil if the back-end cannot take state.
	Source Source
	// Target is nil if nothing is staged.
	Target Target
}

// PodReader reads a pod live. It is the only access of back-ends to the API server.
type PodReader func(context.Context, types.NamespacedName) (*corev1.Pod, error)

// Failure is a permanent error: the agent reports its reason, and the controller decides what
// comes next. Any other error is treated as temporary, and retried.
type Failure struct {
	// Reason is one word, such as "ImageMissing".
	Reason string
	// Message says what failed, and how to fix it.
	Message string
}

// Error returns the message.
func (f *Failure) Error() string { return f.Message }

// Fail makes a [*Failure].
func Fail(reason, format string, args ...any) error {
	return &Failure{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// AsFailure returns the failure that an error is or wraps, or nil.
func AsFailure(err error) *Failure {
	var f *Failure
	if errors.As(err, &f) {
		return f
	}
	return nil
}
