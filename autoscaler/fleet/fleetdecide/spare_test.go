package fleetdecide

import (
	"testing"
	"time"

	"supercargo.dev/supercargo/internal/cluster/class"
)

// TestReleasesAndExchangesTogetherLeaveTheLeastNumber has an empty machine, and one that a cheaper one could replace.
func TestReleasesAndExchangesTogetherLeaveTheLeastNumber(t *testing.T) {
	for spare, exchanges := range map[int]bool{1: false, 2: true} {
		s := quiet(nil, of(class.Service, node("a")), of(class.Batch, node("b", job("x", 4, 10*time.Hour))))
		o := all()
		o.Class, o.Horizon, o.Spare = class.Any, 8*time.Hour, map[string]int{"large": spare, "small": 0}
		d := Fleet(s, o, mover(), midnight)
		if len(d.Release) != 1 || d.Release[0].Node != "a" || (d.Exchange != nil) != exchanges {
			t.Errorf("with %d to spare released are %v, exchanged %+v", spare, d.Release, d.Exchange)
		}
	}
}

// TestAMachineThatIsPaidForLongIsNotExchangedYet has machines billed by the hour, and an exchange that takes the two
// minutes of a new machine.
func TestAMachineThatIsPaidForLongIsNotExchangedYet(t *testing.T) {
	evaluate := func(age time.Duration) FleetDecision {
		s := quiet(nil, of(class.Batch, node("b", job("x", 4, 10*time.Hour))))
		s.BillingPeriod, s.Nodes[0].Age = time.Hour, age
		o := all()
		o.Class, o.Horizon = class.Any, 8*time.Hour
		return Fleet(s, o, mover(), midnight)
	}
	for _, age := range []time.Duration{10 * minute, 50 * minute, 56 * minute} {
		d := evaluate(age)
		if d.Exchange != nil {
			t.Errorf("%v after its order it is exchanged: %+v", age, d.Exchange)
		}
		if d.Wake == 0 || evaluate(age+d.Wake).Exchange == nil {
			t.Errorf("%v after its order it stays, and after %v, too", age, d.Wake)
		}
	}
}
