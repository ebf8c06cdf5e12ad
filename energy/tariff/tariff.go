// Package tariff provides the price of a kilowatt-hour, in dollars or in grams of CO2 equivalent, by zone and time.
//
// Prices and carbon intensities have the same form: a value per kWh that is valid in a zone from a point in time until
// the next value for the zone.
package tariff

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/internal/input/table"
)

// joulesPerKWh is a kilowatt-hour in joules.
const joulesPerKWh = 3.6e6

// Everywhere is the zone of values for zones that have none of their own.
const Everywhere = ""

// step is a value that is valid from a point in time on.
type step struct {
	from  time.Time
	value float64 // per kWh
}

// Tariff is the price of a kWh by zone and time. The zero value has no prices. It is immutable and safe for concurrent
// use.
type Tariff struct{ zones map[string][]step }

// Flat returns the tariff with one value for all zones and times. The value must be finite; it may be negative, as
// prices of electricity can be.
func Flat(perKWh float64) Tariff {
	return Tariff{map[string][]step{Everywhere: {{value: perKWh}}}}
}

// Known reports whether the tariff has any values.
func (t Tariff) Known() bool { return len(t.zones) > 0 }

// DefaultMaxAge is how long the last value is valid: forecasts are made for a day.
const DefaultMaxAge = 24 * time.Hour

// Price is the price of a kWh at a place and time, in the unit of its tariff. The zero value is unknown.
type Price struct {
	PerKWh float64 // finite
	Known  bool
}

// Of returns the cost of the energy, or 0 if the price is unknown.
func (p Price) Of(j energy.Joules) float64 { return float64(j) / joulesPerKWh * p.PerKWh }

// At returns the price of a kWh in a zone at a time. A zone without values has those of [Everywhere]. A value that
// began more than longest ago has expired, because its source has stopped, and the price is unknown. Values of [Flat]
// never expire. Cost: a binary search, no allocation.
func (t Tariff) At(zone string, at time.Time, longest time.Duration) Price {
	steps, ok := t.zones[zone]
	if !ok {
		steps = t.zones[Everywhere]
	}
	return priceOf(steps, at, longest)
}

// Over returns the average price of a kWh in a zone between two times, as far as there are values; the last one is
// valid for longest. It is unknown if there is no price at from. Cost: linear in the values between.
func (t Tariff) Over(zone string, from, to time.Time, longest time.Duration) Price {
	now := t.At(zone, from, longest)
	if !now.Known {
		return now
	}
	steps, ok := t.zones[zone]
	if !ok {
		steps = t.zones[Everywhere]
	}
	if last := steps[len(steps)-1].from; !last.IsZero() && to.After(last.Add(longest)) {
		to = last.Add(longest)
	}
	if !to.After(from) {
		return now
	}
	cost, priced := t.Of(joulesPerKWh, zone, from, to)
	return Price{PerKWh: cost / priced, Known: true}
}

func priceOf(steps []step, at time.Time, longest time.Duration) Price {
	// Written out because sort.Search would allocate its function for each call.
	low, high := 0, len(steps)
	for low < high {
		if mid := int(uint(low+high) >> 1); steps[mid].from.After(at) {
			high = mid
		} else {
			low = mid + 1
		}
	}
	if low == 0 {
		return Price{}
	}
	s := steps[low-1]
	if !s.from.IsZero() && at.Sub(s.from) > longest {
		return Price{}
	}
	return Price{PerKWh: s.value, Known: true}
}

// Zones returns how many zones have a price at a time, and how many have only expired or future values. [Everywhere]
// counts as a zone.
func (t Tariff) Zones(at time.Time, longest time.Duration) (priced, without int) {
	for _, steps := range t.zones {
		if priceOf(steps, at, longest).Known {
			priced++
		} else {
			without++
		}
	}
	return priced, without
}

// Unit is the unit of a tariff.
type Unit string

// The units.
const (
	// Dollars are prices of electricity.
	Dollars Unit = "Dollars"
	// Grams are carbon intensities, in grams of CO2 equivalent.
	Grams Unit = "Grams"
)

// Column returns the name of the column with values of the unit.
func (u Unit) Column() string {
	if u == Grams {
		return "grams_per_kwh"
	}
	return "dollars_per_kwh"
}

// Format formats an amount in the unit with three digits: "$0.00123", "12.3 g CO2".
func (u Unit) Format(amount float64) string {
	if u == Grams {
		return fmt.Sprintf("%.3g g CO2", amount)
	}
	if amount < 0 {
		return fmt.Sprintf("-$%.3g", -amount)
	}
	return fmt.Sprintf("$%.3g", amount)
}

// Of returns the cost of an even use of energy between two times in a zone, in the tariff's unit, and the fraction of
// the time, from 0 to 1, for which the tariff has a value. Energy of other times is not included in the cost. A zone
// without values has those of [Everywhere]. Cost: a binary search, and linear in the values between.
func (t Tariff) Of(j energy.Joules, zone string, from, to time.Time) (cost, priced float64) {
	steps, ok := t.zones[zone]
	if !ok {
		steps = t.zones[Everywhere]
	}
	if len(steps) == 0 {
		return 0, 0
	}
	kWh := float64(j) / joulesPerKWh
	first := sort.Search(len(steps), func(i int) bool { return steps[i].from.After(from) })
	if !to.After(from) {
		if first == 0 {
			return 0, 0
		}
		return kWh * steps[first-1].value, 1
	}
	for i := max(first-1, 0); i < len(steps) && steps[i].from.Before(to); i++ {
		begin, end := from, to
		if steps[i].from.After(begin) {
			begin = steps[i].from
		}
		if i+1 < len(steps) && steps[i+1].from.Before(end) {
			end = steps[i+1].from
		}
		part := end.Sub(begin).Seconds() / to.Sub(from).Seconds()
		cost += kWh * part * steps[i].value
		priced += part
	}
	return cost, min(priced, 1)
}

// mostPerKWh bounds a value: in dollars far above any price, in grams a hundred times the emissions of the dirtiest
// power station.
const mostPerKWh = 100_000

// Read reads a tariff from a file in a format of package table, with the columns time (RFC 3339) and column, the value
// per kWh, and optionally zone. Other columns are ignored. Rows may be in any order. A zone must not have two values
// for one time; a row without a zone is for [Everywhere]. Errors name line and column.
func Read(file io.Reader, column string) (Tariff, error) {
	in, _, err := table.Open("", file, table.Format{Name: "tariff", Required: []string{"time", column}, Optional: []string{"zone"}, Lenient: true})
	if err != nil {
		return Tariff{}, err
	}
	t := Tariff{map[string][]step{}}
	rows := 0
	for in.Next() {
		if rows++; rows > table.MaxRows {
			in.Fault(in.Line(), "", fmt.Sprintf("exceeds %d values, the maximum for a tariff", table.MaxRows))
			break
		}
		from, err := time.Parse(time.RFC3339, in.Cell("time"))
		if err != nil {
			in.Wrong("time", "a time such as 2026-01-31T15:00:00Z")
		}
		value := in.Float(column, func(x float64) bool { return math.Abs(x) <= mostPerKWh }, fmt.Sprintf("a number between -%d and %d", mostPerKWh, mostPerKWh))
		zone := in.Cell("zone") // empty is Everywhere
		t.zones[zone] = append(t.zones[zone], step{from, value})
	}
	if err := in.End(rows); err != nil {
		return Tariff{}, err
	}
	if err := t.sort(); err != nil {
		return Tariff{}, err
	}
	return t, nil
}

// sort sorts the values of each zone by time and rejects two values for one time.
func (t Tariff) sort() error {
	var errs []error
	for zone, steps := range t.zones {
		slices.SortFunc(steps, func(a, b step) int { return a.from.Compare(b.from) })
		for i := 1; i < len(steps); i++ {
			if steps[i].from.Equal(steps[i-1].from) {
				errs = append(errs, fmt.Errorf("zone %q has two values at %s: must be one", zone, steps[i].from.Format(time.RFC3339)))
			}
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs[:min(len(errs), 10)]...)
}
