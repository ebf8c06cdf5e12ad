package rightsize

import (
	"math"
	"slices"
	"time"

	"supercargo.dev/supercargo/internal/sizing"
)

// Fit sizes entities to a stated risk: the share of intervals in which the use of a machine's entities may exceed what
// it has. A request is the entity's share of what its machine needs for that ([sizing.Shares]), and the risk that is
// planned for follows what was realised ([sizing.Correction]).
type Fit struct {
	stated     Amounts
	measured   [resources]bool
	uses       map[int]*[resources]*sizing.Use
	profiles   map[int]*[resources]*sizing.Profile
	correction [resources]sizing.Correction
	next       time.Duration // when requests are decided again
	now        time.Duration
}

// decisions is how often requests are decided if nothing calls for it.
const decisions = time.Hour

// NewFit returns the policy for a trace and a stated risk of each resource.
func NewFit(t *Trace, stated Amounts) *Fit {
	return &Fit{
		stated: stated, measured: t.Measured,
		uses: map[int]*[resources]*sizing.Use{}, profiles: map[int]*[resources]*sizing.Profile{},
	}
}

// Name implements [Policy].
func (*Fit) Name() string { return "supercargo" }

// Start implements [Policy].
func (f *Fit) Start(entity int, asked Amounts, _ time.Duration) {
	if f.uses[entity] != nil {
		return
	}
	f.uses[entity] = &[resources]*sizing.Use{sizing.NewUse(asked[CPU]), sizing.NewUse(asked[Memory])}
}

// Learn implements [Policy].
func (f *Fit) Learn(entity int, at time.Duration, used Amounts) {
	for r, use := range f.uses[entity] {
		switch {
		case !f.measured[r]:
		case math.IsNaN(used[r]):
			use.Gap()
		default:
			use.Add(at, used[r])
		}
	}
	f.now = at
}

// Realised implements [Policy].
func (f *Fit) Realised(overloaded [resources]int, machines int) {
	for r := range overloaded {
		f.correction[r].Observe(overloaded[r], machines, f.stated[r])
		if overloaded[r] > 0 {
			f.next = 0
		}
	}
}

// Requests implements [Policy].
func (f *Fit) Requests(now time.Duration, sets [][]int, requests []Amounts) map[int]Amounts {
	if now < f.next {
		return nil
	}
	f.next = now + decisions
	clear(f.profiles)
	wanted := map[int]Amounts{}
	for _, set := range sets {
		for _, e := range set {
			wanted[e] = requests[e]
		}
		for r := range resources {
			if !f.measured[r] {
				continue
			}
			_, shares := sizing.Shares(f.profilesOf(set, r), f.correction[r].Risk(f.stated[r]))
			for i, e := range set {
				want := wanted[e]
				want[r] = shares[i]
				wanted[e] = want
			}
		}
	}
	return wanted
}

// Refine implements [Refiner].
func (f *Fit) Refine() { f.next = 0 }

// profilesOf returns the profiles of a set as of the last decision.
func (f *Fit) profilesOf(set []int, r Resource) []*sizing.Profile {
	profiles := make([]*sizing.Profile, len(set))
	for i, e := range set {
		of := f.profiles[e]
		if of == nil {
			of = &[resources]*sizing.Profile{}
			f.profiles[e] = of
		}
		if of[r] == nil {
			of[r] = f.uses[e][r].Profile(f.now)
		}
		profiles[i] = of[r]
	}
	return profiles
}

// Holds implements [Policy].
func (f *Fit) Holds(set []int, capacity Amounts) bool {
	for r := range resources {
		if f.measured[r] && sizing.Overload(f.profilesOf(set, r), capacity[r]) > f.correction[r].Risk(f.stated[r]) {
			return false
		}
	}
	return len(f.pressed(set, capacity)) == 0
}

// ahead is of how many standard deviations of the change until a move is done the use may exceed a machine.
const ahead = 1

// pressed returns the resources that a machine is about to run out of: what its entities used last, and the change that
// is to be expected before a move is done, exceed it.
func (f *Fit) pressed(set []int, capacity Amounts) []Resource {
	var pressed []Resource
	for r := range resources {
		if f.measured[r] && f.expected(set, r) > capacity[r] {
			pressed = append(pressed, r)
		}
	}
	return pressed
}

// expected returns what a set of entities may use when a move that begins now is done.
func (f *Fit) expected(set []int, r Resource) float64 {
	sum, variance, most := 0.0, 0.0, 0.0
	for i, p := range f.profilesOf(set, r) {
		last, deviation, known := f.uses[set[i]][r].Last()
		if known {
			sum += last
			variance += deviation * deviation
		}
		most += max(p.Most, last)
	}
	return min(sum+ahead*math.Sqrt(variance), most)
}

// Leave implements [Policy]: of the entities without any of which the machine is no longer about to run out, the one
// that uses least leaves; if there is none, those that use most, one after the other.
func (f *Fit) Leave(set []int, capacity Amounts) []int {
	stay := slices.Clone(set)
	var leave []int
	for len(stay) > 1 && len(f.pressed(stay, capacity)) > 0 {
		r := f.pressed(stay, capacity)[0]
		slices.SortStableFunc(stay, func(a, b int) int { return int(math.Copysign(1, f.last(a, r)-f.last(b, r))) })
		gone := len(stay) - 1
		for i := range stay {
			if len(f.pressed(slices.Delete(slices.Clone(stay), i, i+1), capacity)) == 0 {
				gone = i
				break
			}
		}
		leave = append(leave, stay[gone])
		stay = slices.Delete(stay, gone, gone+1)
	}
	return leave
}

func (f *Fit) last(entity int, r Resource) float64 {
	last, _, _ := f.uses[entity][r].Last()
	return last
}
