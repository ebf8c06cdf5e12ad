// Package status says what is shown of the objects of a cluster: a [Page] for the dashboard, of which `supercargo
// explain` prints conditions, steps and decisions too. It is a pure function of the objects and the time; the page and
// the command only format its result.
//
// Only the fields of [Page] leave the cluster through the dashboard. They do not contain environment
// variables, commands, Secrets or ConfigMaps.
package status

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// Snapshot is the state of a cluster at a time. Each kind is in any order. It is not modified.
type Snapshot struct {
	Nodes      []*corev1.Node
	Pods       []*corev1.Pod
	Fleets     []*v1alpha1.NodeFleet
	Migrations []*v1alpha1.Migration
	Policies   []*v1alpha1.ReplicaPolicy
	Pools      []*v1alpha1.WorkerPool
	Profiles   []*v1alpha1.MachineProfile
	// Events are those of Supercargo's controllers.
	Events []*eventsv1.Event
	// Decisions are earlier decisions: the status of an object has only the last one.
	Decisions []Decision
	// Prices are the prices of nodes, by name; nil before they are read.
	Prices map[string]Price
	// Audit is the last audit of the cluster; nil before the first. NoAudits reports that there will be none.
	Audit    *Audit
	NoAudits bool
	// Cycle is the width of a time bin.
	Cycle time.Duration
}

// Price is the price of a node, in micro-dollars per hour, or why it is unknown.
type Price struct {
	MicroDollarsPerHour int64
	Unpriced            string
}

// Page is the content of the page. Lists are sorted, and limited in length except for nodes.
type Page struct {
	Summary    Summary
	Nodes      []Node
	Pending    []Pending
	Fleets     []Fleet
	Decisions  []Decision
	Migrations []Migration
	Policies   []Policy
	Pools      []Pool
}

// Of returns the page for a snapshot at a time. Cost: O(n log n) for n objects.
func Of(s *Snapshot, now time.Time) *Page {
	p := &Page{
		Nodes: nodes(s, now), Pending: pending(s.Pods), Decisions: Remember(s.Decisions, decisions(s)),
		Fleets:     sorted(s.Fleets, fleetOf, func(f *Fleet) string { return f.Name }),
		Policies:   sorted(s.Policies, policyOf, func(p *Policy) string { return p.Name }),
		Pools:      sorted(s.Pools, poolOf, func(p *Pool) string { return p.Name }),
		Migrations: migrations(s.Migrations),
	}
	p.Summary = summary(s, p)
	return p
}

// sorted returns what is shown of each object, sorted by name.
func sorted[O, S any](all []O, of func(O) S, name func(*S) string) []S {
	shown := make([]S, 0, len(all))
	for _, o := range all {
		shown = append(shown, of(o))
	}
	slices.SortFunc(shown, func(a, b S) int { return cmp.Compare(name(&a), name(&b)) })
	return shown
}

// seconds returns a time in seconds since 1970; 0 for the zero time.
func seconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}
