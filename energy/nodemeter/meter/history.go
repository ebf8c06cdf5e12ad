package meter

import (
	"sort"
	"sync"
	"time"

	"supercargo.dev/supercargo/energy"
)

// maxGap is the longest stretch between two sound readings whose energy is interpolated from
// them. Readings of a server reach further.
const maxGap = 5 * time.Second

// resolved is the minimum ratio of a queried interval to a stretch between two readings in which
// it begins or ends, if the stretch is longer than maxGap. Power is taken to change evenly within
// a stretch, so a load that begins and ends at any moment is underestimated: one of exactly the
// minimum length by a thirtieth on average, and by a tenth at most.
const resolved = 10

// point is the energy that the node has used from the history's beginning until a time.
type point struct {
	at       time.Time
	watts    energy.Watts
	source   energy.Source
	measured energy.Joules
	modelled energy.Joules
	gap      bool // the time since the previous point is unknown
	gaps     int  // number of gaps up to here
	reach    time.Duration
}

// history holds the readings of the last hours, in a ring buffer of fixed size. It is safe for
// concurrent use.
type history struct {
	mu     sync.Mutex
	ring   []point
	next   int // where the next point goes
	filled int // number of points
}

func newHistory(size int) *history { return &history{ring: make([]point, size)} }

// add appends a sound measurement and returns the energy used since the last one, measured and
// modelled apart; false if that is unknown. It ignores a reading that is not newer than the last.
//
// The energy over the interval of which the reading is the mean is exact. The rest of the
// stretch, or all of it for a momentary reading, is interpolated by the trapezoidal rule, and
// counts as measured if both its ends are. Nothing is interpolated between two measuring meters
// of different kinds, which see different parts of the machine.
func (h *history) add(m measurement) (energy.Usage, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := point{at: m.At, watts: m.Watts, source: m.Source, reach: m.reach, gap: true}
	if h.filled == 0 {
		h.push(p)
		return energy.Usage{}, false
	}
	last := h.at(h.filled - 1)
	if !m.At.After(last.at) {
		return energy.Usage{}, false
	}
	since := m.since
	if since.IsZero() {
		since = m.At
	}
	if since.Before(last.at) {
		since = last.at
	}
	var used energy.Usage
	both := m.Source.Measured() && last.source.Measured()
	if bridge := since.Sub(last.at); bridge == 0 || bridge <= max(maxGap, m.reach) && (!both || m.Source == last.source) {
		p.gap, used.Covered = false, m.At.Sub(last.at)
		own, across := joules(m.Watts, m.At.Sub(since)), joules((last.watts+m.Watts)/2, bridge)
		*side(&used, m.Source.Measured()) += own
		*side(&used, both) += across
	}
	p.measured, p.modelled, p.gaps = last.measured+used.Measured, last.modelled+used.Modelled, last.gaps
	if p.gap {
		p.gaps++
	}
	h.push(p)
	return used, !p.gap
}

func joules(w energy.Watts, d time.Duration) energy.Joules {
	return energy.Joules(float64(w) * d.Seconds())
}

// side returns the field for measured or for modelled energy.
func side(u *energy.Usage, measured bool) *energy.Joules {
	if measured {
		return &u.Measured
	}
	return &u.Modelled
}

func (h *history) push(p point) {
	h.ring[h.next] = p
	h.next = (h.next + 1) % len(h.ring)
	h.filled = min(h.filled+1, len(h.ring))
}

// at returns the i-th oldest point.
func (h *history) at(i int) *point {
	return &h.ring[(h.next-h.filled+i+len(h.ring))%len(h.ring)]
}

// last returns the newest point; false if there is none.
func (h *history) last() (point, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.filled == 0 {
		return point{}, false
	}
	return *h.at(h.filled - 1), true
}

// usage returns the energy used between two times; false unless all of the interval is known.
// Energy is interpolated linearly between two points; if these are far apart, the interval must
// be long in comparison. It costs two binary searches.
func (h *history) usage(from, to time.Time) (energy.Usage, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.filled == 0 || !to.After(from) || from.Before(h.at(0).at) || to.After(h.at(h.filled-1).at) {
		return energy.Usage{}, false
	}
	first, second := h.search(from), h.search(to)
	gaps := h.at(second).gaps - h.at(first).gaps
	if gaps > 0 || from.Before(h.at(first).at) && h.at(first).gap {
		return energy.Usage{}, false
	}
	if blur := max(h.within(first, from), h.within(second, to)); blur > maxGap && to.Sub(from) < resolved*blur {
		return energy.Usage{}, false
	}
	m0, d0 := h.until(first, from)
	m1, d1 := h.until(second, to)
	return energy.Usage{Measured: m1 - m0, Modelled: d1 - d0, Covered: to.Sub(from)}, true
}

// search returns the index of the first point at or after t.
func (h *history) search(t time.Time) int {
	return sort.Search(h.filled, func(i int) bool { return !h.at(i).at.Before(t) })
}

// within returns the length of the stretch that ends with the i-th point, if t lies in it; 0 at
// the point itself.
func (h *history) within(i int, t time.Time) time.Duration {
	b := h.at(i)
	if !t.Before(b.at) {
		return 0
	}
	return b.at.Sub(h.at(i - 1).at)
}

// until returns the energy used until t, which lies in the stretch that ends with the i-th point.
func (h *history) until(i int, t time.Time) (measured, modelled energy.Joules) {
	b := h.at(i)
	if !t.Before(b.at) {
		return b.measured, b.modelled
	}
	a := h.at(i - 1)
	share := energy.Joules(t.Sub(a.at).Seconds() / b.at.Sub(a.at).Seconds())
	return a.measured + share*(b.measured-a.measured), a.modelled + share*(b.modelled-a.modelled)
}
