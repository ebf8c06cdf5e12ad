package meter

import (
	"github.com/prometheus/client_golang/prometheus"

	"supercargo.dev/supercargo/energy"
)

// Names are documented in docs/power-meters.md; reports and queries rely on them.
var (
	wattsDesc = prometheus.NewDesc("supercargo_node_power_watts",
		"Power of the node, by source and by whether it is measured or modelled. Absent if the latest reading is older than ten seconds, or than --power-max-age if it comes from a server.",
		[]string{"node", "source", "kind"}, nil)
	joulesDesc = prometheus.NewDesc("supercargo_node_energy_joules_total",
		"Energy that the node has used since its agent started, without times for which there are no readings.",
		[]string{"node", "source", "kind"}, nil)
	timeDesc = prometheus.NewDesc("supercargo_node_power_reading_timestamp_seconds",
		"Time of the latest valid reading.",
		[]string{"node", "source", "kind"}, nil)
	droppedDesc = prometheus.NewDesc("supercargo_node_power_readings_dropped_total",
		"Implausible readings that were dropped, by fault.",
		[]string{"node", "source", "fault"}, nil)
	infoDesc = prometheus.NewDesc("supercargo_node_info",
		"Machine type, zone and architecture of the node, and the origin of its power model (empty if none is used). Always 1.",
		[]string{"node", "machine_type", "zone", "arch", "power_model"}, nil)
	coresDesc = prometheus.NewDesc("supercargo_node_allocatable_cores", "Allocatable CPU of the node, in cores.", []string{"node"}, nil)
)

// Describe implements [prometheus.Collector].
func (m *Meter) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{wattsDesc, joulesDesc, timeDesc, droppedDesc, infoDesc, coresDesc} {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (m *Meter) Collect(to chan<- prometheus.Metric) {
	if p, ok := m.history.last(); ok {
		labels := []string{m.Node, string(p.source), kindOf(p.source)}
		if _, fresh := m.Last(); fresh {
			to <- prometheus.MustNewConstMetric(wattsDesc, prometheus.GaugeValue, float64(p.watts), labels...)
		}
		to <- prometheus.MustNewConstMetric(timeDesc, prometheus.GaugeValue, float64(p.at.UnixMilli())/1e3, labels...)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for source, joules := range m.used {
		to <- prometheus.MustNewConstMetric(joulesDesc, prometheus.CounterValue, float64(joules), m.Node, string(source), kindOf(source))
	}
	for source, counts := range m.dropped {
		for _, fault := range energy.Faults() {
			to <- prometheus.MustNewConstMetric(droppedDesc, prometheus.CounterValue, float64(counts.Of(fault)), m.Node, string(source), fault.String())
		}
	}
	origin := ""
	if m.now != nil && m.now.source() == energy.SourceModel {
		origin = m.origin
	}
	to <- prometheus.MustNewConstMetric(infoDesc, prometheus.GaugeValue, 1, m.Node, m.machine.Type, m.machine.Zone, m.machine.Architecture, origin)
	if m.machine.Cores > 0 {
		to <- prometheus.MustNewConstMetric(coresDesc, prometheus.GaugeValue, m.machine.Cores, m.Node)
	}
}

func kindOf(s energy.Source) string {
	if s.Measured() {
		return "measured"
	}
	return "modelled"
}
