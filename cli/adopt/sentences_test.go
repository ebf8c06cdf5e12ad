package adopt

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"supercargo.dev/supercargo/autoscaler/fleet/pricelist"
	"supercargo.dev/supercargo/test/kit/sentences"
)

// saidOf is everything that an adoption says.
func saidOf(t *testing.T, s *Source, around Around) string {
	t.Helper()
	d, err := Convert(s, &around)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := d.Write(&b); err != nil {
		t.Fatal(err)
	}
	for _, n := range d.Notes {
		fmt.Fprintf(&b, "%s | %s | %s | %s | %s\n", n.Object, n.Field, n.Value, n.Difference, n.Action)
	}
	for _, s := range append(d.Steps, d.Back...) {
		fmt.Fprintf(&b, "%s\n%s\n", s.Text, strings.Join(s.Commands, "\n"))
	}
	return b.String()
}

// TestEachSentenceIsPrintedOnlyWhereItIsTrue has each sentence with objects of which it is true, and with similar ones of
// which it is not.
func TestEachSentenceIsPrintedOnlyWhereItIsTrue(t *testing.T) {
	prices := Around{Prices: pricelist.Read}
	pools := func(around Around, all ...map[string]any) string {
		s := &Source{OtherPools: nil}
		for _, p := range all {
			s.Pools = append(s.Pools, Object{Where: "p", Fields: p})
		}
		return saidOf(t, s, around)
	}
	// Nothing is different about this NodePool.
	const quiet = `disruption: {consolidationPolicy: WhenEmpty}
template: {spec: {requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m7i.large]}]}}
`
	plain := pools(prices, aPool(quiet))
	pool := func(spec string) string {
		p := aPool(quiet)
		merge(p["spec"].(map[string]any), aPool(spec)["spec"].(map[string]any))
		return pools(prices, p)
	}
	requiring := func(texts ...string) string { return pool(requires(texts...)) }
	cases := groupsSaid(t)
	add := func(is, not string, texts ...string) {
		for _, text := range texts {
			cases = append(cases, sentences.Case{text, is, not})
		}
	}
	add(plain, "", "How to go over, without buying twice and without losing a pod:", "How to go back:")
	poolStepsSaid(t, plain, add)
	requirementsSaid(plain, requiring, pool, add)
	zonesSaid(pools, add)

	add(pool("{disruption: {consolidationPolicy: Balanced}}"), plain,
		"A fleet compares savings with the cost of moving pods, but not by Karpenter's score.", "Nothing, or change consolidation.horizon: savings after it do not count.",
		"Karpenter evicts pods of Jobs when it consolidates. A fleet moves or evicts batch pods only if they have an annotation that allows it.")
	add(pool("{disruption: {consolidateAfter: 9999h}}"), pool("{disruption: {consolidateAfter: 8784h}}"), "The maximum of a fleet is 8784h.", "Nothing, or set consolidation.policy to Never.")
	add(pool("{disruption: {budgets: [{nodes: '1', reasons: [Haunted, Empty]}]}}"), plain, "A fleet replaces no machines for this reason.")
	add(pool("{disruption: {budgets: [{nodes: '1'}, {nodes: 10%}]}}"), plain, "A fleet has one maximum, either a number or a percentage. This is the stricter one of %d nodes.", "Nothing, or change consolidation.maxUnavailable.")

	add(pool(`{template: {metadata: {annotations: {a: b}}}}`), plain, "A fleet sets no annotations on nodes.", "Use a label, or set the annotation by a controller of your own.", "What is different:")
	add(pool(`{template: {metadata: {annotations: {karpenter.sh/do-not-disrupt: "true"}}}}`), pool(`{template: {metadata: {annotations: {a: b}}}}`), "A fleet sets no annotations on nodes. Its consolidation.policy is Never instead.")
	add(pool(`{template: {metadata: {labels: {supercargo.dev/fleet: a}}}}`), pool(`{template: {metadata: {labels: {supercargo.dev/class: batch}}}}`), "The fleet sets this label itself.")
	labels, taints := "", ""
	for i := range mostLabels + 1 {
		labels += fmt.Sprintf("label-%d: a, ", i)
		taints += fmt.Sprintf("{key: taint-%d, effect: NoSchedule}, ", i)
	}
	add(pool("{template: {metadata: {labels: {"+labels+"}}}}"), plain, "A fleet has at most %d labels, and this one is left out.", "Remove another label.")
	add(pool("{template: {spec: {taints: ["+taints+"]}}}"), plain, "A fleet has at most %d taints. The others are left out, and the fleet buys nothing (limits.machines: 0).", "Use fewer taints, then remove limits.machines.")
	add(pool("{limits: {nvidia.com/gpu: 2}}"), pool("{limits: {cpu: 2, memory: 1Gi, nodes: 3}}"), "A fleet limits machines, cpu, memory and dollarsPerHour.", "Limit one of these instead, in spec.limits of the fleet.")
	add(pool("{limits: {nodes: 100001}}"), pool("{limits: {nodes: 100000}}"), "A fleet has at most %d machines, which is less.")
	add(pool("{weight: 3}"), plain, "Fleets have no priorities: if several can buy for a pod, the first one that decides does, and the price decides within a fleet.",
		"Merge NodePools for the same pods into one fleet, or separate them by taints or labels.")
	add(pool("{replicas: 3}"), plain, "A fleet buys machines for pods, and has no fixed number of machines.", "Keep this NodePool. No NodeFleet is printed for it.", "Without a NodeFleet:")
	add(pool("{novelty: 3}"), plain, "This field is not known to this version of Supercargo, and is left out.", "Find out from Karpenter's documentation whether it matters for your pods.")

	exempt := map[string]string{
		"    To do: ":      "it stands before each action",
		": there are ":     "it is part of an error",
		" with the zones.": "it ends a sentence",
	}
	sentences.Check(t, []string{"*.go"}, cases, exempt)
}

// poolStepsSaid are the steps from NodePools and back.
func poolStepsSaid(t *testing.T, plain string, add func(is, not string, texts ...string)) {
	machines := saidOf(t, &Source{Groups: []Object{aGroup(DeploymentKind, "a", sizes+", "+priced)}}, Around{})
	add(plain, machines,
		"Install the autoscaler with the permissions for NodeClaims (docs/karpenter.md).",
		"Apply the NodeFleets. In mode Observe they buy nothing. Compare what they would buy with what Karpenter buys, for some days.",
		"Keep Karpenter from buying. Its nodes stay. Pods that come now wait until the fleet acts.",
		`kubectl patch nodepool %s --type merge -p '{"spec":{"limits":{"cpu":"0"}}}'`,
		"Wait until the nodes that Karpenter has ordered are ready, because the fleet would buy for their pods too. \"no matching resources found\" is fine.",
		"kubectl wait nodeclaims -l karpenter.sh/nodepool=%s --for condition=Initialized --timeout 15m",
		"Move the pods when it suits you. Delete the NodeClaims of the NodePool one by one: Karpenter drains the node, respects PodDisruptionBudgets until terminationGracePeriod, if that is set, and the fleet buys for the pods. ",
		"Pods of Jobs start over: to let them end first, cordon the node instead, and Karpenter removes it when it is empty.",
		"kubectl get nodeclaims -l karpenter.sh/nodepool=%s",
		"When no NodeClaim of the NodePool is left, delete it. Deleting it before deletes its nodes.", "kubectl delete nodepool ",
		"Keep the fleets from buying. Their nodes stay.",
		"Wait until the nodes that they have ordered are ready.", "kubectl wait nodeclaims -l supercargo.dev/fleet=%s --for condition=Initialized --timeout 15m",
		"Let Karpenter buy again, or apply your NodePool if you have deleted it.", "kubectl patch nodepool %s --type merge -p '{\"spec\":{\"limits\":{\"cpu\":%s}}}'",
		"Move the pods: delete the NodeClaims of the fleet one by one.", "kubectl get nodeclaims -l supercargo.dev/fleet=%s",
		"When no NodeClaim of the fleet is left, delete it.", "kubectl delete nodefleet ")
	beside := saidOf(t, &Source{Pools: []Object{{Fields: aPool("{}")}}, OtherPools: []string{"other"}}, Around{})
	add(beside, plain, " These NodePools may still buy for the same pods: adopt them together, or separate them by a taint: ")
	add(machines, plain,
		"Install the autoscaler (docs/nodefleet.md).",
		"Apply the NodeFleets. In mode Observe they buy nothing. Compare what they would buy with what cluster-autoscaler buys, for some days.",
		"Stop cluster-autoscaler. Machines that it has ordered still come, and the fleet counts them.",
		"kubectl -n kube-system scale deployment cluster-autoscaler --replicas ",
		"Keep the fleets from buying. MachineDeployments and machines do not change.", "Start cluster-autoscaler.")
	add(machines, "", "Let the fleets act.", "supercargo explain nodefleet/", `kubectl patch nodefleet %s --type merge -p '{"spec":{"mode":%q}}'`)
}

// requirementsSaid are the sentences about requirements, except for those about zones.
func requirementsSaid(plain string, requiring func(...string) string, pool func(string) string, add func(is, not string, texts ...string)) {
	const p = "karpenter.k8s.aws/instance-"
	add(requiring("example.com/a In x", "example.com/a In y"), requiring("example.com/a In x"),
		"No value of this label fulfils all requirements, so Karpenter launches nothing. The fleet buys nothing either (limits.machines: 0).", "Correct the requirements.")
	add(requiring("example.com/a Gt 2", "example.com/a Lt 500"), requiring("example.com/a Gt 2", "example.com/a Lt 5"),
		"A fleet has one requirement for each label, with at most %d values, and at most %d requirements. This one is left out, and the fleet buys nothing (limits.machines: 0).",
		"Express the requirement in instanceTypes or in fewer requirements, then remove limits.machines.")
	add(requiring("example.com/a In x,y"), requiring("example.com/a In x"), "Karpenter sets this label to what a pod requires. A fleet buys nothing for pods that require a value of it.",
		"Create a fleet for each value, with the value in spec.karpenter.labels.")
	add(requiring(p+"memory Gt 8191"), requiring(p+"cpu Lt 32"), "The fleet does not know which instance types fulfil this requirement. Karpenter fails to launch the others, and the fleet then buys another type.",
		"List the instance types that fulfil it in instanceTypes.")
	add(pool("{template: {spec: {requirements: [{key: a, operator: In, values: [b], minValues: 1}]}}}"), requiring("a In b"),
		"Each NodeClaim of a fleet is for one instance type. If the cloud has none left, the fleet buys another type, and that one again after scaling.backOff.")
	add(requiring(p+"family In none"), plain, "No instance type with a price fulfils the requirements. The fleet buys nothing (limits.machines: 0).", "Set instanceTypes and prices, then remove limits.machines. ",
		"Write a CSV file with the columns name,cpu,memory_gib,price_per_hour and run: kubectl create configmap ")
	add(requiring("kubernetes.io/os In windows"), requiring("kubernetes.io/os In linux"), "The list has prices of Linux machines.", "Use prices of Windows machines. ")
}

// zonesSaid are the sentences about zones, regions, prices, capacity types and architectures.
func zonesSaid(pools func(Around, ...map[string]any) string, add func(is, not string, texts ...string)) {
	zone := corev1Zone
	none, nodes := pools(Around{}, withoutZones()), pools(Around{Zones: []string{"us-east-1a"}}, withoutZones())
	class := pools(Around{ClassZones: map[string][]string{"EC2NodeClass/default": {"us-east-1a"}}}, withoutZones())
	add(none, nodes, "The NodePool lists no zones, and they are not known. The fleet buys nothing for pods that require a zone.", "Add a requirement on ")
	add(nodes, none, "The NodePool lists no zones. A fleet buys for pods that require a zone only in zones that it lists: these are ", "Check the values of ")
	add(nodes, class, "the zones in which the cluster has nodes")
	add(class, nodes, "the zones of its NodeClass")
	add(pools(Around{}, withoutZones(zone+" NotIn a")), none, "A fleet lists zones and cannot exclude any, and the zones are not known. The fleet buys nothing (limits.machines: 0).", "Add a requirement with the zones, then remove limits.machines.")
	var many []string
	for i := range mostValues + 1 {
		many = append(many, fmt.Sprintf("zone-%d", i))
	}
	add(pools(Around{}, withoutZones(zone+" In "+strings.Join(many, ","))), pools(Around{}, withoutZones(zone+" In "+strings.Join(many[1:], ","))),
		"A requirement of a fleet has at most %d values, and the others are left out.", "Nothing, or split the NodeFleet in two.")

	prices := func(region string, pool map[string]any) string {
		return pools(Around{Region: region, Prices: pricelist.Read}, pool)
	}
	here := prices("us-east-1", aPool("{}"))
	add(prices("", withoutZones()), here, "The region is not known, so no list prices are used.", "Add --region, or write prices. ")
	add(prices("eu-west-1", aPool("{}")), here, "No list prices of region %s are included.")
	add(prices("us-east-1", aPool("{template: {spec: {nodeClassRef: {group: karpenter.kwok.sh}}}}")), here, "No list prices of this provider are included.")
	sold := func(values ...string) map[string]any {
		p := aPool("{}")
		all := p["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)["requirements"].([]any)
		all[1].(map[string]any)["values"] = values
		return p
	}
	spot, mixed := prices("us-east-1", sold("spot")), prices("us-east-1", sold("spot", "on-demand"))
	add(spot, here, "The list has prices of on-demand machines. The fleet buys no %s machines without a price.")
	add(spot, mixed, "Add rows such as m7i.large/spot. ")
	add(mixed, spot, "Nothing, or set spec.pricing.catalogue and add rows such as m7i.large/spot. ")

	without := func(at int) map[string]any {
		p := aPool("{}")
		spec := p["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
		all := spec["requirements"].([]any)
		spec["requirements"] = append(all[:at:at], all[at+1:]...)
		return p
	}
	anyCapacity, anyArch := prices("us-east-1", without(1)), prices("us-east-1", without(2))
	add(anyCapacity, here, "A NodePool without a requirement on ", " launches machines of every capacity type. The fleet buys only on-demand machines.",
		"Nothing, or add the requirement with the values on-demand and spot, and prices of spot machines.")
	add(anyArch, here, " launches machines of every architecture. The fleet buys only amd64.", "Nothing, or add the requirement with the values amd64 and arm64, if your images exist for both.")

	missing := prices("us-east-1", aPool(requires("node.kubernetes.io/instance-type In m7i.large,x9.huge")))
	add(missing, here, "The list has no price of these instance types, and the fleet does not buy them.", "Nothing, or add them to a catalogue and to instanceTypes. ")
	add(here, missing, "The requirements also allow %d instance types that are burstable or have GPUs or other accelerators. The fleet buys these only if instanceTypes names them.", "Nothing, or name them in instanceTypes.")
	add(pools(Around{}, aPool(requires("node.kubernetes.io/instance-type In a,_b"))), pools(Around{}, aPool(requires("node.kubernetes.io/instance-type In a,b"))),
		"A fleet names at most %d instance types, each with at most %d letters, digits, '.', '_', '-' and '/'. %d are left out.", "Check instanceTypes.")
}

const corev1Zone = "topology.kubernetes.io/zone"

// groupsSaid are the sentences about MachineDeployments.
func groupsSaid(t *testing.T) (cases []sentences.Case) {
	machines := func(all ...Object) string { return saidOf(t, &Source{Groups: all}, Around{}) }
	one := func(annotations string) string { return machines(aGroup(DeploymentKind, "a", annotations)) }
	plain := one(sizes + ", " + priced)
	pool := saidOf(t, &Source{Pools: []Object{{Fields: aPool("{}")}}}, Around{})
	add := func(is, not string, texts ...string) {
		for _, text := range texts {
			cases = append(cases, sentences.Case{text, is, not})
		}
	}
	add(plain, pool, "options of cluster-autoscaler", "eviction of pods", " of Cluster ",
		"They are not read. consolidation.after and thresholdPercent have the defaults of --scale-down-unneeded-time and --scale-down-utilization-threshold.",
		"Compare --scale-down-*, --max-node-provision-time, --max-nodes-total, --cores-total and --memory-total with consolidation, scaling and limits of the fleet.",
		"cluster-autoscaler evicts pods of Jobs when it removes a node. A fleet moves or evicts batch pods only if they have an annotation that allows it.")
	add(plain, "", "Set the annotation supercargo.dev/migration to checkpoint or restart on batch pods that may be moved.")
	add(one(sizes), plain, "A fleet does not buy machines without a price.", "kubectl annotate machinedeployment -n %s %s %s=DOLLARS")
	add(one(sizes+", supercargo.dev/price-per-hour: x"), plain, "This is not a price in dollars per hour, and the fleet buys none of this MachineDeployment.")
	add(one(strings.Replace(sizes, "'9'", "x", 1)), plain, "This is not a number of machines, and the fleet buys none of this MachineDeployment.", "Correct the annotation.")
	add(one(sizes+", capacity.cluster-autoscaler.kubernetes.io/dra-driver: gpu.nvidia.com"), plain, "A fleet ignores this annotation.", "Nothing, or see docs/nodefleet.md for what a fleet knows about the machines.")
	set := machines(aGroup(DeploymentKind, "a", sizes), aGroup(SetKind, "b", sizes))
	add(set, plain, "A fleet scales MachineDeployments, but no %ss.", "Create a MachineDeployment with the same templates, or keep cluster-autoscaler for it.")
	add(machines(aGroup(DeploymentKind, "a", sizes), aGroup(DeploymentKind, "b", "")), plain, ", cluster-autoscaler does not scale it. The fleet does not name it.",
		"Nothing, or add it to clusterAPI.names. Without the annotation, a fleet buys any number of its machines.")
	return cases
}
