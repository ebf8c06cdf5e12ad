package purchase

import (
	"slices"

	"supercargo.dev/supercargo/autoscaler/purchase/mix"
	"supercargo.dev/supercargo/internal/cluster/extended"
)

// LowerBound returns a lower bound of the price of any machines of the flavors that hold all pods at once, in
// micro-dollars per hour, and the number of pods that no flavor holds, which add nothing. It is the bound of
// [Supercargo] without nodes, for pods of many kinds.
//
// Cost: that of one linear program, some tens of milliseconds for hundreds of flavors.
func LowerBound(pods []Pod, flavors []Flavor) (microDollarsPerHour int64, uncounted int) {
	flavors = slices.Clone(flavors)
	for i := range flavors {
		flavors[i].GPUs = extended.GPUs{} // pods without GPUs may fill machines that have some
	}
	d := newDraft(&Request{Pods: pods, Flavors: flavors})
	held := d.refuse(d.pending)
	if len(held) > 0 {
		microDollarsPerHour = mix.LeastOfMany(newInput(held, flavors, nil, MixOptions{}, nil))
	}
	return microDollarsPerHour, len(pods) - len(held)
}

// least returns a lower bound of the price of any machines that hold the placed pods, minus what the nodes hold, in
// micro-dollars per hour.
func (d *draft) least() int64 {
	if d.problem != nil && len(d.rooms) == 0 {
		return d.problem.LeastFor(&d.solution)
	}
	placed := make([]Pod, 0, len(d.r.Pods))
	for _, r := range d.rooms {
		placed = append(placed, r.pods...)
	}
	for _, b := range d.bought {
		for _, item := range b.Items {
			placed = append(placed, d.original(item))
		}
	}
	if len(placed) == 0 {
		return 0
	}
	var like *mix.Problem
	if d.alike(len(placed)) {
		like = d.priced
	}
	return mix.Least(newBoundInput(sorted(placed, Services), d.r.Flavors, d.r.Nodes, d.r.Options), like)
}

// alike reports whether the prices at which machines were bought approximate those of the placed pods, because machines
// were bought for nearly all of them.
func (d *draft) alike(placed int) bool {
	const most = 0.9
	return d.priced != nil && float64(d.priced.Items()) > most*float64(placed) && most*float64(d.priced.Items()) < float64(placed)
}
