package agent

import (
	"io"
	"strings"
	"testing"
	"time"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/descheduler/checkpoint/ledger"
)

// zeros is an endless checkpoint.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
func (zeros) Sum() string                { return "" }

// TestASourceCannotSendMoreThanTheNodeHasRoomFor: each of two announces one byte, and sends
// without end.
func TestASourceCannotSendMoreThanTheNodeHasRoomFor(t *testing.T) {
	memory, err := ledger.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	const total = 256 << 20
	a := &Agent{ledger: memory, arrived: map[ledger.ID]int64{}, Config: Config{Limits: Limits{Images: 3, ImageBytes: 1 << 40, TotalBytes: total}}}
	var ids []ledger.ID
	for _, migration := range []string{"staged", "one", "two"} {
		entry := ledger.Entry{
			ID: ledger.ID{Migration: migration, Node: "n", Role: ledger.TargetRole}, Namespace: "default", Name: migration, Since: time.Unix(1, 0), MemoryBytes: 1,
		}
		if migration == "staged" {
			entry.Staged = &checkpoint.Staged{Bytes: 64 << 20}
		}
		if err := memory.Put(entry); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, entry.ID)
	}
	// The first takes part of the room, and waits.
	first := &weighed{Verified: zeros{}, agent: a, id: ids[1]}
	if _, err := io.CopyN(io.Discard, first, 96<<20); err != nil {
		t.Fatalf("what there is room for is refused: %v", err)
	}
	n, err := io.Copy(io.Discard, &weighed{Verified: zeros{}, agent: a, id: ids[2]})
	if f := checkpoint.AsFailure(err); f == nil || f.Reason != v1alpha1.MigrationReasonNoRoom || !strings.Contains(f.Message, "its maximum is 3 with 268435456") {
		t.Errorf("reading the second ends with %v", err)
	}
	if most := int64(96<<20 + 2*weighEvery); n > most {
		t.Errorf("%d bytes of the second are taken, want at most %d", n, most)
	}
}
