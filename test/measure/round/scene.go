package round

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/pricelist"
	"supercargo.dev/supercargo/internal/drain"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/test/measure/fleetsite"
)

// change is what differs between the cases.
type change struct {
	// used is the mean share of the nodes that pods request.
	used float64
	// changed is the share of pods that are replaced before the measured round.
	changed float64
	// pending is the number of pods that become unschedulable before the measured round.
	pending int
	// spread gives the pods of services topology spread constraints.
	spread bool
	// draining is the number of nodes that the fleet drains.
	draining int
}

// cases are the cases by name. Without anything else, nothing changes.
var cases = map[string]change{
	"quiet":      {used: full},
	"changed":    {used: full, changed: 0.01},
	"burst":      {used: full, pending: 3000},
	"spread":     {used: full, pending: 300, spread: true},
	"drains":     {used: 0.9, draining: 50},
	"under-used": {used: 0.25},
}

// full is so much that no node could be emptied.
const full = 0.98

// caseNames are the names of the cases in the order of the table.
func caseNames() []string {
	return []string{"quiet", "changed", "burst", "spread", "drains", "under-used"}
}

// podsPerNode is the number of pods on a node without those of DaemonSets, replicas that of a Deployment or Job.
const (
	podsPerNode = 20
	replicas    = 100
)

var zones = []string{"us-east-1a", "us-east-1b", "us-east-1c"}

// scene makes the objects of a cluster. The same arguments make the same cluster.
type scene struct {
	api     *fleetsite.Server
	random  *rand.Rand
	now     time.Time
	nodes   int
	flavors []catalogue.Flavor
	// models are the flavors of the existing machines, one in each zone.
	models []catalogue.Flavor
	kinds  []kind
	spread bool
	made   int // number of pods
}

// kind is a Deployment or a Job.
type kind struct {
	name       string
	batch      bool
	milli, mib int64
}

func newScene(api *fleetsite.Server, nodes, flavors int, c change, now time.Time) (*scene, error) {
	all, err := pricelist.Read("aws", "us-east-1")
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(slices.Clone(all), func(f catalogue.Flavor) bool { // what a fleet buys by default, of one architecture
		return f.Arch != "amd64" || f.Kind != "" || strings.Contains(f.Name, "metal")
	})
	if flavors <= len(zones) || flavors > len(all) {
		return nil, fmt.Errorf("--flavors %d: must be more than %d, and at most %d, which the price list has", flavors, len(zones), len(all))
	}
	s := &scene{api: api, random: rand.New(rand.NewPCG(1, 0)), now: now.Truncate(time.Second), nodes: nodes, spread: c.spread}
	s.choose(all, flavors)
	s.chooseKinds(c.used)
	return s, s.build(c)
}

// zone returns the zone of the machines of a flavor.
func (s *scene) zone(flavor string) string {
	named := func(f catalogue.Flavor) bool { return f.Name == flavor }
	if at := slices.IndexFunc(s.models, named); at >= 0 {
		return zones[at]
	}
	return zones[slices.IndexFunc(s.flavors, named)%len(zones)]
}

// choose chooses the flavors evenly from all. The existing machines, in each zone of another flavor, are the cheapest of
// 8 CPUs and 32 GiB, so that only much waste makes an exchange worth its price.
func (s *scene) choose(all []catalogue.Flavor, n int) {
	fit := slices.DeleteFunc(slices.Clone(all), func(f catalogue.Flavor) bool {
		return f.Size.MilliCPU < 7000 || f.Size.MilliCPU > 8000 || f.Size.MemoryBytes < 26<<30
	})
	slices.SortStableFunc(fit, func(a, b catalogue.Flavor) int { return cmp.Compare(a.MicroDollarsPerHour, b.MicroDollarsPerHour) })
	s.models = fit[:len(zones)]
	is := func(f catalogue.Flavor) bool {
		return slices.ContainsFunc(s.models, func(m catalogue.Flavor) bool { return m.Name == f.Name })
	}
	others := slices.DeleteFunc(slices.Clone(all), is)
	s.flavors = slices.Clone(s.models)
	for i := range n - len(s.models) {
		s.flavors = append(s.flavors, others[i*len(others)/(n-len(s.models))])
	}
	slices.SortFunc(s.flavors, func(a, b catalogue.Flavor) int { return cmp.Compare(a.Name, b.Name) })
}

// chooseKinds chooses Deployments and Jobs such that one pod of each of 20 consecutive ones fills a node by the given
// share, a few percent more or less. One in five is a Job.
func (s *scene) chooseKinds(used float64) {
	size := s.models[0].Size
	for _, m := range s.models {
		size.MilliCPU, size.MemoryBytes = min(size.MilliCPU, m.Size.MilliCPU), min(size.MemoryBytes, m.Size.MemoryBytes)
	}
	milli, mib := float64(size.MilliCPU-agentMilli)*used, float64(size.MemoryBytes>>20-agentMiB)*used
	n := max(podsPerNode, s.nodes*podsPerNode/replicas)
	for len(s.kinds) < n {
		parts, sum := make([]float64, podsPerNode), 0.0
		for i := range parts {
			parts[i] = 0.4 + 1.2*s.random.Float64()
			sum += parts[i]
		}
		whole := 0.99 + 0.02*s.random.Float64()
		for _, part := range parts {
			share, skew := part/sum*whole, 0.9+0.2*s.random.Float64()
			at := len(s.kinds)
			s.kinds = append(s.kinds, kind{
				name: fmt.Sprintf("app-%d", at), batch: at%5 == 4,
				milli: int64(milli * share * skew), mib: int64(mib * share / skew),
			})
		}
	}
}

// pods returns the number of pods on nodes, without those of DaemonSets.
func (s *scene) pods() int { return s.nodes * podsPerNode }

// build makes all objects.
func (s *scene) build(c change) error {
	all := []client.Object{fleetsite.Fleet(s.now), s.agent()}
	for n := range namespaces {
		all = append(all, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace(n), UID: types.UID(namespace(n))}})
	}
	for i := range s.kinds {
		all = append(all, s.owner(i)...)
	}
	for i := range s.nodes {
		node := s.node(i)
		all = append(all, node, s.agentPod(i))
		for slot := range podsPerNode {
			pod := s.pod((i*podsPerNode + slot) % len(s.kinds))
			fleetsite.RunsOn(pod, node.Name, s.now.Add(-2*time.Hour))
			all = append(all, pod)
		}
	}
	if err := s.api.Add(all...); err != nil {
		return err
	}
	return s.buildMachines()
}

// change does what happens before the measured round.
func (s *scene) change(c change) {
	nodes := s.api.All(&corev1.Node{})
	for i := range min(c.draining, len(nodes)) {
		at := i * (len(nodes) / min(c.draining, len(nodes)))
		node := nodes[at].DeepCopyObject().(*corev1.Node)
		mark := drain.Mark{Owner: fleetsite.FleetName, Since: s.now, Until: s.now.Add(time.Hour)}
		node.Spec.Unschedulable, node.Annotations = true, map[string]string{v1alpha1.AnnotationDraining: mark.String()}
		s.replace(nodes[at], node)
	}
	pods := s.api.All(&corev1.Pod{})
	n := int(float64(s.pods()) * c.changed)
	for i := range n {
		at := i * (len(pods) / n)
		if pods[at].GetLabels()["app"] == "agent" {
			at++
		}
		old := pods[at].(*corev1.Pod)
		pod := s.pod(s.random.IntN(len(s.kinds)))
		pod.Spec.Containers[0].Resources = old.Spec.Containers[0].Resources
		fleetsite.RunsOn(pod, old.Spec.NodeName, s.now)
		s.replace(pods[at], pod)
	}
	for i := range c.pending {
		pod := s.pod(i * 7 / replicas % len(s.kinds))
		pod.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: metav1.NewTime(s.now.Add(90 * time.Second)),
		}}}
		if err := s.api.Add(pod); err != nil {
			panic(err) // pods have been added before
		}
	}
}

func (s *scene) replace(old, o client.Object) {
	if err := s.api.Replace(old, o); err != nil {
		panic(err) // it has been listed
	}
}

const (
	agentMilli = 100
	agentMiB   = 128
	namespaces = 50
)

func namespace(n int) string { return fmt.Sprintf("team-%d", n%namespaces) }

func nodeName(i int) string {
	return fmt.Sprintf("ip-10-%d-%d-%d.ec2.internal", i>>16, i>>8&255, i&255)
}

func (s *scene) model(i int) *catalogue.Flavor { return &s.models[i%len(s.models)] }

func (s *scene) node(i int) *corev1.Node {
	n := fleetsite.Node(nodeName(i), s.model(i), zones[i%len(zones)], s.now.Add(-3*time.Hour))
	n.ResourceVersion = fmt.Sprint(i)
	return n
}

// agent returns the DaemonSet of the cluster.
func (s *scene) agent() *appsv1.DaemonSet {
	own := map[string]string{"app": "agent"}
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "agent", UID: "agent"},
		Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: own}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: own}, Spec: corev1.PodSpec{Containers: []corev1.Container{fleetsite.Container(agentMilli, agentMiB)}},
		}},
	}
}

func (s *scene) agentPod(i int) *corev1.Pod {
	p := fleetsite.Pod("kube-system", fmt.Sprintf("agent-%05d", i), agentMilli, agentMiB)
	p.Labels, p.ResourceVersion = map[string]string{"app": "agent"}, fmt.Sprint(i)
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", UID: "agent", Controller: new(true)}}
	fleetsite.RunsOn(p, nodeName(i), s.now.Add(-3*time.Hour))
	return p
}

// pod returns another pod of a Deployment or a Job. Jobs run for four hours, and may be restarted.
func (s *scene) pod(of int) *corev1.Pod {
	k := &s.kinds[of]
	p := fleetsite.Pod(namespace(of), fmt.Sprintf("%s-%07d", k.name, s.made), k.milli, k.mib)
	s.made++
	p.ResourceVersion, p.CreationTimestamp = fmt.Sprint(s.made), metav1.NewTime(s.now)
	p.Labels = map[string]string{"app": k.name}
	owner := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: k.name, UID: types.UID(k.name), Controller: new(true)}
	switch {
	case k.batch:
		owner.APIVersion, owner.Kind = "batch/v1", "Job"
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
		p.Annotations = map[string]string{v1alpha1.AnnotationRuntime: "4h", v1alpha1.AnnotationMigration: v1alpha1.MigrationRestart}
	case s.spread:
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 2, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
		}}
	}
	p.OwnerReferences = []metav1.OwnerReference{owner}
	return p
}

// owner returns the ReplicaSet or Job of pods. One in ten ReplicaSets has a PodDisruptionBudget.
func (s *scene) owner(of int) []client.Object {
	k := &s.kinds[of]
	about := metav1.ObjectMeta{Namespace: namespace(of), Name: k.name, UID: types.UID(k.name)}
	if k.batch {
		return []client.Object{&batchv1.Job{ObjectMeta: about}}
	}
	all := []client.Object{&appsv1.ReplicaSet{ObjectMeta: about}}
	if of%10 == 0 {
		all = append(all, &policyv1.PodDisruptionBudget{
			ObjectMeta: about,
			Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromString("10%")), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": k.name}}},
			Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 10, CurrentHealthy: replicas, DesiredHealthy: replicas * 9 / 10, ExpectedPods: replicas},
		})
	}
	return all
}

// buildMachines makes a MachineDeployment for each flavor, and the Machines of the nodes.
func (s *scene) buildMachines() error {
	want := map[string]int{}
	for i := range s.nodes {
		m := s.model(i).Name
		want[m]++
		if err := s.api.AddMachine(fmt.Sprintf("%s-%05d", m, i), m, nodeName(i), s.now.Add(-3*time.Hour)); err != nil {
			return err
		}
	}
	for i := range s.flavors {
		f := &s.flavors[i]
		if err := s.api.AddDeployment(f, s.zone(f.Name), want[f.Name]); err != nil {
			return err
		}
	}
	return nil
}
