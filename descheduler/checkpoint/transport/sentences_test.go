package transport

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/test/kit/sentences"
)

// TestEachSentenceOfATransferIsSaidWhereItIsTrueAndNotWhereItIsNot has the messages of failures, which become Events of
// the Migration.
func TestEachSentenceOfATransferIsSaidWhereItIsTrueAndNotWhereItIsNot(t *testing.T) {
	sent := func(content []byte, change func(*bench)) string {
		b := newBench(t)
		change(b)
		if b.address == "" {
			b.listen()
		}
		_, err := b.send(content)
		return fmt.Sprint(err)
	}
	reached := func(change func(*bench)) string {
		b := newBench(t)
		change(b)
		b.listen()
		return fmt.Sprint(b.reach())
	}
	well := sent(noise(t, 1<<20), func(*bench) {})
	old := func(b *bench) {
		var err error
		if b.target, err = NewIdentity("target", time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	nobody := func(tries int) func(*bench) {
		return func(b *bench) { b.address, b.sender.Tries = "127.0.0.1:1", tries }
	}
	unreadable := func(b *bench) { b.target.Certificate = "none" }
	refuses := func(b *bench) {
		b.take = func(Body) error { return checkpoint.Fail(v1alpha1.MigrationReasonNoRoom, "the disk is full") }
	}
	once, twice := sent(nil, nobody(1)), sent(nil, nobody(2))
	sentences.Check(t, []string{"identity.go", "receive.go", "send.go"}, []sentences.Case{
		{"the certificate that the other node's agent created for this migration is valid from %s until %s, and the time on this node is %s: correct the clocks of both nodes", reached(old), reached(func(*bench) {})},
		{"the compressed checkpoint is larger than the maximum of %d bytes", sent(noise(t, 1<<20), func(b *bench) { b.receiver.MaxWireBytes = 1 << 16 }), well},
		{"the checkpoint is larger than the maximum of %d bytes", sent(noise(t, 1<<20), func(b *bench) { b.receiver.MaxBytes = 1 << 16 }), well},
		{"reach the agent of %s: %v", reached(unreadable), reached(func(*bench) {})},
		{"ship the checkpoint to %s: %v", sent(nil, unreadable), well},
		{"ship the checkpoint to %s at %s, after %s: %v: check that the agents can reach each other", once, well},
		{"the agent of the target refused: %s", sent(nil, refuses), once},
	}, map[string]string{
		"PRIVATE KEY": "the type of a PEM block", "Rejected a peer": "a line of the log", "Rejected a checkpoint": "a line of the log",
	})
	if !strings.Contains(once, "after 1 attempt: ") || !strings.Contains(twice, "after 2 attempts: ") {
		t.Errorf("it says %q and %q", once, twice)
	}
}
