package migration

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/migration/migrationdecide"
	"supercargo.dev/supercargo/internal/surroundings"
)

// observe reads a migration and everything that concerns it. The migration, its pods and their
// owner come from the reader; nodes, Services and other migrations come from the cache. A
// NotFound error is about the migration.
func (r *Reconciler) observe(ctx context.Context, reader client.Reader, key types.NamespacedName) (*migrationdecide.Observation, error) {
	m := &v1alpha1.Migration{}
	if err := reader.Get(ctx, key, m); err != nil {
		return nil, err // unwrapped, so that the caller can recognize NotFound
	}
	o := &migrationdecide.Observation{Migration: m}
	if migrationdecide.Ended(m) {
		return o, r.observeEnd(ctx, o)
	}
	var err error
	if o.Source, err = surroundings.Get(ctx, reader, m.Namespace, m.Spec.PodName, &corev1.Pod{}); err != nil {
		return nil, err
	}
	plan := m.Status.Plan
	if plan != nil && o.Source != nil && string(o.Source.UID) != plan.PodUID {
		o.Source = nil // a later pod of the same name
	}
	if err := r.observeBudgets(ctx, reader, o); err != nil {
		return nil, err
	}
	if plan == nil {
		return o, r.observeAdmission(ctx, reader, o)
	}
	if o.Restored, err = surroundings.Get(ctx, reader, m.Namespace, plan.RestoredPod, &corev1.Pod{}); err != nil {
		return nil, err
	}
	if o.Job, o.ReplicaSet, err = surroundings.Owner(ctx, surroundings.ReadAll(reader), m.Namespace, plan.Owner); err != nil {
		return nil, err
	}
	if migrationdecide.DependsOnOthers(m) {
		if o.Others, err = r.others(ctx, m); err != nil {
			return nil, err
		}
	}
	o.Nodes = map[string]*corev1.Node{}
	for _, name := range nodesNeeded(o) {
		node, err := surroundings.Get(ctx, r.Client, "", name, &corev1.Node{})
		if err != nil {
			return nil, err
		}
		if node != nil {
			o.Nodes[name] = node
		}
	}
	return o, nil
}

// observeBudgets reads the budgets of the namespace, if the decision needs them.
func (r *Reconciler) observeBudgets(ctx context.Context, reader client.Reader, o *migrationdecide.Observation) error {
	if !migrationdecide.DependsOnBudgets(o) {
		return nil
	}
	var budgets policyv1.PodDisruptionBudgetList
	if err := reader.List(ctx, &budgets, client.InNamespace(o.Migration.Namespace)); err != nil {
		return fmt.Errorf("list PodDisruptionBudgets of namespace %s: %w", o.Migration.Namespace, err)
	}
	o.Budgets = budgets.Items
	return nil
}

// nodesNeeded returns the nodes that a decision needs once there is a plan.
func nodesNeeded(o *migrationdecide.Observation) []string {
	m := o.Migration
	names := []string{m.Status.Plan.SourceNode}
	if m.Status.Reservation != nil {
		names = append(names, m.Status.Reservation.Node)
	}
	if m.Status.Target != nil {
		names = append(names, m.Status.Target.Node)
	}
	if o.Restored != nil && o.Restored.Spec.NodeName != "" {
		names = append(names, o.Restored.Spec.NodeName) // which may be another one
	}
	return names
}

// observeAdmission reads what a decision needs before there is a plan.
func (r *Reconciler) observeAdmission(ctx context.Context, reader client.Reader, o *migrationdecide.Observation) error {
	m := o.Migration
	state, err := r.Pause.Read(ctx)
	if err != nil {
		return err
	}
	if state.Paused {
		o.Paused = state.Message()
		return nil
	}
	if o.Others, err = r.others(ctx, m); err != nil {
		return err
	}
	if o.Source == nil || migrationdecide.StillWaits(r.Config, *o) {
		return nil
	}
	in, err := surroundings.Of(ctx, surroundings.Reader{Owners: reader, Claims: r.Live, Lists: r.Client}, o.Source)
	if err != nil {
		return err
	}
	o.Job, o.ReplicaSet, o.Services, o.Claims, o.Nodes = in.Job, in.ReplicaSet, in.Services, in.Claims, in.Nodes
	return nil
}

// observeEnd reads what a decision needs once a migration has ended.
func (r *Reconciler) observeEnd(ctx context.Context, o *migrationdecide.Observation) error {
	m := o.Migration
	var list v1alpha1.MigrationList
	if err := r.Client.List(ctx, &list, client.InNamespace(m.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list Migrations of namespace %s: %w", m.Namespace, err)
	}
	for _, surplus := range migrationdecide.Surplus(m.Namespace, list.Items, r.Config.MaxFinished) {
		o.Surplus = o.Surplus || surplus.UID == m.UID
	}
	return nil
}

// others returns the other migrations in flight.
func (r *Reconciler) others(ctx context.Context, m *v1alpha1.Migration) ([]migrationdecide.Flight, error) {
	var list v1alpha1.MigrationList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Migrations: %w", err)
	}
	return r.registry.others(list.Items, m.UID), nil
}
