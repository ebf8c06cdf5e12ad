package clusterapi

import (
	"context"
	"testing"

	clocktesting "k8s.io/utils/clock/testing"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/pricelist"
	"supercargo.dev/supercargo/internal/input/catalogue"
)

// BenchmarkObserveAWholeCatalogue has all instance types of a region as offers, and no machines: the cost for a round
// before it plans, without the time of two requests.
func BenchmarkObserveAWholeCatalogue(b *testing.B) {
	types, err := pricelist.Read("aws", "us-east-1")
	if err != nil {
		b.Fatal(err)
	}
	s := newServer(b, append(infrastructureOf("AWSMachineTemplate", map[string]any{"instanceType": "t3.medium"}), toCopy())...)
	of := Fleet{
		Name: "f", Types: func(context.Context) ([]catalogue.Flavor, error) { return types, nil },
		Spec: v1alpha1.ClusterAPIFlavors{Namespace: "machines", Templates: []v1alpha1.MachineTemplate{{MachineDeployment: "workers"}}},
	}
	known := NewTemplates(clocktesting.NewFakePassiveClock(start))
	offers := 0
	for b.Loop() {
		found, err := New(s, s, of, nil, known).Observe(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		offers = len(found.Flavors)
	}
	b.ReportMetric(float64(offers), "offers")
}
