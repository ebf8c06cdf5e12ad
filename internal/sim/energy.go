package sim

import (
	"cmp"
	"slices"

	"supercargo.dev/supercargo/internal/energy"
	"supercargo.dev/supercargo/internal/scenario"
)

// MachineEnergy is what the machines of one type drew while they were paid for.
type MachineEnergy struct {
	// MachineType is that of the flavors.
	MachineType string
	// Joules is all of it, the sum of the others.
	Joules float64
	// TaskJoules is what pods drew above idle power: what HEATS calls the energy of a
	// task.
	TaskJoules float64
	// IdleJoules is the idle power of machines that could take pods, or were about to.
	IdleJoules float64
	// StandbyJoules is what machines drew that could not take pods: in standby, and while
	// they woke.
	StandbyJoules float64
}

// energyOf returns the books of a flavor's machine type. Their order is that of first use.
func (r *Result) energyOf(f *scenario.Flavor) *MachineEnergy {
	at := slices.IndexFunc(r.Energy, func(e *MachineEnergy) bool { return e.MachineType == f.MachineType })
	if at >= 0 {
		return r.Energy[at]
	}
	e := &MachineEnergy{MachineType: f.MachineType}
	r.Energy = append(r.Energy, e)
	return e
}

// aboveIdle is the power in milliwatts that a machine draws above idle when a share of
// its CPU is requested.
func aboveIdle(f *scenario.Flavor, power energy.Model, load float64) float64 {
	return float64(float64(f.MilliwattsFull-f.MilliwattsIdle) * power.Curve.At(load))
}

// meterEnergy adds what a machine has drawn for some seconds in which nothing changed, so
// that the sum is exact: requests are constant between two events. The products are
// converted before they are added, as in meter.
func (e *engine) meterEnergy(m *machine, seconds float64) {
	load := float64(m.used.MilliCPU) / float64(max(1, m.flavor.MilliCPU))
	idle, tasks := float64(m.flavor.MilliwattsIdle), aboveIdle(m.flavor, m.power, load)
	e.result.EnergyJoules += float64((idle + tasks) * seconds / 1000)
	m.energy.Joules += float64((idle + tasks) * seconds / 1000)
	m.energy.IdleJoules += float64(idle * seconds / 1000)
	m.energy.TaskJoules += float64(tasks * seconds / 1000)
}

// sortEnergy puts the books in the order of machine types.
func (r *Result) sortEnergy() {
	slices.SortFunc(r.Energy, func(a, b *MachineEnergy) int { return cmp.Compare(a.MachineType, b.MachineType) })
}
