// Package crowd bounds how many connections a server has, of all callers and of one address,
// before it knows who they are from.
package crowd

import (
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// sayEvery is how often it is said that connections are closed since there are too many.
const sayEvery = time.Minute

// limited is a listener that closes connections at once while there are too many.
type limited struct {
	net.Listener
	most, mostOne int
	log           logr.Logger

	mu      sync.Mutex
	open    map[string]int // by address
	all     int
	refused int       // since it was said
	said    time.Time // by the machine's clock
}

// Limit returns a listener that closes connections at once while most are open, or mostOne
// from the same address: let that be less, so that one caller cannot keep the others out. It
// says so once a minute.
func Limit(l net.Listener, most, mostOne int, log logr.Logger) net.Listener {
	return &limited{Listener: l, most: most, mostOne: mostOne, log: log, open: map[string]int{}}
}

// Accept implements [net.Listener].
func (c *limited) Accept() (net.Conn, error) {
	for {
		connection, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		host := hostOf(connection)
		if err := c.enter(host); err != nil {
			c.refuse(host, err)
			_ = connection.Close() // of somebody who is turned away
			continue
		}
		return &counted{Conn: connection, leave: sync.OnceFunc(func() { c.leave(host) })}, nil
	}
}

// enter counts a connection, unless there are too many.
func (c *limited) enter(host string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.all >= c.most:
		return fmt.Errorf("there are %d connections, and that is the most", c.all)
	case c.open[host] >= c.mostOne:
		return fmt.Errorf("there are %d connections from this address, and that is the most", c.open[host])
	}
	c.all++
	c.open[host]++
	return nil
}

func (c *limited) leave(host string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all--
	if c.open[host]--; c.open[host] == 0 {
		delete(c.open, host)
	}
}

// refuse says why a connection is closed, once in a while: whoever finds the port could
// fill the log.
func (c *limited) refuse(host string, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused++
	if time.Since(c.said) < sayEvery {
		return
	}
	c.log.Error(why, "Connections are closed: look who opens them, and have a firewall keep them out", "at", c.Addr().String(), "from", host, "closed", c.refused)
	c.said, c.refused = time.Now(), 0
}

// hostOf is the address of the other side, without its port.
func hostOf(c net.Conn) string {
	host, _, err := net.SplitHostPort(c.RemoteAddr().String())
	if err != nil {
		return c.RemoteAddr().String()
	}
	return host
}

// counted is a connection that leaves the crowd when it is closed.
type counted struct {
	net.Conn
	leave func()
}

// Close implements [net.Conn].
func (c *counted) Close() error {
	c.leave()
	return c.Conn.Close()
}
