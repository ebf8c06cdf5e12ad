// Package view says what the dashboard shows of a cluster at a moment. It is a pure function of
// the objects and the time: the page only lays out what it is told here.
//
// Only the fields of [Page] leave the cluster by way of the dashboard. Environment variables,
// commands, Secrets and ConfigMaps are not among them.
package view

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// Snapshot is a cluster at a moment, each kind in any order. Nothing of it is changed.
type Snapshot struct {
	Nodes      []*corev1.Node
	Pods       []*corev1.Pod
	Fleets     []*v1alpha1.NodeFleet
	Migrations []*v1alpha1.Migration
	Policies   []*v1alpha1.ReplicaPolicy
	Pools      []*v1alpha1.WorkerPool
	Profiles   []*v1alpha1.MachineProfile
	// Events are those that parts of Supercargo have made.
	Events []*eventsv1.Event
	// Decisions are those that were seen before: an object's status has only the last one.
	Decisions []Decision
	// Prices are what nodes cost, by name. A node that is missing was not priced yet.
	Prices map[string]Price
	// Audit is the last audit of the cluster; nil before the first.
	Audit *Audit
	// Cycle is the width of a time bin.
	Cycle time.Duration
	// Notes say what could not be read, and why.
	Notes []string
}

// Price is what a node costs, in micro-dollars per hour, or why that is not known.
type Price struct {
	MicroDollarsPerHour int64
	Unpriced            string
}

// Page is all that is shown. Lists are ordered, and bounded but for nodes.
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

// Of returns what is shown of a snapshot at a time. Cost: O(n log n) for n objects.
func Of(s *Snapshot, now time.Time) *Page {
	p := &Page{
		Nodes: nodes(s, now), Pending: pending(s.Pods), Fleets: fleets(s.Fleets), Decisions: Remember(s.Decisions, decisions(s)),
		Migrations: migrations(s.Migrations), Policies: policies(s.Policies), Pools: pools(s.Pools),
	}
	p.Summary = summary(s, p)
	return p
}

// seconds is a time in seconds since 1970; 0 for the zero time.
func seconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}
