package demo

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"supercargo.dev/supercargo/internal/text/dollars"
	"supercargo.dev/supercargo/internal/text/jsondoc"
	"supercargo.dev/supercargo/internal/text/plural"
	"supercargo.dev/supercargo/lab/replay"
	"supercargo.dev/supercargo/lab/report"
)

// Document is the output of `supercargo demo -o json`.
type Document struct {
	Trace    Trace     `json:"trace"`
	Cluster  Cluster   `json:"cluster"`
	Scale    Scale     `json:"scale"`
	Profiles []Outcome `json:"profiles"`
	// Fleet is the result of the part on a fleet, or nil if it was skipped.
	Fleet *Fleet `json:"fleet,omitempty"`
	// Speed is that of the profiles; Fleet has its own.
	Speed
	// WallSeconds is the duration of the whole demo.
	WallSeconds float64 `json:"wallSeconds"`
}

// Speed is how fast a part was replayed.
type Speed struct {
	// Slowdown is how many times as long the part took as requested, because the control plane did not
	// keep up with a shorter one; 1 if it did. Times are divided by it. LagSeconds is the greatest lag of
	// the control plane at the lowest speed, if it did not keep up even then; else 0.
	Slowdown   float64 `json:"slowdown"`
	LagSeconds float64 `json:"lagSeconds"`
}

// Trace describes the pods that were replayed.
type Trace struct {
	Name        string  `json:"name"`
	Format      string  `json:"format"`
	Pods        int     `json:"pods"`
	BatchPods   int     `json:"batchPods"`
	SpanSeconds float64 `json:"spanSeconds"` // from the first to the last arrival, as recorded
	// IgnoredColumns lists the columns of the file that were not replayed. GPUIgnored is set if GPU
	// requests were among them.
	IgnoredColumns []string `json:"ignoredColumns"`
	GPUIgnored     bool     `json:"gpuIgnored"`
}

// Cluster describes the fixed nodes, which are the same for all profiles.
type Cluster struct {
	Nodes          int      `json:"nodes"`
	MilliCPU       int64    `json:"milliCPU"`
	MemoryBytes    int64    `json:"memoryBytes"`
	DollarsPerHour float64  `json:"dollarsPerHour"` // of all nodes, used or not
	Flavors        []Flavor `json:"flavors"`
}

// Flavor is one size of nodes: their number, and the allocatable resources and price of each.
type Flavor struct {
	Name           string  `json:"name"`
	Nodes          int     `json:"nodes"`
	MilliCPU       int64   `json:"milliCPU"`
	MemoryBytes    int64   `json:"memoryBytes"`
	DollarsPerHour float64 `json:"dollarsPerHour"`
}

// Scale is the speed of the replay relative to the recording.
type Scale struct {
	Arrivals  float64 `json:"arrivals"`
	Lifetimes float64 `json:"lifetimes"`
}

// Outcome is the result of one profile. Times are those of a replay at full speed, not of the trace.
// DollarsPerHour is the mean price of the nodes while they had pods.
type Outcome struct {
	Name                     string  `json:"name"`
	WindowSeconds            float64 `json:"windowSeconds"`
	PodsCreated              int     `json:"podsCreated"`
	PodsBound                int     `json:"podsBound"`
	PodsNeverBound           int     `json:"podsNeverBound"`
	PodsRefused              int     `json:"podsRefused"`
	NodesUsedMean            float64 `json:"nodesUsedMean"`
	NodesUsedPeak            int     `json:"nodesUsedPeak"`
	CPUUtilizationPercent    float64 `json:"cpuUtilizationPercent"`
	MemoryUtilizationPercent float64 `json:"memoryUtilizationPercent"`
	DollarsPerHour           float64 `json:"dollarsPerHour"`
	TimeToBindMeanSeconds    float64 `json:"timeToBindMeanSeconds"`
	TimeToBindP95Seconds     float64 `json:"timeToBindP95Seconds"`
	APIRetries               int     `json:"apiRetries"`
}

func newDocument(in *Input, scale replay.Scale, machines []report.Machine) *Document {
	pods := in.Workload.Pods
	doc := &Document{
		Trace: Trace{
			Name: in.TraceName, Format: in.Workload.Format, Pods: len(pods), BatchPods: countBatch(pods),
			SpanSeconds:    (pods[len(pods)-1].Arrival - pods[0].Arrival).Seconds(),
			IgnoredColumns: append([]string{}, in.Workload.Ignored...),
		},
		Cluster: Cluster{Nodes: len(machines), Flavors: make([]Flavor, len(in.Flavors))},
		Scale:   Scale{Arrivals: scale.Arrivals, Lifetimes: scale.Lifetimes},
	}
	for _, column := range in.Workload.Ignored {
		doc.Trace.GPUIgnored = doc.Trace.GPUIgnored || strings.Contains(column, "gpu")
	}
	var price int64
	for _, m := range machines {
		doc.Cluster.MilliCPU += m.MilliCPU
		doc.Cluster.MemoryBytes += m.MemoryBytes
		price += m.MicroDollarsPerHour
	}
	doc.Cluster.DollarsPerHour = dollars.Of(price)
	for i, f := range in.Flavors {
		nodes := (in.Nodes + len(in.Flavors) - 1 - i) / len(in.Flavors)
		doc.Cluster.Flavors[i] = Flavor{
			Name: f.Name, Nodes: nodes, MilliCPU: f.Size.MilliCPU, MemoryBytes: f.Size.MemoryBytes, DollarsPerHour: dollars.Of(f.MicroDollarsPerHour),
		}
	}
	return doc
}

// atFullSpeed returns the usage with times of the full speed.
func (p *pace) atFullSpeed(u report.Usage) report.Usage {
	u.Window, u.BindMean, u.BindP95 = p.full(u.Window), p.full(u.BindMean), p.full(u.BindP95)
	return u
}

// add appends the result of a profile.
func (d *Document) add(name string, u report.Usage, r *replay.Result) {
	d.Profiles = append(d.Profiles, Outcome{
		Name: name, WindowSeconds: u.Window.Seconds(),
		PodsCreated: u.PodsCreated, PodsBound: u.PodsBound, PodsNeverBound: u.PodsNeverBound, PodsRefused: len(r.Refused),
		NodesUsedMean: u.NodesUsedMean, NodesUsedPeak: u.NodesUsedPeak,
		CPUUtilizationPercent: 100 * u.CPUUtilisation, MemoryUtilizationPercent: 100 * u.MemoryUtilisation,
		DollarsPerHour:        dollars.Of(u.MicroDollarsPerHour),
		TimeToBindMeanSeconds: u.BindMean.Seconds(), TimeToBindP95Seconds: u.BindP95.Seconds(),
		APIRetries: r.Retries,
	})
}

// WriteJSON writes the document as JSON.
func (d *Document) WriteJSON(w io.Writer) error {
	return jsondoc.Write(w, d)
}

// WriteTable writes the document as a table: the profiles side by side, and the difference of the
// second from the first.
func (d *Document) WriteTable(w io.Writer) error {
	fmt.Fprintf(w, "%s (%d batch) of the %s on %s of %s, %.0f s with each profile.\n",
		plural.Count(d.Trace.Pods, "pod"), d.Trace.BatchPods, d.Trace.Name, plural.Count(d.Cluster.Nodes, "node"), plural.Count(len(d.Cluster.Flavors), "flavor"), d.Profiles[0].WindowSeconds)
	fmt.Fprintf(w, "Arrivals come %.0f times as fast as recorded, lifetimes pass %.0f times as fast.\n", d.Scale.Arrivals, d.Scale.Lifetimes)
	if d.Trace.GPUIgnored {
		fmt.Fprintln(w, "Requests for GPUs are ignored: these nodes have CPU and memory only.")
	}
	if len(d.Trace.IgnoredColumns) > 0 {
		fmt.Fprintf(w, "Ignored columns: %s.\n", strings.Join(d.Trace.IgnoredColumns, ", "))
	}
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	d.writeRow(table, "", func(o Outcome) string { return o.Name }, nil)
	for _, row := range rows {
		d.writeRow(table, row.label, func(o Outcome) string { return fmt.Sprintf(row.format, row.value(o)) }, row.value)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(w, "\nA node is used while it has pods, and only used nodes are paid for here: the bill\nif idle machines were released at once. Times are those of the replay."); err != nil {
		return err
	}
	if _, err := io.WriteString(w, d.text()); err != nil || d.Fleet == nil {
		return err
	}
	return d.Fleet.write(w)
}

// text describes how far the control plane was behind; empty if it was not.
func (s Speed) text() string {
	var text string
	if s.Slowdown > 1 {
		text = fmt.Sprintf("This computer did not keep up with the trace: it was replayed at 1/%g of the speed, and the times above are divided by %[1]g.\n", s.Slowdown)
	}
	if s.LagSeconds > 0 {
		text += fmt.Sprintf("The control plane was still up to %.1f s behind, so these figures depend on this computer: use a longer --duration, or stop other programs.\n", s.LagSeconds)
	}
	return text
}

// rows are the rows of the table.
var rows = []struct {
	label, format string
	value         func(Outcome) float64
}{
	{"pods bound", "%.0f", func(o Outcome) float64 { return float64(o.PodsBound) }},
	{"pods never bound", "%.0f", func(o Outcome) float64 { return float64(o.PodsNeverBound) }},
	{"nodes used, mean", "%.1f", func(o Outcome) float64 { return o.NodesUsedMean }},
	{"nodes used, peak", "%.0f", func(o Outcome) float64 { return float64(o.NodesUsedPeak) }},
	{"CPU utilisation of used nodes", "%.1f %%", func(o Outcome) float64 { return o.CPUUtilizationPercent }},
	{"memory utilisation of used nodes", "%.1f %%", func(o Outcome) float64 { return o.MemoryUtilizationPercent }},
	{"dollars per hour of used nodes", "%.2f", func(o Outcome) float64 { return o.DollarsPerHour }},
	{"time to bind, mean", "%.3f s", func(o Outcome) float64 { return o.TimeToBindMeanSeconds }},
	{"time to bind, 95th percentile", "%.3f s", func(o Outcome) float64 { return o.TimeToBindP95Seconds }},
}

// writeRow writes one row of the table. The difference is in percent of the first profile's value;
// the header, which has no value, gets the word "difference".
func (d *Document) writeRow(w io.Writer, label string, text func(Outcome) string, value func(Outcome) float64) {
	fmt.Fprintf(w, "%-34s\t", label)
	for _, o := range d.Profiles {
		fmt.Fprintf(w, "%s\t", text(o))
	}
	switch {
	case len(d.Profiles) < 2:
	case value == nil:
		fmt.Fprint(w, "difference\t")
	case value(d.Profiles[0]) == 0:
		fmt.Fprint(w, "\t")
	default:
		fmt.Fprintf(w, "%+.1f %%\t", 100*(value(d.Profiles[1])/value(d.Profiles[0])-1))
	}
	fmt.Fprintln(w)
}

// bill compares the price paid with that of the fixed cluster, if both did the same work: on a
// computer that is too slow for the pace, pods end before they have a machine.
func (r *Fleet) bill() string {
	const most = 0.05 // maximum share of pods that found no machine in time
	paid := fmt.Sprintf("Paid: $%.2f/h, each machine from its order until its removal", r.DollarsPerHour)
	if pods := r.PodsBound + r.PodsNeverBound; float64(r.PodsNeverBound) > most*float64(pods) {
		return fmt.Sprintf("%s. This is not comparable with the $%.2f/h of the fixed cluster, because %d of %s ended before %s a machine: "+
			"this computer is too slow for the pace; use a longer --fleet-duration.", paid, r.FixedDollarsPerHour, r.PodsNeverBound, plural.Count(pods, "pod"), plural.Form(r.PodsNeverBound, "it had", "they had"))
	}
	return fmt.Sprintf("%s; all nodes of the fixed cluster cost $%.2f/h (%+.0f %%).", paid, r.FixedDollarsPerHour, 100*(r.DollarsPerHour/r.FixedDollarsPerHour-1))
}

// write prints the fleet's part of the demo.
func (r *Fleet) write(w io.Writer) error {
	var mix []string
	for _, f := range r.Flavors {
		mix = append(mix, fmt.Sprintf("%d %s", f.Peak, f.Flavor))
	}
	fmt.Fprintf(w, "\nThe same trace on machines that a NodeFleet buys and releases, in %.0f s (lifetimes pass %.0f times as fast; %.1f s from order to ready):\n\n",
		r.WindowSeconds, r.Scale.Lifetimes, r.AcquisitionLagSeconds)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "seconds\tmachines\tin flight\tpending\t$/h\t")
	bar := bars(r.Course, func(p FleetPoint) float64 { return p.DollarsPerHour })
	for _, p := range r.Course {
		fmt.Fprintf(t, "%.0f\t%d\t%d\t%d\t%.2f\t %s\n", p.Seconds, p.Machines, p.InFlight, p.PendingPods, p.DollarsPerHour, bar(p))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\n%s bound, %d never; %.2f s to bind on average, including the start-up of machines, 95 %% within %.2f s.\n",
		plural.Count(r.PodsBound, "pod"), r.PodsNeverBound, r.TimeToBindMeanSeconds, r.TimeToBindP95Seconds)
	fmt.Fprintf(w, "%s at the peak, of each flavor at most %s.\n", plural.Count(r.MachinesPeak, "machine"), strings.Join(mix, ", "))
	fmt.Fprintln(w, r.bill())
	_, err := fmt.Fprintf(w, "After the last pod all machines were released within %.0f s. The last decision: %s.\n%s", r.ShrinkSeconds, r.LastDecision, r.text())
	if err != nil || r.Consolidation == nil {
		return err
	}
	return r.Consolidation.write(w)
}

// write prints the consolidation's part of the demo.
func (r *Consolidation) write(w io.Writer) error {
	fmt.Fprintf(w, "\nHalf of %s have ended; the fleet moves the others together, with their state, and releases machines:\n\n", plural.Count(2*r.Jobs, "Job"))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "seconds\tmachines\temptied now\tmoving\tmoved\t$/h\t")
	bar := bars(r.Course, func(p ConsolidationPoint) float64 { return p.DollarsPerHour })
	for _, p := range r.Course {
		fmt.Fprintf(t, "%.0f\t%d\t%d\t%d\t%d\t%.2f\t %s\n", p.Seconds, p.Machines, p.Emptying, p.Moving, p.Moved, p.DollarsPerHour, bar(p))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\n%s, each pod was frozen for %.2f s on average; %s, %s.\n",
		plural.Count(r.Migrations, "migration"), r.FrozenSecondsMean, plural.Count(r.Jobs, "Job"), plural.Count(r.JobsFailed, "failure"))
	fmt.Fprintf(w, "%s for $%.2f/h became %d for $%.2f/h. Decided:\n", plural.Count(r.MachinesBefore, "machine"), r.DollarsPerHourBefore, r.MachinesAfter, r.DollarsPerHourAfter)
	for _, d := range r.Decisions {
		if _, err := fmt.Fprintf(w, "  %s\n", d); err != nil {
			return err
		}
	}
	return nil
}

// bars returns a function that draws the value of a point as a bar. The longest has 20 characters.
func bars[P any](course []P, value func(P) float64) func(P) string {
	top := 0.0
	for _, p := range course {
		top = max(top, value(p))
	}
	return func(p P) string {
		if top == 0 {
			return ""
		}
		return strings.Repeat("#", int(20*value(p)/top+0.5))
	}
}
