package autoscalers

import (
	"context"
	"errors"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/lab/compressed"
	"supercargo.dev/supercargo/lab/playground"
)

// fleetOfNodeClaims is a NodeFleet whose machines Karpenter launches, with the shipped scheduler configuration. Karpenter
// has no NodePool.
type fleetOfNodeClaims struct {
	karpenter
	fleet fleetOfSupercargo
}

func (f fleetOfNodeClaims) scheduler(w *world) ([]byte, error) { return f.fleet.scheduler(w) }

func (f fleetOfNodeClaims) start(ctx context.Context, p *playground.Playground, w *world, log *os.File) (stop func() error, err error) {
	stopKarpenter, err := f.karpenter.start(ctx, p, w, log)
	if err != nil {
		return nil, err
	}
	const key = "flavors.csv"
	prices := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "prices"}, Data: map[string]string{key: typesOf(w.flavors)}}
	if _, err := p.Client().CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(ctx, prices, metav1.CreateOptions{}); err != nil {
		return nil, errors.Join(err, stopKarpenter())
	}
	fleet := compressed.Fleet(fleetName, w.stretch)
	fleet.Spec.Provider, fleet.Spec.ClusterAPI = v1alpha1.FleetKarpenter, nil
	fleet.Spec.Karpenter = &v1alpha1.KarpenterNodes{
		NodeClassRef: v1alpha1.KarpenterNodeClass{Group: "karpenter.kwok.sh", Kind: "KWOKNodeClass", Name: "all"},
		Requirements: []v1alpha1.KarpenterRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{playground.KarpenterZone}}},
	}
	fleet.Spec.Pricing.Catalogue = &v1alpha1.PriceCatalogue{Namespace: metav1.NamespaceDefault, Name: "prices", Key: key}
	stopFleet, err := f.fleet.buy(ctx, p, w, fleet, log)
	if err != nil {
		return nil, errors.Join(err, stopKarpenter())
	}
	return func() error { return errors.Join(stopFleet(), stopKarpenter()) }, nil
}

var _ contestant = fleetOfNodeClaims{}
