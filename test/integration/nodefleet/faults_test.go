package nodefleet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/lab/playground/machines"
)

// event waits for an Event on one of the fleets and returns its message.
func (b *bench) event(reason string) (note string) {
	b.Helper()
	b.Eventually("an Event "+reason, func() string {
		for _, e := range b.events() {
			if e.Reason == reason {
				note = e.Message
				return ""
			}
		}
		return "there is none"
	})
	return note
}

func TestMachinesThatNeverComeAreAbandonedAndOthersBought(t *testing.T) {
	t.Parallel()
	b := newBench(t, "fault")
	b.flavor("fail", "2", "4Gi", "0.10", func(s *spec) { s.Fault = machines.FaultFail })
	b.flavor("never", "2", "4Gi", "0.20", func(s *spec) { s.Fault = machines.FaultNever })
	b.flavor("good", "2", "4Gi", "0.30", comesAfter(3*time.Second))
	const joinTimeout = "cluster.x-k8s.io/autoscaling-options-maxnodeprovisiontime"
	b.annotate("fail", joinTimeout, "3s")
	b.annotate("good", joinTimeout, "10m") // the others use the timeout of the fleet
	highest := b.highest()
	b.fleet("all", func(s *v1alpha1.NodeFleetSpec) {
		s.Scaling.JoinTimeout, s.Scaling.BackOff = seconds(4), seconds(3600)
	})
	b.pods("p", 2, "1900m", "1Gi")
	b.wait(2)
	b.autoscale()
	b.Runs(2)
	if each, together := highest(); !cmp.Equal(map[string]int{"fail": 2, "never": 2, "good": 2}, each) || together != 2 {
		t.Errorf("there were to be %v machines, %d together; want two of each, one flavor after the other", each, together)
	}
	b.Eventually("no machine is left of those that did not come", func() string {
		return cmp.Diff(2, len(b.machines())) + b.untouched()
	})
	if diff := cmp.Diff(map[string]int{"good": 2}, b.replicas()); diff != "" {
		t.Errorf("machines that there are to be (-want +got):\n%s", diff)
	}
	for _, flavor := range []string{"fail", "never"} {
		s := b.flavorStatus("all", flavor)
		if s.Failures != 1 || s.BackOffUntil == nil || time.Until(s.BackOffUntil.Time) < 50*time.Minute {
			t.Errorf("flavor %s has failed %d times and is left unchanged until %v; want once, for an hour", flavor, s.Failures, s.BackOffUntil)
		}
	}
	message := b.has("all", v1alpha1.FleetDegraded, metav1.ConditionTrue, "MachinesNotReady")
	if want := "fault-fail, fault-never"; !strings.Contains(message, want) {
		t.Errorf("degraded with %q, want %q in it", message, want)
	}
	note := b.event("MachineAbandoned")
	if !strings.Contains(note, "abandoned ") || !strings.Contains(note, " of flavor fault-fail") {
		t.Errorf("the Event says %q", note)
	}
	b.Eventually("a lag is learned from the machines that come", func() string { // pods may run before the next round of the fleet
		if s := b.flavorStatus("all", "good"); s.Failures != 0 || s.BackOffUntil != nil || s.Lag == nil || s.Lag.Mean.Duration < 2*time.Second {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
	b.removePods()
	b.becomes(map[string]int{})
}
