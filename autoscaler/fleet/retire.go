package fleet

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/text/plural"
)

// releasesAtEnd reports whether the machines of a fleet are released when it is deleted.
func releasesAtEnd(fleet *v1alpha1.NodeFleet) bool {
	return fleet.Spec.DeletionPolicy == v1alpha1.FleetDeletionRelease && fleet.Spec.Mode != v1alpha1.FleetObserve
}

// retires reports whether a fleet is being deleted and releases its machines first. It buys nothing any more, even if it is
// kept by the finalizer of another program.
func retires(fleet *v1alpha1.NodeFleet) bool {
	return fleet.DeletionTimestamp != nil && releasesAtEnd(fleet)
}

// finalize adds the finalizer to a fleet whose machines are released when it is deleted, and removes it from any other. The
// API server rejects the write if the fleet has changed since it was read.
func (r *Reconciler) finalize(ctx context.Context, fleet *v1alpha1.NodeFleet) error {
	wants := releasesAtEnd(fleet)
	has := controllerutil.ContainsFinalizer(fleet, v1alpha1.FinalizerReleaseMachines)
	if r.DryRun || r.Pause.Withholds() || wants == has || wants && fleet.DeletionTimestamp != nil {
		return nil
	}
	return r.setFinalizer(ctx, fleet, wants)
}

// setFinalizer adds or removes the finalizer.
func (r *Reconciler) setFinalizer(ctx context.Context, fleet *v1alpha1.NodeFleet, wants bool) error {
	changed := fleet.DeepCopy()
	if wants {
		controllerutil.AddFinalizer(changed, v1alpha1.FinalizerReleaseMachines)
	} else {
		controllerutil.RemoveFinalizer(changed, v1alpha1.FinalizerReleaseMachines)
	}
	err := r.Client.Patch(ctx, changed, client.MergeFromWithOptions(fleet, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("set the finalizer of NodeFleet %s: %w", fleet.Name, err)
	}
	fleet.Finalizers, fleet.ResourceVersion = changed.Finalizers, changed.ResourceVersion
	return nil
}

// gone reports whether the API server has deleted a fleet, or does so now, because it has no finalizer.
func gone(fleet *v1alpha1.NodeFleet) bool {
	return fleet.DeletionTimestamp != nil && len(fleet.Finalizers) == 0
}

// endRetirement removes the finalizer of a fleet that is being deleted once it has no machines. Until then, it returns what
// is left.
func (r *round) endRetirement(ctx context.Context, inventory *provider.Inventory, stays string) error {
	left, made := len(inventory.Machines), map[string]int{}
	for i := range inventory.Machines {
		if m := &inventory.Machines[i]; !m.Leaving {
			made[m.Flavor]++
		}
	}
	kept := ""
	for i := range inventory.Flavors {
		f := &inventory.Flavors[i]
		left += max(0, f.Want-made[f.Name])
		if f.Kept != "" && f.Want > 0 {
			kept = fmt.Sprintf("; %s: %s", f.Name, f.Kept)
		}
	}
	if left == 0 && controllerutil.ContainsFinalizer(r.fleet, v1alpha1.FinalizerReleaseMachines) {
		return r.setFinalizer(ctx, r.fleet, false)
	}
	if stays != "" {
		stays = "; " + stays
	}
	return &waiting{v1alpha1.FleetReasonReleasing, fmt.Sprintf("the fleet is being deleted: %s %s left to release%s%s",
		plural.Count(left, "machine"), plural.Form(left, "is", "are"), stays, kept)}
}
