package disruption

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"supercargo.dev/supercargo/autoscaler/fleet"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/platform/pause"
	"supercargo.dev/supercargo/test/halfempty"
	"supercargo.dev/supercargo/test/measure/fleetsite"
)

// conditions are what a run is under.
type conditions struct {
	budget    string        // consolidation.maxUnavailable
	lag, last time.Duration // from a machine's order to its node, and of the run
	processor bool          // the clock is that of the processor
}

// settling is how long the autoscaler gathers events before a round begins.
const settling = 20 * time.Millisecond

// fleetRun is the reconciler of NodeFleets in a world. What Kubernetes and cluster-api would do takes no time: an evicted
// pod is at once replaced by another one, which the scheduler binds at once to the fullest node with room, and a released
// machine is gone. A machine takes lag from its order to its node.
type fleetRun struct {
	conditions
	cluster    *halfempty.Cluster
	world      *halfempty.World
	clock      *halfempty.Clock
	api        *fleetsite.Server
	reconciler *fleet.Reconciler
	flavors    map[string]*catalogue.Flavor
	zones      map[string]string         // by flavor
	services   map[string]int            // by pod
	nodes      map[string]string         // by machine
	closed     map[string]bool           // cordoned nodes
	pending    map[client.ObjectKey]bool // pods without a node
	arrivals   []arrival                 // in order
	made       int                       // pods and machines
	asked      asked
	figures    *halfempty.Figures
}

// arrival is a machine on its way.
type arrival struct {
	at              time.Duration
	machine, flavor string
}

// asked is what the fleet has written since it was last carried out.
type asked struct {
	mu       sync.Mutex
	evicted  []client.ObjectKey
	replicas map[string]int // by MachineDeployment
}

// take returns what was asked, in an order that does not depend on the goroutines that asked, and forgets it.
func (a *asked) take() (evicted []client.ObjectKey, replicas map[string]int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	evicted, replicas = a.evicted, a.replicas
	a.evicted, a.replicas = nil, map[string]int{}
	slices.SortFunc(evicted, func(a, b client.ObjectKey) int { return cmp.Compare(a.String(), b.String()) })
	return evicted, replicas
}

// consolidate runs a NodeFleet on a cluster.
func consolidate(ctx context.Context, c *halfempty.Cluster, under conditions) (*halfempty.Figures, error) {
	log.SetLogger(logr.Discard())
	r, err := newRun(c, under)
	if err != nil {
		return nil, err
	}
	if err := r.watch(ctx); err != nil {
		return nil, err
	}
	for r.clock.Elapsed() < under.last {
		if err := r.round(ctx); err != nil {
			return nil, fmt.Errorf("after %v: %w", r.clock.Elapsed(), err)
		}
	}
	r.figures.Sum(c, r.world, under.last)
	return r.figures, nil
}

func newRun(c *halfempty.Cluster, under conditions) (*fleetRun, error) {
	r := &fleetRun{
		conditions: under, cluster: c, clock: halfempty.NewClock(under.processor), flavors: map[string]*catalogue.Flavor{}, zones: map[string]string{},
		services: map[string]int{}, nodes: map[string]string{}, closed: map[string]bool{}, pending: map[client.ObjectKey]bool{},
		asked: asked{replicas: map[string]int{}}, figures: &halfempty.Figures{Autoscaler: "supercargo", Budget: under.budget},
	}
	defer r.clock.Stop()()
	var err error
	if r.world, err = halfempty.NewWorld(c); err != nil {
		return nil, err
	}
	if r.api, err = fleetsite.NewServer(); err != nil {
		return nil, err
	}
	r.api.Evicted = func(pod client.ObjectKey) {
		r.asked.mu.Lock()
		defer r.asked.mu.Unlock()
		r.asked.evicted = append(r.asked.evicted, pod)
	}
	r.api.Scaled = func(deployment client.ObjectKey, replicas int) {
		r.asked.mu.Lock()
		defer r.asked.mu.Unlock()
		r.asked.replicas[deployment.Name] = replicas
	}
	if err := r.fill(); err != nil {
		return nil, err
	}
	r.reconciler, err = fleetsite.NewReconciler(r.api, r.clock)
	return r, err
}

// fill makes the objects of the cluster.
func (r *fleetRun) fill() error {
	now := r.clock.Now()
	old := now.Add(-3 * time.Hour)
	f := fleetsite.Fleet(now)
	f.Spec.Consolidation.MaxUnavailable = r.budget
	all := []client.Object{f}
	spaces := map[string]bool{}
	for _, s := range r.cluster.Services {
		if !spaces[s.Namespace] {
			spaces[s.Namespace] = true
			all = append(all, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace, UID: types.UID(s.Namespace)}})
		}
		all = append(all, &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, UID: types.UID(s.Name)}})
	}
	for i := range r.cluster.Flavors {
		f := &r.cluster.Flavors[i]
		r.zones[f.Name] = f.Zone
		r.flavors[f.Name] = &catalogue.Flavor{Flavor: cluster.Flavor{
			Name: f.Name, Size: packing.Size{MilliCPU: f.MilliCPU, MemoryBytes: f.MemoryBytes}, MicroDollarsPerHour: f.MicroDollarsPerHour,
		}}
	}
	want := map[string]int{}
	for i := range r.cluster.Nodes {
		n := &r.cluster.Nodes[i]
		all = append(all, fleetsite.Node(n.Name, r.flavors[n.Flavor], r.zones[n.Flavor], n.Made(now)))
		want[n.Flavor]++
		machine := r.name(n.Flavor)
		r.nodes[machine] = n.Name
		if err := r.api.AddMachine(machine, n.Flavor, n.Name, n.Made(now)); err != nil {
			return err
		}
	}
	for i := range r.cluster.Flavors {
		name := r.cluster.Flavors[i].Name
		if err := r.api.AddDeployment(r.flavors[name], r.zones[name], want[name]); err != nil {
			return err
		}
	}
	for _, p := range r.cluster.Pods {
		pod := r.pod(p.Name, p.Service)
		fleetsite.RunsOn(pod, p.Node, old)
		all = append(all, pod)
	}
	return r.api.Add(all...)
}

// name returns a unique name.
func (r *fleetRun) name(of string) string {
	r.made++
	return fmt.Sprintf("%s-m%06d", of, r.made)
}

// pod returns a pod of a service.
func (r *fleetRun) pod(name string, service int) *corev1.Pod {
	s := &r.cluster.Services[service]
	r.services[name] = service
	p := fleetsite.Pod(s.Namespace, name, s.MilliCPU, s.MemoryBytes>>20)
	p.Labels = map[string]string{"app": s.Name}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: s.Name, UID: types.UID(s.Name), Controller: new(true)}}
	return p
}

// watch lets the fleet watch the cluster for a minute before the start, in which it is paused.
func (r *fleetRun) watch(ctx context.Context) error {
	paused := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: pause.DefaultNamespace, Name: pause.Name}}
	if err := r.api.Add(paused); err != nil {
		return err
	}
	if _, err := r.reconcile(ctx); err != nil {
		return err
	}
	r.clock.Advance(time.Minute)
	r.clock.Restart()
	return r.api.Remove(paused)
}

func (r *fleetRun) reconcile(ctx context.Context) (reconcile.Result, error) {
	return r.reconciler.Reconcile(ctx, reconcile.Request{NamespacedName: types.NamespacedName{Name: fleetsite.FleetName}})
}

// round runs one round, carries out what the fleet did, and waits until the next one is due.
func (r *fleetRun) round(ctx context.Context) error {
	began, wall, cpu, sent := r.clock.Elapsed(), time.Now(), halfempty.Used(), r.api.Sent()
	result, err := r.reconcile(ctx)
	d := halfempty.Decision{At: began.Seconds(), Seconds: time.Since(wall).Seconds(), CPUSeconds: (halfempty.Used() - cpu).Seconds()}
	if err != nil {
		return err
	}
	next := r.clock.Elapsed() + cmp.Or(result.RequeueAfter, time.Minute)
	changed, err := r.carryOut(&d)
	if err != nil {
		return err
	}
	if changed {
		next = min(next, r.clock.Elapsed()+settling)
	}
	if r.api.Sent() > sent { // else the fleet only rested
		r.figures.Add(d)
	}
	for len(r.arrivals) > 0 && r.arrivals[0].at <= next {
		r.clock.Advance(max(0, r.arrivals[0].at-r.clock.Elapsed()))
		if err := r.join(); err != nil {
			return err
		}
		next = min(next, r.clock.Elapsed()+settling)
	}
	r.clock.Advance(max(0, next-r.clock.Elapsed()))
	return nil
}

// carryOut does what the fleet has asked for, and reports whether anything has changed that starts a round.
func (r *fleetRun) carryOut(d *halfempty.Decision) (changed bool, err error) {
	defer r.clock.Stop()()
	at := r.clock.Elapsed()
	closed := map[string]bool{}
	for _, o := range r.api.All(&corev1.Node{}) {
		if o.(*corev1.Node).Spec.Unschedulable {
			closed[o.GetName()] = true
			if !r.closed[o.GetName()] {
				d.Removes++
			}
		}
	}
	changed = !maps.Equal(closed, r.closed)
	r.closed = closed
	evicted, replicas := r.asked.take()
	for _, key := range evicted {
		if err := r.evict(key); err != nil {
			return false, err
		}
	}
	for _, deployment := range slices.Sorted(maps.Keys(replicas)) {
		if err := r.scale(deployment, replicas[deployment], at, d); err != nil {
			return false, err
		}
	}
	return changed || len(evicted)+len(replicas) > 0, r.schedule()
}

// evict deletes a pod and creates another one of its ReplicaSet, which is not scheduled yet.
func (r *fleetRun) evict(key client.ObjectKey) error {
	service := r.services[key.Name]
	if err := r.api.Remove(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}); err != nil {
		return err
	}
	p := r.pod(r.name(r.cluster.Services[service].Name), service)
	p.CreationTimestamp = metav1.NewTime(r.clock.Now())
	p.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: p.CreationTimestamp,
	}}}
	r.pending[client.ObjectKeyFromObject(p)] = true
	if err := r.world.Replace(key.Name, p.Name); err != nil {
		return err
	}
	return r.api.Add(p)
}

// schedule binds the pods that are not scheduled to the fullest nodes with room, as the scheduler of Supercargo prefers.
func (r *fleetRun) schedule() error {
	open := func(node string) bool { return !r.closed[node] }
	for _, key := range slices.SortedFunc(maps.Keys(r.pending), func(a, b client.ObjectKey) int { return cmp.Compare(a.String(), b.String()) }) {
		node := r.world.Tightest(key.Name, open)
		if node == "" {
			continue
		}
		if err := r.world.Bind(key.Name, node); err != nil {
			return err
		}
		p := r.pod(key.Name, r.services[key.Name])
		fleetsite.RunsOn(p, node, r.clock.Now())
		if err := r.api.Replace(p, p); err != nil {
			return err
		}
		delete(r.pending, key)
	}
	return nil
}

// scale orders machines, or removes those that are marked to be deleted.
func (r *fleetRun) scale(deployment string, replicas int, at time.Duration, d *halfempty.Decision) error {
	if err := r.api.SetReplicas(deployment, replicas); err != nil {
		return err
	}
	machines := r.api.MachinesOf(deployment)
	for range replicas - len(machines) {
		name := r.name(deployment)
		r.nodes[name] = name
		if err := r.world.Order(name, deployment, at); err != nil {
			return err
		}
		if err := r.api.AddMachine(name, deployment, "", r.clock.Now()); err != nil {
			return err
		}
		r.arrivals = append(r.arrivals, arrival{at + r.lag, name, deployment})
		d.Buys++
	}
	slices.SortStableFunc(r.arrivals, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
	surplus := max(0, len(machines)-replicas)
	for _, m := range machines {
		if _, marked := m.GetAnnotations()["cluster.x-k8s.io/delete-machine"]; !marked || surplus == 0 {
			continue
		}
		if err := r.remove(m, at); err != nil {
			return err
		}
		surplus--
		d.Releases++
	}
	if surplus > 0 {
		return fmt.Errorf("MachineDeployment %s has %d machines too many that are not marked", deployment, surplus)
	}
	return nil
}

// remove removes a machine with its node.
func (r *fleetRun) remove(m client.Object, at time.Duration) error {
	node := r.nodes[m.GetName()]
	if err := r.world.Remove(node, at); err != nil {
		return err
	}
	if err := r.api.Remove(m); err != nil {
		return err
	}
	r.arrivals = slices.DeleteFunc(r.arrivals, func(a arrival) bool { return a.machine == m.GetName() })
	delete(r.closed, node)
	return client.IgnoreNotFound(r.api.Remove(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}))
}

// join makes the node of the first machine that arrives.
func (r *fleetRun) join() error {
	defer r.clock.Stop()()
	a := r.arrivals[0]
	r.arrivals = r.arrivals[1:]
	if err := r.world.Join(a.machine); err != nil {
		return err
	}
	if err := r.api.Add(fleetsite.Node(a.machine, r.flavors[a.flavor], r.zones[a.flavor], r.clock.Now())); err != nil {
		return err
	}
	if err := r.api.SetNode(a.machine, a.machine); err != nil {
		return err
	}
	return r.schedule()
}
