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
	"github.com/klauspost/compress/zstd"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/internal/platform/crowd"
)

// ErrNotNow is an answer to a checkpoint that may be wanted later.
var ErrNotNow = errors.New("the target does not take this checkpoint now")

// ErrSum is what reading a checkpoint ends with whose checksum is wrong.
var ErrSum = errors.New("the checksum is wrong: what was sent was altered on its way")

// Session is a checkpoint that is expected.
type Session struct {
	// Migration is the UID of the Migration, and Node the node that takes it.
	Migration, Node string
	// Self is who this side is, and Peer the certificate of the other, in PEM.
	Self Identity
	Peer string
	// Until is when the migration is over: nothing is read after that. Zero is never.
	Until time.Time
}

// Body is a checkpoint that comes in.
type Body interface {
	checkpoint.Verified
	// Abort ends reading with an error, also a read that waits for the other side. It may
	// be called at any time.
	Abort()
}

// Receiver takes checkpoints.
type Receiver struct {
	// Clock is to see whether certificates are good.
	Clock clock.PassiveClock
	// Session finds the session of a migration and a node. It returns false if none is
	// open.
	Session func(ctx context.Context, migration, node string) (Session, bool)
	// Take stages what is sent. It may be called again after an error, and after a
	// success whose answer was lost.
	Take func(context.Context, Session, Body) (Receipt, error)
	// MaxWireBytes is how much a body may have, compressed, and MaxBytes how much
	// decompressed: some kilobytes become gigabytes.
	MaxWireBytes, MaxBytes int64
	// Stalled is after how long without progress the transfer is cancelled: after waiting
	// for so long for [minProgress] bytes.
	Stalled time.Duration
	// Log takes why a peer of a checkpoint that is expected was turned away. It may be the
	// zero value.
	Log logr.Logger
}

// How many connections there may be, of all callers and of one address: a node sends a few
// checkpoints at a time, and whoever opens more is no agent.
const (
	maxConnections           = 256
	maxConnectionsOneAddress = 64
)

// headerPatience is how long the handshake may take at most, and the header of a request:
// some kilobytes, which a program has ready.
const headerPatience = 10 * time.Second

// Serve takes connections until ctx ends, and closes the listener.
func (r *Receiver) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler: http.HandlerFunc(r.put), ReadHeaderTimeout: min(r.Stalled, headerPatience), MaxHeaderBytes: maxAnswer,
		BaseContext: func(net.Listener) context.Context { return ctx },
		// Whoever finds the port can make handshakes fail: that is no news, unless they name
		// a checkpoint that is expected; see config.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP1(true)
	secured := tls.NewListener(crowd.Limit(listener, maxConnections, maxConnectionsOneAddress, r.Log), &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: r.config})
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(secured) }()
	select {
	case err := <-ended:
		return fmt.Errorf("take checkpoints at %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	err := server.Close()
	if stopped := <-ended; !errors.Is(stopped, http.ErrServerClosed) {
		err = errors.Join(err, stopped)
	}
	if err != nil {
		return fmt.Errorf("stop taking checkpoints: %w", err)
	}
	return nil
}

// config finds out for which session a connection is, by the name that it asks for.
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
	// TLS tells the peer nothing but that its certificate is bad, so whether that is in
	// time is told by put.
	c.VerifyConnection = func(state tls.ConnectionState) error {
		err := expected.matches(state)
		if err != nil {
			r.Log.Info("A peer is turned away", "migration", s.Migration, "node", s.Node, "from", hello.Conn.RemoteAddr().String(), "why", err.Error())
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
	case request.URL.Path != pathPrefix+s.Migration || request.Method != http.MethodPut && request.Method != http.MethodGet:
		refuse(w, http.StatusNotFound, errors.New("there is nothing here but "+pathPrefix+"UID"))
	default:
		receipt, err := r.serve(w, request, s)
		if err != nil {
			r.Log.Info("A checkpoint is not taken", "migration", s.Migration, "node", s.Node, "from", request.RemoteAddr, "why", err.Error())
			refuse(w, http.StatusConflict, err)
			return
		}
		answer(w, http.StatusOK, receipt)
	}
}

// serve answers the peer of a session. To GET the answer is that a checkpoint would be
// taken.
func (r *Receiver) serve(w http.ResponseWriter, request *http.Request, s Session) (Receipt, error) {
	expected, err := newPin(s.Peer, r.Clock.Now)
	if err == nil {
		err = expected.matches(*request.TLS)
	}
	if err != nil {
		return Receipt{}, ErrNotNow // the session was opened anew for another peer after the handshake
	}
	if err := expected.inTime(*request.TLS); err != nil {
		return Receipt{}, err
	}
	if request.Method == http.MethodGet {
		return Receipt{}, nil
	}
	return r.take(w, request, s)
}

func (r *Receiver) take(w http.ResponseWriter, request *http.Request, s Session) (Receipt, error) {
	wire := &patient{ReadCloser: request.Body, connection: http.NewResponseController(w), stalled: r.Stalled, until: s.Until}
	limited := http.MaxBytesReader(w, wire, r.MaxWireBytes)
	decompressed, err := zstd.NewReader(limited, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(windowBytes))
	if err != nil {
		return Receipt{}, fmt.Errorf("set up the decompression: %w", err)
	}
	defer decompressed.Close()
	body := &verified{r: decompressed, wire: wire, sum: xxhash.New(), left: r.MaxBytes, want: func() string { return request.Trailer.Get(sumTrailer) }}
	receipt, err := r.Take(request.Context(), s, body)
	var wireLarge *http.MaxBytesError
	switch {
	case errors.As(err, &wireLarge):
		err = checkpoint.Fail(checkpoint.ReasonTooLarge, "the checkpoint has more than the %d bytes that are taken here, compressed", wireLarge.Limit)
	case errors.Is(err, errTooLarge):
		err = checkpoint.Fail(checkpoint.ReasonTooLarge, "the checkpoint has more than the %d bytes that are taken here", r.MaxBytes)
	}
	return receipt, err
}

// errTooLarge ends reading.
var errTooLarge = errors.New("there is more than may be taken")

// minProgress is how many bytes, decompressed, must come of a checkpoint before it has been
// waited for as long as a transfer may stand still; then the wait begins anew. A node that is
// slower than that by itself would need hours for the smallest checkpoint.
const minProgress = 64 << 10

// patient ends a transfer that stands still, or nearly so, however long the checkpoint is.
// What counts is for how long it was waited for the other side: this one may be slow.
type patient struct {
	io.ReadCloser
	connection *http.ResponseController
	stalled    time.Duration
	until      time.Time // zero: for as long as there is progress

	progress int           // bytes since the wait began anew
	waited   time.Duration // for them

	mu      sync.Mutex // of the deadline
	aborted bool
}

// errAborted ends reading.
var errAborted = errors.New("the checkpoint is not wanted any more")

// Read reads some of what the other side sends.
func (p *patient) Read(b []byte) (int, error) {
	if err := p.wait(); err != nil {
		return 0, err
	}
	// Sockets have deadlines by the machine's clock only.
	began := time.Now()
	n, err := p.ReadCloser.Read(b)
	p.waited += time.Since(began)
	if errors.Is(err, os.ErrDeadlineExceeded) && !p.isAborted() {
		err = p.tooSlow()
	}
	return n, err
}

// tooSlow says which deadline is over.
func (p *patient) tooSlow() error {
	if !p.until.IsZero() && !time.Now().Before(p.until) {
		return fmt.Errorf("the transfer has not ended by %s, when the migration is over", p.until.UTC().Format(time.RFC3339))
	}
	return fmt.Errorf("the transfer hangs: %d bytes have come in %s, and at least %d must", p.progress, p.stalled, minProgress)
}

// progresses notes that bytes have come of the checkpoint.
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

// abort lets the deadline of a read that waits pass, and starts no other.
func (p *patient) abort() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.aborted = true
	_ = p.connection.SetReadDeadline(time.Unix(1, 0)) // a connection that has gone has no read that waits
}

// verified ends with io.EOF only if the checksum is right.
type verified struct {
	r    io.Reader
	wire *patient
	sum  *xxhash.Digest
	left int64         // bytes that may yet come
	want func() string // the trailer is there once the body has ended
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

// Abort ends reading, also a read that waits.
func (v *verified) Abort() { v.wire.abort() }

// Sum is the checksum, once all has been read.
func (v *verified) Sum() string { return sumOf(v.sum) }

// refuse answers with an error.
func refuse(w http.ResponseWriter, code int, err error) {
	no := refusal{Message: err.Error()}
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
