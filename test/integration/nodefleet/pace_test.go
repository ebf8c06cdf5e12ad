package nodefleet

import (
	"fmt"
	"math"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// TestMachinesAreOrderedAsSoonAsPodsHaveBeenGathered creates pods in waves, each of which needs machines of
// two flavors, while machines of earlier waves arrive, are drained and released. The logged delay is accurate
// to half of its value; the bound is for a busy computer.
func TestMachinesAreOrderedAsSoonAsPodsHaveBeenGathered(t *testing.T) {
	b := newBench(t, "pace")
	const waves, sorts = 20, 4
	for i := range sorts {
		b.flavor(fmt.Sprintf("small-%d", i), "2", "4Gi", "0.10", comesAfter(2*time.Second))
		b.flavor(fmt.Sprintf("large-%d", i), "8", "16Gi", "0.30", comesAfter(2*time.Second))
	}
	b.fleet("all", func(s *v1alpha1.NodeFleetSpec) { s.Scaling.BatchIdle, s.Scaling.BatchMax = seconds(0.3), seconds(1) })
	b.autoscale()
	b.has("all", v1alpha1.FleetReady, "True", "Reconciled")

	pods := func(wave int) (both []*corev1.Pod) {
		for flavor, cpu := range map[string]string{"small": "1900m", "large": "7500m"} {
			both = append(both, b.pod(fmt.Sprintf("%s-of-%d", flavor, wave), cpu, "1Gi", func(p *corev1.Pod) {
				p.Spec.NodeSelector[corev1.LabelInstanceTypeStable] = fmt.Sprintf("%s-%d", flavor, wave%sorts)
			}))
		}
		return both
	}
	for wave := range waves {
		for _, p := range pods(wave) {
			b.Make(p)
		}
		b.Runs(2 * min(wave+1, 2))
		if wave == 0 {
			continue
		}
		for _, p := range pods(wave - 1) {
			if err := b.Delete(b.Context(), p, client.GracePeriodSeconds(0)); err != nil {
				b.Fatal(err)
			}
		}
	}
	took := histogramOf(t, "supercargo_nodefleet_order_seconds", b.Space+"-all")
	n := took.GetSampleCount()
	t.Logf("%d orders, %.3f s after pods had been gathered on average, half within %.3f s, 95%% within %.3f s",
		n, took.GetSampleSum()/float64(n), within(took, 0.5), within(took, 0.95))
	const soon = 5.0
	if n < waves || within(took, 0.95) > soon {
		t.Errorf("%d orders, 95%% within %.3f s, want %d at least and %v s at most", n, within(took, 0.95), waves, soon)
	}
}

// histogramOf returns a histogram of a fleet.
func histogramOf(t testing.TB, name, fleet string) *dto.Histogram {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == name && l.GetName() == "fleet" && l.GetValue() == fleet {
					return m.GetHistogram()
				}
			}
		}
	}
	t.Fatalf("there is no %s of fleet %s", name, fleet)
	return nil
}

// within returns the upper bound of the bucket below which a share of a histogram lies.
func within(h *dto.Histogram, share float64) float64 {
	for _, bucket := range h.GetBucket() {
		if float64(bucket.GetCumulativeCount()) >= share*float64(h.GetSampleCount()) {
			return bucket.GetUpperBound()
		}
	}
	return math.Inf(1)
}
