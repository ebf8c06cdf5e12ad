package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/energy/profile"
)

// Governors changes the CPU governors of the machine; [governor.Switch] implements it.
type Governors interface {
	// Home returns the machine's own governor; empty if it has none.
	Home() string
	// Available returns the wanted governors that can be set.
	Available(wanted ...string) []string
	// Set sets a governor, and Restore restores the original one.
	Set(governor string) error
	Restore() error
}

// Meter has the energy that the machine used.
type Meter interface {
	// Energy returns the energy used between two times; known is false if it is unknown.
	Energy(ctx context.Context, from, to time.Time) (used energy.Joules, measured, known bool)
}

// Options configure a probe.
type Options struct {
	// Sizes are the sizes to probe. They must be valid.
	Sizes Sizes
	// Try are the governors to probe besides the machine's own.
	Try []string
	// Seed is the random seed of the data. Amount is the amount of work; 100 is the standard.
	Seed   uint64
	Amount int
	// Unlimited leaves the limit of CPU time to the container. Sizes then only set the number of
	// workers.
	Unlimited bool
	// Idle is how long the machine is measured without load. Under its own governor it is up to
	// twelve times as long, if the meter is too slow for a shorter time.
	Idle time.Duration
	// Journal is the path of a file on disk that records progress. Machine is the fingerprint of
	// the hardware.
	Journal, Machine string
	// Governors and Meter may be nil.
	Governors Governors
	Meter     Meter
	Clock     clock.Clock
	Log       logr.Logger
}

// identity identifies the probe. It cannot use the results of another one.
func (o *Options) identity() string {
	cpu, memory := o.Sizes.Flags()
	return fmt.Sprintf("%s %s %s seed %d amount %d limited %t", o.Machine, cpu, memory, o.Seed, o.Amount, !o.Unlimited)
}

// probe is a running probe.
type probe struct {
	Options
	journal *journal
	report  Report
	memory  []float64
	done    int
	todo    int
}

// Start runs a probe until it is done, ctx ends, or something fails. It skips work that the
// journal records for the same probe. It always returns the results so far, and restores the
// governors.
func Start(ctx context.Context, o Options) (report Report, err error) {
	p := &probe{Options: o}
	if p.journal, p.report, err = openJournal(o.Journal, o.identity(), o.Clock.Now()); err != nil {
		return Report{Failure: err.Error()}, err
	}
	defer func() {
		err = errors.Join(err, p.restore(), p.journal.close())
		report = p.report
		if report.Complete = err == nil; err != nil {
			report.Failure = err.Error()
		}
	}()
	governors := p.governors()
	p.todo = len(governors) * len(p.Sizes.Points()) * len(Tasks())
	for _, g := range governors {
		if err := p.under(ctx, g); err != nil {
			return p.report, err
		}
	}
	return p.report, nil
}

func (p *probe) restore() error {
	if p.Governors == nil {
		return nil
	}
	return p.Governors.Restore()
}

// governors returns the governors to probe under: first the machine's own, which needs no change.
func (p *probe) governors() []string {
	if p.Governors == nil {
		return []string{p.report.Home}
	}
	p.report.Home = p.Governors.Home()
	all := []string{p.report.Home}
	available := p.Governors.Available(p.Try...)
	p.report.Switched = len(available) > 0
	for _, g := range available {
		if g != p.report.Home {
			all = append(all, g)
		}
	}
	if !p.report.Switched {
		p.Log.Info("The CPU governors cannot be switched; probing only under the current one", "governor", p.report.Home)
	}
	return all
}

// under probes all sizes under a governor.
func (p *probe) under(ctx context.Context, governor string) error {
	if p.Governors != nil && p.report.Switched {
		set := p.Governors.Restore
		if governor != p.report.Home {
			set = func() error { return p.Governors.Set(governor) }
		}
		if err := set(); err != nil {
			return err
		}
	}
	if err := p.idle(ctx, governor); err != nil {
		return err
	}
	for _, size := range p.Sizes.Points() {
		for _, task := range Tasks() {
			if err := p.run(ctx, task, size, governor); err != nil {
				return fmt.Errorf("probe %s with %d m CPU and %d MiB: %w", task, size.MilliCPU, size.MemoryBytes>>20, err)
			}
		}
	}
	return nil
}

// idleFactor is by how much longer a machine with a slow meter may be measured: a meter that is
// read every half minute needs five minutes or more.
const idleFactor = 12

// idle measures the machine without load, if it has a meter.
func (p *probe) idle(ctx context.Context, governor string) error {
	for _, i := range p.report.Idle {
		if i.Governor == governor {
			return nil
		}
	}
	if p.Meter == nil || p.Idle <= 0 {
		return nil
	}
	most := p.Idle
	if governor == p.report.Home { // learning from pods that are alone on the machine needs it too
		most *= idleFactor
	}
	from := p.Clock.Now()
	for until := p.Idle; ; until = min(2*until, most) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.Clock.After(until - p.Clock.Since(from)):
		}
		to := p.Clock.Now()
		if used, measured, known := p.Meter.Energy(ctx, from, to); known {
			i := Idle{Governor: governor, Started: from, For: to.Sub(from), Machine: used, Measured: measured}
			p.report.Idle = append(p.report.Idle, i)
			return p.journal.add(entry{Idle: &i})
		}
		if until >= most {
			return nil
		}
	}
}

// run runs one task at one size, unless that was done.
func (p *probe) run(ctx context.Context, task Task, size profile.Size, governor string) error {
	p.done++
	expected := uint64(0)
	for _, r := range p.report.Runs {
		if r.Task == task && r.Size.MemoryBytes == size.MemoryBytes {
			expected = r.Checksum
			if r.Size == size && r.Governor == governor {
				return nil
			}
		}
	}
	r, err := p.measure(ctx, task, size)
	if err != nil {
		return err
	}
	if expected != 0 && r.Checksum != expected {
		return fmt.Errorf("the same work resulted in %x, and now in %x: %w", expected, r.Checksum, ErrWrong)
	}
	r.Governor = governor
	p.Log.Info("Probed", "run", p.done, "of", p.todo, "task", task, "milliCPU", size.MilliCPU, "MiB", size.MemoryBytes>>20,
		"governor", governor, "seconds", r.Runtime.Seconds(), "joules", float64(r.Machine), "measured", r.Measured)
	p.report.Runs = append(p.report.Runs, r)
	return p.journal.add(entry{Run: &r})
}

// measure runs the task and measures it.
func (p *probe) measure(ctx context.Context, task Task, size profile.Size) (Run, error) {
	if p.memory == nil { // all of it at once, because there is only room for that
		p.memory = make([]float64, slices.Max(p.Sizes.MemoryBytes)/8)
	}
	var limit *limiter
	work := Work{Task: task, Seed: p.Seed, Amount: p.Amount, Workers: int((size.MilliCPU + 999) / 1000)}
	work.Pace = func() {
		if limit != nil {
			limit.pace(ctx)
		}
	}
	prepared, err := work.Prepare(ctx, p.memory[:size.MemoryBytes/8])
	if err != nil {
		return Run{}, err
	}
	if !p.Unlimited {
		limit = newLimiter(size.MilliCPU, p.Clock, CPUTime)
	}
	r := Run{Task: task, Size: size, Started: p.Clock.Now()}
	before := CPUTime()
	if r.Checksum, err = prepared(ctx); err != nil {
		return Run{}, err
	}
	ended := p.Clock.Now()
	r.Runtime, r.CPU = ended.Sub(r.Started), CPUTime()-before
	if p.Meter != nil {
		if used, measured, known := p.Meter.Energy(ctx, r.Started, ended); known {
			r.Machine, r.Measured = used, measured
		}
	}
	return r, nil
}
