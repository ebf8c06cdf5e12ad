// Package containerd is the back-end for nodes that run containerd: containers are
// frozen, dumped and killed by its task API, and what is to be restored is made an image
// in its stores, from which its CRI plugin restores containers (2.3.7 or a later 2.3,
// with enable_experimental_restore_via_create).
//
// How often the bytes of a container's memory are copied, and why:
//
//  1. CRIU writes them into files of the work folder, which is in memory. It can write
//     nowhere else: runc hands it a folder.
//  2. They are read from there, compressed, encrypted and sent, in one stream.
//  3. The target decrypts and decompresses them and writes them as files of a snapshot,
//     in the same stream. They are not put into the content store: an image's layer
//     would have to be unpacked into a snapshot before a restore, which would be one more
//     time to write them and to read them.
//  4. containerd copies the snapshot into the folder of the container.
//  5. CRIU reads them from there into the memory of the new process.
//
// So an image made here has one layer with a single small file, which says to which
// migration it belongs and what its checksum is, and the snapshot that stands for this
// layer holds the checkpoint beside it. The image never leaves its node.
package containerd

import (
	"context"
	"fmt"
	"time"

	containersapi "github.com/containerd/containerd/api/services/containers/v1"
	contentapi "github.com/containerd/containerd/api/services/content/v1"
	diffapi "github.com/containerd/containerd/api/services/diff/v1"
	imagesapi "github.com/containerd/containerd/api/services/images/v1"
	leasesapi "github.com/containerd/containerd/api/services/leases/v1"
	snapshotsapi "github.com/containerd/containerd/api/services/snapshots/v1"
	tasksapi "github.com/containerd/containerd/api/services/tasks/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/internal/movable/capability"
)

const (
	// namespace is where the CRI plugin keeps its containers.
	namespace = "k8s.io"
	// maxMessage bounds an answer of containerd, in bytes: specifications are large.
	maxMessage = 16 << 20
	// callTimeout bounds what should take no time.
	callTimeout = 30 * time.Second
)

// Options say how containerd is reached and what is allowed.
type Options struct {
	// Socket is containerd's, without a scheme.
	Socket string
	// Snapshotter is the one that the CRI plugin uses. It must make plain folders, as
	// overlayfs and native do.
	Snapshotter string
	// MaxImageBytes is how large one checkpoint may be.
	MaxImageBytes int64
	// OpenConnections says that CRIU is configured on all nodes to close TCP connections
	// (tcp-close in /etc/criu/runc.conf). Without it containers that have some are
	// refused: their dump would fail.
	OpenConnections bool
	// Proc is where the node's /proc is.
	Proc string
	// Requires are the parts of the requirements that depend on the node alone.
	Requires func(context.Context) (capability.Requirements, error)
	// Clock is for waiting.
	Clock clock.Clock
}

// Client talks to containerd.
type Client struct {
	Options
	connection *grpc.ClientConn
	tasks      tasksapi.TasksClient
	containers containersapi.ContainersClient
	content    contentapi.ContentClient
	diff       diffapi.DiffClient
	images     imagesapi.ImagesClient
	leases     leasesapi.LeasesClient
	snapshots  snapshotsapi.SnapshotsClient
	runtime    criapi.RuntimeServiceClient
	criImages  criapi.ImageServiceClient
}

// New makes a client. It connects when it is first used, and again after containerd has
// been restarted.
func New(o Options) (*Client, error) {
	c, err := grpc.NewClient("unix://"+o.Socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithUnaryInterceptor(func(ctx context.Context, method string, request, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
			return invoke(inNamespace(ctx), method, request, reply, cc, options...)
		}),
		grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, stream grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
			return stream(inNamespace(ctx), desc, cc, method, options...)
		}))
	if err != nil {
		return nil, fmt.Errorf("reach containerd at %s: %w", o.Socket, err)
	}
	return &Client{
		Options: o, connection: c,
		tasks: tasksapi.NewTasksClient(c), containers: containersapi.NewContainersClient(c), content: contentapi.NewContentClient(c),
		diff: diffapi.NewDiffClient(c), images: imagesapi.NewImagesClient(c), leases: leasesapi.NewLeasesClient(c),
		snapshots: snapshotsapi.NewSnapshotsClient(c),
		runtime:   criapi.NewRuntimeServiceClient(c), criImages: criapi.NewImageServiceClient(c),
	}, nil
}

// Close ends the connection.
func (c *Client) Close() error { return c.connection.Close() }

func inNamespace(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "containerd-namespace", namespace)
}

// leased makes what is created with the context belong to a lease, which protects it
// from containerd's garbage collection.
func leased(ctx context.Context, lease string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "containerd-lease", lease)
}

// isCode says whether containerd answered with a code.
func isCode(err error, code codes.Code) bool { return err != nil && status.Code(err) == code }

func notFound(err error) bool { return isCode(err, codes.NotFound) }

// passing says that an error is about reaching containerd, and not its answer.
func passing(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded, codes.Aborted:
		return true
	}
	return false
}

// makeLease makes a lease, or finds that it is there.
func (c *Client) makeLease(ctx context.Context, id, migration string) error {
	_, err := c.leases.Create(ctx, &leasesapi.CreateRequest{ID: id, Labels: map[string]string{labelMigration: migration}})
	if err != nil && !isCode(err, codes.AlreadyExists) {
		return fmt.Errorf("make lease %s: %w", id, err)
	}
	return nil
}

// dropLease removes a lease, and with it all that nothing else holds.
func (c *Client) dropLease(ctx context.Context, id string) error {
	if _, err := c.leases.Delete(ctx, &leasesapi.DeleteRequest{ID: id, Sync: true}); err != nil && !notFound(err) {
		return fmt.Errorf("remove lease %s: %w", id, err)
	}
	return nil
}
