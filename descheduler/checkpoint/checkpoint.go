// Package checkpoint is the port behind which the ways to take and to restore the state
// of a container stand: containerd, the kubelet's API, a plain restart, and a simulation.
//
// A [Source] acts on the node that the container leaves, a [Target] on the node that it
// comes to. What goes from one to the other is a tar in the layout that the restore of
// containerd's CRI plugin and that of CRI-O read; see [supercargo.dev/supercargo/descheduler/checkpoint/archive].
//
// Every method may be called again after a crash at any moment of an earlier call.
package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/descheduler/checkpoint/terms"
	"supercargo.dev/supercargo/internal/movable/capability"
)

// Container is one container of a pod.
type Container struct {
	// Node is where it runs.
	Node string
	// Namespace, Pod and PodUID say whose it is, and Name which one.
	Namespace, Pod, PodUID, Name string
	// ID is its ID without the runtime's prefix.
	ID string
}

// String names the container in errors.
func (c Container) String() string {
	return fmt.Sprintf("container %s of pod %s/%s", c.Name, c.Namespace, c.Pod)
}

// The labels that the kubelet gives a container when it asks the runtime for one. Who
// runs in the container cannot change them.
const (
	labelNamespace = "io.kubernetes.pod.namespace"
	labelPod       = "io.kubernetes.pod.name"
	labelPodUID    = "io.kubernetes.pod.uid"
	labelContainer = "io.kubernetes.container.name"
)

// Is reports whether the labels that the runtime keeps for the container with that ID are
// those of this container of this pod. The ID comes from the status of a Migration or of
// a pod, and others than the kubelet may be able to write those: a container whose labels
// differ must not be touched.
func (c Container) Is(labels map[string]string) bool {
	return c.PodUID != "" && labels[labelPodUID] == c.PodUID && labels[labelNamespace] == c.Namespace && labels[labelPod] == c.Pod && labels[labelContainer] == c.Name
}

// Foreign is the failure to find the container of a pod under the ID that the plan of a
// Migration names.
func (c Container) Foreign() error {
	return Fail(ReasonForeignContainer, "container %s is not %s: the plan of the Migration names the wrong one; see who can write the status of Migrations and of the pod", c.ID, c)
}

// State is what a container does.
type State = terms.State

// The states.
const (
	Unknown = terms.Unknown
	Running = terms.Running
	Frozen  = terms.Frozen
	Gone    = terms.Gone
)

// Facts are what is known of a container before it is moved.
type Facts struct {
	// MemoryBytes is how much memory it uses.
	MemoryBytes int64
	// Requirements are what its new node must have.
	Requirements capability.Requirements
}

// Source takes the state of containers on the node that they leave.
type Source interface {
	// Inspect looks at a container that runs. A container that cannot be moved is a
	// [*Failure].
	Inspect(context.Context, Container) (Facts, error)
	// State says what the container does.
	State(context.Context, Container) (State, error)
	// Freeze freezes it. A frozen container is left as it is.
	Freeze(context.Context, Container) error
	// Thaw lets it go on. A container that runs, or has gone, is left as it is.
	Thaw(context.Context, Container) error
	// Kill ends it, frozen or not, and returns when it is dead. It does not run again on
	// the way.
	Kill(context.Context, Container) error
	// Dump writes the state of a frozen container into a folder of its own, which may
	// hold what an earlier call left, and returns the size in bytes. The container is
	// frozen afterwards too.
	Dump(ctx context.Context, c Container, dir string) (int64, error)
	// Archive writes what Dump has left in the folder as a tar. It does not need the
	// container.
	Archive(ctx context.Context, c Container, dir string, w io.Writer) error
	// Forget removes what Dump made outside of the folder.
	Forget(ctx context.Context, c Container, dir string) error
}

// Image is a checkpoint that is to be restored.
type Image struct {
	// Node is where it is.
	Node string
	// Name is how pods name it.
	Name string
	// Container is the name of the container.
	Container string
	// Migration is the UID of the Migration that it belongs to.
	Migration string
	// Requirements are what the source's agent said.
	Requirements capability.Requirements
}

// Verified is a tar that comes with its checksum. Read returns io.EOF only if the
// checksum was right.
type Verified interface {
	io.Reader
	// Sum is the checksum, as "xxh64:..."; it is valid after io.EOF.
	Sum() string
}

// Staged is what has become of an image.
type Staged struct {
	// Digest is that of the image's manifest.
	Digest string
	// Bytes is what it takes on the node.
	Bytes int64
}

// Target makes checkpoints restorable on the node that containers come to.
type Target interface {
	// Able returns a [*Failure] if the image could not be restored here, such as when its
	// base image is missing.
	Able(context.Context, Image) error
	// Stage makes an image of a tar. If it fails nothing is left of it. An image of that
	// name that is there already is replaced.
	Stage(ctx context.Context, image Image, tar Verified) (Staged, error)
	// Has says whether the image is there and complete.
	Has(context.Context, Image) (bool, error)
	// Remove removes the image, and what a call of Stage left that was killed.
	Remove(context.Context, Image) error
}

// Backend is one way to take and to restore the state of containers.
type Backend struct {
	// Source is nil if nothing can be taken this way.
	Source Source
	// Target is nil if nothing needs to be staged.
	Target Target
}

// PodReader reads a pod live. It is the one thing that back-ends ask the API server for.
type PodReader func(context.Context, types.NamespacedName) (*corev1.Pod, error)

// Failure is an answer that does not change by asking again: the reason goes into the
// report of the agent, and somebody else decides what comes next. Any other error is
// taken for a passing one.
type Failure struct {
	// Reason is one word, such as "ImageMissing".
	Reason string
	// Message says what failed, and what to do about it.
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

// The reasons of failures; see package terms.
const (
	ReasonNotRunning      = terms.ReasonNotRunning
	ReasonNotSupported    = terms.ReasonNotSupported
	ReasonOpenConnections = terms.ReasonOpenConnections
	ReasonTooLarge        = terms.ReasonTooLarge
	ReasonNoRoom          = terms.ReasonNoRoom
	ReasonImageMissing    = terms.ReasonImageMissing
	ReasonFreezeFailed    = terms.ReasonFreezeFailed
	ReasonDumpFailed      = terms.ReasonDumpFailed
	ReasonDumpLost        = terms.ReasonDumpLost
	ReasonTransferFailed  = terms.ReasonTransferFailed
	ReasonBadArchive      = terms.ReasonBadArchive
	ReasonContainerGone   = terms.ReasonContainerGone
	ReasonThawed          = terms.ReasonThawed

	ReasonForeignContainer = terms.ReasonForeignContainer
)
