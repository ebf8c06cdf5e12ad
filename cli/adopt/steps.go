package adopt

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// poolSteps returns the steps from NodePools to fleets and back. others are NodePools that stay.
//
// The order matters: a NodePool that may still buy would buy for the pods that leave its nodes, and a fleet does not
// know the machines that Karpenter is about to launch.
func poolSteps(pools []*pool, others []string) (steps, back []Step) {
	var stop, started, act, move, remove, observe, fleetStarted, restore, moveBack, removeFleet []string
	for _, p := range pools {
		name := p.Metadata.Name
		stop = append(stop, fmt.Sprintf(`kubectl patch nodepool %s --type merge -p '{"spec":{"limits":{"cpu":"0"}}}'`, name))
		started = append(started, fmt.Sprintf("kubectl wait nodeclaims -l karpenter.sh/nodepool=%s --for condition=Initialized --timeout 15m", name))
		act = append(act, modeCommand(name, "Act"))
		move = append(move, fmt.Sprintf("kubectl get nodeclaims -l karpenter.sh/nodepool=%s", name))
		remove = append(remove, "kubectl delete nodepool "+name)
		observe = append(observe, modeCommand(name, "Observe"))
		fleetStarted = append(fleetStarted, fmt.Sprintf("kubectl wait nodeclaims -l supercargo.dev/fleet=%s --for condition=Initialized --timeout 15m", name))
		restore = append(restore, fmt.Sprintf(`kubectl patch nodepool %s --type merge -p '{"spec":{"limits":{"cpu":%s}}}'`, name, cpuLimit(p)))
		moveBack = append(moveBack, fmt.Sprintf("kubectl get nodeclaims -l supercargo.dev/fleet=%s", name))
		removeFleet = append(removeFleet, "kubectl delete nodefleet "+name)
	}
	steps = []Step{
		{"Install the autoscaler with the permissions for NodeClaims (docs/karpenter.md).", nil},
		{"Apply the NodeFleets. In mode Observe they buy nothing. Compare what they would buy with what Karpenter buys, for some days.", explainCommands(pools)},
		{"Keep Karpenter from buying. Its nodes stay. Pods that come now wait until the fleet acts.", stop},
		{"Wait until the nodes that Karpenter has ordered are ready, because the fleet would buy for their pods too. \"no matching resources found\" is fine.", started},
		{"Let the fleets act.", act},
		{"Move the pods when it suits you. Delete the NodeClaims of the NodePool one by one: Karpenter drains the node, respects PodDisruptionBudgets until terminationGracePeriod, if that is set, and the fleet buys for the pods. " +
			"Pods of Jobs start over: to let them end first, cordon the node instead, and Karpenter removes it when it is empty.", move},
		{"When no NodeClaim of the NodePool is left, delete it. Deleting it before deletes its nodes.", remove},
	}
	if len(others) > 0 {
		steps[2].Text += " These NodePools may still buy for the same pods: adopt them together, or separate them by a taint: " + strings.Join(others, ", ") + "."
	}
	back = []Step{
		{"Keep the fleets from buying. Their nodes stay.", observe},
		{"Wait until the nodes that they have ordered are ready.", fleetStarted},
		{"Let Karpenter buy again, or apply your NodePool if you have deleted it.", restore},
		{"Move the pods: delete the NodeClaims of the fleet one by one.", moveBack},
		{"When no NodeClaim of the fleet is left, delete it.", removeFleet},
	}
	return steps, back
}

func explainCommands(pools []*pool) (all []string) {
	for _, p := range pools {
		all = append(all, "supercargo explain nodefleet/"+p.Metadata.Name)
	}
	return all
}

func modeCommand(fleet, mode string) string {
	return fmt.Sprintf(`kubectl patch nodefleet %s --type merge -p '{"spec":{"mode":%q}}'`, fleet, mode)
}

// cpuLimit returns the limit of CPU of a NodePool as JSON.
func cpuLimit(p *pool) string {
	q, is := p.Spec.Limits["cpu"]
	if !is {
		return "null"
	}
	return quoted(q)
}

func quoted(q resource.Quantity) string {
	text, err := json.Marshal(q)
	if err != nil {
		return "null" // which cannot happen
	}
	return string(text)
}

// deploymentSteps returns the steps from cluster-autoscaler to fleets of MachineDeployments and back.
func deploymentSteps(fleets []string) (steps, back []Step) {
	var explain, act, observe []string
	for _, name := range fleets {
		explain = append(explain, "supercargo explain nodefleet/"+name)
		act = append(act, modeCommand(name, "Act"))
		observe = append(observe, modeCommand(name, "Observe"))
	}
	const scale = "kubectl -n kube-system scale deployment cluster-autoscaler --replicas "
	steps = []Step{
		{"Install the autoscaler (docs/nodefleet.md).", nil},
		{"Apply the NodeFleets. In mode Observe they buy nothing. Compare what they would buy with what cluster-autoscaler buys, for some days.", explain},
		{"Stop cluster-autoscaler. Machines that it has ordered still come, and the fleet counts them.", []string{scale + "0"}},
		{"Let the fleets act.", act},
	}
	back = []Step{
		{"Keep the fleets from buying. MachineDeployments and machines do not change.", observe},
		{"Start cluster-autoscaler.", []string{scale + "1"}},
	}
	return steps, back
}
