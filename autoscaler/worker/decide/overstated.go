package decide

import (
	"fmt"
	"math"
	"strings"
	"time"

	"supercargo.dev/supercargo/autoscaler/worker/estimate"
)

// Overstated is a category for whose tasks far more is set aside than they use, so that fewer
// run at once on a worker than could.
type Overstated struct {
	Category string
	Source   NeedSource
	// SetAside is what the manager keeps for one, and Used what would have been enough for
	// the one that it has measured to use most, in whole cores.
	SetAside, Used estimate.Resources
	// Now is how many run at once on a worker, and Could how many would if no more were set
	// aside for one than the most that one has used.
	Now, Could int
	// MicroDollars and MicroDollarsThen are what one task costs on a worker that is full of
	// them, now and then; 0 where no price or no runtime is known.
	MicroDollars, MicroDollarsThen int64
}

const (
	// enoughEnded is how many tasks of a category must have ended before anything is said of
	// what they use.
	enoughEnded = 5
	// farMore is how many times as many must fit for that to be worth saying.
	farMore = 2
	// lessThanACore is by how much a measured peak of cores may pass a whole number: that of a
	// task with one thread is now and then above 1.
	lessThanACore = 100
	// averaged is over how long the monitor of cctools averages the cores that a task uses at
	// most: of one that runs for less it says that much less.
	averaged = 182 * time.Second
)

// overstated names the categories of which at least [farMore] times as many tasks would fit on
// a worker of the flavor by what they used as do by what is set aside, in their order. Of
// a resource that nobody has measured they are taken to use what is set aside. Cores can only
// be declared whole.
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

// enough is the least that tasks of the category would have to declare.
func (c *Category) enough(setAside estimate.Resources) estimate.Resources {
	if c.Source == WholeWorker {
		setAside = estimate.Resources{} // what is not measured then is not used
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

// String says it in words.
func (o *Overstated) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "category %s ", o.Category)
	switch o.Source {
	case WholeWorker:
		b.WriteString("declares nothing, gets a whole worker")
	case Measured:
		fmt.Fprintf(&b, "is given %s", amountsOf(o.SetAside))
	default:
		fmt.Fprintf(&b, "declares %s", amountsOf(o.SetAside))
	}
	do := "do"
	if o.Now == 1 {
		do = "does"
	}
	fmt.Fprintf(&b, " and used %s at most: %d of its tasks would fit where %d %s", amountsOf(o.Used), o.Could, o.Now, do)
	if o.MicroDollars > 0 {
		fmt.Fprintf(&b, ", at $%.4f each instead of $%.4f", float64(o.MicroDollarsThen)/1e6, float64(o.MicroDollars)/1e6)
	}
	return b.String()
}

// amountsOf says how much something is, of what is not 0.
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
