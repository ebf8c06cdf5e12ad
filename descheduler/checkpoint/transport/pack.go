package transport

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"
)

// A body is a sequence of chunks. Each has a header of headerBytes, the encoding and the length of its content in big-endian
// order, and the content. Memory is often incompressible, and to find that out by compressing it takes longer than to send it,
// so each chunk is compressed only if a sample of it shrinks.
const (
	headerBytes = 5
	// chunkBytes is the maximum size of the content of a chunk, before and after decompression, and so the memory that both
	// sides need.
	chunkBytes = 256 << 10

	raw        = 0 // the content is as it was written
	compressed = 1 // the content is a frame of zstd
	referring  = 2 // the content is runs of pages that were sent early
)

const (
	// A sample consists of samplePieces pieces, so that it finds the zero pages among others.
	samplePieces = 8
	pieceBytes   = 512
	// shrinks is the largest share of its size to which a sample must shrink, in percent.
	shrinks = 90
)

// packer writes a body, and computes the checksum of what it is given.
type packer struct {
	w    io.Writer
	sum  *xxhash.Digest
	zstd *zstd.Encoder
	// chunk is a header and the content that is not written yet.
	chunk []byte
	// sample and packed are reused.
	sample, packed []byte

	// early are the pages that the target has; nil for none. The other fields are only used with it.
	early *Early
	// buffer is w.
	buffer *bufio.Writer
	// pages is how many of the next bytes are whole pages, and part the beginning of a page that is not complete.
	pages int64
	part  []byte
	runs  references
}

func newPacker(w io.Writer, early *Early) (*packer, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(chunkBytes), zstd.WithEncoderCRC(false)) // the body has a checksum
	if err != nil {
		return nil, fmt.Errorf("set up compression: %w", err)
	}
	p := &packer{
		w: w, sum: xxhash.New(), zstd: encoder, chunk: make([]byte, headerBytes, headerBytes+chunkBytes), sample: make([]byte, 0, samplePieces*pieceBytes),
	}
	if early != nil { // chunks may be small
		p.early, p.buffer, p.part, p.runs.chunk = early, bufio.NewWriterSize(w, pipeBytes), make([]byte, 0, pageBytes), make([]byte, headerBytes)
		p.w = p.buffer
	}
	return p, nil
}

// Pages announces that the next n bytes are pages of memory. Those that the target has are not written, but referred to.
func (p *packer) Pages(n int64) {
	if p.early != nil {
		p.pages = n - n%pageBytes
	}
}

// Write implements io.Writer.
func (p *packer) Write(b []byte) (int, error) {
	_, _ = p.sum.Write(b) // a hash takes everything
	for written := 0; ; {
		var n int
		var err error
		if p.pages > 0 {
			n, err = p.page(b[written:])
		} else {
			n, err = p.plain(b[written:])
		}
		if written += n; err != nil || written == len(b) {
			return written, err
		}
	}
}

// page takes bytes of at most one page, and writes the page once it is complete.
func (p *packer) page(b []byte) (int, error) {
	page, n := b, min(len(b), pageBytes-len(p.part))
	if n < pageBytes {
		p.part = append(p.part, b[:n]...)
		page = p.part
	}
	if len(page) < pageBytes {
		return n, nil
	}
	p.pages -= pageBytes
	p.part = p.part[:0]
	if number, has := p.early.find(page[:pageBytes]); has {
		return n, p.refer(number)
	}
	_, err := p.plain(page[:pageBytes])
	return n, err
}

// refer writes a reference to a page.
func (p *packer) refer(number uint32) error {
	if err := p.flush(); err != nil {
		return err
	}
	if p.runs.add(number) {
		return nil
	}
	if err := p.flushRuns(); err != nil {
		return err
	}
	p.runs.add(number)
	return p.buffer.Flush() // the target, and who watches for progress, see it
}

// flushRuns writes the references, if there are any.
func (p *packer) flushRuns() error {
	if len(p.runs.chunk) <= headerBytes {
		return nil
	}
	_, err := p.w.Write(p.runs.take())
	return err
}

// end writes what is left. A body that does not end so is not complete.
func (p *packer) end() error {
	err := errors.Join(p.flush(), p.flushRuns())
	if err == nil && p.buffer != nil {
		err = p.buffer.Flush()
	}
	return err
}

// plain takes bytes that are not referred to.
func (p *packer) plain(b []byte) (int, error) {
	if err := p.flushRuns(); err != nil {
		return 0, err
	}
	for written := 0; ; {
		n := min(len(b)-written, headerBytes+chunkBytes-len(p.chunk))
		p.chunk = append(p.chunk, b[written:written+n]...)
		written += n
		if len(p.chunk) < headerBytes+chunkBytes {
			return written, nil
		}
		if err := p.flush(); err != nil {
			return written, err
		}
	}
}

// flush writes the chunk, if it has any content.
func (p *packer) flush() error {
	content := p.chunk[headerBytes:]
	if len(content) == 0 {
		return nil
	}
	out := p.chunk
	out[0] = raw
	if p.shrinks(content) {
		p.packed = p.zstd.EncodeAll(content, append(p.packed[:0], make([]byte, headerBytes)...))
		if len(p.packed) < len(out) {
			out = p.packed
			out[0] = compressed
		}
	}
	binary.BigEndian.PutUint32(out[1:], uint32(len(out)-headerBytes))
	p.chunk = p.chunk[:headerBytes]
	_, err := p.w.Write(out)
	return err
}

// shrinks reports whether a sample of the content does, or the content is too small for a sample.
func (p *packer) shrinks(content []byte) bool {
	if len(content) <= samplePieces*pieceBytes {
		return true
	}
	p.sample = p.sample[:0]
	for i := range samplePieces {
		at := i * (len(content) - pieceBytes) / (samplePieces - 1)
		p.sample = append(p.sample, content[at:at+pieceBytes]...)
	}
	p.packed = p.zstd.EncodeAll(p.sample, p.packed[:0])
	return len(p.packed)*100 <= len(p.sample)*shrinks
}

// pack writes a body with what is written, and returns the checksum of that. It refers to the early pages, which may be nil.
func pack(w io.Writer, early *Early, write func(io.Writer) error) (string, error) {
	p, err := newPacker(w, early)
	if err != nil {
		return "", err
	}
	if err := write(p); err != nil {
		return "", err
	}
	return sumOf(p.sum), p.end()
}

// errBody is the read error of a body that no packer wrote.
var errBody = errors.New("the body is not a sequence of chunks")

// unpacker reads what was packed into a body.
type unpacker struct {
	r    *bufio.Reader
	zstd *zstd.Decoder
	// rest is how much of a raw chunk is left, and content what is left of a compressed one.
	rest    int
	content []byte
	// packed and buffer are reused.
	packed, buffer []byte

	// early are the pages that came before; none if its number is 0.
	early EarlyPages
	// runs are those that are left of a chunk of references. referred is what is left of the run before them, in bytes, and at
	// where that is in the file of early pages; -1 for zero pages.
	runs     []byte
	referred int64
	at       int64
}

func newUnpacker(r io.Reader, early EarlyPages) (*unpacker, error) {
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(chunkBytes), zstd.WithDecoderMaxMemory(chunkBytes))
	if err != nil {
		return nil, fmt.Errorf("set up decompression: %w", err)
	}
	return &unpacker{r: bufio.NewReaderSize(r, pipeBytes), zstd: decoder, early: early}, nil
}

// Close releases the decoder.
func (u *unpacker) Close() { u.zstd.Close() }

// Read implements io.Reader. It returns io.EOF only after a whole chunk.
func (u *unpacker) Read(b []byte) (int, error) {
	for u.rest == 0 && len(u.content) == 0 && u.referred == 0 {
		if err := u.next(); err != nil {
			return 0, err
		}
	}
	if u.referred > 0 {
		return u.readPages(b[:min(int64(len(b)), u.referred)])
	}
	if u.rest == 0 {
		n := copy(b, u.content)
		u.content = u.content[n:]
		return n, nil
	}
	n, err := u.r.Read(b[:min(len(b), u.rest)])
	u.rest -= n
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// readPages reads some bytes of a run of pages.
func (u *unpacker) readPages(b []byte) (int, error) {
	if u.at < 0 {
		clear(b)
		u.referred -= int64(len(b))
		return len(b), nil
	}
	n, err := u.early.File.ReadAt(b, u.at)
	u.at, u.referred = u.at+int64(n), u.referred-int64(n)
	if n == len(b) {
		return n, nil
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, fmt.Errorf("read the memory pages that were sent before the freeze: %w", err)
}

// nextRun begins with the next run of pages.
func (u *unpacker) nextRun() error {
	first, count := int64(binary.BigEndian.Uint32(u.runs)), int64(binary.BigEndian.Uint32(u.runs[4:]))
	u.runs = u.runs[runBytes:]
	if count == 0 || first > 0 && first+count-1 > u.early.Pages {
		return errReference()
	}
	u.referred, u.at = count*pageBytes, (first-1)*pageBytes
	if first == 0 {
		u.at = -1
	}
	return nil
}

// next begins with the next chunk, or the next run of one.
func (u *unpacker) next() error {
	if len(u.runs) > 0 {
		return u.nextRun()
	}
	var header [headerBytes]byte
	if _, err := io.ReadFull(u.r, header[:]); err != nil {
		return err // io.EOF if nothing follows
	}
	size := binary.BigEndian.Uint32(header[1:])
	switch {
	case size == 0 || size > chunkBytes:
		return errBody
	case header[0] == raw:
		u.rest = int(size)
		return nil
	case header[0] == referring && (size%runBytes != 0 || size > maxRuns*runBytes), header[0] != compressed && header[0] != referring:
		return errBody
	}
	if cap(u.packed) < chunkBytes {
		u.packed, u.buffer = make([]byte, chunkBytes), make([]byte, 0, chunkBytes)
	}
	packed := u.packed[:size]
	if _, err := io.ReadFull(u.r, packed); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	if header[0] == referring {
		u.runs = packed
		return nil
	}
	content, err := u.zstd.DecodeAll(packed, u.buffer[:0])
	if err != nil {
		return fmt.Errorf("%w: %w", errBody, err)
	}
	if len(content) == 0 {
		return errBody // no packer writes it, and it would be no progress
	}
	u.content = content
	return nil
}
