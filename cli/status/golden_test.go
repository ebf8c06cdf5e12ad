package status

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// TestThePageShowsObjectsAsBefore compares the items of a page about the objects that package explain prints too with
// testdata/golden.txt, byte for byte. -update writes it again.
func TestThePageShowsObjectsAsBefore(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "objects.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s := &Snapshot{Cycle: time.Minute, Events: []*eventsv1.Event{
		{ObjectMeta: metav1.ObjectMeta{Name: "e", CreationTimestamp: ago(time.Hour)}, Reason: "Bought", Note: "2 m-4x"},
		{ObjectMeta: metav1.ObjectMeta{Name: "f"}, EventTime: metav1.NewMicroTime(now), Series: &eventsv1.EventSeries{LastObservedTime: metav1.NewMicroTime(now.Add(time.Minute))}, Type: "Warning"},
	}}
	for _, document := range bytes.Split(text, []byte("\n---\n")) {
		var kind struct{ Kind string }
		if err := yaml.Unmarshal(document, &kind); err != nil {
			t.Fatal(err)
		}
		read := func(into any) {
			if err := yaml.UnmarshalStrict(document, into); err != nil {
				t.Fatalf("%s: %v", document, err)
			}
		}
		switch kind.Kind {
		case "NodeFleet":
			s.Fleets = append(s.Fleets, &v1alpha1.NodeFleet{})
			read(s.Fleets[len(s.Fleets)-1])
		case "ReplicaPolicy":
			s.Policies = append(s.Policies, &v1alpha1.ReplicaPolicy{})
			read(s.Policies[len(s.Policies)-1])
		case "WorkerPool":
			s.Pools = append(s.Pools, &v1alpha1.WorkerPool{})
			read(s.Pools[len(s.Pools)-1])
		case "Migration":
			s.Migrations = append(s.Migrations, &v1alpha1.Migration{})
			read(s.Migrations[len(s.Migrations)-1])
		}
	}
	items, err := Of(s, now).Items()
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	for _, item := range items {
		fmt.Fprintf(&got, "%s %s: %s\n", item.Section, item.Key, item.JSON)
	}
	testfile.Golden(t, "testdata/golden.txt", got.Bytes())
}
