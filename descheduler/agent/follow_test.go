package agent

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/descheduler/checkpoint/ledger"
	"supercargo.dev/supercargo/descheduler/checkpoint/terms"
)

// followed is a back-end whose dump can be sent while it is written. The target has begun to receive it before Dump returns.
type followed struct {
	*scripted
	begun chan struct{}
	begin func() // closes it, once
}

func (b *followed) Follow(ctx context.Context, c checkpoint.Container, dir string, dumped <-chan struct{}, w io.Writer) error {
	b.begin()
	if err := b.call(ctx, "Follow"); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-dumped:
	}
	return b.Backend.Archive(ctx, c, dir, w)
}

func (b *followed) Dump(ctx context.Context, c checkpoint.Container, dir string) (int64, error) {
	select {
	case <-b.begun:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	return b.scripted.Dump(ctx, c, dir)
}

// follows has the dumps of a node followed.
func (n *node) follows() {
	begun := make(chan struct{})
	both := n.backends[v1alpha1.BackendSimulated]
	both.Source = &followed{n.backend, begun, sync.OnceFunc(func() { close(begun) })}
	n.backends[v1alpha1.BackendSimulated] = both
}

func TestTheStateIsSentWhileItIsDumped(t *testing.T) {
	c := newCluster(t, nil)
	m := c.move(t, nil)
	c.from.follows()
	m.carryOut(v1alpha1.OrderPrepare)
	m.carryOut(v1alpha1.OrderFreeze)
	m.wantSteps(v1alpha1.SourceShipped, v1alpha1.TargetStaged)
	m.wantContainer(checkpoint.Frozen)
	if got := c.from.backend.calls(); !slices.Contains(got, "Follow") || slices.Contains(got, "Archive") {
		t.Errorf("the source did %v", got)
	}
	entry, _ := m.entry(ledger.SourceRole)
	if entry.Stage != terms.Shipped || entry.Sum == "" || entry.DumpBytes == 0 || entry.ShipBytes == 0 || entry.ShipTries != 1 {
		t.Errorf("the ledger says %+v", entry)
	}
}

// TestAnEarlierDumpIsNotSent: it is removed before the folder is read.
func TestAnEarlierDumpIsNotSent(t *testing.T) {
	c := newCluster(t, nil)
	m := c.move(t, nil)
	c.from.follows()
	m.carryOut(v1alpha1.OrderPrepare)
	dir := filepath.Join(c.from.WorkDir, m.uid)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	c.from.backend.on("Follow", func(context.Context) error {
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the folder of an earlier dump is there (%v)", err)
		}
		return nil
	})
	m.carryOut(v1alpha1.OrderFreeze)
	m.wantSteps(v1alpha1.SourceShipped, v1alpha1.TargetStaged)
}

// TestADumpThatFailsWhileItIsSentLeavesNothing on the target.
func TestADumpThatFailsWhileItIsSentLeavesNothing(t *testing.T) {
	c := newCluster(t, nil)
	m := c.move(t, nil)
	c.from.follows()
	c.from.backend.fails("Dump", checkpoint.Fail("DumpFailed", "CRIU failed"))
	m.carryOut(v1alpha1.OrderPrepare)
	m.carryOut(v1alpha1.OrderFreeze)
	m.wantFailure(ledger.SourceRole, "DumpFailed", "CRIU failed")
	if has, err := c.to.backend.Has(t.Context(), m.image()); has || err != nil {
		t.Errorf("the target has its state: %v (%v)", has, err)
	}
	if entry, _ := m.entry(ledger.SourceRole); entry.Stage != terms.Freezing {
		t.Errorf("the stage is %s", entry.Stage)
	}
	m.carryOut(v1alpha1.OrderThaw)
	m.wantContainer(checkpoint.Running)
}

// TestATransferThatFailsDuringTheDumpIsRepeatedAfterIt without another dump.
func TestATransferThatFailsDuringTheDumpIsRepeatedAfterIt(t *testing.T) {
	c := newCluster(t, func(c *Config) { c.Limits.Tries = 2 })
	m := c.move(t, nil)
	c.from.follows()
	tries := 0
	c.from.backend.on("Follow", func(context.Context) error {
		if tries++; tries > 1 {
			return nil
		}
		return errors.New("the images cannot be read")
	})
	m.carryOut(v1alpha1.OrderPrepare)
	m.carryOut(v1alpha1.OrderFreeze)
	m.wantSteps(v1alpha1.SourceShipped, v1alpha1.TargetStaged)
	dumps := 0
	for _, call := range c.from.backend.calls() {
		if call == "Dump" {
			dumps++
		}
	}
	if dumps != 1 || tries != 2 {
		t.Errorf("%d dumps and %d tries to send, want 1 and 2", dumps, tries)
	}
}

// TestAStateThatIsSentDuringTheDumpIsNotSentAfterThaw: the order comes while both last.
func TestAStateThatIsSentDuringTheDumpIsNotSentAfterThaw(t *testing.T) {
	c := newCluster(t, nil)
	m := c.move(t, nil)
	c.from.follows()
	freezeUntil(t, m, c.from.backend.blocks("Dump"))
	m.carryOut(v1alpha1.OrderThaw)
	m.wantSteps(v1alpha1.SourceThawed, v1alpha1.TargetCleaned)
	m.wantContainer(checkpoint.Running)
	if has, err := c.to.backend.Has(t.Context(), m.image()); has || err != nil {
		t.Errorf("the target has its state: %v (%v)", has, err)
	}
}
