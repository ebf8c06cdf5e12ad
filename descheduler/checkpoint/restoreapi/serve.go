package restoreapi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync"
	"time"
)

const (
	// askingTime bounds how long a runtime may take to send its request.
	askingTime = 5 * time.Second
	// maxAsking bounds the runtimes that ask at the same time. Others wait in the socket's queue.
	maxAsking = 64
)

// Serve answers runtimes until ctx ends. answer may block; its context ends when Serve ends, or when the runtime gives up.
// An error of answer closes the connection without an answer, so the runtime asks again.
func (f Folder) Serve(ctx context.Context, answer func(context.Context, Request) (Answer, error), failed func(error)) error {
	listener, err := f.listen(ctx)
	if err != nil {
		return err
	}
	return serveAt(ctx, listener, answer, failed)
}

func serveAt(ctx context.Context, listener *net.UnixListener, answer func(context.Context, Request) (Answer, error), failed func(error)) error {
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
	var asking sync.WaitGroup
	defer asking.Wait()
	free := make(chan struct{}, maxAsking)
	for {
		connection, err := listener.AcceptUnix()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("accept a request for a checkpoint: %w", err)
		}
		free <- struct{}{}
		asking.Go(func() {
			defer func() { <-free }()
			if err := serveOne(ctx, connection, answer); err != nil && ctx.Err() == nil {
				failed(err)
			}
		})
	}
}

// listen makes the socket. One that is left of an agent that was killed is replaced.
func (f Folder) listen(ctx context.Context) (*net.UnixListener, error) {
	if err := f.Make(); err != nil {
		return nil, err
	}
	if err := os.Remove(f.socket()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, f.wrap("listen for the container runtime", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", f.socket())
	if err != nil {
		return nil, f.wrap("listen for the container runtime", err)
	}
	if err := os.Chmod(f.socket(), 0o600); err != nil {
		return nil, errors.Join(f.wrap("listen for the container runtime", err), listener.Close())
	}
	return listener.(*net.UnixListener), nil
}

func serveOne(ctx context.Context, connection *net.UnixConn, answer func(context.Context, Request) (Answer, error)) error {
	defer func() { _ = connection.Close() }() // the answer is complete, or its error is known
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = connection.Close() })()
	if err := sameUser(connection); err != nil {
		return err
	}
	var r Request
	if err := connection.SetReadDeadline(time.Now().Add(askingTime)); err != nil {
		return err
	}
	if err := read(connection, &r); err != nil {
		return fmt.Errorf("read a request for a checkpoint: %w", err)
	}
	if r.Version != Version {
		return write(connection, Answer{Refused: fmt.Sprintf("the agent speaks version %d and the runtime version %d: update the runtime on the node", Version, r.Version)})
	}
	if err := connection.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	go func() { // a runtime sends nothing more, so this ends when it gives up or serveOne ends
		_, _ = connection.Read(make([]byte, 1))
		cancel()
	}()
	a, err := answer(ctx, r)
	if err != nil {
		return fmt.Errorf("answer the request for the checkpoint of pod %s: %w", r.Pod, err)
	}
	return write(connection, a)
}
