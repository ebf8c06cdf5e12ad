package plugins_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/test/fixtures"
	"supercargo.dev/supercargo/test/kit/testfile"
	"supercargo.dev/supercargo/test/scheduling"
)

// shipped returns an installed configuration, unchanged.
func shipped(t *testing.T, name string) string {
	t.Helper()
	text := testfile.Read(t, filepath.Join("..", "manifests", "scheduler", "config", name))
	return string(text)
}

var (
	app = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	ssd = corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "disk", Operator: corev1.NodeSelectorOpExists}}}
)

func prefersSSD(p *corev1.Pod) {
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1, Preference: ssd}}}}
}

// apart gives a pod required or preferred anti-affinity to the pods of the app by host.
func apart(required bool) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		term := corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: app}
		anti := &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: term}}}
		if required {
			anti = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}
		}
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: anti}
	}
}

func web(p *corev1.Pod) { p.Labels["app"] = "web" }

// preference is a preference for node-4 among five equally good nodes.
type preference struct {
	name string
	pod  func(*corev1.Pod)
	node func(i int, n *corev1.Node)
	// running returns the pods on nodes 0 to 3, and on no other if it returns nil.
	running func(node int) *corev1.Pod
	// prepare changes the cluster before the pod is created.
	prepare func(t *testing.T, s *scheduling.Scheduler)
}

// alike returns a pod without requests, so that its node is no fuller.
func alike(change ...func(*corev1.Pod)) func(int) *corev1.Pod {
	return func(i int) *corev1.Pod {
		if i == 4 {
			return nil
		}
		return fixtures.Pod(fmt.Sprintf("running-%d", i), 0, 0, change...)
	}
}

var preferences = []preference{
	{name: "preferred node affinity", pod: prefersSSD, node: func(i int, n *corev1.Node) {
		if i == 4 {
			n.Labels["disk"] = "ssd"
		}
	}},
	{name: "soft spreading", pod: spread(corev1.ScheduleAnyway), running: alike(web), node: func(i int, n *corev1.Node) {
		n.Labels[corev1.LabelTopologyZone] = fmt.Sprint(i)
	}},
	{name: "soft spreading by default, of the pods of a Service", pod: web, running: alike(web), prepare: serveWeb},
	{name: "preferred anti-affinity", pod: apart(false), running: alike(web)},
	{name: "preferred anti-affinity of the pods that run", pod: web, running: alike(apart(false))},
	{name: "an image", node: func(i int, n *corev1.Node) {
		n.Status.Images = []corev1.ContainerImage{{Names: []string{"other:latest"}, SizeBytes: 900 << 20}}
		if i == 4 {
			n.Status.Images[0].Names = []string{"pause:latest"}
		}
	}},
	{name: "PreferNoSchedule", node: func(i int, n *corev1.Node) {
		if i != 4 {
			n.Spec.Taints = []corev1.Taint{{Key: "soon-gone", Effect: corev1.TaintEffectPreferNoSchedule}}
		}
	}},
}

// serveWeb lets the scheduler observe a Service of the app.
func serveWeb(t *testing.T, s *scheduling.Scheduler) {
	t.Helper()
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: corev1.ServiceSpec{Selector: app.MatchLabels}}
	if err := s.Informers().Core().V1().Services().Informer().GetStore().Add(service); err != nil {
		t.Fatal(err)
	}
}

// TestSoftPreferencesChooseAmongNodesThatPackEquallyWell runs the installed profiles: in a strict profile, preferences
// break ties, whether nodes are narrowed or not.
func TestSoftPreferencesChooseAmongNodesThatPackEquallyWell(t *testing.T) {
	for name, configuration := range map[string]string{
		"shipped": shipped(t, "kube-scheduler.yaml"), "in order": shipped(t, "in-order.yaml"), "all nodes": neverNarrow,
	} {
		for _, p := range preferences {
			t.Run(name+"/"+p.name, func(t *testing.T) {
				s := fiveNodes(t, configuration, p)
				changes := []func(*corev1.Pod){}
				if p.pod != nil {
					changes = append(changes, p.pod)
				}
				for _, batch := range []bool{false, true} {
					if batch && p.running != nil { // running services move nodes into another time bin
						continue
					}
					if batch {
						changes = append(changes, fixtures.Batch("5m"))
					}
					pod := fixtures.Pod(fmt.Sprintf("prefers-batch-%t", batch), 100, gi, changes...)
					if a := s.Attempt(pod); a.Node != "node-4" {
						t.Errorf("batch %t: the pod goes to %q (%v), want node-4", batch, a.Node, a.Err)
					}
				}
				if p.pod == nil { // the preference is not of the pod: all pods share it
					return
				}
				place(t, s, "node-0", fixtures.Pod("indifferent", 100, gi))
			})
		}
	}
}

func fiveNodes(t *testing.T, configuration string, p preference) *scheduling.Scheduler {
	t.Helper()
	s := scheduling.NewScheduler(t, configuration, clock.RealClock{})
	for _, i := range []int{2, 4, 0, 3, 1} {
		n := fixtures.Node(fmt.Sprintf("node-%d", i), 4000, 4*gi)
		n.Labels[corev1.LabelTopologyZone] = "a"
		if p.node != nil {
			p.node(i, n)
		}
		s.AddNode(n)
		if p.running == nil {
			continue
		}
		if pod := p.running(i); pod != nil {
			pod.Spec.NodeName = n.Name
			if err := s.AddPod(pod); err != nil {
				t.Fatal(err)
			}
		}
	}
	if p.prepare != nil {
		p.prepare(t, s)
	}
	return s
}

// TestPreferencesHoldHoweverOftenNodesChange updates the status of the node with the image repeatedly, adds and removes
// other nodes with the image, and then removes the image.
func TestPreferencesHoldHoweverOftenNodesChange(t *testing.T) {
	var image preference
	for _, p := range preferences {
		if p.name == "an image" {
			image = p
		}
	}
	s := fiveNodes(t, shipped(t, "kube-scheduler.yaml"), image)
	with := fixtures.Node("node-4", 4000, 4*gi)
	image.node(4, with)
	for i := range 12 {
		if a := s.Attempt(fixtures.Pod("p", 100, gi)); a.Node != "node-4" {
			t.Fatalf("after %d changes the pod goes to %q (%v), want node-4", i, a.Node, a.Err)
		}
		changed := with.DeepCopy()
		changed.Annotations = map[string]string{"heartbeat": fmt.Sprint(i)}
		s.UpdateNode(with, changed)
		with = changed
		if i%2 == 0 {
			continue
		}
		other := fixtures.Node("comes-and-goes", 4000, 8*gi)
		image.node(4, other)
		s.AddNode(other)
		s.Attempt(fixtures.Pod("p", 100, gi))
		if err := s.RemoveNode(other); err != nil {
			t.Fatal(err)
		}
	}
	without := with.DeepCopy()
	without.Status.Images = nil
	s.UpdateNode(with, without)
	placeNarrowed(t, s, "node-0", fixtures.Pod("p", 100, gi))
}

// TestPreferencesAreNotAskedWhereOneNodePacksBest limits the cost of preferences to ties.
func TestPreferencesAreNotAskedWhereOneNodePacksBest(t *testing.T) {
	for _, p := range preferences {
		t.Run(p.name, func(t *testing.T) {
			s := fiveNodes(t, shipped(t, "kube-scheduler.yaml"), p)
			s.AddNode(fixtures.Node("tight", 4000, 2*gi))
			changes := []func(*corev1.Pod){}
			if p.pod != nil {
				changes = append(changes, p.pod)
			}
			if a := place(t, s, "tight", fixtures.Pod("prefers", 100, gi, changes...)); a.Evaluated != 1 {
				t.Errorf("%d nodes were checked, want 1", a.Evaluated)
			}
		})
	}
}

// TestPodsWithoutPreferencesGoByName covers pods of every kind that is narrowed and of some that are not.
func TestPodsWithoutPreferencesGoByName(t *testing.T) {
	everywhere := func(_ int, n *corev1.Node) {
		n.Status.Images = []corev1.ContainerImage{{Names: []string{"pause:latest"}, SizeBytes: 900 << 20}}
		n.Spec.Taints = []corev1.Taint{{Key: "soon-gone", Effect: corev1.TaintEffectPreferNoSchedule}}
	}
	for name, configuration := range map[string]string{"shipped": shipped(t, "kube-scheduler.yaml"), "all nodes": neverNarrow} {
		for _, change := range []func(*corev1.Pod){
			func(*corev1.Pod) {}, fixtures.Batch("5m"), web,
			func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "a"} },
			func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} },
		} {
			s := fiveNodes(t, configuration, preference{node: everywhere})
			t.Run(name, func(t *testing.T) { place(t, s, "node-0", fixtures.Pod("p", 100, gi, change)) })
		}
	}
}

// TestAProfileWithoutAScorePluginKnowsNoSuchPreference has only names to break ties.
func TestAProfileWithoutAScorePluginKnowsNoSuchPreference(t *testing.T) {
	for i, plugin := range []string{"NodeAffinity", "PodTopologySpread", "PodTopologySpread", "InterPodAffinity", "InterPodAffinity", "ImageLocality", "TaintToleration"} {
		p := preferences[i]
		t.Run(p.name, func(t *testing.T) {
			configuration := strings.Replace(shipped(t, "in-order.yaml"), "    plugins:\n", "    plugins:\n      score: {disabled: [{name: "+plugin+"}]}\n", 1)
			s := fiveNodes(t, configuration, p)
			changes := []func(*corev1.Pod){}
			if p.pod != nil {
				changes = append(changes, p.pod)
			}
			place(t, s, "node-0", fixtures.Pod("p", 100, gi, changes...))
		})
	}
}
