package halfempty

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

func generated(t *testing.T, nodes, flavors int, seed uint64) *Cluster {
	t.Helper()
	c, err := Generate(nodes, flavors, seed)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func written(t *testing.T, c *Cluster) string {
	t.Helper()
	var b bytes.Buffer
	if err := c.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTheSameSeedMakesTheSameCluster(t *testing.T) {
	first := written(t, generated(t, 40, 30, 1))
	if again := written(t, generated(t, 40, 30, 1)); again != first {
		t.Error("the same seed makes another cluster")
	}
	if other := written(t, generated(t, 40, 30, 2)); other == first {
		t.Error("another seed makes the same cluster")
	}
	c := generated(t, 40, 30, 1)
	if read, err := Read(strings.NewReader(first)); err != nil || !reflect.DeepEqual(read, c) {
		t.Errorf("what is read is not what was written: %v", err)
	}
}

// TestNodesAreHalfEmpty: some have far fewer pods than others, and none is full.
func TestNodesAreHalfEmpty(t *testing.T) {
	c := generated(t, 400, 757, 1)
	w, err := NewWorld(c)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Flavors) != 757 || len(c.Nodes) != 400 || w.Machines(0) != 400 || w.Homeless() > 0 {
		t.Errorf("%d flavors, %d nodes, %d machines, %d pods on none", len(c.Flavors), len(c.Nodes), w.Machines(0), w.Homeless())
	}
	var used, most, least float64 = 0, 0, 1
	for _, m := range w.machines {
		share := 1 - (float64(m.milli)/float64(m.flavor.MilliCPU)+float64(m.bytes)/float64(m.flavor.MemoryBytes))/2
		used, most, least = used+share/400, max(most, share), min(least, share)
	}
	if first, last := c.Nodes[0].Made(time.Unix(0, 0)), c.Nodes[399].Made(time.Unix(0, 0)); first.Equal(last) || first.After(time.Unix(-3*hour, 0)) || first.Before(time.Unix(-4*hour, 0)) {
		t.Errorf("nodes were made at %v and %v", first, last)
	}
	if math.Abs(used-0.5) > 0.03 || most > 0.95 || least > 0.35 {
		t.Errorf("nodes are used by %.2f on average, %.2f to %.2f", used, least, most)
	}
}

func TestAClusterThatCannotBeIsRefused(t *testing.T) {
	if _, err := Generate(4, 758, 1); err == nil || !strings.Contains(err.Error(), "at most 757") {
		t.Errorf("758 flavors: %v", err)
	}
	if _, err := Read(strings.NewReader(`{"pods":[{"name":"p","service":1}]}`)); err == nil {
		t.Error("a pod of no service is read")
	}
}

// tiny returns a world with nodes a and b, which hold two pods each, and pod p of them on a.
func tiny(t *testing.T) *World {
	t.Helper()
	w, err := NewWorld(&Cluster{
		Flavors:  []Flavor{{Name: "small", MilliCPU: 2000, MemoryBytes: 2 << 30, MicroDollarsPerHour: 600_000}},
		Services: []Service{{Name: "web", MilliCPU: 1000, MemoryBytes: 1 << 30}},
		Nodes:    []Node{{Name: "a", Flavor: "small"}, {Name: "b", Flavor: "small"}, {Name: "c", Flavor: "small"}},
		Pods:     []Pod{{Name: "p", Node: "a"}, {Name: "q", Node: "b"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestAPodMovesOnlyWhereItHasRoom(t *testing.T) {
	w := tiny(t)
	for _, step := range []struct {
		what string
		do   func() error
		ok   bool
	}{
		{"bind a pod that is on a node", func() error { return w.Bind("p", "b") }, false},
		{"remove a node with a pod", func() error { return w.Remove("a", time.Minute) }, false},
		{"replace it", func() error { return w.Replace("p", "r") }, true},
		{"bind the old one", func() error { return w.Bind("p", "b") }, false},
		{"bind the new one", func() error { return w.Bind("r", "b") }, true},
		{"remove the empty node", func() error { return w.Remove("a", time.Minute) }, true},
		{"remove it again", func() error { return w.Remove("a", time.Minute) }, false},
		{"evict a pod", func() error { return w.Evict("r") }, true},
		{"bind it to the removed node", func() error { return w.Bind("r", "a") }, false},
		{"order a machine", func() error { return w.Order("d", "small", time.Minute) }, true},
		{"bind before it has joined", func() error { return w.Bind("r", "d") }, false},
		{"let it join", func() error { return w.Join("d") }, true},
		{"bind then", func() error { return w.Bind("r", "d") }, true},
		{"order an unknown flavor", func() error { return w.Order("e", "large", 0) }, false},
	} {
		if err := step.do(); (err == nil) != step.ok {
			t.Fatalf("%s: %v", step.what, err)
		}
	}
	if w.Moved() != 2 || w.Homeless() != 0 || !reflect.DeepEqual(w.On("d"), []string{"r"}) {
		t.Errorf("%d moves, %d pods on none, %v on d", w.Moved(), w.Homeless(), w.On("d"))
	}
}

func TestAFullNodeHasNoRoom(t *testing.T) {
	w := tiny(t)
	w.pods["r"], w.pods["s"] = &pod{}, &pod{}
	if err := w.Bind("r", "a"); err != nil {
		t.Fatal(err)
	}
	if err := w.Bind("s", "a"); err == nil {
		t.Error("three pods are on a node for two")
	}
	open := map[string]bool{"a": true, "c": true}
	if at := w.Tightest("s", func(n string) bool { return open[n] }); at != "c" {
		t.Errorf("the pod goes to %q, want c: a is full and b closed", at)
	}
	open["b"] = true
	if at := w.Tightest("s", func(n string) bool { return open[n] }); at != "b" {
		t.Errorf("the pod goes to %q, want b, which is fuller than c", at)
	}
	if at := w.Tightest("s", func(string) bool { return false }); at != "" {
		t.Errorf("the pod goes to %q, and all are closed", at)
	}
}

// TestMachinesArePaidFromTheirOrderToTheirEnd: three machines of $0.6/h, one until minute 1, and a fourth from minute 4.
func TestMachinesArePaidFromTheirOrderToTheirEnd(t *testing.T) {
	w := tiny(t)
	if err := w.Remove("c", time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := w.Order("d", "small", 4*time.Minute); err != nil {
		t.Fatal(err)
	}
	for at, want := range map[time.Duration]float64{0: 1.8, time.Minute: 1.2, 3 * time.Minute: 1.2, 5 * time.Minute: 1.8} {
		if got := w.DollarsPerHour(at); math.Abs(got-want) > 1e-9 {
			t.Errorf("after %v it costs %v $/h, want %v", at, got, want)
		}
	}
	if got := w.Bill(10 * time.Minute); math.Abs(got-0.01*(10+10+1+6)) > 1e-9 {
		t.Errorf("the bill is %v, want 0.27", got)
	}
	f := &Figures{}
	f.Add(Decision{At: 1, Seconds: 2, CPUSeconds: 3, Removes: 1})
	f.Add(Decision{At: 2, Seconds: 4, CPUSeconds: 5, Buys: 1})
	f.Add(Decision{Seconds: 8})
	f.Sum(&Cluster{}, w, 5*time.Minute)
	if len(f.Course) != 5 || f.Course[2] != 1.2 || f.LastNodes != 3 || f.MeanSeconds != 3 || f.MeanCPUSeconds != 4 || f.MaxSeconds != 4 || f.Idle != 1 || f.IdleSeconds != 8 {
		t.Errorf("the figures are %+v", f)
	}
	if rows := Table([]*Figures{f}); len(rows) != 3 || strings.Count(rows[2], "|") != strings.Count(rows[0], "|") {
		t.Errorf("the table is %q", rows)
	}
}

// TestAStoppedClockDoesNotRun: the time of the computer passes, and that of the clock does not.
func TestAStoppedClockDoesNotRun(t *testing.T) {
	for _, processor := range []bool{false, true} {
		stops(t, NewClock(processor))
	}
}

func stops(t *testing.T, c *Clock) {
	t.Helper()
	run := c.Stop()
	before := c.Now()
	for wall := time.Now(); time.Since(wall) < 2*time.Millisecond; {
	}
	if c.Now() != before {
		t.Error("the clock runs while it is stopped")
	}
	c.Advance(time.Hour)
	if c.Since(before) != time.Hour {
		t.Errorf("an hour ahead is %v", c.Since(before))
	}
	run()
	if e := c.Elapsed(); e < time.Hour || e > 2*time.Hour {
		t.Errorf("after an hour %v have passed", e)
	}
	a := c.Now()
	c.Restart()
	if b := c.Now(); b.Before(a) || c.Elapsed() > time.Minute {
		t.Errorf("the clock restarts at %v after %v, and %v have passed", b, a, c.Elapsed())
	}
}
