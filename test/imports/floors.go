package imports

import (
	"fmt"
	"slices"
	"strings"
)

// floor is the order of the folders inside one folder of the module, from the top down. A folder imports those of
// lower rows and never one of its own row. "." is the package of the folder itself.
type floor struct {
	Dir  string
	Rows [][]string
	Why  string
}

var floors = []floor{
	{"autoscaler", [][]string{{"app"}, {"adapter"}, {"fleet", "replica", "worker"}, {"provider", "purchase"}},
		"app wires the program; the adapter serves what ReplicaPolicies and WorkerPools compute and measure, so it reads " +
			"them and they do not know it; each kind stands alone; what is bought and where is decided below them"},
	{"autoscaler/purchase", [][]string{{"."}, {"mix"}, {"knapsack"}, {"lp"}},
		"what pods and flavors are in numbers is said above; below are solvers, each of a smaller problem than the one that calls it"},
	{"cli", [][]string{{"adopt", "auditreport", "costreport", "dashboard", "explain", "migrate", "nodequery", "planfile", "record"}, {"auditor", "status"}, {"audit", "objects"}},
		"the dashboard and a recording show what an audit computes; an audit reads objects; what is shown of objects is said once"},
	{"descheduler", [][]string{{"app"}, {"agent", "consolidation", "eviction", "migration"}, {"checkpoint"}},
		"app wires the program; controllers do not call each other, they meet in Migrations; checkpoints are theirs"},
	{"energy", [][]string{{"nodemeter", "profiler"}, {"powerquery", "probe"}, {"score", "bill", "tarifffile"}, {"meterapi", "profile", "tariff"}, {"."}, {"regress"}},
		"programs measure; below them queries and probes; below these what a joule costs and a machine is expected to draw; " +
			"the model of a machine knows none of them"},
	{"internal", [][]string{{"drain"}, {"world"}, {"surroundings"}, {"movable", "platform"}, {"input"}, {"cluster"}, {"budget", "jobs", "packing", "runtimes", "sizing"}, {"heap", "text"}},
		"observing a cluster needs to know what a pod may do; that needs what a cluster is; that needs only numbers"},
	{"lab", [][]string{{"."}, {"demo", "comparison"}, {"playground", "policy", "replay", "replicas", "rightsize", "workers"}, {"baseline", "definition", "compressed", "gpushare", "report"}, {"sim"}, {"scenario", "bound", "outcome", "fit"}},
		"demonstrations compare policies; policies run in the simulator; the simulator reads scenarios and writes outcomes"},
	{"plugins", [][]string{{"."}, {"bestfit", "checkpointstaging", "energyperformance", "nodeclass", "packingsort", "timebin"}, {"internal", "learning", "narrowing"}},
		"the registry knows each plugin; plugins are independent, since profiles enable them one by one"},
}

// floorsPointDown returns the imports between two folders of one folder that do not point down its floors.
func floorsPointDown(p pkg) []string {
	var found []string
	for _, f := range floors {
		if !under(p.Path, f.Dir) {
			continue
		}
		own := f.row(p.Path)
		if own < 0 {
			return []string{fmt.Sprintf("stands in %s, whose floors do not list it", f.Dir)}
		}
		for _, path := range p.Imports {
			if under(path, f.Dir) && part(path, f.Dir) != part(p.Path, f.Dir) && f.row(path) <= own {
				found = append(found, "imports "+path)
			}
		}
	}
	return found
}

// row returns the row of the folder in which a package stands, or -1.
func (f floor) row(path string) int {
	return slices.IndexFunc(f.Rows, func(row []string) bool { return slices.Contains(row, part(path, f.Dir)) })
}

// part returns the name of the folder inside dir in which a package stands: "." for dir itself.
func part(path, dir string) string {
	rest := strings.TrimPrefix(strings.TrimPrefix(path, dir), "/")
	name, _, _ := strings.Cut(rest, "/")
	if name == "" {
		return "."
	}
	return name
}
