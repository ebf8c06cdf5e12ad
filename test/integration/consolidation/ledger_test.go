//go:build soak

package consolidation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/drain"
	"supercargo.dev/supercargo/internal/text/dollars"
	"supercargo.dev/supercargo/internal/world"
)

// ledger observes the cluster, and checks all guarantees at every change.
type ledger struct {
	setting
	budget struct{ nodes, pods int }
	shim   *shim

	mu    sync.Mutex
	nodes map[string]*nodeBook
	pods  map[types.UID]*podBook
	moves map[types.NamespacedName]*v1alpha1.Migration // keyed by the names of Migrations
	// restored maps the pods that Migrations create to the Migrations.
	restored map[types.NamespacedName]*v1alpha1.Migration
	// decided contains all drains that a decision names, closings the nodes that were cordoned.
	decided  map[string]v1alpha1.ConsolidationDrain
	closings []closing
	over     map[string]time.Time // since when a budget has been exceeded

	sums    sums
	series  []sample
	stopped time.Time // when all work was done; zero until then
	broken  []string
	unmoved []string // why Migrations failed
}

// nodeBook contains the observations of a node.
type nodeBook struct {
	price int64 // micro-dollars per hour
	mark  drain.Mark
	// marked means that the descheduler has cordoned it.
	marked bool
	pods   map[types.UID]bool // pods that have not ended
	meter  meter
}

// podBook contains the observations of a pod.
type podBook struct {
	name, node string
	job        bool
	says       string
	started    time.Time // on its node
	asked      bool      // to leave its node
	gone       bool
	evicting   bool // and not yet deleted
}

// closing is the cordoning of a node.
type closing struct {
	node  string
	since time.Time
}

func (c closing) String() string { return c.node + " " + c.since.UTC().Format(time.RFC3339) }

// sums contains counts over the whole run.
type sums struct {
	Closings        int           `json:"nodesClosed"`
	Emptied         int           `json:"timesANodeBecameEmpty"`
	Evictions       int           `json:"evictions"`
	ServiceEvicted  int           `json:"evictionsOfServices"`
	Moved           int           `json:"migrations"`
	RolledBack      int           `json:"migrationsRolledBack"`
	Refused         int           `json:"migrationsRefused"`
	Lost            time.Duration `json:"workLostNanoseconds"`
	LostPods        int           `json:"podsThatLostWork"`
	Frozen          time.Duration `json:"frozenNanoseconds"`
	MostEmptying    int           `json:"mostNodesEmptiedAtOnce"`
	MostInFlight    int           `json:"mostPodsMovingAtOnce"`
	WithinResidence int           `json:"movesWithinResidence"`
}

// sample is the state at a moment.
type sample struct {
	Seconds  float64 `json:"seconds"`
	Used     float64 `json:"usedDollarsPerHour"` // of nodes with pods
	Open     float64 `json:"openDollarsPerHour"` // of schedulable nodes, too
	Nodes    int     `json:"nodesWithPods"`
	Emptying int     `json:"nodesBeingEmptied"`
	InFlight int     `json:"podsMoving"`
}

func newLedger(s setting, c client.Client) *ledger {
	return &ledger{
		setting: s, shim: &shim{client: c, bodies: map[types.UID]*body{}},
		nodes: map[string]*nodeBook{}, pods: map[types.UID]*podBook{},
		moves: map[types.NamespacedName]*v1alpha1.Migration{}, restored: map[types.NamespacedName]*v1alpha1.Migration{},
		decided: map[string]v1alpha1.ConsolidationDrain{}, over: map[string]time.Time{},
	}
}

// watch subscribes the ledger to all changes until ctx ends, and returns when it has seen all existing
// objects.
func (l *ledger) watch(ctx context.Context, c cache.Cache) error {
	for _, kind := range []struct {
		object client.Object
		saw    func(any, bool)
	}{
		{&v1alpha1.Migration{}, func(o any, gone bool) { l.sawMigration(o.(*v1alpha1.Migration), gone) }},
		{&corev1.Node{}, func(o any, _ bool) { l.sawNode(o.(*corev1.Node)) }},
		{&corev1.Pod{}, func(o any, gone bool) { l.sawPod(o.(*corev1.Pod), gone) }},
		{&v1alpha1.Consolidation{}, func(o any, _ bool) { l.sawDecision(o.(*v1alpha1.Consolidation)) }},
	} {
		informer, err := c.GetInformer(ctx, kind.object)
		if err != nil {
			return fmt.Errorf("watch %T: %w", kind.object, err)
		}
		saw := func(o any, gone bool) {
			l.mu.Lock()
			defer l.mu.Unlock()
			kind.saw(o, gone)
			l.check()
		}
		handler, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { saw(o, false) },
			UpdateFunc: func(_, o any) { saw(o, false) },
			DeleteFunc: func(o any) {
				if last, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
					o = last.Obj
				}
				saw(o, true)
			},
		})
		if err != nil {
			return fmt.Errorf("watch %T: %w", kind.object, err)
		}
		if !toolscache.WaitForCacheSync(ctx.Done(), handler.HasSynced) {
			return fmt.Errorf("watch %T: %w", kind.object, ctx.Err())
		}
	}
	return nil
}

// breaks records a broken guarantee.
func (l *ledger) breaks(format string, args ...any) {
	const most = 100
	if len(l.broken) < most {
		l.broken = append(l.broken, fmt.Sprintf(format, args...))
	}
}

func (l *ledger) node(name string) *nodeBook {
	n := l.nodes[name]
	if n == nil {
		n = &nodeBook{pods: map[types.UID]bool{}, meter: meter{period: l.of(billing)}}
		l.nodes[name] = n
	}
	return n
}

func (l *ledger) sawNode(node *corev1.Node) {
	n := l.node(node.Name)
	n.price, _ = dollars.Parse(node.Annotations[v1alpha1.AnnotationPricePerHour]) // all nodes have one
	mark, marked := drain.MarkOf(node)
	if marked && (!n.marked || !mark.Since.Equal(n.mark.Since)) {
		l.sums.Closings++
		l.closings = append(l.closings, closing{node.Name, mark.Since})
	}
	n.mark, n.marked = mark, marked
	if marked != node.Spec.Unschedulable {
		l.breaks("node %s: marked %t, closed %t", node.Name, marked, node.Spec.Unschedulable)
	}
}

func (l *ledger) sawDecision(object *v1alpha1.Consolidation) {
	for _, drained := range object.Status.Drains {
		l.decided[closing{drained.Node, drained.Time.Time}.String()] = drained
	}
}

func (l *ledger) sawMigration(m *v1alpha1.Migration, gone bool) {
	key, now := client.ObjectKeyFromObject(m), time.Now()
	last := l.moves[key]
	if gone {
		delete(l.moves, key)
		return
	}
	l.moves[key] = m
	if last == nil {
		l.leaves(l.pods[types.UID(m.Spec.PodUID)], m.CreationTimestamp.Time)
	}
	if m.Status.Plan != nil {
		l.restored[types.NamespacedName{Namespace: m.Namespace, Name: m.Status.Plan.RestoredPod}] = m
	}
	l.shim.migrates(m)
	if !world.Ended(m) || last != nil && world.Ended(last) {
		return
	}
	switch m.Status.Phase {
	case v1alpha1.MigrationSucceeded:
		l.sums.Moved++
	case v1alpha1.MigrationRolledBack:
		l.sums.RolledBack++
		l.unmoved = append(l.unmoved, unmoved(m))
	case v1alpha1.MigrationRefused:
		l.sums.Refused++
		l.unmoved = append(l.unmoved, unmoved(m))
	}
	if r := m.Status.Source; r != nil && r.FrozenAt != nil {
		until := now
		if r.ThawedAt != nil {
			until = r.ThawedAt.Time
		} else if p := l.podNamed(m.Namespace, m.Status.Plan.RestoredPod); p != nil && !p.started.IsZero() {
			until = p.started
		}
		l.sums.Frozen += max(0, until.Sub(r.FrozenAt.Time))
	}
}

// unmoved returns why a Migration failed.
func unmoved(m *v1alpha1.Migration) string {
	why := ""
	if c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.MigrationFinished); c != nil {
		why = c.Message
	}
	return fmt.Sprintf("%s of pod %s: %s: %s", m.Name, m.Spec.PodName, m.Status.Phase, why)
}

func (l *ledger) podNamed(namespace, name string) *podBook {
	for _, p := range l.pods {
		if p.name == namespace+"/"+name {
			return p
		}
	}
	return nil
}

// leaves records that a pod was told to leave its node, and checks how long it has been there.
func (l *ledger) leaves(p *podBook, at time.Time) {
	if p == nil || p.asked || p.started.IsZero() {
		return
	}
	p.asked = true
	// Times in the API have a resolution of one second.
	if stayed := at.Sub(p.started); stayed < l.of(residence)-2*time.Second {
		l.sums.WithinResidence++
		l.breaks("pod %s is asked to leave node %s after %v", p.name, p.node, stayed.Round(time.Second))
	}
}

func (l *ledger) sawPod(pod *corev1.Pod, gone bool) {
	if pod.Namespace != space {
		return
	}
	now := time.Now()
	p := l.pods[pod.UID]
	if p == nil {
		p = &podBook{name: world.PodName(pod), says: pod.Annotations[v1alpha1.AnnotationMigration]}
		_, p.job = pod.Annotations[annotationWork]
		l.pods[pod.UID] = p
	}
	moved := l.restored[client.ObjectKeyFromObject(pod)]
	b := l.shim.saw(pod, moved, now)
	if start := pod.Status.StartTime; start != nil && p.started.IsZero() {
		p.started = start.Time
	}
	l.place(p, pod, gone, now)
	if evicted, at := disrupted(pod); evicted && !p.evicting && !p.gone {
		p.evicting = true
		l.sums.Evictions++
		if !p.job {
			l.sums.ServiceEvicted++
		}
		l.leaves(p, at)
	}
	ended := gone || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
	if ended && !p.gone {
		p.gone, p.evicting = true, false
		l.ended(p, pod, b)
	}
}

// disrupted reports whether a pod was evicted, and when.
func disrupted(pod *corev1.Pod) (bool, time.Time) {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return true, c.LastTransitionTime.Time
		}
	}
	return false, time.Time{}
}

// place records the node of a pod.
func (l *ledger) place(p *podBook, pod *corev1.Pod, gone bool, now time.Time) {
	if pod.Spec.NodeName == "" {
		return
	}
	p.node = pod.Spec.NodeName
	n := l.node(p.node)
	if gone || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		if n.pods[pod.UID] && len(n.pods) == 1 {
			l.sums.Emptied++
		}
		delete(n.pods, pod.UID)
	} else {
		n.pods[pod.UID] = true
	}
	n.meter.set(len(n.pods) > 0, now)
}

// ended records how a pod of a Job has ended: done, moved, or with its work lost.
func (l *ledger) ended(p *podBook, pod *corev1.Pod, b *body) {
	evicted, _ := disrupted(pod)
	if !p.job || b == nil || pod.Status.Phase == corev1.PodSucceeded || b.frozen && l.carried(pod) || world.Restoring(pod) {
		return
	}
	if !evicted && b.frozen {
		l.breaks("pod %s ends while it is frozen, and nothing carries its work on", p.name)
	}
	l.sums.LostPods++
	l.sums.Lost += b.done
	switch {
	case p.says == v1alpha1.MigrationNever:
		l.breaks("pod %s is taken away though it is never to be moved", p.name)
	case !evicted:
		l.breaks("pod %s is lost with %v of work: %s, deleted %t", p.name, b.done.Round(time.Second), pod.Status.Phase, pod.DeletionTimestamp != nil)
	}
}

// carried reports whether a pod is the source of a Migration that was handed over.
func (l *ledger) carried(pod *corev1.Pod) bool {
	for _, m := range l.moves {
		if m.Status.Plan == nil || m.Status.Plan.PodUID != string(pod.UID) {
			continue
		}
		for _, c := range m.Status.Conditions {
			if c.Type == v1alpha1.MigrationVerified && c.Status == metav1.ConditionTrue {
				return true
			}
		}
	}
	return false
}

// now counts the operations in progress.
func (l *ledger) now() sample {
	var s sample
	for _, n := range l.nodes {
		if len(n.pods) > 0 {
			s.Nodes++
			s.Used += float64(n.price) / 1e6
			if n.marked {
				s.Emptying++
			}
		}
		if len(n.pods) > 0 || !n.marked {
			s.Open += float64(n.price) / 1e6
		}
	}
	for _, m := range l.moves {
		if !world.Ended(m) {
			s.InFlight++
		}
	}
	for _, p := range l.pods {
		if p.evicting {
			s.InFlight++
		}
	}
	return s
}

// check checks the budgets. Pods and nodes are observed through different watches, so only a lasting excess
// counts.
func (l *ledger) check() {
	now := time.Now()
	s := l.now()
	l.sums.MostEmptying, l.sums.MostInFlight = max(l.sums.MostEmptying, s.Emptying), max(l.sums.MostInFlight, s.InFlight)
	for _, b := range []struct {
		what      string
		got, most int
	}{{"nodes being emptied", s.Emptying, l.budget.nodes}, {"pods moving", s.InFlight, l.budget.pods}} {
		since, was := l.over[b.what]
		switch {
		case b.most == 0 || b.got <= b.most:
			delete(l.over, b.what)
		case !was:
			l.over[b.what] = now
		case now.Sub(since) > time.Second:
			l.breaks("%d %s for more than a second; at most %d may be", b.got, b.what, b.most)
			delete(l.over, b.what)
		}
	}
}

// unexplained returns the nodes that were cordoned without a decision that contains the reason, the expected
// savings and the cost.
func (l *ledger) unexplained() (all []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.closings {
		d, ok := l.decided[c.String()]
		switch {
		case !ok:
			all = append(all, c.String()+": no decision")
		case d.Reason == "" || d.SavesDollars == "" || d.CostsDollars == "" || len(d.Pods) == 0:
			all = append(all, fmt.Sprintf("%s: %+v", c, d))
		case slices.ContainsFunc(d.Pods, func(m v1alpha1.ConsolidationMove) bool { return strings.TrimSpace(m.Reason) == "" }):
			all = append(all, fmt.Sprintf("%s: a pod without a reason: %+v", c, d.Pods))
		}
	}
	return all
}
