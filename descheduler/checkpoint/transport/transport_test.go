package transport

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/checkpoint"
)

// bench is a listening receiver and a sender.
type bench struct {
	*testing.T
	receiver Receiver
	sender   Sender
	source   Identity
	target   Identity
	address  string

	mu    sync.Mutex
	taken []byte // by the last try
	tries atomic.Int32
	take  func(r Body) error // nil reads everything
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{T: t, source: identity(t, "source", time.Minute), target: identity(t, "target", time.Minute)}
	b.sender = Sender{Clock: clock.RealClock{}, Tries: 3, Pause: time.Millisecond, Stalled: 5 * time.Second}
	b.receiver = Receiver{
		Clock: clock.RealClock{}, MaxWireBytes: 1 << 26, MaxBytes: 1 << 28, Stalled: 5 * time.Second,
		Session: func(_ context.Context, migration, node string) (Session, bool) {
			return Session{Migration: migration, Node: node, Self: b.target, Peer: b.source.Certificate}, migration == "m1" && node == "node.b"
		},
		Take: b.takeOne,
	}
	return b
}

func identity(t *testing.T, name string, good time.Duration) Identity {
	t.Helper()
	i, err := NewIdentity(name, time.Now().Add(-time.Hour), time.Now().Add(good))
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func (b *bench) takeOne(_ context.Context, _ Session, r Body) (Receipt, error) {
	b.tries.Add(1)
	if b.take != nil {
		if err := b.take(r); err != nil {
			return Receipt{}, err
		}
	}
	all, err := io.ReadAll(r)
	if err != nil {
		return Receipt{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken = all
	return Receipt{Sum: r.Sum(), Digest: "sha256:d", Bytes: int64(len(all))}, nil
}

// listen starts the receiver.
func (b *bench) listen() {
	b.Helper()
	listener, err := (&net.ListenConfig{}).Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.address = listener.Addr().String()
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	ended := make(chan error, 1)
	go func() { ended <- b.receiver.Serve(ctx, listener) }()
	b.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			b.Errorf("the receiver ended: %v", err)
		}
	})
}

// TestAnAgentOfAnotherVersionIsFoundBeforeAnythingIsSent has a target that knows another path.
func TestAnAgentOfAnotherVersionIsFoundBeforeAnythingIsSent(t *testing.T) {
	b := newBench(t)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.address = listener.Addr().String()
	other := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: patience}
	ended := make(chan error, 1)
	go func() {
		ended <- other.Serve(tls.NewListener(listener, &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: b.receiver.config}))
	}()
	if err := b.reach(); err == nil || !strings.Contains(err.Error(), "another version of the node agent") {
		t.Errorf("reaching it ends with %v", err)
	}
	_ = other.Close() // of the error, the next line tells
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
}

func (b *bench) send(content []byte) (Sent, error) {
	return b.sender.Send(b.Context(), b.source, Peer{Address: b.address, Certificate: b.target.Certificate, Migration: "m1", Node: "node.b"},
		func(w io.Writer) error { _, err := w.Write(content); return err })
}

func (b *bench) reach() error {
	return b.sender.Reach(b.Context(), b.source, Peer{Address: b.address, Certificate: b.target.Certificate, Migration: "m1", Node: "node.b"})
}

func TestATargetThatListensIsReached(t *testing.T) {
	b := newBench(t)
	b.listen()
	if err := b.reach(); err != nil || b.tries.Load() != 0 {
		t.Errorf("reaching the target ends with %v, and something was taken %d times", err, b.tries.Load())
	}
	b.address = "127.0.0.1:1"
	if err := b.reach(); err == nil || checkpoint.AsFailure(err) != nil || !strings.Contains(err.Error(), "node.b at 127.0.0.1:1") {
		t.Errorf("reaching a target that does not listen yet ends with %v, want an error that is worth another try", err)
	}
}

// TestClocksThatAreApartAreNamed: certificates are valid from a minute before they were made, by
// the clock of their maker.
func TestClocksThatAreApartAreNamed(t *testing.T) {
	for name, apart := range map[string]time.Duration{"behind": -5 * time.Minute, "ahead": 5 * time.Minute} {
		for _, side := range []string{"source", "target"} {
			t.Run(side+" "+name, func(t *testing.T) {
				b := newBench(t)
				made := map[string]time.Time{"source": time.Now(), "target": time.Now()}
				made[side] = made[side].Add(apart)
				for who, self := range map[string]*Identity{"source": &b.source, "target": &b.target} {
					var err error
					if *self, err = NewIdentity(who, made[who].Add(-time.Minute), made[who].Add(2*time.Minute)); err != nil {
						t.Fatal(err)
					}
				}
				b.sender.Clock, b.receiver.Clock = clocktesting.NewFakeClock(made["source"]), clocktesting.NewFakePassiveClock(made["target"])
				b.listen()
				b.wantFailure(b.reach(), v1alpha1.MigrationReasonTransferFailed, "correct the clocks of both nodes")
			})
		}
	}
}

// TestTheSourceKnowsWhetherTheTargetCanHaveIt: a transfer cannot be accepted before its end, and
// the end is announced before.
func TestTheSourceKnowsWhetherTheTargetCanHaveIt(t *testing.T) {
	ended := 0
	b := newBench(t)
	b.sender.BeforeEnd = func() error {
		ended++
		if b.taken != nil {
			t.Error("the target has it before that is noted")
		}
		return nil
	}
	b.listen()
	if _, err := b.send(noise(t, 1<<20)); err != nil || ended != 1 {
		t.Errorf("sent with %v, and noted %d times that the target may have it, want once", err, ended)
	}

	for name, change := range map[string]func(*bench){
		"the source cannot note it": func(b *bench) {
			b.sender.BeforeEnd = func() error { ended++; return errors.New("no disk") }
		},
		"the target turns it away early": func(b *bench) {
			b.take = func(Body) error { return checkpoint.Fail(v1alpha1.MigrationReasonNoRoom, "the disk is full") }
		},
		"nobody listens": func(b *bench) { b.address = "127.0.0.1:1" },
	} {
		t.Run(name, func(t *testing.T) {
			ended = 0
			b := newBench(t)
			b.sender.BeforeEnd = func() error { ended++; return nil }
			b.listen()
			change(b)
			if _, err := b.send(noise(t, 32<<20)); err == nil || b.taken != nil {
				t.Errorf("sent with %v", err)
			}
			if name != "the source cannot note it" && ended != 0 {
				t.Errorf("it is noted %d times that the target may have it", ended)
			}
		})
	}
}

func noise(t testing.TB, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	if _, err := rand.Read(b); err != nil {
		t.Fatal(err)
	}
	return b
}

// wantFailure fails the test unless the error has the reason, and a message that contains says.
func (b *bench) wantFailure(err error, reason, says string) {
	b.Helper()
	f := checkpoint.AsFailure(err)
	if f == nil || f.Reason != reason || !strings.Contains(f.Message, says) {
		b.Errorf("sending ends with %v (%+v), want a failure with reason %s that says %q", err, f, reason, says)
	}
}

func TestWhatIsSentArrives(t *testing.T) {
	for name, content := range map[string][]byte{"nothing": nil, "noise": noise(t, 3<<20), "zeros": make([]byte, 5<<20)} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.listen()
			sent, err := b.send(content)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(b.taken, content) || sent.Tries != 1 || sent.Bytes != int64(len(content)) || sent.Digest != "sha256:d" || !strings.HasPrefix(sent.Sum, "xxh64:") {
				t.Errorf("sent %d bytes: %+v; taken %d", len(content), sent, len(b.taken))
			}
			if name == "zeros" && sent.WireBytes > 10_000 {
				t.Errorf("5 MiB of zeros took %d bytes on the wire: they were not compressed", sent.WireBytes)
			}
		})
	}
}

func TestItIsTriedAgain(t *testing.T) {
	b := newBench(t)
	b.take = func(r Body) error {
		if b.tries.Load() < 3 {
			_, err := io.CopyN(io.Discard, r, 1<<20)
			return errors.Join(err, errors.New("the disk blinked"))
		}
		return nil
	}
	b.listen()
	content := noise(t, 8<<20)
	sent, err := b.send(content)
	if err != nil || sent.Tries != 3 || !bytes.Equal(b.taken, content) {
		t.Errorf("sent %+v, %v, want success at the third try", sent, err)
	}
}

func TestItIsAbandonedAfterThreeTries(t *testing.T) {
	b := newBench(t)
	b.take = func(Body) error { return ErrNotNow }
	b.listen()
	_, err := b.send(noise(t, 100))
	b.wantFailure(err, v1alpha1.MigrationReasonTransferFailed, ErrNotNow.Error())
	if got := b.tries.Load(); got != 3 {
		t.Errorf("it was tried %d times, want 3", got)
	}
}

func TestARefusalIsNotTriedAgain(t *testing.T) {
	b := newBench(t)
	b.take = func(Body) error {
		return checkpoint.Fail(v1alpha1.MigrationReasonNoRoom, "the disk is full")
	}
	b.listen()
	_, err := b.send(noise(t, 1<<22))
	b.wantFailure(err, v1alpha1.MigrationReasonNoRoom, "the disk is full")
	if got := b.tries.Load(); got != 1 {
		t.Errorf("it was tried %d times, want once", got)
	}
}

func TestWrongPeersAreRefused(t *testing.T) {
	other := identity(t, "other", time.Minute)
	expired := identity(t, "expired", -time.Second)
	tests := map[string]struct {
		change func(*bench)
		says   string
	}{
		"another source": {func(b *bench) {
			b.source.Key, b.source.Certificate = other.Key, other.Certificate
			b.pinSource(b.target)
		}, "after 3 attempts"},
		"another target":                 {func(b *bench) { own := b.target; b.target = other; b.serveAs(own) }, "certificate is not the one in its report"},
		"a source whose time is over":    {func(b *bench) { b.source = expired }, "correct the clocks"},
		"a target whose time is over":    {func(b *bench) { b.target = expired }, "valid from"},
		"a certificate that is none":     {func(b *bench) { b.target.Certificate = "none" }, "not have exactly one certificate"},
		"a migration nobody waits for":   {func(b *bench) { b.receiver.Session = none }, "after 3 attempts"},
		"a key that does not go with it": {func(b *bench) { b.source.Key = other.Key }, "do not match"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			tc.change(b)
			b.listen()
			if err := b.reach(); err == nil || !strings.Contains(tc.says, "attempts") && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("reaching it ends with %v, want %q", err, tc.says)
			}
			_, err := b.send([]byte("secret"))
			b.wantFailure(err, v1alpha1.MigrationReasonTransferFailed, tc.says)
			if got := b.tries.Load(); got != 0 {
				t.Errorf("a checkpoint was taken from a wrong peer %d times", got)
			}
			if strings.Contains(err.Error(), "PRIVATE") {
				t.Errorf("the error has a key: %v", err)
			}
		})
	}
}

// pinSource makes the receiver expect another certificate.
func (b *bench) pinSource(other Identity) {
	self := b.target
	b.receiver.Session = func(_ context.Context, migration, node string) (Session, bool) {
		return Session{Migration: migration, Node: node, Self: self, Peer: other.Certificate}, true
	}
}

// serveAs makes the receiver present another certificate.
func (b *bench) serveAs(other Identity) {
	peer := b.source.Certificate
	b.receiver.Session = func(_ context.Context, migration, node string) (Session, bool) {
		return Session{Migration: migration, Node: node, Self: other, Peer: peer}, true
	}
}

func none(context.Context, string, string) (Session, bool) { return Session{}, false }

func TestMoreThanIsAllowedIsRefused(t *testing.T) {
	b := newBench(t)
	b.receiver.MaxWireBytes = 1 << 20
	b.listen()
	_, err := b.send(noise(t, 8<<20))
	b.wantFailure(err, v1alpha1.MigrationReasonTooLarge, "1048576")
	if b.taken != nil {
		t.Error("it was taken")
	}
}

// put sends a body like a source, with the changes of a test.
func (b *bench) put(body io.Reader, sum string) int {
	b.Helper()
	c, err := config(b.source, b.target.Certificate, time.Now)
	if err != nil {
		b.Fatal(err)
	}
	c.ServerName = session("m1", "node.b")
	request, err := http.NewRequestWithContext(b.Context(), http.MethodPut, "https://"+b.address+pathPrefix+"m1", io.MultiReader(body))
	if err != nil {
		b.Fatal(err)
	}
	request.Trailer = http.Header{sumTrailer: {sum}}
	wire := &http.Transport{TLSClientConfig: c, DisableKeepAlives: true}
	response, err := wire.RoundTrip(request)
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode
}

func TestAlteredBodiesAreRefused(t *testing.T) {
	content := noise(t, 1<<16)
	var packed bytes.Buffer
	sum, err := pack(&packed, nil, func(w io.Writer) error { _, err := w.Write(content); return err })
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(packed.Bytes())
	flipped[len(flipped)/2] ^= 1
	tests := map[string]struct {
		body []byte
		sum  string
		code int
	}{
		"as it was sent":            {packed.Bytes(), sum, http.StatusOK},
		"another checksum":          {packed.Bytes(), "xxh64:" + strings.Repeat("0", 16), http.StatusConflict},
		"no checksum":               {packed.Bytes(), "", http.StatusConflict},
		"a bit that was turned":     {flipped, sum, http.StatusConflict},
		"a body that is cut":        {packed.Bytes()[:packed.Len()/2], sum, http.StatusConflict},
		"a body that is not packed": {content, sum, http.StatusConflict},
		"no body":                   {nil, sum, http.StatusConflict},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.listen()
			if code := b.put(bytes.NewReader(tc.body), tc.sum); code != tc.code {
				t.Errorf("the answer is %d, want %d", code, tc.code)
			}
			if taken := b.taken != nil; taken != (tc.code == http.StatusOK) {
				t.Errorf("taken: %v", taken)
			}
		})
	}
}

func TestAnOldProtocolIsRefused(t *testing.T) {
	b := newBench(t)
	b.listen()
	c, err := config(b.source, b.target.Certificate, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	c.ServerName, c.MinVersion, c.MaxVersion = session("m1", "node.b"), tls.VersionTLS12, tls.VersionTLS12
	connection, err := (&tls.Dialer{Config: c}).DialContext(t.Context(), "tcp", b.address)
	if err == nil {
		t.Error("TLS 1.2 is taken", connection.Close())
	}
}

func TestSendingEndsWithItsContext(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the order has changed")
	b.take = func(r Body) error {
		cancel(why)
		return nil
	}
	b.listen()
	_, err := b.sender.Send(ctx, b.source, Peer{Address: b.address, Certificate: b.target.Certificate, Migration: "m1", Node: "node.b"},
		func(w io.Writer) error {
			for {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return err
				}
			}
		})
	if !errors.Is(err, why) || checkpoint.AsFailure(err) != nil {
		t.Errorf("sending ends with %v, want %v", err, why)
	}
}

// TestAReadThatWaitsEndsWhenItIsAborted: the source may be frozen while it is waited for.
func TestAReadThatWaitsEndsWhenItIsAborted(t *testing.T) {
	b := newBench(t)
	b.receiver.Stalled, b.sender.Stalled, b.sender.Tries = time.Hour, time.Hour, 1
	took := make(chan error, 1)
	b.receiver.Take = func(_ context.Context, _ Session, r Body) (Receipt, error) {
		one := make([]byte, 1)
		if _, err := io.ReadFull(r, one); err != nil {
			took <- fmt.Errorf("the first byte: %w", err)
			return Receipt{}, err
		}
		time.AfterFunc(10*time.Millisecond, r.Abort) // during the next read, or before: both end it
		_, err := io.Copy(io.Discard, r)
		if _, again := r.Read(one); again == nil {
			err = nil
		}
		took <- err
		return Receipt{}, err
	}
	b.listen()
	ctx, cancel := context.WithCancel(t.Context())
	sent := make(chan error, 1)
	go func() {
		_, err := b.sender.Send(ctx, b.source, Peer{Address: b.address, Certificate: b.target.Certificate, Migration: "m1", Node: "node.b"},
			func(w io.Writer) error {
				_, err := w.Write(noise(t, 1<<20)) // enough for the compressor to write some of it
				<-ctx.Done()
				return err
			})
		sent <- err
	}()
	select {
	case err := <-took:
		if err == nil || errors.Is(err, io.EOF) {
			t.Errorf("reading ends with %v after it was aborted", err)
		}
	case <-time.After(time.Minute):
		t.Error("reading continues after it was aborted")
	}
	cancel()
	if err := <-sent; err == nil {
		t.Error("half a checkpoint was taken")
	}
}

func TestASourceThatCannotContinueSaysWhy(t *testing.T) {
	b := newBench(t)
	b.listen()
	lost := checkpoint.Fail(v1alpha1.MigrationReasonDumpLost, "the dump has gone")
	_, err := b.sender.Send(t.Context(), b.source, Peer{Address: b.address, Certificate: b.target.Certificate, Migration: "m1", Node: "node.b"},
		func(io.Writer) error { return lost })
	b.wantFailure(err, v1alpha1.MigrationReasonDumpLost, "the dump has gone")
}

func BenchmarkSend(b *testing.B) {
	content := make([]byte, 64<<20)
	if _, err := rand.Read(content); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(content)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := pack(io.Discard, nil, func(w io.Writer) error { _, err := w.Write(content); return err }); err != nil {
			b.Fatal(err)
		}
	}
}
