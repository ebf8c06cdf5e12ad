package imports

import (
	"fmt"
	"slices"
	"strings"
)

const module = "supercargo.dev/supercargo"

// pure lists the packages that make decisions, with those below them: "energy/." is package energy alone. They
// take an observation and the time as arguments and return a plan.
var pure = []string{
	"autoscaler/adapter/history/.",
	"autoscaler/adapter/rule",
	"autoscaler/adapter/store/target",
	"autoscaler/fleet/disruption",
	"autoscaler/fleet/fleetdecide",
	"autoscaler/fleet/podevent",
	"autoscaler/provider/.",
	"autoscaler/purchase",
	"autoscaler/replica/doublethreshold",
	"autoscaler/replica/inversequeue",
	"autoscaler/replica/law",
	"autoscaler/replica/predictive",
	"autoscaler/replica/preset",
	"autoscaler/replica/queueing",
	"autoscaler/replica/replicadecide",
	"autoscaler/worker/estimate",
	"autoscaler/worker/workerdecide",
	"autoscaler/worker/workqueue/answer",
	"cli/adopt",
	"cli/audit",
	"cli/status",
	"cli/planfile",
	"descheduler/agent/agentdecide",
	"descheduler/checkpoint/terms",
	"descheduler/eviction/evictiondecide",
	"descheduler/migration/migrationdecide",
	"descheduler/migration/podedit",
	"energy/.",
	"energy/bill",
	"energy/profile",
	"energy/profiler/profilerdecide",
	"energy/profiler/record",
	"energy/regress",
	"energy/score",
	"energy/tariff",
	"internal/budget",
	"internal/cluster",
	"internal/cluster/capacity",
	"internal/cluster/class",
	"internal/cluster/constraint",
	"internal/cluster/gang",
	"internal/heap",
	"internal/input",
	"internal/input/trace",
	"internal/movable",
	"internal/movable/attempts",
	"internal/movable/capability",
	"internal/packing",
	"internal/runtimes",
	"internal/sizing",
	"internal/text/clip",
	"internal/text/contentpolicy",
	"internal/text/dollars",
	"internal/text/jsondoc",
	"internal/text/plural",
	"lab/bound",
	"lab/fit",
	"lab/gpushare",
	"lab/outcome",
	"lab/replicas/baseline",
	"lab/replicas/catalogue",
	"lab/replicas/hpa",
	"lab/replicas/loop",
	"lab/replicas/plant",
	"lab/report",
	"lab/scenario",
	"moves",
	"plugins/checkpointstaging/stagingdecide",
}

// numbersOnly lists the packages that solve problems of numbers: items, bins, kinds and amounts. What these are in a
// cluster is written in one place, in the package that calls them.
var numbersOnly = []string{
	"autoscaler/purchase/knapsack",
	"autoscaler/purchase/lp",
	"autoscaler/purchase/mix",
}

// pkg contains the properties of one package of this module that the rules check.
type pkg struct {
	Path    string   // relative to the module: "internal/packing"
	Imports []string // imports of its non-test files; those of this module relative to it, like Path
	Deps    []string // direct and indirect imports, written like Imports
	Uses    []use    // uses of functions that pure packages must not call
	Files   []string // names of its non-test files, without those that are generated
}

// use is one mention of a function, such as time.Now.
type use struct {
	Func string // "time.Now"
	At   string // "internal/packing/index.go:12"
}

// mostFiles is the maximum number of files in a package.
const mostFiles = 15

// rule is one import direction. Check returns the violations in the package.
type rule struct {
	Name  string
	Why   string
	Check func(p pkg) []string
}

var rules = []rule{
	{
		Name: "plugins, autoscaler and descheduler do not import each other",
		Why: "each is a program of its own that must build, run and be replaced alone; " +
			"what two of them need belongs in internal/ or api/",
		Check: componentsApart,
	},
	{
		Name: "imports point down: cmd, lab, cli, then plugins, autoscaler and descheduler, moves, energy, internal, api",
		Why: "what ships must not carry the laboratory's API server or simulated clock into production, " +
			"and who reads a folder needs to know only those below it",
		Check: pointsDown,
	},
	{
		Name: "inside a folder, imports point down its table of floors",
		Why: "two folders that import each other are one, and neither can be read, tested or replaced alone; " +
			"floors says of each folder why its parts stand in that order",
		Check: floorsPointDown,
	},
	{
		Name: "a package has at most 15 files",
		Why:  "what one person can keep in mind is about one thing; a larger package is several, and they have names",
		Check: func(p pkg) []string {
			if len(p.Files) <= mostFiles {
				return nil
			}
			return []string{fmt.Sprintf("has %d files", len(p.Files))}
		},
	},
	{
		Name: "nothing imports test",
		Why:  "test only tests; what others need belongs in a package of its own",
		Check: func(p pkg) []string {
			return imported(p.Imports, func(path string) bool {
				// test/data is only data: the demo embeds it.
				return under(path, "test") && !under(p.Path, "test") && path != "test/data"
			})
		},
	},
	{
		Name: "only autoscaler/provider/* imports cluster-api or gophercloud",
		Why: "a machine provider is a port with several adapters; a package that imports a provider's types " +
			"elsewhere ties Supercargo to that one",
		Check: providersOnly,
	},
	{
		Name: "cmd/supercargo holds no API server and no scheduler",
		Why: "who only reads a cluster downloads 60 MB and compiles for minutes, not three times that; " +
			"what needs a control plane belongs in cmd/supercargo-lab",
		Check: light,
	},
	{
		Name: "cmd/supercargo links no controller",
		Why: "a command line reads what controllers have decided, and calls the pure packages by which they decide; controllers, " +
			"their manager, its caches and the clients of all kinds would be a third of what a reader compiles, and never run",
		Check: noController,
	},
	{
		Name: "pure packages import no clock, logger, client or random source, and only pure packages of ours",
		Why: "the scheduler, the reconcilers, the simulator and `supercargo plan` call them and must get " +
			"the same answer for the same input",
		Check: pureImports,
	},
	{
		Name: "pure packages do not read the clock or the global random source",
		Why: "time and randomness are arguments: a decision that checks the wall clock cannot be " +
			"simulated, replayed or tested",
		Check: pureUses,
	},
	{
		Name: "packages of numbers import nothing of Kubernetes, nor the cluster as decisions see it",
		Why: "who reads or replaces a solver needs to know its mathematics only, and what a rule of the scheduler " +
			"means as a number is said once, where the solver is called",
		Check: numbersImports,
	},
}

// broken returns one line per violation, each with the reason of its rule.
func broken(p pkg) []string {
	var lines []string
	for _, r := range rules {
		for _, what := range r.Check(p) {
			lines = append(lines, fmt.Sprintf("%s %s\n\trule: %s\n\twhy:  %s", p.Path, what, r.Name, r.Why))
		}
	}
	return lines
}

func componentsApart(p pkg) []string {
	components := []string{"plugins", "autoscaler", "descheduler"}
	own := slices.IndexFunc(components, func(c string) bool { return under(p.Path, c) })
	if own < 0 {
		return nil
	}
	return imported(p.Imports, func(path string) bool {
		return slices.ContainsFunc(components, func(c string) bool { return c != components[own] && under(path, c) })
	})
}

// layers lists the folders of the module from the top down. A package imports packages of its own layer and
// of lower ones. Packages of the last layer import no packages of this module outside their folder.
var layers = [][]string{
	{"cmd"},
	{"lab"},
	{"cli"},
	{"plugins", "autoscaler", "descheduler"},
	{"moves"},
	{"energy"},
	{"internal"},
	{"api", "manifests"},
}

func layerOf(path string) int {
	return slices.IndexFunc(layers, func(dirs []string) bool {
		return slices.ContainsFunc(dirs, func(dir string) bool { return under(path, dir) })
	})
}

func pointsDown(p pkg) []string {
	own := layerOf(p.Path)
	return imported(p.Imports, func(path string) bool {
		layer := layerOf(path)
		return layer >= 0 && layer < own
	})
}

func providersOnly(p pkg) []string {
	if strings.HasPrefix(p.Path, "autoscaler/provider/") {
		return nil
	}
	return imported(p.Imports, func(path string) bool {
		return under(path, "sigs.k8s.io/cluster-api") || under(path, "github.com/gophercloud/gophercloud")
	})
}

// light returns the dependency of the command line that would bring a control plane into it, and the imports of its
// packages that would bring the clients of all kinds of Kubernetes, which are 12 MB of program.
func light(p pkg) []string {
	if p.Path == "cmd/supercargo" {
		for _, path := range p.Deps {
			for _, heavy := range []string{"k8s.io/kubernetes", "k8s.io/apiserver", "go.etcd.io", "lab"} {
				if under(path, heavy) {
					return []string{"depends on " + path}
				}
			}
		}
	}
	if !under(p.Path, "cli") && !under(p.Path, "cmd/supercargo") && !under(p.Path, "cmd/internal") && !under(p.Path, "internal") {
		return nil
	}
	return imported(p.Imports, func(path string) bool {
		return path == "k8s.io/client-go/kubernetes" || path == "k8s.io/client-go/informers" || path == "k8s.io/client-go/listers"
	})
}

// noController returns the dependency of the command line that would bring controllers into it. Every controller imports one
// of these packages.
func noController(p pkg) []string {
	if p.Path != "cmd/supercargo" {
		return nil
	}
	for _, path := range p.Deps {
		switch path {
		case "sigs.k8s.io/controller-runtime", "sigs.k8s.io/controller-runtime/pkg/builder", "sigs.k8s.io/controller-runtime/pkg/cache",
			"sigs.k8s.io/controller-runtime/pkg/controller", "sigs.k8s.io/controller-runtime/pkg/manager", "sigs.k8s.io/controller-runtime/pkg/metrics",
			"k8s.io/client-go/kubernetes", "k8s.io/client-go/informers", "k8s.io/client-go/tools/events":
			return []string{"depends on " + path}
		}
	}
	return nil
}

func pureImports(p pkg) []string {
	if !isPure(p.Path) {
		return nil
	}
	direct := imported(p.Imports, func(path string) bool {
		switch {
		case under(path, "k8s.io/klog"), under(path, "github.com/go-logr/logr"), path == "log", under(path, "log/slog"):
			return true // logger
		case under(path, "k8s.io/utils/clock"), path == "crypto/rand":
			return true // clock and random source
		}
		return isOurs(path) && !isPure(path) && !under(path, "api")
	})
	// A client must not be imported through another package either.
	for _, path := range p.Deps {
		if under(path, "k8s.io/client-go") || under(path, "sigs.k8s.io/controller-runtime") {
			return append(direct, "depends on "+path)
		}
	}
	return direct
}

func pureUses(p pkg) []string {
	if !isPure(p.Path) {
		return nil
	}
	var found []string
	for _, u := range p.Uses {
		found = append(found, fmt.Sprintf("uses %s at %s", u.Func, u.At))
	}
	return found
}

func numbersImports(p pkg) []string {
	if !slices.Contains(numbersOnly, p.Path) {
		return nil
	}
	var found []string
	for _, path := range p.Deps {
		if host, _, _ := strings.Cut(path, "/"); host == "k8s.io" || host == "sigs.k8s.io" || under(path, "internal/cluster") {
			found = append(found, "depends on "+path)
		}
	}
	return found
}

// imported returns "imports X" for each forbidden path.
func imported(paths []string, forbidden func(path string) bool) []string {
	var found []string
	for _, path := range paths {
		if forbidden(path) {
			found = append(found, "imports "+path)
		}
	}
	return found
}

// under reports whether path is dir or lies below it.
func under(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, dir+"/")
}

func isPure(path string) bool {
	return slices.ContainsFunc(pure, func(dir string) bool {
		alone, found := strings.CutSuffix(dir, "/.")
		return found && path == alone || under(path, dir)
	})
}

// isOurs reports whether a path belongs to this module: such paths are relative to it, and start with one of
// its folders.
func isOurs(path string) bool {
	return slices.ContainsFunc(
		[]string{"api", "autoscaler", "cli", "cmd", "descheduler", "energy", "internal", "lab", "manifests", "moves", "plugins", "test"},
		func(dir string) bool { return under(path, dir) })
}
