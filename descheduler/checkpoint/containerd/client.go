// Package containerd is the back-end for nodes with containerd. Containers are frozen, dumped and
// killed through its task API. Containers are restored by the runtime that containerd starts in
// place of runc; see package ociruntime.
//
// How often the bytes of a container's memory are copied, and why:
//
//  1. CRIU writes them into files of the work folder, which is a tmpfs. It can write nowhere
//     else, because runc takes a folder.
//  2. They are read from there, compressed, encrypted and sent, in one stream.
//  3. The target decrypts and decompresses them and writes them as files of its staging folder, in
//     the same stream.
//  4. CRIU reads them from there into the memory of the new process.
package containerd

import (
	"context"
	"fmt"
	"sync"
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

	"supercargo.dev/supercargo/descheduler/checkpoint/restoreapi"
	"supercargo.dev/supercargo/internal/movable/capability"
)

const (
	// namespace is the containerd namespace of the CRI plugin.
	namespace = "k8s.io"
	// maxMessage bounds an answer of containerd, in bytes: specifications are large.
	maxMessage = 16 << 20
	// callTimeout bounds calls that should be quick.
	callTimeout = 30 * time.Second
)

// Options configure the client and what it allows.
type Options struct {
	// Socket is the path of containerd's socket, without a scheme.
	Socket string
	// Snapshotter is that of the CRI plugin. Its snapshots must be plain folders, as with
	// overlayfs and native.
	Snapshotter string
	// MaxImageBytes is the maximum size of a checkpoint.
	MaxImageBytes int64
	// OpenConnections means that CRIU is configured on all nodes to close TCP connections
	// (tcp-close in /etc/criu/runc.conf). Without it containers with open connections are
	// refused, because their dump would fail.
	OpenConnections bool
	// Proc is the node's /proc, and HostRoot its root folder.
	Proc, HostRoot string
	// StagingDir is the folder for staged checkpoints. The node must have it under the same path.
	StagingDir string
	// Restore is the folder that the agent shares with the container runtime.
	Restore restoreapi.Folder
	// Requires returns the requirements that depend on the node alone.
	Requires func(context.Context) (capability.Requirements, error)
	// Clock is used for waiting.
	Clock clock.Clock
}

// Client is a client of containerd, and the back-end.
type Client struct {
	Options
	connection *grpc.ClientConn
	tasks      tasksapi.TasksClient
	containers containersapi.ContainersClient
	content    contentapi.ContentClient
	diff       diffapi.DiffClient
	leases     leasesapi.LeasesClient
	snapshots  snapshotsapi.SnapshotsClient
	runtime    criapi.RuntimeServiceClient
	images     imagesapi.ImagesClient
	criImages  criapi.ImageServiceClient
	// pinning keeps the changes of the labels of images apart.
	pinning sync.Mutex
}

// New returns a client. It connects on first use, and again after a restart of containerd.
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
		return nil, fmt.Errorf("connect to containerd at %s: %w", o.Socket, err)
	}
	return &Client{
		Options: o, connection: c,
		tasks: tasksapi.NewTasksClient(c), containers: containersapi.NewContainersClient(c), content: contentapi.NewContentClient(c),
		diff: diffapi.NewDiffClient(c), leases: leasesapi.NewLeasesClient(c),
		snapshots: snapshotsapi.NewSnapshotsClient(c), images: imagesapi.NewImagesClient(c),
		runtime: criapi.NewRuntimeServiceClient(c), criImages: criapi.NewImageServiceClient(c),
	}, nil
}

// Close ends the connection.
func (c *Client) Close() error { return c.connection.Close() }

func inNamespace(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "containerd-namespace", namespace)
}

// leased assigns what is created with the context to a lease, which protects it from containerd's
// garbage collection.
func leased(ctx context.Context, lease string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "containerd-lease", lease)
}

// isCode reports whether containerd answered with a code.
func isCode(err error, code codes.Code) bool { return err != nil && status.Code(err) == code }

func notFound(err error) bool { return isCode(err, codes.NotFound) }

// passing reports whether an error is temporary, such as an unreachable containerd.
func passing(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded, codes.Aborted:
		return true
	}
	return false
}

// makeLease creates a lease unless it exists.
func (c *Client) makeLease(ctx context.Context, id, migration string) error {
	_, err := c.leases.Create(ctx, &leasesapi.CreateRequest{ID: id, Labels: map[string]string{labelMigration: migration}})
	if err != nil && !isCode(err, codes.AlreadyExists) {
		return fmt.Errorf("create lease %s: %w", id, err)
	}
	return nil
}

// dropLease removes a lease, and thereby everything that nothing else refers to.
func (c *Client) dropLease(ctx context.Context, id string) error {
	if _, err := c.leases.Delete(ctx, &leasesapi.DeleteRequest{ID: id, Sync: true}); err != nil && !notFound(err) {
		return fmt.Errorf("remove lease %s: %w", id, err)
	}
	return nil
}
