package archive

import (
	"archive/tar"
	"bytes"
	"fmt"
	"os"
	"testing"

	"supercargo.dev/supercargo/test/kit/sentences"
)

// TestEachSentenceAboutAnArchiveIsSaidWhereItIsTrueAndNotWhereItIsNot has the messages of failures, which become Events
// of the Migration.
func TestEachSentenceAboutAnArchiveIsSaidWhereItIsTrueAndNotWhereItIsNot(t *testing.T) {
	of := func(stream []byte, maxBytes int64) string {
		_, _, err := extract(t, bytes.NewReader(stream), maxBytes)
		return fmt.Sprint(err)
	}
	with := func(more ...entry) string { return of(tarOf(t, whole(more...)...), 2<<20) }
	file := func(name, content string) entry { return entry{tar.Header{Name: name}, content} }
	packed, files := sample(t)
	size := int64(0)
	for _, content := range files {
		size += int64(len(content))
	}
	full := func(entries int) string {
		root, err := os.OpenRoot(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close() //nolint:errcheck // nothing is written to it
		x := extraction{root: root, seen: map[string]bool{}, entries: entries}
		return fmt.Sprint(x.entry(&tar.Header{Name: "next", Typeflag: tar.TypeDir}, nil))
	}
	well, missing := with(), of(tarOf(t, whole()[1:]...), 2<<20)
	sentences.Check(t, []string{"archive.go"}, []sentences.Case{
		{"the received data is not a checkpoint: %v", of(packed[:513], 2<<20), well},
		{"the received data is not a checkpoint: ", missing, well},
		{"more than %d bytes follow its end", of(append(tarOf(t, whole()...), make([]byte, 1<<20)...), 2<<20), well},
		{"%s is missing", missing, well},
		{"it has an entry with the invalid path %.100q", with(file("../evil", "")), well},
		{"it has two entries with the path %.100q", with(file("checkpoint/b.img", ""), file("./checkpoint/a.img", "")), with(file("./checkpoint/a.img", ""))},
		{"it has more than %d entries", full(maxEntries), full(maxEntries - 1)},
		{"%.100q is neither a regular file nor a folder", with(entry{header: tar.Header{Name: "checkpoint/d", Typeflag: tar.TypeChar}}), with(entry{header: tar.Header{Name: "checkpoint/d", Typeflag: tar.TypeDir}})},
		{"the checkpoint is larger than %d bytes, the maximum for an image on this node", of(packed, size-1), of(packed, size)},
	}, map[string]string{
		"unpack a checkpoint: %v: free space on the disk of --state-dir of the node agent": "it needs a full disk",
	})
}
