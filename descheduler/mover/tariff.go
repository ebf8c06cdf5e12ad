package mover

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/energy/tariff"
	"supercargo.dev/supercargo/internal/moves"
	"supercargo.dev/supercargo/internal/tarifffile"
)

// Tariff says where the price of electricity, or its carbon intensity, is written.
type Tariff struct {
	// File is the path of a CSV file; empty where joules count the same everywhere.
	File string
	// Unit is the column that counts.
	Unit tariff.Unit
	// MaxAge is for how long a value holds that no later one of its zone follows.
	MaxAge time.Duration
}

func (t *Tariff) validate() error {
	if t.Unit != tariff.Dollars && t.Unit != tariff.Grams {
		return fmt.Errorf("--energy-tariff-unit: %q: want %s or %s", t.Unit, tariff.Dollars, tariff.Grams)
	}
	if t.MaxAge < time.Minute {
		return fmt.Errorf("--energy-tariff-max-age: %v is too little: want at least 1m", t.MaxAge)
	}
	return nil
}

// price has joules count by the tariff, if there is one. It says so when it has become of no
// use, or of use again.
func (r *round) price(ctx context.Context, m *moves.Machines) {
	if r.tariff == nil {
		return
	}
	_ = r.tariff.Read() // the status says so
	s, why := r.tariff.Status(r.now), ""
	switch {
	case s.Err != nil:
		why = s.Err.Error()
	case s.Priced == 0:
		why = "all values of the tariff " + r.Config.Energy.Tariff.File + " have expired, or are to come"
	}
	metricTariffZones.WithLabelValues("Priced").Set(float64(s.Priced))
	metricTariffZones.WithLabelValues("Without").Set(float64(s.Without))
	if why != r.memory.unpriced {
		r.memory.unpriced = why
		if why != "" {
			log.FromContext(ctx).Info("The tariff is of no use, so joules count the same everywhere until it is", "reason", why)
		} else {
			log.FromContext(ctx).Info("Joules count by the tariff", "zones", s.Priced, "zonesWithout", s.Without)
		}
	}
	m.Unit = r.tariff.Unit()
	m.Price = func(n *cluster.Node, until time.Time) tariff.Price {
		return r.tariff.Over(r.world.Nodes[n.Name].Labels[corev1.LabelTopologyZone], r.now, until)
	}
}

// openTariff returns the tariff of a configuration, nil if it names none.
func openTariff(t Tariff) *tarifffile.File {
	if t.File == "" {
		return nil
	}
	return tarifffile.New(t.File, t.Unit, t.MaxAge)
}
