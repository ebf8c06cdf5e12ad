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

// How long the cluster may take to work again after a fault, to come to rest once nothing more
// comes, and to release its last machine. All are many times what it takes on a machine that
// is not busy.
const (
	settlePatience  = 4 * time.Minute
	restPatience    = 10 * time.Minute
	releasePatience = 5 * time.Minute
)

// lasting is what may last for how long while the cluster works. A Migration of the
// descheduler has five minutes, and then its agents are waited for.
var lasting = ledger.Patience{Pending: 75 * time.Second, Migration: 8 * time.Minute, Drain: drainTimeout + time.Minute}

// now reads all that there is.
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

// settled waits until every program has a leader that has renewed its Lease since a fault was
// over, every replica runs, and nothing has lasted for too long. It returns what is still wrong.
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

// leaderless returns which programs have no leader of ours, or one that has not renewed its
// Lease since a time.
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

// rest waits, once nothing more comes, until all Jobs are done and all promises that can be
// looked at are kept. It returns what is still wrong.
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
		// A node may just not be cordoned yet.
		const looks = 5
		if calm++; calm < looks {
			return fmt.Sprintf("at rest for %d of %d looks", calm, looks)
		}
		return ""
	})
}

// released waits, once there are no services any more, until the last machine is released and
// no node is cordoned. It returns what is still wrong.
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
