package policy

import (
	"context"
	"fmt"
	"strings"
	"time"

	apiruntime "k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/energy/tariff"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/lab/scenario"
	"supercargo.dev/supercargo/lab/sim"
	"supercargo.dev/supercargo/plugins/energyperformance"
)

// units are the units in which joules can be counted, by the suffix of a policy's name.
var units = map[string]tariff.Unit{"-dollars": tariff.Dollars, "-grams": tariff.Grams}

// priced returns the policy of a name with a unit suffix, and false for other names.
func priced(name string) (p sim.Policy, is bool, err error) {
	for ending, unit := range units {
		of, ends := strings.CutSuffix(name, ending)
		if !ends || !strings.HasPrefix(of, heatsPrefix) {
			continue
		}
		p, err := ByName(of)
		if err != nil {
			return p, true, err
		}
		p.Name, p.Plugins = name, countingBy(unit, p.Plugins)
		p.Controller, p.Fixed = movingBy(unit, p.Controller), movingBy(unit, p.Fixed)
		return p, true, nil
	}
	return p, false, nil
}

// countingBy makes the plugin EnergyPerformance weight joules by their price or emission in the
// scenario.
func countingBy(unit tariff.Unit, of func(*scenario.Scenario, clock.PassiveClock) (runtime.Registry, error)) func(*scenario.Scenario, clock.PassiveClock) (runtime.Registry, error) {
	return func(sc *scenario.Scenario, clk clock.PassiveClock) (runtime.Registry, error) {
		registry, err := of(sc, clk)
		if err != nil {
			return nil, err
		}
		plain := registry[energyperformance.Name]
		registry[energyperformance.Name] = func(ctx context.Context, args apiruntime.Object, handle fwk.Handle) (fwk.Plugin, error) {
			made, err := plain(ctx, args, handle)
			if err != nil {
				return nil, err
			}
			p, is := made.(*energyperformance.Plugin)
			if !is {
				return nil, fmt.Errorf("count joules by %s: the plugin %s is a %T", unit, energyperformance.Name, made)
			}
			p.CountBy(courses{unit, sc})
			return p, nil
		}
		return registry, nil
	}
}

// movingBy does the same for moves of running pods, with the mean over the remaining runtime of the
// pod.
func movingBy(unit tariff.Unit, of func(*scenario.Scenario) sim.Controller) func(*scenario.Scenario) sim.Controller {
	return func(sc *scenario.Scenario) sim.Controller {
		c := of(sc)
		s, moves := c.(*suiter)
		if !moves {
			return c
		}
		zones := map[string]string{}
		for i := range sc.Flavors {
			zones[sc.Flavors[i].Name] = sc.Flavors[i].Zone
		}
		s.machines.Unit = unit
		s.machines.Price = func(n *cluster.Node, until time.Time) tariff.Price {
			return courses{unit, sc}.mean(zones[n.Flavor], s.machines.Now, until)
		}
		return s
	}
}

// courses are the prices of a scenario over time.
type courses struct {
	unit tariff.Unit
	*scenario.Scenario
}

// At implements score.Prices.
func (c courses) At(zone string, at time.Time) tariff.Price {
	course := c.of(zone)
	value, _ := course.At(at.Sub(sim.Epoch))
	return tariff.Price{PerKWh: value, Known: len(course) > 0}
}

// of returns the course of a zone, or an empty one if it is unknown.
func (c courses) of(zone string) scenario.Course {
	e := c.ElectricityOf(zone)
	switch {
	case e == nil:
		return nil
	case c.unit == tariff.Grams:
		return e.GramsPerKWh
	default:
		return e.DollarsPerKWh
	}
}

// mean returns the mean price between two times, or the price at the first if the second is not
// after it.
func (c courses) mean(zone string, from, until time.Time) tariff.Price {
	course, at, end := c.of(zone), from.Sub(sim.Epoch), until.Sub(sim.Epoch)
	if end <= at {
		return c.At(zone, from)
	}
	whole, sum := (end - at).Seconds(), 0.0
	for at < end {
		value, next := course.At(at)
		if next == 0 || next > end {
			next = end
		}
		sum += float64(value * (next - at).Seconds())
		at = next
	}
	return tariff.Price{PerKWh: sum / whole, Known: len(course) > 0}
}
