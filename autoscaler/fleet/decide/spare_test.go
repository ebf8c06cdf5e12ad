package decide

import (
	"testing"
	"time"

	"supercargo.dev/supercargo/internal/class"
)

// TestReleasesAndExchangesTogetherLeaveTheLeastNumber has an empty machine, and one for which a
// cheaper one would do.
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
