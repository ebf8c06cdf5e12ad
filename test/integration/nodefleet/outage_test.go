package nodefleet

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// TestACloudThatDoesNotAnswerHoldsItsOwnFleetAlone has a cloud that accepts requests and answers none.
// Meanwhile a fleet of another provider buys without delay.
func TestACloudThatDoesNotAnswerHoldsItsOwnFleetAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t, "outage")
	b.flavor("small", "2", "4Gi", "0.01", comesAfter(time.Second))
	c := newCloud(b, 1)
	c.forget()
	b.fleet("own")
	c.rent()
	b.autoscale()
	b.has("own", v1alpha1.FleetReady, metav1.ConditionTrue, "Reconciled")
	b.has("rented", v1alpha1.FleetReady, metav1.ConditionTrue, "Reconciled")

	end := c.silent()
	c.hangs()
	for i, name := range []string{"first", "second"} {
		// A machine is ordered within 13 s on a busy computer, and a request to the cloud may take a minute.
		// The time until the machine arrives does not depend on the fleet.
		const soon = 40 * time.Second
		began := time.Now()
		b.pods(name, 1, "1500m", "1Gi")
		b.Eventually("a machine is ordered for the "+name+" pod", func() string { return cmp.Diff(map[string]int{"small": i + 1}, b.replicas()) })
		took := time.Since(began)
		t.Logf("a machine for the %s pod is ordered after %.1f s", name, took.Seconds())
		if took > soon {
			t.Errorf("a machine for the %s pod is ordered after %v, want %v at most: the other fleet need not wait for the cloud", name, took, soon)
		}
		b.Runs(i + 1)
	}
	if text := b.has("rented", v1alpha1.FleetReady, metav1.ConditionFalse, "ProviderUnreachable"); !strings.Contains(text, "no response within") {
		t.Errorf("the fleet of the cloud holds for %q", text)
	}
	b.event("ProviderUnreachable")
	end()
	b.has("rented", v1alpha1.FleetReady, metav1.ConditionTrue, "Reconciled")
	b.has("own", v1alpha1.FleetReady, metav1.ConditionTrue, "Reconciled")
}

// TestACloudThatFallsSilentDuringAnOrderHoldsItsOwnFleetAlone has a request for a server without an answer,
// which may take a minute. Meanwhile a fleet of another provider buys without delay. In the end the server
// exists once.
func TestACloudThatFallsSilentDuringAnOrderHoldsItsOwnFleetAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t, "midway")
	b.flavor("small", "2", "4Gi", "0.01", comesAfter(time.Second))
	c := newCloud(b, 1)
	c.forget()
	b.fleet("own")
	c.rent()
	b.autoscale()
	b.has("own", v1alpha1.FleetReady, metav1.ConditionTrue, "Reconciled")
	b.has("rented", v1alpha1.FleetReady, metav1.ConditionTrue, "Reconciled")

	of := func(flavor string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.NodeSelector[corev1.LabelInstanceTypeStable] = flavor }
	}
	end := c.silentFrom(func(r *http.Request) bool {
		return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/servers")
	})
	b.pods("far", 1, "1500m", "1Gi", of("m-00"))
	c.hangs()
	const soon = 30 * time.Second // half of the time that the order may take
	began := time.Now()
	b.pods("near", 1, "1500m", "1Gi", of("small"))
	b.Eventually("a machine is ordered meanwhile", func() string { return cmp.Diff(map[string]int{"small": 1}, b.replicas()) })
	took := time.Since(began)
	t.Logf("a machine is ordered after %.1f s", took.Seconds())
	if took > soon {
		t.Errorf("a machine is ordered after %v, want %v at most: the other fleet need not wait for the cloud", took, soon)
	}
	end()
	b.Eventually("the server is there", func() string {
		there, deleted, _ := c.read()
		return cmp.Diff([]int{1, 0}, []int{there, deleted})
	})
	b.Runs(1)
}
