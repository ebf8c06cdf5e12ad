package narrowing

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/packing"
)

// mirror keeps packing's view of the nodes in sync with the scheduler's snapshot. It reads only the snapshot, because
// informer events are not ordered with the scheduler's cache.
//
// The snapshot has no list of changes, so sync compares the generation of every node: one load each from contiguous
// memory, about 1 ns per node, compared with about 150 µs for the default profile's filters and scores on as many.
// Everything else costs O(changed nodes).
type mirror struct {
	cycle  time.Duration
	finish func(*corev1.Pod) (time.Time, bool)

	list        []fwk.NodeInfo // the snapshot's own slice at the last sync
	infos       []*framework.NodeInfo
	generations []int64
	nodes       []mirrored
	byName      map[string]int
	views       map[viewKey]*packing.Index
	barriers    barriers
	gpus        gpuNodes
	variety     variety
	now         time.Time
}

// mirrored is a node at its generation.
type mirrored struct {
	packing.IndexedNode
	object *corev1.Node
	class  class.Class
	// barrier is the key of the node's taints.
	barrier string
	// usable reports that a plain pod can be rejected by the node only for lack of room: it has no taint, is not
	// cordoned, has a known capacity, and has a free pod slot.
	usable bool
	// known is false for a node that reports no capacity.
	known bool
	// gpus is nil for a node without GPUs.
	gpus *gpuNode
}

// viewKey says which nodes are in a view: those that accept pods of the class, with or without GPUs.
type viewKey struct {
	class class.Class
	gpus  bool
}

// anyClass is the view with nodes of every class.
const anyClass class.Class = ""

// sync updates the mirror to the snapshot and to the given time. It returns false if the lister is not the scheduler's
// own snapshot.
func (m *mirror) sync(lister fwk.NodeInfoLister, now time.Time) bool {
	list, err := lister.List()
	if err != nil {
		return false
	}
	m.now = now
	for _, view := range m.views {
		view.Advance(now)
	}
	if !sameSlice(list, m.list) && !m.relist(list) {
		return false
	}
	generations := m.generations[:len(m.infos)] // avoids a bounds check in the loop
	for i, info := range m.infos {
		if info.Generation != generations[i] {
			m.refresh(i)
		}
	}
	return true
}

// sameSlice reports whether both are the same slice, not only equal ones. The snapshot creates a new slice whenever a
// node is added or removed, and otherwise changes its NodeInfos in place.
func sameSlice(a, b []fwk.NodeInfo) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// relist handles added and removed nodes. It invalidates a node whose NodeInfo is a different object than before, so
// that sync reads it again. Cost: O(n).
func (m *mirror) relist(list []fwk.NodeInfo) bool {
	infos := make([]*framework.NodeInfo, len(list))
	generations := make([]int64, len(list))
	nodes := make([]mirrored, len(list))
	byName := make(map[string]int, len(list))
	for i, n := range list {
		info, ok := n.(*framework.NodeInfo)
		if !ok || info.Node() == nil {
			return false
		}
		name := info.Node().Name
		infos[i], generations[i], byName[name] = info, -1, i
		if old, ok := m.byName[name]; ok {
			nodes[i] = m.nodes[old]
			if m.infos[old] == info {
				generations[i] = m.generations[old]
			}
		}
	}
	for name := range m.byName {
		if _, ok := byName[name]; !ok {
			m.barriers.remove(m.nodes[m.byName[name]].barrier)
			m.variety.change(m.nodes[m.byName[name]].object, nil)
			m.gpus.change(m.nodes[m.byName[name]].gpus, -1)
			for _, view := range m.views {
				view.Remove(name)
			}
		}
	}
	m.list, m.infos, m.generations, m.nodes, m.byName = list, infos, generations, nodes, byName
	return true
}

// refresh reads one node of the snapshot and updates the views.
func (m *mirror) refresh(i int) {
	m.barriers.remove(m.nodes[i].barrier)
	m.variety.change(m.nodes[i].object, m.infos[i].Node())
	m.gpus.change(m.nodes[i].gpus, -1)
	m.nodes[i] = m.read(m.infos[i])
	m.gpus.change(m.nodes[i].gpus, 1)
	m.generations[i] = m.infos[i].Generation
	for key, view := range m.views {
		file(view, key, m.nodes[i])
	}
}

func (m *mirror) read(info *framework.NodeInfo) mirrored {
	node := info.Node()
	free := packing.Size{
		MemoryBytes: info.Allocatable.Memory - info.Requested.Memory,
		MilliCPU:    info.Allocatable.MilliCPU - info.Requested.MilliCPU,
	}
	barrier, taints := barrierOf(node)
	m.barriers.add(barrier, taints)
	c, _ := class.OfNode(node, class.Any) // the NodeClass plugin reports malformed classes
	known := info.Allocatable.Memory > 0 && info.Allocatable.MilliCPU > 0
	return mirrored{
		IndexedNode: packing.IndexedNode{Name: node.Name, Free: free, Finish: m.lastFinish(info)},
		object:      node,
		class:       c,
		barrier:     barrier,
		known:       known,
		gpus:        gpuNodeOf(info),
		usable:      known && barrier == "" && len(info.Pods) < info.Allocatable.AllowedPodNumber,
	}
}

// lastFinish returns the latest expected finish of the pods on the node by Options.Finish, or the zero time if there is
// none.
func (m *mirror) lastFinish(info *framework.NodeInfo) time.Time {
	var last time.Time
	if m.finish == nil {
		return last
	}
	for _, p := range info.Pods {
		if finish, ok := m.finish(p.GetPod()); ok && finish.After(last) {
			last = finish
		}
	}
	return last
}

// view returns the index of the usable nodes with or without GPUs that accept pods of the class, or all pods for anyClass. It
// creates the index at the first call.
func (m *mirror) view(key viewKey) *packing.Index {
	view, ok := m.views[key]
	if !ok {
		view = packing.NewIndex(m.cycle, m.now)
		for i := range m.nodes {
			file(view, key, m.nodes[i])
		}
		if m.views == nil {
			m.views = map[viewKey]*packing.Index{}
		}
		m.views[key] = view
	}
	return view
}

// file adds a node to a view, or removes it.
func file(view *packing.Index, key viewKey, n mirrored) {
	if n.usable && (key.class == anyClass || n.class.Takes(key.class)) && key.gpus == (n.gpus != nil) {
		view.Put(n.IndexedNode)
	} else {
		view.Remove(n.Name)
	}
}

// node returns packing's view of a node of the snapshot, and false if the mirror does not have it or it reports no
// capacity.
func (m *mirror) node(name string) (packing.Node, bool) {
	i, ok := m.byName[name]
	if !ok || !m.nodes[i].known {
		return packing.Node{}, false
	}
	n := packing.Node{Name: name, Free: m.nodes[i].Free}
	if finish := m.nodes[i].Finish; !finish.IsZero() {
		n.Remaining = finish.Sub(m.now)
	}
	return n, true
}
