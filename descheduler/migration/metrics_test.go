package migration

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// observations returns how often a histogram was observed with a back-end, and the sum.
func observations(t *testing.T, of *prometheus.HistogramVec, backend string) (uint64, float64) {
	t.Helper()
	var m dto.Metric
	if err := of.WithLabelValues(backend).(prometheus.Histogram).Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.Histogram.GetSampleCount(), m.Histogram.GetSampleSum()
}

func TestOnlyAnEndIsCountedWithWhatWasMeasured(t *testing.T) {
	const backend = "of this test"
	before := begunMove(source(), handingOver)
	before.Status.Plan.Backend = backend
	after := before.DeepCopy()
	after.Status.Measured = &v1alpha1.MigrationMeasured{FrozenSeconds: "1.500", DumpSeconds: "0.250", ShipSeconds: "unknown", CheckpointBytes: 1 << 20}
	finished(v1alpha1.MigrationSucceeded, now)(after)
	outcomes := func() float64 { return testutil.ToFloat64(metricOutcomes.WithLabelValues("Succeeded", "")) }
	was := outcomes()

	count(&before.Status, &before.Status)
	if got := outcomes(); got != was {
		t.Errorf("%g outcomes of a migration that continues", got-was)
	}
	count(&before.Status, &after.Status)
	count(&after.Status, &after.Status)
	if got := outcomes(); got != was+1 {
		t.Errorf("%g outcomes of one end", got-was)
	}
	for _, tc := range []struct {
		metric *prometheus.HistogramVec
		count  uint64
		sum    float64
	}{
		{metricFrozen, 1, 1.5}, {metricDump, 1, 0.25}, {metricShip, 0, 0}, {metricRestore, 0, 0}, {metricTotal, 0, 0}, {metricBytes, 1, 1 << 20},
	} {
		defer tc.metric.DeleteLabelValues(backend) // the metrics outlive the test
		if n, sum := observations(t, tc.metric, backend); n != tc.count || sum != tc.sum {
			t.Errorf("%d observations of %g in all, want %d of %g", n, sum, tc.count, tc.sum)
		}
	}

	refused := waitingMove(finished(v1alpha1.MigrationRefused, now))
	count(&waitingMove().Status, &refused.Status)
	if n, _ := observations(t, metricFrozen, ""); n != 0 {
		t.Error("a migration that has not begun is measured")
	}
}
