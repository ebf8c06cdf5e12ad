package pace

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/autoscaler/adapter/store"
	"supercargo.dev/supercargo/autoscaler/adapter/store/target"
)

var bounds = Bounds{Usual: 15 * time.Second, Least: time.Second, Most: 100}

// from returns the origin of the series of a pod.
func from(address string) store.Origin { return store.Origin{Job: target.PodsJob, Instance: address} }

func TestTargetsAreScrapedAsOftenAsIsAskedAndNoLessOftenThanTheySay(t *testing.T) {
	at := func(d time.Duration, group string) target.Target {
		return target.Target{Job: target.PodsJob, Address: "a", Interval: d, Group: group}
	}
	of := func(d time.Duration) map[store.Origin]time.Duration {
		return map[store.Origin]time.Duration{from("a"): d}
	}
	sibling := target.Target{Job: target.PodsJob, Address: "sibling", Group: "Deployment shop/web"}
	for _, c := range []struct {
		name   string
		target target.Target
		asked  Asked
		want   time.Duration
	}{
		{"nothing is asked", at(0, ""), Asked{}, 0},
		{"more often than usual", at(0, ""), Asked{Every: of(time.Second)}, time.Second},
		{"more rarely than usual", at(0, ""), Asked{Every: of(25 * time.Second)}, 0},
		{"as often as usual", at(0, ""), Asked{Every: of(15 * time.Second)}, 0},
		{"more often than its own", at(5*time.Second, ""), Asked{Every: of(2 * time.Second)}, 2 * time.Second},
		{"more rarely than its own", at(time.Second, ""), Asked{Every: of(2 * time.Second)}, time.Second},
		{"its own is longer than usual", at(30*time.Second, ""), Asked{Every: of(25 * time.Second)}, 25 * time.Second},
		{"more often than may be", at(0, ""), Asked{Every: of(10 * time.Millisecond)}, time.Second},
		{"of another", at(0, ""), Asked{Every: map[store.Origin]time.Duration{from("b"): time.Second}}, 0},
		{"of the same address in another job", at(0, ""), Asked{Every: map[store.Origin]time.Duration{{Job: "other", Instance: "a"}: time.Second}}, 0},
		{"of a replica of the same", at(0, sibling.Group), Asked{Every: map[store.Origin]time.Duration{from("sibling"): time.Second}}, time.Second},
		{"of a replica of another", at(0, "Deployment shop/other"), Asked{Every: map[store.Origin]time.Duration{from("sibling"): time.Second}}, 0},
		{"of one that has no replicas", at(0, ""), Asked{Every: map[store.Origin]time.Duration{from("alone"): time.Second}}, 0},
		{"more often than it can answer", at(0, ""), Asked{Every: of(time.Second), Floor: of(4 * time.Second)}, 4 * time.Second},
		{"more often than usual, which it can hardly answer", at(0, ""), Asked{Every: of(time.Second), Floor: of(16 * time.Second)}, 0},
	} {
		targets := []target.Target{c.target, sibling, {Job: target.PodsJob, Address: "alone"}}
		paced := Apply(targets, c.asked, bounds)
		if got := paced.Targets[0].Interval; got != c.want {
			t.Errorf("%s: it is scraped every %v, want %v", c.name, got, c.want)
		}
		if !cmp.Equal(targets[0], c.target) {
			t.Errorf("%s: the argument was changed", c.name)
		}
	}
}

func TestKubeletsAreLeftAsTheyAre(t *testing.T) {
	kubelet := target.Target{Job: target.KubeletsJob, Address: "n:10250"}
	asked := Asked{Every: map[store.Origin]time.Duration{{Job: target.KubeletsJob, Instance: "n:10250"}: time.Second}}
	if paced := Apply([]target.Target{kubelet}, asked, bounds); paced.Targets[0].Interval != 0 || paced.Accelerated+paced.Left != 0 {
		t.Errorf("a kubelet is scraped as %+v", paced)
	}
	if d := longest([]target.Target{kubelet}, time.Minute); d != 0 {
		t.Errorf("policies that look more often than every %v are managed for kubelets alone", d)
	}
}

// TestNoMoreAreAcceleratedThanMayBe: for any demand, every target keeps its position and is
// within the bounds.
func TestNoMoreAreAcceleratedThanMayBe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := bounds
		b.Most = rapid.IntRange(0, 5).Draw(t, "most")
		seconds := rapid.IntRange(0, 30)
		var targets []target.Target
		asked := Asked{Every: map[store.Origin]time.Duration{}}
		for i := range rapid.IntRange(0, 10).Draw(t, "targets") {
			address := string(rune('a' + i))
			targets = append(targets, target.Target{Job: target.PodsJob, Address: address, Interval: time.Duration(seconds.Draw(t, "own")) * time.Second})
			if d := seconds.Draw(t, "asked"); d > 0 {
				asked.Every[from(address)] = time.Duration(d) * time.Second / 2
			}
		}
		paced := Apply(targets, asked, b)
		changed, wanted := 0, 0
		for i, before := range targets {
			own := before.Interval
			if own == 0 {
				own = b.Usual
			}
			if d, ok := asked.Every[from(before.Address)]; ok && max(d, time.Second) < own {
				wanted++
			}
			after := paced.Targets[i]
			if after.Interval == before.Interval {
				continue
			}
			changed++
			if after.Address != before.Address || after.Interval < b.Least || after.Interval >= own {
				t.Errorf("%+v became %+v", before, after)
			}
		}
		if changed != paced.Accelerated || changed != min(wanted, b.Most) || paced.Left != wanted-changed {
			t.Errorf("of %d to accelerate with at most %d, %d changed: %d accelerated, %d left", wanted, b.Most, changed, paced.Accelerated, paced.Left)
		}
	})
}

func TestATargetHasTwiceTheTimeThatItTakes(t *testing.T) {
	took := []time.Duration{0, 500 * time.Millisecond, 501 * time.Millisecond, time.Second, 1001 * time.Millisecond, 10 * time.Second}
	var got []time.Duration
	for _, d := range took {
		got = append(got, floorOf(d)/time.Second)
	}
	if want := []time.Duration{1, 1, 2, 2, 4, 32}; !slices.Equal(got, want) {
		t.Errorf("taking %v they may be scraped every %d seconds, want %d", took, got, want)
	}
}
