package transport

import (
	"bufio"
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
	"github.com/klauspost/compress/zstd"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/descheduler/checkpoint"
)

const (
	// sumTrailer has the checksum of the uncompressed body.
	sumTrailer = "Checkpoint-Sum"
	// pathPrefix is before the UID of the Migration.
	pathPrefix = "/v1/checkpoints/"
	// maxAnswer bounds what is read of an answer, in bytes.
	maxAnswer = 4 << 10
	// windowBytes is how far back zstd looks, and so what both sides hold.
	windowBytes = 256 << 10
	// pipeBytes is what is collected before it goes over the wire.
	pipeBytes = 128 << 10
)

// Receipt is what the target says once it has the checkpoint.
type Receipt struct {
	// Sum is the checksum that it has found.
	Sum string `json:"sum"`
	// Digest is that of the staged image, and Bytes what it takes.
	Digest string `json:"digest"`
	Bytes  int64  `json:"bytes"`
}

// refusal is any other answer.
type refusal struct {
	// Reason and Message are those of a [checkpoint.Failure].
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message"`
	// Final says that it does not help to try again.
	Final bool `json:"final,omitempty"`
}

// Peer is to whom a checkpoint is sent.
type Peer struct {
	// Address is where it listens, as host:port.
	Address string
	// Certificate is the one that its report has, in PEM.
	Certificate string
	// Migration is the UID of the Migration, and Node the peer's node.
	Migration, Node string
}

// session is by which name the peer tells its migrations apart.
func session(migration, node string) string { return migration + "." + node }

// Sender sends checkpoints.
type Sender struct {
	// Clock is for the pauses between tries, and to see whether certificates are good.
	Clock clock.Clock
	// Tries is how often it is tried, and Pause how long it waits before the second
	// time. Each further pause is three times as long.
	Tries int
	Pause time.Duration
	// Stalled is after how long without progress a try is cancelled.
	Stalled time.Duration
	// BeforeEnd is called in each try before the last bytes of the checkpoint are sent: as
	// long as it was not, the target cannot have taken it. An error ends the try. It may be
	// nil. It is not called after Send has returned.
	BeforeEnd func() error
}

// Sent is what it took.
type Sent struct {
	Receipt
	// WireBytes are those of the last try, compressed.
	WireBytes int64
	// Tries is how often it was tried.
	Tries int
}

// Reach finds out whether the target takes something from this side, without sending
// anything: whether it listens, both certificates are the right ones, and both clocks are
// right enough for them. It tries once. What does not change by asking again is a
// [*checkpoint.Failure].
func (s Sender) Reach(ctx context.Context, self Identity, to Peer) error {
	wire, err := s.wire(self, to)
	if err != nil {
		return checkpoint.Fail(checkpoint.ReasonTransferFailed, "reach the agent of %s: %v", to.Node, err)
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
		if response.StatusCode == http.StatusNotFound {
			return nil // it has shown its certificate; agents of earlier releases answer nothing else
		}
		_, err = read(response)
	} else if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if err == nil || checkpoint.AsFailure(err) != nil {
		return err
	}
	return fmt.Errorf("reach the agent of %s at %s: %w", to.Node, to.Address, err)
}

// wire is a connection that takes the peer of a migration and no other.
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

// Send sends what write writes, and returns once the target has staged it. write is
// called again for each try. If the target does not get it, the error is a
// [*checkpoint.Failure], unless ctx has ended.
func (s Sender) Send(ctx context.Context, self Identity, to Peer, write func(io.Writer) error) (Sent, error) {
	wire, err := s.wire(self, to)
	if err != nil {
		return Sent{}, checkpoint.Fail(checkpoint.ReasonTransferFailed, "ship the checkpoint to %s: %v", to.Node, err)
	}
	defer wire.CloseIdleConnections()
	var sent Sent
	for pause := s.Pause; ; pause *= 3 {
		sent.Tries++
		sent.Receipt, sent.WireBytes, err = s.try(ctx, wire, to, write)
		switch {
		case err == nil:
			return sent, nil
		case ctx.Err() != nil:
			return sent, fmt.Errorf("ship the checkpoint to %s: %w", to.Node, context.Cause(ctx))
		case checkpoint.AsFailure(err) != nil:
			return sent, err
		case sent.Tries >= s.Tries:
			return sent, checkpoint.Fail(checkpoint.ReasonTransferFailed,
				"ship the checkpoint to %s at %s, tried %d times: %v: see that the agents can reach each other", to.Node, to.Address, sent.Tries, err)
		}
		select {
		case <-ctx.Done():
			return sent, fmt.Errorf("ship the checkpoint to %s: %w", to.Node, context.Cause(ctx))
		case <-s.Clock.After(pause):
		}
	}
}

// errStalled ends a try.
var errStalled = errors.New("nothing was taken for too long")

func (s Sender) try(ctx context.Context, wire http.RoundTripper, to Peer, write func(io.Writer) error) (Receipt, int64, error) {
	ctx, stop := context.WithCancelCause(ctx)
	reader, writer := io.Pipe()
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, "https://"+to.Address+pathPrefix+to.Migration, reader)
	if err != nil {
		stop(nil)
		return Receipt{}, 0, fmt.Errorf("ask %s: %w", to.Address, err)
	}
	request.Trailer = http.Header{sumTrailer: nil}
	var wrote atomic.Int64
	written := make(chan struct{})
	var own error // of this side's writing; once written is closed
	go func() {
		defer close(written)
		var sum string
		if sum, own = pack(counter{writer, &wrote}, func(w io.Writer) error { return write(until{ctx, w}) }); own == nil {
			own = s.ending(ctx)
		}
		if own == nil {
			request.Trailer.Set(sumTrailer, sum)
		}
		writer.CloseWithError(own)
	}()
	defer func() { // nothing of this try continues after it
		stop(nil)
		reader.CloseWithError(context.Canceled)
		<-written
	}()
	defer s.watch(&wrote, stop)()

	response, err := wire.RoundTrip(request)
	if err != nil {
		reader.CloseWithError(err)
		if <-written; own != nil && !errors.Is(own, err) && !errors.Is(own, context.Canceled) && !errors.Is(own, io.ErrClosedPipe) {
			return Receipt{}, wrote.Load(), own // it is this side that could not go on
		}
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return Receipt{}, wrote.Load(), err
	}
	defer response.Body.Close()
	receipt, err := read(response)
	return receipt, wrote.Load(), err
}

// ending says that the last bytes are about to go, unless the try is over.
func (s Sender) ending(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if s.BeforeEnd == nil {
		return nil
	}
	return s.BeforeEnd()
}

// watch ends a try that makes no progress. The returned function ends the watch.
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

// pack compresses what is written, and returns the checksum of what it was before.
func pack(w io.Writer, write func(io.Writer) error) (string, error) {
	buffered := bufio.NewWriterSize(w, pipeBytes)
	compressed, err := zstd.NewWriter(buffered, zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(windowBytes), zstd.WithEncoderCRC(false)) // there is a sum of all
	if err != nil {
		return "", fmt.Errorf("set up the compression: %w", err)
	}
	sum := xxhash.New()
	err = write(io.MultiWriter(sum, compressed))
	if closed := compressed.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = buffered.Flush()
	}
	return sumOf(sum), err
}

// sumOf writes a checksum down. It finds what went wrong on the way, in memory or on a
// disk; nobody but the peer can have changed anything, since TLS authenticates every
// byte. So it need not withstand an attacker, and the container, which is frozen
// meanwhile, does not wait for a cryptographic one: SHA-256 of 1 GiB takes seconds on
// processors that have no instructions for it, this a quarter of one.
func sumOf(d *xxhash.Digest) string { return fmt.Sprintf("xxh64:%016x", d.Sum64()) }

// read reads the answer.
func read(response *http.Response) (Receipt, error) {
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return Receipt{}, fmt.Errorf("read the target's answer: %w", err)
	}
	if response.StatusCode == http.StatusOK {
		var receipt Receipt
		if err := json.Unmarshal(text, &receipt); err != nil {
			return Receipt{}, fmt.Errorf("read the target's answer: %w", err)
		}
		return receipt, nil
	}
	var no refusal
	if err := json.Unmarshal(text, &no); err != nil {
		return Receipt{}, fmt.Errorf("the target answers %s", response.Status)
	}
	if no.Final {
		return Receipt{}, checkpoint.Fail(no.Reason, "the target refuses: %s", no.Message)
	}
	return Receipt{}, errors.New(no.Message)
}

// until ends writing when a context does: what compresses well may take long to come to
// the pipe, which would say so.
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

// counter counts what goes by.
type counter struct {
	io.Writer
	bytes *atomic.Int64
}

func (c counter) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.bytes.Add(int64(n))
	return n, err
}
