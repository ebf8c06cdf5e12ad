package workers

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"supercargo.dev/supercargo/autoscaler/worker/estimate"
)

// pods returns a view of workers of four cores, the first of which connected long ago and use the
// given number of cores.
func pods(now time.Duration, ready, coming int, use float64) View {
	v := View{Now: now}
	for i := range ready + coming {
		v.State.Workers = append(v.State.Workers, estimate.Worker{Name: fmt.Sprint(i), Capacity: cores(4)})
		u := Usage{Connected: i < ready, ConnectedAt: longAgo}
		if u.Connected {
			u.CPUSeconds = use * now.Seconds()
		}
		v.Usage = append(v.Usage, u)
	}
	return v
}

// TestHPAFollowsTheControllersFormula computes what kube-controller-manager 1.13 does at a target
// of 20 percent, after a minute of steady use.
func TestHPAFollowsTheControllersFormula(t *testing.T) {
	for _, tc := range []struct {
		name          string
		ready, coming int
		use           float64 // cores of each ready pod
		want          int
	}{
		{"on target", 5, 0, 0.8, 5},
		{"within a tenth of it", 5, 0, 0.87, 5},
		{"twice the target", 5, 0, 1.6, 10},
		{"rounded up", 5, 0, 0.9, 6},
		{"at most double", 5, 0, 4, 10},
		{"at least to four", 1, 0, 4, 4},
		{"those coming count as idle", 3, 3, 3.5, 12},     // 3·0.875/6/0.2 = 2.19
		{"and make it patient", 3, 9, 3.5, 12},            // 1.09
		{"but do not make it shrink", 3, 12, 1.6, 15},     // 0.4: the other side
		{"for shrinking they are left out", 8, 2, 0.4, 4}, // ceil(0.5·8)
		{"never below its least", 2, 0, 0, 1},
		{"never above its most", 30, 0, 4, 40},
		{"no pod is ready", 0, 3, 0, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := &HPA{Target: 0.2, Min: 1, Max: 40}
			v := pods(time.Minute, tc.ready, tc.coming, tc.use)
			order, err := h.Decide(v)
			if got := len(v.State.Workers) + order.Add - len(order.Kill); err != nil || got != tc.want {
				t.Errorf("%d pods (%v), want %d", got, err, tc.want)
			}
		})
	}
}

func TestHPAShrinksAfterFiveMinutes(t *testing.T) {
	h := &HPA{Target: 0.5, Min: 1, Max: 40}
	if order, _ := h.Decide(pods(time.Minute, 5, 0, 2)); len(order.Kill) > 0 {
		t.Fatal("shrinks on target")
	}
	quiet := pods(2*time.Minute, 5, 0, 0)
	for at := 2 * time.Minute; at < 6*time.Minute; at += 15 * time.Second {
		quiet.Now = at
		if order, _ := h.Decide(quiet); len(order.Kill) > 0 {
			t.Fatalf("shrinks at %v, want after five minutes", at)
		}
	}
	quiet.Now = 6 * time.Minute
	if order, _ := h.Decide(quiet); !slices.Equal(order.Kill, []string{"4", "3", "2", "1"}) {
		t.Errorf("kills %v, want the youngest four", order.Kill)
	}
}

func TestHPADeletesWhatIsComingFirst(t *testing.T) {
	if got := youngest(pods(0, 2, 2, 0), 3); !slices.Equal(got, []string{"3", "2", "1"}) {
		t.Errorf("deletes %v", got)
	}
	v := pods(0, 2, 0, 0)
	v.Usage[0].Connected = false
	if got := youngest(v, 1); !slices.Equal(got, []string{"0"}) {
		t.Errorf("deletes %v, want the one that has not connected", got)
	}
}

func TestHPATakesTheUsageOfTheLastMinute(t *testing.T) {
	h := &HPA{Target: 0.2, Min: 1, Max: 40}
	busy := pods(time.Minute, 1, 0, 0.8)
	for _, now := range []time.Duration{time.Minute, 75 * time.Second, 90 * time.Second, 105 * time.Second, 2 * time.Minute} {
		busy.Now = now // nothing is used after the first minute
		if _, err := h.Decide(busy); err != nil {
			t.Fatal(err)
		}
	}
	if used, requested, _ := h.measure(busy); used != 0 || requested != 4 {
		t.Errorf("uses %v of %v cores, want nothing of 4", used, requested)
	}
}
