package record

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/internal/platform/promql"
)

// Metrics reads a recording of the past from a Prometheus server that has scraped
// kube-state-metrics.
type Metrics struct {
	Server promql.Querier
	// From and To are the time range to read.
	From, To time.Time
	// Name and Price are as for a [Tracker].
	Name  func(string) string
	Price func(*corev1.Node) *int64
	// Namespace is the namespace of the recorded pods, in addition to DaemonSet pods; empty for
	// all.
	Namespace string
}

// Step is the interval at which the server checks whether a pod or a node exists, and so the
// resolution of deletion times: a thousandth of the range, but at least a minute.
func (m *Metrics) Step() time.Duration {
	return max(time.Minute, m.To.Sub(m.From)/1000).Truncate(time.Second)
}

// asked are the queries, with W for the time range and S for the step.
var asked = map[string]string{
	"created":     `max by (namespace, pod, uid) (max_over_time(kube_pod_created[W]))`,
	"seen":        `max by (namespace, pod, uid) (max_over_time(timestamp(kube_pod_created)[W:S]))`,
	"started":     `max by (namespace, pod, uid) (max_over_time(kube_pod_start_time[W]))`,
	"completed":   `max by (namespace, pod, uid) (max_over_time(kube_pod_completion_time[W]))`,
	"requests":    `sum by (namespace, pod, uid, resource) (max by (namespace, pod, uid, container, resource) (max_over_time(kube_pod_container_resource_requests{resource=~"cpu|memory"}[W])))`,
	"owner":       `max by (namespace, pod, uid, owner_kind) (max_over_time(kube_pod_owner{owner_is_controller="true"}[W]))`,
	"on":          `max by (namespace, pod, uid, node) (max_over_time(kube_pod_info{node!=""}[W]))`,
	"nodeCreated": `max by (node) (max_over_time(kube_node_created[W]))`,
	"nodeSeen":    `max by (node) (max_over_time(timestamp(kube_node_created)[W:S]))`,
	"allocatable": `min by (node, resource) (min_over_time(kube_node_status_allocatable{resource=~"cpu|memory|pods"}[W]))`,
	"nodeLabels":  `max by (node, label_node_kubernetes_io_instance_type, label_kubernetes_io_arch, label_topology_kubernetes_io_region) (max_over_time(kube_node_labels[W]))`,
	"nodeInfo":    `max by (node, provider_id) (max_over_time(kube_node_info[W]))`,
}

// answers are the samples of each query.
type answers map[string][]promql.Sample

// Read returns the rows of a recording. Cost: a dozen instant queries, each with a sample for each
// pod and container in the time range.
func (m *Metrics) Read(ctx context.Context) ([]trace.Row, error) {
	window := fmt.Sprintf("%ds", int64(m.To.Sub(m.From)/time.Second))
	step := fmt.Sprintf("%ds", int64(m.Step()/time.Second))
	got := answers{}
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		query := strings.NewReplacer("[W", "["+window, ":S]", ":"+step+"]").Replace(asked[name])
		samples, err := m.Server.Query(ctx, query, m.To)
		if err != nil {
			return nil, err
		}
		got[name] = samples
	}
	if len(got["created"]) == 0 || len(got["nodeCreated"]) == 0 {
		return nil, errors.New("the server has neither kube_pod_created nor kube_node_created for that time: check that it scrapes kube-state-metrics, and how long it keeps samples")
	}
	return m.rows(got), nil
}

// rows merges the answers, sorted by time.
func (m *Metrics) rows(got answers) []trace.Row {
	t := NewTracker(m.Name, m.Price, nil)
	rows := m.nodes(t, got)
	rows = append(rows, m.pods(t, got)...)
	slices.SortStableFunc(rows, func(a, b trace.Row) int { return cmp.Compare(a.Time, b.Time) })
	return rows
}

// gone returns when an object was deleted, given when each was last seen; 0 if it exists at the
// end.
func (m *Metrics) gone(seen map[string]time.Duration, key string) time.Duration {
	if last, is := seen[key]; is && last < since1970(m.To.Add(-2*m.Step())) {
		return last
	}
	return 0
}

// times returns the values of samples as times, by key.
func times(samples []promql.Sample, key func(map[string]string) string) map[string]time.Duration {
	all := make(map[string]time.Duration, len(samples))
	for _, s := range samples {
		if s.Value > 0 { // not NaN
			all[key(s.Labels)] = time.Duration(s.Value*1000) * time.Millisecond
		}
	}
	return all
}

func nodeKey(labels map[string]string) string { return labels["node"] }

func podKey(labels map[string]string) string {
	return cmp.Or(labels["uid"], labels["namespace"]+"/"+labels["pod"])
}

// nodes returns the rows of nodes. A node that was recreated under its name counts as the same.
func (m *Metrics) nodes(t *Tracker, got answers) (rows []trace.Row) {
	made := map[string]*corev1.Node{}
	for name, at := range times(got["nodeCreated"], nodeKey) {
		made[name] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("node/" + name), Labels: map[string]string{}, CreationTimestamp: metav1.NewTime(time.UnixMilli(at.Milliseconds())),
		}}
	}
	for _, s := range got["allocatable"] {
		if n := made[s.Labels["node"]]; n != nil {
			if n.Status.Allocatable == nil {
				n.Status.Allocatable = corev1.ResourceList{}
			}
			name, q := corev1.ResourceName(s.Labels["resource"]), resource.NewQuantity(int64(s.Value), resource.DecimalSI)
			if name == corev1.ResourceCPU {
				q = resource.NewMilliQuantity(int64(s.Value*1000+0.5), resource.DecimalSI)
			}
			n.Status.Allocatable[name] = *q
			n.Status.Capacity = n.Status.Allocatable
		}
	}
	for _, s := range got["nodeLabels"] {
		if n := made[s.Labels["node"]]; n != nil {
			for from, to := range map[string]string{
				"label_node_kubernetes_io_instance_type": corev1.LabelInstanceTypeStable, "label_kubernetes_io_arch": corev1.LabelArchStable,
				"label_topology_kubernetes_io_region": corev1.LabelTopologyRegion,
			} {
				if value := s.Labels[from]; value != "" {
					n.Labels[to] = value
				}
			}
		}
	}
	for _, s := range got["nodeInfo"] {
		if n := made[s.Labels["node"]]; n != nil {
			n.Spec.ProviderID = s.Labels["provider_id"]
		}
	}
	seen := times(got["nodeSeen"], nodeKey)
	for _, name := range sortedKeys(made) {
		n := made[name]
		rows = append(rows, t.Node(n, m.To)...)
		if at := m.gone(seen, name); at > 0 {
			rows = append(rows, trace.Row{Time: at, Event: trace.EventGone, ID: t.Name(string(n.UID))})
		}
	}
	return rows
}

// pods returns the rows of pods.
func (m *Metrics) pods(t *Tracker, got answers) (rows []trace.Row) {
	made, namespaces := map[string]*trace.Row{}, map[string]string{}
	created := times(got["created"], podKey)
	for _, s := range got["created"] {
		key := podKey(s.Labels)
		namespaces[key] = s.Labels["namespace"]
		made[key] = &trace.Row{
			Time: created[key], Event: trace.EventPod, ID: t.Name(key), Namespace: t.Name(s.Labels["namespace"]), Name: t.Name(s.Labels["pod"]), Class: class.Service,
		}
	}
	for _, s := range got["requests"] {
		switch p := made[podKey(s.Labels)]; {
		case p == nil:
		case s.Labels["resource"] == "cpu":
			p.MilliCPU = int64(s.Value*1000 + 0.5)
		default:
			p.MemoryBytes = int64(s.Value)
		}
	}
	on := map[string]string{}
	for _, s := range got["on"] {
		on[podKey(s.Labels)] = t.ids[t.Name(s.Labels["node"])]
	}
	for _, s := range got["owner"] {
		key := podKey(s.Labels)
		p := made[key]
		if p == nil {
			continue
		}
		switch s.Labels["owner_kind"] {
		case "Job":
			p.Class = class.Batch
		case "DaemonSet", "Node":
			p.Event, p.Class, p.Node = trace.EventDaemon, "", on[key]
		}
	}
	started, completed, seen := times(got["started"], podKey), times(got["completed"], podKey), times(got["seen"], podKey)
	for _, key := range sortedKeys(made) {
		p := made[key]
		end := cmp.Or(completed[key], m.gone(seen, key))
		other := m.Namespace != "" && namespaces[key] != m.Namespace && p.Event == trace.EventPod
		if p.Time == 0 || other || end > 0 && end < since1970(m.From) {
			continue
		}
		rows = append(rows, *p)
		if at := started[key]; at > 0 && on[key] != "" {
			rows = append(rows, trace.Row{Time: at, Event: trace.EventStart, ID: p.ID, Node: on[key]})
		}
		if end > 0 {
			rows = append(rows, trace.Row{Time: end, Event: trace.EventEnd, ID: p.ID})
		}
	}
	return rows
}
