package auditreport

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/cli/audit"
	"supercargo.dev/supercargo/cli/auditor"
	"supercargo.dev/supercargo/cli/objects"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/world"
	"supercargo.dev/supercargo/test/fixtures"
	"supercargo.dev/supercargo/test/kit/sentences"
)

// scene is what an audit reads, with its options.
type scene struct {
	objects.Objects
	auditor.Options
	obstacles int
	stop      bool
}

// of returns a scene with the nodes, which was read from a cluster. The only other type for sale is m5.large.
func of(nodes ...corev1.Node) *scene {
	s := &scene{obstacles: 5}
	s.Nodes, s.Missing = nodes, map[string]string{}
	s.Now, s.InstanceTypes = time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC), []string{"m5.large"}
	return s
}

func (s *scene) with(pods ...corev1.Pod) *scene {
	s.Pods = append(s.Pods, pods...)
	return s
}

func (s *scene) but(change func(*scene)) *scene {
	change(s)
	return s
}

// said is everything that an audit of the scene prints, in all formats.
func (s *scene) said(t *testing.T) string {
	t.Helper()
	in, err := auditor.Of(t.Context(), &s.Objects, s.Options)
	if unknown := (*auditor.UnknownTypesError)(nil); errors.As(err, &unknown) { // no list prices are used
		s.InstanceTypes = nil
		in, err = auditor.Of(t.Context(), &s.Objects, s.Options)
	}
	if err != nil {
		t.Fatal(err)
	}
	in.MostObstacles = s.obstacles
	in.Stop = func() bool { return s.stop }
	return saidOf(t, in)
}

func saidOf(t *testing.T, in *audit.Input) string {
	t.Helper()
	r := audit.Audit(*in)
	var out bytes.Buffer
	var page bytes.Buffer
	for _, write := range []func(io.Writer, *audit.Result) error{WriteTable, WriteMarkdown, WriteCSV} {
		if err := write(&out, &r); err != nil {
			t.Fatal(err)
		}
	}
	if err := WriteHTML(&page, &r); err != nil {
		t.Fatal(err)
	}
	document, err := json.Marshal(DocumentOf(&r, 0))
	if err != nil {
		t.Fatal(err)
	}
	return out.String() + html.UnescapeString(page.String()) + string(document)
}

// xlarge returns a node that costs $0.192 an hour.
func xlarge(name string, change ...func(*corev1.Node)) corev1.Node {
	return fixtures.CloudNode(name, "m5.xlarge", change...)
}

// google returns a node of Google Cloud.
func google(name string, change ...func(*corev1.Node)) corev1.Node {
	n := fixtures.CloudNode(name, "n1-standard-4", change...)
	n.Spec.ProviderID, n.Labels[corev1.LabelTopologyRegion] = "gce://project/us-central1-a/"+name, "us-central1"
	return n
}

func labelled(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels[key] = value }
}

func price(dollars string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Annotations[v1alpha1.AnnotationPricePerHour] = dollars }
}

func cordoned(n *corev1.Node) { n.Spec.Unschedulable = true }

func toBeDeleted(n *corev1.Node) {
	n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: world.TaintToBeDeleted, Effect: corev1.TaintEffectNoSchedule})
}

var (
	spotNode = labelled("karpenter.sh/capacity-type", "spot")
	plane    = labelled("node-role.kubernetes.io/control-plane", "")
)

// web returns a pod of a Deployment, which requests half a CPU and 1 GiB.
func web(name, node string, change ...func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": "web", "pod-template-hash": "abc"}, Annotations: map[string]string{},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-abc", Controller: new(true)}}},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "web", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse("500m"), "memory": resource.MustParse("1Gi")},
		}}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, c := range change {
		c(&p)
	}
	return p
}

func annotated(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations[key] = value }
}

func cpu(amount string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(amount)
	}
}

func bare(p *corev1.Pod) { p.OwnerReferences = nil }

func daemon(p *corev1.Pod) {
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", Controller: new(true)}}
}

func selecting(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{key: value} }
}

var term = corev1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, TopologyKey: corev1.LabelHostname}

func apart(p *corev1.Pod) {
	p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}}
}

func together(p *corev1.Pod) {
	p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}}
}

func spread(otherwise corev1.UnsatisfiableConstraintAction) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: otherwise, LabelSelector: term.LabelSelector}}
	}
}

func port(p *corev1.Pod) {
	p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
}

// hostNetwork is what the API server makes of a pod on the host's network that listens.
func hostNetwork(p *corev1.Pod) {
	port(p)
	p.Spec.HostNetwork = true
}

func image(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Image = name }
}

func nobodys(n *corev1.Node) { n.Spec.ProviderID = "" }

func nowhere(n *corev1.Node) {
	delete(n.Labels, corev1.LabelTopologyRegion)
	delete(n.Labels, corev1.LabelTopologyZone)
}

func claiming(p *corev1.Pod) {
	p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
}

// budget returns a PodDisruptionBudget of all pods of a namespace that allows no disruption.
func budget(namespace, name string, spec policyv1.PodDisruptionBudgetSpec) policyv1.PodDisruptionBudget {
	spec.Selector = &metav1.LabelSelector{}
	return policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: spec}
}

func priced(instanceType string, onDemand int64, spot *int64, size packing.Size) catalogue.Price {
	return catalogue.Price{SpotMicroDollarsPerHour: spot, Flavor: catalogue.Flavor{Flavor: cluster.Flavor{Name: instanceType, Size: size, MicroDollarsPerHour: onDemand}}}
}

// made is the input of an audit without objects: nodes with the given pods of one CPU, of a type that is for sale.
func made(change func(nodes []audit.Node), pods ...int) *audit.Input {
	size := packing.Size{MilliCPU: 4000, MemoryBytes: 16 << 30}
	in := &audit.Input{MostObstacles: 5, Flavors: []audit.Flavor{{InstanceType: "m", CapacityType: audit.OnDemand, Flavor: cluster.Flavor{Name: "m", Size: size, Arch: "amd64", MicroDollarsPerHour: 100_000}}}}
	for i, count := range pods {
		n := audit.Node{InstanceType: "m", CapacityType: audit.OnDemand, Whole: size, WholePods: 10, AllPods: int64(count),
			Node: cluster.Node{Name: fmt.Sprint("n", i), Flavor: "m", Phase: cluster.Ready, Class: class.Any, Capacity: size, MaxPods: new(int64(10)), Arch: "amd64", MicroDollarsPerHour: 100_000}}
		for j := range count {
			n.Pods = append(n.Pods, cluster.Pod{Item: packing.Item{Name: fmt.Sprintf("p%d%d", i, j), Size: packing.Size{MilliCPU: 1000, MemoryBytes: 1 << 30}}, Class: class.Service, Ways: cluster.WaysOf(cluster.Evict)})
			n.Requested = n.Requested.Plus(n.Pods[j].Size)
		}
		in.Nodes = append(in.Nodes, n)
	}
	change(in.Nodes)
	return in
}

// TestEachSentenceOfAnAuditIsPrintedWhereItIsTrueAndNotWhereItIsNot has all sentences of the packages that print an
// audit. Those about what keeps a pod on its node are in the same table of package world.
func TestEachSentenceOfAnAuditIsPrintedWhereItIsTrueAndNotWhereItIsNot(t *testing.T) {
	say := func(s *scene) string { return s.said(t) }
	two := func() *scene { return of(xlarge("a"), xlarge("b")).with(web("p", "a"), web("q", "b")) }
	base := say(two())
	full := say(of(xlarge("a"), xlarge("b")).with(web("p", "a", cpu("3")), web("q", "b", cpu("3"))))
	none := say(of())
	one := say(of(xlarge("a")).with(web("p", "a")))
	unpriced := say(of(fixtures.CloudNode("a", "z9.huge")).with(web("p", "a")))
	partly := say(of(xlarge("a"), xlarge("b"), fixtures.CloudNode("c", "z9.huge")).with(web("p", "a"), web("q", "b"), web("r", "c")))
	empty := say(of(xlarge("a"), xlarge("b")).with(web("p", "a", cpu("3"))))
	going := say(of(xlarge("a"), xlarge("b", toBeDeleted)).with(web("p", "a", cpu("3"))))
	emptyCordoned := say(of(xlarge("a"), xlarge("b", cordoned)).with(web("p", "a", cpu("3"))))
	claim := say(of(xlarge("a")).with(web("p", "a", func(p *corev1.Pod) {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}}
	})))
	held := func(name, node string) corev1.Pod {
		return web(name, node, annotated("karpenter.sh/do-not-disrupt", "true"))
	}
	holding := say(of(xlarge("a"), xlarge("b")).with(held("p", "a"), held("q", "b"), web("r", "b"), web("s", "b")))
	holdingTwo := say(of(xlarge("a"), xlarge("b")).with(held("p", "a"), held("q", "a"), web("r", "b", cpu("3"))))
	fewer := two()
	fewer.obstacles, fewer.Pods = 0, []corev1.Pod{held("p", "a"), web("q", "b")}
	uncomputed := say(fewer)
	stopped := two()
	stopped.stop = true
	inTime := say(stopped)
	control := say(of(xlarge("a", plane), xlarge("b")).with(web("p", "a", cpu("3")), web("q", "b")))
	labels := say(two().but(func(s *scene) {
		s.ByLabel = "team"
		s.Pods[1].Labels["team"] = "red"
	}))
	allLabelled := say(two().but(func(s *scene) { s.ByLabel = "app" }))
	measured := say(two().but(func(s *scene) {
		s.Metrics = []metricsv1beta1.NodeMetrics{{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Usage: corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")}}}
	}))
	allMeasured := say(of(xlarge("a")).with(web("p", "a")).but(func(s *scene) {
		s.Metrics = []metricsv1beta1.NodeMetrics{{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Usage: corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")}}}
	}))
	spots := say(of(xlarge("a", spotNode)).with(web("p", "a")))
	unknownSpots := say(of(fixtures.CloudNode("a", "z9.huge", spotNode)).with(web("p", "a")))
	discounted := say(of(xlarge("a", spotNode), xlarge("b")).with(web("p", "a")).but(func(s *scene) {
		s.Discounts = map[string]float64{audit.Spot: 0.5, audit.OnDemand: 0.25}
	}))
	untyped := say(of(fixtures.CloudNode("a", "")).with(web("p", "a")))
	untypedAnnotated := say(of(fixtures.CloudNode("a", "", price("cheap"))).with(web("p", "a")))
	sized := say(of(fixtures.CloudNode("a", "")).with(web("p", "a")).but(func(s *scene) { s.PerCPU = 10_000 }))
	annotatedPrice := say(of(xlarge("a", price("0.1"))).with(web("p", "a")))
	dump := say(two().but(func(s *scene) { s.Missing = nil }))
	withBudget := say(two().but(func(s *scene) {
		s.Missing = nil
		s.Budgets = []policyv1.PodDisruptionBudget{budget("other", "one", policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(1))})}
	}))
	budgets := func(more ...policyv1.PodDisruptionBudget) string {
		return say(of(xlarge("a"), xlarge("b")).with(web("p", "a"), web("q", "b", func(p *corev1.Pod) { p.Namespace = "other" })).but(func(s *scene) {
			s.Budgets = append([]policyv1.PodDisruptionBudget{budget("shop", "never", policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(0))})}, more...)
		}))
	}
	twoBudgets := budgets(budget("other", "least", policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(1))}))
	alike := budgets(budget("other", "never", policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(0))}))
	systems := say(of(xlarge("a"), xlarge("b", labelled(corev1.LabelOSStable, "windows"), labelled("pool", "windows"), price("0.3"))).with(web("p", "a", selecting("pool", "windows")), web("q", "b")))
	noPlace := say(of(xlarge("a"), xlarge("b")).with(web("p", "a", selecting("pool", "gone"))))
	claims := say(of(xlarge("a")).with(web("p", "a", claiming)))
	claimsRead := say(of(xlarge("a")).with(web("p", "a")).but(func(s *scene) {
		s.Claims = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data"}}}
	}))
	mixed := of(xlarge("a"), xlarge("b"), fixtures.CloudNode("c", "m6g.xlarge", labelled(corev1.LabelArchStable, "arm64"))).with(web("p", "a"), web("q", "c", image("tool")))
	archs := say(mixed)
	multiArch := say(of(xlarge("a"), fixtures.CloudNode("c", "m6g.xlarge", labelled(corev1.LabelArchStable, "arm64"))).with(web("p", "a"), web("q", "c")))
	manyTypes := of(fixtures.CloudNode("c", "m6g.xlarge", labelled(corev1.LabelArchStable, "arm64"))).with(web("q", "c", image("tool")))
	for i := range 5 { // more types than are planned
		manyTypes.Nodes = append(manyTypes.Nodes, fixtures.CloudNode(fmt.Sprint("n", i), fmt.Sprint("t", i), price("0.1")))
		manyTypes.with(web(fmt.Sprint("p", i), fmt.Sprint("n", i)))
	}
	manyArchs := say(manyTypes)
	wider := func(pods ...corev1.Pod) string {
		return say(of(xlarge("a")).with(pods...).but(func(s *scene) { s.InstanceTypes = []string{"m5.large", "m6g.large"} }))
	}
	demanding := func(change func(*corev1.Pod)) string {
		return say(of(xlarge("a"), xlarge("b")).with(web("p", "a", change), web("q", "b")))
	}
	// pooled has a node with a pod that needs the red pool and, unless more is empty, a large pod that needs none, and a node
	// of another pool that stays.
	pooled := func(other, more string) string {
		s := of(xlarge("a", labelled("pool", "red")), xlarge("b", labelled("pool", other))).with(web("p", "a", cpu("100m"), selecting("pool", "red")), held("q", "b"), web("h", "b", cpu("2")))
		if more != "" {
			s.with(web("r", "a", cpu(more)))
		}
		return say(s)
	}
	region := say(of(xlarge("a", labelled(corev1.LabelTopologyRegion, "eu-west-1"))).with(web("p", "a")))
	selected := say(of(fixtures.CloudNode("a", "Standard_D4s_v5", func(n *corev1.Node) {
		n.Spec.ProviderID, n.Labels[corev1.LabelTopologyRegion] = "azure:///x", "eastus"
	})).with(web("p", "a")).but(func(s *scene) { s.Region, s.InstanceTypes = "westeurope", []string{"Standard_D2s_v5"} }))
	given := say(of(fixtures.CloudNode("a", "own.large"), xlarge("b")).with(web("p", "a")).but(func(s *scene) {
		s.Own, s.InstanceTypes = []catalogue.Price{priced("own.large", 100_000, nil, packing.Size{MilliCPU: 2000, MemoryBytes: 8 << 30})}, []string{"own.large"}
	}))
	nominal := func(cpus int64) string {
		return say(of(xlarge("a")).with(web("p", "a")).but(func(s *scene) {
			s.Own = []catalogue.Price{priced("m5.large", 90_000, nil, packing.Size{MilliCPU: cpus, MemoryBytes: 1 << 30})}
		}))
	}
	everyType := say(of(xlarge("a")).with(web("p", "a")).but(func(s *scene) { s.InstanceTypes = nil }))
	crowded := func(daemonCPU string) string {
		return say(of(xlarge("a")).with(web("agent", "a", daemon, cpu(daemonCPU))).but(func(s *scene) {
			s.InstanceTypes = []string{"m5.xlarge"}
		}))
	}
	many := of(xlarge("a"))
	for i := range mostParts + 1 {
		many.with(web(fmt.Sprint("p", i), "a", cpu("100m"), func(p *corev1.Pod) { p.Namespace = fmt.Sprint("team-", i) }, bare, apart))
	}
	manyNamespaces := say(many)
	staying := of()
	for i := range mostStays + 1 {
		staying.Nodes = append(staying.Nodes, fixtures.CloudNode(fmt.Sprint("n", i), fmt.Sprint("z", i, ".huge")))
	}
	manyUnpriced := say(staying)
	similar := say(of(fixtures.CloudNode("a", "z1.huge"), fixtures.CloudNode("b", "z9.huge"), fixtures.CloudNode("c", "z9.huge"), fixtures.CloudNode("d", "z9.huge")))
	notReady := func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }
	starting := say(of(xlarge("a"), xlarge("b", func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "karpenter.sh/unregistered", Effect: corev1.TaintEffectNoExecute}}
	})).with(web("p", "a")))
	dead := say(of(xlarge("a"), xlarge("b", notReady)).with(web("p", "a"), web("q", "b", cpu("100m"))))
	virtual := say(of(xlarge("a"), xlarge("b", labelled("type", "virtual-kubelet"))))
	manyHolds := of(xlarge("a"))
	for i := range mostShown + 1 {
		manyHolds.with(held(fmt.Sprint("p", i), "a"))
		manyHolds.Pods[i].OwnerReferences[0].Name, manyHolds.Pods[i].Labels = fmt.Sprint("set-", i), nil
		manyHolds.Pods[i].Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("10m")
	}
	manyObstacles := say(manyHolds)
	cheap := say(of(xlarge("a", price("0.01"))).with(web("p", "a", cpu("3"))))
	receives := say(of(xlarge("a"), xlarge("b")).with(web("p", "a", cpu("1")), web("r", "a", cpu("1")), web("q", "b")))
	notFound := func(incoming int) string {
		return saidOf(t, made(func(nodes []audit.Node) {
			nodes[0].Incoming = incoming
			for i := range nodes[1].Pods {
				p := &nodes[1].Pods[i]
				p.Ways, p.Fixed, p.Held = 0, true, "told to"
			}
		}, 1, 2))
	}
	unreached := made(func(nodes []audit.Node) { // more than half full, so that a NodeFleet would not empty it
		for i := range nodes {
			for j := range nodes[i].Pods {
				nodes[i].Pods[j].Size.MemoryBytes = 4 << 30
			}
		}
	}, 2, 2)
	unreached.Stop = func() bool { return true }
	notReached := saidOf(t, unreached)
	unreachedEmpty := made(func(nodes []audit.Node) { nodes[1].Phase = cluster.Leaving }, 1, 0)
	unreachedEmpty.Stop = func() bool { return true }
	notReachedEmpty := saidOf(t, unreachedEmpty)
	kept := func(reason string) string {
		return saidOf(t, made(func(nodes []audit.Node) { nodes[0].Kept, nodes[0].KeptFor = true, reason }, 1, 0))
	}
	byCompletion := func(ways cluster.Ways) string {
		return saidOf(t, made(func(nodes []audit.Node) { nodes[0].Pods[0].Ways, nodes[0].Pods[0].Class = ways, class.Batch }, 1, 3))
	}
	// hindered has an obstacle of one pod on a node of the given price. With room elsewhere, the node is released without it.
	hindered := func(microDollars int64, elsewhere int) string {
		in := made(func(nodes []audit.Node) {
			nodes[0].MicroDollarsPerHour = microDollars
			for i := range nodes {
				for j := range nodes[i].Pods {
					p := &nodes[i].Pods[j]
					p.Ways, p.Fixed, p.Held = 0, true, "told to"
				}
			}
		}, 1, elsewhere)
		in.Obstacles = []audit.Obstacle{{Kind: "told to", Subject: "p00", Pods: []string{"p00"}, Ways: map[string]cluster.Ways{"p00": cluster.WaysOf(cluster.Evict)}}}
		in.Flavors = nil
		return saidOf(t, in)
	}
	saves, savesLittle, savesNothing := hindered(100_000, 1), hindered(900, 1), hindered(100_000, 4)
	cases := []sentences.Case{
		// The first line, and what the pods could cost.
		{"The cluster has no nodes.", none, unpriced},
		{"0 of %s priced: what the cluster costs is unknown.", unpriced, none},
		{"The only node is priced: the cluster costs %s, and runs %s.", one, base},
		{"Both nodes priced: the cluster costs %s, and runs %s.", base, partly},
		{"All %s priced: the cluster costs %s, and runs %s.", say(of(xlarge("a"), xlarge("b"), xlarge("c")).with(web("p", "a"))), base},
		{"%d of %s priced: %s %s, and %s %d of %s. No sum includes the other %s.", partly, base},
		{"$%s an hour, $%s a month", base, unpriced},
		{"it costs", say(of(xlarge("a"), fixtures.CloudNode("c", "z9.huge")).with(web("p", "a"))), partly},
		{"they cost", partly, one},
		{"No cheaper machines were found for the same pods.", cheap, base},
		{"The same pods fit on machines that cost %s less; no machines for sale cost less than $%s an hour.", base, cheap},
		{"Moving %s and releasing %s", base, empty},
		{"empty node", empty, base},
		{"no node to release was found", full, base},
		{"by moving pods alone", base, unpriced},
		{"on machines of one type", base, control},
		{"with bought machines of one type", control, base},
		{"There is no cost on machines of one type, because %s holds all pods: %s does not hold pod %s, for example: %s.", archs, multiArch},
		{"none of the %s for sale", archs, multiArch},
		{"none of the %d types that were planned, of %d for sale,", manyArchs, archs},
		{"on the cheapest machines found", base, unpriced},
		{"lower bound of any machines", base, unpriced},
		{"Requested: %s of CPU, %s of memory, %s of pods.", base, unpriced},
		{" Usage is unknown: no measurements of these nodes were read.", base, measured},
		{" Used: %s of CPU, %s of memory", measured, base},
		{" (of %s that %s measured)", measured, allMeasured},
		{"The time limit was reached before the audit was complete.", inTime, base},

		// How the bill is divided.
		{"Half of a node's price is divided by requested CPU and half by requested memory; what no pod requests is idle.", base, unpriced},
		{"(no value)", labels, allLabelled},
		{"idle: requested by no pod", base, unpriced},
		{"in total", base, unpriced},
		{"and %s on nodes without a price", partly, base},

		// What is in the way.
		{"No pod has a demand that prevents a lower bill.", base, claim},
		{"No obstacle that can be removed was found; %s may not be moved for other reasons.", claim, holding},
		{"not computed; its nodes cost $%s an hour", uncomputed, holding},
		{"saves $%s an hour", saves, savesLittle},
		{"saves less than $0.01 an hour", savesLittle, saves},
		{"no saving found", savesNothing, saves},
		{"moving pods", holding, unpriced},
		{"other machines", demanding(apart), holding},
		{"all workloads", twoBudgets, demanding(apart)},
		{"what each of them needs", twoBudgets, alike},
		{"pod anti-affinity", demanding(apart), demanding(together)},
		{"preferred in place of required anti-affinity", demanding(apart), demanding(together)},
		{"pod affinity", demanding(together), demanding(apart)},
		{"preferred in place of required affinity", demanding(together), demanding(apart)},
		{"node selector or affinity", demanding(selecting(corev1.LabelArchStable, "amd64")), demanding(apart)},
		{"a wider choice of nodes", demanding(selecting(corev1.LabelArchStable, "amd64")), demanding(apart)},
		{"topology spread", demanding(spread(corev1.DoNotSchedule)), demanding(spread(corev1.ScheduleAnyway))},
		{"whenUnsatisfiable: ScheduleAnyway", demanding(spread(corev1.DoNotSchedule)), demanding(spread(corev1.ScheduleAnyway))},
		{"host port", demanding(port), base},
		{"a Service in place of the host port", demanding(port), base},
		{"no host network, and a Service in place of the host port", demanding(hostNetwork), demanding(port)},

		// What would empty a node.
		{"nothing: it is being deleted", going, emptyCordoned},
		{"nothing: it is empty and accepts no pods, and can be released now", emptyCordoned, empty},
		{"nothing: it is empty and can be released now", empty, emptyCordoned},
		{"moving its pod to a node that has room", base, full},
		{"moving its %d pods to nodes that have room", say(of(xlarge("a"), xlarge("b")).with(web("p", "a"), web("q", "a"), held("r", "b"))), base},
		{"it must be kept", kept(""), kept("it is told to stay")},
		{"the end of the moves of pods to it", notFound(1), notFound(0)},
		{"nothing: it receives %s of nodes that are emptied", receives, full},
		{"fewer demands of %s: the nodes that stay have room, but do not admit %s", pooled("blue", ""), pooled("red", "3")},
		{"room for %s on nodes that admit %s", pooled("blue", "2"), pooled("red", "3")},
		{"room for %s on the nodes that stay", full, pooled("blue", "")},
		{"moving %s: other nodes have room, but the search did not get to it", notReached, full},
		{"nothing: it is empty, but the search did not get to it", notReachedEmpty, empty},
		{"%s may not be moved, %s: %s", holding, base},
		{"%s may not be moved, such as %s: %s", holdingTwo, holding},
		{"it may only leave by completing", byCompletion(cluster.WaysOf(cluster.Wait)), byCompletion(cluster.WaysOf(cluster.Wait, cluster.Evict))},

		// Prices.
		{"the annotations of nodes or MachineDeployments", annotatedPrice, base},
		{"the prices of the nodes", annotatedPrice, base},
		{"the prices given", given, base},
		{"the prices given and ", given, base},
		{"CPU and memory at the default prices", sized, base},
		{"list prices of ", base, annotatedPrice},
		{"On-demand machines with a list price cost %v %% less than that, as --discount states.", discounted, base},
		{"Spot machines without a price of their own cost %v %% less than on demand, as --discount states.", discounted, base},
		{"%s %s no known price: --discount spot=0.65 would price %s at 65 %% less than on demand.", spots, unknownSpots},
		{"spot node", spots, unknownSpots},
		{"%s %s no instance type: --default-price-per-cpu-hour and --default-price-per-gib-hour would price %s by CPU and memory.", untyped, untypedAnnotated},
		{"Of %s in --prices, pods can use less than the size given, such as %s: the audit uses the size of the list of instance types.", nominal(64_000), nominal(100)},
		{"%s of %s in %s %s the list prices of %s, as --region states.", selected, region},
		{"--region %s selects no prices: no node that has a list price is of its cloud provider.", say(of(xlarge("a")).with(web("p", "a")).but(func(s *scene) { s.Region = "westeurope" })), selected},
		{"No list prices of %s in %s are included: %s there %s those of %s; --region selects another region, and --prices states yours.", region, selected},
		{"an unknown region", say(of(xlarge("a", nowhere)).with(web("p", "a"))), region},
		{"list prices are for Linux, and it runs %s: set annotation %s to its price", say(of(xlarge("a", labelled(corev1.LabelOSStable, "windows"))).with(web("p", "a"))), base},
		{"its cloud provider is unknown: it has neither a provider ID nor a label of AWS, Azure or Google Cloud", say(of(xlarge("a", nobodys)).with(web("p", "a"))), base},
		{"the list prices of %s in %s do not include instance type %s", unpriced, base},
		{"it has no label ", untyped, sized},
		{"it is a spot machine, whose price changes: set annotation %s to its price, or spot_price_per_hour of %s in --prices", spots, discounted},
		{"%s %s no known price, and no sum includes %s", partly, base},

		// What is for sale, and what stays.
		{"no machine for sale holds pod ", noPlace, base},
		{"operating system %s", systems, noPlace},
		{"no machine is planned for its pod %s: %s", claim, base},
		{"it is a control plane node", control, base},
		{"%s %s in every plan of machines to buy", control, base},
		{"No machine is for sale: no node has a price.", unpriced, one},
		{"No machine is for sale: no node with a price is both outside the control plane and of a known size and architecture.",
			say(of(xlarge("a", plane)).with(web("p", "a"))), unpriced},
		{"No machine is for sale: DaemonSet pods and static pods need all the room of each.", crowded("3920m"), crowded("1")},
		{"Types of %s are left out: %s. --arch %s includes them.", wider(web("p", "a")), multiArch},
		{"%s %s seen on %s only", wider(web("p", "a"), web("q", "a", image("tool"))), base},
		{"no node has that architecture", wider(), wider(web("p", "a"))},
		{"%d of %s %s seen on %s only: %s pods are planned for %s alone. --arch with another architecture plans them for it, too.", archs, multiArch},
		{"%s %s left out because the cloud provider's Kubernetes does not take %s as nodes, such as %s; --instance-types with the name includes one.", everyType, base},
		{"instance type", everyType, base},
		{"%s %s no node and %s not included in any figure.", say(two().with(web("r", ""))), base},
		{"%s %s not included in any figure: %s %s not read.", say(two().with(web("r", "gone"))), base},
		{"their nodes, such as ", say(two().with(web("r", "gone"), web("s", "lost"))), say(two().with(web("r", "gone"), web("s", "gone")))},
		{"No DaemonSets were read: the requests of their pods on a machine are derived from the running pods of %s.", crowded("1"), base},
		{"%s were not read: %s.", say(two().but(func(s *scene) { s.Missing["Jobs"] = "the user may not list them" })), base},
		{"The input has no PodDisruptionBudgets: if the cluster has some, what they prevent is not considered.", dump, withBudget},
		{"No PersistentVolumeClaims were read: %s with such claims %s on %s.", claims, claimsRead},
		{"its node", claims, base},
		{"their nodes", say(of(xlarge("a")).with(web("p", "a", claiming), web("q", "a", claiming))), claims},
		{"The prices of spot machines do not include interruptions.", discounted, base},

		{"deleting the node, which is not ready: %s %s room on others", dead, base},
		{"it has not started yet: ", starting, dead},
		{"%s %s not started yet and %s not released by moving pods, such as %s.", starting, dead},
		{"it is a virtual node, whose provider bills each pod", virtual, base},
		{"it is a node of GKE Autopilot, which bills pods", say(of(google("gk3-a"))), say(of(google("gke-a")))},
		{"the list price of %s is without its GPUs, which Google Cloud sells separately: set annotation %s to the price of both",
			say(of(google("gke-a", labelled("cloud.google.com/gke-accelerator", "nvidia-tesla-t4")))), say(of(google("gke-a")))},

		// What is not shown.
		{" (and %d like it)", similar, manyUnpriced},
		{"  ... and %d more, which -o json lists.\n", manyUnpriced, unpriced},
		{"... and %d more, which -o json lists.\n", manyNamespaces, base},
		{"and %d more, which -o json lists", manyObstacles, base},
	}
	sentences.Check(t, []string{"*.go", "../audit/*.go", "../auditor/*.go"}, cases, map[string]string{
		"untolerated taint ":                          "what is replaced by the next",
		"moves alone buy nothing":                     "the reason why the search for moves buys nothing, which it does not print",
		"no instance type in %s matches %s":           "an error",
		"# Audit of a Kubernetes cluster\n\n**%s**\n": "a heading",
		"What the same pods cost":                     "a heading", "What prevents a lower bill": "a heading", "The worst nodes": "a heading", "Cost by ": "a heading", "COST BY ": "a heading",
		"what|of|pods|nodes|without it|by|what would remove it":                                 "a header",
		"node|type|$/hour|idle, $/hour|CPU requested|memory requested|pods|what would empty it": "a header",
		"IN THE WAY\tOF\tPODS\tNODES\tWITHOUT IT\tBY":                                           "a header",
		"WORST NODES\tTYPE\t$/HOUR\tIDLE $/HOUR\tCPU\tMEMORY\tPODS\tWHAT WOULD EMPTY IT":        "a header",
		"THE SAME PODS\t$/HOUR\t$/MONTH\tSAVES\tNODES\tMACHINES":                                "a header",
	})
}

func TestNodesAndTypesThatALineDoesNotNameAreCounted(t *testing.T) {
	huge := func(name, kind string) corev1.Node { return fixtures.CloudNode(name, kind) }
	if got := of(huge("a", "z1.huge"), huge("b", "z9.huge"), huge("c", "z9.huge"), huge("d", "z9.huge")).said(t); !strings.Contains(got, "\n  b (and 2 like it): the list prices of aws in us-east-1 do not include instance type z9.huge\n  a: ") {
		t.Errorf("the nodes without a price are not grouped by reason, the most first:\n%s", got)
	}
	s := of()
	for i := range mostMachines + 2 {
		s.Nodes = append(s.Nodes, fixtures.CloudNode(fmt.Sprint("n", i), fmt.Sprint("t", i), price("0.1")))
	}
	s.Nodes = append(s.Nodes, fixtures.CloudNode("n9", fmt.Sprint("t", mostMachines+1), price("0.001")))
	if got := s.said(t); !strings.Contains(got, "1 t5, 3 others\n") {
		t.Errorf("the machines of other types are not counted:\n%s", got)
	}
}
