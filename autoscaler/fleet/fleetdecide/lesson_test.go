package fleetdecide

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/packing"
)

// machineOf is a machine of a flavor with the given age and allocatable resources.
func machineOf(flavor, name string, age time.Duration, amount int64) cluster.Node {
	n := node(name)
	n.Flavor, n.Age, n.Capacity = flavor, age, size(amount, amount)
	return n
}

// exceptions returns the flavors that are not bought for a pod.
func exceptions(l *Lessons, p cluster.Pod, now time.Time) string {
	e := l.Except(&p, now)
	if e == nil {
		return ""
	}
	var names []string
	for _, name := range []string{"large", "small"} {
		if e.Flavors[name] != "" {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}

func TestAFlavorIsNotBoughtForPodsThatItsLastMachineDoesNotHold(t *testing.T) {
	kept := func(n cluster.Node) cluster.Node { n.Kept = true; return n }
	tests := []struct {
		name  string
		nodes []cluster.Node
		pod   cluster.Pod // the pending one
		asked cluster.Pod
		want  string
	}{
		{"no machine has come", nil, service("p", 4), service("p", 4), ""},
		{"it is on its way", []cluster.Node{due(minute, machineOf("small", "a", minute, 3))}, service("p", 4), service("p", 4), ""},
		{"it holds the pod", []cluster.Node{machineOf("small", "a", minute, 4)}, service("p", 4), service("p", 4), ""},
		{"it holds the pod, and is full", []cluster.Node{func() cluster.Node {
			n := machineOf("small", "a", minute, 4)
			n.Pods = podsOf(service("x", 4))
			return n
		}()}, service("p", 4), service("p", 4), ""},
		{"it is too small", []cluster.Node{machineOf("small", "a", minute, 3)}, service("p", 4), service("p", 4), "small"},
		{"then it is for larger pods too", []cluster.Node{machineOf("small", "a", minute, 1)}, service("p", 3), service("q", 4), "small"},
		{"but not for smaller ones", []cluster.Node{machineOf("small", "a", minute, 1)}, service("p", 3), service("q", 2), ""},
		{"the flavor never promised that much", []cluster.Node{machineOf("small", "a", minute, 3)}, service("p", 5), service("p", 5), ""},
		{"the last machine is better", []cluster.Node{machineOf("small", "a", time.Hour, 3), machineOf("small", "b", minute, 4)}, service("p", 4), service("p", 4), ""},
		{"the last machine is worse", []cluster.Node{machineOf("small", "a", time.Hour, 4), machineOf("small", "b", minute, 3)}, service("p", 4), service("p", 4), "small"},
		{"it is a machine of others", []cluster.Node{kept(machineOf("small", "a", minute, 3))}, service("p", 4), service("p", 4), ""},
		{"both flavors", []cluster.Node{machineOf("small", "a", minute, 3), machineOf("large", "b", minute, 3)}, service("p", 4), service("p", 4), "large small"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			l := &Lessons{BackOff: 5 * minute}
			l.Learn(quiet(podsOf(tc.pod), tc.nodes...), midnight)
			if got := exceptions(l, tc.asked, midnight); got != tc.want {
				t.Errorf("not bought are %q, want %q", got, tc.want)
			}
		})
	}
}

func TestAFlavorIsNotBoughtForPodsThatItsLastMachineDoesNotAdmit(t *testing.T) {
	compiler := constraint.NewCompiler(nil)
	selecting := func(name, disk string) cluster.Pod {
		p := service(name, 4)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: corev1.PodSpec{NodeSelector: map[string]string{"disk": disk}}}
		var err error
		if p.Demands, err = compiler.Compile(pod); err != nil {
			t.Fatal(err)
		}
		return p
	}
	host := func(disk string, taint string) *constraint.Host {
		h := &constraint.Host{Labels: map[string]string{"disk": disk}}
		if taint != "" {
			h.Taints = []corev1.Taint{{Key: taint, Effect: corev1.TaintEffectNoSchedule}}
		}
		return h
	}
	for name, tc := range map[string]struct {
		node  *constraint.Host
		asked cluster.Pod
		want  string
	}{
		"it admits the pod":             {host("ssd", ""), selecting("p", "ssd"), ""},
		"it lacks the label":            {host("", ""), selecting("p", "ssd"), "small"},
		"it is tainted":                 {host("ssd", "driver"), selecting("p", "ssd"), "small"},
		"it is under pressure":          {host("ssd", corev1.TaintNodeMemoryPressure), selecting("p", "ssd"), ""},
		"a pod that demands another":    {host("", ""), selecting("q", "hdd"), ""},
		"another that demands the same": {host("", ""), selecting("q", "ssd"), "small"},
	} {
		n := machineOf("small", "a", minute, 4)
		n.Host = tc.node
		s := quiet(podsOf(selecting("p", "ssd")), n)
		for i := range s.Flavors {
			s.Flavors[i].Host = host("ssd", "")
		}
		l := &Lessons{BackOff: 5 * minute}
		l.Learn(s, midnight)
		if got := exceptions(l, tc.asked, midnight); got != tc.want {
			t.Errorf("%s: not bought are %q, want %q", name, got, tc.want)
		}
	}
}

// TestAFlavorIsTriedAgainEachTimeAfterTwiceAsLong buys a machine whenever that is allowed, and releases it before the
// next attempt.
func TestAFlavorIsTriedAgainEachTimeAfterTwiceAsLong(t *testing.T) {
	l := &Lessons{BackOff: 5 * minute}
	p := service("p", 4)
	var tries []time.Duration
	var ordered time.Time
	for at := time.Duration(0); at < 8*time.Hour; at += 10 * time.Second {
		now := midnight.Add(at)
		var nodes []cluster.Node
		if age := now.Sub(ordered); !ordered.IsZero() && age >= minute && age < 4*minute {
			nodes = append(nodes, machineOf("small", "a", age, 3))
		}
		s := quiet(podsOf(p), nodes...)
		s.Flavors = s.Flavors[1:] // small
		inFlight := !ordered.IsZero() && now.Sub(ordered) < minute
		if d := Fleet(s, FleetOptions{Buy: true, Lessons: l}, mover(), now); len(d.Plan.Machines) > 0 && !inFlight {
			tries, ordered = append(tries, at), now
		} else if !inFlight && !strings.Contains(d.Plan.Unplaceable[0].Reason, "was expected to leave CPU 4m") {
			t.Fatalf("at %v it is not bought because %q", at, d.Plan.Unplaceable[0].Reason)
		}
	}
	// The lesson is learned a minute after each attempt.
	var gaps []time.Duration
	for i := 1; i < len(tries); i++ {
		gaps = append(gaps, (tries[i] - tries[i-1]).Round(minute))
	}
	for i, want := range []time.Duration{6, 11, 21, 41, 81, 81, 81} {
		if i >= len(gaps) || gaps[i] != want*minute {
			t.Fatalf("the flavor is tried after %v", gaps)
		}
	}
}

func TestALessonFromAMachineThatIsStillThereIsNotTakenTwice(t *testing.T) {
	l := &Lessons{BackOff: 5 * minute}
	evaluate := func(now time.Time) int {
		return len(l.Learn(quiet(podsOf(service("p", 4)), machineOf("small", "a", now.Sub(midnight)+minute, 3)), now))
	}
	if first, again := evaluate(midnight), evaluate(midnight.Add(minute)); first != 1 || again != 0 {
		t.Errorf("%d lessons, and %d a minute later", first, again)
	}
	if told, wake := l.Active(midnight.Add(minute)); len(told) != 1 || wake != 4*minute {
		t.Errorf("%v for %v", told, wake)
	}
	later := midnight.Add(5 * minute)
	if n := evaluate(later); n != 0 || exceptions(l, service("p", 4), later) != "" {
		t.Errorf("%d lessons when the time is over, and %q is not bought", n, exceptions(l, service("p", 4), later))
	}
	if told, wake := l.Active(later); len(told) != 0 || wake != 0 {
		t.Errorf("%v for %v when the time is over", told, wake)
	}
}

// TestAFlavorThatAPodKeepsNotUsingIsAvoidedForTwiceAsLongEachTime buys a machine for a pod whose scheduler never uses
// it, and releases it three minutes later.
func TestAFlavorThatAPodKeepsNotUsingIsAvoidedForTwiceAsLongEachTime(t *testing.T) {
	l := &Lessons{BackOff: 5 * minute}
	var tries []time.Duration
	var ordered time.Time
	for at := time.Duration(0); at < 8*time.Hour; at += 10 * time.Second {
		now := midnight.Add(at)
		p := service("p", 4)
		p.Waited = at
		var nodes []cluster.Node
		age := now.Sub(ordered)
		there := !ordered.IsZero() && age >= minute && age < 3*minute
		if there {
			nodes = append(nodes, machineOf("small", "a", age-minute, 4))
		}
		s := quiet(podsOf(p), nodes...)
		s.Flavors = s.Flavors[1:] // small
		inFlight := !ordered.IsZero() && age < minute
		if d := Fleet(s, FleetOptions{Buy: true, Lessons: l}, mover(), now); len(d.Plan.Machines) > 0 && !inFlight && !there {
			tries, ordered = append(tries, at), now
		}
	}
	// The last time that the pod is seen not to use the room is three minutes after the attempt.
	var gaps []time.Duration
	for i := 1; i < len(tries); i++ {
		gaps = append(gaps, (tries[i] - tries[i-1]).Round(minute))
	}
	for i, want := range []time.Duration{8, 13, 23, 43, 83, 83} {
		if i >= len(gaps) || gaps[i] != want*minute {
			t.Fatalf("the flavor is tried after %v", gaps)
		}
	}
}

// TestAPodThatDoesNotUseTheRoomOfAMachineGetsNoOtherOfThatFlavor gives other pods the room that the scheduler has not
// given to the pod.
func TestAPodThatDoesNotUseTheRoomOfAMachineGetsNoOtherOfThatFlavor(t *testing.T) {
	l := &Lessons{BackOff: 5 * minute}
	p := service("p", 4)
	p.Waited = patience
	s := quiet(podsOf(p), machineOf("small", "a", minute, 4))
	s.Flavors = s.Flavors[1:] // small
	o := FleetOptions{Buy: true, Lessons: l}
	Fleet(s, o, mover(), midnight)
	s.Nodes[0].Pods = podsOf(service("x", 4))
	if d := Fleet(s, o, mover(), midnight.Add(minute)); len(d.Plan.Machines) > 0 || !strings.Contains(d.Plan.Unplaceable[0].Reason, "its scheduler did not use") {
		t.Errorf("bought %v, unplaceable %v", planned(&d.Plan.Plan), d.Plan.Unplaceable)
	}
	s.Pending = podsOf(service("q", 4))
	if d := Fleet(s, o, mover(), midnight.Add(minute)); len(d.Plan.Machines) != 1 {
		t.Errorf("for another pod %v is bought", planned(&d.Plan.Plan))
	}
	s.Pending = podsOf(p)
	if d := Fleet(s, o, mover(), midnight.Add(6*minute)); len(d.Plan.Machines) != 1 {
		t.Errorf("later %v is bought", planned(&d.Plan.Plan))
	}
}

// TestALessonAboutAResourceIsOneForPodsOfAllSizes has a machine without the GPU of its flavor.
func TestALessonAboutAResourceIsOneForPodsOfAllSizes(t *testing.T) {
	with := func(p cluster.Pod, gpus int16) *cluster.Pod {
		p.Size.Extended = packing.Amounts(gpus)
		return &p
	}
	f := &cluster.Flavor{Name: "f", Size: packing.Size{MilliCPU: 8000, MemoryBytes: 8 << 30, Extended: packing.Amounts(1)}}
	n := &cluster.Node{Name: "n", Capacity: packing.Size{MilliCPU: 8000, MemoryBytes: 8 << 30}}
	found, differs := compare(with(service("p", 4), 1), f, n, "")
	if !differs {
		t.Fatal("nothing is learned")
	}
	for name, tc := range map[string]struct {
		pod  *cluster.Pod
		want bool
	}{
		"a smaller pod with a GPU":  {with(service("q", 1), 1), true},
		"a larger pod with a GPU":   {with(service("q", 6), 1), true},
		"a larger pod without GPUs": {with(service("q", 6), 0), false},
	} {
		if got := found.about(tc.pod); got != tc.want {
			t.Errorf("%s: the lesson %+v is about it: %t, want %t", name, found.size, got, tc.want)
		}
	}
}
