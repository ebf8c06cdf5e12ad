package workerdecide

import (
	"fmt"
	"math"
	"strings"
	"time"

	"supercargo.dev/supercargo/autoscaler/worker/estimate"
	"supercargo.dev/supercargo/internal/text/plural"
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

// EnoughEnded is the number of tasks of a category that must have ended before its use is compared with its needs.
const EnoughEnded = 5

const (
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
		if !c.comparable() {
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

// UseKnown is what is known about the use of tasks.
type UseKnown string

// What is known about the use of tasks.
const (
	// UseUnmeasured means that the manager reports no use.
	UseUnmeasured UseKnown = ""
	// UseOfTooFew means that it reports use, but of no category of which enough tasks have ended, and whose needs are
	// known.
	UseOfTooFew UseKnown = "TooFew"
	// UseCompared means that the use of some categories was compared with their needs.
	UseCompared UseKnown = "Compared"
)

// useKnown returns what is known about the use of tasks, from this reading and those before.
func (m *Memory) useKnown(r *Reading) UseKnown {
	known := UseUnmeasured
	for i := range r.Categories {
		if stated(r.Categories[i].Measured()) {
			known = UseOfTooFew
		}
	}
	for i := range m.Categories {
		switch c := &m.Categories[i]; {
		case c.comparable():
			return UseCompared
		case c.Used != (estimate.Resources{}):
			known = UseOfTooFew
		}
	}
	return known
}

// comparable reports whether the use of the category's tasks can be compared with their needs.
func (c *Category) comparable() bool {
	return c.Ended >= EnoughEnded && c.Used != (estimate.Resources{}) && c.Source != ""
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
		b.WriteString("declares nothing, so that each task gets a whole worker")
	case Measured:
		fmt.Fprintf(&b, "is allocated up to %s for a task", amountsOf(o.SetAside))
	default:
		fmt.Fprintf(&b, "declares up to %s for a task", amountsOf(o.SetAside))
	}
	fmt.Fprintf(&b, ": with %s, which covers the greatest measured use, %d of its tasks would fit where %d %s", amountsOf(o.Used), o.Could, o.Now, plural.Form(o.Now, "does", "do"))
	if o.MicroDollars > 0 {
		fmt.Fprintf(&b, ", at $%.4f each instead of $%.4f", float64(o.MicroDollarsThen)/1e6, float64(o.MicroDollars)/1e6)
	}
	return b.String()
}

// coresOf writes thousandths of a core as cores.
func coresOf(milli int64) string {
	if milli == 1000 {
		return "1 core"
	}
	return fmt.Sprintf("%g cores", float64(milli)/1000)
}

// amountsOf describes the resources that are not 0.
func amountsOf(r estimate.Resources) string {
	var of []string
	if r.MilliCores > 0 {
		of = append(of, coresOf(r.MilliCores))
	}
	if r.MemoryBytes > 0 {
		of = append(of, fmt.Sprintf("%d MiB of memory", r.MemoryBytes>>20))
	}
	if r.DiskBytes > 0 && r.DiskBytes < Boundless {
		of = append(of, fmt.Sprintf("%d MiB of disk", r.DiskBytes>>20))
	}
	if r.GPUs > 0 {
		of = append(of, plural.Count(r.GPUs, "GPU"))
	}
	return strings.Join(of, ", ")
}
