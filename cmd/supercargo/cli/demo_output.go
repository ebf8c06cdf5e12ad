package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/term"

	"supercargo.dev/supercargo/lab/replay"
	"supercargo.dev/supercargo/lab/report"
)

// demoDocument is what `supercargo demo -o json` prints.
type demoDocument struct {
	Trace    demoTrace     `json:"trace"`
	Cluster  demoCluster   `json:"cluster"`
	Scale    demoScale     `json:"scale"`
	Profiles []demoOutcome `json:"profiles"`
	// Fleet is the part on machines that are bought and given back, unless that was
	// left out.
	Fleet *demoFleet `json:"fleet,omitempty"`
	// WallSeconds is how long the whole demo took.
	WallSeconds float64 `json:"wallSeconds"`
}

type demoTrace struct {
	Name        string  `json:"name"`
	Format      string  `json:"format"`
	Pods        int     `json:"pods"`
	BatchPods   int     `json:"batchPods"`
	SpanSeconds float64 `json:"spanSeconds"` // from the first to the last arrival, as recorded
	// IgnoredColumns were in the file and not replayed; GPUIgnored says whether
	// requests for GPUs were among them.
	IgnoredColumns []string `json:"ignoredColumns"`
	GPUIgnored     bool     `json:"gpuIgnored"`
}

type demoCluster struct {
	Nodes          int          `json:"nodes"`
	MilliCPU       int64        `json:"milliCPU"`
	MemoryBytes    int64        `json:"memoryBytes"`
	DollarsPerHour float64      `json:"dollarsPerHour"` // of all nodes, used or not
	Flavors        []demoFlavor `json:"flavors"`
}

type demoFlavor struct {
	Name           string  `json:"name"`
	Nodes          int     `json:"nodes"`
	MilliCPU       int64   `json:"milliCPU"`
	MemoryBytes    int64   `json:"memoryBytes"`
	DollarsPerHour float64 `json:"dollarsPerHour"`
}

// demoScale says how much faster than recorded the replay was.
type demoScale struct {
	Arrivals  float64 `json:"arrivals"`
	Lifetimes float64 `json:"lifetimes"`
}

// demoOutcome is what one profile achieved. Times are those of the replay, not
// of the trace. DollarsPerHour is the price of the nodes while they had pods.
type demoOutcome struct {
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

func newDemoDocument(in *demoInput, scale replay.Scale, machines []report.Machine) *demoDocument {
	pods := in.workload.Pods
	doc := &demoDocument{
		Trace: demoTrace{
			Name: in.traceName, Format: in.workload.Format, Pods: len(pods), BatchPods: countBatch(pods),
			SpanSeconds:    (pods[len(pods)-1].Arrival - pods[0].Arrival).Seconds(),
			IgnoredColumns: append([]string{}, in.workload.Ignored...),
		},
		Cluster: demoCluster{Nodes: len(machines), Flavors: make([]demoFlavor, len(in.flavors))},
		Scale:   demoScale{Arrivals: scale.Arrivals, Lifetimes: scale.Lifetimes},
	}
	for _, column := range in.workload.Ignored {
		doc.Trace.GPUIgnored = doc.Trace.GPUIgnored || strings.Contains(column, "gpu")
	}
	var price int64
	for _, m := range machines {
		doc.Cluster.MilliCPU += m.MilliCPU
		doc.Cluster.MemoryBytes += m.MemoryBytes
		price += m.MicroDollarsPerHour
	}
	doc.Cluster.DollarsPerHour = dollars(price)
	for i, f := range in.flavors {
		nodes := (in.nodes + len(in.flavors) - 1 - i) / len(in.flavors)
		doc.Cluster.Flavors[i] = demoFlavor{
			Name: f.Name, Nodes: nodes, MilliCPU: f.MilliCPU, MemoryBytes: f.MemoryBytes, DollarsPerHour: dollars(f.MicroDollarsPerHour),
		}
	}
	return doc
}

// add appends what a profile achieved.
func (d *demoDocument) add(name string, u report.Usage, r *replay.Result) {
	d.Profiles = append(d.Profiles, demoOutcome{
		Name: name, WindowSeconds: u.Window.Seconds(),
		PodsCreated: u.PodsCreated, PodsBound: u.PodsBound, PodsNeverBound: u.PodsNeverBound, PodsRefused: len(r.Refused),
		NodesUsedMean: u.NodesUsedMean, NodesUsedPeak: u.NodesUsedPeak,
		CPUUtilizationPercent: 100 * u.CPUUtilisation, MemoryUtilizationPercent: 100 * u.MemoryUtilisation,
		DollarsPerHour:        dollars(u.MicroDollarsPerHour),
		TimeToBindMeanSeconds: u.BindMean.Seconds(), TimeToBindP95Seconds: u.BindP95.Seconds(),
		APIRetries: r.Retries,
	})
}

// dollars is for showing: amounts are added up in micro-dollars.
func dollars(micro int64) float64 { return float64(micro) / 1e6 }

// dollarsText writes an amount exactly.
func dollarsText(micro int64) string { return fmt.Sprintf("%d.%06d", micro/1e6, micro%1e6) }

func (d *demoDocument) writeJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(d)
}

// writeTable prints the profiles side by side, and how the second differs from
// the first.
func (d *demoDocument) writeTable(w io.Writer) error {
	fmt.Fprintf(w, "%d pods (%d batch) of the %s on %d nodes of %d flavors, %.0f s with each profile.\n",
		d.Trace.Pods, d.Trace.BatchPods, d.Trace.Name, d.Cluster.Nodes, len(d.Cluster.Flavors), d.Profiles[0].WindowSeconds)
	fmt.Fprintf(w, "Arrivals come %.0f times as fast as recorded, lifetimes pass %.0f times as fast.\n", d.Scale.Arrivals, d.Scale.Lifetimes)
	if d.Trace.GPUIgnored {
		fmt.Fprintln(w, "Requests for GPUs are ignored: these nodes have CPU and memory only.")
	}
	if len(d.Trace.IgnoredColumns) > 0 {
		fmt.Fprintf(w, "Ignored columns: %s.\n", strings.Join(d.Trace.IgnoredColumns, ", "))
	}
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	d.writeRow(table, "", func(o demoOutcome) string { return o.Name }, nil)
	for _, row := range demoRows {
		d.writeRow(table, row.label, func(o demoOutcome) string { return fmt.Sprintf(row.format, row.value(o)) }, row.value)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(w, "\nA node is used while it has pods, and only used nodes are paid for here: the bill\nif idle machines were given back at once. Times are those of the replay."); err != nil || d.Fleet == nil {
		return err
	}
	return d.Fleet.write(w)
}

// demoRows are the lines of the table.
var demoRows = []struct {
	label, format string
	value         func(demoOutcome) float64
}{
	{"pods bound", "%.0f", func(o demoOutcome) float64 { return float64(o.PodsBound) }},
	{"pods never bound", "%.0f", func(o demoOutcome) float64 { return float64(o.PodsNeverBound) }},
	{"nodes used, mean", "%.1f", func(o demoOutcome) float64 { return o.NodesUsedMean }},
	{"nodes used, peak", "%.0f", func(o demoOutcome) float64 { return float64(o.NodesUsedPeak) }},
	{"CPU utilisation of used nodes", "%.1f %%", func(o demoOutcome) float64 { return o.CPUUtilizationPercent }},
	{"memory utilisation of used nodes", "%.1f %%", func(o demoOutcome) float64 { return o.MemoryUtilizationPercent }},
	{"dollars per hour of used nodes", "%.2f", func(o demoOutcome) float64 { return o.DollarsPerHour }},
	{"time to bind, mean", "%.3f s", func(o demoOutcome) float64 { return o.TimeToBindMeanSeconds }},
	{"time to bind, 95th percentile", "%.3f s", func(o demoOutcome) float64 { return o.TimeToBindP95Seconds }},
}

// writeRow writes one line of the table. Its difference is in percent of the
// first profile's value, or "difference" for the header, which has no value.
func (d *demoDocument) writeRow(w io.Writer, label string, text func(demoOutcome) string, value func(demoOutcome) float64) {
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

// demoProgress tells a person how far the demo is: with a bar on a terminal,
// with a line every ten seconds elsewhere.
type demoProgress struct {
	w        io.Writer
	terminal bool
	profile  string
	told     time.Duration // Elapsed when the last line was written
}

// plainEvery is the time between two lines when there is no terminal.
const plainEvery = 10 * time.Second

func newDemoProgress(w io.Writer) *demoProgress {
	f, ok := w.(*os.File)
	return &demoProgress{w: w, terminal: ok && term.IsTerminal(int(f.Fd()))}
}

// say writes one line.
func (p *demoProgress) say(format string, args ...any) {
	fmt.Fprintf(p.w, format+"\n", args...)
}

// begin starts a profile.
func (p *demoProgress) begin(profile string) {
	p.profile, p.told = profile, 0
	if !p.terminal {
		p.say("profile %s: replay begins", profile)
	}
}

// show is the callback of the replay.
func (p *demoProgress) show(now replay.Progress) {
	now.Elapsed = min(now.Elapsed, now.Window) // after it, pods are removed
	state := fmt.Sprintf("%d of %d pods created, %d bound, %d ended", now.Created, now.Pods, now.Bound, now.Gone)
	if !p.terminal {
		if now.Elapsed-p.told >= plainEvery {
			p.told = now.Elapsed
			p.say("profile %s: %.0f of %.0f s, %s", p.profile, now.Elapsed.Seconds(), now.Window.Seconds(), state)
		}
		return
	}
	const width = 30
	done := int(width * now.Elapsed.Seconds() / now.Window.Seconds())
	fmt.Fprintf(p.w, "\r\033[K%-10s [%s%s] %s", p.profile, strings.Repeat("#", done), strings.Repeat(".", width-done), state)
}

// end finishes a profile's bar.
func (p *demoProgress) end() {
	if p.terminal {
		fmt.Fprintln(p.w)
	}
}
