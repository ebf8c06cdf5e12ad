package autoscalers

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"supercargo.dev/supercargo/internal/text/jsondoc"
	"supercargo.dev/supercargo/lab/replay"
	"supercargo.dev/supercargo/lab/report"
)

// Summary is the content of the file that --report names.
type Summary struct {
	Comparisons []*Comparison `json:"comparisons"`
}

// Comparison contains the runs of all contestants in one world.
type Comparison struct {
	Load       string  `json:"load"`
	Flavors    int     `json:"flavors"`
	Pace       string  `json:"pace"`
	Stretch    float64 `json:"stretch"`
	LagSeconds float64 `json:"lagSeconds"`
	Runs       []*Run  `json:"runs"`
	// Means has the mean of each contestant's runs, in the order in which they ran.
	Means []*Mean `json:"means"`
}

// Run contains the measurements of one run. Times are those of the replay, not of the recorded load.
type Run struct {
	Contestant string    `json:"contestant"`
	Round      int       `json:"round"`
	Began      time.Time `json:"began"`
	// LoadAverage is the content of /proc/loadavg over the minute before the run.
	LoadAverage   string  `json:"loadAverage"`
	WindowSeconds float64 `json:"windowSeconds"`
	// Dollars is the cost of all machines, each from its order until its release, including machines that are
	// released after the window.
	Dollars float64 `json:"dollars"`
	// DollarsPerHour is their cost within the window, per hour.
	DollarsPerHour float64 `json:"dollarsPerHour"`
	// Machines is the number of machines ordered, MachinesPeak the greatest number at one time, and
	// MachinesByFlavor the number ordered of each flavor.
	Machines         int            `json:"machines"`
	MachinesPeak     int            `json:"machinesPeak"`
	MachinesByFlavor map[string]int `json:"machinesByFlavor"`
	// StartSeconds is the time from a machine's order until its Node accepts pods, and EndSeconds the time
	// from the end of its last pod until its release. Both are averages over machines that had pods.
	StartSeconds float64 `json:"startSeconds"`
	EndSeconds   float64 `json:"endSeconds"`
	// ShrinkSeconds is the time from the end of the window until the last machine was released.
	ShrinkSeconds float64 `json:"shrinkSeconds"`

	// Pods is the number of pods created within the window, of PodsPlanned in the load. PodsBound counts
	// bindings: a pod that is restarted has several.
	PodsPlanned    int `json:"podsPlanned"`
	Pods           int `json:"pods"`
	PodsBound      int `json:"podsBound"`
	PodsNeverBound int `json:"podsNeverBound"`
	// PodsRestarted counts restarts of pods that were evicted or failed, and PodsLost those that had not been
	// recreated at the end of the window. LostPodSeconds is the lost runtime of restarted pods.
	PodsRestarted  int     `json:"podsRestarted"`
	PodsLost       int     `json:"podsLost"`
	LostPodSeconds float64 `json:"lostPodSeconds"`
	// BindMeanSeconds and BindP95Seconds are the time from creation to binding, of pods that were bound.
	BindMeanSeconds float64 `json:"bindMeanSeconds"`
	BindP95Seconds  float64 `json:"bindP95Seconds"`
	// CPUUtilization and MemoryUtilization are the utilization of nodes with pods.
	CPUUtilization    float64 `json:"cpuUtilization"`
	MemoryUtilization float64 `json:"memoryUtilization"`
}

// Mean is the mean of a contestant's runs.
type Mean struct {
	Contestant      string  `json:"contestant"`
	Dollars         float64 `json:"dollars"`
	DollarsPerHour  float64 `json:"dollarsPerHour"`
	BindMeanSeconds float64 `json:"bindMeanSeconds"`
	BindP95Seconds  float64 `json:"bindP95Seconds"`
	Pods            float64 `json:"pods"`
	PodsNeverBound  float64 `json:"podsNeverBound"`
	PodsRestarted   float64 `json:"podsRestarted"`
	// SupercargoTo contains Supercargo's results divided by these: below 1, Supercargo is cheaper or faster.
	// It is nil without a run of Supercargo, and if one of the two left too many pods unbound to compare,
	// which happens on a computer that is too busy for the pace.
	SupercargoTo *Ratios `json:"supercargoTo,omitempty"`

	runs float64
}

// Ratios compares two contestants.
type Ratios struct {
	Dollars        float64 `json:"dollars"`
	DollarsPerHour float64 `json:"dollarsPerHour"`
	BindMean       float64 `json:"bindMean"`
	BindP95        float64 `json:"bindP95"`
}

// microsPerDollar is the number of micro-dollars per dollar.
const microsPerDollar = 1e6

// leastCreated is the share of a load's pods that must be created within the window for the run to count. The
// last pods of a load may come after the window.
const leastCreated = 0.9

// account fills in the results of a run.
func (r *Run) account(w *world, m *meter, replayed *replay.Result) error {
	machines, nodes := m.seen()
	if err := r.bill(machines, replayed.Began, replayed.Window); err != nil {
		return err
	}
	if created := len(replayed.Stays); float64(created) < leastCreated*float64(len(w.load.pods)) {
		return fmt.Errorf("%d of %d pods were created: this computer is too busy for the pace", created, len(w.load.pods))
	}
	stays := append(slices.Clone(replayed.Stays), replayed.Replaced...)
	start, end := m.spans(stays, replayed.Began, replayed.Window)
	r.StartSeconds, r.EndSeconds = start.Seconds(), end.Seconds()
	usage, err := report.Account(nodes, stays, replayed.Window)
	if err != nil {
		return fmt.Errorf("account for the pods: %w", err)
	}
	if len(replayed.Refused) > 0 {
		return fmt.Errorf("%d pods were refused, the first because: %w", len(replayed.Refused), replayed.Refused[0])
	}
	r.PodsPlanned, r.Pods = len(w.load.pods), len(replayed.Stays)
	r.PodsBound, r.PodsNeverBound = usage.PodsBound, usage.PodsNeverBound
	r.PodsRestarted, r.PodsLost = len(replayed.Replaced), replayed.Lost-len(replayed.Replaced)
	r.BindMeanSeconds, r.BindP95Seconds = usage.BindMean.Seconds(), usage.BindP95.Seconds()
	r.CPUUtilization, r.MemoryUtilization = usage.CPUUtilisation, usage.MemoryUtilisation
	for _, s := range replayed.Replaced {
		if s.Bound != report.Never {
			r.LostPodSeconds += (s.Gone - s.Bound).Seconds()
		}
	}
	return nil
}

// bill adds up the cost of machines, all of which must have been released.
func (r *Run) bill(machines []machine, began time.Time, window time.Duration) error {
	end := began.Add(window)
	r.WindowSeconds, r.Machines, r.MachinesByFlavor = window.Seconds(), len(machines), map[string]int{}
	last := end
	var here []time.Time // end times of the machines ordered so far
	for i, m := range machines {
		if m.flavor == "" {
			return fmt.Errorf("machine %d of %d was ordered and has gone without its flavor being known", i+1, len(machines))
		}
		perSecond := float64(m.price) / microsPerDollar / time.Hour.Seconds()
		r.Dollars += perSecond * m.gone.Sub(m.ordered).Seconds()
		if within := earliest(m.gone, end).Sub(latest(m.ordered, began)); within > 0 {
			r.DollarsPerHour += perSecond * within.Seconds() * time.Hour.Seconds() / window.Seconds()
		}
		r.MachinesByFlavor[m.flavor]++
		here = append(here, m.gone)
		now := 0
		for _, gone := range here {
			if gone.After(m.ordered) {
				now++
			}
		}
		r.MachinesPeak = max(r.MachinesPeak, now)
		last = latest(last, m.gone)
	}
	r.ShrinkSeconds = last.Sub(end).Seconds()
	return nil
}

func earliest(times ...time.Time) time.Time { return slices.MinFunc(times, time.Time.Compare) }

func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

// average recomputes the means.
func (c *Comparison) average() {
	c.Means = nil
	of := map[string]*Mean{}
	for _, r := range c.Runs {
		m, ok := of[r.Contestant]
		if !ok {
			m = &Mean{Contestant: r.Contestant}
			of[r.Contestant] = m
			c.Means = append(c.Means, m)
		}
		m.add(r)
	}
	ours := of[supercargoFleet]
	for _, m := range c.Means {
		if m != ours && ours != nil && ours.served() && m.served() {
			m.SupercargoTo = &Ratios{
				Dollars: ours.Dollars / m.Dollars, DollarsPerHour: ours.DollarsPerHour / m.DollarsPerHour,
				BindMean: ours.BindMeanSeconds / m.BindMeanSeconds, BindP95: ours.BindP95Seconds / m.BindP95Seconds,
			}
		}
	}
}

// mostNeverBound is the greatest share of pods without a binding at which results are comparable.
const mostNeverBound = 0.05

// served reports whether a contestant bound nearly all pods.
func (m *Mean) served() bool {
	return m.DollarsPerHour > 0 && m.BindMeanSeconds > 0 && m.BindP95Seconds > 0 && m.PodsNeverBound <= mostNeverBound*m.Pods
}

// add adds one more run to the mean.
func (m *Mean) add(r *Run) {
	m.runs++
	for _, f := range []struct {
		mean *float64
		now  float64
	}{
		{&m.Dollars, r.Dollars}, {&m.DollarsPerHour, r.DollarsPerHour}, {&m.BindMeanSeconds, r.BindMeanSeconds}, {&m.BindP95Seconds, r.BindP95Seconds},
		{&m.Pods, float64(r.Pods)}, {&m.PodsNeverBound, float64(r.PodsNeverBound)}, {&m.PodsRestarted, float64(r.PodsRestarted)},
	} {
		*f.mean += (f.now - *f.mean) / m.runs
	}
}

// writeFile writes all measurements so far.
func (s *Summary) writeFile(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(jsondoc.Write(file, s), file.Close())
}

// writeTable prints the means.
func (s *Summary) writeTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "load\tflavors\tpace\tautoscaler\truns\tdollars\t$/h\tbind mean\tbind p95\tnever bound\trestarts\tsupercargo to it: $\t$/h\tmean\tp95\t")
	for _, c := range s.Comparisons {
		for _, m := range c.Means {
			ratios := "\t\t\t\t"
			if r := m.SupercargoTo; r != nil {
				ratios = fmt.Sprintf("%.2f\t%.2f\t%.2f\t%.2f\t", r.Dollars, r.DollarsPerHour, r.BindMean, r.BindP95)
			}
			fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%.0f\t%.4f\t%.2f\t%.2f s\t%.2f s\t%.0f\t%.0f\t%s\n", c.Load, c.Flavors, c.Pace, m.Contestant, m.runs,
				m.Dollars, m.DollarsPerHour, m.BindMeanSeconds, m.BindP95Seconds, m.PodsNeverBound, m.PodsRestarted, ratios)
		}
	}
	return t.Flush()
}

// loadAverage returns the load averages of the computer, or "" if they cannot be read.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	return strings.Split(string(text), " ")[0]
}
