package energyperformance_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/test/fixtures"
	"supercargo.dev/supercargo/test/kit/testfile"
	"supercargo.dev/supercargo/test/scheduling"
)

// byTariff weights joules by the grams in a file, and scores energy alone.
func byTariff(t *testing.T) (configuration, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "carbon.csv")
	return withArgs("{energyWeight: 1, tariff: {file: " + path + ", unit: Grams, maxAge: 2h}}"), path
}

func writeTariff(t *testing.T, path, text string) {
	t.Helper()
	testfile.Write(t, path, "time,zone,grams_per_kwh\n"+text)
}

// inZone returns a node of a machine type in a zone.
func inZone(name, machineType, zone string) *corev1.Node {
	n := node(name, machineType)
	n.Labels[corev1.LabelTopologyZone] = zone
	return n
}

// row is a value of a zone that starts some hours after noon.
func row(hours int, zone string, grams any) string {
	return fmt.Sprintf("%s,%s,%v\n", noon.Add(time.Duration(hours)*time.Hour).Format(time.RFC3339), zone, grams)
}

// TestPodsGoWhereTheirEnergyIsCleanest: the machine that uses two fifths of the energy is in a zone that may be more
// than two and a half times as dirty. If the file is unusable in any way, the pod is placed by joules alone.
func TestPodsGoWhereTheirEnergyIsCleanest(t *testing.T) {
	fifth := row(0, "south", 60) // the frugal machine is in the north
	tests := []struct {
		name, tariff, want string
		counted            string // the result label of the metric
	}{
		{"twice as dirty: joules decide", row(0, "north", 120) + fifth, "arm", "All"},
		{"three times as dirty", row(0, "north", 180) + fifth, "xeon", "All"},
		{"the value of the hour counts", row(-1, "north", 60) + row(0, "north", 180) + fifth + row(1, "north", 60), "xeon", "All"},
		{"a price that is not known is the mean", fifth, "arm", "Some"},
		{"values that are to come", row(1, "north", 600) + row(1, "south", 1), "arm", "None"},
		{"values that have expired", row(-3, "north", 600) + row(-3, "south", 1), "arm", "None"},
		{"other zones", row(0, "east", 600) + row(0, "west", 1), "arm", "None"},
		{"energy below 0", row(0, "north", 600) + row(0, "south", -20), "xeon", "All"},
		{"no number", row(0, "north", "NaN") + fifth, "arm", "None"},
		{"no rows", "", "arm", "None"},
		{"garbled", "\x00\xff,,,\n\"", "arm", "None"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			configuration, path := byTariff(t)
			writeTariff(t, path, tc.tariff)
			s := scheduler(t, configuration, fastAndFrugal)
			s.AddNode(inZone("arm", "arm", "north"))
			s.AddNode(inZone("xeon", "xeon", "south"))
			for _, n := range []string{"arm", "xeon"} {
				busy(t, s, n)
			}
			before := counted(t, tc.counted)
			if _, a := s.Place(fixtures.Pod("p", 500, 1<<30)); a.Node != tc.want {
				t.Errorf("the pod is on %q (%v), want %q", a.Node, a.Err, tc.want)
			}
			if got := counted(t, tc.counted) - before; got != 1 {
				t.Errorf("%v pods are counted with %s prices known, want 1", got, tc.counted)
			}
		})
	}
}

// counted returns how many pods were scored with All, Some or None of the prices known.
func counted(t *testing.T, prices string) (sum float64) {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "supercargo_scheduler_energy_priced_pods_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() == prices {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

func TestAMissingTariffStopsNothing(t *testing.T) {
	configuration, _ := byTariff(t)
	s := scheduler(t, configuration, fastAndFrugal)
	s.AddNode(inZone("arm", "arm", "north"))
	s.AddNode(inZone("xeon", "xeon", "south"))
	if _, a := s.Place(fixtures.Pod("p", 500, 1<<30)); a.Node != "arm" {
		t.Errorf("the pod is on %q (%v), want the one that takes less energy", a.Node, a.Err)
	}
}

func TestATariffThatIsWrongStopsTheStart(t *testing.T) {
	for args, says := range map[string]string{
		"{tariff: {unit: Grams}}":                                      "args.tariff.file",
		"{tariff: {file: /a.csv}}":                                     "args.tariff.unit",
		"{tariff: {file: /a.csv, unit: Euros}}":                        "args.tariff.unit",
		"{tariff: {file: /a.csv, unit: Grams, refreshInterval: 10ms}}": "args.tariff.refreshInterval",
		"{tariff: {file: /a.csv, unit: Grams, maxAge: 1s}}":            "args.tariff.maxAge",
		"{tariff: {file: /a.csv, unit: Grams, maxAge: -2h}}":           "args.tariff.maxAge",
		"{tariff: {path: /a.csv, unit: Grams}}":                        "path",
	} {
		if _, err := scheduling.TryScheduler(t, withArgs(args), clock.RealClock{}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: error %v, want one that names %s", args, err, says)
		}
	}
}
