package store

import (
	"fmt"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// TestAClockThatIsSetBackLosesNothing: the clock of the node was ahead for two minutes, and is set back. The store takes
// the next samples, of series that it knows and of new ones, and answers by them; also if it is opened again in between.
func TestAClockThatIsSetBackLosesNothing(t *testing.T) {
	for _, ahead := range []time.Duration{10 * time.Minute, 3 * time.Hour, 24 * time.Hour, 6 * 24 * time.Hour} {
		for _, restarts := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, restarted %v", ahead, restarts), func(t *testing.T) {
				dir := t.TempDir()
				o := Defaults()
				o.Dir, o.Clock = dir, clocktesting.NewFakePassiveClock(noon.Add(ahead))
				s, err := Open(o)
				if err != nil {
					t.Fatal(err)
				}
				for i := range 8 {
					put(t, s, noon.Add(ahead+time.Duration(i)*15*time.Second), float64(i), "__name__", "requests_total", "pod", "a")
				}
				if restarts {
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
					s = open(t, dir, noon, nil)
				} else {
					t.Cleanup(func() {
						if err := s.Close(); err != nil {
							t.Error(err)
						}
					})
				}
				for i := range 9 {
					for n, pod := range []string{"a", "new"} {
						put(t, s, noon.Add(time.Duration(i)*15*time.Second), float64(150*i*(n+1)), "__name__", "requests_total", "pod", pod)
					}
				}
				found := ask(t, s, "rate(requests_total[1m])", noon.Add(2*time.Minute))
				if len(found) != 2 || !(found[0].Value > 9.9 && found[0].Value < 10.1) || !(found[1].Value > 19.9 && found[1].Value < 20.1) {
					t.Errorf("rates %v, want 10 and 20", found)
				}
				if now := ask(t, s, "requests_total", noon.Add(2*time.Minute)); len(now) != 2 || now[0].Value != 1200 || now[1].Value != 2400 {
					t.Errorf("current values %v, want 1200 and 2400", now)
				}
			})
		}
	}
}
