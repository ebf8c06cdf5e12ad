package proxy

import (
	"net"
	"sync"
	"sync/atomic"
)

// listener accepts connections whose traffic it can discard, and which it can close.
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

// set sets whether new connections are refused and whether traffic is discarded.
func (l *listener) set(refuse, swallow bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuse, l.swallow = refuse, swallow
}

// state returns what set has set.
func (l *listener) state() (refuse, swallow bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refuse, l.swallow
}

// cut closes all connections. Data that they received and did not forward are lost.
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
				_ = tcp.SetLinger(0) // sends a reset, as a closed port does
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

// connection is a connection whose traffic is discarded while the listener swallows.
type connection struct {
	net.Conn
	listener *listener
	once     sync.Once
	ended    chan struct{}
}

// end closes the connection with a reset.
func (c *connection) end() {
	c.once.Do(func() {
		close(c.ended)
		if tcp, is := c.Conn.(*net.TCPConn); is {
			_ = tcp.SetLinger(0)
		}
		_ = c.Conn.Close()
	})
}

// Read implements net.Conn. Data that arrive while the listener swallows are never returned: Read blocks
// until the connection is closed.
func (c *connection) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if _, swallow := c.listener.state(); swallow && n > 0 {
		c.listener.hits.Add(1)
		<-c.ended
		return 0, errCut
	}
	return n, err
}

// Write implements net.Conn. Data that are written while the listener swallows are discarded without
// an error.
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
