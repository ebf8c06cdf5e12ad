// Package workqueuetest has a Work Queue manager for tests, as httptest has web servers: it
// answers on a port of this machine what a test tells it to, with a password and TLS if need be.
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

// Manager answers the queries that a test has put answers for. All methods may be called at
// once.
type Manager struct {
	// Address is host:port.
	Address string

	password string
	listener net.Listener

	mu      sync.Mutex
	answers map[string]string
	lost    int
}

// Start starts one that ends with the test. It wants the password unless that is empty, and
// TLS unless config is nil.
func Start(t testing.TB, answers map[string]string, password string, config *tls.Config) *Manager {
	t.Helper()
	m, err := New(answers, password, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// New is [Start] for tests that share one. Close ends it.
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

// Close ends it: nobody is answered any more.
func (m *Manager) Close() { _ = m.listener.Close() }

// Put changes answers; queries that are not named keep theirs.
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

// Lost is how many connections sent a query that has no answer. A real manager takes them for
// workers, which it then loses.
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

// answer returns that of a query.
func (m *Manager) answer(query string) (answer string, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if answer, known = m.answers[query]; !known {
		m.lost++
	}
	return answer, known
}

// admits is the manager's side of the proof, written out from the protocol.
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
