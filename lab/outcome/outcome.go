// Package outcome presents the results of simulated runs as JSON, as a table for a terminal, and as
// an HTML page that needs no network.
//
// [Report] covers one seed of a scenario, [Summary] several. The package is pure: the same report
// gives the same bytes.
package outcome

import (
	"encoding/json"
	"iter"
)

// Report compares policies on one scenario.
type Report struct {
	// Scenario is the scenario's name.
	Scenario string `json:"scenario"`
	// Seed determines the workload and breaks ties.
	Seed uint64 `json:"seed"`
	// Policies are in the order of the command line.
	Policies []Policy `json:"policies"`
	// BoundsError is why a bound is not known. It is empty if both are.
	BoundsError string `json:"boundsError,omitempty"`
}

// ended returns the policies that did not fail, with their index.
func (r Report) ended() iter.Seq2[int, Policy] {
	return func(yield func(int, Policy) bool) {
		for i, p := range r.Policies {
			if p.Error == "" && !yield(i, p) {
				return
			}
		}
	}
}

// hasEnded reports whether there is a policy that did not fail.
func (r Report) hasEnded() bool {
	for range r.ended() {
		return true
	}
	return false
}

// first returns the first policy that did not fail. Without one, its figures are 0.
func (r Report) first() Policy {
	for _, p := range r.ended() {
		return p
	}
	return Policy{}
}

// SameEnd sets the energy that each policy uses until the end of the longest run.
func (r Report) SameEnd() {
	end := 0.0
	for _, p := range r.Policies {
		end = max(end, p.EndSeconds)
	}
	for _, p := range r.Policies {
		if p.Energy != nil {
			p.Energy.SameEndJoules = p.EnergyJoules + float64(p.Energy.EndWatts*(end-p.EndSeconds))
		}
	}
}

// Policy is the result of one policy.
type Policy struct {
	Name string `json:"name"`
	// Error is why the simulation of the policy failed. The other fields are then unset, and absent
	// in JSON.
	Error string `json:"error,omitempty"`
	// CostDollars is the bill of all machines. LowerBoundDollars is the lower bound under any
	// policy; it is the same for all policies of a report.
	CostDollars       float64 `json:"costDollars"`
	LowerBoundDollars float64 `json:"lowerBoundDollars"`
	// ServedBoundDollars is the lower bound under any policy that serves each service from its
	// arrival to its end, except for ServedBoundWaitSeconds on average. Both are the same for all
	// policies of a report. The bound is 0 if it is not known.
	ServedBoundDollars     float64 `json:"servedBoundDollars"`
	ServedBoundWaitSeconds float64 `json:"servedBoundWaitSeconds"`
	// ServiceWaitSeconds is the time that a service was without a machine between its arrival and
	// its end, or that of the run: before its first start and after evictions. It is averaged over
	// the services that some machine can hold.
	ServiceWaitSeconds float64 `json:"serviceWaitSeconds"`
	// EnergyJoules is the energy that the machines drew while they were billed, including idle
	// power. It is 0 if no flavor states its power.
	EnergyJoules float64 `json:"energyJoules"`
	// Energy breaks the energy down. It is absent if no flavor states its power.
	Energy *Energy `json:"energy,omitempty"`
	// Runtime is the time from the first start of a batch pod to its end, Response the time from
	// its arrival to its end, over the completed pods. They are absent if there are none.
	Runtime  *Waits `json:"runtimeSeconds,omitempty"`
	Response *Waits `json:"responseSeconds,omitempty"`
	// MakespanSeconds is the end of the last batch pod, measured from the start of the run.
	MakespanSeconds float64 `json:"makespanSeconds"`
	// EndSeconds is the time when the run had ended and the last machine was released.
	EndSeconds  float64     `json:"endSeconds"`
	Pods        Pods        `json:"pods"`
	Scheduling  Waits       `json:"schedulingSeconds"`
	Utilization Utilization `json:"utilization"`
	Nodes       Nodes       `json:"nodes"`
	Moves       Moves       `json:"moves"`
	// Events counts events by kind.
	Events map[string]int64 `json:"events"`
	// PendingReasons counts the pods that were never scheduled, by reason.
	PendingReasons map[string]int64 `json:"pendingReasons,omitempty"`
	// WallSeconds is the duration of the simulation on this machine, or 0 where the output must be
	// reproducible.
	WallSeconds float64 `json:"wallSeconds"`
	// Series are the samples over time, all of the same length.
	Series Series `json:"series"`
}

// MarshalJSON leaves out the figures of a policy that failed.
func (p Policy) MarshalJSON() ([]byte, error) {
	if p.Error != "" {
		return json.Marshal(failure{p.Name, p.Error})
	}
	type plain Policy
	return json.Marshal(plain(p))
}

// failure is the JSON of a policy that failed.
type failure struct {
	Name  string `json:"name"`
	Error string `json:"error"`
}

// Pods counts the pods of the workload. Scheduled pods started at least once. A service that runs
// to the end of the run is not completed. Pending pods wait at the end of the run. Failed pods
// ended before their work was done and were not restarted.
type Pods struct {
	Submitted int `json:"submitted"`
	Scheduled int `json:"scheduled"`
	Completed int `json:"completed"`
	Pending   int `json:"pending"`
	Failed    int `json:"failed"`
}

// Energy breaks down the energy of a run.
type Energy struct {
	// TaskJoules is what pods drew above idle power, and IdleJoules the idle power of machines that
	// could accept pods. Their sum is the total.
	TaskJoules float64 `json:"taskJoules"`
	IdleJoules float64 `json:"idleJoules"`
	// EndWatts is the power of the machines at the end of the run. SameEndJoules is the total
	// energy if they had kept that power until the longest run of the report ended: remaining
	// machines draw idle power even when their own run is over. See [Report.SameEnd].
	EndWatts      float64 `json:"endWatts"`
	SameEndJoules float64 `json:"sameEndJoules"`
	// Dollars is the price of the energy, in addition to the bill of the machines. CarbonGrams is
	// its emission in CO2 equivalents. Both are absent if the scenario does not state them.
	Dollars     float64 `json:"dollars,omitempty"`
	CarbonGrams float64 `json:"carbonGrams,omitempty"`
	// MachineTypes are ordered by name.
	MachineTypes []MachineEnergy `json:"machineTypes"`
}

// MachineEnergy is the energy of all machines of a type. Its parts are those of [Energy].
type MachineEnergy struct {
	MachineType string  `json:"machineType"`
	Joules      float64 `json:"joules"`
	TaskJoules  float64 `json:"taskJoules"`
	IdleJoules  float64 `json:"idleJoules"`
}

// Waits are times per pod, by default from the submission of a pod to its first start, including
// the wait for machines, over the pods that started. Percentiles are nearest ranks.
type Waits struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P95  float64 `json:"p95"`
	Max  float64 `json:"max"`
}

// Utilization is the share of the machines' capacity that running pods
// requested, while the machines were billed, from 0 to 1.
type Utilization struct {
	CPU    float64 `json:"cpu"`
	Memory float64 `json:"memory"`
}

// Nodes counts machines: at the start, at the peak, bought and released before the end, and the
// billed machine hours.
type Nodes struct {
	Start   int     `json:"start"`
	Peak    int     `json:"peak"`
	Added   int     `json:"added"`
	Removed int     `json:"removed"`
	Hours   float64 `json:"hours"`
}

// Moves counts the pods that were moved with their state, the pods that were killed and restarted
// elsewhere, and the work that the latter lost.
type Moves struct {
	Migrations      int     `json:"migrations"`
	Evictions       int     `json:"evictions"`
	LostWorkSeconds float64 `json:"lostWorkSeconds"`
	// FrozenSeconds is the time that pods were frozen during migrations.
	FrozenSeconds float64 `json:"frozenSeconds"`
	// ExpectedSavedJoules is what single moves to more suitable machines were expected to save when
	// they were decided, including their own cost. ExpectedAddedJoules is what other moves were
	// expected to cost where runtime had more weight than energy.
	ExpectedSavedJoules float64 `json:"expectedSavedJoules"`
	ExpectedAddedJoules float64 `json:"expectedAddedJoules"`
}

// Series are samples at equal intervals, the first at 0. Sample i is the state at i·StepSeconds
// after the start. The last sample may lie after the end of the run and shows its end.
type Series struct {
	StepSeconds float64 `json:"stepSeconds"`
	// CostDollars is the bill so far. CPU and Memory are the requested shares of the capacity of
	// all machines. Machines counts billed machines, Pending the waiting pods. Moves counts
	// migrations and evictions so far.
	CostDollars []float64 `json:"costDollars"`
	CPU         []float64 `json:"cpu"`
	Memory      []float64 `json:"memory"`
	Machines    []int     `json:"machines"`
	Pending     []int     `json:"pending"`
	Moves       []int     `json:"moves"`
}
