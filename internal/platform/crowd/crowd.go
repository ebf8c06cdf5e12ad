// Package crowd limits the number of connections to a server, in total and per address, before callers are
// authenticated.
package crowd

import (
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// logEvery is the interval at which rejected connections are logged.
const logEvery = time.Minute

// limited is a listener that closes new connections while there are too many.
type limited struct {
	net.Listener
	most, mostOne int
	log           logr.Logger

	mu       sync.Mutex
	open     map[string]int // by address
	all      int
	refused  int       // since the last log line
	loggedAt time.Time // time of the last log line
}

// Limit returns a listener that closes new connections while most are open, or mostOne from the same address. mostOne
// should be less than most, so that one caller cannot lock out the others. It logs rejections once a minute.
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
			_ = connection.Close() // the connection is rejected
			continue
		}
		return &counted{Conn: connection, leave: sync.OnceFunc(func() { c.leave(host) })}, nil
	}
}

// enter counts a connection, or returns an error if there are too many.
func (c *limited) enter(host string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.all >= c.most:
		return fmt.Errorf("there are %d connections, the maximum", c.all)
	case c.open[host] >= c.mostOne:
		return fmt.Errorf("there are %d connections from this address, the maximum", c.open[host])
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

// refuse logs a rejected connection at most once per logEvery, because any caller could otherwise flood the log.
func (c *limited) refuse(host string, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused++
	if time.Since(c.loggedAt) < logEvery {
		return
	}
	c.log.Error(why, "Closed connections: check which clients open them, and block them with a firewall", "at", c.Addr().String(), "from", host, "closed", c.refused)
	c.loggedAt, c.refused = time.Now(), 0
}

// hostOf returns the remote address without its port.
func hostOf(c net.Conn) string {
	host, _, err := net.SplitHostPort(c.RemoteAddr().String())
	if err != nil {
		return c.RemoteAddr().String()
	}
	return host
}

// counted is a connection that is uncounted when it is closed.
type counted struct {
	net.Conn
	leave func()
}

// Close implements [net.Conn].
func (c *counted) Close() error {
	c.leave()
	return c.Conn.Close()
}
