package transport

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// patience is how long an attack may take to be refused: far longer than any limit in the tests.
const patience = 20 * time.Second

// dial connects like the source of the migration. The test sends.
func (b *bench) dial() *tls.Conn {
	b.Helper()
	c, err := config(b.source, b.target.Certificate, time.Now)
	if err != nil {
		b.Fatal(err)
	}
	c.ServerName = session("m1", "node.b")
	connection, err := (&tls.Dialer{Config: c}).DialContext(b.Context(), "tcp", b.address)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = connection.Close() })
	if err := connection.SetDeadline(time.Now().Add(patience)); err != nil {
		b.Fatal(err)
	}
	return connection.(*tls.Conn)
}

// begin sends the header of a checkpoint.
func (b *bench) begin(c io.Writer) {
	b.Helper()
	if _, err := fmt.Fprintf(c, "PUT %sm1 HTTP/1.1\r\nHost: target\r\nTransfer-Encoding: chunked\r\nTrailer: %s\r\n\r\n", pathPrefix, sumTrailer); err != nil {
		b.Fatal(err)
	}
}

// answer returns the target's response as text.
func (b *bench) answer(c io.Reader) (int, string) {
	b.Helper()
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		b.Fatalf("the attack is not answered: %v", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		b.Fatalf("the answer to the attack ends with %v", err)
	}
	return response.StatusCode, string(text)
}

// chunk returns a chunk of a body.
func chunk(content []byte) []byte {
	return fmt.Appendf(nil, "%x\r\n%s\r\n", len(content), content)
}

// flood sends chunks without end, until the other side closes.
func flood(c io.Writer, part []byte) {
	for {
		if _, err := c.Write(part); err != nil {
			return
		}
	}
}

func TestAStreamWithoutEndIsRefused(t *testing.T) {
	b := newBench(t)
	b.receiver.MaxWireBytes = 1 << 20
	b.listen()
	c := b.dial()
	b.begin(c)
	var packed bytes.Buffer
	if _, err := pack(&packed, nil, func(w io.Writer) error { _, err := w.Write(noise(t, 1<<20)); return err }); err != nil {
		t.Fatal(err)
	}
	go flood(c, chunk(packed.Bytes()))
	if code, text := b.answer(c); code != http.StatusUnprocessableEntity || !strings.Contains(text, "larger than the maximum of 1048576 bytes") {
		t.Errorf("a stream without end is answered with %d: %s", code, text)
	}
}

// TestAFewBytesThatBecomeManyAreRefused: some kilobytes of compressed zeros would keep a target
// busy for hours if it accepted gigabytes.
func TestAFewBytesThatBecomeManyAreRefused(t *testing.T) {
	b := newBench(t)
	b.receiver.MaxBytes = 1 << 20
	b.listen()
	_, err := b.send(make([]byte, 64<<20))
	b.wantFailure(err, v1alpha1.MigrationReasonTooLarge, "larger than the maximum of 1048576 bytes")
	if b.taken != nil {
		t.Error("it was taken")
	}
}

// TestFramesOfNothingAreRefused: chunks whose frames are empty are no progress, however many arrive.
func TestFramesOfNothingAreRefused(t *testing.T) {
	b := newBench(t)
	b.receiver.MaxWireBytes, b.receiver.Stalled = 1<<20, 300*time.Millisecond
	b.listen()
	c := b.dial()
	b.begin(c)
	skippable := []byte{0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4}
	frame := append([]byte{compressed, 0, 0, 0, byte(len(skippable))}, skippable...)
	go flood(c, chunk(bytes.Repeat(frame, 100)))
	if code, text := b.answer(c); code < 400 || !strings.Contains(text, errBody.Error()) {
		t.Errorf("frames of nothing are answered with %d: %s", code, text)
	}
}

// TestASenderThatTricklesIsRefused: each byte arrives well within Stalled, so the transfer would
// never stall if any byte were progress.
func TestASenderThatTricklesIsRefused(t *testing.T) {
	b := newBench(t)
	b.receiver.Stalled = 300 * time.Millisecond
	b.listen()
	c := b.dial()
	b.begin(c)
	var packed bytes.Buffer
	if _, err := pack(&packed, nil, func(w io.Writer) error { _, err := w.Write(noise(t, 1<<20)); return err }); err != nil {
		t.Fatal(err)
	}
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for _, one := range packed.Bytes() {
			if _, err := c.Write(chunk([]byte{one})); err != nil {
				return
			}
			<-tick.C
		}
	}()
	if code, text := b.answer(c); code != http.StatusConflict || !strings.Contains(text, "the transfer is stalled") {
		t.Errorf("a sender that trickles is answered with %d: %s", code, text)
	}
}

// TestASlowReceiverIsNoSlowSender: the receiver's disk may take longer than the sender may.
func TestASlowReceiverIsNoSlowSender(t *testing.T) {
	b := newBench(t)
	b.receiver.Stalled = 200 * time.Millisecond
	b.take = func(r Body) error {
		for range 4 {
			if _, err := io.CopyN(io.Discard, r, 1<<10); err != nil { // too little to count as progress
				return err
			}
			slow := make(chan struct{})
			time.AfterFunc(150*time.Millisecond, func() { close(slow) })
			<-slow
		}
		return nil
	}
	b.listen()
	if _, err := b.send(noise(t, 1<<20)); err != nil || b.tries.Load() != 1 {
		t.Errorf("sent with %v after %d tries, want the first to work", err, b.tries.Load())
	}
}

// TestATransferEndsWithItsMigration: a sender that is barely fast enough could continue for days. On a busy machine
// the reset of the connection can overtake the answer. Such a transfer is repeated, because its sender cannot know why
// it ended.
func TestATransferEndsWithItsMigration(t *testing.T) {
	b := newBench(t)
	const most = 500 * time.Millisecond
	expected := b.receiver.Session
	b.receiver.Session = func(ctx context.Context, migration, node string) (Session, bool) {
		s, ok := expected(ctx, migration, node)
		s.Until = time.Now().Add(most)
		return s, ok
	}
	b.listen()
	b.sender.Tries = 1
	for range 5 {
		late := time.Now().Add(most + 10*time.Second)
		_, err := b.sender.Send(t.Context(), b.source, Peer{Address: b.address, Certificate: b.target.Certificate, Migration: "m1", Node: "node.b"},
			func(w io.Writer) error {
				tick := time.NewTicker(10 * time.Millisecond)
				defer tick.Stop()
				for time.Now().Before(late) {
					<-tick.C
					if _, err := w.Write(noise(t, 2*minProgress)); err != nil {
						return err
					}
				}
				return errors.New("it is taken long after the migration is over")
			})
		if err != nil && (strings.Contains(err.Error(), syscall.ECONNRESET.Error()) || strings.Contains(err.Error(), syscall.EPIPE.Error())) {
			continue
		}
		b.wantFailure(err, v1alpha1.MigrationReasonTransferFailed, "the end of the migration")
		return
	}
	t.Error("every transfer ended without an answer")
}

func TestAHugeHeaderIsRefused(t *testing.T) {
	b := newBench(t)
	b.listen()
	c := b.dial()
	go func() {
		_, _ = fmt.Fprintf(c, "PUT %sm1 HTTP/1.1\r\nHost: target\r\nX-Long: %s\r\n\r\n", pathPrefix, strings.Repeat("x", 1<<20))
	}()
	if code, _ := b.answer(c); code != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a header of a megabyte is answered with %d, want %d", code, http.StatusRequestHeaderFieldsTooLarge)
	}
	if b.tries.Load() != 0 {
		t.Error("its checkpoint was taken")
	}
}

func TestAHugeTrailerIsRefused(t *testing.T) {
	b := newBench(t)
	b.listen()
	c := b.dial()
	b.begin(c)
	var packed bytes.Buffer
	sum, err := pack(&packed, nil, func(w io.Writer) error { _, err := w.Write([]byte("work")); return err })
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = c.Write(chunk(packed.Bytes()))
		_, _ = fmt.Fprintf(c, "0\r\n%s: %s\r\n", sumTrailer, sum)
		flood(c, []byte("X-More: "+strings.Repeat("x", 1000)+"\r\n"))
	}()
	if code, text := b.answer(c); code != http.StatusConflict || !strings.Contains(text, "trailer") {
		t.Errorf("a trailer without end is answered with %d: %s", code, text)
	}
}

// TestAHeaderThatTricklesIsCutOff: anyone who finds the port may try that in the handshake,
// without a certificate, and a peer in the header of its request.
func TestAHeaderThatTricklesIsCutOff(t *testing.T) {
	for name, connect := range map[string]func(*bench) net.Conn{
		"in the handshake": func(b *bench) net.Conn {
			c, err := (&net.Dialer{}).DialContext(b.Context(), "tcp", b.address)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = c.Close() })
			return c
		},
		"in the request": func(b *bench) net.Conn { return b.dial() },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.receiver.Stalled = 300 * time.Millisecond
			b.listen()
			c := connect(b)
			if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			go func() {
				tick := time.NewTicker(20 * time.Millisecond)
				defer tick.Stop()
				// The start of a long handshake, or of a header.
				for _, one := range append([]byte{0x16, 3, 1, 0x3f, 0xff}, bytes.Repeat([]byte("P"), 1<<14)...) {
					if _, err := c.Write([]byte{one}); err != nil {
						return
					}
					<-tick.C
				}
			}()
			if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("after %v the connection is still open", patience)
			}
		})
	}
}

// TestTheReceiverHasALimit floods a receiver, and connects from another address meanwhile.
func TestTheReceiverHasALimit(t *testing.T) {
	b := newBench(t)
	b.receiver.Stalled = time.Minute // all connections may wait that long
	b.listen()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.9")}}
	var open []net.Conn
	for range maxConnectionsOneAddress + 5 {
		c, err := d.DialContext(t.Context(), "tcp", b.address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		open = append(open, c)
	}
	for _, c := range open[maxConnectionsOneAddress:] {
		if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("with %d connections of one address another is taken: %v", maxConnectionsOneAddress, err)
		}
	}
	if err := b.reach(); err != nil {
		t.Errorf("meanwhile another address does not reach the target: %v", err)
	}
}

// TestAnAnswerWithoutEndIsRefused: here the target attacks.
func TestAnAnswerWithoutEndIsRefused(t *testing.T) {
	b := newBench(t)
	c, err := config(b.target, b.source.Certificate, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", c)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: patience, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		flood(w, bytes.Repeat([]byte(" "), 1<<10))
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	b.address, b.sender.Tries = listener.Addr().String(), 1
	_, err = b.send([]byte("work"))
	b.wantFailure(err, v1alpha1.MigrationReasonTransferFailed, "read the target's response")
}
