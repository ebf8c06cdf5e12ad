package fleet

import (
	"context"
	"time"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// settle drops what a round before left unfinished because the process died or a
// write failed. What had been done of it is seen: machines that were bought are on
// their way, those that were given back have gone or are going. What had not been done
// is decided anew with what is known now: pods still wait, closed nodes are still
// marked, machines that do not come are still late. In the meantime a node that was to
// go may have become ready and have taken pods.
func (r *round) settle(ctx context.Context) {
	if intent := r.fleet.Status.Intent; intent != nil {
		r.info(ctx, "dropping an intent that was left unfinished; what is left of it is decided anew", "intent", intent.ID)
		if !r.nominateBought(intent) {
			r.memory.nominations.before = time.Time{} // nothing was bought for anybody
		}
		r.fleet.Status.Intent = nil
	}
}

// nominateBought nominates the pods for which machines were bought before an intent was
// left, and reports whether there were any.
func (r *round) nominateBought(intent *v1alpha1.FleetIntent) bool {
	bought := false
	for _, o := range intent.Orders {
		if f := r.flavor(o.Flavor); f != nil && f.Want >= int(o.To) {
			r.nominatePods(o.Flavor)
			bought = true
		}
	}
	return bought
}
