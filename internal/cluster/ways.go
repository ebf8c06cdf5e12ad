package cluster

import "strings"

// Method is a way in which a pod leaves a node.
type Method int

const (
	// Migrate moves a pod with its state: it continues where it was.
	Migrate Method = iota
	// Evict kills a pod, which is then scheduled anew and starts from the beginning.
	Evict
	// Wait leaves a batch pod where it is until it ends. The node takes no others
	// meanwhile.
	Wait
)

// methods are all of them, the one that disturbs a pod least first.
var methods = [...]Method{Wait, Migrate, Evict}

// String is a word for people.
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

// Ways are the methods by which a pod may leave its node. The zero value is no opinion:
// the configuration of whoever plans decides.
type Ways uint8

// WaysOf returns the set of these methods.
func WaysOf(all ...Method) Ways {
	var w Ways
	for _, m := range all {
		w |= 1 << m
	}
	return w
}

// Has reports whether the method is one of them.
func (w Ways) Has(m Method) bool { return w&(1<<m) != 0 }

// Without returns the others.
func (w Ways) Without(m Method) Ways { return w &^ (1 << m) }

// String names them, the one that disturbs a pod least first.
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
