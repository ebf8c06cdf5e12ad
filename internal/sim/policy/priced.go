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

// courses are the prices of a scenario.
type courses struct {
	unit tariff.Unit
	*scenario.Scenario
}

// At implements score.Prices.
func (c courses) At(zone string, at time.Time) tariff.Price {
	e := c.ElectricityOf(zone)
	if e == nil {
		return tariff.Price{}
	}
	course := e.DollarsPerKWh
	if c.unit == tariff.Grams {
		course = e.GramsPerKWh
	}
	value, _ := course.At(at.Sub(sim.Epoch))
	return tariff.Price{PerKWh: value, Known: len(course) > 0}
}
