package explain

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// TestObjectsAreExplainedAsBefore compares what is printed of the objects in testdata/objects.yaml, from which the
// dashboard's golden file is made too, with testdata/golden.txt: byte for byte. -update writes it again.
func TestObjectsAreExplainedAsBefore(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "status", "testdata", "objects.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	for _, document := range bytes.Split(text, []byte("\n---\n")) {
		var kind struct{ Kind string }
		var fleet v1alpha1.NodeFleet
		var policy v1alpha1.ReplicaPolicy
		var pool v1alpha1.WorkerPool
		var migration v1alpha1.Migration
		if err := yaml.Unmarshal(document, &kind); err != nil {
			t.Fatal(err)
		}
		into, explain := map[string]any{"NodeFleet": &fleet, "ReplicaPolicy": &policy, "WorkerPool": &pool, "Migration": &migration}[kind.Kind], map[string]func() error{
			"NodeFleet":     func() error { return Fleet(&got, &fleet) },
			"ReplicaPolicy": func() error { return Policy(&got, &policy) },
			"WorkerPool":    func() error { return Pool(&got, &pool) },
			"Migration": func() error {
				fmt.Fprintln(&got, MigrationLine(&migration))
				if err := NewMigrationSummary(&migration).Write(&got); err != nil {
					return err
				}
				return Migration(&got, &migration)
			},
		}[kind.Kind]
		if err := yaml.UnmarshalStrict(document, into); err != nil {
			t.Fatalf("%s: %v", document, err)
		}
		if err := explain(); err != nil {
			t.Fatal(err)
		}
		got.WriteString("===\n")
	}
	testfile.Golden(t, "testdata/golden.txt", got.Bytes())
}
