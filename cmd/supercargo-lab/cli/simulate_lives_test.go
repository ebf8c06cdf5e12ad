package cli

import (
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/lab/policy"
	"supercargo.dev/supercargo/test/kit/testfile"
	"supercargo.dev/supercargo/test/lives"
)

// recordings is the number of recorded clusters: make test-thorough sets it.
var recordings = flag.Uint64("recordings", 12, "how many recorded clusters are simulated")

// livedPolicies are the policies that recorded clusters are simulated under: all.
var livedPolicies = append(policy.Names(), "heats-0", "heats-0.618", "heats-1")

// TestEveryRecordedClusterIsSimulatedUnderEveryPolicy simulates recordings of random clusters, in which nodes and
// pods are deleted and the recorder is interrupted.
func TestEveryRecordedClusterIsSimulatedUnderEveryPolicy(t *testing.T) {
	for seed := range *recordings {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "week.csv")
			life, err := lives.Record(path, seed)
			if err != nil {
				t.Fatal(err)
			}
			args := []string{"simulate", "-f", path, "--policy", strings.Join(livedPolicies, ","), "-o", "json", "--deterministic"}
			code, stdout, stderr := supercargo(t, "", args...)
			if code == command.ExitUsage && refused(life, stderr) {
				return
			}
			if code != command.ExitOK {
				t.Fatalf("exit code %d: %s", code, stderr)
			}
			checkLife(t, life, stdout)
			if n := endless(t, path); n != life.Services {
				t.Errorf("%d services never end, want the %d that had not ended", n, life.Services)
			}
			if _, again, _ := supercargo(t, "", args...); again != stdout {
				t.Errorf("a second run differs (-first +second):\n%s", cmp.Diff(stdout, again))
			}
		})
	}
}

// refused reports whether a recording lacks what a simulation needs, and the error says so.
func refused(life *lives.Life, stderr string) bool {
	switch {
	case !life.Nodes:
		return strings.Contains(stderr, "the recording has no nodes")
	case life.Unpriced:
		return strings.Contains(stderr, "is unknown: state it with --prices")
	}
	return false
}

// endless returns the number of services of a recording that run to the end of the simulation.
func endless(t *testing.T, path string) (n int) {
	t.Helper()
	s, err := readSimulation(t.Context(), simulateFlags{scenario: path, policies: []string{"default"}, repeat: 1, output: "table"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range s.scenario.Workload.Traces[0].Pods {
		if p.Class == class.Service && p.Lifetime == 0 {
			n++
		}
	}
	return n
}

// checkLife checks that each policy has ended, and that its figures can be those of the recorded pods.
func checkLife(t *testing.T, life *lives.Life, document string) {
	t.Helper()
	var got struct {
		Policies []struct {
			Name, Error                    string
			CostDollars, LowerBoundDollars float64
			Pods                           struct{ Submitted, Scheduled, Completed, Pending, Failed int }
			PendingReasons                 map[string]int
		}
	}
	testfile.JSON(t, document, &got)
	if len(got.Policies) != len(livedPolicies) {
		t.Fatalf("%d policies, want %d", len(got.Policies), len(livedPolicies))
	}
	for _, p := range got.Policies {
		switch pods := p.Pods; {
		case p.Error != "":
			t.Errorf("policy %s: %s", p.Name, p.Error)
		case pods.Submitted != life.Pods:
			t.Errorf("policy %s: %d pods were submitted, want %d", p.Name, pods.Submitted, life.Pods)
		case pods.Completed > pods.Scheduled || pods.Scheduled+pods.Pending < pods.Submitted:
			t.Errorf("policy %s: the pods %+v do not add up", p.Name, pods)
		case pods.Pending+pods.Failed == 0 && p.CostDollars < p.LowerBoundDollars*(1-1e-9):
			t.Errorf("policy %s: it cost $%v, less than the lower bound of $%v", p.Name, p.CostDollars, p.LowerBoundDollars)
		}
	}
}
