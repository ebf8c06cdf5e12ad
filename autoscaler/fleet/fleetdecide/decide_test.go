package fleetdecide

import (
	"fmt"
	"testing"
	"time"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/test/fixtures/states"
)

const minute = time.Minute

// What the tests build clusters of.
var (
	size, job, service, flavor   = states.Size, states.Job, states.Service, states.Flavor
	node, of, due, state, cloned = states.Node, states.Of, states.Due, states.State, states.Clone
	small, large                 = states.Small, states.Large
)

func podsOf(all ...cluster.Pod) []cluster.Pod { return all }

func changedNode(n cluster.Node, change func(*cluster.Node)) cluster.Node { change(&n); return n }

// full is a node whose only job leaves no room until it ends.
func full(name string, ends time.Duration) cluster.Node {
	return node(name, job("on-"+name, 10, ends))
}

// came adds pods that arrived the given times ago. They were watched for seven minutes, the length of a forecast.
func came(s *cluster.State, recent ...cluster.Pod) *cluster.State {
	s.Recent, s.Observed = recent, 7*minute
	return s
}

func ago(p cluster.Pod, waited time.Duration) cluster.Pod { p.Waited = waited; return p }

// often returns n pods like p that arrived within the last minute, the last first.
func often(p cluster.Pod, n int) (all []cluster.Pod) {
	for i := range n {
		p.Waited = time.Duration(i+1) * minute / time.Duration(n)
		p.Name = fmt.Sprint("came", i)
		all = append(all, p)
	}
	return all
}

func observed(s *cluster.State, length time.Duration) *cluster.State { s.Observed = length; return s }

// TestAnEvaluationThatIsTooShortSaysNothing tests the boundary: a pod that arrives every 420 ms would arrive a thousand times
// in seven minutes.
func TestAnEvaluationThatIsTooShortSaysNothing(t *testing.T) {
	for length, want := range map[time.Duration]int{420 * time.Millisecond: 0, 420*time.Millisecond + 1: 999, 421 * time.Millisecond: 997} {
		s := observed(came(state(nil), ago(job("r", 1, minute), 0)), length)
		if got := newForecast(s, s.Lag+s.ScalingInterval, nil).events.Len(); got != want {
			t.Errorf("watched for %v, %d pods are expected, want %d", length, got, want)
		}
	}
}

func TestTheSoonestOfAllTimesIsWhenItDecidesAgain(t *testing.T) {
	var d FleetDecision
	for _, tc := range []struct{ after, want time.Duration }{{3 * minute, 3 * minute}, {minute, minute}, {2 * minute, minute}} {
		if d.wake(tc.after); d.Wake != tc.want {
			t.Errorf("after one in %v it decides again in %v, want %v", tc.after, d.Wake, tc.want)
		}
	}
}
