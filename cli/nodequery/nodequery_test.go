package nodequery_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/autoscaler/adapter/history"
	"supercargo.dev/supercargo/cli/nodequery"
	"supercargo.dev/supercargo/test/kit/promserver"
	"supercargo.dev/supercargo/test/kit/recorded"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// after returns a time after noon.
func after(minutes, seconds int) time.Time {
	return noon.Add(time.Duration(minutes)*time.Minute + time.Duration(seconds)*time.Second)
}

func read(t *testing.T, s *promserver.Server, span nodequery.Span) *nodequery.Report {
	t.Helper()
	r, err := nodequery.Read(t.Context(), s.Client(), span)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// minutes returns a span in minutes after noon, with a sample every minute.
func minutes(from, to, at int) nodequery.Span {
	return nodequery.Span{From: after(from, 0), To: after(to, 0), At: after(at, 0), Step: time.Minute}
}

func number(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.4g", *v)
}

func clock(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.Format("15:04:05")
}

// room formats the capacity, and the current, mean and least available amounts.
func room(r nodequery.Resource, unit float64) string {
	var all []string
	for _, v := range []*float64{r.Capacity, r.Available, r.Mean, r.Least} {
		if v != nil {
			inUnits := *v / unit
			v = &inUnits
		}
		all = append(all, number(v))
	}
	return strings.Join(all, " ")
}

func lines(r *nodequery.Report) []string {
	var all []string
	for _, m := range r.MachineTypes {
		all = append(all, fmt.Sprintf("%s: %d/%d nodes, %d pods | cpu %s | GiB %s | finish %s %s", m.MachineType, m.Ready, m.Nodes, m.Pods,
			room(m.CPU.Resource, 1), room(m.Memory.Resource, 1<<30), clock(m.Finish), number(m.RemainingSeconds)))
	}
	for _, n := range r.Nodes {
		all = append(all, fmt.Sprintf("%s of %s: %s, %d pods | cpu %s | GiB %s | finish %s %s | came %s went %s, %v", n.Name, n.MachineType, n.State, n.Pods,
			room(n.CPU.Resource, 1), room(n.Memory.Resource, 1<<30), clock(n.Finish), number(n.RemainingSeconds), clock(n.Came), clock(n.Went), time.Duration(n.ThereSeconds)*time.Second))
	}
	return all
}

// anHour records a history from noon to one o'clock. A change is written ten seconds later.
func anHour(t *testing.T) *promserver.Server {
	t.Helper()
	s := promserver.Start(t)
	c := recorded.Start(t, s, after(0, -10))
	c.Add(recorded.Node("a", "m1"), recorded.Node("b", "m1"), recorded.Node("z", ""))
	c.Until(after(9, 50))
	c.Add(recorded.Pod("job", "a", "2", after(60, 0)), recorded.Pod("web", "z", "1", time.Time{}))
	c.Until(after(10, 20))
	burst := recorded.Pod("burst", "a", "1", time.Time{}) // between two samples
	c.Add(burst)
	c.Until(after(10, 40))
	c.Remove(burst)
	c.Until(after(20, 30))
	c.Add(recorded.Node("c", "big"))
	c.Until(after(30, 30))
	c.Remove(recorded.Node("b", "m1"))
	c.Until(after(39, 50))
	c.Change("c", func(n *corev1.Node) { n.Spec.Unschedulable = true })
	c.Until(after(50, 20))
	c.Add(recorded.Node("short", "big"))
	c.Until(after(50, 40))
	c.Remove(recorded.Node("short", "big"))
	c.Until(after(60, 0))
	return s
}

// TestWhatTheRecorderWroteIsFound: the state at a quarter to one, and over the hour.
func TestWhatTheRecorderWroteIsFound(t *testing.T) {
	r := read(t, anHour(t), minutes(0, 60, 45))
	want := []string{
		": 1/1 nodes, 1 pods | cpu 4 2.5 2.664 2.5 | GiB 8 6 6.164 6 | finish - -",
		"big: 0/1 nodes, 0 pods | cpu 4 0 1.663 0 | GiB 8 0 3.325 0 | finish - -",
		"m1: 1/1 nodes, 1 pods | cpu 4 1.5 3.607 1.5 | GiB 8 6 9.721 6 | finish 13:00:00 900",
		// The samples before 12:10 see 3.5 cores free, later ones 1.5, and none sees 0.5.
		"a of m1: ready, 1 pods | cpu 4 1.5 1.828 0.5 | GiB 8 6 6.164 5 | finish 13:00:00 900 | came - went -, 1h1m0s",
		"b of m1: absent, 0 pods | cpu 4 - 3.5 3.5 | GiB 8 - 7 7 | finish - - | came - went 12:31:00, 31m0s",
		"c of big: not ready, 0 pods | cpu 4 0 1.663 0 | GiB 8 0 3.325 0 | finish - - | came 12:21:00 went -, 40m0s",
		"short of big: absent, 0 pods | cpu 4 - - 3.5 | GiB 8 - - 7 | finish - - | came - went -, 0s",
		"z of : ready, 1 pods | cpu 4 2.5 2.664 2.5 | GiB 8 6 6.164 6 | finish - - | came - went -, 1h1m0s",
	}
	if diff := cmp.Diff(want, lines(r)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestOnlyOneMomentIsNow: the same history half an hour earlier, and after its end.
func TestOnlyOneMomentIsNow(t *testing.T) {
	s := anHour(t)
	r := read(t, s, minutes(0, 60, 15))
	for i, want := range []string{
		": 1/1 nodes, 1 pods", "big: 0/0 nodes, 0 pods | cpu - - 1.663 0 |", "m1: 2/2 nodes, 1 pods | cpu 8 5 3.607 1.5 |",
		"a of m1: ready, 1 pods | cpu 4 1.5", "b of m1: ready, 0 pods | cpu 4 3.5", "c of big: absent, 0 pods | cpu 4 - 1.663",
	} {
		if got := lines(r)[i]; !strings.HasPrefix(got, want) {
			t.Errorf("at a quarter past: %s, want %s", got, want)
		}
	}
	r = read(t, s, minutes(30, 180, 180))
	if clock(r.Begins) != "12:30:00" || clock(r.Ends) != "13:00:00" {
		t.Errorf("known from %v to %v, want from half past twelve to one", r.Begins, r.Ends)
	}
	for i, want := range []string{"a of m1: absent", "b of m1: absent", "c of big: absent", "short of big: absent", "z of : absent"} {
		got := lines(r)[3+i]
		if !strings.HasPrefix(got, want) || strings.Contains(got, "went 13") || strings.Contains(got, "came 1") {
			t.Errorf("after the end of what is known: %s, want %s, and nobody who went then", got, want)
		}
	}
}

// TestTheLeastIsThatOfTheWholeTime: the minimum may be anywhere in the span.
func TestTheLeastIsThatOfTheWholeTime(t *testing.T) {
	s := promserver.Start(t)
	c := recorded.Start(t, s, after(0, -10))
	c.Add(recorded.Node("a", "m1"), recorded.Node("b", "m1"))
	c.Until(after(2, 0))
	early := recorded.Pod("early", "a", "3", time.Time{})
	c.Add(early)
	c.Until(after(5, 0))
	c.Remove(early)
	c.Until(after(60, 0))
	r := read(t, s, minutes(0, 60, 60))
	if m, n := r.MachineTypes[0], r.Nodes[0]; number(m.CPU.Least) != "4" || number(n.CPU.Least) != "0.5" || n.Pods != 0 {
		t.Errorf("%s of the type and %s of node a, which has %d pods now; want 4 and 0.5 cores, and none", number(m.CPU.Least), number(n.CPU.Least), n.Pods)
	}
	if n := read(t, s, minutes(0, 60, 4)).Nodes[0]; n.Pods != 1 {
		t.Errorf("at four past there were %d pods, want 1", n.Pods)
	}
}

func TestWhatIsLateHasLessThanNoTimeLeft(t *testing.T) {
	s := promserver.Start(t)
	c := recorded.Start(t, s, noon)
	c.Add(recorded.Node("a", "m1"), recorded.Node("b", "m1"))
	c.Add(recorded.Pod("soon", "a", "1", after(1, 0)), recorded.Pod("late", "a", "1", after(3, 0)), recorded.Pod("first", "b", "1", after(2, 0)))
	c.Until(after(5, 0))
	r := read(t, s, minutes(0, 5, 5))
	if n := r.Nodes[0]; clock(n.Finish) != "12:03:00" || number(n.RemainingSeconds) != "-120" {
		t.Errorf("a is busy until %v, for %s s; want the last of its pods", n.Finish, number(n.RemainingSeconds))
	}
	if m := r.MachineTypes[0]; clock(m.Finish) != "12:03:00" || number(m.RemainingSeconds) != "-120" {
		t.Errorf("the type is busy until %v, for %s s; want that of the last node", m.Finish, number(m.RemainingSeconds))
	}
}

func TestANodeWhoseTypeChangesIsThereOnceForEach(t *testing.T) {
	s := promserver.Start(t)
	c := recorded.Start(t, s, noon)
	c.Add(recorded.Node("a", "old"))
	c.Until(after(2, 30))
	c.Change("a", func(n *corev1.Node) { n.Labels[corev1.LabelInstanceTypeStable] = "new" })
	c.Until(after(5, 0))
	var got []string
	for _, n := range read(t, s, minutes(0, 5, 5)).Nodes {
		got = append(got, fmt.Sprintln(n.Name, n.MachineType, n.State, clock(n.Came), clock(n.Went)))
	}
	if diff := cmp.Diff([]string{"a new ready 12:03:00 -\n", "a old absent - 12:03:00\n"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestTwoAdaptersThatWriteTheSameCountOnce: a server may have the series of both.
func TestTwoAdaptersThatWriteTheSameCountOnce(t *testing.T) {
	s := promserver.Start(t)
	for minute := range 6 {
		for _, instance := range []string{"1", "2"} {
			put := func(name string, value float64, more ...string) {
				s.Put(after(minute, 0), value, append([]string{"__name__", name, "node", "a", "machine_type", "m1", "instance", instance}, more...)...)
			}
			put(history.Ready, 1)
			put(history.Pods, 3)
			put(history.Available, 2, "resource", "cpu")
			put(history.Capacity, 4, "resource", "cpu")
			put(history.Capacity, 7, "resource", "example.com/gpu")
		}
	}
	want := []string{
		"m1: 1/1 nodes, 3 pods | cpu 4 2 2 2 | GiB - - - - | finish - -",
		"a of m1: ready, 3 pods | cpu 4 2 2 2 | GiB - - - - | finish - - | came - went -, 6m0s",
	}
	if diff := cmp.Diff(want, lines(read(t, s, minutes(0, 5, 5)))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWhatNobodyCanHaveIsPassedOver(t *testing.T) {
	s := promserver.Start(t)
	for node, value := range map[string]float64{"nan": math.NaN(), "negative": -1, "endless": math.Inf(1), "good": 1} {
		for minute := range 3 {
			at := after(minute, 0)
			s.Put(at, 1, "__name__", history.Ready, "node", node)
			s.Put(at, value, "__name__", history.Available, "node", node, "resource", "cpu")
			s.Put(at, value, "__name__", history.Capacity, "node", node, "resource", "cpu")
			s.Put(at, value, "__name__", history.Finish, "node", node)
			s.Put(at, value, "__name__", history.Pods, "node", node)
		}
	}
	s.Put(after(3, 0), 1, "__name__", history.Ready) // has no node label
	r := read(t, s, minutes(0, 2, 2))
	if len(r.Nodes) != 4 {
		t.Fatalf("%d nodes, want 4", len(r.Nodes))
	}
	for _, n := range r.Nodes {
		want := "- - - - 0 pods"
		if n.Name == "good" {
			want = "1 1 1 1 1 pods"
		}
		if got := fmt.Sprintf("%s %d pods", room(n.CPU.Resource, 1), n.Pods); got != want || (n.Finish != nil) != (n.Name == "good") {
			t.Errorf("%s: %s, finish %v; want %s", n.Name, got, n.Finish, want)
		}
	}
}

func TestAServerWithoutHistoryHasNoNodes(t *testing.T) {
	s := promserver.Start(t)
	s.Put(noon, 1, "__name__", "up", "node", "a")
	if r := read(t, s, minutes(-5, 5, 0)); len(r.Nodes) != 0 || len(r.MachineTypes) != 0 || r.Begins != nil || r.Ends != nil {
		t.Errorf("%+v", r)
	}
}

// TestEvaluationsAreAskedForAFewAtATime: no query covers more than 25 sample times, and each is
// covered once.
func TestEvaluationsAreAskedForAFewAtATime(t *testing.T) {
	for _, tc := range []struct{ samples, queries int }{{1, 7 + 6}, {25, 7 + 6}, {26, 7 + 12}, {51, 7 + 18}} {
		s := promserver.Start(t)
		c := recorded.Start(t, s, after(-5, 0))
		c.Add(recorded.Node("a", "m1"))
		c.Until(after(60, 0))
		// From half a minute before the first sample to half a minute after the last.
		span := nodequery.Span{From: after(0, -30), To: after(tc.samples-1, 30), At: noon, Step: time.Minute}
		r := read(t, s, span)
		if got := len(s.Asked()); got != tc.queries {
			t.Errorf("%d looks: %d queries, want %d", tc.samples, got, tc.queries)
		}
		if n := r.Nodes[0]; n.ThereSeconds != float64(60*tc.samples) || number(n.CPU.Mean) != "3.5" || !r.Begins.Equal(noon) || !r.Ends.Equal(after(tc.samples-1, 0)) {
			t.Errorf("%d looks: there for %v s, with %s of 3.5 cores, seen from %v to %v", tc.samples, n.ThereSeconds, number(n.CPU.Mean), r.Begins, r.Ends)
		}
	}
}

func TestAServerThatFailsIsAnError(t *testing.T) {
	s := promserver.Start(t)
	s.Down.Store(true)
	if _, err := nodequery.Read(t.Context(), s.Client(), minutes(0, 5, 0)); err == nil || !strings.Contains(err.Error(), s.URL) {
		t.Errorf("%v, want an error that names the server", err)
	}
	if got := len(s.Asked()); got != 1 {
		t.Errorf("it is asked %d times, want once", got)
	}
}

func TestSpansThatAskTooMuchAreRefused(t *testing.T) {
	ask := func(from, to, at time.Time, step time.Duration) nodequery.Span {
		return nodequery.Span{From: from, To: to, At: at, Step: step}
	}
	hour, year := after(60, 0), noon.Add(nodequery.MostSpan)
	for _, tc := range []struct {
		what string
		span nodequery.Span
		want string
	}{
		{"an hour", ask(noon, hour, hour, time.Minute), ""},
		{"an hour of as many looks as may be", ask(noon, noon.Add(1500*time.Second), noon, time.Second), ""},
		{"as long as may be", ask(noon, year, noon, nodequery.UsualStep(noon, year)), ""},
		{"nothing", ask(noon, noon, noon, time.Minute), "must be longer than 0"},
		{"backwards", ask(hour, noon, noon, time.Minute), "must be longer than 0"},
		{"over a year", ask(noon, year.Add(time.Second), noon, 24*time.Hour), "at most 366 days"},
		{"no step", ask(noon, hour, noon, 0), "step 0s"},
		{"a part of a second", ask(noon, hour, noon, 1500*time.Millisecond), "whole number of seconds"},
		{"a step over all", ask(noon, hour, noon, 2*time.Hour), "must be at most the time"},
		{"too many looks", ask(noon, hour, noon, 2*time.Second), "must be 3s or more"},
		{"before", ask(noon, hour, noon.Add(-time.Second), time.Minute), "must be within the time"},
		{"after", ask(noon, hour, hour.Add(time.Second), time.Minute), "must be within the time"},
	} {
		err := tc.span.Validate()
		if tc.want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.what, err, tc.want)
		}
	}
	s := promserver.Start(t)
	if _, err := nodequery.Read(t.Context(), s.Client(), nodequery.Span{}); err == nil || len(s.Asked()) != 0 {
		t.Errorf("%v, and %d queries: want an error before any", err, len(s.Asked()))
	}
}

func TestUsualStepsGiveSomeThreeHundredEvaluations(t *testing.T) {
	for span, want := range map[time.Duration]time.Duration{
		time.Minute: 30 * time.Second, 150 * time.Minute: 30 * time.Second, 151 * time.Minute: time.Minute, 24 * time.Hour: 5 * time.Minute,
	} {
		if got := nodequery.UsualStep(noon, noon.Add(span)); got != want {
			t.Errorf("%v: %v, want %v", span, got, want)
		}
	}
}
