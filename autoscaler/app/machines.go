package app

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"supercargo.dev/supercargo/autoscaler/fleet"
	"supercargo.dev/supercargo/autoscaler/provider/clusterapi"
	"supercargo.dev/supercargo/autoscaler/provider/karpenter"
	"supercargo.dev/supercargo/internal/platform/operator"
)

// machinesOf returns the cluster that has the MachineDeployments, and its changes that start rounds of fleets.
func machinesOf(m ctrl.Manager, o Options) (cluster.Cluster, fleet.Changes, error) {
	if o.ClusterAPIConfig != nil {
		return machinesApart(m, o)
	}
	watched, err := operator.Served(m, clusterapi.Kinds()...)
	if err != nil {
		return nil, fleet.Changes{}, err
	}
	if len(watched) == 0 {
		o.Log.Info("cluster-api is not installed: for fleets with provider ClusterAPI, install its v1beta2 API and restart")
	}
	return m, fleet.Changes{In: m.GetCache(), Kinds: watched}, nil
}

// machinesApart returns the management cluster. It sends no request to it, so that the autoscaler starts while that
// cluster is unreachable. The manager starts its cache, but does not wait for it, because it has no informers yet.
func machinesApart(m ctrl.Manager, o Options) (cluster.Cluster, fleet.Changes, error) {
	machines, err := cluster.New(o.ClusterAPIConfig, func(c *cluster.Options) {
		c.Scheme = m.GetScheme()
		c.Cache.DefaultTransform = cache.TransformStripManagedFields()
	})
	if err == nil {
		err = m.Add(machines)
	}
	if err != nil {
		return nil, fleet.Changes{}, fmt.Errorf("connect to the cluster of the MachineDeployments: %w", err)
	}
	return machines, fleet.Changes{In: machines.GetCache(), Kinds: clusterapi.Kinds(), Apart: true}, nil
}

// claimsOf returns the changes of NodeClaims that start rounds of fleets. Without the permission to list them, it returns
// none: to wait for a cache of them would keep the autoscaler from starting in any cluster with Karpenter.
func claimsOf(ctx context.Context, m ctrl.Manager, o Options) (fleet.Changes, error) {
	served, err := operator.Served(m, karpenter.Kinds()...)
	if err != nil {
		return fleet.Changes{}, err
	}
	if len(served) == 0 {
		o.Log.Info("Karpenter is not installed: for fleets with provider Karpenter, install it and restart")
		return fleet.Changes{}, nil
	}
	err = m.GetAPIReader().List(ctx, karpenter.NewList(), client.Limit(1))
	switch {
	case apierrors.IsForbidden(err):
		o.Log.Info("The autoscaler may not list NodeClaims: for fleets with provider Karpenter, grant the permissions and restart")
		return fleet.Changes{}, nil
	case ctx.Err() != nil: // the autoscaler was told to end while it started, which is no error
		return fleet.Changes{}, nil
	case err != nil:
		return fleet.Changes{}, fmt.Errorf("list NodeClaims: %w", err)
	}
	return fleet.Changes{In: m.GetCache(), Kinds: served}, nil
}
