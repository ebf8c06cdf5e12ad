package powerquery

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"supercargo.dev/supercargo/energy"
)

// Preset is a set of queries for the power of nodes.
type Preset struct {
	// Name is its name in flags and configurations.
	Name string
	// Source is the source of its readings. It is overridden by a valid label source of a sample.
	Source energy.Source
	// Watts is a PromQL expression for the power in watts, with one sample per node.
	Watts string
	// Stamp is an expression for the time of the oldest sample behind Watts, in seconds since 1970, with one sample per
	// node. If empty, the time is unknown and readings count as new; the server's look-back (five minutes) then bounds
	// their age.
	Stamp string
	// Joules is an expression for the increase of an energy counter per node within a range of %ds. If empty, energy is
	// calculated from samples of Watts.
	Joules string
	// WattsOf and StampOf are Watts and Stamp restricted to the series of one node, with exactly one sample.
	// [Placeholder] stands for its name. If WattsOf is empty, the preset cannot be used for a node meter.
	WattsOf, StampOf string
	// MeanOf is the maximum time over which WattsOf is a mean, since the previous sample. 0 means that it is an
	// instantaneous power.
	MeanOf time.Duration
}

// Names of the presets.
const (
	Supercargo   = "supercargo"
	Kepler       = "kepler"
	NodeExporter = "node-exporter"
	// OwnQuery is the name of the preset that [Own] returns.
	OwnQuery = "query"
)

// Presets returns all presets, sorted by name:
//
//   - supercargo: Supercargo's node meters. Energy is from their counters, which integrate every second instead of every
//     scrape.
//   - kepler: Kepler 0.11, whose zones overlap (a package contains its cores). Zones are therefore never added up, and
//     package is used because all machines have it. The sensors of one zone (packages of several sockets) are added up.
//   - node-exporter: its rapl collector. Packages, plus memory where it is exported, which is not part of a package.
//     intel-rapl-mmio is excluded because it repeats the packages. Its counters restart when they wrap around, which a rate
//     treats as a reset: the energy between the last scrape and the wrap is lost.
//
// No computer draws 0 W: counters that do not move, as in many virtual machines, give no reading.
func Presets() []Preset {
	return []Preset{
		{
			Name: Kepler, Source: energy.SourceKepler,
			// Several jobs may scrape one Kepler, and each has all of its zones.
			Watts: `max by (node_name) (sum by (node_name, job, instance) (kepler_node_cpu_watts{zone="package"})) != 0`,
			Stamp: `min by (node_name) (timestamp(kepler_node_cpu_watts{zone="package"}))`,
			// A Kepler that is scraped twice gives two samples.
			WattsOf: `sum by (job, instance) (kepler_node_cpu_watts{zone="package", node_name="$node"}) != 0`,
			StampOf: `min(timestamp(kepler_node_cpu_watts{zone="package", node_name="$node"}))`,
		},
		{
			Name: NodeExporter, Source: energy.SourceNodeExporter,
			Watts: raplPackages + ` + (` + raplMemory + ` or 0 * ` + raplPackages + `) != 0`,
			Stamp: `min by (node, instance) (timestamp(node_rapl_package_joules_total{path!~".*mmio.*"}))`,
			WattsOf: raplOf("node_rapl_package_joules_total", "irate", "[2m]", "sum by (job, instance)") + ` + (` +
				raplOf("node_rapl_dram_joules_total", "irate", "[2m]", "sum by (job, instance)") + ` or 0 * ` +
				raplOf("node_rapl_package_joules_total", "irate", "[2m]", "sum by (job, instance)") + `) != 0`,
			StampOf: raplOf("node_rapl_package_joules_total", "timestamp", "", "min"),
			MeanOf:  2 * time.Minute,
		},
		{
			Name: Supercargo, Source: energy.SourceQuery,
			Watts: `max by (node, source) (supercargo_node_power_watts)`,
			Stamp: `max by (node, source) (supercargo_node_power_reading_timestamp_seconds)`,
			// The counter of a source that is no longer used has stopped.
			Joules: `max by (node, source) (increase(supercargo_node_energy_joules_total[%ds]) > 0)`,
		},
	}
}

const (
	// Several jobs may scrape one exporter, and each has all of its counters.
	raplPackages = `max by (node, instance) (sum by (node, job, instance) (rate(node_rapl_package_joules_total{path!~".*mmio.*"}[2m])))`
	raplMemory   = `max by (node, instance) (sum by (node, job, instance) (rate(node_rapl_dram_joules_total{path!~".*mmio.*"}[2m])))`
)

// raplOf aggregates a function of one node's counters: those whose label node names it, or, without that label, whose
// instance does.
func raplOf(counters, function, over, aggregate string) string {
	return aggregate + ` (` + function + `(` + counters + `{path!~".*mmio.*", node="$node"}` + over + `)` +
		` or ` + function + `(` + counters + `{path!~".*mmio.*", node="", instance=~"$pattern(:[0-9]+)?"}` + over + `))`
}

// ByName returns the preset with the given name. The error lists the valid names.
func ByName(name string) (Preset, error) {
	var names []string
	for _, p := range Presets() {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Preset{}, fmt.Errorf("%q is not a preset of power queries: must be one of %s, or your own query", name, strings.Join(names, ", "))
}

// Own returns the preset of a user-defined query for watts, such as of power distribution units, Redfish, IPMI, or GPUs
// by DCGM. It must return one sample per node or, if it contains [Placeholder], one for that node.
func Own(watts string) Preset {
	return Preset{Name: OwnQuery, Source: energy.SourceQuery, Watts: watts, WattsOf: watts}
}

// nodeLabels are the labels that name a node. The first one that a sample has counts.
var nodeLabels = []string{"node", "node_name", "nodename", "kubernetes_node", "instance", "hostname"}

// nodeOf returns the node of a sample, or "" if it names none. Prometheus' instance label is host:port.
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

// sources are the valid values of a sample's source label.
var sources = []energy.Source{energy.SourceRAPL, energy.SourceHwmon, energy.SourceKepler, energy.SourceNodeExporter, energy.SourceQuery, energy.SourceModel}

// sourceOf returns the source of a sample of the preset: that of its label if valid, else the preset's.
func (p Preset) sourceOf(labels map[string]string) energy.Source {
	if s := energy.Source(labels["source"]); slices.Contains(sources, s) {
		return s
	}
	return p.Source
}
