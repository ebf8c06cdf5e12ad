// Package outcome says what simulated runs came to, and shows it: as JSON, as a
// table for a terminal, and as an HTML page that needs no network.
//
// [Report] is one seed of a scenario, [Summary] several. The package is pure: the
// same report gives the same bytes.
package outcome

// Report compares policies on one scenario.
type Report struct {
	// Scenario is the scenario's name.
	Scenario string `json:"scenario"`
	// Seed drew the workload and broke ties.
	Seed uint64 `json:"seed"`
	// Policies are in the order in which they were asked for.
	Policies []Policy `json:"policies"`
}

// SameEnd fills in what each policy's energy comes to at the end of the longest run.
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

// Policy is what one policy made of the scenario.
type Policy struct {
	Name string `json:"name"`
	// CostDollars is the bill of all machines. LowerBoundDollars is what no policy
	// can go below; it is the same for all policies of a report.
	CostDollars       float64 `json:"costDollars"`
	LowerBoundDollars float64 `json:"lowerBoundDollars"`
	// ServedBoundDollars is what no policy can go below that serves each service from
	// its arrival to its end, but for ServedBoundWaitSeconds on average. Both are the
	// same for all policies of a report. The bound is 0 where it is not known.
	ServedBoundDollars     float64 `json:"servedBoundDollars"`
	ServedBoundWaitSeconds float64 `json:"servedBoundWaitSeconds"`
	// ServiceWaitSeconds is how long a service was without a machine between its
	// arrival and its end, or that of the run, on average over the services that some
	// machine can hold: before its first start and after evictions.
	ServiceWaitSeconds float64 `json:"serviceWaitSeconds"`
	// EnergyJoules is what the machines drew while they were paid for, idle power
	// included. It is 0 if no flavor states its power.
	EnergyJoules float64 `json:"energyJoules"`
	// Energy says where the joules went. It is absent if no flavor states its power.
	Energy *Energy `json:"energy,omitempty"`
	// Runtime is from the first start of a batch pod to its end, Response from its
	// arrival to its end, over the completed ones; absent if there is none.
	Runtime  *Waits `json:"runtimeSeconds,omitempty"`
	Response *Waits `json:"responseSeconds,omitempty"`
	// MakespanSeconds is when the last batch pod ended, counted from the start.
	MakespanSeconds float64 `json:"makespanSeconds"`
	// EndSeconds is when the run ended and the last machine was released.
	EndSeconds  float64     `json:"endSeconds"`
	Pods        Pods        `json:"pods"`
	Scheduling  Waits       `json:"schedulingSeconds"`
	Utilization Utilization `json:"utilization"`
	Nodes       Nodes       `json:"nodes"`
	Moves       Moves       `json:"moves"`
	// Events counts what happened, by kind.
	Events map[string]int64 `json:"events"`
	// PendingReasons counts the pods that never found a place, by reason.
	PendingReasons map[string]int64 `json:"pendingReasons,omitempty"`
	// WallSeconds is how long the simulation took on this machine; 0 where the
	// output has to be the same everywhere.
	WallSeconds float64 `json:"wallSeconds"`
	// Series are the courses over time, all of one length.
	Series Series `json:"series"`
}

// Pods counts the pods of the workload. Scheduled ones started at least once;
// a service that runs to the end of the run is not completed; pending ones wait
// at the end of the run; failed ones ended before their work was done and were
// not started again.
type Pods struct {
	Submitted int `json:"submitted"`
	Scheduled int `json:"scheduled"`
	Completed int `json:"completed"`
	Pending   int `json:"pending"`
	Failed    int `json:"failed"`
}

// Energy says where the energy of a run went.
type Energy struct {
	// TaskJoules is what pods drew above idle power, IdleJoules the idle power of machines
	// that could take pods, StandbyJoules what machines drew that could not: in standby, and
	// while they woke. Together they are all of it.
	TaskJoules    float64 `json:"taskJoules"`
	IdleJoules    float64 `json:"idleJoules"`
	StandbyJoules float64 `json:"standbyJoules"`
	// EndWatts is what the machines drew at the end of the run, and SameEndJoules all energy
	// if they had gone on like that until the longest run of the report ended: machines that
	// stay draw idle power whether or not their own run is over. See [Report.SameEnd].
	EndWatts      float64 `json:"endWatts"`
	SameEndJoules float64 `json:"sameEndJoules"`
	// Dollars is what the energy cost, beside the bill of the machines, and CarbonGrams what
	// it emitted in CO2 equivalents. Both are absent where the scenario does not say.
	Dollars     float64 `json:"dollars,omitempty"`
	CarbonGrams float64 `json:"carbonGrams,omitempty"`
	// MachineTypes are ordered by name.
	MachineTypes []MachineEnergy `json:"machineTypes"`
}

// MachineEnergy is what all machines of a type drew; its parts are those of [Energy].
type MachineEnergy struct {
	MachineType   string  `json:"machineType"`
	Joules        float64 `json:"joules"`
	TaskJoules    float64 `json:"taskJoules"`
	IdleJoules    float64 `json:"idleJoules"`
	StandbyJoules float64 `json:"standbyJoules"`
}

// Waits are the times from the submission of a pod to its first start, waiting for
// machines included, over the pods that started. Percentiles are nearest ranks.
type Waits struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P95  float64 `json:"p95"`
	Max  float64 `json:"max"`
}

// Utilization is the share of the machines' capacity that running pods
// requested, while the machines were paid for, from 0 to 1.
type Utilization struct {
	CPU    float64 `json:"cpu"`
	Memory float64 `json:"memory"`
}

// Nodes counts machines: those there at the start, the most at one time, those
// bought and those released before the end, and the machine hours paid for.
type Nodes struct {
	Start   int     `json:"start"`
	Peak    int     `json:"peak"`
	Added   int     `json:"added"`
	Removed int     `json:"removed"`
	Hours   float64 `json:"hours"`
}

// Moves counts the pods that were moved with their state, those that were killed
// to be started elsewhere, and the work that the latter lost.
type Moves struct {
	Migrations int `json:"migrations"`
	Evictions  int `json:"evictions"`
	// Restarts are those of the evictions that were started anew on a machine chosen for
	// them.
	Restarts        int     `json:"restarts"`
	LostWorkSeconds float64 `json:"lostWorkSeconds"`
	// FrozenSeconds is for how long pods were frozen to be moved with their state.
	FrozenSeconds float64 `json:"frozenSeconds"`
	// ExpectedSavedJoules is what single moves, to machines that suit the pods better, were
	// expected to save when they were decided, all that they take included;
	// ExpectedAddedJoules what others were expected to cost where time was wanted more than
	// energy.
	ExpectedSavedJoules float64 `json:"expectedSavedJoules"`
	ExpectedAddedJoules float64 `json:"expectedAddedJoules"`
}

// Series are samples at equal distances, the first at 0. Sample i shows the
// moment i·StepSeconds after the start; the last sample may lie after the end of
// the run and shows its end.
type Series struct {
	StepSeconds float64 `json:"stepSeconds"`
	// CostDollars is what has been paid so far. CPU and Memory are the shares of
	// the capacity of all machines that are requested at the moment. Machines
	// counts those paid for, Pending the pods that wait. Moves counts migrations
	// and evictions so far.
	CostDollars []float64 `json:"costDollars"`
	CPU         []float64 `json:"cpu"`
	Memory      []float64 `json:"memory"`
	Machines    []int     `json:"machines"`
	Pending     []int     `json:"pending"`
	Moves       []int     `json:"moves"`
}
