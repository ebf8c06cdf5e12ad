// Package workqueuetest provides a Work Queue manager for tests, as httptest provides web servers: it listens on a
// local port and gives the answers that a test sets, optionally with a password and TLS.
package workqueuetest

import (
	"bufio"
	"crypto/sha1" //nolint:gosec // what cctools uses
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"strings"
	"sync"
	"testing"
)

// Hang is an answer that never comes.
const Hang = "hang"

// Manager answers queries with the answers that a test has set. All methods are safe for concurrent use.
type Manager struct {
	// Address is host:port.
	Address string

	password string
	listener net.Listener

	mu      sync.Mutex
	answers map[string]string
	lost    int
}

// Start starts a manager that stops when the test ends. It requires the password unless that is empty, and TLS unless
// config is nil.
func Start(t testing.TB, answers map[string]string, password string, config *tls.Config) *Manager {
	t.Helper()
	m, err := New(answers, password, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// New is [Start] for a manager shared by several tests. Close stops it.
func New(answers map[string]string, password string, config *tls.Config) (*Manager, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	if config != nil {
		listener = tls.NewListener(listener, config)
	}
	m := &Manager{Address: listener.Addr().String(), password: password, listener: listener, answers: maps.Clone(answers)}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go m.serve(conn)
		}
	}()
	return m, nil
}

// Close stops the manager.
func (m *Manager) Close() { _ = m.listener.Close() }

// Put changes the answers to the given queries.
func (m *Manager) Put(answers map[string]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.answers == nil {
		m.answers = map[string]string{}
	}
	maps.Copy(m.answers, answers)
}

// Answers returns a copy of all answers.
func (m *Manager) Answers() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.answers)
}

// Lost returns the number of connections that sent a query without an answer. A real manager treats them as workers,
// and counts them as lost.
func (m *Manager) Lost() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lost
}

func (m *Manager) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	lines := bufio.NewReader(conn)
	if m.password != "" && !m.admits(conn, lines) {
		return
	}
	line, err := lines.ReadString('\n')
	if err != nil {
		return
	}
	switch answer, known := m.answer(strings.TrimSuffix(line, "\n")); {
	case !known:
	case answer == Hang:
		_, _ = io.Copy(io.Discard, conn) // until the client gives up
	default:
		_, _ = io.WriteString(conn, answer)
	}
}

// answer returns the answer to a query.
func (m *Manager) answer(query string) (answer string, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if answer, known = m.answers[query]; !known {
		m.lost++
	}
	return answer, known
}

// admits is the manager's side of the authentication, written out from the protocol.
func (m *Manager) admits(conn net.Conn, lines *bufio.Reader) bool {
	fmt.Fprint(conn, "auth password sha1\n")
	if line, _ := lines.ReadString('\n'); line != "auth password sha1\n" {
		return false
	}
	fmt.Fprint(conn, "word-of-the-manager\n")
	theirs, _ := lines.ReadString('\n')
	fmt.Fprintf(conn, "%x\n", sha1.Sum([]byte(m.password+" "+strings.TrimSuffix(theirs, "\n")))) //nolint:gosec // what cctools uses
	proof, _ := lines.ReadString('\n')
	right := proof == fmt.Sprintf("%x\n", sha1.Sum([]byte(m.password+" word-of-the-manager"))) //nolint:gosec // what cctools uses
	if right {
		fmt.Fprint(conn, "ok\n")
	} else {
		fmt.Fprint(conn, "failure\n")
	}
	verdict, _ := lines.ReadString('\n')
	return right && verdict == "ok\n"
}
