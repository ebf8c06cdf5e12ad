package transport

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

// packed returns a body with the content, written in pieces of the given size.
func packed(t rapid.TB, content []byte, piece int) []byte {
	t.Helper()
	var body bytes.Buffer
	if _, err := pack(&body, nil, func(w io.Writer) error {
		for rest := content; len(rest) > 0; {
			n, err := w.Write(rest[:min(piece, len(rest))])
			if err != nil {
				return err
			}
			rest = rest[n:]
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return body.Bytes()
}

func unpack(t rapid.TB, body io.Reader) ([]byte, error) {
	t.Helper()
	u, err := newUnpacker(body, EarlyPages{})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	return io.ReadAll(u)
}

// memory returns pages of random bytes and of zeros.
func memory(pages int, zero func(page int) bool) []byte {
	const page = 4096
	random, all := rand.NewChaCha8([32]byte{1}), make([]byte, pages*page)
	for i := range pages {
		if !zero(i) {
			_, _ = random.Read(all[i*page : (i+1)*page])
		}
	}
	return all
}

func TestWhatIsPackedIsUnpacked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		zeros := rapid.IntRange(1, 5).Draw(t, "one page of so many is zero")
		content := memory(rapid.IntRange(0, 200).Draw(t, "pages"), func(i int) bool { return i%zeros == 0 })
		content = content[:len(content)-rapid.IntRange(0, min(len(content), 5000)).Draw(t, "less")]
		body := packed(t, content, rapid.IntRange(1, 2*chunkBytes).Draw(t, "piece"))
		got, err := unpack(t, iotest.HalfReader(bytes.NewReader(body)))
		if err != nil || !bytes.Equal(got, content) {
			t.Fatalf("%d bytes become %d (%v)", len(content), len(got), err)
		}
		short := rapid.IntRange(0, max(0, len(body)-1)).Draw(t, "cut")
		if got, err := unpack(t, bytes.NewReader(body[:short])); err == nil && len(got) >= len(content) && len(content) > 0 {
			t.Fatalf("%d of %d bytes of the body are taken for all", short, len(body))
		}
	})
}

// TestABodyThatEndsWithinAChunkIsNotComplete: only the checksum finds one that ends between two.
func TestABodyThatEndsWithinAChunkIsNotComplete(t *testing.T) {
	for name, content := range map[string][]byte{"raw": memory(10, func(int) bool { return false }), "compressed": make([]byte, 40<<10)} {
		body := packed(t, content, chunkBytes)
		for _, end := range []int{1, headerBytes - 1, headerBytes, headerBytes + 1, len(body) - 1} {
			if _, err := unpack(t, bytes.NewReader(body[:end])); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s, %d of %d bytes: %v", name, end, len(body), err)
			}
		}
	}
}

func TestOnlyWhatShrinksIsCompressed(t *testing.T) {
	for _, tc := range []struct {
		name        string
		zero        func(int) bool
		least, most float64 // of the size
	}{
		{"random pages", func(int) bool { return false }, 1, 1.0001},
		{"zero pages", func(int) bool { return true }, 0, 0.01},
		{"every other page", func(i int) bool { return i%2 == 0 }, 0.49, 0.52},
		{"one page of four", func(i int) bool { return i%4 == 0 }, 0.74, 0.8},
		{"zero pages first", func(i int) bool { return i < 1024 }, 0.49, 0.52},
	} {
		t.Run(tc.name, func(t *testing.T) {
			content := memory(2048, tc.zero)
			if got := float64(len(packed(t, content, 32<<10))) / float64(len(content)); got < tc.least || got > tc.most {
				t.Errorf("it is packed to %.3f of its size, want %v to %v", got, tc.least, tc.most)
			}
		})
	}
}

func FuzzUnpackerTakesAnything(f *testing.F) {
	f.Add([]byte{raw, 0, 0, 0, 2, 'a', 'b'})
	f.Add([]byte{compressed, 0, 0, 0, 1, 0})
	f.Add([]byte{raw, 0xff, 0xff, 0xff, 0xff})
	f.Add(packed(f, make([]byte, 5000), 5000))
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := unpack(t, bytes.NewReader(body))
		if chunks := len(body)/headerBytes + 1; len(got) > chunks*chunkBytes {
			t.Errorf("%d bytes become %d (%v)", len(body), len(got), err)
		}
	})
}

// BenchmarkPack packs and unpacks 64 MiB.
func BenchmarkPack(b *testing.B) {
	for name, zero := range map[string]func(int) bool{"random": func(int) bool { return false }, "half zeros": func(i int) bool { return i%2 == 0 }} {
		b.Run(name, func(b *testing.B) {
			content := memory(16<<10, zero)
			b.SetBytes(int64(len(content)))
			for b.Loop() {
				body := packed(b, content, 32<<10)
				if got, err := unpack(b, bytes.NewReader(body)); err != nil || len(got) != len(content) {
					b.Fatal(err)
				}
			}
		})
	}
}
