package cli

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/test/kit/commandtest"
)

// unknownNode is a node whose price nobody knows, with a pod.
const unknownNode = `- apiVersion: v1
  kind: Node
  metadata: {name: own, labels: {kubernetes.io/arch: amd64}}
  status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}, conditions: [{type: Ready, status: "True"}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: far, namespace: shop}
  spec: {nodeName: own, containers: [{name: main, resources: {requests: {cpu: 1, memory: 1Gi}}}]}
  status: {phase: Running}
kind: List
`

// TestTheJSONOfEachCommandIsThatOfItsContract holds the names, types and units that scripts outside of this project rely
// on. A line that must be changed here breaks them.
func TestTheJSONOfEachCommandIsThatOfItsContract(t *testing.T) {
	dir := commandtest.Directory(t, map[string]string{"hour.json": anHour, "pods.csv": planPods, "flavors.csv": planFlavorsCSV})
	commandtest.Hold(t, run, []commandtest.Contract{
		{
			Name: "audit", Stdin: strings.Replace(auditInput, "kind: List\n", unknownNode, 1), Args: []string{"audit", "--from", "-"},
			Fields: `
				nodes                       count
				pods                        count
				pricedNodes                 count
				dollarsPerHour              amount
				requested.cpu               share
				requested.memory            share
				cheapest.dollarsPerHour     amount
				cheapest.lowerBoundPerHour  amount
				cheapest.machines[].flavor  string
				cheapest.machines[].count   count
				cheapest.machines[].arch    string
				cheapest.machines[].capacityType string
				byMoves.dollarsPerHour      amount
				byMoves.moves               count
				byMoves.emptied[]           string
				obstacles[].kind            string
				obstacles[].object          string
				obstacles[].pods            count
				obstacles[].dollarsPerHour  amount
				worstNodes[].node           string
				worstNodes[].dollarsPerHour amount
				worstNodes[].utilization    share
				worstNodes[].emptiedBy      string
				unpricedNodes[].node        string
				unpricedNodes[].why         string
				elapsedMillis               amount`,
			Values: map[string]any{
				"nodes": 3.0, "pricedNodes": 2.0, "pods": 2.0, "dollarsPerHour": 0.576, "byMoves.dollarsPerHour": 0.192, "byMoves.moves": 0.0, "byMoves.emptied[]": "idle",
				"unpricedNodes[].node": "own",
			},
		},
		{
			Name: "plan", Args: []string{"plan", "--pods", filepath.Join(dir, "pods.csv"), "--flavors", filepath.Join(dir, "flavors.csv")},
			Fields: planFields, Values: map[string]any{"unplaceable[].pod": "huge"},
		},
		{
			Name: "plan --algorithm greedy", Stdin: "name,cpu_milli,memory_mib,count\na,1000,1024,2\nhuge,64000,1024,1\n",
			Args:   []string{"plan", "--pods", "-", "--flavors", filepath.Join(dir, "flavors.csv"), "--algorithm", "greedy"},
			Fields: planFields, Values: map[string]any{"unplaceable[].pod": "huge"},
		},
		{
			Name: "report energy", Args: []string{"report", "energy", "-f", filepath.Join(dir, "hour.json"), "--price", "0.5", "--carbon", "400"},
			Fields: `
				from                        string
				to                          string
				powerFrom                   string
				total.measured.joules       amount
				total.measured.kilowattHours amount
				total.measured.dollars      amount
				total.measured.co2Grams     amount
				total.modelled.joules       amount
				total.dynamicJoules         amount
				unallocated.measured.joules amount
				byNamespace[].namespace     string
				byWorkload[].namespace      string
				byWorkload[].workload       string
				byMachineType[].machineType string
				coveredNodeHours            amount
				gapNodeHours                amount
				pricedPercent               percent
				carbonPercent               percent`,
			Values: map[string]any{"total.measured.joules": 3.6e6, "total.measured.kilowattHours": 1.0, "total.measured.dollars": 0.5, "total.measured.co2Grams": 400.0, "coveredNodeHours": 1.0},
		},
		{
			Name: "report cost", Stdin: auditInput, Args: []string{"report", "cost", "-f", "-"},
			Fields: `
				by                    string
				nodes                 count
				pods                  count
				rows[].name           string
				rows[].pods           count
				rows[].dollarsPerHour amount
				rows[].dollarsPerMonth amount
				rows[].share          share
				idle.dollarsPerHour   amount
				total.dollarsPerHour  amount`,
			Values: map[string]any{"by": "namespace", "total.dollarsPerHour": 0.576},
		},
		{
			Name: "report nodes", Args: []string{"report", "nodes", "--prometheus", nodesServer(t).URL, "--from", "2026-01-02T12:00:00Z", "--to", "2026-01-02T12:30:00Z"},
			Fields: `
				from                     string
				to                       string
				at                       string
				stepSeconds              amount
				machineTypes[].machineType text
				machineTypes[].nodes     count
				machineTypes[].ready     count
				machineTypes[].pods      count
				nodes[].node             string
				nodes[].machineType      text
				nodes[].state            string
				nodes[].pods             count
				nodes[].cpu.capacity     amount
				nodes[].cpu.meanAvailable    amount
				nodes[].cpu.leastAvailable   amount
				nodes[].cpu.capacityCores       amount
				nodes[].cpu.meanAvailableCores  amount
				nodes[].cpu.leastAvailableCores amount
				nodes[].memory.capacity  amount
				nodes[].memory.capacityBytes       amount
				nodes[].memory.meanAvailableBytes  amount
				nodes[].memory.leastAvailableBytes amount
				machineTypes[].cpu.meanAvailableCores     amount
				machineTypes[].memory.leastAvailableBytes amount
				nodes[].thereSeconds     amount`,
			Values: map[string]any{"stepSeconds": 30.0},
		},
		{
			Name: "report power", Args: []string{"report", "power", "--prometheus", powerServer(t)},
			Fields: `
				time               string
				nodes[].node       string
				nodes[].watts      amount
				nodes[].source     string
				nodes[].kind       string
				nodes[].ageSeconds amount
				samplesWithoutNode count`,
		},
		{Name: "explain nodefleet", Args: []string{"explain", "nodefleet/batch", "--kubeconfig", fleetServer(t)}, Fields: "status.machines count",
			Values: map[string]any{"apiVersion": "supercargo.dev/v1alpha1", "kind": "NodeFleet", "metadata.name": "batch"}},
		{Name: "version", Args: []string{"version"}, Fields: "supercargo string\n kubernetes string\n go string\n platform string"},
	})
}

const planFields = `
	machines[].flavor     string
	machines[].count      count
	assignments[].pod     string
	assignments[].machine string
	pricePerHour          amount
	lowerBoundPerHour     amount
	gap                   amount
	unplaceable[].pod     string
	unplaceable[].reason  string
	elapsedMillis         amount`

// TestEachFlagOfTheContractIsTaken: flags may be added, and get better names, but those that scripts use stay.
func TestEachFlagOfTheContractIsTaken(t *testing.T) {
	root := allCommands()
	for name, flags := range map[string]string{
		"audit":      "from prices region report o",
		"dashboard":  "listen open",
		"plan":       "pods flavors algorithm o",
		"playground": "nodes dir kubeconfig workload",
		"record":     "for prometheus since o",
		"replicas":   "trace law slo interval mu-b mu-c alpha pod-start min max warmup samples o",
		"rightsize":  "use entities flavors train-until risk-cpu risk-memory o",
		"simulate":   "f policy seed o report deterministic placements",
		"workers":    "tasks init-time start-workers max-workers worker law o",
	} {
		cmd, _, err := root.Find([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		for flag := range strings.FieldsSeq(flags) {
			if cmd.Flags().Lookup(flag) == nil && (len(flag) > 1 || cmd.Flags().ShorthandLookup(flag) == nil) {
				t.Errorf("%s has no flag %s", name, flag)
			}
		}
	}
}

// TestTheMachineOfAPodIsItsFlavorAndANumber: scripts count the machines of a flavor by it.
func TestTheMachineOfAPodIsItsFlavorAndANumber(t *testing.T) {
	t.Parallel()
	dir := commandtest.Directory(t, map[string]string{"flavors.csv": "name,cpu,memory_gib,price_per_hour\nsmall,2,4,0.1\n"})
	for _, algorithm := range []string{"supercargo", "greedy"} {
		_, stdout, stderr := supercargo(t, "name,cpu_milli,memory_mib,count\na,2000,1024,3\n", "plan", "--pods", "-", "--flavors", filepath.Join(dir, "flavors.csv"), "--algorithm", algorithm, "-o", "json")
		got := readPlanned(t, stdout)
		machines := map[string]bool{}
		for _, a := range got.Assignments {
			machines[a.Machine] = true
		}
		for i := range 3 {
			if !machines[fmt.Sprintf("small-%d", i)] {
				t.Errorf("%s: machines are %v, want small-0 to small-2: %s", algorithm, machines, stderr)
			}
		}
	}
}

// TestEveryCommandRefusesBadUsageWithTwo: nothing is printed for scripts to read, and the error names what is wrong.
func TestEveryCommandRefusesBadUsageWithTwo(t *testing.T) {
	commands, arguments := 0, map[string]string{"adopt": "nodepools", "explain": "pod/x", "migrate": "x"}
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			check(sub)
		}
		if cmd.HasSubCommands() {
			return
		}
		commands++
		path := strings.Fields(cmd.CommandPath())[1:]
		lines := map[string][]string{"--no-such-flag": {"--no-such-flag"}, "supercargo:": {"one", "two", "three"}} // by what stderr says
		if flag := cmd.Flags().Lookup("output"); flag != nil && cmd.Name() != "record" {                           // it appends to a file
			lines[`--output "xml": must be `] = append(strings.Fields(arguments[cmd.Name()]), "-o", "xml")
		}
		for says, args := range lines {
			code, stdout, stderr := supercargo(t, "", append(slices.Clone(path), args...)...)
			if code != command.ExitUsage || stdout != "" || !strings.Contains(stderr, says) {
				t.Errorf("%v %v: exit code %d, %q on stdout and %q on stderr; want %d, nothing, and %s", path, args, code, stdout, stderr, command.ExitUsage, says)
			}
		}
	}
	check(allCommands())
	if commands < 18 {
		t.Errorf("only %d commands are checked", commands)
	}
}
