// Package shortage says what a pod requests, and what nodes with too little free have.
package shortage

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"supercargo.dev/supercargo/internal/text/plural"
	"supercargo.dev/supercargo/internal/world"
)

// Shortage is a resource of which some nodes have too little free for a pod.
type Shortage struct {
	// Resource is its name, such as cpu, and Requested what the pod requests.
	Resource  string            `json:"resource"`
	Requested resource.Quantity `json:"requested"`
	// Nodes is the number of nodes with too little. Of them, MostFree has the most free, and Largest the most in all; of
	// equal ones the first by name. They may be one node.
	Nodes    int  `json:"nodes"`
	MostFree Room `json:"mostFree"`
	Largest  Room `json:"largest"`
}

// Room is what a node has of a resource: Free is what no pod requests of Allocatable.
type Room struct {
	Node        string            `json:"node"`
	Free        resource.Quantity `json:"free"`
	Allocatable resource.Quantity `json:"allocatable"`
}

// Of groups what nodes lack for a pod by resource: CPU and memory first, then the others by name.
func Of(all []world.Shortage) []Shortage {
	by := map[corev1.ResourceName][]world.Shortage{}
	var names []corev1.ResourceName
	for _, s := range all {
		if by[s.Resource] == nil {
			names = append(names, s.Resource)
		}
		by[s.Resource] = append(by[s.Resource], s)
	}
	slices.SortFunc(names, func(a, b corev1.ResourceName) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) })
	found := make([]Shortage, 0, len(names))
	for _, name := range names {
		found = append(found, of(name, by[name]))
	}
	return found
}

func rank(name corev1.ResourceName) int {
	switch name {
	case corev1.ResourceCPU:
		return 0
	case corev1.ResourceMemory:
		return 1
	}
	return 2
}

// of returns what nodes lack of one resource. There is at least one node.
func of(name corev1.ResourceName, nodes []world.Shortage) Shortage {
	by := func(first, second func(s *world.Shortage) int64) Room {
		s := slices.MinFunc(nodes, func(a, b world.Shortage) int {
			return cmp.Or(cmp.Compare(first(&b), first(&a)), cmp.Compare(second(&b), second(&a)), cmp.Compare(a.Node, b.Node))
		})
		return Room{s.Node, quantity(name, s.Free), quantity(name, s.Allocatable)}
	}
	free, whole := func(s *world.Shortage) int64 { return s.Free }, func(s *world.Shortage) int64 { return s.Allocatable }
	return Shortage{string(name), quantity(name, nodes[0].Requested), len(nodes), by(free, whole), by(whole, free)}
}

// quantity returns an amount in the units of [world.Shortage].
func quantity(name corev1.ResourceName, amount int64) resource.Quantity {
	switch {
	case name == corev1.ResourceCPU:
		return *resource.NewMilliQuantity(amount, resource.DecimalSI)
	case inBytes(name):
		return *resource.NewQuantity(amount, resource.BinarySI)
	}
	return *resource.NewQuantity(amount, resource.DecimalSI)
}

func inBytes(name corev1.ResourceName) bool {
	return name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// String says what the pod requests and what nodes have, as sentences.
func (s *Shortage) String() string {
	u := unitOf(corev1.ResourceName(s.Resource), s.Requested)
	text := "It requests " + u.request(s.Requested)
	most := fmt.Sprintf("%s of %s", u.floor(s.MostFree.Free), u.floor(s.MostFree.Allocatable))
	switch {
	case s.Largest.Allocatable.IsZero() && s.Nodes == 1:
		return fmt.Sprintf("%s; node %s has none.", text, s.MostFree.Node)
	case s.Largest.Allocatable.IsZero():
		return fmt.Sprintf("%s; the %s with too little free have none.", text, plural.Count(s.Nodes, "node"))
	case s.Nodes == 1:
		return fmt.Sprintf("%s; node %s has %s free.", text, s.MostFree.Node, most)
	}
	text = fmt.Sprintf("%s; of the %s with too little free, %s has the most free: %s.", text, plural.Count(s.Nodes, "node"), s.MostFree.Node, most)
	if s.Largest.Allocatable.Cmp(s.MostFree.Allocatable) > 0 {
		text += fmt.Sprintf(" The largest of them, %s, has %s of %s free.", s.Largest.Node, u.floor(s.Largest.Free), u.floor(s.Largest.Allocatable))
	}
	return text
}

// unit is how amounts of a resource are written.
type unit struct {
	// one and many stand after the requested amount.
	one, many string
	// size is the unit, in thousandths of a CPU and otherwise in units of the resource, and parts the number of parts of it
	// that are told apart.
	size, parts int64
	milli       bool
}

// unitOf returns the unit in which a request, and what it is compared with, are written.
func unitOf(name corev1.ResourceName, request resource.Quantity) unit {
	of := " of " + string(name)
	switch {
	case name == corev1.ResourceCPU:
		return unit{"CPU", "CPUs", 1000, 1000, true}
	case !inBytes(name):
		return unit{string(name), string(name), 1, 1, false}
	case request.Value() >= 1<<30:
		return unit{"GiB" + of, "GiB" + of, 1 << 30, 100, false}
	case request.Value() >= 1<<20:
		return unit{"MiB" + of, "MiB" + of, 1 << 20, 100, false}
	}
	return unit{"byte" + of, "bytes" + of, 1, 1, false}
}

// request writes what a pod requests, rounded up, as floor rounds down: a request that exceeds what is free then also does
// so in the text.
func (u *unit) request(q resource.Quantity) string {
	n := u.in(q)
	text := u.write(n/u.size*u.parts + (n%u.size*u.parts+u.size-1)/u.size)
	if text == "1" {
		return text + " " + u.one
	}
	return text + " " + u.many
}

// floor writes what a node has, rounded down.
func (u *unit) floor(q resource.Quantity) string {
	n := u.in(q)
	return u.write(n/u.size*u.parts + n%u.size*u.parts/u.size)
}

func (u *unit) in(q resource.Quantity) int64 {
	if u.milli {
		return q.MilliValue()
	}
	return q.Value()
}

func (u *unit) write(parts int64) string {
	return strconv.FormatFloat(float64(parts)/float64(u.parts), 'f', -1, 64)
}
