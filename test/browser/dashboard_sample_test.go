//go:build browser

package browser

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/cli/audit"
	"supercargo.dev/supercargo/cli/status"
	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/internal/text/dollars"
)

// machine is a type of the sample's nodes.
type machine struct {
	name        string
	cpu, memory int64 // thousandths of a core, GiB
	price       int64 // micro-dollars per hour
}

var machines = []machine{{"m5.large", 1930, 7, 96_000}, {"m5.xlarge", 3920, 14, 192_000}, {"m5.2xlarge", 7910, 29, 384_000}, {"c5.2xlarge", 7910, 14, 340_000}}

// sampleCluster makes a cluster of n nodes: services and batch pods that end at different times, some pending
// pods, and objects of each kind. The same arguments produce the same cluster.
func sampleCluster(n int, now time.Time) *status.Snapshot {
	random := rand.New(rand.NewPCG(7, uint64(n)))
	s := &status.Snapshot{Prices: map[string]status.Price{}, Cycle: 5 * time.Minute}
	for i := range n {
		m := machines[random.IntN(len(machines))]
		node := sampleNode(fmt.Sprintf("node-%d", i), m, now.Add(-time.Duration(random.IntN(100000))*time.Second))
		node.Labels[corev1.LabelTopologyZone] = "us-east-1" + string(rune('a'+i%3))
		node.Labels["karpenter.sh/capacity-type"] = "on-demand"
		if i == 3 {
			node.Labels["karpenter.sh/capacity-type"] = "spot"
		}
		if i%4 == 3 {
			delete(node.Labels, v1alpha1.LabelFleet)
			node.Labels["eks.amazonaws.com/nodegroup"] = "managed"
		}
		s.Nodes = append(s.Nodes, node)
		s.Prices[node.Name] = status.Price{MicroDollarsPerHour: m.price}
		left := m.cpu - int64(random.IntN(int(m.cpu)/2))
		for j := 0; left > 0; j++ {
			cpu := min(left, int64(random.IntN(9)+1)*100)
			left -= cpu
			s.Pods = append(s.Pods, samplePod(fmt.Sprintf("%s-%d", node.Name, j), node.Name, cpu, i%3 != 0, now, random))
		}
	}
	addTrouble(s, now)
	addObjects(s, now)
	return s
}

func sampleNode(name string, m machine, created time.Time) *corev1.Node {
	o := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(created), Labels: map[string]string{
		corev1.LabelInstanceTypeStable: m.name, v1alpha1.LabelFleet: "general",
	}}}
	o.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(m.cpu, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(m.memory<<30, resource.BinarySI)}
	o.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return o
}

func samplePod(name, node string, cpu int64, batch bool, now time.Time, random *rand.Rand) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-" + name, CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)), Annotations: map[string]string{}}}
	if batch {
		p.Namespace, p.Name = "jobs", "render-"+name
		p.Labels = map[string]string{v1alpha1.LabelClass: "batch"}
		p.Annotations[v1alpha1.AnnotationExpectedFinish] = runtimes.Format(now.Add(time.Duration(random.IntN(40*60)+10) * time.Second))
	}
	p.Spec.NodeName, p.Status.Phase = node, corev1.PodRunning
	p.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewMilliQuantity(cpu, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(cpu<<20*3, resource.BinarySI),
	}}}}
	return p
}

// addTrouble adds a node that is being drained, one that is not ready, one without a price, and pending pods.
func addTrouble(s *status.Snapshot, now time.Time) {
	s.Nodes[1].Annotations = map[string]string{v1alpha1.AnnotationDraining: "general/" + now.Format(time.RFC3339)}
	s.Nodes[1].Spec.Unschedulable = true
	s.Nodes[2].Status.Conditions[0].Status = corev1.ConditionFalse
	s.Prices["node-3"] = status.Price{Unpriced: "it is a spot machine, whose price changes"}
	random := rand.New(rand.NewPCG(1, 1))
	for i := range 14 {
		p := samplePod(fmt.Sprintf("waits-%d", i), "", 4000, true, now.Add(-90*time.Second), random)
		p.Status.Phase = corev1.PodPending
		message := fmt.Sprintf("0/%d nodes are available: 2 node(s) were unschedulable, %d Insufficient cpu.", len(s.Nodes), len(s.Nodes)-2)
		if i > 11 {
			message = fmt.Sprintf("0/%d nodes are available: %d node(s) didn't match Pod's node affinity/selector.", len(s.Nodes), len(s.Nodes))
		}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: message}}
		s.Pods = append(s.Pods, p)
	}
}

// addObjects adds one of each kind of Supercargo, and an audit.
func addObjects(s *status.Snapshot, now time.Time) {
	ago := func(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }
	took := func(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }
	s.Audit = auditOf(s, now)
	s.Fleets = []*v1alpha1.NodeFleet{{
		ObjectMeta: metav1.ObjectMeta{Name: "general"}, Spec: v1alpha1.NodeFleetSpec{Class: v1alpha1.FleetAny, Mode: v1alpha1.FleetAct},
		Status: v1alpha1.NodeFleetStatus{
			ObservedGeneration: 1,
			Machines:           24, InFlight: 2, PendingPods: 12, Cost: v1alpha1.FleetCost{DollarsPerHour: "6.23", LowerBoundDollarsPerHour: "4.71"},
			Intent:     &v1alpha1.FleetIntent{ID: "7", Time: ago(30 * time.Second), Orders: []v1alpha1.FleetOrder{{Flavor: "m5.2xlarge", From: 4, To: 6}}},
			Conditions: []metav1.Condition{{Type: v1alpha1.FleetReady, Status: metav1.ConditionTrue}, {Type: v1alpha1.FleetLimited, Status: metav1.ConditionTrue, Reason: "MachineLimit", Message: "2 pods wait because spec.limits.machines is 26"}},
			LastDecision: &v1alpha1.FleetDecision{
				ID: "7", Time: ago(31 * time.Second), Mode: v1alpha1.FleetAct, Summary: "buy 2 m5.2xlarge for 12 pods", PricePerHour: "0.768", LowerBoundPerHour: "0.71",
				Buys:     []v1alpha1.DecidedPurchase{{Flavor: "m5.2xlarge", Count: 2, Pods: 12, Reason: "cheapest until it is empty again", PricePerHour: "0.384", StartSeconds: 95, BilledSeconds: 3600, DollarsUntilEmpty: "0.384"}},
				Rejected: []v1alpha1.Rejection{{Name: "c5.2xlarge", Reason: "memory for 7 of the 12 pods only"}},
				Expected: v1alpha1.Outcome{DollarsPerHour: "6.998", ReadySeconds: 95, PendingPods: 2},
			},
		},
	}}
	s.Migrations = []*v1alpha1.Migration{sampleMigration("render-node-1-0", now, v1alpha1.MigrationMoving, 3), sampleMigration("render-node-9-2", now.Add(-10*time.Minute), v1alpha1.MigrationSucceeded, 7), sampleMigration("render-node-8-1", now.Add(-12*time.Minute), v1alpha1.MigrationRolledBack, 3)}
	seen := v1alpha1.ReplicaObservation{Time: ago(8 * time.Second), ArrivalRate: "248.3", ResponseTime: took(212 * time.Millisecond), QueueLength: "52.6", UtilizationPercent: "81", SpecReplicas: 9, ReadyReplicas: 9}
	s.Policies = []*v1alpha1.ReplicaPolicy{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: v1alpha1.ReplicaPolicySpec{Target: v1alpha1.ReplicaTarget{Kind: "Deployment", Name: "web"}, Mode: v1alpha1.ReplicasAct, MinReplicas: 2, MaxReplicas: 40, Law: v1alpha1.ReplicaLawSpec{Name: v1alpha1.LawPredictive},
			SLO: &v1alpha1.ServiceLevel{ResponseTime: *took(200 * time.Millisecond)}},
		Status: v1alpha1.ReplicaPolicyStatus{ObservedGeneration: 1, DesiredReplicas: 11, SpecReplicas: 11, Replicas: 11, ReadyReplicas: 9, LastObservation: &seen, LastDecision: &v1alpha1.ReplicaDecision{
			Time: ago(9 * time.Second), Mode: v1alpha1.ReplicasAct, From: 9, To: 11, Observation: seen,
			Reasons:  []string{"the forecast of 262 requests per second needs 11 replicas to answer within 200ms", "the line is 1.4 times as long as the model expects"},
			Expected: v1alpha1.ReplicaOutcome{ArrivalRate: "262", ResponseTime: took(160 * time.Millisecond), UtilizationPercent: "71", ReadySeconds: 6},
		}},
	}}
	s.Pools = []*v1alpha1.WorkerPool{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "genomics", Name: "blast"}, Spec: v1alpha1.WorkerPoolSpec{Mode: v1alpha1.WorkerPoolAct, Limits: v1alpha1.WorkerLimits{Max: 20}},
		Status: v1alpha1.WorkerPoolStatus{ObservedGeneration: 1, Phase: "Runtime", ShortageCores: "36", Queue: &v1alpha1.WorkQueueStatus{Waiting: 36, Running: 24, Done: 310}, Workers: v1alpha1.WorkerCounts{Pods: 9, Connected: 6, Starting: 3}},
	}}
	s.Events = []*eventsv1.Event{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "e1"}, EventTime: metav1.NewMicroTime(now.Add(-4 * time.Minute)), Type: corev1.EventTypeWarning,
		Reason: "MachineAbandoned", Note: "a machine of c5.2xlarge had no ready node after 15m0s and is abandoned", Regarding: corev1.ObjectReference{Kind: "NodeFleet", Name: "general"},
	}}
	s.Decisions = []status.Decision{{
		Key: "NodeFleet/general/6", At: now.Add(-16 * time.Minute).UnixMilli(), Object: "NodeFleet general", Mode: "Act", Summary: "release 1 machine that is empty",
		Terms: []string{"release node-31: it is empty, and its billing period ends in 12s"}, Outcomes: []status.Outcome{{Name: "dollars per hour", Expected: "$6.23", Measured: "$6.23"}, {Name: "pods still pending", Expected: "0", Measured: "0"}},
	}}
}

// auditOf returns an audit of the nodes and their pods. Moves free one machine in twelve, and others for the pods are
// loaded to 96 %.
func auditOf(s *status.Snapshot, now time.Time) *status.Audit {
	var requested int64
	for _, p := range s.Pods {
		if p.Spec.NodeName != "" {
			requested += p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
		}
	}
	var current, moved []machine
	for i, n := range s.Nodes {
		if s.Prices[n.Name].Unpriced != "" {
			continue
		}
		m := machines[slices.IndexFunc(machines, func(m machine) bool { return m.name == n.Labels[corev1.LabelInstanceTypeStable] })]
		if current = append(current, m); i%12 != 1 {
			moved = append(moved, m)
		}
	}
	large := machines[2]
	same := slices.Repeat([]machine{large}, int(requested*100/96/large.cpu)+1)
	cheap := slices.Clone(same)
	for i := range len(cheap) * 2 / 3 {
		cheap[i] = machines[3]
	}
	a := &status.Audit{At: now.Add(-20 * time.Second).Unix(), Sizes: map[string]int64{}, Result: &audit.Result{
		Source: "list prices of aws in us-east-1", Notes: []string{"14 pods have no node and are not included in any figure."}, MilliCPU: requested, Now: billOf(current), Moved: billOf(moved), Homogeneous: new(billOf(same)), Cheapest: billOf(cheap),
	}}
	for _, m := range machines {
		a.Sizes[m.name] = m.cpu
	}
	a.Result.Bound = a.Result.Cheapest.PerHour * 94 / 100
	return a
}

func billOf(all []machine) (b audit.Bill) {
	count := map[string]int{}
	for _, m := range all {
		b.PerHour += dollars.Amount(m.price)
		b.MilliCPU += m.cpu
		count[m.name]++
	}
	for _, kind := range slices.Sorted(maps.Keys(count)) {
		b.Machines = append(b.Machines, audit.Count{InstanceType: kind, Count: count[kind]})
	}
	b.Nodes, b.PerMonth = len(all), audit.HoursPerMonth*b.PerHour
	return b
}

func sampleMigration(pod string, created time.Time, phase v1alpha1.MigrationPhase, done int) *v1alpha1.Migration {
	o := &v1alpha1.Migration{
		ObjectMeta: metav1.ObjectMeta{Namespace: "jobs", Name: pod + "-m", CreationTimestamp: metav1.NewTime(created)}, Spec: v1alpha1.MigrationSpec{PodName: pod},
		Status: v1alpha1.MigrationStatus{Phase: phase, Plan: &v1alpha1.MigrationPlan{SourceNode: "node-1"}, Reservation: &v1alpha1.MigrationReservation{Node: "node-5"}},
	}
	for i, name := range []string{v1alpha1.MigrationEligible, v1alpha1.MigrationReserved, v1alpha1.MigrationFrozen, v1alpha1.MigrationShipped, v1alpha1.MigrationVerified, v1alpha1.MigrationHandedOver, v1alpha1.MigrationCleanedUp} {
		if i < done {
			o.Status.Conditions = append(o.Status.Conditions, metav1.Condition{Type: name, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(created.Add(time.Duration(i) * time.Second)), Message: "step " + name + " is done"})
		}
	}
	if phase == v1alpha1.MigrationSucceeded {
		o.Status.Measured = &v1alpha1.MigrationMeasured{FrozenSeconds: "1.204", TotalSeconds: "9.8", CheckpointBytes: 412 << 20}
	}
	return o
}
