package energyperformance

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	configv1 "supercargo.dev/supercargo/api/config/v1"
	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/energy/score"
	"supercargo.dev/supercargo/energy/tariff"
	"supercargo.dev/supercargo/energy/tarifffile"
	"supercargo.dev/supercargo/internal/platform/self"
)

var (
	pricedPods = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: "supercargo", Subsystem: "scheduler", Name: "energy_priced_pods_total",
		Help: "Pods whose energy was scored with a tariff, by whether All, Some or None of the nodes had a price. " +
			"With None, energy counted the same on all nodes.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"prices"})
	tariffZones = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Namespace: "supercargo", Subsystem: "scheduler", Name: "energy_tariff_zones",
		Help: "Zones of a tariff, by whether they have a current price: Priced or Without. " +
			"None if the file cannot be read.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"file", "state"})
	registerOnce sync.Once
)

// RegisterMetrics registers the metrics of the plugin. It may be called repeatedly. New calls it if there is a tariff.
func RegisterMetrics() {
	registerOnce.Do(func() { legacyregistry.MustRegister(pricedPods, tariffZones) })
}

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

// followTariff reads the tariff and watches it until ctx ends. Scheduling never waits for it: if it cannot be used, no
// price is known.
func followTariff(ctx context.Context, args *configv1.EnergyTariff, clk clock.PassiveClock, recorder func() events.EventRecorder) *tarifffile.File {
	RegisterMetrics()
	f := tarifffile.New(args.File, tariff.Unit(args.Unit), args.MaxAge.Duration)
	n := &tariffNotes{log: klog.FromContext(ctx).WithValues("plugin", Name, "file", args.File), file: args.File, recorder: recorder}
	_ = f.Read() // the error is in the status
	n.note(f.Status(clk.Now()))
	go f.Run(ctx, args.RefreshInterval.Duration, clock.RealClock{}, func(s tarifffile.Status) {
		n.note(s)
		// Not before the first refresh, because Events are lost while plugins are being created.
		n.report(s)
	})
	return f
}

// tariffNotes report the state of a tariff, in the log and by Events, when it changes.
type tariffNotes struct {
	log      klog.Logger
	file     string
	recorder func() events.EventRecorder
	last     string
	reported string // why the tariff is unusable, by the last Event
}

func (n *tariffNotes) note(s tarifffile.Status) {
	tariffZones.WithLabelValues(n.file, "Priced").Set(float64(s.Priced))
	tariffZones.WithLabelValues(n.file, "Without").Set(float64(s.Without))
	_, is := s.Trouble()
	useless := is != ""
	switch {
	case useless:
	case s.Without > 0:
		is = "some zones have no price: their values have expired or are for later times"
	default:
		is = "all zones have a price"
	}
	if is == n.last {
		return
	}
	n.last = is
	switch {
	case useless:
		n.log.Info("The tariff is not usable; energy has the same weight in all zones until it is", "reason", is)
	default:
		n.log.Info("Energy is weighted by the tariff", "zones", s.Priced, "zonesWithout", s.Without, "note", is)
	}
}

// report records an Event on the scheduler's pod when the tariff becomes unusable, for another reason, or usable again.
// The file is mounted in that pod, so Events about failed mounts are there too.
func (n *tariffNotes) report(s tarifffile.Status) {
	reason, why := s.Trouble()
	if why == n.reported {
		return
	}
	n.reported = why
	if why == "" {
		n.recorder().Eventf(self.Object(), nil, corev1.EventTypeNormal, v1alpha1.SchedulingReasonTariffUsable, v1alpha1.ActionScheduling, "energy is weighted by tariff %s", n.file)
		return
	}
	n.recorder().Eventf(self.Object(), nil, corev1.EventTypeWarning, reason, v1alpha1.ActionScheduling,
		"tariff %s is not usable; energy has the same weight in all zones until it is: %s", n.file, why)
}
