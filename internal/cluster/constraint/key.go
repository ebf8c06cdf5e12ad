package constraint

import (
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// keyBuilder builds strings that are equal only if the same records were added.
type keyBuilder struct{ buf []byte }

// newKey returns a builder with a capacity of size bytes.
func newKey(size int) keyBuilder { return keyBuilder{buf: make([]byte, 0, size)} }

// add appends one record. Length prefixes keep the parts unambiguous.
func (k *keyBuilder) add(parts ...string) {
	for _, part := range parts {
		k.addPart(part)
	}
	k.buf = append(k.buf, ';')
}

// addPart appends a part of the next record.
func (k *keyBuilder) addPart(part string) {
	k.buf = strconv.AppendInt(k.buf, int64(len(part)), 10)
	k.buf = append(k.buf, ':')
	k.buf = append(k.buf, part...)
}

// String returns everything added so far.
func (k *keyBuilder) String() string { return string(k.buf) }

// texts returns the requirements as a user would write them, sorted.
func texts(requirements []labels.Requirement) []string {
	text := make([]string, len(requirements))
	for i := range requirements {
		text[i] = requirements[i].String()
	}
	slices.Sort(text)
	return slices.Compact(text)
}

// selectorKey returns a key that is equal for equal requirements, regardless of their order and of whether a single
// value is written as `in` or as `=`.
func selectorKey(s labels.Selector) string {
	requirements, selects := s.Requirements()
	if !selects {
		return "nothing"
	}
	parts := make([]string, len(requirements))
	for i := range requirements {
		op := requirements[i].Operator()
		if op == selection.Equals || op == selection.DoubleEquals {
			op = selection.In
		}
		var k keyBuilder
		k.add(requirements[i].Key(), string(op))
		k.add(requirements[i].Values().List()...)
		parts[i] = k.String()
	}
	slices.Sort(parts)
	var k keyBuilder
	k.add(slices.Compact(parts)...)
	return k.String()
}
