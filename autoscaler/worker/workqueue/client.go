package workqueue

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"supercargo.dev/supercargo/autoscaler/worker/workqueue/answer"
)

// Client queries one manager. Its methods are safe for concurrent use.
type Client struct {
	// Address is host:port.
	Address string
	// Password is the password of the manager, if it has one: the bytes of the file from which cctools reads it,
	// including any line ending.
	Password string
	// TLS is set for managers that require it.
	TLS *tls.Config
	// Timeout bounds one query as a whole; 0 means [DefaultTimeout].
	Timeout time.Duration
	// MaxBytes bounds an answer; 0 means [DefaultMaxBytes].
	MaxBytes int64
	// Dial opens connections; nil means that of package net.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

const (
	// DefaultTimeout allows for a busy manager, which serves one connection at a time.
	DefaultTimeout = 15 * time.Second
	// DefaultMaxBytes is enough for about 100,000 tasks.
	DefaultMaxBytes = 64 << 20
)

// ErrTooLarge is the error of an answer that exceeds the limit.
var ErrTooLarge = errors.New("answer exceeds the maximum size")

// query is a query of a manager.
type query string

const (
	queueStatus    query = "queue_status\n"
	taskStatus     query = "task_status\n"
	workerStatus   query = "worker_status\n"
	categoryStatus query = "wable_status\n"
)

var _ Manager = (*Client)(nil)

// Queue sends queue_status.
func (c *Client) Queue(ctx context.Context) (Queue, error) {
	list, err := ask[Queue](ctx, c, queueStatus)
	switch {
	case err != nil:
		return Queue{}, err
	case len(list) != 1:
		return Queue{}, fmt.Errorf("query %s for its queue: answer has %d entries, expected 1", c.Address, len(list))
	}
	return list[0], nil
}

// Tasks sends task_status.
func (c *Client) Tasks(ctx context.Context) ([]Task, error) { return ask[Task](ctx, c, taskStatus) }

// Workers sends worker_status. It omits connections that are not yet known to be workers, such as its own.
func (c *Client) Workers(ctx context.Context) ([]Worker, error) {
	return ask[Worker](ctx, c, workerStatus)
}

// Categories sends wable_status. It omits the sum of all categories.
func (c *Client) Categories(ctx context.Context) ([]Category, error) {
	list, err := ask[Category](ctx, c, categoryStatus)
	return answer.WithoutWhole(list), err
}

func ask[T answer.Entry](ctx context.Context, c *Client, q query) ([]T, error) {
	data, err := c.send(ctx, q)
	if err == nil {
		var list []T
		if list, err = answer.Read[T](data); err == nil {
			return list, nil
		}
	}
	return nil, fmt.Errorf("query %s for %s: %w", c.Address, q[:len(q)-1], err)
}

// send opens a connection, sends a query, and returns the whole answer.
func (c *Client) send(ctx context.Context, q query) ([]byte, error) {
	timeout := c.Timeout
	if timeout == 0 {
		timeout = DefaultTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer closed(conn)
	// Only this ends a query on timeout or cancellation. A deadline of the connection could expire first, and its error
	// would name no reason.
	stop := context.AfterFunc(ctx, func() { closed(conn) })
	defer stop()
	data, err := c.exchange(conn, q)
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("incomplete answer: %w", ctx.Err())
	}
	return data, err
}

func (c *Client) connect(ctx context.Context) (net.Conn, error) {
	dial := c.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	conn, err := dial(ctx, "tcp", c.Address)
	if err != nil || c.TLS == nil {
		return conn, err
	}
	config := c.TLS.Clone()
	if host, _, err := net.SplitHostPort(c.Address); err == nil && config.ServerName == "" {
		config.ServerName = host
	}
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		closed(conn)
		return nil, fmt.Errorf("TLS: %w", err)
	}
	return secure, nil
}

// closed closes a connection and ignores the error, because all data has been read.
func closed(conn io.Closer) { _ = conn.Close() }

// exchange authenticates, if there is a password, and sends the query.
func (c *Client) exchange(conn net.Conn, q query) ([]byte, error) {
	if c.Password != "" {
		if err := authenticate(conn, c.Password); err != nil {
			return nil, fmt.Errorf("password: %w", err)
		}
	}
	if _, err := io.WriteString(conn, string(q)); err != nil {
		return nil, fmt.Errorf("send: %w", err)
	}
	most := c.MaxBytes
	if most == 0 {
		most = DefaultMaxBytes
	}
	data, err := io.ReadAll(io.LimitReader(conn, most+1))
	switch {
	case int64(len(data)) > most:
		return nil, fmt.Errorf("%w (%d bytes)", ErrTooLarge, most)
	case err != nil && len(data) == 0:
		return nil, fmt.Errorf("read: %w", err)
	case err != nil:
		return nil, fmt.Errorf("read after %d bytes: %w", len(data), err)
	}
	return data, nil
}
