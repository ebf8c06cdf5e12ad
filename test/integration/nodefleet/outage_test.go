package nodefleet

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// TestACloudThatDoesNotAnswerHoldsItsOwnFleetAlone: a cloud takes requests and answers none.
// Meanwhile a fleet of another provider buys as fast as ever.
func TestACloudThatDoesNotAnswerHoldsItsOwnFleetAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t, "outage")
	b.flavor("small", "2", "4Gi", "0.01", comesAfter(time.Second))
	c := newCloud(b, 1)
	c.forget()
	b.fleet("own")
	c.rent()
	b.autoscale()
	b.has("own", v1alpha1.FleetReady, metav1.ConditionTrue, "LookedAfter")
	b.has("rented", v1alpha1.FleetReady, metav1.ConditionTrue, "LookedAfter")

	end := c.silent()
	b.eventually("the cloud is asked in vain", func() string {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.hanging == 0 {
			return "it is not asked"
		}
		return ""
	})
	for i, name := range []string{"first", "second"} {
		// A machine is ordered within 13 s on a busy computer; a request to the cloud may take a minute. How
		// long the machine takes to come is not the fleet's doing.
		const soon = 40 * time.Second
		began := time.Now()
		b.pods(name, 1, "1500m", "1Gi")
		b.eventually("a machine is ordered for the "+name+" pod", func() string { return cmp.Diff(map[string]int{"small": i + 1}, b.replicas()) })
		took := time.Since(began)
		t.Logf("a machine for the %s pod is ordered after %.1f s", name, took.Seconds())
		if took > soon {
			t.Errorf("a machine for the %s pod is ordered after %v, want %v at most: the other fleet need not wait for the cloud", name, took, soon)
		}
		b.run(i + 1)
	}
	if text := b.has("rented", v1alpha1.FleetReady, metav1.ConditionFalse, "ProviderUnreachable"); !strings.Contains(text, "not answered within") {
		t.Errorf("the fleet of the cloud holds for %q", text)
	}
	b.event("ProviderUnreachable")
	end()
	b.has("rented", v1alpha1.FleetReady, metav1.ConditionTrue, "LookedAfter")
	b.has("own", v1alpha1.FleetReady, metav1.ConditionTrue, "LookedAfter")
}
