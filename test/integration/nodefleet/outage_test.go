package nodefleet

import (
	"strings"
	"testing"
	"time"

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
		const soon = 25 * time.Second // a quick purchase takes 3 s here; one request to the cloud may take a minute
		began := time.Now()
		b.pods(name, 1, "1500m", "1Gi")
		b.run(i + 1)
		took := time.Since(began)
		t.Logf("the %s pod runs after %.1f s", name, took.Seconds())
		if took > soon {
			t.Errorf("the %s pod runs after %v, want %v at most: the other fleet has a machine for it", name, took, soon)
		}
	}
	if text := b.has("rented", v1alpha1.FleetReady, metav1.ConditionFalse, "ProviderUnreachable"); !strings.Contains(text, "not answered within") {
		t.Errorf("the fleet of the cloud holds for %q", text)
	}
	b.event("ProviderUnreachable")
	end()
	b.has("rented", v1alpha1.FleetReady, metav1.ConditionTrue, "LookedAfter")
	b.has("own", v1alpha1.FleetReady, metav1.ConditionTrue, "LookedAfter")
}
