package exported_test

import (
	"slices"
	"testing"

	"supercargo.dev/supercargo/hack/metrics/exported"
)

// TestEachProgramIsAskedForItsMetrics checks one metric of each kind of registration: by a package variable,
// by a plugin, by its own object, and by a library.
func TestEachProgramIsAskedForItsMetrics(t *testing.T) {
	all, err := exported.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []exported.Metric{
		{Program: "autoscaler", Name: "supercargo_nodefleet_acquisition_seconds", Kind: "histogram", Labels: []string{"fleet", "flavor"}},
		{Program: "autoscaler", Name: "supercargo_workerpool_condition", Kind: "gauge", Labels: []string{"namespace", "pool", "type", "status", "reason"}},
		{Program: "autoscaler", Name: "leader_election_master_status", Kind: "gauge", Labels: []string{"name"}},
		{Program: "descheduler", Name: "supercargo_eviction_errors_total", Kind: "counter"},
		{Program: "kube-scheduler", Name: "supercargo_scheduler_narrowing_total", Kind: "counter", Labels: []string{"plugin", "result"}},
		{Program: "kube-scheduler", Name: "scheduler_pending_pods", Kind: "gauge", Labels: []string{"queue"}},
		{Program: "metrics-adapter", Name: "supercargo_store_series_refused_total", Kind: "counter"},
		{Program: "nginx-exporter", Name: "nginx_connections_accepted", Kind: "counter"},
		{Program: "node-meter", Name: "supercargo_node_power_watts", Kind: "gauge", Labels: []string{"node", "source", "kind"}},
	} {
		at := slices.IndexFunc(all, func(m exported.Metric) bool { return m.Program == want.Program && m.Name == want.Name })
		if at < 0 {
			t.Errorf("%s of %s is not listed", want.Name, want.Program)
			continue
		}
		if got := all[at]; got.Kind != want.Kind || !slices.Equal(got.Labels, want.Labels) || got.Help == "" {
			t.Errorf("%s is a %s with labels %q that says %q, want a %s with labels %q", got.Name, got.Kind, got.Labels, got.Help, want.Kind, want.Labels)
		}
	}
	for _, m := range all {
		if m.Program == "descheduler" && m.Name == "supercargo_nodefleet_machines" {
			t.Error("the descheduler is said to export what the autoscaler does")
		}
	}
}
