package moves

import (
	"cmp"
	"fmt"
	"time"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
)

// ways returns the methods by which the pod may leave its node now. Without Worthwhile, no pod is waited for.
func (r *planning) ways(p *cluster.Pod) cluster.Ways {
	w := cmp.Or(p.Ways, r.config.Ways, cluster.WaysOf(r.config.Method))
	if p.Class == class.Service || !r.config.Worthwhile {
		w = w.Without(cluster.Wait)
	}
	if p.Fixed || p.Resided < r.config.PodResidence || p.Class == class.Service && !r.config.MoveServices {
		return w.Without(cluster.Migrate).Without(cluster.Evict)
	}
	return w
}

// way returns how the pod is moved if it is: by the method with which it ends soonest, ties to migration. Without
// Worthwhile it is the configured method where possible.
func (t *trial) way(p *cluster.Pod) cluster.Method {
	w := t.ways(p)
	switch {
	case !w.Has(cluster.Evict):
		return cluster.Migrate
	case !w.Has(cluster.Migrate):
		return cluster.Evict
	case !t.config.Worthwhile && t.config.Method != cluster.Wait:
		return t.config.Method
	case t.delay(p, cluster.Evict) < t.delay(p, cluster.Migrate):
		return cluster.Evict
	default:
		return cluster.Migrate
	}
}

// movable reports whether the pod can leave in another way than by ending.
func (r *planning) movable(p *cluster.Pod) bool { return r.ways(p).Without(cluster.Wait) != 0 }

// stays returns the pod that prevents the drain of a node, and why; empty if there is none.
func (r *planning) stays(n *cluster.Node) string {
	for i := range n.Pods {
		if p := &n.Pods[i]; r.ways(p) == 0 {
			return fmt.Sprintf("pod %s %s", p.Name, r.whyFixed(p))
		}
	}
	return ""
}

// whyFixed returns the reason why a pod cannot leave.
func (r *planning) whyFixed(p *cluster.Pod) string {
	because := func(what string) string {
		if p.Held == "" {
			return what
		}
		return what + ": " + p.Held
	}
	switch {
	case p.Fixed:
		return because("must not be moved")
	case p.Class == class.Service && !r.config.MoveServices:
		return "belongs to a service, and services are not moved"
	case p.Resided < r.config.PodResidence:
		return fmt.Sprintf("has been on its node for %v, less than the required %v", p.Resided.Round(time.Second), r.config.PodResidence)
	default:
		return because("can only leave by ending")
	}
}
