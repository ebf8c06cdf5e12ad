package record

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/cli/auditor"
	"supercargo.dev/supercargo/energy/score"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/internal/world"
)

// annotationDoNotDisrupt is Karpenter's annotation of pods that must stay on their node, always if it is true.
const annotationDoNotDisrupt = "karpenter.sh/do-not-disrupt"

// Tracker converts observations of pods and nodes to rows of a recording. An unchanged observation
// gives no row. It is not safe for concurrent use.
type Tracker struct {
	// Name returns the name or ID to write for one of the cluster: the same, or a hash.
	Name func(string) string
	// Price returns the price of a node in micro-dollars per hour; nil if unknown.
	Price func(*corev1.Node) *int64

	began time.Duration          // when the first part of the recording began
	last  time.Duration          // the latest time of any row
	nodes map[string]trace.Row   // their latest rows, by ID, without deleted ones
	ids   map[string]string      // the IDs of nodes, by name in the recording
	pods  map[string]*trackedPod // by ID

	added int            // the pods for which this tracker has made rows, without those of DaemonSets and static pods
	lacks map[string]int // the number of these by what their rows lack
}

// trackedPod is what a recording has of a pod.
type trackedPod struct {
	started, ended, confirmed bool
}

// NewTracker returns a tracker that continues a recording, which may be nil.
func NewTracker(name func(string) string, price func(*corev1.Node) *int64, before *trace.Recording) *Tracker {
	t := &Tracker{Name: name, Price: price, nodes: map[string]trace.Row{}, ids: map[string]string{}, pods: map[string]*trackedPod{}, lacks: map[string]int{}}
	if before == nil {
		return t
	}
	t.began, t.last = before.Span()
	for i := range before.Rows {
		row := before.Rows[i]
		switch row.Event {
		case trace.EventNode:
			t.nodes[row.ID], t.ids[row.Name] = row, row.ID
		case trace.EventGone:
			delete(t.nodes, row.ID)
		case trace.EventPod, trace.EventDaemon:
			t.pods[row.ID] = &trackedPod{}
		case trace.EventStart:
			t.pod(row.ID).started = true
		case trace.EventEnd:
			t.pod(row.ID).ended = true
		}
	}
	return t
}

// pod returns what is known of a pod, and adds the pod if it is unknown.
func (t *Tracker) pod(id string) *trackedPod {
	if t.pods[id] == nil {
		t.pods[id] = &trackedPod{}
	}
	return t.pods[id]
}

// since1970 returns a time as in rows, in milliseconds precision.
func since1970(at time.Time) time.Duration {
	return time.Duration(at.UnixMilli()) * time.Millisecond
}

// row returns a row, and records its time.
func (t *Tracker) row(at time.Duration, event trace.Event, id string) trace.Row {
	t.last = max(t.last, at)
	return trace.Row{Time: at, Event: event, ID: id}
}

// Begin returns the row that begins or continues a recording.
func (t *Tracker) Begin(now time.Time, hashed bool) trace.Row {
	r := t.row(since1970(now), trace.EventBegin, "")
	if t.began == 0 {
		t.began = r.Time
	}
	r.Name = trace.NamesPlain
	if hashed {
		r.Name = trace.NamesHashed
	}
	return r
}

// Alive returns the row that shows that the recording continues.
func (t *Tracker) Alive(now time.Time) trace.Row {
	return t.row(since1970(now), trace.EventAlive, "")
}

// Stop returns the row that ends a recording.
func (t *Tracker) Stop(now time.Time) trace.Row { return t.row(since1970(now), trace.EventStop, "") }

// Node returns the row of a node that is new or has changed, or nil.
func (t *Tracker) Node(node *corev1.Node, now time.Time) []trace.Row {
	id := t.Name(string(node.UID))
	allocatable := node.Status.Allocatable
	if allocatable.Cpu().IsZero() {
		return nil // the kubelet has not reported yet
	}
	before, known := t.nodes[id]
	at := since1970(now)
	if !known {
		at = since1970(node.CreationTimestamp.Time)
	}
	r := trace.Row{
		Time: at, Event: trace.EventNode, ID: id, Name: t.Name(node.Name), MilliCPU: allocatable.Cpu().MilliValue(), MemoryBytes: allocatable.Memory().Value(), MaxPods: allocatable.Pods().Value(),
		Arch: node.Labels[corev1.LabelArchStable], Flavor: FlavorOf(node), MicroDollarsPerHour: t.Price(node),
	}
	if known && sameNode(&before, &r) {
		return nil
	}
	t.nodes[id], t.ids[r.Name], t.last = r, id, max(t.last, at)
	return []trace.Row{r}
}

// sameNode reports whether two rows of a node differ only in their time.
func sameNode(a, b *trace.Row) bool {
	price := func(r *trace.Row) int64 {
		if r.MicroDollarsPerHour == nil {
			return -1
		}
		return *r.MicroDollarsPerHour
	}
	return a.MilliCPU == b.MilliCPU && a.MemoryBytes == b.MemoryBytes && a.MaxPods == b.MaxPods && a.Flavor == b.Flavor && a.Arch == b.Arch && price(a) == price(b)
}

// FlavorOf returns the flavor of a node in a recording: its instance type, else its machine type, else its size.
func FlavorOf(node *corev1.Node) string {
	c := node.Status.Capacity
	return cmp.Or(auditor.InstanceType(node), node.Labels[v1alpha1.LabelMachineType],
		fmt.Sprintf("cpu-%d-memory-%dgi", c.Cpu().Value(), (c.Memory().Value()+1<<29)>>30))
}

// NodeGone returns the row of a deleted node, unless that is already recorded.
func (t *Tracker) NodeGone(node *corev1.Node, now time.Time) []trace.Row {
	return t.gone(t.Name(string(node.UID)), since1970(now))
}

func (t *Tracker) gone(id string, at time.Duration) []trace.Row {
	if _, known := t.nodes[id]; !known {
		return nil
	}
	delete(t.nodes, id)
	return []trace.Row{t.row(at, trace.EventGone, id)}
}

// Pod returns the new rows of a pod: that it was created, started or ended.
func (t *Tracker) Pod(pod *corev1.Pod, now time.Time) (rows []trace.Row) {
	id := t.Name(string(pod.UID))
	ended, over := endOf(pod, now)
	known := t.pods[id]
	if known == nil {
		if over && since1970(ended) < t.began || !t.placeable(pod) {
			return nil
		}
		rows = append(rows, t.made(pod, id))
		known = t.pod(id)
	}
	known.confirmed = true
	if start := pod.Status.StartTime; !known.started && start != nil && pod.Spec.NodeName != "" {
		known.started = true
		r := t.row(since1970(start.Time), trace.EventStart, id)
		r.Node = t.ids[t.Name(pod.Spec.NodeName)]
		rows = append(rows, r)
	}
	if over && !known.ended {
		known.ended = true
		rows = append(rows, t.row(since1970(ended), trace.EventEnd, id))
	}
	return rows
}

// placeable reports whether the node of a DaemonSet pod or static pod is known. It is true for all
// other pods.
func (t *Tracker) placeable(pod *corev1.Pod) bool {
	return !class.EveryNode(pod) || t.ids[t.Name(pod.Spec.NodeName)] != ""
}

// made returns the row for the creation of a pod.
func (t *Tracker) made(pod *corev1.Pod, id string) trace.Row {
	r := t.row(since1970(pod.CreationTimestamp.Time), trace.EventPod, id)
	size, _ := world.Requests(pod)
	r.Namespace, r.Name, r.MilliCPU, r.MemoryBytes = t.Name(pod.Namespace), t.Name(pod.Name), size.MilliCPU, size.MemoryBytes
	if class.EveryNode(pod) {
		r.Event, r.Node = trace.EventDaemon, t.ids[t.Name(pod.Spec.NodeName)]
		return r
	}
	t.count(pod)
	kind, _ := class.OfPod(pod)
	r.Class = class.Service
	if kind == class.Batch {
		r.Class = class.Batch
		if d, declared, err := runtimes.Declared(pod); declared && err == nil {
			r.Runtime = d
		}
		if category := pod.Annotations[v1alpha1.AnnotationCategory]; category != "" && trace.Recordable(category) {
			r.Category = t.Name(category)
		}
	}
	switch m := pod.Annotations[v1alpha1.AnnotationMigration]; m {
	case v1alpha1.MigrationCheckpoint, v1alpha1.MigrationRestart, v1alpha1.MigrationNever:
		r.Migration = m
	}
	if pod.Annotations[annotationDoNotDisrupt] == "true" {
		r.Migration = v1alpha1.MigrationNever
	}
	if _, stated := pod.Annotations[v1alpha1.AnnotationEnergyWeight]; stated {
		if w, wrong := score.WeightOf(pod.Annotations, nil, score.DefaultWeight); wrong == nil {
			r.EnergyWeight = &w.H
		}
	}
	if r.Arch = archOf(pod); !trace.Recordable(r.Arch) {
		r.Arch = noArch
	}
	return r
}

// noArch stands for an architecture that cannot be written. No node has either.
const noArch = "invalid"

// archOf returns the single architecture that a pod requires; empty if it accepts several or states
// none.
func archOf(pod *corev1.Pod) string {
	if arch := pod.Spec.NodeSelector[corev1.LabelArchStable]; arch != "" {
		return arch
	}
	a := pod.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	terms := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if len(terms) != 1 {
		return ""
	}
	return archIn(&terms[0])
}

// archIn returns the single architecture that a term requires; empty if there is none.
func archIn(term *corev1.NodeSelectorTerm) string {
	at := slices.IndexFunc(term.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool {
		return r.Key == corev1.LabelArchStable && r.Operator == corev1.NodeSelectorOpIn && len(r.Values) == 1
	})
	if at < 0 {
		return ""
	}
	return term.MatchExpressions[at].Values[0]
}

// endOf returns when a pod ended, which is when the last of its containers did or else now, and
// whether it has ended.
func endOf(pod *corev1.Pod, now time.Time) (time.Time, bool) {
	if !class.Ended(pod) {
		return time.Time{}, false
	}
	var last time.Time
	for i := range pod.Status.ContainerStatuses {
		if s := pod.Status.ContainerStatuses[i].State.Terminated; s != nil && s.FinishedAt.After(last) {
			last = s.FinishedAt.Time
		}
	}
	if last.IsZero() {
		last = now
	}
	return last, true
}

// PodGone returns the row of a deleted pod, unless its end is already recorded.
func (t *Tracker) PodGone(pod *corev1.Pod, now time.Time) []trace.Row {
	id := t.Name(string(pod.UID))
	rows := t.Pod(pod, now) // its end may not have been observed
	if known := t.pods[id]; known != nil && !known.ended {
		known.ended = true
		rows = append(rows, t.row(since1970(now), trace.EventEnd, id))
	}
	return rows
}

// Missing returns the rows for the end of objects that an earlier part of the recording has and the
// cluster does not: they are assumed to have ended when the recording was interrupted. nodes are
// the UIDs of all nodes. All pods must have been passed to Pod before.
func (t *Tracker) Missing(nodes []string, interrupted time.Duration) (rows []trace.Row) {
	there := make(map[string]bool, len(nodes))
	for _, uid := range nodes {
		there[t.Name(uid)] = true
	}
	for _, id := range sortedKeys(t.nodes) {
		if !there[id] {
			rows = append(rows, t.gone(id, interrupted)...)
		}
	}
	for _, id := range sortedKeys(t.pods) {
		if p := t.pods[id]; !p.ended && !p.confirmed {
			p.ended = true
			rows = append(rows, t.row(interrupted, trace.EventEnd, id))
		}
	}
	return rows
}

// Interrupted returns the latest time in an earlier part of the recording; 0 if there is none.
func (t *Tracker) Interrupted() time.Duration { return t.last }

// Counts returns the number of pods in the recording, and the number of existing nodes.
func (t *Tracker) Counts() (pods, nodes int) { return len(t.pods), len(t.nodes) }
