package nodefleet

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestAMachineThatIsTooLargeIsExchangedForASmallOne(t *testing.T) {
	t.Parallel()
	b := newBench(t, "exchange")
	b.flavor("small", "2", "4Gi", "0.10")
	b.flavor("large", "8", "16Gi", "0.30")
	b.fleet("all", underUsed)
	b.autoscale()
	var sets []client.Object
	for _, name := range []string{"p0", "p1", "p2", "p3"} {
		sets = append(sets, b.movable(name, "1900m", "1Gi"))
	}
	b.Runs(4)
	b.becomes(map[string]int{"large": 1})
	for _, set := range sets[1:] {
		b.removeSet(set)
	}
	b.becomes(map[string]int{"small": 1})
	b.Runs(1)
	if text := b.explain("all"); !strings.Contains(text, "small") {
		t.Errorf("explain does not mention it:\n%s", text)
	}
	b.event("Exchange")
}
