package moves

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/constraint"
)

const (
	zone     = corev1.LabelTopologyZone
	hostname = corev1.LabelHostname
)

// demand changes the constraints of a pod.
type demand func(*corev1.Pod)

func selects(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

func affinity(p *corev1.Pod) *corev1.Affinity {
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &corev1.Affinity{}
	}
	return p.Spec.Affinity
}

func apartFrom(app, key string) demand {
	return func(p *corev1.Pod) {
		affinity(p).PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{LabelSelector: selects(app), TopologyKey: key}}}
	}
}

func near(app, key string) demand {
	return func(p *corev1.Pod) {
		affinity(p).PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{LabelSelector: selects(app), TopologyKey: key}}}
	}
}

func spreadOver(key, app string) demand {
	return func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
			{MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selects(app)}}
	}
}

func port(number int32) demand {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: number}} }
}

func inZone(name string) demand {
	return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{zone: name} }
}

// demands compiles the pods of one cluster.
type demands struct{ *constraint.Compiler }

func newDemands() demands { return demands{constraint.NewCompiler(nil)} }

// of returns the constraints of a pod of an app.
func (d demands) of(app string, all ...demand) *constraint.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}},
	}
	for _, change := range all {
		change(p)
	}
	compiled, err := d.Compile(p)
	if err != nil {
		panic(err) // the tests write only valid ones
	}
	return compiled
}

// on returns the pod with constraints.
func (d demands) on(p cluster.Pod, app string, all ...demand) cluster.Pod {
	p.Demands = d.of(app, all...)
	return p
}

// disks are volumes of one CSI driver.
func disks(count int64) []constraint.Volumes {
	return []constraint.Volumes{{Driver: "disk", Count: count}}
}

// attaching returns a pod with a number of volumes that leaves its node.
func (d demands) attaching(p cluster.Pod, count int64) cluster.Pod {
	p.Demands = d.of(p.Name).Attaching(disks(count), true)
	return p
}

// attachesAtMost returns the node with a limit on the volumes of its pods.
func attachesAtMost(count int64, n cluster.Node) cluster.Node {
	n = located(n, "x")
	n.Host.Attaches = map[string]int64{"disk": count}
	return n
}

// filling returns a pod with ephemeral storage that leaves its node.
func (d demands) filling(p cluster.Pod, bytes int64) cluster.Pod {
	p.Demands = d.of(p.Name).Needing(bytes, true)
	return p
}

// onDisk returns the node with ephemeral storage, all of which is free.
func onDisk(bytes int64, n cluster.Node) cluster.Node {
	n = located(n, "x")
	n.Host.Disk = &constraint.Disk{Total: bytes, Free: bytes}
	return n
}

// located returns the node in a zone.
func located(n cluster.Node, in string) cluster.Node {
	n.Host = &constraint.Host{Name: n.Name, Labels: map[string]string{hostname: n.Name, zone: in}}
	return n
}

// drawDemands gives the pods of a cluster constraints, and nodes and flavors labels and taints. The vocabulary is
// small, so that selectors match often.
func drawDemands(t *rapid.T, s *cluster.State) {
	compiler := newDemands()
	apps := []string{"a", "b"}
	app := func() string { return rapid.SampledFrom(apps).Draw(t, "app") }
	key := func() string { return rapid.SampledFrom([]string{zone, hostname}).Draw(t, "topology key") }
	host := func(name string) *constraint.Host {
		if rapid.IntRange(0, 7).Draw(t, "bare") == 0 {
			return nil
		}
		h := &constraint.Host{Name: name, Labels: map[string]string{}}
		if name != "" {
			h.Labels[hostname] = name
		}
		if in := rapid.SampledFrom([]string{"x", "y", ""}).Draw(t, "zone"); in != "" {
			h.Labels[zone] = in
		}
		if rapid.Bool().Draw(t, "ephemeral storage is known") {
			total := rapid.Int64Range(0, 4).Draw(t, "disk")
			h.Disk = &constraint.Disk{Total: total, Free: rapid.Int64Range(0, total).Draw(t, "free")}
		}
		if rapid.Bool().Draw(t, "volumes are counted") {
			h.Attaches = map[string]int64{"disk": rapid.Int64Range(0, 3).Draw(t, "volumes")}
		}
		if rapid.IntRange(0, 9).Draw(t, "tainted") == 0 {
			h.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
		}
		return h
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		n.Host = host(n.Name)
		for j := range n.Pods {
			if rapid.IntRange(0, 4).Draw(t, "undemanding") == 0 {
				continue
			}
			all := rapid.SliceOfN(rapid.SampledFrom([]demand{
				apartFrom(app(), key()), near(app(), key()), spreadOver(key(), app()), port(80), inZone("x"), func(*corev1.Pod) {},
			}), 0, 2).Draw(t, "demands")
			n.Pods[j].Demands = compiler.of(app(), all...)
			if rapid.IntRange(0, 2).Draw(t, "has ephemeral storage") == 0 {
				n.Pods[j].Demands = n.Pods[j].Demands.Needing(rapid.Int64Range(1, 2).Draw(t, "ephemeral storage"), rapid.Bool().Draw(t, "goes"))
			}
			if rapid.IntRange(0, 2).Draw(t, "has volumes") == 0 {
				n.Pods[j].Demands = n.Pods[j].Demands.Attaching(disks(rapid.Int64Range(1, 2).Draw(t, "disks")), rapid.Bool().Draw(t, "leaves"))
			}
		}
	}
	for i := range s.Flavors {
		s.Flavors[i].Host = host("")
		s.Flavors[i].Most = rapid.Ptr(rapid.IntRange(0, 2), true).Draw(t, "most")
	}
}

func TestDrainsKeepWhatPodsDemand(t *testing.T) {
	d := newDemands()
	tests := []struct {
		name  string
		nodes []cluster.Node
		want  []string
	}{
		{"a label that only one node has",
			[]cluster.Node{located(node("a", d.on(job("p", 1, 1), "p", inZone("x"))), "x"), located(node("b", job("q", 8, 8)), "y"), located(node("c", job("r", 5, 5)), "x")},
			[]string{"drain a: p>c"}},
		{"none has it",
			[]cluster.Node{located(node("a", d.on(job("p", 1, 1), "p", inZone("x"))), "x"), located(node("b", job("q", 8, 8)), "y")},
			[]string{}},
		{"a node of which nothing is known admits all",
			[]cluster.Node{located(node("a", d.on(job("p", 1, 1), "p", inZone("x"))), "x"), node("b", job("q", 8, 8))},
			[]string{"drain a: p>b"}},
		{"away from one that is there",
			[]cluster.Node{located(node("a", d.on(job("p", 1, 1), "p", apartFrom("q", hostname))), "x"), located(node("b", d.on(job("q", 8, 8), "q")), "x"), located(node("c", job("r", 5, 5)), "x")},
			[]string{"drain a: p>c"}},
		{"one that is there keeps it away",
			[]cluster.Node{located(node("a", d.on(job("p", 1, 1), "p")), "x"), located(node("b", d.on(job("q", 8, 8), "q", apartFrom("p", hostname))), "x"), located(node("c", job("r", 5, 5)), "x")},
			[]string{"drain a: p>c"}},
		{"two of a node that must not be together",
			[]cluster.Node{located(node("a", d.on(job("p", 1, 1), "p"), d.on(job("q", 1, 1), "q", apartFrom("p", zone))), "x"), located(node("b", job("r", 8, 8)), "x"), located(node("c", job("s", 7, 7)), "y")},
			[]string{"drain a: p>b q>c"}},
		{"and have one zone",
			[]cluster.Node{located(node("a", d.on(job("p", 1, 1), "p"), d.on(job("q", 1, 1), "q", apartFrom("p", zone))), "x"), located(node("b", job("r", 8, 8)), "x"), located(node("c", job("s", 7, 7)), "x")},
			[]string{}},
		{"one that follows another, which chooses later",
			[]cluster.Node{located(node("a", d.on(job("p", 1, 1), "p", near("q", hostname)), d.on(job("q", 1, 1), "q")), "x"), located(node("b", job("r", 8, 8)), "x"), located(node("c", job("s", 7, 7)), "x")},
			[]string{"drain a: p>b q>b"}},
		{"it finds no room there",
			[]cluster.Node{located(node("a", d.on(job("p", 1, 1), "p", near("q", hostname)), d.on(job("q", 1, 1), "q")), "x"), located(node("b", job("r", 9, 9)), "x"), located(node("c", job("s", 8, 9)), "x")},
			[]string{}},
		{"a node that can attach no more volumes",
			[]cluster.Node{attachesAtMost(3, node("a", d.attaching(job("p", 1, 1), 1))), attachesAtMost(2, node("b", d.attaching(job("q", 8, 8), 2))), attachesAtMost(2, node("c", d.attaching(job("r", 5, 5), 1)))},
			[]string{"drain a: p>c"}},
		{"room for one volume of two",
			[]cluster.Node{attachesAtMost(3, node("a", d.attaching(job("o", 1, 1), 1), d.attaching(job("p", 1, 1), 1))), attachesAtMost(2, node("b", d.attaching(job("q", 8, 8), 1)))},
			[]string{}},
		{"ephemeral storage for one of two",
			[]cluster.Node{onDisk(9, node("a", d.filling(job("o", 1, 1), 2), d.filling(job("p", 1, 1), 2))), onDisk(7, node("b", d.filling(job("q", 8, 8), 4)))},
			[]string{}},
		{"ephemeral storage for both",
			[]cluster.Node{onDisk(9, node("a", d.filling(job("o", 1, 1), 2), d.filling(job("p", 1, 1), 2))), onDisk(8, node("b", d.filling(job("q", 8, 8), 4)))},
			[]string{"drain a: o>b p>b"}},
		{"a node of which the ephemeral storage is unknown",
			[]cluster.Node{onDisk(9, node("a", d.filling(job("p", 1, 1), 2))), located(node("b", job("q", 8, 8)), "x")},
			[]string{}},
		{"a node without the driver",
			[]cluster.Node{attachesAtMost(3, node("a", d.attaching(job("p", 1, 1), 1))), located(node("b", job("q", 8, 8)), "x")},
			[]string{}},
		{"the same port of a node",
			[]cluster.Node{located(node("a", d.on(job("p", 1, 1), "p", port(80))), "x"), located(node("b", d.on(job("q", 8, 8), "q", port(80))), "x"), located(node("c", job("r", 5, 5)), "x")},
			[]string{"drain a: p>c"}},
		{"spread over zones",
			[]cluster.Node{located(node("a", d.on(job("p", 1, 1), "p", spreadOver(zone, "p"))), "x"), located(node("b", d.on(job("q", 8, 8), "p")), "y"), located(node("c", job("r", 5, 5)), "x")},
			[]string{"drain a: p>c"}},
		{"a node that is emptied is there until its pods have left",
			[]cluster.Node{located(node("a", d.on(job("p", 1, 1), "p", spreadOver(hostname, "p"))), "x"), located(node("b", d.on(job("q", 8, 8), "p")), "y")},
			[]string{}},
		{"one that comes later makes the first out of place", // q may be with one p at most, and would be with two
			[]cluster.Node{
				located(node("a", lasting(d.on(job("q", 1, 1), "q", spreadOver(hostname, "p")), 2*time.Hour), d.on(job("p", 1, 1), "p")), "x"),
				located(node("b", d.on(job("r", 8, 8), "p")), "x"),
			},
			[]string{}},
		{"a target that the first drain takes up closes for the second",
			[]cluster.Node{
				located(node("a", d.on(job("p", 1, 1), "p", apartFrom("p", hostname))), "x"), located(node("b", d.on(job("q", 2, 2), "p", apartFrom("p", hostname))), "x"),
				located(node("c", job("r", 5, 5)), "x"),
			},
			[]string{"drain a: p>c"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s := state(tc.nodes...)
			if got := fmt.Sprint(lines(NewPlanner(underHalf).Plan(noon, s))); got != fmt.Sprint(tc.want) {
				t.Errorf("plan %s, want %s", got, tc.want)
			}
		})
	}
}

func TestReplacementsKeepWhatPodsDemand(t *testing.T) {
	d := newDemands()
	in := func(f cluster.Flavor, name string) cluster.Flavor {
		f.Host = located(node("new"), name).Host
		return f
	}
	tests := []struct {
		name    string
		pod     cluster.Pod
		flavors []cluster.Flavor
		want    string
	}{
		{"any", job("p", 3, 3), []cluster.Flavor{in(flavor("x", 5, 5, 10), "x")}, "[drain a: x for p]"},
		{"a label", d.on(job("p", 3, 3), "p", inZone("y")), []cluster.Flavor{in(flavor("x", 5, 5, 10), "x"), in(flavor("y", 5, 5, 20), "y")}, "[drain a: y for p]"},
		{"near one that stays", d.on(job("p", 3, 3), "p", near("q", zone)), []cluster.Flavor{in(flavor("x", 5, 5, 10), "x"), in(flavor("y", 5, 5, 20), "y")}, "[drain a: y for p]"},
		{"sold out", job("p", 3, 3), []cluster.Flavor{most(flavor("x", 5, 5, 10), 0), flavor("y", 5, 5, 20)}, "[drain a: y for p]"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s := state(located(node("a", tc.pod), "y"), located(node("b", d.on(fixed(job("q", 9, 9)), "q")), "y"))
			s.Flavors = tc.flavors
			if got := fmt.Sprint(lines(NewPlanner(DrainConfig{Threshold: 0.5, Replace: true}).Plan(noon, s))); got != tc.want {
				t.Errorf("plan %s, want %s", got, tc.want)
			}
		})
	}
}

func TestNoMoreMachinesReplaceOthersThanCanBeBought(t *testing.T) {
	s := state(node("a", job("p", 3, 3)), node("b", job("q", 3, 3)), node("c", job("r", 3, 3)))
	for i := range s.Nodes {
		s.Nodes[i].MaxPods = new(int64(1))
	}
	s.Flavors = []cluster.Flavor{most(flavor("x", 5, 5, 10), 2)}
	if got := len(NewPlanner(DrainConfig{Threshold: 0.5, Replace: true}).Plan(noon, s).Drains); got != 2 {
		t.Errorf("%d machines are replaced, 2 can be bought", got)
	}
}
