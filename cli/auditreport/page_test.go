package auditreport

import (
	"bytes"
	"os"
	"testing"
	"time"

	"supercargo.dev/supercargo/cli/audit"
	"supercargo.dev/supercargo/cli/auditor"
	"supercargo.dev/supercargo/cli/objects"
	"supercargo.dev/supercargo/test/kit/testfile"
)

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
	testfile.Golden(t, golden, got.Bytes())
}
