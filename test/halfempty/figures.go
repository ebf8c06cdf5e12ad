package halfempty

import (
	"fmt"
	"slices"
	"syscall"
	"time"
)

// Figures is what an autoscaler made of a cluster.
type Figures struct {
	Autoscaler string `json:"autoscaler"`
	Nodes      int    `json:"nodes"`
	Pods       int    `json:"pods"`
	Flavors    int    `json:"flavors"`
	// Budget is how many machines may be removed at the same time.
	Budget string `json:"budget"`
	// FirstDollarsPerHour and LastDollarsPerHour are the price of all machines at the start and at the end, and Course
	// that at the end of each minute. Dollars is the bill of the whole time.
	FirstDollarsPerHour float64   `json:"firstDollarsPerHour"`
	LastDollarsPerHour  float64   `json:"lastDollarsPerHour"`
	Course              []float64 `json:"course"`
	Dollars             float64   `json:"dollars"`
	// LastNodes are the machines at the end, PodsMoved the evictions, and Homeless the pods that are on no node at the end.
	LastNodes int `json:"lastNodes"`
	PodsMoved int `json:"podsMoved"`
	Homeless  int `json:"homeless"`
	// Timeouts are searches that were ended by a time limit, where the autoscaler counts them.
	Timeouts int `json:"timeouts"`
	// Decisions are the rounds that changed something, and Idle the number of others. IdleSeconds is their mean time.
	Decisions   []Decision `json:"decisions"`
	Idle        int        `json:"idle"`
	IdleSeconds float64    `json:"idleSeconds"`
	// MeanSeconds and MaxSeconds are the time of the decisions, and MeanCPUSeconds the processor time.
	MeanSeconds    float64 `json:"meanSeconds"`
	MeanCPUSeconds float64 `json:"meanCPUSeconds"`
	MaxSeconds     float64 `json:"maxSeconds"`
}

// Decision is a round of an autoscaler.
type Decision struct {
	// At is when it was taken.
	At float64 `json:"at"`
	// Seconds is the time of the round by the clock of the computer, and CPUSeconds the processor time of the process.
	Seconds    float64 `json:"seconds"`
	CPUSeconds float64 `json:"cpuSeconds"`
	// Removes is the number of nodes that it began to empty, Buys that of machines that it ordered, and Releases that of
	// machines that it released.
	Removes  int `json:"removes"`
	Buys     int `json:"buys"`
	Releases int `json:"releases"`
}

// Add adds a round.
func (f *Figures) Add(d Decision) {
	if d.Removes+d.Buys+d.Releases > 0 {
		f.Decisions = append(f.Decisions, d)
		return
	}
	f.IdleSeconds = (f.IdleSeconds*float64(f.Idle) + d.Seconds) / float64(f.Idle+1)
	f.Idle++
}

// Sum fills in what follows from the world and the rounds at the end.
func (f *Figures) Sum(c *Cluster, w *World, end time.Duration) {
	f.Nodes, f.Pods, f.Flavors = len(c.Nodes), len(c.Pods), len(c.Flavors)
	f.FirstDollarsPerHour, f.LastDollarsPerHour = w.DollarsPerHour(0), w.DollarsPerHour(end)
	for at := time.Minute; at <= end; at += time.Minute {
		f.Course = append(f.Course, w.DollarsPerHour(at))
	}
	f.Dollars, f.LastNodes, f.PodsMoved, f.Homeless = w.Bill(end), w.Machines(end), w.Moved(), w.Homeless()
	for _, d := range f.Decisions {
		f.MeanSeconds += d.Seconds / float64(len(f.Decisions))
		f.MeanCPUSeconds += d.CPUSeconds / float64(len(f.Decisions))
		f.MaxSeconds = max(f.MaxSeconds, d.Seconds)
	}
}

// String describes the figures in a line.
func (f *Figures) String() string {
	return fmt.Sprintf("%d nodes, budget %s, %s: $%.2f/h to $%.2f/h on %d nodes, $%.2f, %d decisions of %.2f s (CPU %.2f s, at most %.2f s), %d time-outs, %d pods moved",
		f.Nodes, f.Budget, f.Autoscaler, f.FirstDollarsPerHour, f.LastDollarsPerHour, f.LastNodes, f.Dollars, len(f.Decisions), f.MeanSeconds, f.MeanCPUSeconds, f.MaxSeconds, f.Timeouts, f.PodsMoved)
}

// Table returns the rows of figures for the documentation, in Markdown.
func Table(all []*Figures) []string {
	rows := []string{
		"| nodes | budget | autoscaler | $/h at first | after 1 min | 3 min | 10 min | nodes | bill | pods moved | decisions | time | CPU | longest | time-outs |",
		"| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
	}
	after := func(f *Figures, minutes int) string {
		if len(f.Course) < minutes {
			return ""
		}
		return fmt.Sprintf("%.2f", f.Course[minutes-1])
	}
	for _, f := range all {
		rows = append(rows, fmt.Sprintf("| %d | %s | %s | %.2f | %s | %s | %.2f | %d | $%.2f | %d | %d | %.2f s | %.2f s | %.2f s | %d |",
			f.Nodes, f.Budget, f.Autoscaler, f.FirstDollarsPerHour, after(f, 1), after(f, 3), f.LastDollarsPerHour, f.LastNodes, f.Dollars,
			f.PodsMoved, len(f.Decisions), f.MeanSeconds, f.MeanCPUSeconds, f.MaxSeconds, f.Timeouts))
	}
	return slices.Clip(rows)
}

// Used returns the processor time of the process.
func Used() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0 // not possible for the own process
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
