package transport

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/internal/platform/crowd"
)

// ErrNotNow refuses a checkpoint that may be accepted later.
var ErrNotNow = errors.New("the target does not accept this checkpoint now")

// ErrSum is the read error of a checkpoint with a wrong checksum.
var ErrSum = errors.New("the checksum does not match: the checkpoint was altered in transit")

// Session is an expected checkpoint.
type Session struct {
	// Migration is the UID of the Migration, and Node the node that receives it.
	Migration, Node string
	// Self is the identity of this side, and Peer the certificate of the other side, in PEM.
	Self Identity
	Peer string
	// Until is the end of the migration, after which nothing is read; zero for never.
	Until time.Time
	// Refers: the checkpoint refers to memory pages that came early. The receiver sets it.
	Refers bool
}

// Body is a checkpoint that is being received.
type Body interface {
	checkpoint.Verified
	// Abort ends reading with an error, including a blocked read. It may be called at any time.
	Abort()
}

// Receiver receives checkpoints.
type Receiver struct {
	// Clock checks the validity of certificates.
	Clock clock.PassiveClock
	// Session returns the session of a migration and a node; false if there is none.
	Session func(ctx context.Context, migration, node string) (Session, bool)
	// Take stages a checkpoint. It may be called again after an error, and after a success whose
	// answer was lost.
	Take func(context.Context, Session, Body) (Receipt, error)
	// Keep keeps memory pages that come before a checkpoint, in place of earlier ones; nil refuses them. Early returns them;
	// false if their token is another one.
	Keep  func(context.Context, Session, Body) (Kept, error)
	Early func(s Session, token string) (EarlyPages, bool)
	// MaxWireBytes is the maximum compressed size of a body, and MaxBytes the maximum
	// decompressed size: some kilobytes may decompress to gigabytes.
	MaxWireBytes, MaxBytes int64
	// Stalled is how long the receiver waits for [minProgress] bytes before it cancels the
	// transfer.
	Stalled time.Duration
	// Log receives why a peer of an expected checkpoint was refused. It may be the zero value.
	Log logr.Logger
}

// The maximum numbers of connections, in total and from one address. A node sends few checkpoints
// at a time, so a caller that opens more is not an agent.
const (
	maxConnections           = 256
	maxConnectionsOneAddress = 64
)

// headerPatience bounds the handshake and the header of a request: some kilobytes, which a client
// has ready.
const headerPatience = 10 * time.Second

// Serve serves connections until ctx ends, and closes the listener.
func (r *Receiver) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler: http.HandlerFunc(r.put), ReadHeaderTimeout: min(r.Stalled, headerPatience), MaxHeaderBytes: maxAnswer,
		BaseContext: func(net.Listener) context.Context { return ctx },
		// Anyone who finds the port can make handshakes fail. Only those for an expected
		// checkpoint are logged; see config.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP1(true)
	secured := tls.NewListener(crowd.Limit(listener, maxConnections, maxConnectionsOneAddress, r.Log), &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: r.config})
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(secured) }()
	select {
	case err := <-ended:
		return fmt.Errorf("receive checkpoints at %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	err := server.Close()
	if stopped := <-ended; !errors.Is(stopped, http.ErrServerClosed) {
		err = errors.Join(err, stopped)
	}
	if err != nil {
		return fmt.Errorf("stop receiving checkpoints: %w", err)
	}
	return nil
}

// config finds the session of a connection by its server name.
func (r *Receiver) config(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	s, err := r.find(hello.Context(), hello.ServerName)
	if err != nil {
		return nil, err
	}
	c, err := config(s.Self, s.Peer, r.Clock.Now)
	if err != nil {
		return nil, err
	}
	expected, err := newPin(s.Peer, r.Clock.Now)
	if err != nil {
		return nil, err
	}
	// TLS only tells the peer that its certificate is bad, so put checks its validity and reports
	// it.
	c.VerifyConnection = func(state tls.ConnectionState) error {
		err := expected.matches(state)
		if err != nil {
			r.Log.Info("Rejected a peer", "migration", s.Migration, "node", s.Node, "from", hello.Conn.RemoteAddr().String(), "why", err.Error())
		}
		return err
	}
	return c, nil
}

func (r *Receiver) find(ctx context.Context, name string) (Session, error) {
	migration, node, _ := strings.Cut(name, ".")
	s, ok := r.Session(ctx, migration, node)
	if !ok {
		return Session{}, errors.New("no checkpoint is expected under this name")
	}
	return s, nil
}

func (r *Receiver) put(w http.ResponseWriter, request *http.Request) {
	w.Header().Set("Connection", "close")
	s, err := r.find(request.Context(), request.TLS.ServerName)
	switch {
	case err != nil:
		refuse(w, http.StatusForbidden, err)
	case !r.serves(request, s):
		refuse(w, http.StatusNotFound, errors.New("the only path is "+pathPrefix+"UID"))
	default:
		response, err := r.serve(w, request, s)
		if err != nil {
			r.Log.Info("Rejected a checkpoint", "migration", s.Migration, "node", s.Node, "from", request.RemoteAddr, "why", err.Error())
			refuse(w, http.StatusConflict, err)
			return
		}
		answer(w, http.StatusOK, response)
	}
}

// serves reports whether a request is one of those that a source sends.
func (r *Receiver) serves(request *http.Request, s Session) bool {
	switch request.URL.Path {
	case pathPrefix + s.Migration:
		return request.Method == http.MethodPut || request.Method == http.MethodGet
	case pagesPrefix + s.Migration:
		return request.Method == http.MethodPut && r.Keep != nil
	}
	return false
}

// serve answers the peer of a session. A GET succeeds if a checkpoint would be accepted.
func (r *Receiver) serve(w http.ResponseWriter, request *http.Request, s Session) (any, error) {
	expected, err := newPin(s.Peer, r.Clock.Now)
	if err == nil {
		err = expected.matches(*request.TLS)
	}
	if err != nil {
		return Receipt{}, ErrNotNow // the session was reopened for another peer after the handshake
	}
	if err := expected.inTime(*request.TLS); err != nil {
		return Receipt{}, err
	}
	if request.Method == http.MethodGet {
		return Receipt{}, nil
	}
	if request.URL.Path == pagesPrefix+s.Migration {
		return receive(r, w, request, s, EarlyPages{}, r.Keep)
	}
	var early EarlyPages
	if token := request.Header.Get(tokenHeader); token != "" {
		if r.Early == nil {
			return nil, ErrNoPages
		}
		if early, s.Refers = r.Early(s, token); !s.Refers {
			return nil, ErrNoPages
		}
	}
	return receive(r, w, request, s, early, r.Take)
}

// receive has take take a body.
func receive[T any](r *Receiver, w http.ResponseWriter, request *http.Request, s Session, early EarlyPages, take func(context.Context, Session, Body) (T, error)) (T, error) {
	var none T
	wire := &patient{ReadCloser: request.Body, connection: http.NewResponseController(w), stalled: r.Stalled, until: s.Until}
	limited := http.MaxBytesReader(w, wire, r.MaxWireBytes)
	unpacked, err := newUnpacker(limited, early)
	if err != nil {
		return none, err
	}
	defer unpacked.Close()
	body := &verified{r: unpacked, wire: wire, sum: xxhash.New(), left: r.MaxBytes, want: func() string { return request.Trailer.Get(sumTrailer) }}
	response, err := take(request.Context(), s, body)
	var wireLarge *http.MaxBytesError
	switch {
	case errors.As(err, &wireLarge):
		err = checkpoint.Fail(v1alpha1.MigrationReasonTooLarge, "the compressed checkpoint is larger than the maximum of %d bytes", wireLarge.Limit)
	case errors.Is(err, errTooLarge):
		err = checkpoint.Fail(v1alpha1.MigrationReasonTooLarge, "the checkpoint is larger than the maximum of %d bytes", r.MaxBytes)
	}
	return response, err
}

// errTooLarge ends reading a body that is too large.
var errTooLarge = errors.New("the checkpoint is too large")

// minProgress is how many decompressed bytes must arrive before the wait for them reaches
// Stalled; then the wait starts again from zero. At a lower rate, the smallest checkpoint would
// take hours.
const minProgress = 64 << 10

// patient ends a transfer that makes hardly any progress, whatever its size. Only the time that
// it waits for the other side counts, since this side may be slow.
type patient struct {
	io.ReadCloser
	connection *http.ResponseController
	stalled    time.Duration
	until      time.Time // zero for no limit

	progress int           // bytes since waited was reset
	waited   time.Duration // time spent waiting for them

	mu      sync.Mutex // guards the deadline
	aborted bool
}

// errAborted ends reading after abort.
var errAborted = errors.New("the transfer was aborted")

// Read reads from the body with a deadline.
func (p *patient) Read(b []byte) (int, error) {
	if err := p.wait(); err != nil {
		return 0, err
	}
	// Socket deadlines use the machine's clock.
	began := time.Now()
	n, err := p.ReadCloser.Read(b)
	p.waited += time.Since(began)
	if errors.Is(err, os.ErrDeadlineExceeded) && !p.isAborted() {
		err = p.tooSlow()
	}
	return n, err
}

// tooSlow returns an error that says which deadline has passed.
func (p *patient) tooSlow() error {
	if !p.until.IsZero() && !time.Now().Before(p.until) {
		return fmt.Errorf("the transfer did not end by %s, the end of the migration", p.until.UTC().Format(time.RFC3339))
	}
	return fmt.Errorf("the transfer is stalled: %d bytes arrived in %s, and at least %d are required", p.progress, p.stalled, minProgress)
}

// progresses counts received bytes.
func (p *patient) progresses(n int) {
	if p.progress += n; p.progress >= minProgress {
		p.progress, p.waited = 0, 0
	}
}

// wait sets the deadline of the next read.
func (p *patient) wait() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.aborted {
		return errAborted
	}
	deadline := time.Now().Add(p.stalled - p.waited)
	if !p.until.IsZero() && p.until.Before(deadline) {
		deadline = p.until
	}
	return p.connection.SetReadDeadline(deadline)
}

func (p *patient) isAborted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.aborted
}

// abort ends a blocked read, and prevents further reads.
func (p *patient) abort() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.aborted = true
	_ = p.connection.SetReadDeadline(time.Unix(1, 0)) // a closed connection has no blocked read
}

// verified returns io.EOF only if the checksum is right.
type verified struct {
	r    io.Reader
	wire *patient
	sum  *xxhash.Digest
	left int64         // bytes that may still come
	want func() string // the trailer is available after the body
}

func (v *verified) Read(p []byte) (int, error) {
	n, err := v.r.Read(p)
	v.wire.progresses(n)
	if v.left -= int64(n); v.left < 0 {
		return 0, errTooLarge
	}
	_, _ = v.sum.Write(p[:n]) // a hash takes everything
	if err == io.EOF && v.Sum() != v.want() {
		err = ErrSum
	}
	return n, err
}

// Abort ends reading, including a blocked read.
func (v *verified) Abort() { v.wire.abort() }

// Sum returns the checksum, after everything was read.
func (v *verified) Sum() string { return sumOf(v.sum) }

// refuse responds with an error.
func refuse(w http.ResponseWriter, code int, err error) {
	no := refusal{Message: err.Error(), NoPages: errors.Is(err, ErrNoPages)}
	if failure := checkpoint.AsFailure(err); failure != nil {
		code, no = http.StatusUnprocessableEntity, refusal{Reason: failure.Reason, Message: failure.Message, Final: true}
	}
	answer(w, code, no)
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // the other side may have gone
}
