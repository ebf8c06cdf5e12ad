package round

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/pricelist"
	"supercargo.dev/supercargo/internal/drain"
	"supercargo.dev/supercargo/internal/input/catalogue"
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
	api     *memoryServer
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

func newScene(api *memoryServer, nodes, flavors int, c change, now time.Time) (*scene, error) {
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
	all := []client.Object{s.newFleet(), s.agent()}
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
			runsOn(pod, node.Name, s.now.Add(-2*time.Hour))
			all = append(all, pod)
		}
	}
	if err := s.api.add(all...); err != nil {
		return err
	}
	return s.buildMachines()
}

// change does what happens before the measured round.
func (s *scene) change(c change) {
	nodes := s.api.objects[corev1.SchemeGroupVersion.WithKind("Node")]
	for i := range min(c.draining, len(nodes)) {
		at := i * (len(nodes) / min(c.draining, len(nodes)))
		node := nodes[at].DeepCopyObject().(*corev1.Node)
		mark := drain.Mark{Owner: fleetName, Since: s.now, Until: s.now.Add(time.Hour)}
		node.Spec.Unschedulable, node.Annotations = true, map[string]string{v1alpha1.AnnotationDraining: mark.String()}
		nodes[at] = node
	}
	pods := s.api.objects[corev1.SchemeGroupVersion.WithKind("Pod")]
	n := int(float64(s.pods()) * c.changed)
	for i := range n {
		at := i * (len(pods) / n)
		if pods[at].GetLabels()["app"] == "agent" {
			at++
		}
		old := pods[at].(*corev1.Pod)
		pod := s.pod(s.random.IntN(len(s.kinds)))
		pod.Spec.Containers[0].Resources = old.Spec.Containers[0].Resources
		runsOn(pod, old.Spec.NodeName, s.now)
		pods[at] = pod
	}
	for i := range c.pending {
		pod := s.pod(i * 7 / replicas % len(s.kinds))
		pod.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: metav1.NewTime(s.now.Add(90 * time.Second)),
		}}}
		if err := s.api.add(pod); err != nil {
			panic(err) // pods have been added before
		}
	}
}

// newFleet returns the fleet with the defaults of the API.
func (s *scene) newFleet() *v1alpha1.NodeFleet {
	d := func(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }
	return &v1alpha1.NodeFleet{
		ObjectMeta: metav1.ObjectMeta{Name: fleetName, UID: "fleet", Generation: 1, CreationTimestamp: metav1.NewTime(s.now.Add(-24 * time.Hour))},
		Spec: v1alpha1.NodeFleetSpec{
			Class: v1alpha1.FleetAny, Mode: v1alpha1.FleetAct, Provider: v1alpha1.FleetClusterAPI,
			ClusterAPI: &v1alpha1.ClusterAPIFlavors{Namespace: machines, Selector: &metav1.LabelSelector{}},
			Pricing:    v1alpha1.FleetPricing{BillingPeriod: d(time.Minute)},
			Scaling: v1alpha1.FleetScaling{
				Interval: d(time.Minute), BatchIdle: d(time.Second), BatchMax: d(10 * time.Second), JoinTimeout: d(15 * time.Minute), BackOff: d(5 * time.Minute),
				ExpectedLag: d(2 * time.Minute),
			},
			Consolidation: v1alpha1.FleetConsolidation{
				Policy: v1alpha1.ConsolidateWhenUnderUsed, ThresholdPercent: new(int32(50)), QueueEmptyFor: d(time.Minute), Horizon: d(time.Hour),
				EvictServices: v1alpha1.EvictServicesOptOut, MaxUnavailable: "10%", DrainTimeout: d(10 * time.Minute), ReleaseDelay: d(3 * time.Second),
			},
		},
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
	m, created := s.model(i), metav1.NewTime(s.now.Add(-3*time.Hour))
	amounts := corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewMilliQuantity(m.Size.MilliCPU, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(m.Size.MemoryBytes, resource.BinarySI),
		corev1.ResourcePods: *resource.NewQuantity(110, resource.DecimalSI),
	}
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName(i), UID: types.UID("node-" + nodeName(i)), ResourceVersion: fmt.Sprint(i), CreationTimestamp: created, Labels: map[string]string{
			corev1.LabelHostname: nodeName(i), corev1.LabelInstanceTypeStable: m.Name, corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux",
			corev1.LabelTopologyZone: zones[i%len(zones)], corev1.LabelTopologyRegion: "us-east-1",
		}},
		Spec: corev1.NodeSpec{ProviderID: fmt.Sprintf("aws:///%s/i-%017x", zones[i%len(zones)], i)},
	}
	n.Status.Capacity, n.Status.Allocatable = amounts, amounts
	n.Status.NodeInfo.KubeletVersion = "v1.35.0"
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: created, LastHeartbeatTime: created}}
	return n
}

// agent returns the DaemonSet of the cluster.
func (s *scene) agent() *appsv1.DaemonSet {
	own := map[string]string{"app": "agent"}
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "agent", UID: "agent"},
		Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: own}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: own}, Spec: corev1.PodSpec{Containers: []corev1.Container{container(agentMilli, agentMiB)}},
		}},
	}
}

func (s *scene) agentPod(i int) *corev1.Pod {
	p := basicPod("kube-system", fmt.Sprintf("agent-%05d", i), agentMilli, agentMiB)
	p.Labels = map[string]string{"app": "agent"}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", UID: "agent", Controller: new(true)}}
	runsOn(p, nodeName(i), s.now.Add(-3*time.Hour))
	return p
}

func container(milli, mib int64) corev1.Container {
	return corev1.Container{
		Name: "main", Image: "registry.example.com/app:1.2.3", ImagePullPolicy: corev1.PullIfNotPresent,
		Env: []corev1.EnvVar{{Name: "MODE", Value: "production"}, {Name: "LOG_LEVEL", Value: "info"}},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: *resource.NewMilliQuantity(milli, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(mib<<20, resource.BinarySI),
		}},
		TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		VolumeMounts: []corev1.VolumeMount{{Name: "token", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true}},
	}
}

func basicPod(namespace, name string, milli, mib int64) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "-" + name), Generation: 1},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyAlways, DNSPolicy: corev1.DNSClusterFirst, ServiceAccountName: "default", SchedulerName: "default-scheduler",
			Containers:                    []corev1.Container{container(milli, mib)},
			TerminationGracePeriodSeconds: new(int64(30)),
			Tolerations: []corev1.Toleration{
				{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))},
				{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))},
			},
			Volumes: []corev1.Volume{{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: new(int64(3607)), Path: "token"}}},
			}}}},
		},
	}
}

// runsOn makes a pod run on a node.
func runsOn(p *corev1.Pod, node string, since time.Time) {
	start := metav1.NewTime(since)
	p.Spec.NodeName, p.CreationTimestamp = node, start
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &start, HostIP: "10.0.0.1", PodIP: "10.1.0.1", QOSClass: corev1.PodQOSBurstable}
	for _, c := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled} {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: c, Status: corev1.ConditionTrue, LastTransitionTime: start})
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "main", Ready: true, Started: new(true), Image: "registry.example.com/app:1.2.3", ImageID: "registry.example.com/app@sha256:0123456789abcdef",
		ContainerID: "containerd://0123456789abcdef0123456789abcdef", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: start}},
	}}
}

// pod returns another pod of a Deployment or a Job. Jobs run for four hours, and may be restarted.
func (s *scene) pod(of int) *corev1.Pod {
	k := &s.kinds[of]
	p := basicPod(namespace(of), fmt.Sprintf("%s-%07d", k.name, s.made), k.milli, k.mib)
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

// clusterKind returns a kind of cluster-api.
func clusterKind(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: kind}
}

// buildMachines makes a MachineDeployment for each flavor, and the Machines of the nodes.
func (s *scene) buildMachines() error {
	want := map[string]int{}
	for i := range s.nodes {
		m := s.model(i).Name
		want[m]++
		name := fmt.Sprintf("%s-%05d", m, i)
		err := s.addOf(clusterKind("Machine"), map[string]any{
			"metadata": map[string]any{
				"name": name, "namespace": machines, "uid": name, "creationTimestamp": s.now.Add(-3 * time.Hour).UTC().Format(time.RFC3339),
				"labels": map[string]any{"cluster.x-k8s.io/deployment-name": m, "cluster.x-k8s.io/set-name": m, "cluster.x-k8s.io/cluster-name": "site"},
			},
			"spec":   map[string]any{"clusterName": "site", "providerID": fmt.Sprintf("aws:///%s/i-%017x", zones[i%len(zones)], i)},
			"status": map[string]any{"nodeRef": map[string]any{"name": nodeName(i)}},
		})
		if err != nil {
			return err
		}
	}
	for _, f := range s.flavors {
		annotations := map[string]any{
			v1alpha1.AnnotationPricePerHour:                     fmt.Sprintf("%.6f", float64(f.MicroDollarsPerHour)/1e6),
			"capacity.cluster-autoscaler.kubernetes.io/cpu":     fmt.Sprintf("%dm", f.Size.MilliCPU),
			"capacity.cluster-autoscaler.kubernetes.io/memory":  fmt.Sprint(f.Size.MemoryBytes),
			"capacity.cluster-autoscaler.kubernetes.io/maxPods": "110",
			"capacity.cluster-autoscaler.kubernetes.io/labels":  corev1.LabelInstanceTypeStable + "=" + f.Name,
			"machinedeployment.clusters.x-k8s.io/revision":      "1",
		}
		err := s.addOf(clusterKind("MachineDeployment"), map[string]any{
			"metadata": map[string]any{"name": f.Name, "namespace": machines, "uid": f.Name, "annotations": annotations},
			"spec": map[string]any{"clusterName": "site", "replicas": int64(want[f.Name]), "template": map[string]any{"spec": map[string]any{
				"clusterName": "site", "failureDomain": s.zone(f.Name),
				"infrastructureRef": map[string]any{"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "AWSMachineTemplate", "name": "workers"},
			}}},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// addOf adds an object of a kind whose type only its provider knows.
func (s *scene) addOf(kind schema.GroupVersionKind, content map[string]any) error {
	object, err := s.api.scheme.New(kind)
	if err != nil {
		return err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(maps.Clone(content), object); err != nil {
		return fmt.Errorf("make a %s: %w", kind.Kind, err)
	}
	return s.api.add(object.(client.Object))
}
