package proxy

import (
	"net"
	"sync"
	"sync/atomic"
)

// listener takes connections that can be held up and cut.
type listener struct {
	net.Listener
	hits atomic.Int64

	mu              sync.Mutex
	refuse, swallow bool
	connections     map[*connection]bool
}

func newListener(inner net.Listener) *listener {
	return &listener{Listener: inner, connections: map[*connection]bool{}}
}

// set says what becomes of connections from now on.
func (l *listener) set(refuse, swallow bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuse, l.swallow = refuse, swallow
}

// state returns what becomes of connections.
func (l *listener) state() (refuse, swallow bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refuse, l.swallow
}

// cut ends all connections. What they had taken in and not passed on is lost.
func (l *listener) cut() {
	l.mu.Lock()
	all := l.connections
	l.connections = map[*connection]bool{}
	l.mu.Unlock()
	for c := range all {
		l.hits.Add(1)
		c.end()
	}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		inner, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if refuse, _ := l.state(); refuse {
			l.hits.Add(1)
			if tcp, is := inner.(*net.TCPConn); is {
				_ = tcp.SetLinger(0) // a reset, as a port where nobody listens answers
			}
			_ = inner.Close()
			continue
		}
		c := &connection{Conn: inner, listener: l, ended: make(chan struct{})}
		l.mu.Lock()
		l.connections[c] = true
		l.mu.Unlock()
		return c, nil
	}
}

// connection is held up while the listener swallows.
type connection struct {
	net.Conn
	listener *listener
	once     sync.Once
	ended    chan struct{}
}

// end cuts it.
func (c *connection) end() {
	c.once.Do(func() {
		close(c.ended)
		if tcp, is := c.Conn.(*net.TCPConn); is {
			_ = tcp.SetLinger(0)
		}
		_ = c.Conn.Close()
	})
}

// Read implements net.Conn. What arrives while the listener swallows is never read.
func (c *connection) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if _, swallow := c.listener.state(); swallow && n > 0 {
		c.listener.hits.Add(1)
		<-c.ended
		return 0, errCut
	}
	return n, err
}

// Write implements net.Conn. What is written while the listener swallows is never sent, and
// the writer does not get to know.
func (c *connection) Write(b []byte) (int, error) {
	if _, swallow := c.listener.state(); swallow {
		c.listener.hits.Add(1)
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.listener.mu.Lock()
	delete(c.listener.connections, c)
	c.listener.mu.Unlock()
	var err error
	c.once.Do(func() {
		close(c.ended)
		err = c.Conn.Close()
	})
	return err
}
