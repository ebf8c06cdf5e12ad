package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/internal/energy"
	"supercargo.dev/supercargo/internal/energy/profile"
)

// Governors switches the CPU governors of the machine; [governor.Switch] does.
type Governors interface {
	// Home is the governor that the machine has; empty if it has none.
	Home() string
	// Available returns those that can be set of some.
	Available(wanted ...string) []string
	// Set sets one, Restore puts back the one that was there.
	Set(governor string) error
	Restore() error
}

// Meter knows how much energy the machine used.
type Meter interface {
	// Energy returns how much between two moments, and false if that is not known.
	Energy(ctx context.Context, from, to time.Time) (used energy.Joules, measured, known bool)
}

// Options say what a probe does.
type Options struct {
	// Sizes are those that are probed. They are sound.
	Sizes Sizes
	// Try are the governors to probe beside the one that the machine has.
	Try []string
	// Seed makes the data, Amount is how much work there is; 100 is the standard.
	Seed   uint64
	Amount int
	// Unlimited leaves it to the container that CPU time is limited, and only chooses the
	// number of workers by the size.
	Unlimited bool
	// Idle is for how long the machine is watched without load; under its own governor up to
	// twelve times as long, if its meter is too slow to know what it used meanwhile.
	Idle time.Duration
	// Journal is the path of a file on a disk that remembers what was done, Machine is the
	// fingerprint of the hardware that this was done on.
	Journal, Machine string
	// Governors and Meter may be nil.
	Governors Governors
	Meter     Meter
	Clock     clock.Clock
	Log       logr.Logger
}

// identity is which probe it is: what another has done is of no use to it.
func (o *Options) identity() string {
	cpu, memory := o.Sizes.Flags()
	return fmt.Sprintf("%s %s %s seed %d amount %d limited %t", o.Machine, cpu, memory, o.Seed, o.Amount, !o.Unlimited)
}

// probe is one that runs.
type probe struct {
	Options
	journal *journal
	report  Report
	memory  []float64
	done    int
	todo    int
}

// Start runs a probe until all is done, ctx ends, or something fails. What was done before
// by the same probe, as its journal says, is not done again. It returns what has been done
// in any case, and leaves the governors as they were.
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

// governors returns those to probe under: first the one that the machine has, which needs
// nothing to be switched.
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
		p.Log.Info("The CPU governors cannot be switched: the machine is probed as it is", "governor", p.report.Home)
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

// idleFactor is how much longer a machine may be watched whose meter is slow: one that is
// read every half minute knows of five minutes and more.
const idleFactor = 12

// idle watches the machine without load, if it has a meter.
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
	if governor == p.report.Home { // pods that are alone on the machine are learned from by it too
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
			i := Idle{Governor: governor, For: to.Sub(from), Machine: used, Measured: measured}
			p.report.Idle = append(p.report.Idle, i)
			return p.journal.add(entry{Idle: &i})
		}
		if until >= most {
			return nil
		}
	}
}

// run does one task at one size, if it has not been done.
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
		return fmt.Errorf("the same work gave %x and now %x: %w", expected, r.Checksum, ErrWrong)
	}
	r.Governor = governor
	p.Log.Info("Probed", "run", p.done, "of", p.todo, "task", task, "milliCPU", size.MilliCPU, "MiB", size.MemoryBytes>>20,
		"governor", governor, "seconds", r.Runtime.Seconds(), "joules", float64(r.Machine), "measured", r.Measured)
	p.report.Runs = append(p.report.Runs, r)
	return p.journal.add(entry{Run: &r})
}

// measure does the work.
func (p *probe) measure(ctx context.Context, task Task, size profile.Size) (Run, error) {
	if p.memory == nil { // all of it at once: there is room for that, and no more
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
