package decide

import (
	"errors"
	"time"

	"supercargo.dev/supercargo/autoscaler/worker/estimate"
	"supercargo.dev/supercargo/internal/input"
)

// Law names a law of package estimate.
type Law string

// The laws.
const (
	Supercargo Law = "Supercargo"
	HTA        Law = "HTA"
)

// Config is what a pool may do.
type Config struct {
	Law Law
	// Min and Max bound the workers that are not leaving. Both may be 0.
	Min, Max int
	// Cycle is how often the manager is asked.
	Cycle time.Duration
	// Prior is how long a worker is taken to need while none has been seen to come.
	Prior time.Duration
	// Gone is for how long each attempt must have found the manager [Gone] before its workers
	// are drained, and how long one may be silent in another way before that counts as a
	// fault.
	Gone time.Duration
	// Bought says that machines are bought for workers: then a worker that found a machine
	// there tells nothing of how long the next one takes.
	Bought bool
	// Flavors are what workers can be made as, at least one.
	Flavors []Flavor
}

// Flavor is a size of worker.
type Flavor struct {
	// Name is unlike that of any other; empty where there is one size and no machine in
	// particular.
	Name string
	// Worker is what one worker has. Disk that nobody has stated is [Boundless].
	Worker estimate.Resources
	// MicroDollarsPerHour is the price of one worker; 0 where it is not known.
	MicroDollarsPerHour int64
	// Trouble says why no worker of this flavor can be had now; empty if one can.
	Trouble string
}

// Boundless is an amount of which nobody has said how much there is.
const Boundless = int64(1) << 50

// Validate names everything in the configuration that cannot be.
func (c *Config) Validate() error {
	var errs input.Faults
	errs.If(c.Law != Supercargo && c.Law != HTA, "law: is %q, want %s or %s", c.Law, Supercargo, HTA)
	errs.If(c.Min < 0 || c.Max < c.Min, "min and max: are %d and %d, want 0 <= min <= max", c.Min, c.Max)
	for _, d := range []struct {
		name string
		of   time.Duration
	}{{"cycle", c.Cycle}, {"prior", c.Prior}, {"gone", c.Gone}} {
		errs.If(d.of <= 0, "%s: is %v, want more than 0", d.name, d.of)
	}
	errs.If(len(c.Flavors) == 0, "flavors: there are none, want at least one")
	seen := map[string]bool{}
	for i := range c.Flavors {
		f := &c.Flavors[i]
		errs.If(seen[f.Name], "flavors: two are called %q", f.Name)
		seen[f.Name] = true
		w := f.Worker
		errs.If(f.Trouble == "" && (w.MilliCores <= 0 || w.MemoryBytes < 0 || w.DiskBytes < 0 || w.GPUs < 0) || f.MicroDollarsPerHour < 0, "flavor %q: has %+v at %d micro-dollars an hour, want some cores and nothing negative", f.Name, w, f.MicroDollarsPerHour)
	}
	return errors.Join(errs...)
}
