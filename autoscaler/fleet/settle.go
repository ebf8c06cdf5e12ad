package fleet

import (
	"context"
	"slices"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
)

// settle takes up what a round before left unfinished, because the process died or a
// write failed. Machines that were not bought yet are not bought any more: the pods
// are still there, and are planned for with what is known now. Machines that were
// about to be given back are empty and closed, so they go. It reports whether the
// round can go on with what it has seen.
func (r *round) settle(ctx context.Context) (bool, error) {
	intent := r.fleet.Status.Intent
	if intent == nil {
		return true, nil
	}
	r.info(ctx, "settling an intent that was left unfinished", "intent", intent.ID)
	changed := false
	if r.mayAct() {
		for _, release := range intent.Releases {
			machines := r.unreleased(release)
			if len(machines) == 0 {
				continue
			}
			changed = true
			if err := r.provider.Release(ctx, intent.ID, release.Flavor, int(release.From), machines); err != nil {
				return false, r.dropIfChanged(err)
			}
		}
	}
	r.fleet.Status.Intent = nil
	if changed {
		r.again = settling // what was seen is out of date
	}
	return !changed, nil
}

// unreleased returns the machines of a release that was written down and not carried
// out: the number of machines is still the old one, and all of them are there.
func (r *round) unreleased(release v1alpha1.FleetRelease) []string {
	f := r.flavor(release.Flavor)
	if f == nil || f.Want != int(release.From) {
		return nil
	}
	for _, name := range release.Machines {
		there := slices.ContainsFunc(r.self.inventory.Machines, func(m provider.Machine) bool {
			return m.Name == name && m.Flavor == release.Flavor && !m.Leaving
		})
		if !there {
			return nil
		}
	}
	return release.Machines
}

func (r *round) flavor(name string) *provider.Flavor {
	flavors := r.self.inventory.Flavors
	at := slices.IndexFunc(flavors, func(f provider.Flavor) bool { return f.Name == name })
	if at < 0 {
		return nil
	}
	return &flavors[at]
}
