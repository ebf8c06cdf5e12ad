package rightsize

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"supercargo.dev/supercargo/autoscaler/purchase"
	"supercargo.dev/supercargo/internal/packing"
)

// machine is a machine that is paid for, with the entities that are decided for it.
type machine struct {
	*hardware
	entities []int // ordered
}

// hardware is the part of a machine that decisions do not change.
type hardware struct {
	name   string // unique
	flavor *Flavor
}

// cluster is the machines as they are decided, and the requests of all entities.
type cluster struct {
	trace    *Trace
	flavors  []purchase.Flavor
	byName   map[string]*Flavor
	machines []*machine
	on       map[int]*machine // by running entity
	requests []Amounts
	bought   int
}

func newCluster(t *Trace, flavors []Flavor) *cluster {
	c := &cluster{trace: t, byName: map[string]*Flavor{}, on: map[int]*machine{}, requests: make([]Amounts, len(t.Entities))}
	for i := range flavors {
		f := &flavors[i]
		c.byName[f.Name] = f
		planned := purchase.Flavor{Name: f.Name, Size: sizeOf(f.Capacity, math.Floor), MicroDollarsPerHour: f.MicroDollarsPerHour}
		if f.MaxPods > 0 {
			planned.MaxPods = new(f.MaxPods)
		}
		c.flavors = append(c.flavors, planned)
	}
	return c
}

// nameOf returns the unique name of an entity for the planner, which orders by it.
func (c *cluster) nameOf(entity int) string { return c.trace.Entities[entity].Name }

// free returns the room of a machine.
func (c *cluster) free(m *machine) packing.Size {
	free := sizeOf(m.flavor.Capacity, math.Floor)
	for _, e := range m.entities {
		free = free.Minus(request(c.requests[e]))
	}
	return free
}

// settle places entities that have no machine: on those that have room, else on new ones, by the planner of the
// NodeFleet. except reports which machines take none.
func (c *cluster) settle(homeless []int, effort int, except func(*machine) bool) error {
	if len(homeless) == 0 {
		return nil
	}
	plan, err := c.plan(homeless, effort, except)
	if err != nil {
		return err
	}
	c.apply(plan, homeless)
	return nil
}

// change changes requests.
func (c *cluster) change(wanted map[int]Amounts) {
	for e, want := range wanted {
		c.requests[e] = want
	}
}

// overhead is by what share of the price of the cheapest flavor each machine counts as more expensive when all are
// planned: of plans that cost the same, that with fewer and larger machines is better, on which entities have more in
// common.
const overhead = 0.1

// buy buys machines for all entities.
func (c *cluster) buy(entities []int) error {
	cheapest := slices.MinFunc(c.flavors, func(a, b purchase.Flavor) int { return cmp.Compare(a.MicroDollarsPerHour, b.MicroDollarsPerHour) })
	plan := purchase.Larger(c.ask(entities, 0, nil), int64(overhead*float64(cheapest.MicroDollarsPerHour)))
	if err := refusal(plan); err != nil {
		return err
	}
	c.apply(plan, entities)
	return nil
}

// plan asks the planner for places for entities.
func (c *cluster) plan(homeless []int, effort int, except func(*machine) bool) (purchase.Plan, error) {
	plan := purchase.Supercargo(c.ask(homeless, effort, except)).Plan
	return plan, refusal(plan)
}

// refusal returns why a plan has no place for an entity, if there is one.
func refusal(plan purchase.Plan) error {
	for _, u := range plan.Unplaceable {
		return fmt.Errorf("entity %q: %s", u.Pod, u.Reason)
	}
	return nil
}

// ask returns the request to the planner for places for entities.
func (c *cluster) ask(homeless []int, effort int, except func(*machine) bool) purchase.Request {
	r := purchase.Request{Flavors: c.flavors, Options: purchase.MixOptions{Effort: effort}}
	for _, e := range homeless {
		r.Pods = append(r.Pods, purchase.Pod{Item: packing.Item{Name: c.nameOf(e), Size: request(c.requests[e])}})
	}
	for _, m := range c.machines {
		if except(m) {
			continue
		}
		node := purchase.ExistingNode{Name: m.name, Free: c.free(m)}
		if m.flavor.MaxPods > 0 {
			node.Places = new(max(0, m.flavor.MaxPods-int64(len(m.entities))))
		}
		r.Nodes = append(r.Nodes, node)
	}
	return r
}

// apply places entities as planned, and buys the machines of the plan.
func (c *cluster) apply(plan purchase.Plan, homeless []int) {
	machines := map[string]*machine{}
	for _, m := range c.machines {
		machines[m.name] = m
	}
	bought := map[string]*machine{}
	for _, p := range plan.Machines {
		m := &machine{hardware: &hardware{fmt.Sprintf("%s-%d", p.Flavor, c.bought), c.byName[p.Flavor]}}
		c.bought++
		c.machines = append(c.machines, m)
		bought[p.Name] = m
	}
	entities := map[string]int{}
	for _, e := range homeless {
		entities[c.nameOf(e)] = e
	}
	for _, a := range plan.Assignments {
		m := bought[a.Machine]
		if a.Waits {
			m = machines[a.Machine]
		}
		c.put(entities[a.Pod], m)
	}
}

func (c *cluster) put(entity int, m *machine) {
	c.remove(entity)
	c.on[entity] = m
	at, _ := slices.BinarySearch(m.entities, entity)
	m.entities = slices.Insert(m.entities, at, entity)
}

// remove takes an entity off its machine, if it has one.
func (c *cluster) remove(entity int) {
	m := c.on[entity]
	if m == nil {
		return
	}
	if at, found := slices.BinarySearch(m.entities, entity); found {
		m.entities = slices.Delete(m.entities, at, at+1)
	}
	delete(c.on, entity)
}

// release gives machines without entities back.
func (c *cluster) release() {
	c.machines = slices.DeleteFunc(c.machines, func(m *machine) bool { return len(m.entities) == 0 })
}

// running returns the running entities in order.
func (c *cluster) running() []int {
	entities := make([]int, 0, len(c.on))
	for e := range c.on {
		entities = append(entities, e)
	}
	slices.Sort(entities)
	return entities
}

// sets returns the entities of each machine.
func (c *cluster) sets() [][]int {
	sets := make([][]int, len(c.machines))
	for i, m := range c.machines {
		sets[i] = slices.Clone(m.entities)
	}
	return sets
}

// overflowing returns the entities that leave a machine because its requests exceed it: the smallest one without which
// the others fit, else the largest ones, one after the other.
func (c *cluster) overflowing(m *machine) []int {
	free := c.free(m)
	switch {
	case fits(free) || len(m.entities) == 0:
		return nil
	case len(m.entities) == 1:
		return slices.Clone(m.entities)
	}
	largestLast := slices.Clone(m.entities)
	slices.SortStableFunc(largestLast, func(a, b int) int {
		return cmp.Compare(c.part(a, m), c.part(b, m))
	})
	for _, e := range largestLast {
		if fits(free.Plus(request(c.requests[e]))) {
			return []int{e}
		}
	}
	var leave []int
	for i := len(largestLast) - 1; i > 0 && !fits(free); i-- {
		leave = append(leave, largestLast[i])
		free = free.Plus(request(c.requests[largestLast[i]]))
	}
	return leave
}

// sold reports whether there is a flavor that is large enough for an entity.
func (c *cluster) sold(entity int) bool {
	return slices.ContainsFunc(c.flavors, func(f purchase.Flavor) bool { return request(c.requests[entity]).Fits(f.Size) })
}

// part is the greater share that an entity requests of a machine's CPU and memory.
func (c *cluster) part(entity int, m *machine) float64 {
	r, of := c.requests[entity], m.flavor.Capacity
	return max(r[CPU]/of[CPU], r[Memory]/of[Memory])
}

func fits(free packing.Size) bool { return packing.Size{}.Fits(free) }

// copy returns a copy of machines and requests.
func (c *cluster) copy() *cluster {
	other := &cluster{trace: c.trace, flavors: c.flavors, byName: c.byName, on: map[int]*machine{}, requests: slices.Clone(c.requests), bought: c.bought}
	for _, m := range c.machines {
		n := &machine{hardware: m.hardware, entities: slices.Clone(m.entities)}
		other.machines = append(other.machines, n)
		for _, e := range n.entities {
			other.on[e] = n
		}
	}
	return other
}

// bill returns the price of the machines in micro-dollars per hour.
func (c *cluster) bill() int64 {
	sum := int64(0)
	for _, m := range c.machines {
		sum += m.flavor.MicroDollarsPerHour
	}
	return sum
}

// places returns the machine of each entity.
func (c *cluster) places() map[int]*hardware {
	places := make(map[int]*hardware, len(c.on))
	for e, m := range c.on {
		places[e] = m.hardware
	}
	return places
}

// keep makes machines the given ones of the same flavor, those first that have most entities in common.
func (c *cluster) keep(machines []*machine) {
	type pair struct {
		to, from *machine
		common   int
	}
	var pairs []pair
	for _, to := range c.machines {
		for _, from := range machines {
			if to.flavor == from.flavor {
				pairs = append(pairs, pair{to, from, commonOf(to.entities, from.entities)})
			}
		}
	}
	slices.SortStableFunc(pairs, func(a, b pair) int { return cmp.Compare(b.common, a.common) })
	done := map[*hardware]bool{}
	for _, p := range pairs {
		if !done[p.to.hardware] && !done[p.from.hardware] {
			p.to.hardware = p.from.hardware
			done[p.to.hardware] = true
		}
	}
}

// commonOf returns how many entities two ordered lists have in common.
func commonOf(a, b []int) int {
	n := 0
	for _, e := range a {
		if _, found := slices.BinarySearch(b, e); found {
			n++
		}
	}
	return n
}
