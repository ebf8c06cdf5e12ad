package workerdecide

import (
	"fmt"
	"math"
	"strings"
	"time"

	"supercargo.dev/supercargo/autoscaler/worker/estimate"
)

// Overstated is a category whose tasks reserve far more than they use, so that a worker runs fewer of them than it
// could.
type Overstated struct {
	Category string
	Source   NeedSource
	// SetAside is what the manager reserves for a task. Used is what the greatest measured use would have required, in
	// whole cores.
	SetAside, Used estimate.Resources
	// Now is how many tasks run on a worker concurrently. Could is how many would if each reserved only the greatest
	// use.
	Now, Could int
	// MicroDollars and MicroDollarsThen are the cost of one task on a worker that is full of them, now and then; 0 if
	// the price or the runtime is not known.
	MicroDollars, MicroDollarsThen int64
}

const (
	// enoughEnded is the number of tasks of a category that must have ended before its use is reported.
	enoughEnded = 5
	// farMore is the factor by which more tasks must fit for that to be reported.
	farMore = 2
	// lessThanACore is the tolerance, in millicores, of a measured peak of cores above a whole number: the peak of a
	// single-threaded task is sometimes above 1.
	lessThanACore = 100
	// averaged is the window over which the monitor of cctools averages the peak use of cores. For shorter tasks it
	// reports proportionally less.
	averaged = 182 * time.Second
)

// overstated returns the categories, in their order, of which at least [farMore] times as many tasks would fit on a
// worker of the flavor by their measured use as by what is reserved. A resource that was not measured counts as used in
// full. Only whole cores can be declared.
func (m *Memory) overstated(f *Flavor) (all []Overstated) {
	for i := range m.Categories {
		c := &m.Categories[i]
		if c.Ended < enoughEnded || c.Used == (estimate.Resources{}) || c.Source == "" {
			continue
		}
		o := Overstated{Category: c.Name, Source: c.Source, SetAside: c.Need}
		if c.Source == WholeWorker {
			o.SetAside = f.Worker
		}
		o.Used = c.enough(o.SetAside)
		o.Now, o.Could = o.SetAside.Times(f.Worker, math.MaxInt32), o.Used.Times(f.Worker, math.MaxInt32)
		if o.Now == 0 || o.Could < farMore*o.Now {
			continue
		}
		hours := c.Mean().Hours()
		o.MicroDollars = int64(float64(f.MicroDollarsPerHour) * hours / float64(o.Now))
		o.MicroDollarsThen = int64(float64(f.MicroDollarsPerHour) * hours / float64(o.Could))
		all = append(all, o)
	}
	return all
}

// enough returns the least that tasks of the category would have to declare.
func (c *Category) enough(setAside estimate.Resources) estimate.Resources {
	if c.Source == WholeWorker {
		setAside = estimate.Resources{} // a resource without a measurement counts as unused then
	}
	least := func(setAside, used int64) int64 {
		if setAside == 0 || used == 0 {
			return max(setAside, used)
		}
		return min(setAside, used)
	}
	cores := float64(c.Used.MilliCores)
	if took := c.Mean(); took > 0 && took < averaged {
		cores *= averaged.Seconds() / took.Seconds()
	}
	whole := int64(math.Ceil((cores-lessThanACore)/1000)) * 1000
	return estimate.Resources{
		MilliCores:  max(1000, least(setAside.MilliCores, whole)),
		MemoryBytes: least(setAside.MemoryBytes, c.Used.MemoryBytes), DiskBytes: least(setAside.DiskBytes, c.Used.DiskBytes),
		GPUs: setAside.GPUs,
	}
}

// String describes the category in words.
func (o *Overstated) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "category %s ", o.Category)
	switch o.Source {
	case WholeWorker:
		b.WriteString("declares nothing and gets a whole worker")
	case Measured:
		fmt.Fprintf(&b, "is allocated %s", amountsOf(o.SetAside))
	default:
		fmt.Fprintf(&b, "declares %s", amountsOf(o.SetAside))
	}
	do := "do"
	if o.Now == 1 {
		do = "does"
	}
	fmt.Fprintf(&b, " and used at most %s: %d of its tasks would fit where %d %s", amountsOf(o.Used), o.Could, o.Now, do)
	if o.MicroDollars > 0 {
		fmt.Fprintf(&b, ", at $%.4f each instead of $%.4f", float64(o.MicroDollarsThen)/1e6, float64(o.MicroDollars)/1e6)
	}
	return b.String()
}

// amountsOf describes the resources that are not 0.
func amountsOf(r estimate.Resources) string {
	var of []string
	if r.MilliCores > 0 {
		of = append(of, fmt.Sprintf("%g cores", float64(r.MilliCores)/1000))
	}
	if r.MemoryBytes > 0 {
		of = append(of, fmt.Sprintf("%d MiB of memory", r.MemoryBytes>>20))
	}
	if r.DiskBytes > 0 && r.DiskBytes < Boundless {
		of = append(of, fmt.Sprintf("%d MiB of disk", r.DiskBytes>>20))
	}
	if r.GPUs > 0 {
		of = append(of, fmt.Sprintf("%d GPUs", r.GPUs))
	}
	return strings.Join(of, ", ")
}
