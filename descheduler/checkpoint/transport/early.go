package transport

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"time"

	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/checkpoint"
)

const pageBytes = checkpoint.PageBytes

var zeroPage [pageBytes]byte

// Early is what a source knows of the pages that a target has before the checkpoint is sent. A page is found by its content
// alone: neither its address nor what the container has done since matters.
//
// Contents are compared by a keyed hash of 128 bits: GHASH, the universal hash of AES-GCM, under a random key that is used for
// one Early and leaves this process no more than the hashes do. Two pages that differ have the same hash with a probability of
// at most 2^-119, also if an attacker chose the contents. It takes 24 bytes of memory for each page that it has room for.
type Early struct {
	hash  cipher.AEAD
	nonce [12]byte
	sum   []byte // reused
	// slots is a hash table with linear probing. A hash is as good as random, so its first bytes say where it is.
	slots []slot
	most  uint32
	pages uint32
	token string
}

// slot has a page, or none if number is 0.
type slot struct {
	sum    [16]byte
	number uint32
}

// NewEarly returns an Early with room for the pages of some bytes of memory.
func NewEarly(memory int64) (*Early, error) {
	most := uint32(min(max(memory, 0)/pageBytes, math.MaxInt32))
	var key [32]byte
	_, _ = rand.Read(key[:]) // it never fails
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, fmt.Errorf("set up the hash of memory pages: %w", err)
	}
	hash, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("set up the hash of memory pages: %w", err)
	}
	return &Early{hash: hash, sum: make([]byte, 0, 16), slots: make([]slot, uint64(most)+uint64(most)/5+1), most: most}, nil
}

// Pages returns the number of pages that the target has.
func (e *Early) Pages() int64 { return int64(e.pages) }

// place returns the slot of a page, which is empty if the page is new.
func (e *Early) place(page []byte) *slot {
	var sum [16]byte
	// The nonce may repeat, because the hashes are not sent.
	e.sum = e.hash.Seal(e.sum[:0], e.nonce[:], nil, page)
	copy(sum[:], e.sum)
	at, _ := bits.Mul64(binary.LittleEndian.Uint64(sum[:]), uint64(len(e.slots)))
	for ; ; at++ {
		if at == uint64(len(e.slots)) {
			at = 0
		}
		s := &e.slots[at]
		if s.number == 0 {
			s.sum = sum // it counts once it has a number
			return s
		}
		if s.sum == sum {
			return s
		}
	}
}

// find returns the number of a page, or 0 if the page is zero; false if the target does not have it.
func (e *Early) find(page []byte) (uint32, bool) {
	if bytes.Equal(page, zeroPage[:]) {
		return 0, true
	}
	s := e.place(page)
	return s.number, s.number != 0
}

// add writes pages that the target does not have, as far as there is room. The last pages that are not whole are left out.
func (e *Early) add(w io.Writer, pages []byte) error {
	for ; len(pages) >= pageBytes && e.pages < e.most; pages = pages[pageBytes:] {
		page := pages[:pageBytes]
		if bytes.Equal(page, zeroPage[:]) {
			continue
		}
		s := e.place(page)
		if s.number != 0 {
			continue
		}
		e.pages++
		s.number = e.pages
		if _, err := w.Write(page); err != nil {
			return err
		}
	}
	return nil
}

// full reports whether there is no room for another page.
func (e *Early) full() bool { return e.pages == e.most }

// Kept is the response of a target that keeps pages.
type Kept struct {
	// Token identifies them: a target that has lost them has another one, or none.
	Token string `json:"token"`
	// Pages is their number.
	Pages int64 `json:"pages"`
}

// EarlyPages are the pages that a target keeps.
type EarlyPages struct {
	// File has them one after the other, the first with number 1.
	File io.ReaderAt
	// Pages is their number.
	Pages int64
}

// ErrNoPages refuses a checkpoint that refers to pages that the target does not keep. The source sends it whole.
var ErrNoPages = errors.New("the target no longer has the memory pages that were sent before the freeze")

// errReference ends reading a body that refers to a page that did not come. No source sends that.
func errReference() error {
	return checkpoint.Fail(v1alpha1.MigrationReasonInvalidArchive, "the received data refers to a memory page that was not sent")
}

// A chunk of references has runs of pages in the order of the content, of runBytes each: the number of the first page and how
// many there are, in big-endian order. Number 0 stands for zero pages.
const (
	runBytes = 8
	maxRuns  = 4096
	// maxReferred is how many pages a chunk refers to: what is sent of a memory that the target has is still progress.
	maxReferred = 16 << 20 / pageBytes
)

// references collects runs.
type references struct {
	chunk []byte // a header and runs
	pages uint32
}

// add appends a page. It returns false if the chunk must be written first.
func (r *references) add(number uint32) bool {
	if r.pages == maxReferred {
		return false
	}
	if len(r.chunk) > headerBytes {
		last := r.chunk[len(r.chunk)-runBytes:]
		first, count := binary.BigEndian.Uint32(last), binary.BigEndian.Uint32(last[4:])
		if first == 0 && number == 0 || first != 0 && number == first+count {
			binary.BigEndian.PutUint32(last[4:], count+1)
			r.pages++
			return true
		}
	}
	if len(r.chunk) == headerBytes+maxRuns*runBytes {
		return false
	}
	r.chunk = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(r.chunk, number), 1)
	r.pages++
	return true
}

// take returns the chunk, and begins another.
func (r *references) take() []byte {
	out := r.chunk
	out[0] = referring
	binary.BigEndian.PutUint32(out[1:], uint32(len(out)-headerBytes))
	r.chunk, r.pages = r.chunk[:headerBytes], 0
	return out
}

// Pass describes one reading of the memory of a container.
type Pass struct {
	// Number is 1 for the first.
	Number int
	// Took is how long it lasted, and Pages how many pages it sent.
	Took  time.Duration
	Pages int64
}

// The memory is read again if that sends much that has changed: at most maxPasses times, if the last reading took longer than
// longPass and sent more than fewPages.
const (
	maxPasses = 3
	longPass  = time.Second
	fewPages  = 16 << 20 / pageBytes
)

// again reports whether to read the memory once more.
func (p Pass) again() bool {
	return p.Number < maxPasses && p.Took > longPass && p.Pages > fewPages
}

// errEnough ends a reading of the memory whose time is over.
var errEnough = errors.New("the time to send memory before the freeze is over")

// presend is one transfer of pages before the freeze.
type presend struct {
	early *Early
	clock clock.PassiveClock
	until time.Time
	read  func(func(pages []byte) error) error
}

// write writes pages until nothing is left to send, or no time or room.
func (p presend) write(w io.Writer) error {
	for pass := (Pass{Number: 1}); ; pass = (Pass{Number: pass.Number + 1}) {
		began, before := p.clock.Now(), p.early.pages
		err := p.read(func(pages []byte) error {
			if p.early.full() || p.clock.Now().After(p.until) {
				return errEnough
			}
			return p.early.add(w, pages)
		})
		if errors.Is(err, errEnough) {
			return nil
		}
		if err != nil {
			return err
		}
		if pass.Took, pass.Pages = p.clock.Since(began), int64(p.early.pages-before); !pass.again() {
			return nil
		}
	}
}
