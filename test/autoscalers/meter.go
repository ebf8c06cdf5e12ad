package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"supercargo.dev/supercargo/internal/playground"
	"supercargo.dev/supercargo/internal/report"
	"supercargo.dev/supercargo/internal/trace"
)

// meter watches machines and nodes.
type meter struct {
	label   string
	flavors map[string]trace.Flavor // by the label's value
	end     func()

	mu       sync.Mutex
	machines map[string]*machine // by UID
	nodes    map[string]report.Machine
}

// machine is one machine from its order until it has gone, or at some time between.
type machine struct {
	flavor        string // empty until it is known
	price         int64  // in micro-dollars per hour
	ordered, gone time.Time
}

// newMeter returns a meter that has seen everything there is.
func newMeter(ctx context.Context, p *playground.Playground, c contestant, flavors []trace.Flavor) (*meter, error) {
	m := &meter{flavors: map[string]trace.Flavor{}, machines: map[string]*machine{}, nodes: map[string]report.Machine{}}
	for _, f := range flavors {
		label, value := c.flavor(f)
		m.label, m.flavors[value] = label, f
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

// see notes a machine that has been ordered, and its flavor as soon as it is known.
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
	if f, ok := m.flavors[o.GetLabels()[m.label]]; ok {
		known.flavor, known.price = f.Name, f.MicroDollarsPerHour
	}
}

// seeGone notes that a machine has gone.
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

// seeNode notes what a node offers.
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
	m.nodes[n.Name] = report.Machine{
		Name: n.Name, MilliCPU: n.Status.Allocatable.Cpu().MilliValue(), MemoryBytes: n.Status.Allocatable.Memory().Value(), MicroDollarsPerHour: price,
	}
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
			return errors.Join(fmt.Errorf("%d machines are still there", here), context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// seen returns the machines in the order of their orders and the nodes in any order.
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
