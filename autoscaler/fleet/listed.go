package fleet

import (
	"cmp"
	"math"
	"slices"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/fleetdecide"
	"supercargo.dev/supercargo/internal/text/dollars"
)

// Limits of the lists in a status. maxFlavors is the maximum number of flavors, orders and releases that the API
// allows. maxFlavorBytes is the approximate share that they may take of an object in etcd, which is limited to 1.5 MiB.
// maxUnused is the maximum number of listed flavors without machines and learned values: a status is written in most
// rounds, and larger ones take the API server longer. rowBytes is the approximate size of a row without its texts: its
// fields, and their names in metadata.managedFields, which repeat the name of the flavor.
const (
	maxFlavors     = fleetdecide.MaxFlavors
	maxFlavorBytes = 1 << 20
	maxUnused      = 100
	rowBytes       = 600
)

// listed splits the flavors of a fleet into those that fit into its status, ordered by name, and the others. Flavors
// with machines come first, then those with learned values that must not be forgotten, then those that can be bought,
// cheapest first, then the rest; ties by name. It may reorder all.
func listed(all []v1alpha1.FlavorStatus) (list, rest []v1alpha1.FlavorStatus) {
	size := func(f *v1alpha1.FlavorStatus) int {
		return rowBytes + 2*len(f.Name) + len(f.InstanceType) + len(f.Message)
	}
	total, unused := 0, 0
	for i := range all {
		total += size(&all[i])
		if listRank(&all[i]) >= rankUnused {
			unused++
		}
	}
	if len(all) <= maxFlavors && total <= maxFlavorBytes && unused <= maxUnused {
		return all, nil
	}
	slices.SortFunc(all, func(a, b v1alpha1.FlavorStatus) int {
		return cmp.Or(cmp.Compare(listRank(&a), listRank(&b)), cmp.Compare(listPrice(&a), listPrice(&b)), cmp.Compare(a.Name, b.Name))
	})
	n, bytes := 0, 0
	for most := min(maxFlavors, len(all)-unused+maxUnused); n < min(len(all), most); n++ {
		if bytes += size(&all[n]); bytes > maxFlavorBytes {
			break
		}
	}
	list, rest = slices.Clone(all[:n]), slices.Clone(all[n:])
	slices.SortFunc(list, func(a, b v1alpha1.FlavorStatus) int { return cmp.Compare(a.Name, b.Name) })
	return list, rest
}

// rankUnused is the rank of flavors without anything to remember.
const rankUnused = 3

// listRank ranks flavors by how much is lost if they are not listed.
func listRank(f *v1alpha1.FlavorStatus) int {
	switch {
	case f.Machines > 0:
		return 0
	case f.BackOffUntil != nil || f.Failures > 0:
		return 1
	case f.Lag != nil || f.Seen != nil:
		return 2
	case f.Message == "" && f.PricePerHour != "":
		return rankUnused
	}
	return rankUnused + 1
}

// listPrice returns the price of a flavor in micro-dollars per hour. Flavors without a price come last.
func listPrice(f *v1alpha1.FlavorStatus) int64 {
	price, err := dollars.Parse(f.PricePerHour)
	if err != nil {
		return math.MaxInt64
	}
	return price
}
