package imports

import (
	"slices"
	"strings"
	"testing"
)

func TestImportDirections(t *testing.T) {
	pkgs, err := load("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pkgs {
		for _, line := range broken(p) {
			t.Error(line)
		}
	}
	for _, dir := range pure {
		if !slices.ContainsFunc(pkgs, func(p pkg) bool { return p.Path == strings.TrimSuffix(dir, "/.") }) {
			t.Errorf("%s is listed as pure and does not exist: correct the list", dir)
		}
	}
}

// TestRulesCatchOffenders shows that the rules can fail: each row except the last few breaks exactly one of
// them.
func TestRulesCatchOffenders(t *testing.T) {
	tests := []struct {
		name string
		pkg  pkg
		want string // part of the only violation; empty for none
	}{
		{"a plugin imports the autoscaler",
			pkg{Path: "plugins/bestfit", Imports: []string{"autoscaler/purchase"}}, "imports autoscaler/purchase"},
		{"the autoscaler imports the descheduler",
			pkg{Path: "autoscaler/fleet", Imports: []string{"descheduler/consolidation"}}, "imports descheduler/consolidation"},
		{"the descheduler imports the plugins' registry",
			pkg{Path: "descheduler/consolidation", Imports: []string{"plugins"}}, "imports plugins"},
		{"a plugin imports the simulator",
			pkg{Path: "plugins/bestfit", Imports: []string{"lab/sim"}}, "imports lab/sim"},
		{"a shared package imports the playground",
			pkg{Path: "internal/drain", Imports: []string{"lab/playground"}}, "imports lab/playground"},
		{"a shared package imports a plugin",
			pkg{Path: "internal/drain", Imports: []string{"plugins/timebin"}}, "imports plugins/timebin"},
		{"the API imports a shared package",
			pkg{Path: "api/config/v1", Imports: []string{"internal/drain"}}, "imports internal/drain"},
		{"a package borrows from a command",
			pkg{Path: "lab/replay", Imports: []string{"cmd/supercargo"}}, "imports cmd/supercargo"},
		{"a package borrows from the tests",
			pkg{Path: "lab/replay", Imports: []string{"test/fixtures"}}, "imports test/fixtures"},
		{"a program carries public data",
			pkg{Path: "cmd/supercargo", Imports: []string{"test/data"}}, ""},
		{"the planner knows cluster-api",
			pkg{Path: "autoscaler/purchase", Imports: []string{"sigs.k8s.io/cluster-api/api/core/v1beta2"}}, "imports sigs.k8s.io/cluster-api"},
		{"a command knows OpenStack",
			pkg{Path: "cmd/autoscaler", Imports: []string{"github.com/gophercloud/gophercloud/v2"}}, "imports github.com/gophercloud"},
		{"pure code logs with klog",
			pkg{Path: "internal/packing", Imports: []string{"k8s.io/klog/v2"}}, "imports k8s.io/klog/v2"},
		{"pure code logs with the standard library",
			pkg{Path: "internal/packing", Imports: []string{"log/slog"}}, "imports log/slog"},
		{"pure code holds a clock",
			pkg{Path: "internal/packing", Imports: []string{"k8s.io/utils/clock"}}, "imports k8s.io/utils/clock"},
		{"pure code rests on code that is not",
			pkg{Path: "energy/score", Imports: []string{"internal/drain"}}, "imports internal/drain"},
		{"a controller calls another",
			pkg{Path: "descheduler/eviction", Imports: []string{"descheduler/migration"}}, "imports descheduler/migration"},
		{"a ReplicaPolicy knows who serves it",
			pkg{Path: "autoscaler/replica", Imports: []string{"autoscaler/adapter/desired"}}, "imports autoscaler/adapter/desired"},
		{"a folder without a place among its neighbours",
			pkg{Path: "descheduler/extras"}, "stands in descheduler, whose floors do not list it"},
		{"a solver knows what a pod is",
			pkg{Path: "autoscaler/purchase/mix", Deps: []string{"internal/cluster/constraint"}}, "depends on internal/cluster/constraint"},
		{"a solver reads labels",
			pkg{Path: "autoscaler/purchase/lp", Deps: []string{"k8s.io/api/core/v1"}}, "depends on k8s.io/api/core/v1"},
		{"a solver calls its caller",
			pkg{Path: "autoscaler/purchase/mix", Imports: []string{"autoscaler/purchase"}}, "imports autoscaler/purchase"},
		{"a client comes in by a detour",
			pkg{Path: "internal/packing", Imports: []string{"api/v1alpha1"}, Deps: []string{"k8s.io/client-go/rest"}}, "depends on k8s.io/client-go/rest"},
		{"a folder below a pure package reads the clock",
			pkg{Path: "internal/packing/shelf", Uses: []use{{"time.Now", "shelf.go:3"}}}, "uses time.Now at shelf.go:3"},

		{"a package is several",
			pkg{Path: "moves", Files: make([]string, mostFiles+1)}, "has 16 files"},
		{"a package is as large as it may be",
			pkg{Path: "moves", Files: make([]string, mostFiles)}, ""},
		{"the command line brings a control plane along",
			pkg{Path: "cmd/supercargo", Imports: []string{"cli/audit"}, Deps: []string{"cli/audit", "k8s.io/apiserver/pkg/server"}}, "depends on k8s.io/apiserver/pkg/server"},
		{"the command line brings a controller along",
			pkg{Path: "cmd/supercargo", Imports: []string{"cli/explain"}, Deps: []string{"cli/explain", "autoscaler/fleet", "sigs.k8s.io/controller-runtime/pkg/builder"}}, "depends on sigs.k8s.io/controller-runtime/pkg/builder"},
		{"the command line brings the clients of all kinds along, by way of Events",
			pkg{Path: "cmd/supercargo", Imports: []string{"cli/explain"}, Deps: []string{"cli/explain", "k8s.io/client-go/tools/events"}}, "depends on k8s.io/client-go/tools/events"},
		{"a package of the command line brings the clients of all kinds along",
			pkg{Path: "cli/record", Imports: []string{"k8s.io/client-go/informers"}}, "imports k8s.io/client-go/informers"},
		{"the command line brings the laboratory along",
			pkg{Path: "cmd/supercargo", Imports: []string{"cli/audit"}, Deps: []string{"cli/audit", "lab/sim"}}, "depends on lab/sim"},

		{"a command imports everything",
			pkg{Path: "cmd/supercargo", Imports: []string{"plugins", "autoscaler/fleet", "descheduler/consolidation", "lab/sim", "lab/playground"}}, ""},
		{"the command line starts a playground",
			pkg{Path: "cmd/supercargo", Imports: []string{"lab/playground", "lab/sim"}}, ""},
		{"the command line reads objects and what a fleet observes",
			pkg{Path: "cmd/supercargo", Imports: []string{"cli/explain"}, Deps: []string{"autoscaler/fleet/fleetobserve", "sigs.k8s.io/controller-runtime/pkg/client", "k8s.io/client-go/kubernetes/scheme"}}, ""},
		{"a provider imports its machines' types",
			pkg{Path: "autoscaler/provider/openstack", Imports: []string{"github.com/gophercloud/gophercloud/v2"}}, ""},
		{"a plugin imports what plugins share, the clock and a pure package",
			pkg{Path: "plugins/timebin", Imports: []string{"plugins/narrowing", "internal/packing", "k8s.io/utils/clock"}, Uses: []use{{"time.Now", "x.go:1"}}}, ""},
		{"a pure package imports another and the names of the API",
			pkg{Path: "internal/cluster", Imports: []string{"api/v1alpha1", "internal/runtimes", "math/rand/v2"}}, ""},
		{"a name that only begins alike",
			pkg{Path: "movesreport", Imports: []string{"internal/simple", "k8s.io/klog/v2"}}, ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got := broken(tc.pkg)
			switch {
			case tc.want == "" && len(got) > 0:
				t.Errorf("unexpected violation:\n%s", strings.Join(got, "\n"))
			case tc.want != "" && (len(got) != 1 || !strings.Contains(got[0], tc.want) || !strings.Contains(got[0], "why:")):
				t.Errorf("violations = %q, want one with a reason that says %q", got, tc.want)
			}
		})
	}
}

func TestUsesAreFoundInSource(t *testing.T) {
	tests := []struct {
		name, source string
		want         []use
	}{
		{"a call", "import \"time\"\nvar x = time.Now()", []use{{"time.Now", "f.go:3"}}},
		{"a function value", "import \"time\"\nvar clock = time.Since", []use{{"time.Since", "f.go:3"}}},
		{"under another name", "import t \"time\"\nfunc f() { t.Sleep(1) }", []use{{"time.Sleep", "f.go:3"}}},
		{"a dot import", "import . \"time\"\nvar x = Now()", []use{{"time..", "f.go:2"}}},
		{"the global random source", "import \"math/rand\"\nvar x = rand.Intn(3)", []use{{"math/rand.Intn", "f.go:3"}}},
		{"the global random source, v2", "import \"math/rand/v2\"\nvar x = rand.N(3)", []use{{"math/rand/v2.N", "f.go:3"}}},
		{"durations and times as values", "import \"time\"\nfunc f(now time.Time) time.Time { return now.Add(time.Second) }", nil},
		{"a seeded source", "import \"math/rand/v2\"\nfunc f(r *rand.Rand) int { return rand.New(rand.NewPCG(1, 2)).IntN(r.IntN(2)) }", nil},
		{"another package of the same name", "import rand \"example.com/rand\"\nvar x = rand.Intn(3)", nil},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got, err := parseUses("f.go", "f.go", "package p\n"+tc.source)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("uses = %v, want %v", got, tc.want)
			}
		})
	}
}
