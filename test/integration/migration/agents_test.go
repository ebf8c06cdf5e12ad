package migration

import (
	"context"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/movable/capability"
)

// agents simulates the agents of all nodes of a bench by a script: they immediately report that each order is
// done. A test can make them fail or stay silent.
type agents struct {
	b *bench

	mu sync.Mutex
	// source and target are called before each report, and may change it. They return false to send no report
	// now.
	source func(*v1alpha1.Migration, *v1alpha1.SourceReport) bool
	target func(*v1alpha1.Migration, *v1alpha1.TargetReport) bool
	// frozen contains the frozen pods, by UID.
	frozen map[string]bool
}

func startAgents(b *bench) *agents {
	a := &agents{
		b: b, frozen: map[string]bool{},
		source: func(*v1alpha1.Migration, *v1alpha1.SourceReport) bool { return true },
		target: func(*v1alpha1.Migration, *v1alpha1.TargetReport) bool { return true },
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			a.follow(ctx)
		}
	}()
	b.Cleanup(func() { cancel(); <-done })
	return a
}

// follow watches the migrations until the watch ends, and carries out their orders. It periodically checks
// all again, because the script may have changed.
func (a *agents) follow(ctx context.Context) {
	var list v1alpha1.MigrationList
	options := []client.ListOption{client.InNamespace(a.b.Space)}
	if err := a.b.List(ctx, &list, options...); err != nil {
		return
	}
	known := map[string]*v1alpha1.Migration{}
	for i := range list.Items {
		known[list.Items[i].Name] = &list.Items[i]
	}
	options = append(options, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	watched, err := a.b.Site.Client.Watch(ctx, &list, options...)
	if err != nil {
		return
	}
	defer watched.Stop()
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case e, ok := <-watched.ResultChan():
			m, is := e.Object.(*v1alpha1.Migration)
			if !ok || !is {
				return
			}
			if e.Type == watch.Deleted {
				delete(known, m.Name)
				continue
			}
			if last := known[m.Name]; last != nil && last.UID == m.UID && version(last) >= version(m) {
				continue // written by this agent, and already processed
			}
			known[m.Name] = a.carryOut(ctx, m)
		case <-again.C:
			for name, m := range known {
				known[name] = a.carryOut(ctx, m)
			}
		}
	}
}

// script changes what the agents do from now on; nil keeps the current function.
func (a *agents) script(source func(*v1alpha1.Migration, *v1alpha1.SourceReport) bool, target func(*v1alpha1.Migration, *v1alpha1.TargetReport) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if source != nil {
		a.source = source
	}
	if target != nil {
		a.target = target
	}
}

// standing returns the number of frozen pods.
func (a *agents) standing() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.frozen)
}

// version returns the resource version of an object as a number, to compare two versions.
func version(m *v1alpha1.Migration) uint64 {
	n, _ := strconv.ParseUint(m.ResourceVersion, 10, 64) // the API server's versions are numbers
	return n
}

// carryOut writes the next reports about a migration, and returns the updated object. Failed writes are
// retried at the next check.
func (a *agents) carryOut(ctx context.Context, m *v1alpha1.Migration) *v1alpha1.Migration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if m.Status.Plan == nil || condition(m, v1alpha1.MigrationFinished).Status == metav1.ConditionTrue {
		return m
	}
	to := m.DeepCopy()
	if r := nextSource(m); r != nil && a.source(m, r) {
		to.Status.Source = r
	}
	if r := nextTarget(m); r != nil && a.target(m, r) {
		to.Status.Target = r
	}
	if to.Status.Source == m.Status.Source && to.Status.Target == m.Status.Target {
		return m
	}
	// An agent patches only its own part. Others may have changed theirs.
	if err := a.b.Status().Patch(ctx, to, client.MergeFrom(m)); err != nil {
		return m
	}
	if to.Status.Source != nil {
		a.note(to, to.Status.Source.Step)
	}
	return to
}

// note records which pods are frozen.
func (a *agents) note(m *v1alpha1.Migration, step v1alpha1.SourceStep) {
	switch step {
	case v1alpha1.SourceFrozen:
		a.frozen[m.Status.Plan.PodUID] = true
	case v1alpha1.SourceThawed, v1alpha1.SourceKilled:
		delete(a.frozen, m.Status.Plan.PodUID)
	}
}

// nextSource returns the next report of the source's agent, or nil.
func nextSource(m *v1alpha1.Migration) *v1alpha1.SourceReport {
	r := &v1alpha1.SourceReport{}
	if m.Status.Source != nil {
		r = m.Status.Source.DeepCopy()
	}
	now := metav1.NowMicro()
	was := r.Step
	switch order := m.Status.Order; {
	case order == v1alpha1.OrderPrepare && was == "":
		r.Step, r.MemoryBytes = v1alpha1.SourcePrepared, 64<<20
		r.Requirements = capability.Requirements{Backend: m.Status.Plan.Backend}.Encode()
	case order == v1alpha1.OrderFreeze && was == v1alpha1.SourcePrepared:
		r.Step, r.FrozenAt = v1alpha1.SourceFrozen, &now
	case order == v1alpha1.OrderFreeze && was == v1alpha1.SourceFrozen:
		r.Step, r.DumpSeconds, r.DumpBytes = v1alpha1.SourceDumped, "0.010", 32<<20
	case order == v1alpha1.OrderFreeze && was == v1alpha1.SourceDumped:
		r.Step, r.ShipSeconds, r.ShipBytes, r.ShipTries = v1alpha1.SourceShipped, "0.020", 8<<20, 1
	case order == v1alpha1.OrderThaw && was != v1alpha1.SourceThawed:
		r.Step = v1alpha1.SourceThawed
		if r.FrozenAt != nil {
			r.ThawedAt = &now
		}
	case order == v1alpha1.OrderKill && was != v1alpha1.SourceKilled:
		r.Step = v1alpha1.SourceKilled
	case order == v1alpha1.OrderClean && was != v1alpha1.SourceCleaned:
		r.Step = v1alpha1.SourceCleaned
	default:
		return nil
	}
	r.Time = now
	return r
}

// nextTarget returns the next report of the target's agent, or nil.
func nextTarget(m *v1alpha1.Migration) *v1alpha1.TargetReport {
	reservation := m.Status.Reservation
	r := &v1alpha1.TargetReport{}
	if t := m.Status.Target; t != nil && (reservation == nil || t.Node == reservation.Node) {
		r = t.DeepCopy()
	} else if reservation == nil {
		return nil
	} else {
		r.Node = reservation.Node
	}
	was := r.Step
	switch order := m.Status.Order; {
	case order == v1alpha1.OrderPrepare && was == "":
		r.Step, r.Address = v1alpha1.TargetPrepared, "127.0.0.1:1"
	case order == v1alpha1.OrderFreeze && was == v1alpha1.TargetPrepared && m.Status.Source.Step == v1alpha1.SourceShipped:
		r.Step, r.Digest, r.StagedBytes = v1alpha1.TargetStaged, "sha256:0", 32<<20
	case (order == v1alpha1.OrderThaw || order == v1alpha1.OrderClean) && was != v1alpha1.TargetCleaned:
		r.Step = v1alpha1.TargetCleaned
	default:
		return nil
	}
	r.Time = metav1.NowMicro()
	return r
}
