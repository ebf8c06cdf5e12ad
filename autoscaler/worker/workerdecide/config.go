package workerdecide

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

// Config configures the decisions on a pool.
type Config struct {
	Law Law
	// Min and Max bound the number of workers that are not leaving. Both may be 0.
	Min, Max int
	// Cycle is the interval between queries of the manager.
	Cycle time.Duration
	// Prior is the assumed initialisation time of a worker before one has been observed.
	Prior time.Duration
	// Gone is how long every attempt must have found the manager [Gone] before its workers are drained. It is also how
	// long the manager may be silent in another way before that counts as a fault.
	Gone time.Duration
	// Bought reports whether machines are bought for workers. Then the initialisation time of a worker on an existing
	// machine says nothing about the next one.
	Bought bool
	// Flavors are the possible flavors of workers, at least one.
	Flavors []Flavor
}

// Flavor is a size of worker.
type Flavor struct {
	// Name is unique. It is empty if there is a single size that is not bound to a machine.
	Name string
	// Worker is the size of one worker. DiskBytes is [Boundless] if it is not specified.
	Worker estimate.Resources
	// MicroDollarsPerHour is the price of one worker; 0 if it is not known.
	MicroDollarsPerHour int64
	// Trouble is why no worker of this flavor is available now; empty if one is.
	Trouble string
}

// Boundless is the amount of a resource that is not specified.
const Boundless = int64(1) << 50

// Validate returns all faults of the configuration.
func (c *Config) Validate() error {
	var errs input.Faults
	errs.If(c.Law != Supercargo && c.Law != HTA, "law: is %q, must be one of %s, %s", c.Law, Supercargo, HTA)
	errs.If(c.Min < 0 || c.Max < c.Min, "min and max: are %d and %d, must be 0 <= min <= max", c.Min, c.Max)
	for _, d := range []struct {
		name string
		of   time.Duration
	}{{"cycle", c.Cycle}, {"prior", c.Prior}, {"gone", c.Gone}} {
		errs.If(d.of <= 0, "%s: is %v, must be above 0", d.name, d.of)
	}
	errs.If(len(c.Flavors) == 0, "flavors: at least one is required")
	seen := map[string]bool{}
	for i := range c.Flavors {
		f := &c.Flavors[i]
		errs.If(seen[f.Name], "flavors: name %q must be unique", f.Name)
		seen[f.Name] = true
		w := f.Worker
		errs.If(f.Trouble == "" && (w.MilliCores <= 0 || w.MemoryBytes < 0 || w.DiskBytes < 0 || w.GPUs < 0) || f.MicroDollarsPerHour < 0, "flavor %q: has %+v at %d micro-dollars an hour: cores must be above 0, all others 0 or more", f.Name, w, f.MicroDollarsPerHour)
	}
	return errors.Join(errs...)
}
