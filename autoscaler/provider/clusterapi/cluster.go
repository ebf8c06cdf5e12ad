package clusterapi

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
)

// ownCluster returns the name of the Cluster whose machines the fleet buys and releases: spec.clusterAPI.clusterName,
// or the Cluster that the nodes are annotated with by cluster-api, or the only one that the templates, or the selected
// MachineDeployments, belong to. It is empty if there are neither. A namespace may have several Clusters, and the
// machines of another one never become nodes here: they would be released as lost. The fleet is therefore refused if
// the Cluster is ambiguous, or if the spec contradicts the nodes.
//
// Cost: O(n + d) for n nodes and d MachineDeployments.
func (p *Provider) ownCluster(deployments []clusterv1.MachineDeployment) (string, error) {
	refused := func(format string, args ...any) error {
		return &provider.Refused{Reason: v1alpha1.FleetReasonClusterAmbiguous, Message: "spec.clusterAPI.clusterName: " + fmt.Sprintf(format, args...)}
	}
	joined := p.joinedClusters()
	named := p.spec.ClusterName
	switch {
	case len(joined) > 1:
		return "", refused("the nodes of this cluster are annotated as those of the Clusters %s: correct the annotation %s of the nodes", strings.Join(joined, ", "), clusterv1.ClusterNameAnnotation)
	case len(joined) == 1 && named != "" && joined[0] != p.spec.Namespace+"/"+named:
		return "", refused("the nodes of this cluster belong to Cluster %s, not to %s/%s", joined[0], p.spec.Namespace, named)
	case named != "":
		return named, nil
	case len(joined) == 1:
		namespace, name, _ := strings.Cut(joined[0], "/")
		if namespace != p.spec.Namespace {
			return "", refused("the nodes of this cluster belong to Cluster %s, but spec.clusterAPI.namespace is %s", joined[0], p.spec.Namespace)
		}
		return name, nil
	}
	selected := p.selectedClusters(deployments)
	if len(selected) > 1 {
		return "", refused("specify one of %s: spec.clusterAPI selects MachineDeployments of each of them, and no node shows which is this cluster", strings.Join(selected, ", "))
	}
	return strings.Join(selected, ""), nil
}

// joinedClusters returns the Clusters, as namespace/name, that cluster-api has recorded on nodes, ordered.
func (p *Provider) joinedClusters() []string {
	found := map[string]bool{}
	for _, n := range p.nodes {
		if name := n.Annotations[clusterv1.ClusterNameAnnotation]; name != "" {
			found[n.Annotations[clusterv1.ClusterNamespaceAnnotation]+"/"+name] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// selectedClusters returns the names of the Clusters of the templates, or without templates of the MachineDeployments,
// ordered.
func (p *Provider) selectedClusters(deployments []clusterv1.MachineDeployment) []string {
	found := map[string]bool{}
	for _, o := range p.offered {
		found[o.model.deployment.Spec.ClusterName] = true
	}
	for i := range deployments {
		if !p.makes() {
			found[deployments[i].Spec.ClusterName] = true
		}
	}
	delete(found, "")
	return slices.Sorted(maps.Keys(found))
}

// ofOtherCluster reports whether a MachineDeployment belongs to another Cluster than that of the fleet. Both may be
// unknown.
func ofOtherCluster(d *clusterv1.MachineDeployment, cluster string) bool {
	return cluster != "" && d.Spec.ClusterName != "" && d.Spec.ClusterName != cluster
}

// checkTemplates refuses templates that belong to another Cluster: their machines would join that one.
func (p *Provider) checkTemplates(cluster string) error {
	for _, name := range slices.Sorted(maps.Keys(p.offered)) {
		if d := p.offered[name].model.deployment; ofOtherCluster(d, cluster) {
			return &provider.Refused{Reason: v1alpha1.FleetReasonClusterAmbiguous, Message: fmt.Sprintf(
				"spec.clusterAPI.templates[%s]: the MachineDeployment belongs to Cluster %s, and this cluster is %s: specify a MachineDeployment of %s",
				d.Name, d.Spec.ClusterName, cluster, cluster)}
		}
	}
	return nil
}

// pausedCluster describes that the Cluster of the fleet is paused, or returns "". cluster-api then changes nothing about
// its MachineDeployments and Machines. A Cluster that is unknown, or does not exist, is not paused.
//
// Cost: one request.
func (p *Provider) pausedCluster(ctx context.Context, deployments []clusterv1.MachineDeployment) (string, error) {
	name := p.cluster
	for i := range deployments {
		name = cmp.Or(name, deployments[i].Spec.ClusterName)
	}
	if name == "" {
		return "", nil
	}
	var of clusterv1.Cluster
	err := p.live.Get(ctx, client.ObjectKey{Namespace: p.spec.Namespace, Name: name}, &of)
	switch {
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("read Cluster %s/%s: %w", p.spec.Namespace, name, err)
	case of.Spec.Paused != nil && *of.Spec.Paused:
		return fmt.Sprintf("Cluster %s/%s is paused", p.spec.Namespace, name), nil
	}
	return "", nil
}

// hold holds all flavors for a reason.
func hold(flavors []provider.Flavor, why string) {
	for i := range flavors {
		f := &flavors[i]
		f.Held, f.Kept, f.Problem = why, why, cmp.Or(f.Problem, why)
	}
}
