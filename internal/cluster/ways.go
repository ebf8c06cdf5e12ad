package cluster

import "strings"

// Method is a way in which a pod leaves a node.
type Method int

const (
	// Migrate moves a pod with its state: it continues where it was.
	Migrate Method = iota
	// Evict kills a pod, which is then scheduled again and starts from the beginning.
	Evict
	// Wait leaves a batch pod on the node until it ends. The node accepts no other pods in the meantime.
	Wait
)

// methods are all methods, the least disruptive first.
var methods = [...]Method{Wait, Migrate, Evict}

// String returns the name of the method.
func (m Method) String() string {
	switch m {
	case Migrate:
		return "migrate"
	case Evict:
		return "evict"
	case Wait:
		return "wait"
	default:
		return "unknown"
	}
}

// Ways is a set of methods by which a pod may leave its node. The zero value leaves the choice to the planner's
// configuration.
type Ways uint8

// WaysOf returns the set of the given methods.
func WaysOf(all ...Method) Ways {
	var w Ways
	for _, m := range all {
		w |= 1 << m
	}
	return w
}

// Has reports whether the set contains the method.
func (w Ways) Has(m Method) bool { return w&(1<<m) != 0 }

// Without returns the set without the method.
func (w Ways) Without(m Method) Ways { return w &^ (1 << m) }

// String lists the methods, the least disruptive first.
func (w Ways) String() string {
	var all []string
	for _, m := range methods {
		if w.Has(m) {
			all = append(all, m.String())
		}
	}
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ", ")
}
