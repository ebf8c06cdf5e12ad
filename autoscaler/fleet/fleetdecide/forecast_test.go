package fleetdecide

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/test/fixtures/states"
)

// TestForecastsAreThoseOfAClusterThatIsPlayed compares the pods still pending at the end, and the room left, with a
// simulation that recomputes everything at each event.
func TestForecastsAreThoseOfAClusterThatIsPlayed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := states.Draw(t, true)
		if seed := rapid.Uint64().Draw(t, "stream"); seed%2 == 1 {
			s = stream(seed)
		}
		gone := map[string]bool{}
		for i := range s.Nodes {
			if rapid.IntRange(0, 5).Draw(t, "gone") == 0 {
				gone[s.Nodes[i].Name] = true
			}
		}
		drawGuesses(t, s)
		ahead := time.Duration(rapid.Int64Range(0, int64(12*minute)).Draw(t, "ahead"))
		before := cloned(s)
		var got []string
		f := newForecast(s, ahead, gone)
		for _, w := range f.run() {
			got = append(got, fmt.Sprintf("%s since %v", w.pod.Name, w.since))
		}
		for _, n := range f.nodes {
			got = append(got, fmt.Sprintf("%s: %d pods, %+v free", n.Name, n.pods, n.Free))
		}
		if diff := gocmp.Diff(before, s); diff != "" {
			t.Fatalf("the cluster was modified:\n%s", diff)
		}
		if diff := gocmp.Diff(play(s, ahead, gone), got); diff != "" {
			t.Fatalf("who waits (-twin +got):\n%s", diff)
		}
	})
}

// TestVolumesOfPodsThatEndAreAttachedForOthers has a node that can attach one volume, and a pod with one that ends.
func TestVolumesOfPodsThatEndAreAttachedForOthers(t *testing.T) {
	demands, err := constraint.NewCompiler(nil).Compile(&corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	demands = demands.Attaching([]constraint.Volumes{{Driver: "disk", Count: 1}}, false)
	pod := func(name string, runtime time.Duration) cluster.Pod {
		return cluster.Pod{Item: packing.Item{Name: name, Size: packing.Size{MilliCPU: 1, MemoryBytes: 1}, Runtime: runtime}, Class: class.Batch, Demands: demands}
	}
	s := &cluster.State{Pending: []cluster.Pod{pod("p", 5*minute), pod("q", 5*minute)}, Nodes: []cluster.Node{{
		Name: "n", Class: class.Any, Phase: cluster.Ready, Capacity: packing.Size{MilliCPU: 9, MemoryBytes: 9}, Pods: []cluster.Pod{pod("ends", minute)},
		Host: &constraint.Host{Attaches: map[string]int64{"disk": 1}},
	}}}
	for ahead, want := range map[time.Duration]int{30 * time.Second: 2, 2 * minute: 1, 7 * minute: 0} {
		if got := len(newForecast(s, ahead, nil).run()); got != want {
			t.Errorf("%d pods wait after %v, want %d", got, ahead, want)
		}
	}
}

// drawGuesses turns the runtime of some pods into a guess.
func drawGuesses(t *rapid.T, s *cluster.State) {
	draw := func(pods []cluster.Pod) {
		for i := range pods {
			pods[i].Guessed = rapid.IntRange(0, 3).Draw(t, "guessed") == 0
		}
	}
	draw(s.Pending)
	for i := range s.Nodes {
		draw(s.Nodes[i].Pods)
	}
}

// stream is a cluster in which small pods arrive, so that each can choose among machines that end at different times or
// never. Its distribution is uniform, unlike that of rapid.
func stream(seed uint64) *cluster.State {
	r := rand.New(rand.NewPCG(seed, 1))
	pod := func(name string) cluster.Pod {
		p := job(name, 0, time.Duration(r.Int64N(int64(15*minute))))
		p.Size = size(1+r.Int64N(4), 1+r.Int64N(4))
		if r.IntN(5) == 0 {
			p.Class, p.Runtime = class.Service, 0
		}
		return p
	}
	s := state(nil)
	for i := range 5 {
		n := node(fmt.Sprintf("n%d", i))
		for j := range 1 + r.IntN(2) {
			n.Pods = append(n.Pods, pod(fmt.Sprintf("n%d-p%d", i, j)))
		}
		s.Nodes = append(s.Nodes, n)
	}
	for i := range 5 {
		s.Recent = append(s.Recent, ago(pod(fmt.Sprintf("r%d", i)), time.Duration(r.Int64N(int64(2*minute)))))
	}
	s.Observed = 7 * minute
	return s
}

// played is a cluster in a simulation, and stay a pod on one of its nodes.
type played struct {
	nodes    []*playedNode
	waiting  []waiter
	arrivals []waiter
	cycle    time.Duration
}

type playedNode struct {
	cluster.Node
	open bool
	on   []stay
}

type stay struct {
	pod cluster.Pod
	end time.Duration // not used if the runtime is a guess
}

func (s *stay) ends(now time.Duration) bool { return s.end <= now && !s.pod.Guessed }

const never time.Duration = math.MaxInt64

// play does what the comment of forecast describes, step by step.
func play(s *cluster.State, ahead time.Duration, gone map[string]bool) []string {
	c := newPlayed(s, ahead, gone)
	for _, n := range c.nodes {
		c.fill(n, 0)
	}
	for now := c.next(-1); now <= ahead; now = c.next(now) {
		for _, n := range c.nodes {
			n.open = n.open || n.Phase == cluster.Ordered && n.Due <= now
			// Overdue pods end at the same time, one node after the other.
			for at := c.ended(n, now); at >= 0; at = c.ended(n, now) {
				n.on = slices.Delete(n.on, at, at+1)
				c.fill(n, now)
			}
			if n.Due == now {
				c.fill(n, now)
			}
		}
		for _, a := range c.arrivals {
			if a.since == now {
				c.arrive(a)
			}
		}
	}
	return c.names()
}

func newPlayed(s *cluster.State, ahead time.Duration, gone map[string]bool) *played {
	c := &played{cycle: s.ScalingInterval, arrivals: comings(s, ahead)}
	for _, n := range s.Nodes {
		if n.Phase == cluster.Leaving || gone[n.Name] {
			continue
		}
		p := &playedNode{Node: n, open: n.Phase == cluster.Ready}
		for _, pod := range n.Pods {
			end := pod.Runtime
			switch {
			case pod.Class == class.Service:
				end = never
			case pod.Runtime == 0:
				end = ahead / 2
			}
			p.on = append(p.on, stay{pod, end})
		}
		c.nodes = append(c.nodes, p)
	}
	for i := range s.Pending {
		c.waiting = append(c.waiting, waiter{pod: &s.Pending[i]})
	}
	return c
}

// next returns the first time after now at which a pod ends or arrives or a node becomes ready.
func (c *played) next(now time.Duration) time.Duration {
	next := never
	consider := func(at time.Duration) {
		if at > now {
			next = min(next, at)
		}
	}
	for _, n := range c.nodes {
		if n.Phase == cluster.Ordered {
			consider(n.Due)
		}
		for _, p := range n.on {
			consider(p.end)
		}
	}
	for _, a := range c.arrivals {
		consider(a.since)
	}
	return next
}

func (c *played) ended(n *playedNode, now time.Duration) int {
	return slices.IndexFunc(n.on, func(p stay) bool { return p.ends(now) })
}

func comings(s *cluster.State, ahead time.Duration) []waiter {
	var all []waiter
	window := min(s.Lag, s.Observed)
	for i := range s.Recent {
		for again := 1; window > 0 && s.Recent[i].Waited < window; again++ {
			at := time.Duration(again)*window - s.Recent[i].Waited
			if at > ahead {
				break
			}
			all = append(all, waiter{&s.Recent[i], at})
		}
	}
	return all
}

func (c *played) names() []string {
	var all []string
	for _, w := range c.inOrder() {
		all = append(all, fmt.Sprintf("%s since %v", w.pod.Name, w.since))
	}
	for _, n := range c.nodes {
		all = append(all, fmt.Sprintf("%s: %d pods, %+v free", n.Name, len(n.on), n.free().Free()))
	}
	return all
}

func (c *played) inOrder() []waiter {
	key := func(w waiter) []int64 {
		if w.pod.Class == class.Service {
			return []int64{0, -w.pod.Size.MemoryBytes, -w.pod.Size.MilliCPU}
		}
		return []int64{1, -int64(w.pod.Runtime)}
	}
	all := slices.Clone(c.waiting)
	slices.SortFunc(all, func(a, b waiter) int {
		return cmp.Or(slices.Compare(key(a), key(b)), strings.Compare(a.pod.Name, b.pod.Name), cmp.Compare(a.since, b.since))
	})
	return all
}

func (c *played) fill(n *playedNode, now time.Duration) {
	for _, w := range c.inOrder() {
		if n.holds(w.pod) {
			n.take(w.pod, now)
			c.waiting = slices.DeleteFunc(c.waiting, func(o waiter) bool { return o == w })
		}
	}
}

func (c *played) arrive(w waiter) {
	var choice *playedNode
	var best []int64
	for _, n := range c.nodes {
		if !n.holds(w.pod) {
			continue
		}
		free := n.free()
		key := []int64{0, 0, free.Free().MemoryBytes, free.Free().MilliCPU}
		if w.pod.Class == class.Batch {
			own, its := int64(w.pod.Runtime/c.cycle), n.bin(w.since, c.cycle)
			if key[1] = its; its < own {
				key[0], key[1] = 1, -its
			}
		}
		if choice == nil || slices.Compare(key, best) < 0 { // nodes are ordered by name
			choice, best = n, key
		}
	}
	if choice == nil {
		c.waiting = append(c.waiting, w)
		return
	}
	choice.take(w.pod, w.since)
}

// free returns the free room of a node.
func (n *playedNode) free() *cluster.Node {
	now := n.Node
	now.Pods = nil
	for _, p := range n.on {
		now.Pods = append(now.Pods, p.pod)
	}
	return &now
}

func (n *playedNode) holds(p *cluster.Pod) bool {
	room := n.free().Free()
	return n.open && (n.Class == class.Any || n.Class == p.Class) && (p.Arch == "" || p.Arch == n.Arch) &&
		p.Size.MilliCPU <= room.MilliCPU && p.Size.MemoryBytes <= room.MemoryBytes && (n.MaxPods == nil || int64(len(n.on)) < *n.MaxPods)
}

func (n *playedNode) take(p *cluster.Pod, now time.Duration) {
	end := never
	if p.Class == class.Batch {
		end = now + p.Runtime
	}
	n.on = append(n.on, stay{*p, end})
}

func (n *playedNode) bin(now, cycle time.Duration) int64 {
	bin := int64(0)
	for _, p := range n.on {
		switch {
		case p.end == never:
			bin = math.MaxInt64
		case p.pod.Runtime > 0: // an overdue one counts as ending now
			bin = max(bin, int64((p.end-now)/cycle))
		}
	}
	return bin
}
