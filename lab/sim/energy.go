package sim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/energy"
	"supercargo.dev/supercargo/lab/scenario"
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
	idle, tasks, standby := m.milliwatts()
	joules := float64((idle + tasks + standby) * seconds / 1000)
	e.result.EnergyJoules += joules
	m.energy.Joules += joules
	m.energy.IdleJoules += float64(idle * seconds / 1000)
	m.energy.TaskJoules += float64(tasks * seconds / 1000)
	m.energy.StandbyJoules += float64(standby * seconds / 1000)
}

// kilowattHours is one milliwatt-second in kWh.
const kilowattHours = 1e-3 / 3.6e6

// meterElectricity adds what a machine has cost and emitted by its electricity while nothing
// changed but perhaps price and carbon intensity, which change in steps.
func (e *engine) meterElectricity(m *machine, since, now time.Duration) {
	if m.electricity == nil {
		return
	}
	idle, tasks, standby := m.milliwatts()
	perSecond := float64((idle + tasks + standby) * kilowattHours)
	e.result.ElectricityDollars += float64(perSecond * integral(m.electricity.DollarsPerKWh, since, now))
	e.result.CarbonGrams += float64(perSecond * integral(m.electricity.GramsPerKWh, since, now))
}

// integral is the sum of a course over the seconds between two times.
func integral(c scenario.Course, since, now time.Duration) float64 {
	sum := 0.0
	for since < now {
		value, until := c.At(since)
		if until == 0 || until > now {
			until = now
		}
		sum += float64(value * (until - since).Seconds())
		since = until
	}
	return sum
}

// milliwatts is what a machine draws now: either idle power and what its pods draw above
// it, or the power of standby or waking.
func (m *machine) milliwatts() (idle, tasks, standby float64) {
	switch {
	case m.asleep:
		return 0, 0, float64(m.flavor.Standby.Milliwatts)
	case m.wakes:
		return 0, 0, float64(m.flavor.Standby.WakeMilliwatts)
	}
	load := float64(m.used.MilliCPU) / float64(max(1, m.flavor.Size.MilliCPU))
	return float64(m.flavor.MilliwattsIdle), aboveIdle(m.flavor, m.power, load), 0
}

// endWatts is what all machines draw that are paid for at the end of the run.
func (e *engine) endWatts() float64 {
	sum := 0.0
	for _, m := range e.machines {
		if m.from >= 0 {
			idle, tasks, standby := m.milliwatts()
			sum += float64((idle + tasks + standby) / 1000)
		}
	}
	return sum
}

// sortEnergy puts the books in the order of machine types.
func (r *Result) sortEnergy() {
	slices.SortFunc(r.Energy, func(a, b *MachineEnergy) int { return cmp.Compare(a.MachineType, b.MachineType) })
}

// sleep puts an empty node into standby.
func (e *engine) sleep(s cluster.Stay) error {
	m := e.machine(s.Node)
	if m == nil || m.node == nil || m.count() > 0 || m.drain != nil || m.flavor.Standby == nil {
		return fmt.Errorf("%w: put %s to sleep, which is no empty node that can", errPlan, s.Node)
	}
	if err := e.sched.RemoveNode(m.node); err != nil {
		return fmt.Errorf("put node %s to sleep: %w", m.name, err)
	}
	e.meter(m, e.now)
	m.node, m.asleep = nil, true
	e.count("machinesPutToSleep")
	e.tell(fact{what: machineSleeps, node: m.name})
	return nil
}

// wake lets a machine that is asleep become a node again, after the time that this takes.
func (e *engine) wake(s cluster.Stay) error {
	m := e.machine(s.Node)
	if m == nil || !m.asleep {
		return fmt.Errorf("%w: wake %s, which is not asleep", errPlan, s.Node)
	}
	e.meter(m, e.now)
	m.asleep, m.wakes, m.due = false, true, e.now+m.flavor.Standby.Wake
	e.push(event{at: m.due, kind: ready, machine: m})
	e.count("machinesWoken")
	e.tell(fact{what: machineWoken, node: m.name})
	return nil
}
