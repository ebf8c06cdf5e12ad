package powerquery

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"supercargo.dev/supercargo/internal/energy"
)

// Preset is a way to ask for what nodes draw.
type Preset struct {
	// Name is what flags and configurations call it.
	Name string
	// Source is where such readings come from. A sample with a label source of ours
	// overrides it.
	Source energy.Source
	// Watts is a PromQL expression whose answer has one sample for each node, in watts.
	Watts string
	// Stamp is one whose answer has, for each node, when the oldest of the samples
	// behind Watts was taken, in seconds since 1970. Empty: nobody can tell, and a
	// reading counts as new; then the server's look-back (five minutes) bounds its age.
	Stamp string
	// Joules is one that has, for each node, what a counter grew by within a range that is
	// written as %ds. Empty: energy is what looks at Watts give.
	Joules string
	// WattsOf and StampOf are Watts and Stamp for one node, whose series alone they ask for:
	// [Placeholder] stands for its name. Each answer has one sample. An empty WattsOf: what
	// the preset asks for cannot be a meter.
	WattsOf, StampOf string
	// MeanOf says what power WattsOf gives: the mean since the sample before, if that is at
	// most so long ago. 0: that of a moment.
	MeanOf time.Duration
}

// Names of the presets.
const (
	Supercargo   = "supercargo"
	Kepler       = "kepler"
	NodeExporter = "node-exporter"
	// OwnQuery is the name of what [Own] returns.
	OwnQuery = "query"
)

// Presets returns all presets, by name. They are:
//
//   - supercargo: our own node meters. Energy comes from their counters, which add
//     up each second and not each scrape.
//   - kepler: Kepler 0.11, whose zones overlap (a package holds its cores). So zones are
//     never added up, and package is the one that all machines have; the sensors of one
//     zone (packages of several sockets) are.
//   - node-exporter: its collector rapl. Packages, and memory where it is shown, which is
//     not part of a package. What intel-rapl-mmio shows is there twice. Its counters
//     begin anew when they wrap around, which a rate takes for a restart: it
//     loses what was used between the last scrape before and the wrap.
func Presets() []Preset {
	return []Preset{
		{
			Name: Kepler, Source: energy.SourceKepler,
			Watts: `sum by (node_name) (kepler_node_cpu_watts{zone="package"})`,
			Stamp: `min by (node_name) (timestamp(kepler_node_cpu_watts{zone="package"}))`,
			// A Kepler that is scraped twice has two samples.
			WattsOf: `sum by (job, instance) (kepler_node_cpu_watts{zone="package", node_name="$node"})`,
			StampOf: `min(timestamp(kepler_node_cpu_watts{zone="package", node_name="$node"}))`,
		},
		{
			Name: NodeExporter, Source: energy.SourceNodeExporter,
			Watts: raplPackages + ` + (` + raplMemory + ` or 0 * ` + raplPackages + `)`,
			Stamp: `min by (node, instance) (timestamp(node_rapl_package_joules_total{path!~".*mmio.*"}))`,
			WattsOf: raplOf("node_rapl_package_joules_total", "irate", "[2m]", "sum by (job, instance)") + ` + (` +
				raplOf("node_rapl_dram_joules_total", "irate", "[2m]", "sum by (job, instance)") + ` or 0 * ` +
				raplOf("node_rapl_package_joules_total", "irate", "[2m]", "sum by (job, instance)") + `)`,
			StampOf: raplOf("node_rapl_package_joules_total", "timestamp", "", "min"),
			MeanOf:  2 * time.Minute,
		},
		{
			Name: Supercargo, Source: energy.SourceQuery,
			Watts: `max by (node, source) (supercargo_node_power_watts)`,
			Stamp: `max by (node, source) (supercargo_node_power_reading_timestamp_seconds)`,
			// A source that is no longer used has a counter that has stopped.
			Joules: `max by (node, source) (increase(supercargo_node_energy_joules_total[%ds]) > 0)`,
		},
	}
}

const (
	raplPackages = `sum by (node, instance) (rate(node_rapl_package_joules_total{path!~".*mmio.*"}[2m]))`
	raplMemory   = `sum by (node, instance) (rate(node_rapl_dram_joules_total{path!~".*mmio.*"}[2m]))`
)

// raplOf aggregates a function of one node's counters: of those that a label node names, or,
// where they have none, the instance.
func raplOf(counters, function, over, aggregate string) string {
	return aggregate + ` (` + function + `(` + counters + `{path!~".*mmio.*", node="$node"}` + over + `)` +
		` or ` + function + `(` + counters + `{path!~".*mmio.*", node="", instance=~"$pattern(:[0-9]+)?"}` + over + `))`
}

// ByName returns the preset of a name, and an error that lists the names.
func ByName(name string) (Preset, error) {
	var names []string
	for _, p := range Presets() {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Preset{}, fmt.Errorf("%q is no preset of power queries: want one of %s, or a query of your own", name, strings.Join(names, ", "))
}

// Own returns the preset of a user's own query, which gives watts: of power
// distribution units, Redfish, IPMI, or GPUs by DCGM. It must have one sample for each
// node; or, with [Placeholder] in it, one for the node that this stands for.
func Own(watts string) Preset {
	return Preset{Name: OwnQuery, Source: energy.SourceQuery, Watts: watts, WattsOf: watts}
}

// nodeLabels are the labels that name a node, the first that a sample has counting.
var nodeLabels = []string{"node", "node_name", "nodename", "kubernetes_node", "instance", "hostname"}

// nodeOf returns the node of a sample; empty if it names none. Prometheus' instance is
// host:port.
func nodeOf(labels map[string]string) string {
	for _, l := range nodeLabels {
		name := labels[l]
		if name == "" {
			continue
		}
		if host, _, ok := strings.Cut(name, ":"); ok && l == "instance" && strings.Count(name, ":") == 1 {
			return host
		}
		return name
	}
	return ""
}

// sources are those that a label of a sample may name.
var sources = []energy.Source{energy.SourceRAPL, energy.SourceHwmon, energy.SourceKepler, energy.SourceNodeExporter, energy.SourceQuery, energy.SourceModel}

// sourceOf returns where a sample of the preset comes from: what its own label says if
// it is a source that there is.
func (p Preset) sourceOf(labels map[string]string) energy.Source {
	if s := energy.Source(labels["source"]); slices.Contains(sources, s) {
		return s
	}
	return p.Source
}
