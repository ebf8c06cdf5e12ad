package auditreport

import (
	"bytes"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/cli/audit"
	"supercargo.dev/supercargo/cli/auditor"
	"supercargo.dev/supercargo/cli/objects"
)

var update = flag.Bool("update", false, "write the golden file")

// TestThePageOfAnAuditIsAsBefore compares the page about the cluster whose table and JSON the tests of the command line
// compare with testdata/page.golden.html, byte for byte. -update writes it again.
func TestThePageOfAnAuditIsAsBefore(t *testing.T) {
	const dump, golden = "../../cmd/supercargo/cli/testdata/dump.json", "testdata/page.golden.html"
	file, err := os.Open(dump)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	read, err := objects.Dump(dump, file)
	if err != nil {
		t.Fatal(err)
	}
	seen, err := auditor.Of(t.Context(), read, auditor.Options{Now: time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)})
	if err != nil {
		t.Fatal(err)
	}
	seen.MostObstacles = 5
	result := audit.Audit(*seen)
	var got bytes.Buffer
	if err := WriteHTML(&got, &result); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
