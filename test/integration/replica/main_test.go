// Package replica tests ReplicaPolicies on a real API server with the real controllers of Deployments. Pods
// run on nodes that kwok simulates. Measurements come from a real HTTP server that implements Prometheus' API
// and simulates the service by the queueing model.
//
// All tests share one control plane. Each test has its own bench: a namespace, and an autoscaler that sees
// nothing else.
package replica

import (
	"os"
	"testing"

	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/kit"
)

// sites has the control plane that all tests share.
var sites = kit.NewSites(playground.Options{Nodes: []playground.NodeSpec{
	{Name: "node-a", CPU: "64", Memory: "256Gi", Pods: 1000}, {Name: "node-b", CPU: "64", Memory: "256Gi", Pods: 1000},
}})

func TestMain(m *testing.M) { os.Exit(kit.Main(m, "4", sites)) }
