package planfile

import (
	"fmt"
	"strings"
	"testing"
)

func TestOneMoreOfAListIsSingular(t *testing.T) {
	for more, want := range map[int]string{1: "... and 1 more reason, which", 2: "... and 2 more reasons, which"} {
		var reasons []Reason
		for i := range mostLines + more {
			reasons = append(reasons, Reason{Pod: fmt.Sprint("pod-", i), Reason: fmt.Sprint("reason ", i)})
		}
		var b strings.Builder
		if printReasons(&b, "fits", "fit", reasons); !strings.Contains(b.String(), want) {
			t.Errorf("%d left out: it says\n%s\nwant %q", more, b.String(), want)
		}
		a := Alternative{}
		for i := range 3 + more {
			a.Machines = append(a.Machines, Count{Flavor: fmt.Sprint("f", i), Count: 1})
		}
		if got, want := instead(a, nil), fmt.Sprintf("1 f2, %d other flavor", more); !strings.Contains(got, want) || more == 1 && strings.HasSuffix(got, "s") {
			t.Errorf("%d left out: it says %q, want %q", more, got, want)
		}
	}
}
