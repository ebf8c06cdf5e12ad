package standby

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/packing"
)

// server draws 10 W in standby and 60 W when idle, and takes 20 s at 160 W to wake: it breaks even
// after 60 s.
func server(name string, phase Phase, cores int64, idle time.Duration) Machine {
	return Machine{
		Name: name, Phase: phase, Free: packing.Size{MilliCPU: cores * 1000, MemoryBytes: 1 << 40}, MaxPods: 110, Arch: "amd64", Idle: idleFor(idle),
		Power: 60, Asleep: 10, Waking: 160, Wakes: 20 * time.Second,
	}
}

// idleFor returns nil for negative values: a machine with pods.
func idleFor(d time.Duration) *time.Duration {
	if d < 0 {
		return nil
	}
	return &d
}

func cores(n int64) cluster.Pod {
	return cluster.Pod{Item: packing.Item{Size: packing.Size{MilliCPU: n * 1000}}}
}

func TestMachinesSleepAndWake(t *testing.T) {
	const busy = -1
	glad := server("glad", Asleep, 4, 0)
	glad.Rank = -1
	tireless, arm := server("tireless", Awake, 4, time.Hour), server("arm", Asleep, 4, 0)
	tireless.Wakes = 0
	arm.Arch = "arm64"
	forArm := cores(1)
	forArm.Arch = "arm64"
	tests := []struct {
		name              string
		machines          []Machine
		waiting, expected []cluster.Pod
		want              Plan
	}{
		{name: "an idle machine sleeps when it breaks even", machines: []Machine{server("a", Awake, 4, time.Minute)}, want: Plan{Sleep: []string{"a"}}},
		{name: "not before", machines: []Machine{server("a", Awake, 4, 50*time.Second)}, want: Plan{Recheck: 10 * time.Second}},
		{name: "a busy one never does", machines: []Machine{server("a", Awake, 4, busy)}},
		{name: "nor one that cannot", machines: []Machine{tireless}},
		{name: "what is expected keeps a machine awake", machines: []Machine{server("a", Awake, 4, time.Hour)}, expected: []cluster.Pod{cores(1)}},
		{name: "but not two of them", machines: []Machine{server("a", Awake, 4, time.Hour), server("b", Awake, 4, time.Hour)},
			expected: []cluster.Pod{cores(1)}, want: Plan{Sleep: []string{"b"}}},
		{name: "nor where a busy one has room", machines: []Machine{server("a", Awake, 4, busy), server("b", Awake, 4, time.Hour)},
			expected: []cluster.Pod{cores(4)}, want: Plan{Sleep: []string{"b"}}},
		{name: "a pod that waits wakes the machine that it would like best", machines: []Machine{server("a", Asleep, 4, 0), glad},
			waiting: []cluster.Pod{cores(2)}, want: Plan{Wake: []string{"glad"}}},
		{name: "none is woken for what one that wakes will take", machines: []Machine{server("a", Waking, 4, 0), glad}, waiting: []cluster.Pod{cores(2), cores(2)}},
		{name: "but for the rest", machines: []Machine{server("a", Waking, 4, 0), glad}, waiting: []cluster.Pod{cores(2), cores(2), cores(1)}, want: Plan{Wake: []string{"glad"}}},
		{name: "a pod that fits nowhere wakes none", machines: []Machine{glad}, waiting: []cluster.Pod{cores(5)}},
		{name: "nor one of another architecture", machines: []Machine{glad, arm}, waiting: []cluster.Pod{forArm}, want: Plan{Wake: []string{"arm"}}},
		{name: "those that wait choose before those expected", machines: []Machine{server("a", Waking, 4, 0), glad},
			waiting: []cluster.Pod{cores(3)}, expected: []cluster.Pod{cores(2)}, want: Plan{Wake: []string{"glad"}}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Decide(tc.machines, tc.waiting, tc.expected)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAMachineThatDrawsNoLessAsleepDoesNotSleep(t *testing.T) {
	m := server("a", Awake, 4, time.Hour)
	m.Asleep = m.Power
	if plan := Decide([]Machine{m}, nil, nil); plan.Sleep != nil || plan.Recheck != 0 {
		t.Errorf("plan is %+v", plan)
	}
}

// TestPlansKeepTheirPromises checks plans against the doc comment.
func TestPlansKeepTheirPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var machines []Machine
		for i := range rapid.IntRange(0, 8).Draw(t, "machines") {
			m := server(fmt.Sprint("m", i), Phase(rapid.IntRange(0, 2).Draw(t, "phase")), rapid.Int64Range(0, 8).Draw(t, "cores"),
				time.Duration(rapid.IntRange(-1, 120).Draw(t, "idle"))*time.Second)
			m.Rank = float64(rapid.IntRange(0, 3).Draw(t, "rank"))
			m.Power = energy.Watts(rapid.IntRange(5, 80).Draw(t, "power"))
			machines = append(machines, m)
		}
		draw := func(label string) []cluster.Pod {
			var pods []cluster.Pod
			for range rapid.IntRange(0, 10).Draw(t, label) {
				pods = append(pods, cores(rapid.Int64Range(1, 4).Draw(t, "pod")))
			}
			return pods
		}
		waiting, expected := draw("waiting"), draw("expected")
		before := slices.Clone(machines)
		plan := Decide(machines, waiting, expected)
		if diff := cmp.Diff(before, machines); diff != "" {
			t.Fatalf("the machines were changed:\n%s", diff)
		}
		room := int64(0)
		for _, m := range machines {
			sleeps, wakes := slices.Contains(plan.Sleep, m.Name), slices.Contains(plan.Wake, m.Name)
			if sleeps && (m.Phase != Awake || m.Idle == nil || *m.Idle < m.BreakEven() || m.Power <= m.Asleep) {
				t.Fatalf("%+v is put to sleep", m)
			}
			if wakes && m.Phase != Asleep {
				t.Fatalf("%+v is woken", m)
			}
			if m.Phase != Asleep && !sleeps || wakes {
				room = max(room, m.Free.MilliCPU)
			}
		}
		if len(waiting) > 0 && len(plan.Wake) == 0 && waiting[0].Size.MilliCPU > room {
			if slices.ContainsFunc(machines, func(m Machine) bool { return waiting[0].Size.MilliCPU <= m.Free.MilliCPU }) {
				t.Fatalf("plan %+v leaves no room for the first pod, %+v, on %+v", plan, waiting[0], machines)
			}
		}
		slices.Reverse(machines)
		if diff := cmp.Diff(plan, Decide(machines, waiting, expected)); diff != "" {
			t.Fatalf("the order of the machines changes the plan:\n%s", diff)
		}
	})
}
