package agent

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/agent/agentdecide"
	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/descheduler/checkpoint/archive"
	"supercargo.dev/supercargo/descheduler/checkpoint/ledger"
	"supercargo.dev/supercargo/descheduler/checkpoint/terms"
	"supercargo.dev/supercargo/descheduler/checkpoint/transport"
)

// paged is a back-end whose containers have memory that can be read while they run, and that comes in the archive.
type paged struct {
	*scripted
	before, after []byte
}

func (b *paged) Pages(ctx context.Context, _ checkpoint.Container, visit func([]byte) error) error {
	if err := b.call(ctx, "Pages"); err != nil {
		return err
	}
	return visit(b.before)
}

func (b *paged) Archive(ctx context.Context, c checkpoint.Container, dir string, w io.Writer) error {
	a := archive.NewWriter(w)
	if err := a.From(archive.Checkpoint+"/pages-1.img", int64(len(b.after)), bytes.NewReader(b.after)); err != nil {
		return err
	}
	return b.scripted.Archive(ctx, c, dir, w) // it ends the archive
}

// Shipped returns what was really sent: there is no model of it.
func (b *paged) Shipped(sent, _ int64) int64 { return sent }

// memoryOf returns pages of different contents, which do not shrink.
func memoryOf(contents ...byte) (all []byte) {
	for _, content := range contents {
		page := make([]byte, checkpoint.PageBytes)
		_, _ = rand.NewChaCha8([32]byte{content}).Read(page)
		all = append(all, page...)
	}
	return all
}

// pagedMemory is the memory of containers with pages.
const pagedMemory = 16 * checkpoint.PageBytes

// presends returns a cluster whose containers have memory that is sent before the freeze.
func presends(t *testing.T, change func(*Config)) *cluster {
	t.Helper()
	c := newCluster(t, func(c *Config) {
		c.PresendAbove = memory
		if change != nil {
			change(c)
		}
	})
	c.from.pages()
	return c
}

// pages has the memory of the containers of a node read.
func (n *node) pages() {
	both := n.backends[v1alpha1.BackendSimulated]
	both.Source = &paged{n.backend, memoryOf(1, 2, 3), memoryOf(3, 1, 2, 4)}
	n.backends[v1alpha1.BackendSimulated] = both
}

// grown gives the container of a Migration memory: the model has only some bytes.
func (m *moving) grown() {
	m.t.Helper()
	m.carryOut(v1alpha1.OrderPrepare)
	for _, n := range []*node{m.from, m.to} {
		for _, entry := range n.ledger.All() {
			if entry.MemoryBytes = pagedMemory; entry.Migration == m.uid {
				if err := n.ledger.Put(entry); err != nil {
					m.t.Fatal(err)
				}
			}
		}
	}
}

// noPagesLeft checks that nothing is left of pages that were sent early.
func (m *moving) noPagesLeft() {
	m.t.Helper()
	if len(m.from.early) > 0 || len(m.to.kept) > 0 {
		m.t.Errorf("the source remembers pages of %d containers, and the target keeps those of %d", len(m.from.early), len(m.to.kept))
	}
	if left, err := filepath.Glob(filepath.Join(m.to.StateDir, unnamed)); err != nil || len(left) > 0 {
		m.t.Errorf("%q is left (%v)", left, err)
	}
}

func TestMemoryIsSentBeforeTheFreeze(t *testing.T) {
	c := presends(t, nil)
	m := c.move(t, nil)
	m.grown()
	c.from.backend.on("Pages", func(context.Context) error {
		m.wantContainer(checkpoint.Running)
		return nil
	})
	kept := 0
	c.from.backend.on("Freeze", func(context.Context) error {
		kept = len(c.to.kept)
		return nil
	})
	m.carryOut(v1alpha1.OrderFreeze)
	m.wantSteps(v1alpha1.SourceShipped, v1alpha1.TargetStaged)
	m.wantContainer(checkpoint.Frozen)
	if want := []string{"Inspect", "Pages", "Freeze", "Dump", "Archive"}; !slices.Equal(c.from.backend.calls(), want) || kept != 1 {
		t.Errorf("the source did %v, want %v, and the target kept the pages of %d containers", c.from.backend.calls(), want, kept)
	}
	m.wantImage()
	m.noPagesLeft()
	if entry, _ := m.entry(ledger.SourceRole); entry.ShipBytes < checkpoint.PageBytes || entry.ShipBytes > 2*checkpoint.PageBytes {
		t.Errorf("%d bytes are sent after the freeze, want those of the one page of four that the target does not have", entry.ShipBytes)
	}
	if sent := testutil.ToFloat64(c.from.metrics.bytes.WithLabelValues("presend")); sent == 0 {
		t.Error("no metric says that memory was sent")
	}
}

// TestASmallContainerIsFrozenAtOnce, and any one if the flag says so.
func TestASmallContainerIsFrozenAtOnce(t *testing.T) {
	for name, above := range map[string]int64{"small": memory + 1, "never": 0} {
		c := presends(t, func(c *Config) { c.PresendAbove = above })
		m := c.move(t, nil)
		m.carryOut(v1alpha1.OrderPrepare)
		m.carryOut(v1alpha1.OrderFreeze)
		m.wantSteps(v1alpha1.SourceShipped, v1alpha1.TargetStaged)
		if slices.Contains(c.from.backend.calls(), "Pages") {
			t.Errorf("%s: memory is sent early", name)
		}
	}
}

// TestAMoveContinuesIfMemoryCannotBeSentEarly: on either side.
func TestAMoveContinuesIfMemoryCannotBeSentEarly(t *testing.T) {
	for name, breaks := range map[string]func(*cluster){
		"the source cannot read it":      func(c *cluster) { c.from.backend.fails("Pages", errors.New("no such process")) },
		"the source may not":             func(c *cluster) { c.from.backend.fails("Pages", checkpoint.Fail("NotSupported", "no")) },
		"the target has no room for it":  func(c *cluster) { c.to.Limits.TotalBytes = 2*pagedMemory + pagedMemory/4 - 1 },
		"the target cannot write":        func(c *cluster) { c.to.StateDir = filepath.Join(c.to.StateDir, "missing") },
		"it is more than the target was": func(c *cluster) { c.to.Limits.ImageBytes = 2 * checkpoint.PageBytes },
		"it is not what the target takes": func(c *cluster) {
			c.from.backends[v1alpha1.BackendSimulated].Source.(*paged).before = []byte("part of a page")
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := presends(t, nil)
			m := c.move(t, nil)
			m.grown()
			breaks(c)
			m.carryOut(v1alpha1.OrderFreeze)
			m.wantSteps(v1alpha1.SourceShipped, v1alpha1.TargetStaged)
			m.wantImage()
			m.noPagesLeft()
		})
	}
}

// TestAMoveContinuesAfterAKillOfEitherAgent while memory is sent early, or after that.
func TestAMoveContinuesAfterAKillOfEitherAgent(t *testing.T) {
	for name, killed := range map[string]func(*cluster) *node{"source": func(c *cluster) *node { return c.from }, "target": func(c *cluster) *node { return c.to }} {
		for _, at := range []string{"Pages", "Freeze", "Dump"} {
			t.Run(name+"/"+at, func(t *testing.T) {
				c := presends(t, nil)
				m := c.move(t, nil)
				m.grown()
				m.order(v1alpha1.OrderFreeze)
				m.until(t, c.from.backend.blocks(at))
				if m.interrupt(); killed(c) == c.from {
					c.start(t, c.from)
					c.from.pages()
				} else {
					c.from.backend.on(at, func(context.Context) error { return nil })
					c.start(t, c.to)
				}
				c.settled(t)
				m.wantSteps(v1alpha1.SourceShipped, v1alpha1.TargetStaged)
				m.wantContainer(checkpoint.Frozen)
				m.wantImage()
				m.noPagesLeft()
				again := 0
				for _, call := range c.from.backend.calls() {
					if call == "Pages" {
						again++
					}
				}
				if killed(c) == c.from && again > 0 {
					t.Error("the next agent sends the memory early again")
				}
			})
		}
	}
}

// TestOtherOrdersEndTheSendingOfMemory: nothing is left of it, and the container was never frozen.
func TestOtherOrdersEndTheSendingOfMemory(t *testing.T) {
	for _, order := range []v1alpha1.MigrationOrder{v1alpha1.OrderThaw, v1alpha1.OrderClean} {
		c := presends(t, nil)
		m := c.move(t, nil)
		m.grown()
		m.order(v1alpha1.OrderFreeze)
		m.until(t, c.from.backend.blocks("Pages"))
		m.carryOut(order)
		m.wantContainer(checkpoint.Running)
		m.noPagesLeft()
		if m.frozen() {
			t.Errorf("order %s: the container was frozen", order)
		}
	}
}

// TestAThawedContainerLeavesNoPages on the target, nor a memory of them.
func TestAThawedContainerLeavesNoPages(t *testing.T) {
	c := presends(t, nil)
	m := c.move(t, nil)
	m.grown()
	m.order(v1alpha1.OrderFreeze)
	m.until(t, c.from.backend.blocks("Dump"))
	if len(c.from.early) != 1 || len(c.to.kept) != 1 {
		t.Fatalf("the source remembers the pages of %d containers, and the target keeps those of %d", len(c.from.early), len(c.to.kept))
	}
	m.carryOut(v1alpha1.OrderThaw)
	m.wantContainer(checkpoint.Running)
	m.noPagesLeft()
}

// TestAContainerThatExpiresIsForgottenAtOnce: nobody may order anything for long.
func TestAContainerThatExpiresIsForgottenAtOnce(t *testing.T) {
	c := presends(t, nil)
	m := c.move(t, nil)
	m.grown()
	m.order(v1alpha1.OrderFreeze)
	m.until(t, c.from.backend.blocks("Dump"))
	c.clock.step(2 * deadline)
	c.settled(t)
	m.wantContainer(checkpoint.Running)
	m.wantFailure(ledger.SourceRole, v1alpha1.MigrationReasonFreezeExpired, "the deadline has passed")
	if len(c.from.early) > 0 {
		t.Error("the source remembers its pages")
	}
}

// TestPagesCountAgainstTheLimitsOfTheNode while they are kept, and make room for the checkpoint that needs it, whether or not it
// refers to them.
func TestPagesCountAgainstTheLimitsOfTheNode(t *testing.T) {
	for _, refers := range []bool{true, false} {
		c := presends(t, nil)
		m := c.move(t, nil)
		m.grown()
		m.order(v1alpha1.OrderFreeze)
		m.until(t, c.from.backend.blocks("Dump"))
		other := ledger.ID{Migration: string(uidOf(7)), Node: "to", Role: ledger.TargetRole}
		if _, bytes := c.to.othersStaged(other); bytes != 2*pagedMemory+pagedMemory/4 {
			t.Errorf("%d bytes are taken, want those of the checkpoint and of the pages", bytes)
		}
		m.interrupt()
		if !refers {
			c.from.forgetEarly(ledger.ID{Migration: m.uid, Node: "from", Role: ledger.SourceRole})
		}
		c.from.backend.on("Dump", func(context.Context) error { return nil })
		c.to.Limits.TotalBytes = pagedMemory + pagedMemory/4 // there is room for one of both
		c.settled(t)
		m.wantSteps(v1alpha1.SourceShipped, v1alpha1.TargetStaged)
		m.noPagesLeft()
		tries := 0
		for _, call := range c.to.backend.calls() {
			if call == "Stage" {
				tries++
			}
		}
		if refers && tries != 2 || !refers && tries != 1 {
			t.Errorf("the checkpoint is staged %d times; that it refers to pages: %v", tries, refers)
		}
	}
}

// TestNoMoreMemoryIsSentThanMayBeFrozen: what the agent remembers of it is bounded.
func TestNoMoreMemoryIsSentThanMayBeFrozen(t *testing.T) {
	c := presends(t, func(c *Config) { c.Limits.Moves = 1 })
	first, second := c.move(t, nil), c.move(t, nil)
	first.grown()
	second.grown()
	first.order(v1alpha1.OrderFreeze)
	first.until(t, c.from.backend.blocks("Dump"))
	second.order(v1alpha1.OrderFreeze)
	for range 6 {
		if err := second.step(agentdecide.Dump); err != nil {
			t.Fatal(err)
		}
	}
	if entry, _ := second.entry(ledger.SourceRole); entry.PresentTo != "" || len(c.from.early) != 1 {
		t.Errorf("the agent remembers the pages of %d containers", len(c.from.early))
	}
	first.interrupt()
	c.from.backend.on("Dump", func(context.Context) error { return nil })
	c.settled(t)
	first.wantSteps(v1alpha1.SourceShipped, v1alpha1.TargetStaged)
	second.wantSteps(v1alpha1.SourceShipped, v1alpha1.TargetStaged)
	if entry, _ := second.entry(ledger.SourceRole); entry.PresentTo == "" {
		t.Error("the memory of the second is not sent early")
	}
}

// TestMemoryIsNotSentWhileNoContainerMayBeFrozen: what is sent long before the freeze has changed by then. The first container is
// too small to have its memory sent.
func TestMemoryIsNotSentWhileNoContainerMayBeFrozen(t *testing.T) {
	c := presends(t, func(c *Config) { c.Limits.Moves, c.PresendAbove = 1, pagedMemory })
	first, second := c.move(t, nil), c.move(t, nil)
	first.carryOut(v1alpha1.OrderPrepare)
	second.grown()
	first.order(v1alpha1.OrderFreeze)
	first.until(t, c.from.backend.blocks("Dump"))
	second.order(v1alpha1.OrderFreeze)
	for range 6 {
		if err := second.step(agentdecide.Dump); err != nil {
			t.Fatal(err)
		}
	}
	if entry, _ := second.entry(ledger.SourceRole); entry.PresentTo != "" {
		t.Error("the memory of the second is sent while it cannot be frozen")
	}
	first.interrupt()
}

// TestPagesAreKeptOnlyForACheckpointThatIsExpected, in place of earlier ones.
func TestPagesAreKeptOnlyForACheckpointThatIsExpected(t *testing.T) {
	c := presends(t, nil)
	m := c.move(t, nil)
	m.grown()
	s := transport.Session{Migration: m.uid, Node: "to"}
	body := func(pages []byte) transport.Body { return whole{strings.NewReader(string(pages))} }
	first, err := c.to.keep(t.Context(), s, body(memoryOf(1, 2)))
	if err != nil || first.Pages != 2 || first.Token == "" {
		t.Fatalf("kept %+v (%v)", first, err)
	}
	second, err := c.to.keep(t.Context(), s, body(memoryOf(3)))
	if err != nil || second.Pages != 1 || second.Token == first.Token {
		t.Errorf("kept %+v (%v)", second, err)
	}
	if _, has := c.to.earlyPages(s, first.Token); has {
		t.Error("the first pages are still known")
	}
	page := make([]byte, checkpoint.PageBytes)
	if pages, has := c.to.earlyPages(s, second.Token); !has || pages.Pages != 1 {
		t.Errorf("the second are %+v, %v", pages, has)
	} else if _, err := pages.File.ReadAt(page, 0); err != nil || !bytes.Equal(page, memoryOf(3)) {
		t.Errorf("the page differs (%v)", err)
	}
	m.carryOut(v1alpha1.OrderFreeze)
	if entry, _ := m.entry(ledger.TargetRole); entry.Stage != terms.Staged {
		t.Fatalf("the stage is %s", entry.Stage)
	}
	if _, err := c.to.keep(t.Context(), s, body(memoryOf(1))); !errors.Is(err, transport.ErrNotNow) {
		t.Errorf("pages after the checkpoint are answered with %v", err)
	}
	m.wantImage()
	if _, err := c.to.keep(t.Context(), transport.Session{Migration: "another", Node: "to"}, body(memoryOf(1))); !errors.Is(err, transport.ErrNotNow) {
		t.Errorf("pages of an unknown migration are answered with %v", err)
	}
}

// TestPagesThatAreRefusedTakeNoRoom: too many, or not whole.
func TestPagesThatAreRefusedTakeNoRoom(t *testing.T) {
	c := presends(t, nil)
	m := c.move(t, nil)
	m.grown()
	s := transport.Session{Migration: m.uid, Node: "to"}
	body := func(pages []byte) transport.Body { return whole{strings.NewReader(string(pages))} }
	second, err := c.to.keep(t.Context(), s, body(memoryOf(3)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.to.keep(t.Context(), s, body(make([]byte, pagedMemory+pagedMemory/4+checkpoint.PageBytes))); checkpoint.AsFailure(err) == nil {
		t.Errorf("more than may come is answered with %v", err)
	}
	if _, has := c.to.earlyPages(s, second.Token); has {
		t.Error("pages are left after a failure")
	}
	if len(c.to.kept) > 0 {
		t.Error("pages that were refused take room")
	}
	if _, err := c.to.keep(t.Context(), s, body([]byte("part of a page"))); checkpoint.AsFailure(err) == nil {
		t.Errorf("part of a page is answered with %v", err)
	}
	entry, _ := m.entry(ledger.TargetRole)
	entry.MemoryBytes = 13107 // with a quarter more, one byte less than four pages
	if err := c.to.ledger.Put(entry); err != nil {
		t.Fatal(err)
	}
	if _, err := c.to.keep(t.Context(), s, body(memoryOf(1, 2, 3, 4))); checkpoint.AsFailure(err) == nil {
		t.Errorf("a byte more than may come is answered with %v", err)
	}
}

// whole is a body that is complete.
type whole struct{ io.Reader }

func (whole) Sum() string { return "xxh64:0" }
func (whole) Abort()      {}

// TestPagesNeedRoomBesidesTheCheckpoints that are expected: there is a disk of some size, and nobody has 2^50 bytes.
func TestPagesNeedRoomBesidesTheCheckpoints(t *testing.T) {
	c := presends(t, func(c *Config) { c.Limits.ImageBytes, c.Limits.TotalBytes = 1<<60, 1<<60 })
	m := c.move(t, nil)
	m.grown()
	entry, _ := m.entry(ledger.TargetRole)
	if err := c.to.roomToKeep(entry, pagedMemory); err != nil {
		t.Errorf("a small one: %v", err)
	}
	other := entry
	other.Migration, other.Name, other.MemoryBytes = string(uidOf(9)), "other", 1<<50
	for what, err := range map[string]error{"the pages": c.to.roomToKeep(entry, 1<<50), "the checkpoint": c.to.roomToKeep(other, pagedMemory)} {
		if failure := checkpoint.AsFailure(err); failure == nil || failure.Reason != v1alpha1.MigrationReasonNoRoom || !strings.Contains(failure.Message, "--state-dir") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := c.to.ledger.Put(other); err != nil {
		t.Fatal(err)
	}
	if err := c.to.roomToKeep(entry, pagedMemory); checkpoint.AsFailure(err) == nil {
		t.Errorf("another checkpoint is expected that needs the room: %v", err)
	}
}

// TestAnAgentRemovesThePagesOfOneThatWasKilled before it had removed the name of their file.
func TestAnAgentRemovesThePagesOfOneThatWasKilled(t *testing.T) {
	c := presends(t, nil)
	left := filepath.Join(c.to.StateDir, "pages-123.tmp")
	if err := os.WriteFile(left, memoryOf(1), 0o600); err != nil {
		t.Fatal(err)
	}
	c.start(t, c.to)
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is left (%v)", err)
	}
}

// TestMemoryIsNotSentShortlyBeforeTheDeadline.
func TestMemoryIsNotSentShortlyBeforeTheDeadline(t *testing.T) {
	c := presends(t, nil)
	m := c.move(t, nil)
	m.grown()
	c.clock.step(deadline - time.Second)
	if m.order(v1alpha1.OrderFreeze); m.step(agentdecide.Nothing) != nil || slices.Contains(c.from.backend.calls(), "Pages") {
		t.Error("memory is sent early")
	}
}
