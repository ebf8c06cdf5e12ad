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
}

func newPacker(w io.Writer) (*packer, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(chunkBytes), zstd.WithEncoderCRC(false)) // the body has a checksum
	if err != nil {
		return nil, fmt.Errorf("set up compression: %w", err)
	}
	return &packer{
		w: w, sum: xxhash.New(), zstd: encoder, chunk: make([]byte, headerBytes, headerBytes+chunkBytes), sample: make([]byte, 0, samplePieces*pieceBytes),
	}, nil
}

// Write implements io.Writer.
func (p *packer) Write(b []byte) (int, error) {
	_, _ = p.sum.Write(b) // a hash takes everything
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

// flush writes the chunk, if it has any content. A body that is not flushed at the end is not complete.
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

// pack writes a body with what is written, and returns the checksum of that.
func pack(w io.Writer, write func(io.Writer) error) (string, error) {
	p, err := newPacker(w)
	if err != nil {
		return "", err
	}
	if err := write(p); err != nil {
		return "", err
	}
	return sumOf(p.sum), p.flush()
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
}

func newUnpacker(r io.Reader) (*unpacker, error) {
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(chunkBytes), zstd.WithDecoderMaxMemory(chunkBytes))
	if err != nil {
		return nil, fmt.Errorf("set up decompression: %w", err)
	}
	return &unpacker{r: bufio.NewReaderSize(r, pipeBytes), zstd: decoder}, nil
}

// Close releases the decoder.
func (u *unpacker) Close() { u.zstd.Close() }

// Read implements io.Reader. It returns io.EOF only after a whole chunk.
func (u *unpacker) Read(b []byte) (int, error) {
	for u.rest == 0 && len(u.content) == 0 {
		if err := u.next(); err != nil {
			return 0, err
		}
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

// next begins with the next chunk.
func (u *unpacker) next() error {
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
	case header[0] != compressed:
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
