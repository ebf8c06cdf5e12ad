package sim

import (
	"time"

	"supercargo.dev/supercargo/internal/cluster/class"
)

// Fact is one change of a machine or a pod, for tests.
type Fact struct {
	At        time.Duration
	What      string
	Node, Pod string
	Flavor    string
	Class     class.Class
}

// Watched returns the input of a run that calls fn for every fact.
func (i Input) Watched(fn func(Fact)) Input {
	i.watch = func(f fact) {
		fn(Fact{At: f.at, What: string(f.what), Node: f.node, Pod: f.pod, Flavor: f.flavor, Class: f.class})
	}
	return i
}

// Exhaustive returns the input of a run without shortcuts.
func (i Input) Exhaustive() Input {
	i.exhaustive = true
	return i
}
