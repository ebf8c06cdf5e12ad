package consolidation

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/energy/tariff"
	"supercargo.dev/supercargo/energy/tarifffile"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/platform/self"
	"supercargo.dev/supercargo/moves"
)

// Tariff configures the source of electricity prices or carbon intensities.
type Tariff struct {
	// File is the path of a CSV file; empty if joules count the same everywhere.
	File string
	// Unit selects the column.
	Unit tariff.Unit
	// MaxAge is how long a value is valid if no later one of its zone follows.
	MaxAge time.Duration
}

func (t *Tariff) validate() error {
	if t.Unit != tariff.Dollars && t.Unit != tariff.Grams {
		return fmt.Errorf("--energy-tariff-unit: %q: must be %s or %s", t.Unit, tariff.Dollars, tariff.Grams)
	}
	if t.MaxAge < time.Minute {
		return fmt.Errorf("--energy-tariff-max-age: %v: must be at least 1m", t.MaxAge)
	}
	return nil
}

// price weighs joules by the tariff, if there is one. It reports when the tariff becomes unusable
// or usable.
func (r *round) price(ctx context.Context, m *moves.Machines) {
	if r.tariff == nil {
		return
	}
	_ = r.tariff.Read() // Status has the error
	s := r.tariff.Status(r.now)
	reason, why := s.Trouble()
	metricTariffZones.WithLabelValues("Priced").Set(float64(s.Priced))
	metricTariffZones.WithLabelValues("Without").Set(float64(s.Without))
	if why != r.memory.unpriced {
		r.memory.unpriced = why
		if why != "" {
			log.FromContext(ctx).Info("The tariff is not usable; energy has the same weight in all zones until it is", "file", r.Config.Energy.Tariff.File, "reason", why)
			r.recordOwnEvent(corev1.EventTypeWarning, reason, "tariff %s is not usable; energy has the same weight in all zones until it is: %s", r.Config.Energy.Tariff.File, why)
		} else {
			log.FromContext(ctx).Info("Energy is weighted by the tariff", "file", r.Config.Energy.Tariff.File, "zones", s.Priced, "zonesWithout", s.Without)
			r.recordOwnEvent(corev1.EventTypeNormal, v1alpha1.SchedulingReasonTariffUsable, "energy is weighted by tariff %s", r.Config.Energy.Tariff.File)
		}
	}
	m.Unit = r.tariff.Unit()
	m.Price = func(n *cluster.Node, until time.Time) tariff.Price {
		return r.tariff.Over(r.world.Nodes[n.Name].Labels[corev1.LabelTopologyZone], r.now, until)
	}
}

// recordOwnEvent creates an Event on the descheduler's own pod, where the tariff's file is mounted and
// where the kubelet reports mount errors too.
func (r *round) recordOwnEvent(kind, reason, format string, args ...any) {
	if !r.DryRun {
		r.Events.Eventf(self.Object(), nil, kind, reason, v1alpha1.ActionMove, format, args...)
	}
}

// openTariff returns the configured tariff; nil for none.
func openTariff(t Tariff) *tarifffile.File {
	if t.File == "" {
		return nil
	}
	return tarifffile.New(t.File, t.Unit, t.MaxAge)
}
