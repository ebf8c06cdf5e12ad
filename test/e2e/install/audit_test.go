//go:build install

package install

import (
	"encoding/json"
	"strings"

	"supercargo.dev/supercargo/test/kit/testfile"
)

// isAudited compares an audit of the cluster, in which nothing is installed yet, with what kubectl shows of it.
func (s *site) isAudited() {
	prices := testfile.New(s, "prices.csv", "name,cpu,memory_gib,price_per_hour\nlab.large,2,4,0.50\nlab.small,1,2,0.20\n")
	s.kubectl("label", "nodes", "--all", "node.kubernetes.io/instance-type=lab.large", "--overwrite")
	defer s.kubectl("label", "nodes", "--all", "node.kubernetes.io/instance-type-")
	var audit struct {
		Now, Cheapest struct {
			PerHour float64
			Nodes   int
		}
		LowerBoundPerHour float64
		Pods              int
		Staying, Unpriced []struct{ Node, Reason string }
	}
	if out := s.must("supercargo", "audit", "--prices", prices, "-o", "json"); json.Unmarshal([]byte(out), &audit) != nil {
		s.Fatalf("the audit is no JSON: %s", out)
	}
	if n := len(s.Nodes); audit.Now.Nodes != n || audit.Now.PerHour != 0.5*float64(n) || len(audit.Unpriced) > 0 {
		s.Errorf("%+v, want %d nodes at $0.50", audit, n)
	}
	if want := len(strings.Fields(s.get(`{.items[*].spec.nodeName}`, "pods", "--all-namespaces"))); audit.Pods != want || want == 0 {
		s.Errorf("%d pods, want the %d on nodes", audit.Pods, want)
	}
	if len(audit.Staying) != 1 || !strings.Contains(audit.Staying[0].Reason, "control plane") {
		s.Errorf("%+v stay, want the control plane", audit.Staying)
	}
	if audit.Cheapest.PerHour >= audit.Now.PerHour || audit.LowerBoundPerHour > audit.Cheapest.PerHour || audit.LowerBoundPerHour < 0.5 {
		s.Errorf("cheapest $%v, at least $%v; want less than the $%v now, and at least the control plane's $0.50", audit.Cheapest.PerHour, audit.LowerBoundPerHour, audit.Now.PerHour)
	}
	if table := s.must("supercargo", "audit", "--prices", prices); !strings.Contains(table, "lower bound of any machines") {
		s.Errorf("the table has no lower bound:\n%s", table)
	}
}
