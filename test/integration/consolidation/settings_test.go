//go:build soak

package consolidation

import (
	"fmt"
	"time"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/app"
	"supercargo.dev/supercargo/descheduler/consolidation"
	"supercargo.dev/supercargo/lab/playground"
)

// setting contains the size and the pace of a run.
type setting struct {
	Nodes int           `json:"nodes"`
	Lasts time.Duration `json:"lastsNanoseconds"`
	Pace  float64       `json:"pace"`
	Seed  uint64        `json:"seed"`
}

// of scales a time by the pace.
func (s setting) of(d time.Duration) time.Duration { return time.Duration(float64(d) * s.Pace) }

// Times at pace 1. Billing periods, residence and runtimes have the same proportions as on real clusters, and
// all are short, so that much happens in ten minutes.
const (
	billing   = time.Minute
	residence = 2 * time.Minute
	underUsed = 20 * time.Second
	queue     = 10 * time.Second
	interval  = 10 * time.Second
	draining  = 5 * time.Minute
	horizon   = 10 * time.Minute
)

// consolidate sets the options of the mover.
func (s setting) consolidate(o *app.Options) {
	c := &o.Consolidation
	c.Mode, c.MoveServices = consolidation.Act, true
	c.Residence, c.After, c.QueueEmpty = s.of(residence), s.of(underUsed), s.of(queue)
	c.Interval, c.DrainTimeout = max(time.Second, s.of(interval)), s.of(draining)
	c.Horizon, c.BillingPeriod = max(time.Minute, s.of(horizon)), s.of(billing)
	c.MaxNodes = max(2, s.Nodes/25)
}

// machine is a size of nodes.
type machine struct {
	name, cpu, memory, price string
	milliCPU                 int64
}

var machines = []machine{
	{"small", "2", "8Gi", "0.10", 2000}, {"medium", "4", "16Gi", "0.19", 4000}, {"large", "8", "32Gi", "0.36", 8000},
}

// specs returns the nodes.
func (s setting) specs() []playground.NodeSpec {
	all := make([]playground.NodeSpec, s.Nodes)
	for i := range all {
		m := machines[i%len(machines)]
		all[i] = playground.NodeSpec{
			Name: fmt.Sprintf("%s-%d", m.name, i), CPU: m.cpu, Memory: m.memory, MachineType: m.name,
			Annotations: map[string]string{v1alpha1.AnnotationPricePerHour: m.price},
		}
	}
	return all
}

// milliCPU returns the total CPU of all nodes.
func (s setting) milliCPU() (sum int64) {
	for i := range s.Nodes {
		sum += machines[i%len(machines)].milliCPU
	}
	return sum
}
