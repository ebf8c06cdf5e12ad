package cli

import (
	"strings"
	"testing"

	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/test/kit/commandtest"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// TestCommandsPrintWhatTheyPrintedBefore compares with testdata/golden, byte for byte: the
// decisions of a seed change only on purpose. Write the files again with
//
//	go test ./cmd/supercargo-lab/cli -run PrintWhatTheyPrintedBefore -update
func TestCommandsPrintWhatTheyPrintedBefore(t *testing.T) {
	const root = "../../../test/"
	// An hour in which the rate doubles, falls to a tenth and recovers.
	const rates = "time_s,rate_per_s\n0,40\n600,80\n1200,85\n1800,8\n2400,12\n3000,60\n3600,60\n"
	commandtest.Compare(t, Run, []commandtest.Golden{
		{File: "simulate.txt", Args: []string{"simulate", "-f", root + "scenarios/htas-on-off.yaml", "--policy", "default,htas,supercargo"}},
		{File: "simulate-recording.txt", Args: []string{"simulate", "-f", root + "scenarios/shop.csv", "--policy", "default,supercargo"}},
		{File: "simulate.json", Args: []string{"simulate", "-f", root + "scenarios/htas-stable.yaml", "--policy", "supercargo", "-o", "json"}},
		{File: "simulate-energy.txt", Args: []string{"simulate", "-f", root + "scenarios/heats.yaml", "--policy", "default,heats-0.618,heats-0", "--repeat", "2"}},
		{File: "replicas.txt", Stdin: rates, Args: []string{"replicas", "-f", "-", "--warmup", "0s", "--interval", "1m", "--law", "predictive,inversequeue,doublethreshold,hpa"}},
		{File: "replicas.json", Stdin: rates, Args: []string{"replicas", "-f", "-", "--warmup", "0s", "--interval", "1m", "--interpolate", "--law", "qmdl", "-o", "json"}},
		{File: "workers.txt", Args: []string{"workers", "-f", root + "scenarios/workers/blast.csv", "--start-workers", "3", "--max-workers", "20"}},
		{File: "workers.json", Args: []string{"workers", "-f", root + "scenarios/workers/blast.csv", "--start-workers", "3", "--max-workers", "20", "--law", "hpa-20", "-o", "json"}},
	})
}

// TestThePageOfSimulationsShowsWhatItsSamplePrints: who starts with the sample compares.
func TestThePageOfSimulationsShowsWhatItsSamplePrints(t *testing.T) {
	const sample = "test/data/simulation/afternoon.yaml --policy default,supercargo"
	code, stdout, stderr := supercargo(t, "", append([]string{"simulate", "-f"}, strings.Fields("../../../"+sample)...)...)
	if code != command.ExitOK || stderr != "" {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	page := string(testfile.Read(t, "../../../docs/simulation.md"))
	if want := "    supercargo simulate -f " + sample + "\n\n```text\n" + stdout + "```\n"; !strings.Contains(page, want) {
		t.Errorf("docs/simulation.md does not show\n%s", want)
	}
}
