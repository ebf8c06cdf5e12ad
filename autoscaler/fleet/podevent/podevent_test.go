package podevent

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/api/v1alpha1"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// waiting returns the UIDs of pods, which are their names.
func waiting(pods ...string) map[string]types.UID {
	all := map[string]types.UID{}
	for _, p := range pods {
		all[p] = types.UID(p)
	}
	return all
}

// order returns the wait of a pod for a machine that was ordered at noon and takes three minutes.
func order(pod string) Wait {
	return Wait{Pod: pod, Flavor: "c7i.2xlarge", Ordered: noon, Expected: noon.Add(3 * time.Minute)}
}

// texts formats Events as "POD REASON: MESSAGE".
func texts(all []Event) []string {
	var lines []string
	for _, e := range all {
		lines = append(lines, fmt.Sprintf("%s %s: %s", e.Pod, e.Reason, e.Message))
	}
	return lines
}

func TestAPodIsToldOnceWhatItWaitsFor(t *testing.T) {
	var b Book
	all := b.Add(&Round{Fleet: "f", Pods: waiting("a", "b"), Waits: []Wait{order("a"), order("expected")}}, noon)
	want := []string{"a TriggeredScaleUp: waits for c7i.2xlarge, ordered 12:00, expected 12:03 UTC (NodeFleet f)"}
	if diff := cmp.Diff(want, texts(all)); diff != "" || all[0].Action != v1alpha1.ActionBuy {
		t.Errorf("action %s (-want +got):\n%s", all[0].Action, diff)
	}
	if all := b.Add(&Round{Fleet: "f", Pods: waiting("a", "b")}, noon.Add(time.Second)); len(all) > 0 {
		t.Errorf("in the next round: %v", texts(all))
	}
	again := order("a")
	again.Flavor, again.Ordered, again.Expected = "m7i.large", noon.Add(time.Hour), noon.Add(time.Hour+30*time.Second)
	all = b.Add(&Round{Fleet: "f", Pods: waiting("a", "b"), Waits: []Wait{again}}, noon.Add(time.Hour))
	want = []string{"a TriggeredScaleUp: waits for m7i.large, ordered 13:00:00, expected 13:00:30 UTC (NodeFleet f)"}
	if diff := cmp.Diff(want, texts(all)); diff != "" {
		t.Errorf("another order (-want +got):\n%s", diff)
	}
}

// TestABurstIsToldOverSeveralRounds has some pods that get a node before it is their turn, and one for which another machine
// is ordered by then.
func TestABurstIsToldOverSeveralRounds(t *testing.T) {
	var b Book
	var names []string
	var waits []Wait
	for i := range 250 {
		names = append(names, fmt.Sprintf("p%03d", i))
		waits = append(waits, order(names[i]))
	}
	count := func(all []Event, of string) (n int) {
		for _, e := range all {
			if strings.Contains(e.Message, of) {
				n++
			}
		}
		return n
	}
	if all := b.Add(&Round{Fleet: "f", Pods: waiting(names...), Waits: waits}, noon); len(all) != Most {
		t.Errorf("%d Events in the first round, want %d", len(all), Most)
	}
	if b.Idle("f") {
		t.Error("the fleet is idle although Events are left")
	}
	other := order(names[249])
	other.Flavor = "other"
	all := b.Add(&Round{Fleet: "f", Pods: waiting(names[160:]...), Waits: []Wait{other}}, noon)
	if len(all) != 90 || count(all, "other") != 1 {
		t.Errorf("%d Events in the next round, %d of the other order; want one for each of the 90 pods", len(all), count(all, "other"))
	}
	if all := b.Add(&Round{Fleet: "f", Pods: waiting(names[160:]...)}, noon); len(all) > 0 || !b.Idle("f") {
		t.Errorf("%d more Events", len(all))
	}
}

// TestRefusalsComeAfterOrders has more of both than a round may record.
func TestRefusalsComeAfterOrders(t *testing.T) {
	var b Book
	r := Round{Fleet: "f", Pods: map[string]types.UID{}, Refused: map[string]string{}}
	for i := range 80 {
		asked, refused := fmt.Sprintf("asked%02d", i), fmt.Sprintf("refused%02d", i)
		r.Pods[asked], r.Pods[refused] = types.UID(asked), types.UID(refused)
		r.Waits, r.Refused[refused] = append(r.Waits, order(asked)), "too large"
	}
	all := b.Add(&r, noon)
	if len(all) != Most || all[79].Pod != "asked79" || all[80].Pod != "refused00" || all[99].Pod != "refused19" {
		t.Fatalf("%d Events, the last is %v", len(all), texts(all[len(all)-1:]))
	}
	r.Waits = nil
	if all := b.Add(&r, noon); len(all) != 60 || all[0].Pod != "refused20" {
		t.Errorf("%d Events in the next round, want those of the other 60", len(all))
	}
}

func TestARefusedPodIsToldAgainAfterAWhile(t *testing.T) {
	const first, second = "first", "second"
	for _, tc := range []struct {
		name   string
		after  time.Duration
		reason string
		want   bool
	}{
		{"the same in the next round", time.Second, first, false},
		{"the same, a moment too early", repeated - 1, first, false},
		{"the same, after long", repeated, first, true},
		{"another in the next round", time.Second, second, false},
		{"another, a moment too early", changed - 1, second, false},
		{"another, after a while", changed, second, true},
	} {
		var b Book
		refuse := func(reason string, at time.Time) []string {
			return texts(b.Add(&Round{Fleet: "f", Pods: waiting("a"), Refused: map[string]string{"a": reason}}, at))
		}
		if diff := cmp.Diff([]string{"a NotTriggerScaleUp: no machine is bought for the pod. NodeFleet f: first"}, refuse(first, noon)); diff != "" {
			t.Errorf("%s: at first (-want +got):\n%s", tc.name, diff)
		}
		if all := refuse(tc.reason, noon.Add(tc.after)); (len(all) == 1) != tc.want {
			t.Errorf("%s: %v", tc.name, all)
		}
	}
}

func TestAnotherPodOfTheSameNameIsToldToo(t *testing.T) {
	var b Book
	for _, uid := range []types.UID{"first", "second"} {
		r := Round{Fleet: "f", Pods: map[string]types.UID{"a": uid}, Refused: map[string]string{"a": "too large"}}
		if all := b.Add(&r, noon); len(all) != 1 {
			t.Errorf("%s: %v", uid, texts(all))
		}
	}
	b.Add(&Round{Fleet: "f"}, noon) // it does not wait any more
	r := Round{Fleet: "f", Pods: map[string]types.UID{"a": "second"}, Refused: map[string]string{"a": "too large"}}
	if all := b.Add(&r, noon); len(all) != 1 {
		t.Errorf("it waits again: %v", texts(all))
	}
}

func TestAPodWhoseMachineDidNotComeIsToldAtOnceThatNoneIsBought(t *testing.T) {
	var b Book
	b.Add(&Round{Fleet: "f", Pods: waiting("a"), Waits: []Wait{order("a")}}, noon)
	all := b.Add(&Round{Fleet: "f", Pods: waiting("a"), Refused: map[string]string{"a": "in back-off"}}, noon.Add(time.Second))
	if diff := cmp.Diff([]string{"a NotTriggerScaleUp: no machine is bought for the pod. NodeFleet f: in back-off"}, texts(all)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestAPodIsToldThatNoFleetBuysOnceAllHaveRefused has two fleets, which decide one after the other.
func TestAPodIsToldThatNoFleetBuysOnceAllHaveRefused(t *testing.T) {
	const both = "a NotTriggerScaleUp: no machine is bought for the pod. NodeFleet f: too large; NodeFleet g: another zone"
	f := func(b *Book) []Event {
		return b.Add(&Round{Fleet: "f", Beside: []string{"g"}, Pods: waiting("a"), Refused: map[string]string{"a": "too large"}}, noon)
	}
	g := func(b *Book, refused map[string]string) []Event {
		return b.Add(&Round{Fleet: "g", Beside: []string{"f"}, Pods: waiting("a"), Refused: refused}, noon)
	}
	for _, tc := range []struct {
		name string
		do   func(b *Book) []Event
		want []string
	}{
		{"the other has not decided", f, nil},
		{"the other refuses", func(b *Book) []Event {
			f(b)
			return g(b, map[string]string{"a": "another zone"})
		}, []string{both}},
		{"the other has refused", func(b *Book) []Event {
			g(b, map[string]string{"a": "another zone"})
			return f(b)
		}, []string{both}},
		{"the other does not refuse", func(b *Book) []Event {
			g(b, nil)
			return f(b)
		}, nil},
		{"the other buys nothing for now", func(b *Book) []Event {
			b.Suspend("g")
			return f(b)
		}, []string{"a NotTriggerScaleUp: no machine is bought for the pod. NodeFleet f: too large"}},
		{"the other buys again", func(b *Book) []Event {
			b.Suspend("g")
			g(b, nil)
			return f(b)
		}, nil},
		{"the other was deleted and is made again", func(b *Book) []Event {
			g(b, map[string]string{"a": "another zone"})
			b.Forget("g")
			return f(b)
		}, nil},
	} {
		var b Book
		if diff := cmp.Diff(tc.want, texts(tc.do(&b))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

func TestAnEventGivesTheReasonsOfAFewFleets(t *testing.T) {
	var b Book
	names := []string{"a", "b", "c", "d", "e", "f", "g"}
	var all []Event
	for i, name := range names {
		beside := slices.Concat(names[:i], names[i+1:])
		all = append(all, b.Add(&Round{Fleet: name, Beside: beside, Pods: waiting("p"), Refused: map[string]string{"p": "no"}}, noon)...)
	}
	want := []string{"p NotTriggerScaleUp: no machine is bought for the pod. NodeFleet a: no; NodeFleet b: no; NodeFleet c: no; NodeFleet d: no; NodeFleet e: no; and 2 more"}
	if diff := cmp.Diff(want, texts(all)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
