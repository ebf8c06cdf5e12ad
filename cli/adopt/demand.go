package adopt

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// requirement is a requirement of a NodePool.
type requirement struct {
	Key       string   `json:"key"`
	Operator  string   `json:"operator"`
	Values    []string `json:"values"`
	MinValues *int     `json:"minValues"`
}

// The operators that a NodeFleet does not have.
const (
	atLeast = "Gte"
	atMost  = "Lte"
)

// demand is what the requirements of a NodePool say together about one label.
type demand struct {
	key string
	// listed means that only values are allowed, else that all but values are. Values are in the order in which they are
	// stated.
	listed bool
	values []string
	// least and most bound numbers; nil for no bound.
	least, most *int64
	// absent means that nodes must not have the label.
	absent bool
}

// demand returns what a requirement says alone.
func (r *requirement) demand() (demand, error) {
	d := demand{key: r.Key}
	switch operator := r.Operator; operator {
	case string(corev1.NodeSelectorOpIn), string(corev1.NodeSelectorOpNotIn):
		if len(r.Values) == 0 {
			return d, fmt.Errorf("values: must have at least one value with operator %s", operator)
		}
		d.listed, d.values = operator == string(corev1.NodeSelectorOpIn), unique(r.Values)
		return d, nil
	case string(corev1.NodeSelectorOpExists), string(corev1.NodeSelectorOpDoesNotExist):
		if len(r.Values) > 0 {
			return d, fmt.Errorf("values: must be empty with operator %s", operator)
		}
		d.absent = operator == string(corev1.NodeSelectorOpDoesNotExist)
		d.listed = d.absent
		return d, nil
	case string(corev1.NodeSelectorOpGt), string(corev1.NodeSelectorOpLt), atLeast, atMost:
		if len(r.Values) != 1 {
			return d, fmt.Errorf("values: must have one value with operator %s", operator)
		}
		n, err := strconv.ParseInt(r.Values[0], 10, 32)
		if err != nil || n < 0 {
			return d, fmt.Errorf("values: %q is not a number from 0 to 2147483647", r.Values[0])
		}
		switch operator {
		case string(corev1.NodeSelectorOpGt):
			d.least = new(n + 1)
		case atLeast:
			d.least = new(n)
		case string(corev1.NodeSelectorOpLt):
			d.most = new(n - 1)
			d.listed = n == 0 // numbers are not negative, so that no value is allowed
		default:
			d.most = new(n)
		}
		return d, nil
	}
	return d, fmt.Errorf("operator: %q must be In, NotIn, Exists, DoesNotExist, Gt, Gte, Lt or Lte", r.Operator)
}

// unique returns values without repetitions, in their order.
func unique(values []string) []string {
	var once []string
	for _, v := range values {
		if !slices.Contains(once, v) {
			once = append(once, v)
		}
	}
	return once
}

// and returns what both demands allow.
func (d demand) and(o demand) demand {
	both := demand{key: d.key, absent: d.absent || o.absent, least: larger(d.least, o.least), most: smaller(d.most, o.most)}
	both.listed = d.listed || o.listed
	switch {
	case d.listed && o.listed:
		both.values = keep(d.values, func(v string) bool { return slices.Contains(o.values, v) })
	case d.listed:
		both.values = keep(d.values, func(v string) bool { return !slices.Contains(o.values, v) })
	case o.listed:
		both.values = keep(o.values, func(v string) bool { return !slices.Contains(d.values, v) })
	default:
		both.values = unique(slices.Concat(d.values, o.values))
	}
	if both.least != nil && both.most != nil && *both.least > *both.most {
		both.listed, both.values = true, nil
	}
	if both.listed {
		both.values = keep(both.values, both.within)
		both.least, both.most = nil, nil
	}
	return both
}

func keep(values []string, is func(string) bool) []string {
	return slices.DeleteFunc(slices.Clone(values), func(v string) bool { return !is(v) })
}

func larger(a, b *int64) *int64 {
	if a == nil || b != nil && *b > *a {
		return b
	}
	return a
}

func smaller(a, b *int64) *int64 {
	if a == nil || b != nil && *b < *a {
		return b
	}
	return a
}

// within reports whether a value is within the bounds. What is no number is not, if there is a bound.
func (d demand) within(value string) bool {
	if d.least == nil && d.most == nil {
		return true
	}
	n, err := strconv.ParseInt(value, 10, 64)
	return err == nil && (d.least == nil || n >= *d.least) && (d.most == nil || n <= *d.most)
}

// allows reports whether nodes may have the label with a value.
func (d demand) allows(value string) bool {
	return slices.Contains(d.values, value) == d.listed && d.within(value)
}

// nothing reports whether no node fulfils the demand.
func (d demand) nothing() bool { return d.listed && len(d.values) == 0 && !d.absent }

// mostValues is the maximum number of values in a requirement of a NodeFleet.
const mostValues = 100

// requirement returns the requirement of a NodeFleet that allows the same values. It returns false if there is none,
// because a NodeFleet has one requirement for each label.
func (d demand) requirement() (v1alpha1.KarpenterRequirement, bool) {
	r := v1alpha1.KarpenterRequirement{Key: d.key}
	switch bounded := d.least != nil || d.most != nil; {
	case d.listed && len(d.values) == 0:
		r.Operator = corev1.NodeSelectorOpDoesNotExist
	case d.listed:
		r.Operator, r.Values = corev1.NodeSelectorOpIn, d.values
	case !bounded && len(d.values) == 0:
		r.Operator = corev1.NodeSelectorOpExists
	case !bounded:
		r.Operator, r.Values = corev1.NodeSelectorOpNotIn, d.values
	case d.least != nil && d.most != nil:
		if *d.most-*d.least >= mostValues {
			return r, false
		}
		r.Operator = corev1.NodeSelectorOpIn
		for n := *d.least; n <= *d.most; n++ {
			if v := strconv.FormatInt(n, 10); d.allows(v) {
				r.Values = append(r.Values, v)
			}
		}
		return r, len(r.Values) > 0
	case len(d.values) > 0:
		return r, false
	case d.most != nil:
		r.Operator, r.Values = corev1.NodeSelectorOpLt, []string{strconv.FormatInt(*d.most+1, 10)}
	case *d.least == 0:
		r.Operator = corev1.NodeSelectorOpExists
	default:
		r.Operator, r.Values = corev1.NodeSelectorOpGt, []string{strconv.FormatInt(*d.least-1, 10)}
	}
	return r, len(r.Values) <= mostValues
}

// aliases are other names of labels, which Karpenter and its providers replace by these.
var aliases = map[string]string{
	"beta.kubernetes.io/arch":           corev1.LabelArchStable,
	"beta.kubernetes.io/os":             corev1.LabelOSStable,
	corev1.LabelInstanceType:            corev1.LabelInstanceTypeStable,
	corev1.LabelFailureDomainBetaZone:   corev1.LabelTopologyZone,
	corev1.LabelFailureDomainBetaRegion: corev1.LabelTopologyRegion,
	"topology.ebs.csi.aws.com/zone":     corev1.LabelTopologyZone,
	"topology.disk.csi.azure.com/zone":  corev1.LabelTopologyZone,
	"topology.gke.io/zone":              corev1.LabelTopologyZone,
}

// demands combines requirements by label, in the order in which the labels are first named.
func demands(all []requirement) ([]demand, error) {
	var combined []demand
	for i := range all {
		r := all[i]
		if name, old := aliases[r.Key]; old {
			r.Key = name
		}
		d, err := r.demand()
		if err != nil {
			return nil, fmt.Errorf("spec.template.spec.requirements[%d]: %s: %w", i, r.Key, err)
		}
		at := slices.IndexFunc(combined, func(o demand) bool { return o.key == d.key })
		if at < 0 {
			combined = append(combined, d)
		} else {
			combined[at] = combined[at].and(d)
		}
	}
	return combined, nil
}
