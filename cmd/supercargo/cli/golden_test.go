package cli

import (
	"testing"

	"supercargo.dev/supercargo/test/kit/commandtest"
)

// TestCommandsPrintWhatTheyPrintedBefore compares with testdata/golden, byte for byte: the
// decisions of a seed, and about a cluster of six nodes that go run ./test/measure dump made with --nodes 6 --pods 40
// --seed 5, change only on purpose. Write the files again with
//
//	go test ./cmd/supercargo/cli -run PrintWhatTheyPrintedBefore -update
func TestCommandsPrintWhatTheyPrintedBefore(t *testing.T) {
	const root = "../../../test/"
	commandtest.Compare(t, run, []commandtest.Golden{
		{File: "adopt.yaml", Args: []string{"adopt", "nodepools", "-f", root + "data/nodepools/gcp/default-nodepool.yaml"}},
		{File: "adopt.json", Args: []string{"adopt", "nodepools", "-f", root + "data/nodepools/gcp/default-nodepool.yaml", "-o", "json"}},
		{File: "audit.txt", Args: []string{"audit", "-f", "testdata/dump.json"}},
		{File: "audit.json", Args: []string{"audit", "-f", "testdata/dump.json", "-o", "json"}},
		{File: "plan.txt", Args: []string{"plan", "-f", root + "data/openb/pods.csv", "--flavors", root + "data/aws/flavors.csv", "--deterministic"}},
		{File: "plan.json", Stdin: "name,arrival_s,cpu_milli,memory_mib,runtime_s,class\na,0,900,512,60,batch\nb,0,3100,2048,0,service\nc,0,1500,9000,600,batch\n",
			Args: []string{"plan", "-f", "-", "--flavors", root + "data/aws/flavors.csv", "--deterministic", "--explain", "-o", "json"}},
		{File: "plan-greedy.txt", Args: []string{"plan", "-f", root + "data/openb/pods.csv", "--flavors", root + "data/aws/flavors.csv", "--deterministic", "--algorithm", "greedy"}},
	})
}
