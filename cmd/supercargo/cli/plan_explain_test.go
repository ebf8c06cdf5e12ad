package cli

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/cli/planfile"
	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/test/kit/testfile"
)

const (
	// explainedPods fill four cheap machines, and the one that needs much memory fills an expensive
	// one.
	explainedPods    = "name,cpu_milli,memory_mib,count\nweb,1000,1024,8\ncache,1000,30720,1\n"
	explainedFlavors = "name,cpu,memory_gib,price_per_hour\ncheap,2,4,0.10\nfair,2,4,0.12\nmemory,2,32,0.30\n"
)

func TestPlanExplainsWhatTheNextBestCosts(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := supercargo(t, "", append(planInputs(t, explainedPods, explainedFlavors), "--explain", "-o", "json")...)
	if code != command.ExitOK || stderr != "" {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	var got planfile.Document
	testfile.JSON(t, stdout, &got)
	// Of eight small pods, one fits on the machine of the large one.
	want := []planfile.Alternative{
		{Without: "cheap", PricePerHour: 0.78, Machines: []planfile.Count{{Flavor: "fair", Count: 4, PricePerHour: 0.12}, {Flavor: "memory", Count: 1, PricePerHour: 0.3}}},
		{Without: "memory", PricePerHour: 0.4, Machines: []planfile.Count{{Flavor: "cheap", Count: 4, PricePerHour: 0.1}}, Unplaceable: 1},
	}
	if diff := cmp.Diff(want, got.Alternatives); diff != "" {
		t.Errorf("alternatives (-want +got):\n%s", diff)
	}

	_, stdout, _ = supercargo(t, "", append(planInputs(t, explainedPods, explainedFlavors), "--explain")...)
	for _, line := range []string{
		"\nWITHOUT  $/H     MORE              BUYS INSTEAD\n",
		"\ncheap    0.7800  +11.43 %          4 fair\n",
		"\nmemory   0.4000  pods left out: 1  \n",
	} {
		if !strings.Contains(stdout, line) {
			t.Errorf("the table lacks %q:\n%s", line, stdout)
		}
	}
}

func TestPlanExplainsNothingUnlessAsked(t *testing.T) {
	t.Parallel()
	_, stdout, _ := supercargo(t, "", append(planInputs(t, explainedPods, explainedFlavors), "-o", "json")...)
	if strings.Contains(stdout, "alternatives") {
		t.Errorf("alternatives are listed:\n%s", stdout)
	}
}
