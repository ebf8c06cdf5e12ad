package purchase

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/autoscaler/purchase/mix"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/test/draw"
)

func onPort(port int32) corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{HostPort: port}}}}}
}

// TestTheBoundCountsMachinesForPodsThatKeepApart checks the least price of the machines.
func TestTheBoundCountsMachinesForPodsThatKeepApart(t *testing.T) {
	big, small := flavor("big", 100, 100, 100), flavor("small", 10, 10, 12)
	some := func(n int, cpu int64, app string, spec corev1.PodSpec) func(demands) []Pod {
		return func(c demands) []Pod {
			var pods []Pod
			for i := range n {
				p := pod(fmt.Sprint(app, i), cpu, cpu)
				p.Demands = c.of(app, spec)
				pods = append(pods, p)
			}
			return pods
		}
	}
	tests := []struct {
		name    string
		pods    []func(demands) []Pod
		nodes   []ExistingNode
		flavors []Flavor
		want    int64
	}{
		{"anti-affinity: a machine for each", []func(demands) []Pod{some(20, 1, "x", apartFrom("x", perHost))}, nil, []Flavor{big, small}, 240},
		{"a port of the host: a machine for each", []func(demands) []Pod{some(20, 1, "x", onPort(80))}, nil, []Flavor{big, small}, 240},
		{"the larger of two sets decides", []func(demands) []Pod{some(20, 1, "x", apartFrom("x", perHost)), some(13, 1, "y", apartFrom("y", perHost))},
			nil, []Flavor{big, small}, 240},
		{"sets of one size share machines", []func(demands) []Pod{some(20, 1, "x", apartFrom("x", perHost)), some(20, 1, "y", apartFrom("y", perHost))},
			nil, []Flavor{big, small}, 240},
		{"others fill them up", []func(demands) []Pod{some(20, 1, "x", apartFrom("x", perHost)), some(180, 1, "z", corev1.PodSpec{})}, nil, []Flavor{small}, 240},
		{"others need more", []func(demands) []Pod{some(20, 1, "x", apartFrom("x", perHost)), some(230, 1, "z", corev1.PodSpec{})}, nil, []Flavor{small}, 300},
		{"others make large machines worth it", []func(demands) []Pod{some(5, 1, "x", apartFrom("x", perHost)), some(495, 1, "z", corev1.PodSpec{})},
			nil, []Flavor{big, small}, 500},
		{"anti-affinity to others alone: no machine more", []func(demands) []Pod{some(20, 1, "x", apartFrom("y", perHost))}, nil, []Flavor{big, small}, 24},
		{"nodes hold one each", []func(demands) []Pod{some(20, 1, "x", apartFrom("x", perHost))},
			[]ExistingNode{standing("n", 100, 100, -1), standing("o", 100, 100, -1)}, []Flavor{big, small}, 216},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newDemands()
			r := Request{Nodes: tt.nodes, Flavors: tt.flavors}
			for _, draw := range tt.pods {
				r.Pods = append(r.Pods, draw(c)...)
			}
			got := Supercargo(r)
			if len(got.Unplaceable) > 0 {
				t.Fatalf("%d pods are left out", len(got.Unplaceable))
			}
			// Prices are divided within a tolerance, so a bound may be slightly below the exact one.
			if least := got.LowerBoundMicroDollarsPerHour; least > tt.want || least < tt.want-1 {
				t.Errorf("machines cost at least %d, want %d (the plan's cost %d)", least, tt.want, got.MicroDollarsPerHour)
			}
		})
	}
}

// TestTheBoundCountsMoreExpensiveZones checks the least price of the machines. There is a full node in each zone.
func TestTheBoundCountsMoreExpensiveZones(t *testing.T) {
	zones := []Flavor{zoned(flavor("cheap", 10, 10, 100), "a"), zoned(flavor("dear", 10, 10, 150), "b"), zoned(flavor("dearest", 10, 10, 200), "c")}
	atLeast := func(domains int32) corev1.PodSpec {
		spec := spreadOver("x", perZone)
		spec.TopologySpreadConstraints[0].MinDomains = &domains
		return spec
	}
	tests := []struct {
		name  string
		pods  int
		spec  corev1.PodSpec
		nodes []ExistingNode
		want  int64
	}{
		{"a spread over three zones", 30, spreadOver("x", perZone), fullNodes(), 450},
		{"no more than eleven in each zone", 31, spreadOver("x", perZone), fullNodes(), 455},
		{"over two zones", 30, spreadOver("x", perZone), fullNodes()[:2], 375},
		{"over the one that there is", 30, spreadOver("x", perZone), fullNodes()[:1], 300},
		{"over as many as there are: none", 30, spreadOver("x", perZone), nil, 300},
		{"over at least three", 30, atLeast(3), nil, 450},
		{"apart by zone", 3, apartFrom("x", perZone), nil, 150},
		{"no demand", 30, corev1.PodSpec{}, fullNodes(), 300},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newDemands()
			r := Request{Nodes: tt.nodes, Flavors: zones}
			for i := range tt.pods {
				p := pod(fmt.Sprintf("p%02d", i), 1, 1)
				p.Demands = c.of("x", tt.spec)
				r.Pods = append(r.Pods, p)
			}
			least := mix.Least(newBoundInput(sorted(r.Pods, Services), r.Flavors, r.Nodes, r.Options), nil)
			// Prices are divided within a tolerance, so a bound may be slightly below the exact one.
			if least > tt.want || least < tt.want-2 {
				t.Errorf("machines cost at least %d, want %d", least, tt.want)
			}
			if got := Supercargo(r); got.LowerBoundMicroDollarsPerHour < tt.want-2 {
				t.Errorf("the bound is %d, want %d", got.LowerBoundMicroDollarsPerHour, tt.want)
			}
		})
	}
}

// drawFew draws a request so small that all plans can be tried.
func drawFew(t *rapid.T) Request {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 5))
	c := newDemands()
	zones := []string{"a", "b", "c"}
	specs := []func(app string) corev1.PodSpec{
		func(app string) corev1.PodSpec { return apartFrom(app, perHost) },
		func(string) corev1.PodSpec { return onPort(80) },
		func(app string) corev1.PodSpec { return spreadOver(app, perZone) },
		func(app string) corev1.PodSpec { return apartFrom(app, perZone) },
		func(string) corev1.PodSpec { return corev1.PodSpec{} },
	}
	var demanded [3]*constraint.Pod
	for i := range demanded {
		app := fmt.Sprint(i)
		spec := specs[r.IntN(len(specs))](app)
		for j := range spec.TopologySpreadConstraints {
			if domains := r.Int32N(4); domains > 0 {
				spec.TopologySpreadConstraints[j].MinDomains = &domains
			}
		}
		demanded[i] = c.of(app, spec)
	}
	var req Request
	for i := range rapid.IntRange(2, 6).Draw(t, "pods") {
		p := pod(fmt.Sprint("p", i), 1+r.Int64N(6), 1+r.Int64N(6))
		p.Demands = demanded[r.IntN(len(demanded))]
		req.Pods = append(req.Pods, p)
	}
	for i := range 1 + r.IntN(4) {
		cpu, memory := 6+r.Int64N(12), 6+r.Int64N(12)
		f := zoned(flavor(fmt.Sprint("f", i), cpu, memory, 1_000+100*(cpu+memory)+r.Int64N(1_000)), zones[r.IntN(3)])
		f.MaxPods = atMost(r.Int64N(3) * 2)
		req.Flavors = append(req.Flavors, f)
	}
	for i := range r.IntN(3) {
		n := standing(fmt.Sprint("n", i), r.Int64N(8), r.Int64N(8), r.Int64N(4)-1)
		n.Host.Labels[perZone] = zones[r.IntN(3)]
		for range r.IntN(3) {
			n.Pods = append(n.Pods, demanded[r.IntN(len(demanded))])
		}
		req.Nodes = append(req.Nodes, n)
	}
	return req
}

// trial tries all plans that cost less than a limit.
type trial struct {
	req      Request
	limit    int64
	machines []trialMachine // nodes first
}

type trialMachine struct {
	host *constraint.Host
	free *room
	pods []*Pod
	open bool // it is bought
}

// cheaper reports whether any plan for the pods from one on costs less than the rest of the limit and satisfies all
// rules: it tries every place for each pod.
func (s *trial) cheaper(from int, left int64) bool {
	if left <= 0 {
		return false
	}
	if from == len(s.req.Pods) {
		return s.inSomeOrder()
	}
	p := &s.req.Pods[from]
	for i := range s.machines {
		if s.put(p, i) {
			if s.cheaper(from+1, left) {
				return true
			}
			s.undo(i)
		}
	}
	for i := range s.req.Flavors {
		f := &s.req.Flavors[i]
		s.machines = append(s.machines, trialMachine{host: f.Host, free: newRoom(f, i, 0), open: true})
		if s.put(p, len(s.machines)-1) && s.cheaper(from+1, left-f.MicroDollarsPerHour) {
			return true
		}
		s.machines = s.machines[:len(s.machines)-1]
	}
	return false
}

func (s *trial) put(p *Pod, at int) bool {
	m := &s.machines[at]
	if !p.Size.Fits(m.free.Free) || m.free.places == 0 || p.Demands.Admits(m.host) != "" {
		return false
	}
	m.free.Free = m.free.Free.Minus(p.Size)
	m.free.places--
	m.pods = append(m.pods, p)
	return true
}

func (s *trial) undo(at int) {
	m := &s.machines[at]
	last := len(m.pods) - 1
	m.free.Free = m.free.Free.Plus(m.pods[last].Size)
	m.free.places++
	m.pods = m.pods[:last]
}

// inSomeOrder reports whether the pods may be placed in any order.
func (s *trial) inSomeOrder() bool {
	tracker := constraint.NewTracker()
	var waiting []trialMachine // one for each pod; host is its number
	var hosts []int
	for i := range s.machines {
		host := tracker.AddHost(s.machines[i].host)
		if !s.machines[i].open {
			for _, p := range s.req.Nodes[i].Pods {
				tracker.Place(p, host)
			}
		}
		for _, p := range s.machines[i].pods {
			waiting, hosts = append(waiting, trialMachine{pods: []*Pod{p}}), append(hosts, host)
		}
	}
	var come func(left int) bool
	came := make([]bool, len(waiting))
	come = func(left int) bool {
		if left == 0 {
			return true
		}
		for i := range waiting {
			p := waiting[i].pods[0].Demands
			if came[i] || tracker.Check(p, hosts[i]) != "" {
				continue
			}
			came[i] = true
			tracker.Place(p, hosts[i])
			if come(left - 1) {
				return true
			}
			tracker.Unplace(p, hosts[i])
			came[i] = false
		}
		return false
	}
	return come(len(waiting))
}

// TestNoPlanOfCoupledPodsIsCheaperThanTheBound tries all plans of few pods.
func TestNoPlanOfCoupledPodsIsCheaperThanTheBound(t *testing.T) {
	sharper, reached := 0, 0
	property := func(t *rapid.T) {
		req := drawFew(t)
		got := Supercargo(req)
		placed := req
		placed.Pods = slices.DeleteFunc(slices.Clone(req.Pods), func(p Pod) bool {
			return slices.ContainsFunc(got.Unplaceable, func(u Unplaceable) bool { return u.Pod == p.Name })
		})
		s := &trial{req: placed, limit: got.LowerBoundMicroDollarsPerHour}
		for _, n := range req.Nodes {
			s.machines = append(s.machines, trialMachine{host: n.Host, free: roomsOn([]ExistingNode{n})[0]})
		}
		if s.cheaper(0, s.limit) {
			t.Fatalf("the bound is %d, but a plan that keeps all rules is cheaper", s.limit)
		}
		if s.limit == got.MicroDollarsPerHour && s.limit > 0 {
			reached++
		}
		free := placed
		free.Pods = slices.Clone(placed.Pods)
		for i := range free.Pods {
			free.Pods[i].Demands = nil
		}
		p := mix.New(newInput(sorted(free.Pods, Services), free.Flavors, roomsOn(free.Nodes), free.Options, nil))
		if len(free.Pods) > 0 && s.limit > p.Least() {
			sharper++
		}
	}
	draw.Fixed(t, 30, property)
	if sharper == 0 {
		t.Error("no bound was above that without rules")
	}
	t.Logf("%d bounds above those without rules, %d reached", sharper, reached)
	rapid.Check(t, property)
}
