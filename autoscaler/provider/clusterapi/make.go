package clusterapi

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// create scales a MachineDeployment without machines, and creates it and its infrastructure template if they do not
// exist. Their names depend on their content, so existing ones are as intended.
func (p *Provider) create(ctx context.Context, o *offer, replicas int) error {
	buying := p.templates.buying(p.key(o.name))
	buying.RLock()
	defer buying.RUnlock()
	err := p.scale(ctx, o.name, 0, replicas)
	if !apierrors.IsNotFound(err) {
		return err
	}
	template, err := o.infrastructure(p.fleet.Name)
	if err != nil {
		return err
	}
	if err := p.writer.Create(ctx, template); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create %s %s/%s: %w", template.GetKind(), p.spec.Namespace, o.name, err)
	}
	err = p.writer.Create(ctx, o.deployment(p.fleet.Name, replicas))
	if apierrors.IsAlreadyExists(err) { // since the attempt to scale
		return p.scale(ctx, o.name, 0, replicas)
	}
	if err != nil {
		return fmt.Errorf("create MachineDeployment %s/%s: %w", p.spec.Namespace, o.name, err)
	}
	return nil
}

func (p *Provider) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: p.spec.Namespace, Name: name}
}

// noteUnused records the existing MachineDeployments, those of other Clusters included, and which of the fleet's have no
// machines and want none.
func (p *Provider) noteUnused(deployments, others []clusterv1.MachineDeployment, machines map[string][]clusterv1.Machine) {
	p.made, p.unused = make(map[string]bool, len(deployments)+len(others)), nil
	for i := range others {
		p.made[others[i].Name] = true
	}
	for i := range deployments {
		d := &deployments[i]
		p.made[d.Name] = true
		if d.DeletionTimestamp == nil && d.Spec.Replicas != nil && *d.Spec.Replicas == 0 && len(machines[d.Name]) == 0 {
			p.unused = append(p.unused, *d)
		}
	}
}

// orphanAge is the minimum age of an infrastructure template that is removed because it has no MachineDeployment: a
// process before this one may have been about to create that.
const orphanAge = time.Minute

// Clean implements provider.Cleaner: it removes the MachineDeployments without machines and the unused infrastructure
// templates that were created for the fleet. A MachineDeployment that has changed since Observe stays, so that none is
// removed whose machines have been bought.
func (p *Provider) Clean(ctx context.Context) error {
	if !p.makes() {
		return nil
	}
	for i := range p.unused {
		d := &p.unused[i]
		err := p.templates.unlessBought(p.key(d.Name), func() error {
			return p.writer.Delete(ctx, d, client.Preconditions{UID: &d.UID, ResourceVersion: &d.ResourceVersion})
		})
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete MachineDeployment %s/%s: %w", d.Namespace, d.Name, err)
		}
	}
	p.unused = nil
	return p.removeTemplates(ctx)
}

// removeTemplates removes infrastructure templates that no MachineDeployment uses.
func (p *Provider) removeTemplates(ctx context.Context) error {
	kinds := map[string]*unstructured.UnstructuredList{}
	for _, o := range p.offered {
		of := o.model.template.GroupVersionKind()
		if kinds[of.String()] == nil {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(of.GroupVersion().WithKind(of.Kind + "List"))
			kinds[of.String()] = list
		}
	}
	for _, list := range kinds {
		if err := p.live.List(ctx, list, client.InNamespace(p.spec.Namespace), client.MatchingLabels{v1alpha1.LabelFleet: p.fleet.Name}); err != nil {
			return fmt.Errorf("list %s in namespace %s: %w", list.GetKind(), p.spec.Namespace, err)
		}
		for i := range list.Items {
			t := &list.Items[i]
			if other := t.GetLabels()[clusterv1.ClusterNameLabel]; other != "" && p.cluster != "" && other != p.cluster {
				continue // of a fleet of the same name in another Cluster
			}
			if p.made[t.GetName()] || p.templates.clock.Since(t.GetCreationTimestamp().Time) < orphanAge {
				continue
			}
			err := p.templates.unlessBought(p.key(t.GetName()), func() error { return p.writer.Delete(ctx, t) })
			if client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("delete %s %s/%s: %w", t.GetKind(), t.GetNamespace(), t.GetName(), err)
			}
		}
	}
	return nil
}
