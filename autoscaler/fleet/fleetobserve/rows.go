package fleetobserve

import (
	"time"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/fleetdecide"
)

// RowsOf returns what the status of a fleet contains about its flavors, by flavor name.
func RowsOf(fleet *v1alpha1.NodeFleet) map[string]*v1alpha1.FlavorStatus {
	rows := make(map[string]*v1alpha1.FlavorStatus, len(fleet.Status.Flavors))
	for i := range fleet.Status.Flavors {
		rows[fleet.Status.Flavors[i].Name] = &fleet.Status.Flavors[i]
	}
	return rows
}

// lagOf returns the expected start-up time of a machine of a flavor. row is what the status contains about it; nil if
// nothing.
func lagOf(fleet *v1alpha1.NodeFleet, row *v1alpha1.FlavorStatus) time.Duration {
	var learned *v1alpha1.LearnedTime
	if row != nil {
		learned = row.Lag
	}
	return fleetdecide.ExpectedLag(learned, fleet.Spec.Scaling.ExpectedLag.Duration)
}

// lagsOf returns a function that is [ReadyAfter] for the fleet, at the cost of a map lookup.
func lagsOf(fleet *v1alpha1.NodeFleet) func(flavor string) time.Duration {
	rows := RowsOf(fleet)
	return func(flavor string) time.Duration { return lagOf(fleet, rows[flavor]) }
}

// ReadyAfter returns the expected time from the order of a machine of a flavor until it accepts pods.
func ReadyAfter(fleet *v1alpha1.NodeFleet, flavor string) time.Duration {
	for i := range fleet.Status.Flavors {
		if fleet.Status.Flavors[i].Name == flavor {
			return lagOf(fleet, &fleet.Status.Flavors[i])
		}
	}
	return lagOf(fleet, nil)
}
