package cli

import (
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"supercargo.dev/supercargo/autoscaler/replica/queueing"
	"supercargo.dev/supercargo/lab/policy"
	"supercargo.dev/supercargo/test/kit/commandtest"
	"supercargo.dev/supercargo/test/kit/testfile"
)

const (
	simulateFields = `
		scenario                         string
		seed                             count
		policies[].name                  string
		policies[].costDollars           amount
		policies[].lowerBoundDollars     amount
		policies[].servedBoundDollars    amount
		policies[].servedBoundWaitSeconds amount
		policies[].serviceWaitSeconds    amount
		policies[].energyJoules          amount
		policies[].makespanSeconds       amount
		policies[].pods.submitted        count
		policies[].pods.scheduled        count
		policies[].pods.completed        count
		policies[].pods.pending          count
		policies[].pods.failed           count
		policies[].schedulingSeconds.mean amount
		policies[].schedulingSeconds.p50 amount
		policies[].schedulingSeconds.p95 amount
		policies[].schedulingSeconds.max amount
		policies[].utilization.cpu       share
		policies[].utilization.memory    share
		policies[].nodes.start           count
		policies[].nodes.peak            count
		policies[].nodes.added           count
		policies[].nodes.removed         count
		policies[].nodes.hours           amount
		policies[].moves.migrations      count
		policies[].moves.evictions       count
		policies[].moves.lostWorkSeconds amount
		policies[].events.starts         count
		policies[].wallSeconds           amount`
	replicasFields = `
		sloViolationPercent   percent
		containerIntervals    amount
		scalingActions        count
		maxReplicas           count
		overloadSeconds       amount
		meanResponseSeconds   amount
		maxUtilizationPercent amount
		laws[].law            string`
	rightsizeFields = `
		stated.cpu                    share
		stated.memory                 share
		policies[].name               string
		policies[].machines           amount
		policies[].dollarsPerHour     amount
		policies[].overload.cpu       share
		policies[].overload.memory    share
		policies[].overloadedMachines count
		policies[].resizes            count
		policies[].moves              count`
	workersFields = `
		makespanSeconds     amount
		wasteCoreSeconds    amount
		shortageCoreSeconds amount
		workersPeak         count
		costDollars         amount`
)

// fixedScenario is a machine for an hour, and a pod on half of its CPU for the first quarter of it, from its arrival
// after ten minutes on. 0.36 dollars an hour are 0.0001 a second.
const fixedScenario = `apiVersion: supercargo.dev/v1alpha1
kind: Scenario
metadata: {name: fixed}
spec:
  horizon: 1h
  autoscale: false
  flavors:
  - {name: m, cpu: "2", memory: 8Gi, pricePerHour: 0.36, wattsIdle: 50, wattsFull: 150}
  nodes: [{flavor: m}]
  workload:
    pods:
    - {name: job, class: batch, cpu: 1, memory: 2Gi, arrival: 10m, runtime: 15m}
    - {name: huge, class: batch, cpu: 3, memory: 1Gi, arrival: 10m, runtime: 1m}
    - {name: web, class: service, cpu: 1, memory: 2Gi, arrival: 0s, lifetime: 1h}
`

// TestTheJSONOfEachCommandIsThatOfItsContract holds the names, types and units that scripts outside of this project rely
// on. A line that must be changed here breaks them. The demo, which needs a control plane, has [commandtest.Demo].
func TestTheJSONOfEachCommandIsThatOfItsContract(t *testing.T) {
	hour := hours(t, 1, 45)
	contracts := []commandtest.Contract{
		{
			Name: "simulate", Stdin: simulateScenario, Args: []string{"simulate", "-f", "-", "--policy", "default,supercargo", "--seed", "7"},
			Fields: simulateFields, Values: map[string]any{"scenario": "small", "seed": 7.0},
		},
		{
			Name: "simulate, what one can compute by hand", Stdin: fixedScenario, Args: []string{"simulate", "-f", "-", "--policy", "default", "--deterministic=false"},
			Fields: simulateFields, Values: map[string]any{
				"policies[].costDollars": 0.36, "policies[].makespanSeconds": 1500.0, "policies[].nodes.hours": 1.0, "policies[].pods.submitted": 3.0, "policies[].pods.pending": 1.0,
				"policies[].pods.scheduled": 2.0, "policies[].nodes.start": 1.0, "policies[].nodes.added": 0.0, "policies[].utilization.cpu": 0.625, "policies[].energyJoules": 405000.0,
			},
		},
		{
			Name: "replicas", Args: []string{"replicas", "--trace", hour, "--law", "proportional", "--slo", "150ms", "--mu-b", "10", "--mu-c", "0", "--min", "6", "--max", "6", "--interval", "250s"},
			Fields: replicasFields, Values: map[string]any{"maxReplicas": 6.0, "scalingActions": 0.0, "overloadSeconds": 0.0, "horizonSeconds": 3600.0, "sloSeconds": 0.15, "intervalSeconds": 250.0},
		},
		{
			Name: "rightsize", Args: rightsizeInput(t, nil),
			Fields: rightsizeFields, Values: map[string]any{"stated.cpu": 0.01, "stated.memory": 0.001},
		},
		{
			Name: "fit power", Stdin: commandtest.MachineCSV(80), Args: []string{"fit", "power", "-f", "-", "--machine-type", "m"},
			Fields: `
				machineType                      string
				samples                          count
				power.idleWatts                  string
				power.fullWatts                  string
				utilizationSeen.least            share
				utilizationSeen.most             share
				fitted.meanErrorPercent          amount
				heldOut.lastHalf.meanErrorPercent amount
				heldOut.everyOtherTwentieth.meanErrorPercent amount`,
			Values: map[string]any{"samples": 80.0, "machineType": "m"},
		},
		{
			Name: "fit service", Stdin: serviceCSV(queueing.Model{MuB: 20, C: 500, Alpha: 0.2}, 60, 0), Args: []string{"fit", "service", "-f", "-", "--slo", "150ms", "--peak-rate", "500"},
			Fields: `
				samples              count
				leftOut              count
				model.muB            amount
				model.c              amount
				model.alpha          share
				residualSeconds      amount
				needed.arrivalRate   amount
				needed.replicas      count
				needed.responseSeconds amount`,
			Values: map[string]any{"needed.arrivalRate": 500.0},
		},
		{Name: "version", Args: []string{"version"}, Fields: "supercargo string\n kubernetes string\n go string\n platform string"},
	}
	// One core is free from 15 s to 30 s; no task waits for one. One minute is billed.
	workers := map[string]any{"makespanSeconds": 40.0, "wasteCoreSeconds": 15.0, "shortageCoreSeconds": 0.0, "workersPeak": 1.0, "costDollars": 0.003167}
	for _, law := range []string{"hta", "hta-paper", "hpa-20", "hpa-50", "supercargo"} {
		contracts = append(contracts, commandtest.Contract{
			Name:   "workers --law " + law,
			Args:   workersInput(t, fourTasks, "--start-workers", "1", "--max-workers", "1", "--init-time", "157s", "--worker", "cores=2,memory=1Gi", "--law", law, "--min-workers", "1"),
			Fields: workersFields, Values: maps.Clone(workers),
		})
	}
	commandtest.Hold(t, Run, contracts)
}

// TestEachPolicyAndLawOfTheContractIsKnown: the names of policies and laws are input of scripts.
func TestEachPolicyAndLawOfTheContractIsKnown(t *testing.T) {
	for _, name := range []string{"default", "most-allocated", "coca", "stratus", "htas", "supercargo", "heats-0", "heats-0.618", "heats-1"} {
		if _, err := policy.ByName(name); err != nil {
			t.Errorf("policy %s: %v", name, err)
		}
	}
	for _, law := range []string{"inversequeue", "doublethreshold", "hpa", "hpa-80"} {
		if code, _, stderr := supercargo(t, "time_s,rate_per_s\n0,20\n600,20\n", "replicas", "--trace", "-", "--law", law); code != 0 {
			t.Errorf("law %s: %s", law, stderr)
		}
	}
}

// TestTheColumnsOfFilesThatScriptsReadStay: further columns may follow.
func TestTheColumnsOfFilesThatScriptsReadStay(t *testing.T) {
	dir := t.TempDir()
	placements, samples := filepath.Join(dir, "placements.csv"), filepath.Join(dir, "samples.csv")
	for _, tc := range []struct {
		file, stdin, header string
		args                []string
	}{
		{placements, fixedScenario, "time_s,pod,node,flavor,reason", []string{"simulate", "-f", "-", "--policy", "supercargo", "--placements", placements}},
		{samples, "time_s,rate_per_s\n0,20\n600,20\n", "time_s,", []string{"replicas", "--trace", "-", "--samples", samples}},
	} {
		if code, _, stderr := supercargo(t, tc.stdin, tc.args...); code != 0 {
			t.Fatal(stderr)
		}
		if text := string(testfile.Read(t, tc.file)); !strings.HasPrefix(text, tc.header) {
			t.Errorf("%v writes columns %s, want %s first", tc.args, strings.SplitN(text, "\n", 2)[0], tc.header)
		}
	}
}
