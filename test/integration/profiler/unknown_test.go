package profiler

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/internal/platform/self"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/kit"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// pricedConfiguration weighs joules by a tariff, whose file is checked every second.
func pricedConfiguration(tariffFile string) []byte {
	return []byte(configuration + "  pluginConfig:\n  - name: EnergyPerformance\n    args: {tariff: {file: " + tariffFile + ", unit: Grams, refreshInterval: 1s}}\n")
}

// TestWithoutMetersPodsRunAndEventsSayWhatIsMissing has no profile, because no meter reports anything, and no
// tariff. Pods run nevertheless. The scheduler's object has one Event for each missing part, and one when
// each is available.
func TestWithoutMetersPodsRunAndEventsSayWhatIsMissing(t *testing.T) {
	b := &bench{Bench: bare.Bench(t, work)}
	b.node("a", "xeon-8")
	b.node("b", "xeon-8") // with only one node the plugin is not called
	for i := range 5 {
		name := fmt.Sprintf("early-%d", i)
		b.pod(name, "", "100m", nil)
		b.runs(name)
	}
	b.told("MachinesUnknown", corev1.EventTypeWarning, "no MachineProfile has models")
	b.told("TariffUnreadable", corev1.EventTypeWarning, bareTariff)

	text := "time,zone,grams_per_kwh\n" + time.Now().Add(-time.Hour).UTC().Format(time.RFC3339) + ",,300\n"
	testfile.Write(t, bareTariff, text)
	b.told("TariffUsable", corev1.EventTypeNormal, bareTariff)

	for _, o := range kit.Objects(t, "../../../manifests/samples/machineprofile.yaml") {
		b.Make(o)
	}
	pods := 0
	b.Eventually("pods are scored", func() string {
		name := fmt.Sprintf("late-%d", pods) // the profile may not have reached the scheduler when the first is placed
		pods++
		b.pod(name, "", "100m", nil)
		b.runs(name)
		if len(b.about("MachinesKnown")) == 0 {
			return "the scheduler still knows nothing"
		}
		return ""
	})
	b.told("MachinesKnown", corev1.EventTypeNormal, "energy and runtime")
	for _, reason := range []string{"MachinesUnknown", "MachinesKnown", "TariffUnreadable", "TariffUsable"} {
		if found := b.about(reason); len(found) != 1 || found[0].Series != nil {
			t.Errorf("%d Events %s: %+v, want one, told once", len(found), reason, found)
		}
	}
}

// about returns the Events of a reason on the object that represents the scheduler, which is no pod here.
func (b *bench) about(reason string) (found []eventsv1.Event) {
	b.Helper()
	var list eventsv1.EventList
	if err := b.List(b.Context(), &list, client.InNamespace("default")); err != nil {
		b.Fatal(err)
	}
	for _, e := range list.Items {
		if e.Reason == reason && e.Regarding.Kind == self.Object().Kind && e.Regarding.Name == self.Object().Name {
			found = append(found, e)
		}
	}
	return found
}

// told waits for an Event with a text.
func (b *bench) told(reason, kind, says string) {
	b.Helper()
	b.Eventually("there is an Event "+reason, func() string {
		found := b.about(reason)
		if len(found) == 0 {
			return "none"
		}
		if found[0].Type != kind || !strings.Contains(found[0].Note, says) {
			return fmt.Sprintf("%s %q, want %s that says %q", found[0].Type, found[0].Note, kind, says)
		}
		return ""
	})
}

// bare is a cluster without profiles, with a scheduler whose tariff will be in bareTariff.
var (
	bare       *kit.Sites
	bareTariff string
)

// setBare initializes bare and bareTariff with a folder.
func setBare(folder string) {
	bareTariff = filepath.Join(folder, "carbon.csv")
	bare = kit.NewSites(playground.Options{SchedulerConfig: pricedConfiguration(bareTariff)})
}
