//go:build chaos

package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/chaos/ledger"
)

// The longest times that the cluster may take to recover from a fault, to become idle after the last
// work was created, and to release its last machine. All are many times what an idle host needs.
const (
	settlePatience  = 4 * time.Minute
	restPatience    = 10 * time.Minute
	releasePatience = 5 * time.Minute
)

// lasting holds the durations that are accepted in a working cluster. A Migration of the descheduler
// has a deadline of five minutes, after which its agents still clean up.
var lasting = ledger.Patience{Pending: 75 * time.Second, Migration: 8 * time.Minute, Drain: drainTimeout + time.Minute}

// now reads the state of the cluster.
func (w *world) now(ctx context.Context) (*ledger.Final, error) {
	var (
		nodes       corev1.NodeList
		pods        corev1.PodList
		jobs        batchv1.JobList
		deployments appsv1.DeploymentList
		migrations  v1alpha1.MigrationList
		errs        []error
	)
	for _, list := range []client.ObjectList{&nodes, &pods, &jobs, &deployments, &migrations} {
		errs = append(errs, w.client.List(ctx, list))
	}
	return &ledger.Final{Nodes: nodes.Items, Pods: pods.Items, Jobs: jobs.Items, Deployments: deployments.Items, Migrations: migrations.Items}, errors.Join(errs...)
}

// settled waits until every program has a leader that has renewed its Lease since the end of a fault,
// every replica runs, and nothing has lasted for too long. It returns what is still wrong.
func (w *world) settled(over time.Time) string {
	return w.poll(settlePatience, func(ctx context.Context) string {
		wrong := w.leaderless(ctx, over)
		for _, r := range w.replicas() {
			if !r.alive() {
				wrong = append(wrong, r.name+" does not run")
			}
		}
		there, err := w.now(ctx)
		if err != nil {
			return err.Error()
		}
		return strings.Join(append(wrong, there.Unsettled(time.Now(), lasting)...), "; ")
	})
}

// leaderless returns the programs of which no replica has renewed the Lease since a time.
func (w *world) leaderless(ctx context.Context, since time.Time) (wrong []string) {
	for _, p := range w.programs {
		if p.lease == "" {
			continue
		}
		var lease coordinationv1.Lease
		if err := w.client.Get(ctx, client.ObjectKey{Namespace: p.namespace, Name: p.lease}, &lease); err != nil {
			wrong = append(wrong, err.Error())
			continue
		}
		if renewed := lease.Spec.RenewTime; renewed == nil || renewed.Time.Before(since) || !w.leader(p).proxy.Renewed().After(since) {
			wrong = append(wrong, "nobody leads "+p.name)
		}
	}
	return wrong
}

// rest waits, once no more work is created, until all Jobs are done and the state of the cluster has
// neither broken nor unsettled objects. It returns what is still wrong.
func (w *world) rest() string {
	calm := 0
	return w.poll(restPatience, func(ctx context.Context) string {
		there, err := w.now(ctx)
		if err != nil {
			return err.Error()
		}
		broken := append(there.Broken(), there.Unsettled(time.Now(), lasting)...)
		if len(broken) > 0 {
			calm = 0
			return strings.Join(broken, "; ")
		}
		// Several consecutive good observations are required, because a drain may be about to start.
		const checks = 5
		if calm++; calm < checks {
			return fmt.Sprintf("at rest for %d of %d looks", calm, checks)
		}
		return ""
	})
}

// released waits, once all services are deleted, until the last machine is released and no object is
// broken. It returns what is still wrong.
func (w *world) released() string {
	return w.poll(releasePatience, func(ctx context.Context) string {
		there, err := w.now(ctx)
		if err != nil {
			return err.Error()
		}
		wrong := there.Broken()
		for i := range there.Nodes {
			if name := there.Nodes[i].Name; !strings.HasPrefix(name, "own-") {
				wrong = append(wrong, "machine "+name+" is still there")
			}
		}
		return strings.Join(wrong, "; ")
	})
}
