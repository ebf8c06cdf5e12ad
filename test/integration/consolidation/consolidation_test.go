//go:build soak

package consolidation

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/test/kit/testapi"
)

// mostAllocated configures the stock scheduler to fill nodes.
var mostAllocated = []byte(`
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  percentageOfNodesToScore: 100
  plugins:
    multiPoint:
      disabled: [{name: NodeResourcesBalancedAllocation}]
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: MostAllocated
        resources: [{name: cpu, weight: 1}, {name: memory, weight: 1}]
`)

func TestNodesAreEmptiedWhileEverythingChangesAndNothingIsLost(t *testing.T) {
	s := setting{Nodes: *nodesFlag, Lasts: *lastsFlag, Pace: *paceFlag, Seed: *seedFlag}
	var all []*outcome
	run := func(name string, scheduler []byte, start func(*cluster), ours bool) {
		t.Run(name, func(t *testing.T) {
			c := startCluster(t, s, scheduler)
			start(c)
			c.work()
			if ours {
				c.eventually("all Jobs are done, and no pod is left", c.done)
			} else {
				c.finish()
			}
			c.ledger.stop()
			all = append(all, c.outcome(name))
			if ours {
				c.keepsItsPromises()
			}
		})
	}
	run("supercargo", nil, (*cluster).ours, true)
	if *stockFlag != "" {
		stock := func(c *cluster) { c.stock(*stockFlag) }
		run("stock descheduler, our scheduler", nil, stock, false)
		run("stock descheduler, MostAllocated", mostAllocated, stock, false)
		run("stock descheduler, our scheduler and webhook", nil, func(c *cluster) {
			c.webhookAlone()
			stock(c)
		}, false)
	}
	t.Logf("%d nodes, work arrives for %v, pace %g, seed %d\n%s", s.Nodes, s.Lasts, s.Pace, s.Seed, table(all))
	if *reportFlag != "" {
		if err := writeReport(*reportFlag, s, all); err != nil {
			t.Error(err)
		}
	}
}

// work creates all objects of the workload at their times, and deletes the services at the end.
func (c *cluster) work() {
	c.Helper()
	c.began = time.Now()
	c.beside("the samples", func(ctx context.Context) error {
		c.ledger.sample(ctx, c.began)
		return nil
	})
	arrivals := workload(c.setting)
	there := map[client.Object]time.Duration{} // Deployments, with the times at which they are deleted
	for now := time.Duration(0); now < c.Lasts; now = time.Since(c.began) {
		for len(arrivals) > 0 && arrivals[0].at <= now {
			a := arrivals[0]
			arrivals = arrivals[1:]
			c.make(a.object)
			if a.removed > 0 {
				there[a.object] = a.removed
			}
		}
		for object, until := range there {
			if until <= now {
				delete(there, object)
				c.remove(object)
			}
		}
		select {
		case <-c.site.Done():
			c.Fatalf("the playground has ended: %v", c.site.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
	c.eventually("all services have all their pods", c.served)
	for object := range there {
		c.remove(object)
	}
}

// finish waits for twice the longest runtime of a Job. Repeated evictions may prevent pods from ever
// completing: what is left then is part of the outcome.
func (c *cluster) finish() {
	c.Helper()
	for deadline := time.Now().Add(c.of(2 * longest)); c.done() != "" && time.Now().Before(deadline); {
		select {
		case <-c.site.Done():
			c.Fatalf("the playground has ended: %v", c.site.Err())
		case <-time.After(500 * time.Millisecond):
		}
	}
}

func (c *cluster) remove(object client.Object) {
	c.Helper()
	testapi.Delete(c, c.site.Client, object, client.PropagationPolicy(metav1.DeletePropagationBackground))
}

// served names a Deployment that lacks a pod, or returns "".
func (c *cluster) served() string {
	var all appsv1.DeploymentList
	if err := c.site.Client.List(c.Context(), &all, client.InNamespace(space)); err != nil {
		return err.Error()
	}
	for i := range all.Items {
		if d := &all.Items[i]; d.DeletionTimestamp == nil && d.Status.ReadyReplicas < *d.Spec.Replicas {
			return fmt.Sprintf("%s: %d of %d are ready", d.Name, d.Status.ReadyReplicas, *d.Spec.Replicas)
		}
	}
	return ""
}

func (c *cluster) jobs() []batchv1.Job {
	c.Helper()
	var all batchv1.JobList
	testapi.List(c, c.site.Client, &all, client.InNamespace(space))
	return all.Items
}

// done describes the remaining work, or returns "".
func (c *cluster) done() string {
	for _, j := range c.jobs() {
		ends := func(kind batchv1.JobConditionType) bool {
			for _, condition := range j.Status.Conditions {
				if condition.Type == kind && condition.Status == corev1.ConditionTrue {
					return true
				}
			}
			return false
		}
		if ends(batchv1.JobFailed) {
			c.Fatalf("Job %s has failed: %+v", j.Name, j.Status)
		}
		if !ends(batchv1.JobComplete) || j.Status.Succeeded != *j.Spec.Completions {
			return fmt.Sprintf("Job %s: %+v", j.Name, j.Status)
		}
	}
	c.ledger.mu.Lock()
	defer c.ledger.mu.Unlock()
	for name, n := range c.ledger.nodes {
		if len(n.pods) > 0 {
			return fmt.Sprintf("node %s has %d pods", name, len(n.pods))
		}
	}
	return ""
}

// keepsItsPromises compares the guarantees with the observations.
func (c *cluster) keepsItsPromises() {
	c.Helper()
	for _, j := range c.jobs() {
		if j.Status.Failed > 0 {
			c.Errorf("Job %s counts %d failures", j.Name, j.Status.Failed)
		}
	}
	for _, broken := range c.ledger.broken {
		c.Error(broken)
	}
	c.eventually("every cordoned node has a decision with its reason, what it saves and what it costs", func() string {
		if all := c.ledger.unexplained(); len(all) > 0 {
			return fmt.Sprint(all)
		}
		return ""
	})
	c.eventually("every cordoned node has an Event", func() string {
		var events eventsv1.EventList
		if err := c.site.Client.List(c.Context(), &events); err != nil {
			return err.Error()
		}
		told := map[string]bool{}
		for i := range events.Items {
			if e := &events.Items[i]; e.Reason == "Emptying" && e.Note != "" {
				told[e.Regarding.Name] = true
			}
		}
		for _, closed := range c.ledger.closings {
			if !told[closed.node] {
				return "node " + closed.node + " has none"
			}
		}
		return ""
	})
	if s := c.ledger.sums; s.Closings == 0 || s.Moved == 0 {
		c.Errorf("nothing was consolidated: %+v", s)
	}
}
