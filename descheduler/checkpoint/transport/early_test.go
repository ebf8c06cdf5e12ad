package transport

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/checkpoint"
)

// pageOf returns the page with a content; 0 is the zero page.
func pageOf(content int) []byte {
	page := make([]byte, pageBytes)
	if content > 0 {
		_, _ = rand.NewChaCha8([32]byte{byte(content), byte(content >> 8)}).Read(page)
	}
	return page
}

func pagesOf(contents []int) []byte {
	var all []byte
	for _, content := range contents {
		all = append(all, pageOf(content)...)
	}
	return all
}

// sentEarly returns an Early with room for some pages, to which pages were added, and what was written.
func sentEarly(t rapid.TB, room int, pages []byte) (*Early, []byte) {
	t.Helper()
	early, err := NewEarly(int64(room) * pageBytes)
	if err != nil {
		t.Fatal(err)
	}
	var written bytes.Buffer
	if err := early.add(&written, pages); err != nil {
		t.Fatal(err)
	}
	return early, written.Bytes()
}

// TestPagesThatCameEarlyAreReferredTo compares with a copy: whatever the container has done since, the target gets what was
// written, and no page again that came before.
func TestPagesThatCameEarlyAreReferredTo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		contents := rapid.SliceOfN(rapid.IntRange(0, 40), 0, 60)
		before, after := contents.Draw(t, "before"), contents.Draw(t, "after")
		room := rapid.IntRange(0, 50).Draw(t, "room")
		early, file := sentEarly(t, room, pagesOf(before))
		head, tail := pageOf(1)[:rapid.IntRange(0, 600).Draw(t, "head")], pageOf(2)[:rapid.IntRange(0, 600).Draw(t, "tail")]
		memory, piece := pagesOf(after), rapid.IntRange(1, 3*pageBytes).Draw(t, "piece")
		want := bytes.Join([][]byte{head, memory, tail, memory}, nil)
		var body bytes.Buffer
		sum, err := pack(&body, early, func(w io.Writer) error {
			for _, part := range []struct {
				pages bool
				bytes []byte
			}{{false, head}, {true, memory}, {false, tail}, {true, memory}} {
				if part.pages {
					w.(checkpoint.PageWriter).Pages(int64(len(part.bytes)))
				}
				for rest := part.bytes; len(rest) > 0; {
					n, err := w.Write(rest[:min(piece, len(rest))])
					if err != nil {
						return err
					}
					rest = rest[n:]
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		u, err := newUnpacker(iotest.HalfReader(bytes.NewReader(body.Bytes())), EarlyPages{bytes.NewReader(file), early.Pages()})
		if err != nil {
			t.Fatal(err)
		}
		defer u.Close()
		got, err := io.ReadAll(u)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes become %d (%v)", len(want), len(got), err)
		}
		plain, err := pack(io.Discard, nil, func(w io.Writer) error { _, err := w.Write(want); return err })
		if err != nil || sum != plain {
			t.Fatalf("the checksum is %s, and that of the content is %s (%v)", sum, plain, err)
		}
		checkSize(t, body.Len(), before, after, room, len(head)+len(tail))
	})
}

// checkSize checks that a body has those pages that the target does not have, and no others. Equal ones may shrink together.
func checkSize(t *rapid.T, got int, before, after []int, room, rest int) {
	has := map[int]bool{0: true}
	for _, content := range before {
		if len(has) <= room { // with the zero page, which needs none
			has[content] = true
		}
	}
	missing, different := 0, map[int]bool{}
	for _, content := range after {
		if !has[content] {
			missing++
			different[content] = true
		}
	}
	most := 2*missing*pageBytes + rest + (4*len(after)+4)*(headerBytes+runBytes)
	if got > most || got < len(different)*pageBytes {
		t.Fatalf("the body has %d bytes, and %d of %d pages are missing, %d different ones", got, missing, len(after), len(different))
	}
}

// TestTheTableOfPagesIsBounded: what an Early needs follows from the memory that it is made for, and it never grows.
func TestTheTableOfPagesIsBounded(t *testing.T) {
	var all []int
	for content := range 200 {
		all = append(all, content+1)
	}
	early, file := sentEarly(t, 100, pagesOf(all))
	if early.Pages() != 100 || len(file) != 100*pageBytes || len(early.slots) != 121 || !early.full() {
		t.Errorf("%d pages, %d bytes and %d slots, want 100 pages", early.Pages(), len(file), len(early.slots))
	}
	for i, content := range all {
		if number, has := early.find(pageOf(content)); has != (i < 100) || has && number != uint32(i+1) {
			t.Errorf("page %d has number %d, %v", i+1, number, has)
		}
	}
	for _, memory := range []int64{-1, 0, pageBytes - 1} {
		if early, file := sentEarly(t, 0, pageOf(1)); early.Pages() != 0 || len(file) != 0 {
			t.Errorf("%d bytes of memory have room for %d pages", memory, early.Pages())
		}
	}
}

// TestMemoryIsReadAgainWhileThatSendsMuch, and while there is time.
func TestMemoryIsReadAgainWhileThatSendsMuch(t *testing.T) {
	for name, tc := range map[string]struct {
		pass Pass
		want bool
	}{
		"long, and much was sent":       {Pass{1, longPass + 1, fewPages + 1}, true},
		"the third":                     {Pass{3, longPass + 1, fewPages + 1}, false},
		"short: little changes so fast": {Pass{1, longPass, fewPages + 1}, false},
		"little was sent":               {Pass{1, longPass + 1, fewPages}, false},
	} {
		if got := tc.pass.again(); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	now := time.Unix(0, 0)
	clock := clocktesting.NewFakePassiveClock(now)
	early, _ := sentEarly(t, 100, nil)
	var sent bytes.Buffer
	reads := 0
	err := presend{early, clock, now.Add(time.Minute), func(visit func([]byte) error) error {
		for content := 1; ; content++ {
			if reads++; content == 4 {
				clock.SetTime(now.Add(time.Hour))
			}
			if err := visit(pageOf(content)); err != nil {
				return err
			}
		}
	}}.write(&sent)
	if err != nil || reads != 4 || early.Pages() != 3 || sent.Len() != 3*pageBytes {
		t.Errorf("%d reads have sent %d pages (%v), want the 3 before the time was over", reads, early.Pages(), err)
	}
	broken := errors.New("the memory cannot be read")
	if err := (presend{early, clock, now, func(func([]byte) error) error { return broken }}).write(&sent); !errors.Is(err, broken) {
		t.Errorf("a reader that fails ends with %v", err)
	}
}

// keeps has a bench keep pages.
func (b *bench) keeps(token *string) *bytes.Buffer {
	var kept bytes.Buffer
	b.receiver.Keep = func(_ context.Context, _ Session, body Body) (Kept, error) {
		kept.Reset()
		n, err := io.Copy(&kept, body)
		return Kept{Token: *token, Pages: n / pageBytes}, err
	}
	b.receiver.Early = func(_ Session, got string) (EarlyPages, bool) {
		return EarlyPages{bytes.NewReader(kept.Bytes()), int64(kept.Len() / pageBytes)}, got == *token
	}
	return &kept
}

func (b *bench) peer() Peer {
	return Peer{Address: b.address, Certificate: b.target.Certificate, Migration: "m1", Node: "node.b"}
}

// presend sends pages early.
func (b *bench) presend(pages []byte) (*Early, error) {
	b.Helper()
	early, err := NewEarly(int64(len(pages)))
	if err != nil {
		b.Fatal(err)
	}
	_, err = b.sender.Presend(b.Context(), b.source, b.peer(), early, time.Now().Add(time.Hour), func(visit func([]byte) error) error { return visit(pages) })
	return early, err
}

// sendPages sends a checkpoint of pages.
func (b *bench) sendPages(pages []byte) (Sent, error) {
	return b.sender.Send(b.Context(), b.source, b.peer(), func(w io.Writer) error {
		w.(checkpoint.PageWriter).Pages(int64(len(pages)))
		_, err := w.Write(pages)
		return err
	})
}

func TestACheckpointRefersToPagesThatCameEarly(t *testing.T) {
	b, token := newBench(t), "first"
	kept := b.keeps(&token)
	b.listen()
	before, after := pagesOf([]int{1, 2, 3, 4, 5, 6, 7, 8}), pagesOf([]int{8, 3, 9, 1, 2, 4, 5, 6, 0})
	var err error
	if b.sender.Early, err = b.presend(before); err != nil || !bytes.Equal(kept.Bytes(), before) {
		t.Fatalf("the target keeps %d bytes (%v)", kept.Len(), err)
	}
	sent, err := b.sendPages(after)
	if err != nil || !bytes.Equal(b.taken, after) || sent.WireBytes > 2*pageBytes {
		t.Errorf("%d bytes arrive, of which %d were sent (%v)", len(b.taken), sent.WireBytes, err)
	}
}

// TestATargetThatHasLostThePagesGetsTheCheckpointWhole: its agent was killed in between.
func TestATargetThatHasLostThePagesGetsTheCheckpointWhole(t *testing.T) {
	b, token := newBench(t), "first"
	b.sender.Tries = 1
	b.keeps(&token)
	b.listen()
	pages := pagesOf([]int{1, 2, 3, 4, 5, 6, 7, 8})
	var err error
	if b.sender.Early, err = b.presend(pages); err != nil {
		t.Fatal(err)
	}
	token = "second"
	sent, err := b.sendPages(pages)
	if err != nil || !bytes.Equal(b.taken, pages) || sent.WireBytes < int64(len(pages)) || sent.Tries != 1 {
		t.Errorf("%d bytes arrive, of which %d were sent in %d tries (%v)", len(b.taken), sent.WireBytes, sent.Tries, err)
	}
}

// TestATargetThatKeepsNoPagesRefusesThem, such as one of an earlier version.
func TestATargetThatKeepsNoPagesRefusesThem(t *testing.T) {
	b := newBench(t)
	b.listen()
	if _, err := b.presend(pageOf(1)); err == nil || checkpoint.AsFailure(err) != nil {
		t.Errorf("sending pages ends with %v, want an error that is not permanent", err)
	}
}

// TestATargetThatMiscountsIsNotReferredTo: it may have lost some.
func TestATargetThatMiscountsIsNotReferredTo(t *testing.T) {
	b := newBench(t)
	for name, kept := range map[string]Kept{"fewer": {"token", 1}, "more": {"token", 3}, "no token": {"", 2}, "a long token": {strings.Repeat("x", maxToken+1), 2}} {
		b.receiver.Keep = func(_ context.Context, _ Session, body Body) (Kept, error) {
			_, err := io.Copy(io.Discard, body)
			return kept, err
		}
		if b.address == "" {
			b.listen()
		}
		if _, err := b.presend(pagesOf([]int{1, 2})); err == nil {
			t.Errorf("%s: the pages count as sent", name)
		}
	}
}

// runs returns a chunk of references.
func runs(numbers ...uint32) []byte {
	chunk := []byte{referring}
	chunk = binary.BigEndian.AppendUint32(chunk, uint32(4*len(numbers)))
	for _, number := range numbers {
		chunk = binary.BigEndian.AppendUint32(chunk, number)
	}
	return chunk
}

// TestAReferenceToAPageThatDidNotComeIsRefused for good: no source sends it.
func TestAReferenceToAPageThatDidNotComeIsRefused(t *testing.T) {
	for name, chunk := range map[string][]byte{
		"the page after the last": runs(3, 1), "one too many": runs(1, 3), "as many as there can be": runs(1, 1<<32-1),
		"from the last that there can be": runs(1<<32-1, 1<<32-1), "none": runs(1, 0),
	} {
		b, token := newBench(t), "token"
		b.keeps(&token)
		b.listen()
		if _, err := b.presend(pagesOf([]int{1, 2})); err != nil {
			t.Fatal(err)
		}
		if code, text := b.attack(token, chunk); code != http.StatusUnprocessableEntity || !strings.Contains(text, "refers to a memory page that was not sent") || b.taken != nil {
			t.Errorf("%s: answered with %d: %s", name, code, text)
		}
	}
}

// TestReferencesWithoutPagesAreRefused: nothing came early, or the token is another.
func TestReferencesWithoutPagesAreRefused(t *testing.T) {
	b, token := newBench(t), "token"
	b.listen()
	if code, text := b.attack("", runs(1, 1)); code != http.StatusUnprocessableEntity {
		t.Errorf("without pages: answered with %d: %s", code, text)
	}
	if code, text := b.attack("token", runs(1, 1)); code != http.StatusConflict || !strings.Contains(text, ErrNoPages.Error()) {
		t.Errorf("without a receiver of pages: answered with %d: %s", code, text)
	}
	b = newBench(t)
	b.keeps(&token)
	b.listen()
	if code, text := b.attack("another", runs(1, 1)); code != http.StatusConflict || !strings.Contains(text, ErrNoPages.Error()) {
		t.Errorf("with another token: answered with %d: %s", code, text)
	}
}

// TestAFewReferencesThatBecomeManyBytesAreRefused: eight bytes stand for up to 16 TiB.
func TestAFewReferencesThatBecomeManyBytesAreRefused(t *testing.T) {
	for name, chunk := range map[string][]byte{"zeros": runs(0, 1<<32-1), "the same pages": bytes.Repeat(runs(bytesOf(1, 2, 1000)...), 1000)} {
		b, token := newBench(t), "token"
		b.receiver.MaxBytes = 1 << 20
		b.keeps(&token)
		b.listen()
		if _, err := b.presend(pagesOf([]int{1, 2})); err != nil {
			t.Fatal(err)
		}
		if code, text := b.attack(token, chunk); code != http.StatusUnprocessableEntity || !strings.Contains(text, "larger than the maximum of 1048576 bytes") {
			t.Errorf("%s: answered with %d: %s", name, code, text)
		}
	}
}

// bytesOf returns a run of pages, so many times.
func bytesOf(first, count uint32, times int) (all []uint32) {
	for range times {
		all = append(all, first, count)
	}
	return all
}

func TestChunksOfReferencesThatNoSourceSendsAreRefused(t *testing.T) {
	for name, chunk := range map[string][]byte{"half a run": runs(1), "too many runs": runs(bytesOf(1, 1, maxRuns+1)...), "no runs": runs()} {
		b, token := newBench(t), "token"
		b.keeps(&token)
		b.listen()
		if _, err := b.presend(pagesOf([]int{1, 2})); err != nil {
			t.Fatal(err)
		}
		if code, text := b.attack(token, chunk); code != http.StatusConflict || !strings.Contains(text, errBody.Error()) {
			t.Errorf("%s: answered with %d: %s", name, code, text)
		}
	}
}

// attack sends a body that refers to pages with a token, and returns the answer.
func (b *bench) attack(token string, body []byte) (int, string) {
	b.Helper()
	c := b.dial()
	header := "PUT " + pathPrefix + "m1 HTTP/1.1\r\nHost: target\r\nTransfer-Encoding: chunked\r\nTrailer: " + sumTrailer + "\r\n"
	if token != "" {
		header += tokenHeader + ": " + token + "\r\n"
	}
	go func() {
		_, _ = c.Write(append([]byte(header+"\r\n"), chunk(body)...)) // the target may answer before
		_, _ = io.WriteString(c, "0\r\n"+sumTrailer+": xxh64:0\r\n\r\n")
	}()
	return b.answer(c)
}

// TestPagesWithoutEndAreRefused: those that come early have the limits of a checkpoint.
func TestPagesWithoutEndAreRefused(t *testing.T) {
	b, token := newBench(t), "token"
	b.receiver.MaxBytes = 1 << 20
	b.keeps(&token)
	b.listen()
	if _, err := b.presend(noise(t, 2<<20)); err == nil || checkpoint.AsFailure(err).Reason != v1alpha1.MigrationReasonTooLarge {
		t.Errorf("more pages than a checkpoint may have end with %v", err)
	}
}

func BenchmarkPagesThatCameEarly(b *testing.B) {
	pages := memory(16<<10, func(int) bool { return false })
	all, _ := sentEarly(b, 16<<10, pages)
	others, _ := sentEarly(b, 16<<10, noise(b, len(pages)))
	for name, early := range map[string]*Early{"all": all, "none": others, "not asked": nil} {
		b.Run("send/"+name, func(b *testing.B) {
			b.SetBytes(int64(len(pages)))
			for b.Loop() {
				if _, err := pack(io.Discard, early, func(w io.Writer) error {
					w.(checkpoint.PageWriter).Pages(int64(len(pages)))
					_, err := w.Write(pages)
					return err
				}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("add", func(b *testing.B) {
		b.SetBytes(int64(len(pages)))
		for b.Loop() {
			if early, _ := sentEarly(b, 16<<10, pages); early.Pages() != 16<<10 {
				b.Fatal(early.Pages())
			}
		}
	})
}
