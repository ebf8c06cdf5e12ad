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

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/energy/tariff"
	"supercargo.dev/supercargo/internal/scenario"
	"supercargo.dev/supercargo/internal/sim"
	"supercargo.dev/supercargo/plugins/energyperformance"
)

// units are what joules can count by, as they end the name of a policy.
var units = map[string]tariff.Unit{"-dollars": tariff.Dollars, "-grams": tariff.Grams}

// priced returns the policy of a name that ends in a unit, and false for another name.
func priced(name string) (p sim.Policy, is bool, err error) {
	for ending, unit := range units {
		of, ends := strings.CutSuffix(name, ending)
		if !ends || !strings.HasPrefix(of, heatsPrefix) && !strings.HasPrefix(of, standbyPrefix) {
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

// countingBy has the plugin EnergyPerformance count joules by what they cost or emit, as the
// scenario has it.
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

// movingBy has a controller that moves pods count joules in the same way.
func movingBy(unit tariff.Unit, of func(*scenario.Scenario) sim.Controller) func(*scenario.Scenario) sim.Controller {
	if of == nil {
		return nil
	}
	return func(sc *scenario.Scenario) sim.Controller {
		made := of(sc)
		s, is := made.(*suiter)
		if !is {
			return made
		}
		zones := map[string]string{}
		for i := range sc.Flavors {
			zones[sc.Flavors[i].Name] = sc.Flavors[i].Zone
		}
		s.machines.Unit = unit
		s.machines.Price = func(n *cluster.Node, until time.Time) tariff.Price {
			return courses{unit, sc}.over(zones[n.Flavor], s.machines.Now, until)
		}
		return s
	}
}

// courses are the prices of a scenario.
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

// of is the course of a zone, empty where nothing is stated.
func (c courses) of(zone string) scenario.Course {
	switch e := c.ElectricityOf(zone); {
	case e == nil:
		return nil
	case c.unit == tariff.Grams:
		return e.GramsPerKWh
	default:
		return e.DollarsPerKWh
	}
}

// over returns the mean price of a zone between two times.
func (c courses) over(zone string, from, to time.Time) tariff.Price {
	course, sum := c.of(zone), 0.0
	if !to.After(from) || len(course) == 0 {
		return c.At(zone, from)
	}
	end := to.Sub(sim.Epoch)
	for at := from.Sub(sim.Epoch); at < end; {
		value, until := course.At(at)
		if until == 0 || until > end {
			until = end
		}
		sum += value * (until - at).Seconds()
		at = until
	}
	return tariff.Price{PerKWh: sum / to.Sub(from).Seconds(), Known: true}
}
