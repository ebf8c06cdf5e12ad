package outcome

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
)

// limit is the largest number in a report. It is far above any result of a simulation, and low
// enough that sums and products of a few such numbers stay finite.
const limit = 1e18

// shortestStep is the smallest distance between samples, in seconds: virtual time has a resolution
// of one nanosecond.
const shortestStep = 1e-9

// check reports everything that makes the report impossible to show: a number that is NaN,
// infinite, negative or above 1e18, series of different lengths, samples without a distance, and
// bounds that differ between policies.
func (r Report) check() error {
	errs := numbersOutside(reflect.ValueOf(r), "", 0)
	for i, p := range r.ended() {
		if first := r.first().LowerBoundDollars; p.LowerBoundDollars != first {
			errs = append(errs, fmt.Errorf("policies[%d].lowerBoundDollars is %v: must be %v as for the first policy", i, p.LowerBoundDollars, first))
		}
		if first := r.first().ServedBoundDollars; p.ServedBoundDollars != first {
			errs = append(errs, fmt.Errorf("policies[%d].servedBoundDollars is %v: must be %v as for the first policy", i, p.ServedBoundDollars, first))
		}
		if first := r.first().ServedBoundWaitSeconds; p.ServedBoundWaitSeconds != first {
			errs = append(errs, fmt.Errorf("policies[%d].servedBoundWaitSeconds is %v: must be %v as for the first policy", i, p.ServedBoundWaitSeconds, first))
		}
		if err := p.Series.check(); err != nil {
			errs = append(errs, fmt.Errorf("policies[%d].series: %w", i, err))
		}
	}
	return errors.Join(errs...)
}

// Check reports everything that makes the policy impossible to show in a report: see
// [Report.WriteJSON].
func (p Policy) Check() error {
	errs := numbersOutside(reflect.ValueOf(p), "", 0)
	if err := p.Series.check(); err != nil {
		errs = append(errs, fmt.Errorf("series: %w", err))
	}
	return errors.Join(errs...)
}

// check reports whether the series are well-formed.
func (s Series) check() error {
	lengths := []int{len(s.CostDollars), len(s.CPU), len(s.Memory), len(s.Machines), len(s.Pending), len(s.Moves)}
	switch {
	case slices.Min(lengths) != slices.Max(lengths):
		return fmt.Errorf("costDollars, cpu, memory, machines, pending and moves have %v samples: must have the same number", lengths)
	case lengths[0] > 1 && s.StepSeconds < shortestStep:
		return fmt.Errorf("stepSeconds is %v: must be at least a nanosecond", s.StepSeconds)
	}
	return nil
}

// numbersOutside walks through v and returns an error for each number outside lowest to limit,
// named as in JSON. It visits every field, so that no new field is missed. Unsigned numbers are
// names (seeds), not amounts.
func numbersOutside(v reflect.Value, path string, lowest float64) []error {
	var errs []error
	switch v.Kind() {
	case reflect.Float64, reflect.Int, reflect.Int64:
		number := toFloat(v)
		if !(number >= lowest && number <= limit) { // not "<": NaN is outside as well
			errs = append(errs, fmt.Errorf("%s is %v: must be a number from %v to %v", path, number, lowest, limit))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			errs = append(errs, numbersOutside(v.Field(i), strings.TrimPrefix(path+"."+name, "."), lowest)...)
		}
	case reflect.Slice:
		for i := range v.Len() {
			errs = append(errs, numbersOutside(v.Index(i), fmt.Sprintf("%s[%d]", path, i), lowest)...)
		}
	case reflect.Map:
		for _, key := range slices.SortedFunc(slices.Values(v.MapKeys()), byText) {
			errs = append(errs, numbersOutside(v.MapIndex(key), fmt.Sprintf("%s[%q]", path, key), lowest)...)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			errs = numbersOutside(v.Elem(), path, lowest)
		}
	}
	return errs
}

func toFloat(v reflect.Value) float64 {
	if v.CanInt() {
		return float64(v.Int())
	}
	return v.Float()
}

func byText(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) }

// percentAbove returns by how many percent value lies above base. ok is false if base is 0 or the
// percentage exceeds 1e18.
func percentAbove(value, base float64) (percent float64, ok bool) {
	if base == 0 {
		return 0, false
	}
	percent = 100 * (value - base) / base
	return percent, math.Abs(percent) <= limit
}

// percentBelow returns by how many percent value lies below base, like percentAbove. It never
// returns negative zero.
func percentBelow(value, base float64) (percent float64, ok bool) {
	percent, ok = percentAbove(value, base)
	return 0 - percent, ok
}
