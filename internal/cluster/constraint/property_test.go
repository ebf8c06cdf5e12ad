package constraint_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/test/draw"
)

// world is a tracker together with a plain list of its hosts and pods.
type world struct {
	tracker *constraint.Tracker
	hosts   map[int]*constraint.Host // by id
	placed  []placed
	nextID  int
}

type placed struct {
	pod      *corev1.Pod // as stored, bound
	compiled *constraint.Pod
	host     int
}

func (w *world) clone() *world {
	c := &world{tracker: w.tracker.Clone(), hosts: map[int]*constraint.Host{}, placed: slices.Clone(w.placed), nextID: w.nextID}
	for id, h := range w.hosts {
		c.hosts[id] = h
	}
	return c
}

func (w *world) addHost(t *rapid.T) {
	h := drawHost(t, hostName(w.nextID))
	w.nextID++
	id := w.tracker.AddHost(h)
	if w.hosts[id] != nil {
		t.Fatalf("AddHost gave id %d, which is in use", id)
	}
	w.hosts[id] = h
}

func (w *world) removeHost(t *rapid.T) {
	id := rapid.SampledFrom(w.ids()).Draw(t, "host to remove")
	w.tracker.RemoveHost(id)
	delete(w.hosts, id)
	w.placed = slices.DeleteFunc(w.placed, func(p placed) bool { return p.host == id })
}

func (w *world) place(stored *corev1.Pod, compiled *constraint.Pod, host int) {
	bound := stored.DeepCopy()
	bound.Spec.NodeName = w.hosts[host].Name
	w.tracker.Place(compiled, host)
	w.placed = append(w.placed, placed{bound, compiled, host})
}

func (w *world) unplace(t *rapid.T) {
	i := rapid.IntRange(0, len(w.placed)-1).Draw(t, "pod to remove")
	w.tracker.Unplace(w.placed[i].compiled, w.placed[i].host)
	w.placed = slices.Delete(w.placed, i, i+1)
}

func (w *world) ids() []int {
	var ids []int
	for id := range w.hosts {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// show sets the world as the oracle's cluster.
func (w *world) show(o *oracle) {
	var nodes []*corev1.Node
	for _, id := range w.ids() {
		nodes = append(nodes, node(w.hosts[id]))
	}
	var pods []*corev1.Pod
	for i, p := range w.placed {
		pod := p.pod.DeepCopy()
		pod.Name = fmt.Sprintf("p%d", i)
		pod.UID = types.UID(pod.Name)
		pods = append(pods, pod)
	}
	o.see(nodes, pods)
}

// comparison counts the compared results by the plugin that rejected.
type comparison struct {
	oracle   *oracle
	answers  int
	refusals map[string]int
}

// ask compares the result for every host with kube-scheduler's, and returns the hosts that accept the pod.
func (c *comparison) ask(t *rapid.T, w *world, stored *corev1.Pod, compiled *constraint.Pod) (allowed []int) {
	w.show(c.oracle)
	static, dynamic := c.oracle.refusals(t, c.oracle.static, stored), c.oracle.refusals(t, c.oracle.dynamic, stored)
	for _, id := range w.ids() {
		h := w.hosts[id]
		admits, check := compiled.Admits(h), w.tracker.Check(compiled, id)
		// kube-scheduler rejects other node names that the pod requires before its filters run.
		if plugin(admits) != static[h.Name] && (admits == "" || static[h.Name] != names.NodeAffinity) {
			t.Fatalf("pod %+v\non host %+v:\nAdmits says %q, kube-scheduler %q", stored, h, admits, static[h.Name])
		}
		if plugin(check) != dynamic[h.Name] {
			t.Fatalf("pod %+v\non host %+v:\nCheck says %q, kube-scheduler %q", stored, h, check, dynamic[h.Name])
		}
		if admits == "" && check == "" {
			allowed = append(allowed, id)
		}
		c.answers++
		c.refusals[static[h.Name]]++
		c.refusals[dynamic[h.Name]]++
	}
	return allowed
}

// TestAnswersAreThoseOfTheSchedulersOwnFilters compares every result for every host with kube-scheduler's plugins,
// while pods and hosts are added and removed, in a tracker and in its clones.
func TestAnswersAreThoseOfTheSchedulersOwnFilters(t *testing.T) {
	c := &comparison{oracle: newOracle(t, knownNamespaces), refusals: map[string]int{}}
	property := func(t *rapid.T) {
		templates := make([]*corev1.Pod, rapid.IntRange(1, 12).Draw(t, "templates"))
		for i := range templates {
			templates[i] = drawPod(t)
		}
		compiler := constraint.NewCompiler(knownNamespaces)
		if rapid.Bool().Draw(t, "pods known beforehand") {
			compiler = constraint.NewCompilerFor(knownNamespaces, templates)
		}
		compiler.ResolvesNamespaces, compiler.SpreadsAmongAll = resolvesNamespaces, spreadsAmongAll
		worlds := []*world{{tracker: constraint.NewTracker(), hosts: map[int]*constraint.Host{}}}
		for range rapid.IntRange(2, 5).Draw(t, "hosts") {
			worlds[0].addHost(t)
		}
		for range rapid.IntRange(40, 80).Draw(t, "steps") {
			w := worlds[rapid.IntRange(0, len(worlds)-1).Draw(t, "world")]
			switch what := oneOf(t, "step", "pod", "pod", "pod", "pod", "unplace", "add host", "remove host", "clone"); {
			case what == "unplace" && len(w.placed) > 0:
				w.unplace(t)
			case what == "add host" && len(w.hosts) < 7:
				w.addHost(t)
			case what == "remove host" && len(w.hosts) > 0:
				w.removeHost(t)
			case what == "clone" && len(worlds) < 3:
				worlds = append(worlds, w.clone())
			default:
				pod := rapid.SampledFrom(templates).Draw(t, "template")
				stored := served(t, pod)
				compiled := compile(t, compiler, pod, stored)
				allowed := c.ask(t, w, stored, compiled)
				if len(allowed) == 0 || oneIn(t, "placed anyhow", 8) { // like a pod that was placed before its neighbour
					allowed = w.ids()
				}
				if len(allowed) > 0 {
					w.place(stored, compiled, rapid.SampledFrom(allowed).Draw(t, "host"))
				}
			}
		}
	}
	draw.Fixed(t, 30, property)
	t.Logf("%d answers of each kind compared: %v", c.answers, c.refusals)
	for _, name := range reasons {
		if c.refusals[name] == 0 {
			t.Errorf("%s never refused: the cases drawn do not test it", name)
		}
	}
	rapid.Check(t, property)
}

// reasons maps the first words of a reason to its plugin.
var reasons = map[string]string{
	"unschedulable":                     names.NodeUnschedulable,
	"node name ":                        names.NodeName,
	"untolerated taint ":                names.TaintToleration,
	"node selector ":                    names.NodeAffinity,
	"node affinity ":                    names.NodeAffinity,
	"host port ":                        names.NodePorts,
	"topology spread ":                  names.PodTopologySpread,
	"pod affinity ":                     names.InterPodAffinity,
	"pod anti-affinity on ":             names.InterPodAffinity,
	"anti-affinity of a placed pod on ": names.InterPodAffinity,
}

func plugin(reason string) string {
	for start, name := range reasons {
		if strings.HasPrefix(reason, start) {
			return name
		}
	}
	return reason
}

// compile compiles the pod as its author wrote it and as the API server stored it; both must give the same result.
func compile(t failer, c *constraint.Compiler, pod, stored *corev1.Pod) *constraint.Pod {
	compiled, err := c.Compile(pod)
	if err != nil {
		t.Fatalf("compile %+v: %v", pod, err)
	}
	again, err := c.Compile(stored)
	if err != nil {
		t.Fatalf("compile %+v as stored: %v", stored, err)
	}
	if again != compiled {
		t.Fatalf("pod %+v compiled differently from how it is stored: %+v", pod, stored)
	}
	return compiled
}
