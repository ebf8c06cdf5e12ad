package sim

import (
	"cmp"
	"slices"
	"time"

	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/energy/profile"
	"supercargo.dev/supercargo/lab/scenario"
)

// MachineEnergy is the energy of the machines of one type while they were billed.
type MachineEnergy struct {
	// MachineType is the machine type of the flavors.
	MachineType string
	// Joules is the total, the sum of the others.
	Joules float64
	// TaskJoules is what pods drew above idle power, which HEATS calls the energy of a task.
	TaskJoules float64
	// IdleJoules is the idle power of machines that could accept pods or were starting.
	IdleJoules float64
}

// energyOf returns the energy account of a flavor's machine type. Accounts are in order of first
// use.
func (r *Result) energyOf(f *scenario.Flavor) *MachineEnergy {
	at := slices.IndexFunc(r.Energy, func(e *MachineEnergy) bool { return e.MachineType == f.MachineType })
	if at >= 0 {
		return r.Energy[at]
	}
	e := &MachineEnergy{MachineType: f.MachineType}
	r.Energy = append(r.Energy, e)
	return e
}

// aboveIdle returns the power in milliwatts that a machine draws above idle power when the share
// load of its CPU is requested.
func aboveIdle(f *scenario.Flavor, power energy.Model, load float64) float64 {
	return float64(float64(f.MilliwattsFull-f.MilliwattsIdle) * power.Curve.At(load))
}

// meterEnergy adds the energy of a machine for some seconds in which nothing changed, so the sum is
// exact: requests are constant between two events. The products are converted before they are
// added, as in meter.
func (e *engine) meterEnergy(m *machine, seconds float64) {
	idle, tasks := m.milliwatts()
	joules := float64((idle + tasks) * seconds / 1000)
	e.result.EnergyJoules += joules
	m.energy.Joules += joules
	m.energy.IdleJoules += float64(idle * seconds / 1000)
	m.energy.TaskJoules += float64(tasks * seconds / 1000)
}

// kilowattHours is one milliwatt-second in kWh.
const kilowattHours = 1e-3 / 3.6e6

// meterElectricity adds the price and emission of a machine's electricity for a time in which only
// price and carbon intensity may have changed, in steps.
func (e *engine) meterElectricity(m *machine, since, now time.Duration) {
	if m.electricity == nil {
		return
	}
	idle, tasks := m.milliwatts()
	perSecond := float64((idle + tasks) * kilowattHours)
	e.result.ElectricityDollars += float64(perSecond * integral(m.electricity.DollarsPerKWh, since, now))
	e.result.CarbonGrams += float64(perSecond * integral(m.electricity.GramsPerKWh, since, now))
}

// integral returns the integral of a course, in seconds, between two times.
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

// milliwatts returns the present power of a machine: idle power and what its pods draw above it.
func (m *machine) milliwatts() (idle, tasks float64) {
	load := float64(m.used.MilliCPU) / float64(max(1, m.flavor.Size.MilliCPU))
	return float64(m.flavor.MilliwattsIdle), aboveIdle(m.flavor, m.power, load)
}

// endWatts returns the power of all machines that are billed at the end of the run.
func (e *engine) endWatts() float64 {
	sum := 0.0
	for _, m := range e.machines {
		if m.from >= 0 {
			idle, tasks := m.milliwatts()
			sum += float64((idle + tasks) / 1000)
		}
	}
	return sum
}

// sortEnergy sorts the energy accounts by machine type.
func (r *Result) sortEnergy() {
	slices.SortFunc(r.Energy, func(a, b *MachineEnergy) int { return cmp.Compare(a.MachineType, b.MachineType) })
}

// profiledWork is the runtime of the work of one sample on a machine of speed 1.
const profiledWork = time.Minute

// ProfileSamples returns what a MachineProfile learns from on a machine of the flavor (HEATS, section III): the
// same work with several requests of CPU and memory, each alone on the machine, with the runtime
// and energy of a pod of the run. Energy excludes idle power and is 0 if no power is stated.
//
// Unlike a real meter, this one is exact. The tests of profile learning cover inaccurate
// measurements.
func ProfileSamples(f *scenario.Flavor) []profile.Sample {
	power, took := f.Power(), slowed(profiledWork, f.Speed)
	var samples []profile.Sample
	for _, milliCPU := range []int64{min(100, f.Size.MilliCPU), f.Size.MilliCPU / 16, f.Size.MilliCPU / 8, f.Size.MilliCPU / 4, f.Size.MilliCPU / 2, f.Size.MilliCPU} {
		joules := float64(aboveIdle(f, power, float64(milliCPU)/float64(f.Size.MilliCPU))*took.Seconds()) / 1000
		for _, memory := range []int64{min(64<<20, f.Size.MemoryBytes), f.Size.MemoryBytes / 4, f.Size.MemoryBytes / 2, f.Size.MemoryBytes} {
			samples = append(samples, profile.Sample{
				Size: profile.Size{MilliCPU: milliCPU, MemoryBytes: memory}, Runtime: took, Energy: energy.Joules(joules),
			})
		}
	}
	return samples
}
