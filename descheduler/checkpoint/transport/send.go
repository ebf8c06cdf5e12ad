package transport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/internal/text/plural"
)

const (
	// sumTrailer is the trailer with the checksum of the uncompressed body.
	sumTrailer = "Checkpoint-Sum"
	// pathPrefix comes before the UID of the Migration. Its version is that of the format of the body.
	pathPrefix = "/v2/checkpoints/"
	// pagesPrefix is pathPrefix for memory pages that are sent before the freeze.
	pagesPrefix = "/v2/pages/"
	// tokenHeader has the token of the early pages that a checkpoint refers to.
	tokenHeader = "Checkpoint-Pages"
	// maxAnswer bounds a response, in bytes.
	maxAnswer = 4 << 10
	// pipeBytes is the size of the send buffer.
	pipeBytes = 128 << 10
)

// Receipt is the target's response once it has the checkpoint.
type Receipt struct {
	// Sum is the checksum of the received data.
	Sum string `json:"sum"`
	// Digest is the digest of the staged image, and Bytes its size.
	Digest string `json:"digest"`
	Bytes  int64  `json:"bytes"`
}

// refusal is any other response.
type refusal struct {
	// Reason and Message are those of a [checkpoint.Failure].
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message"`
	// Final means that a retry does not help.
	Final bool `json:"final,omitempty"`
	// NoPages is that of [ErrNoPages].
	NoPages bool `json:"noPages,omitempty"`
}

// Peer is the receiver of a checkpoint.
type Peer struct {
	// Address is its host:port.
	Address string
	// Certificate is the one in its report, in PEM.
	Certificate string
	// Migration is the UID of the Migration, and Node the peer's node.
	Migration, Node string
}

// session returns the server name by which the peer finds the session.
func session(migration, node string) string { return migration + "." + node }

// Sender sends checkpoints.
type Sender struct {
	// Clock is used for pauses and timeouts, and to check the validity of certificates.
	Clock clock.Clock
	// Tries is the maximum number of tries, and Pause the time between the first two. Each
	// further pause is three times as long.
	Tries int
	Pause time.Duration
	// Stalled is how long a try may make no progress before it is cancelled.
	Stalled time.Duration
	// BeforeEnd is called in each try before the last bytes of the checkpoint are sent: before
	// that, the target cannot have accepted it. An error ends the try. It may be nil. It is not
	// called after Send has returned.
	BeforeEnd func() error
	// Early are the pages that the target already has; nil for none.
	Early *Early
}

// Sent describes a successful transfer.
type Sent struct {
	Receipt
	// WireBytes is the compressed size, of the last try.
	WireBytes int64
	// Tries is the number of tries.
	Tries int
}

// Reach checks whether the target would accept a checkpoint from this side: whether it listens,
// both certificates are the expected ones, and both clocks are accurate enough for them. It sends
// nothing and does not retry. A permanent error is a [*checkpoint.Failure].
func (s Sender) Reach(ctx context.Context, self Identity, to Peer) error {
	wire, err := s.wire(self, to)
	if err != nil {
		return checkpoint.Fail(v1alpha1.MigrationReasonTransferFailed, "reach the agent of %s: %v", to.Node, err)
	}
	defer wire.CloseIdleConnections()
	ctx, stop := context.WithTimeoutCause(ctx, s.Stalled, errStalled)
	defer stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+to.Address+pathPrefix+to.Migration, nil)
	if err != nil {
		return fmt.Errorf("reach the agent of %s: %w", to.Node, err)
	}
	response, err := wire.RoundTrip(request)
	if err == nil {
		defer response.Body.Close()
		if err = read(response, new(Receipt)); response.StatusCode == http.StatusNotFound {
			err = errors.New("it has another version of the node agent: wait until all nodes have the same")
		}
	} else if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if err == nil || checkpoint.AsFailure(err) != nil {
		return err
	}
	return fmt.Errorf("reach the agent of %s at %s: %w", to.Node, to.Address, err)
}

// wire returns a transport that only accepts the peer of a migration.
func (s Sender) wire(self Identity, to Peer) (*http.Transport, error) {
	tls, err := config(self, to.Certificate, s.Clock.Now)
	if err != nil {
		return nil, err
	}
	tls.ServerName = session(to.Migration, to.Node)
	return &http.Transport{
		TLSClientConfig: tls, DisableCompression: true, DisableKeepAlives: true, WriteBufferSize: pipeBytes,
		DialContext: (&net.Dialer{Timeout: s.Stalled}).DialContext, TLSHandshakeTimeout: s.Stalled,
	}, nil
}

// Send sends what write writes, and returns once the target has staged it. It calls write again
// for each try. If the target does not receive it, the error is a [*checkpoint.Failure], unless
// ctx has ended.
func (s Sender) Send(ctx context.Context, self Identity, to Peer, write func(io.Writer) error) (Sent, error) {
	wire, err := s.wire(self, to)
	if err != nil {
		return Sent{}, checkpoint.Fail(v1alpha1.MigrationReasonTransferFailed, "ship the checkpoint to %s: %v", to.Node, err)
	}
	defer wire.CloseIdleConnections()
	var sent Sent
	for pause := s.Pause; ; pause *= 3 {
		sent.Tries++
		sent.WireBytes, err = s.try(ctx, wire, to, attempt{path: pathPrefix, early: s.Early, write: write, ending: s.BeforeEnd, into: &sent.Receipt})
		if s.Early != nil && errors.Is(err, ErrNoPages) && ctx.Err() == nil { // whole, and at once
			s.Early = nil
			sent.WireBytes, err = s.try(ctx, wire, to, attempt{path: pathPrefix, write: write, ending: s.BeforeEnd, into: &sent.Receipt})
		}
		switch {
		case err == nil:
			return sent, nil
		case ctx.Err() != nil:
			return sent, fmt.Errorf("ship the checkpoint to %s: %w", to.Node, context.Cause(ctx))
		case checkpoint.AsFailure(err) != nil:
			return sent, err
		case sent.Tries >= s.Tries:
			return sent, checkpoint.Fail(v1alpha1.MigrationReasonTransferFailed,
				"ship the checkpoint to %s at %s, after %s: %v: check that the agents can reach each other", to.Node, to.Address, plural.Count(sent.Tries, "attempt"), err)
		}
		select {
		case <-ctx.Done():
			return sent, fmt.Errorf("ship the checkpoint to %s: %w", to.Node, context.Cause(ctx))
		case <-s.Clock.After(pause):
		}
	}
}

// errStalled ends a try without progress.
var errStalled = errors.New("the target received nothing for too long")

// Presend sends memory pages of a container that runs, until the time is over. read calls its argument with pages, one after
// the other, and ends when that returns an error; it is called again if much has changed meanwhile. It does not retry. On an
// error the target has nothing that counts, and the container can be moved anyway.
func (s Sender) Presend(ctx context.Context, self Identity, to Peer, early *Early, until time.Time, read func(func(pages []byte) error) error) (wireBytes int64, err error) {
	wire, err := s.wire(self, to)
	if err != nil {
		return 0, fmt.Errorf("send memory pages to %s: %w", to.Node, err)
	}
	defer wire.CloseIdleConnections()
	var kept Kept
	n, err := s.try(ctx, wire, to, attempt{path: pagesPrefix, write: presend{early, s.Clock, until, read}.write, into: &kept})
	if err == nil && (kept.Pages != early.Pages() || kept.Token == "" || len(kept.Token) > maxToken) {
		err = fmt.Errorf("it says that %d pages arrived of %d", kept.Pages, early.Pages())
	}
	if err != nil {
		return n, fmt.Errorf("send memory pages to %s at %s: %w", to.Node, to.Address, err)
	}
	early.token = kept.Token
	return n, nil
}

// maxToken bounds the token of a target.
const maxToken = 64

// attempt is one try to send something.
type attempt struct {
	// path comes before the UID of the Migration.
	path string
	// early are the pages to refer to; nil for none.
	early *Early
	// write writes the body, and ending is called before its last bytes; nil for nothing.
	write  func(io.Writer) error
	ending func() error
	// into gets the response.
	into any
}

// try sends once, and returns the number of bytes written.
func (s Sender) try(ctx context.Context, wire http.RoundTripper, to Peer, a attempt) (int64, error) {
	ctx, stop := context.WithCancelCause(ctx)
	reader, writer := io.Pipe()
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, "https://"+to.Address+a.path+to.Migration, reader)
	if err != nil {
		stop(nil)
		return 0, fmt.Errorf("send to %s: %w", to.Address, err)
	}
	request.Trailer = http.Header{sumTrailer: nil}
	if a.early != nil {
		request.Header.Set(tokenHeader, a.early.token)
	}
	var wrote atomic.Int64
	written := make(chan struct{})
	var own error // error of this side's writing; read it after written is closed
	go func() {
		defer close(written)
		var sum string
		if sum, own = pack(counter{writer, &wrote}, a.early, func(w io.Writer) error { return a.write(until{ctx, w}) }); own == nil {
			own = a.end(ctx)
		}
		if own == nil {
			request.Trailer.Set(sumTrailer, sum)
		}
		writer.CloseWithError(own)
	}()
	defer func() { // nothing of this try continues after it returns
		stop(nil)
		reader.CloseWithError(context.Canceled)
		<-written
	}()
	defer s.watch(&wrote, stop)()

	response, err := wire.RoundTrip(request)
	if err != nil {
		reader.CloseWithError(err)
		if <-written; own != nil && !errors.Is(own, err) && !errors.Is(own, context.Canceled) && !errors.Is(own, io.ErrClosedPipe) {
			return wrote.Load(), own // the error is on this side
		}
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return wrote.Load(), err
	}
	defer response.Body.Close()
	err = read(response, a.into)
	return wrote.Load(), err
}

// end announces the last bytes, unless the try is over.
func (a attempt) end(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if a.ending == nil {
		return nil
	}
	return a.ending()
}

// watch ends a try that makes no progress. The returned function stops it.
func (s Sender) watch(wrote *atomic.Int64, stop context.CancelCauseFunc) func() {
	ended := make(chan struct{})
	go func() {
		for last := int64(-1); ; {
			select {
			case <-ended:
				return
			case <-s.Clock.After(s.Stalled):
			}
			now := wrote.Load()
			if now == last {
				stop(errStalled)
				return
			}
			last = now
		}
	}()
	return func() { close(ended) }
}

// sumOf formats a checksum. It detects errors in memory or on a disk. Only the peer can tamper
// with the data, since TLS authenticates every byte, so the checksum need not be cryptographic,
// and the frozen container does not wait for one: SHA-256 of 1 GiB takes seconds on processors
// without instructions for it, this takes a quarter of a second.
func sumOf(d *xxhash.Digest) string { return fmt.Sprintf("xxh64:%016x", d.Sum64()) }

// read parses the response.
func read(response *http.Response, into any) error {
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read the target's response: %w", err)
	}
	if response.StatusCode == http.StatusOK {
		if err := json.Unmarshal(text, into); err != nil {
			return fmt.Errorf("read the target's response: %w", err)
		}
		return nil
	}
	var no refusal
	if err := json.Unmarshal(text, &no); err != nil {
		return fmt.Errorf("the target responded with %s", response.Status)
	}
	switch {
	case no.Final:
		return checkpoint.Fail(no.Reason, "the agent of the target refused: %s", no.Message)
	case no.NoPages:
		return ErrNoPages
	}
	return errors.New(no.Message)
}

// until ends writing when a context ends. Data that compresses well may not reach the pipe for
// long, which would report it otherwise.
type until struct {
	ctx context.Context
	io.Writer
}

func (u until) Write(p []byte) (int, error) {
	if u.ctx.Err() != nil {
		return 0, context.Cause(u.ctx)
	}
	return u.Writer.Write(p)
}

// Pages announces pages, if the writer takes them.
func (u until) Pages(n int64) {
	if w, is := u.Writer.(checkpoint.PageWriter); is {
		w.Pages(n)
	}
}

// counter counts written bytes.
type counter struct {
	io.Writer
	bytes *atomic.Int64
}

func (c counter) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.bytes.Add(int64(n))
	return n, err
}
