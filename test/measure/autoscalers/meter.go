package autoscalers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/lab/report"
)

// meter watches machines and nodes.
type meter struct {
	flavorOf func(labels map[string]string) string
	flavors  map[string]catalogue.Flavor // keyed by the result of flavorOf
	lister   cache.GenericLister         // of machines
	end      func()

	mu       sync.Mutex
	machines map[string]*machine // by UID
	nodes    map[string]report.Machine
	ready    map[string]time.Time // when a node could first accept pods
}

// machine is one machine, which may not have been released yet.
type machine struct {
	flavor        string // empty until it is known
	price         int64  // in micro-dollars per hour
	node          string // empty until it has one
	ordered, gone time.Time
}

// newMeter returns a meter that has observed all existing objects.
func newMeter(ctx context.Context, p *playground.Playground, c contestant, flavors []catalogue.Flavor) (*meter, error) {
	m := &meter{flavorOf: c.flavorOf, flavors: map[string]catalogue.Flavor{}, machines: map[string]*machine{}, nodes: map[string]report.Machine{}, ready: map[string]time.Time{}}
	for _, f := range flavors {
		m.flavors[c.flavor(f)] = f
	}
	client, err := dynamic.NewForConfig(p.Config())
	if err != nil {
		return nil, fmt.Errorf("watch machines: %w", err)
	}
	machines := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	nodes := informers.NewSharedInformerFactory(p.Client(), 0)
	ofMachines, err := machines.ForResource(c.machines()).Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: m.see, UpdateFunc: func(_, now any) { m.see(now) }, DeleteFunc: m.seeGone,
	})
	if err != nil {
		return nil, fmt.Errorf("watch machines: %w", err)
	}
	ofNodes, err := nodes.Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: m.seeNode, UpdateFunc: func(_, now any) { m.seeNode(now) },
	})
	if err != nil {
		return nil, fmt.Errorf("watch nodes: %w", err)
	}
	watching := make(chan struct{})
	machines.Start(watching)
	nodes.Start(watching)
	m.lister = machines.ForResource(c.machines()).Lister()
	m.end = func() {
		close(watching)
		machines.Shutdown()
		nodes.Shutdown()
	}
	if !cache.WaitForCacheSync(ctx.Done(), ofMachines.HasSynced, ofNodes.HasSynced) {
		m.end()
		return nil, fmt.Errorf("watch machines and nodes: %w", context.Cause(ctx))
	}
	return m, nil
}

// stop ends the watches.
func (m *meter) stop() { m.end() }

// see records a machine that has been ordered, and its flavor as soon as it is known.
func (m *meter) see(object any) {
	now := time.Now()
	o, ok := object.(*unstructured.Unstructured)
	if !ok {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	uid := string(o.GetUID())
	known, ok := m.machines[uid]
	if !ok {
		known = &machine{ordered: now}
		m.machines[uid] = known
	}
	if f, ok := m.flavors[m.flavorOf(o.GetLabels())]; ok {
		known.flavor, known.price = f.Name, f.MicroDollarsPerHour
	}
	if known.node == "" {
		known.node = nodeOf(o)
	}
}

// nodeOf returns the node name of a Machine of cluster-api or a NodeClaim, or "" if it has none yet.
func nodeOf(o *unstructured.Unstructured) string {
	for _, field := range [][]string{{"status", "nodeRef", "name"}, {"status", "nodeName"}} {
		if name, ok, _ := unstructured.NestedString(o.Object, field...); ok {
			return name
		}
	}
	return ""
}

// seeGone records the deletion of a machine.
func (m *meter) seeGone(object any) {
	if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = last.Obj
	}
	m.see(object) // for its flavor
	if o, ok := object.(*unstructured.Unstructured); ok {
		m.mu.Lock()
		m.machines[string(o.GetUID())].gone = time.Now()
		m.mu.Unlock()
	}
}

// seeNode records the allocatable resources of a node.
func (m *meter) seeNode(object any) {
	n, ok := object.(*corev1.Node)
	if !ok {
		return
	}
	var price int64
	for _, f := range m.flavors {
		if f.Name == n.Labels[corev1.LabelInstanceTypeStable] {
			price = f.MicroDollarsPerHour
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.ready[n.Name]; !known && takesPods(n) {
		m.ready[n.Name] = time.Now()
	}
	m.nodes[n.Name] = report.Machine{
		Name: n.Name, MilliCPU: n.Status.Allocatable.Cpu().MilliValue(), MemoryBytes: n.Status.Allocatable.Memory().Value(), MicroDollarsPerHour: price,
	}
}

// takesPods reports whether a node is Ready and repels no pods.
func takesPods(n *corev1.Node) bool {
	return !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }) &&
		slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
}

// waitEmpty waits until all machines have gone.
func (m *meter) waitEmpty(ctx context.Context) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		here := 0
		m.mu.Lock()
		for _, machine := range m.machines {
			if machine.gone.IsZero() {
				here++
			}
		}
		m.mu.Unlock()
		if here == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%d machines are still there: %s", here, m.left()), context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// left describes the first machines that still exist in the API server.
func (m *meter) left() string {
	const most = 3
	objects, err := m.lister.List(labels.Everything())
	if err != nil {
		return err.Error()
	}
	text, err := json.Marshal(objects[:min(len(objects), most)])
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// spans returns the average time from a machine's order until its node accepted pods, and from the end of its
// last pod until its release, over machines that had pods. Stays are relative to began, and pods that still
// exist after the window end with it.
func (m *meter) spans(stays []report.Stay, began time.Time, window time.Duration) (start, end time.Duration) {
	lastPod := map[string]time.Duration{}
	for _, s := range stays {
		gone := s.Gone
		if gone == report.Never {
			gone = window
		}
		if s.Bound != report.Never {
			lastPod[s.Node] = max(lastPod[s.Node], gone)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var used time.Duration
	for _, one := range m.machines {
		ready, last := m.ready[one.node], lastPod[one.node]
		if ready.IsZero() || last == 0 {
			continue
		}
		start += ready.Sub(one.ordered)
		end += max(0, one.gone.Sub(began.Add(last)))
		used++
	}
	return start / max(1, used), end / max(1, used)
}

// seen returns the machines sorted by order time, and the nodes in any order.
func (m *meter) seen() ([]machine, []report.Machine) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []machine
	for _, one := range m.machines {
		all = append(all, *one)
	}
	slices.SortFunc(all, func(a, b machine) int { return a.ordered.Compare(b.ordered) })
	return all, slices.Collect(maps.Values(m.nodes))
}
