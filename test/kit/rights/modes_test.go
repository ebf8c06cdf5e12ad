package rights

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const services = "system:serviceaccount:supercargo-system:supercargo-autoscaler"

// writing returns the requests of a run of mode services that has no fault.
func writing() map[Request]int {
	const apps, own, home = "apps", "supercargo.dev", "supercargo-system"
	return map[Request]int{
		{Verb: "update", Group: apps, Resource: "deployments/scale", Namespace: "a", Name: "web"}:  1,
		{Verb: "update", Group: apps, Resource: "statefulsets/scale", Namespace: "a", Name: "web"}: 1,
		{Verb: "update", Group: apps, Resource: "replicasets/scale", Namespace: "a", Name: "web"}:  1,
		{Verb: "update", Group: own, Resource: "replicapolicies/status", Namespace: "a"}:           1,
		{Verb: "create", Group: "events.k8s.io", Resource: "events", Namespace: "a"}:               1,
		{Verb: "create", Resource: "events", Namespace: home}:                                      1,
		{Verb: "create", Group: "coordination.k8s.io", Resource: "leases", Namespace: home}:        1,
		{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: home}:        1,
		{Verb: "get", Path: "/apis/apps/v1"}:                                                       1,
		{Verb: "create", Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews"}:      1,
	}
}

func TestARunUsesWhatItsModePermitsAndNoMore(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(map[Request]int)
		want   []string
	}{
		"all and no more": {func(map[Request]int) {}, nil},
		"an eviction": {
			func(all map[Request]int) {
				all[Request{Verb: "create", Resource: "pods/eviction", Namespace: "a", Name: "web"}] = 1
			},
			[]string{"the chart does not permit: create pods/eviction web in a"},
		},
		"a Lease of others": {
			func(all map[Request]int) {
				all[Request{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: "a"}] = 1
			},
			[]string{"the chart does not permit: update leases.coordination.k8s.io in a"},
		},
		"no StatefulSet": {
			func(all map[Request]int) {
				maps.DeleteFunc(all, func(r Request, _ int) bool { return r.Resource == "statefulsets/scale" })
			},
			[]string{"the chart permits, and the run did not use: update statefulsets.apps/scale"},
		},
		"a reason that does not apply": {
			func(all map[Request]int) {
				all[Request{Verb: "update", Group: "supercargo.dev", Resource: "nodefleets/status", Name: "x"}] = 1
			},
			[]string{"said to be unused, and used or not permitted: update nodefleets.supercargo.dev/status"},
		},
	} {
		requests := writing()
		tc.change(requests)
		got, err := Faults("services", services, requests)
		if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
	if _, err := Faults("none", services, nil); err == nil {
		t.Error("a mode that does not exist has no roles, and that is no error")
	}
}

// TestEveryModeIsRun searches for the comparison in the integration tests.
func TestEveryModeIsRun(t *testing.T) {
	run := []string{"workers"} // by test/e2e/install
	err := filepath.WalkDir("../../integration", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, mode := range Modes {
			if strings.Contains(string(text), `.FitsMode(t, "`+mode+`", `) {
				run = append(run, mode)
			}
		}
		return err
	})
	slices.Sort(run)
	if diff := cmp.Diff(slices.Sorted(slices.Values(Modes)), run); err != nil || diff != "" {
		t.Errorf("%v (-modes +run):\n%s", err, diff)
	}
	for mode := range unusedIn {
		if !slices.Contains(Modes, mode) {
			t.Errorf("there are reasons of mode %s, which does not exist", mode)
		}
	}
}
