package auditor

import (
	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/internal/world/objects"
)

// Prices say what nodes cost, as an audit prices them. They are not safe for concurrent use.
type Prices struct{ pricer *pricer }

// NewPrices returns prices by the annotations of nodes and of the MachineDeployments among the objects,
// the user's own and list prices, in this order.
func NewPrices(from *objects.Objects, own []catalogue.Flavor) *Prices {
	return &Prices{newPricer(from, own)}
}

// Of returns what a node costs in millionths of a dollar per hour, or why that is not known.
func (p *Prices) Of(node *corev1.Node) (microDollars int64, unpriced string) {
	return p.pricer.price(node)
}

// InstanceType is what the seller of a node's machine calls it; empty if that is not known.
func InstanceType(node *corev1.Node) string { return instanceType(node) }
