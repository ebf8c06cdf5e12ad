package app

import (
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"supercargo.dev/supercargo/autoscaler/fleet"
	"supercargo.dev/supercargo/autoscaler/provider/clusterapi"
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
