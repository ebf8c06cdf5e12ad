package energyperformance

import (
	"context"
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	configv1 "supercargo.dev/supercargo/api/config/v1"
	"supercargo.dev/supercargo/internal/energy/score"
	"supercargo.dev/supercargo/internal/energy/tariff"
	"supercargo.dev/supercargo/internal/tarifffile"
)

var (
	pricedPods = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: "supercargo", Subsystem: "scheduler", Name: "energy_priced_pods_total",
		Help: "Pods whose energy was scored with a tariff, by whether All, Some or None of the machines had a price: " +
			"with None joules counted the same everywhere.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"prices"})
	tariffZones = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Namespace: "supercargo", Subsystem: "scheduler", Name: "energy_tariff_zones",
		Help: "Zones of a tariff, by whether they have a price now: Priced, or Without since it has expired or is to come. " +
			"There are none when the file cannot be read.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"file", "state"})
	registerOnce sync.Once
)

// countPriced counts a pod by how many of its options have a price.
func countPriced(options []score.Option) {
	known, priced := 0, 0
	for i := range options {
		if options[i].Known {
			known++
			if options[i].Price.Known {
				priced++
			}
		}
	}
	which := "Some"
	switch priced {
	case known:
		which = "All"
	case 0:
		which = "None"
	}
	pricedPods.WithLabelValues(which).Inc()
}

// followTariff reads the tariff and follows it until ctx ends. Scheduling never waits for
// it: whatever is wrong with it, no price is known then.
func followTariff(ctx context.Context, args *configv1.EnergyTariff, clk clock.PassiveClock) *tarifffile.File {
	registerOnce.Do(func() { legacyregistry.MustRegister(pricedPods, tariffZones) })
	f := tarifffile.New(args.File, tariff.Unit(args.Unit), args.MaxAge.Duration)
	n := &tariffNotes{log: klog.FromContext(ctx).WithValues("plugin", Name, "file", args.File), file: args.File}
	_ = f.Read() // the status says so
	n.note(f.Status(clk.Now()))
	go f.Run(ctx, args.RefreshInterval.Duration, clock.RealClock{}, n.note)
	return f
}

// tariffNotes say what a tariff is good for, in the log when that changes.
type tariffNotes struct {
	log  klog.Logger
	file string
	last string
}

func (n *tariffNotes) note(s tarifffile.Status) {
	tariffZones.WithLabelValues(n.file, "Priced").Set(float64(s.Priced))
	tariffZones.WithLabelValues(n.file, "Without").Set(float64(s.Without))
	is := "all zones have a price"
	switch {
	case s.Err != nil:
		is = s.Err.Error()
	case s.Priced == 0:
		is = "no zone has a price: all values have expired, or are to come"
	case s.Without > 0:
		is = "some zones have no price: their values have expired, or are to come"
	}
	if is == n.last {
		return
	}
	n.last = is
	switch {
	case s.Err != nil || s.Priced == 0:
		n.log.Info("The tariff is of no use, so joules count the same everywhere until it is", "reason", is)
	default:
		n.log.Info("Joules count by the tariff", "zones", s.Priced, "zonesWithout", s.Without, "note", is)
	}
}
