package fleet

import "context"

// settle drops what a round before left unfinished because the process died or a
// write failed. What had been done of it is seen: machines that were bought are on
// their way, those that were given back have gone or are going. What had not been done
// is decided anew with what is known now: pods still wait, closed nodes are still
// marked, machines that do not come are still late. In the meantime a node that was to
// go may have become ready and have taken pods.
func (r *round) settle(ctx context.Context) {
	if intent := r.fleet.Status.Intent; intent != nil {
		r.info(ctx, "dropping an intent that was left unfinished; what is left of it is decided anew", "intent", intent.ID)
		r.fleet.Status.Intent = nil
	}
}
