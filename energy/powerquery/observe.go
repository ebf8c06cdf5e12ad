package powerquery

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/energy/bill"
	"supercargo.dev/supercargo/internal/platform/promql"
)

// Series of the requests and use of pods. The first of each is from the metrics adapter, which exports requests and
// scrapes the kubelets' /metrics/resource for CPU time. The others are from kube-scheduler's /metrics/resources,
// kube-state-metrics and cAdvisor.
//
// Several replicas of an exporter, or several jobs that scrape one, have copies of a series. Each container and each
// kubelet counts once.
const (
	requestsNow = `max by (namespace, pod, node) (supercargo_pod_requested{resource="cpu", node!=""})` +
		` or max by (namespace, pod, node) (kube_pod_resource_request{resource="cpu", node!=""})` +
		` or sum by (namespace, pod, node) (max by (namespace, pod, node, container) (kube_pod_container_resource_requests{resource="cpu", node!=""}))` +
		` * on (namespace, pod) group_left () (max by (namespace, pod) (kube_pod_status_phase{phase="Running"}) == 1)`
	placesNow = `max by (namespace, pod, node) (kube_pod_info{node!=""})`

	// Expressions with a range of %[1]d seconds. CPU time is in cores.
	usedOver = `(sum by (namespace, pod) (max by (namespace, pod, instance) (increase(pod_cpu_usage_seconds_total{pod!=""}[%[1]ds])))` +
		` or sum by (namespace, pod) (max by (namespace, pod, instance) (sum by (namespace, pod, instance, job, metrics_path)` +
		` (increase(container_cpu_usage_seconds_total{container!="", container!="POD", pod!=""}[%[1]ds]))))) / %[1]d`
	ownersOver = `max by (namespace, pod, owner_kind, owner_name) (max_over_time(supercargo_pod_requested{owner_kind!=""}[%[1]ds]))` +
		` or max by (namespace, pod, owner_kind, owner_name) (max_over_time(kube_pod_owner[%[1]ds]))`
	coresOver = `max by (node) (max_over_time(supercargo_node_allocatable_cores[%[1]ds]))` +
		` or max by (node) (max_over_time(supercargo_node_allocatable{resource="cpu"}[%[1]ds]))` + // from the metrics adapter
		` or max by (node) (max_over_time(kube_node_status_allocatable{resource="cpu"}[%[1]ds]))`
	agentInfoOver  = `max by (node, machine_type, zone) (max_over_time(supercargo_node_info[%[1]ds]))`
	adapterOver    = `max by (node, machine_type) (max_over_time(supercargo_node_ready[%[1]ds]))`
	nodeLabelsOver = `max by (node, label_supercargo_dev_machine_type, label_node_kubernetes_io_instance_type, label_topology_kubernetes_io_zone)` +
		` (max_over_time(kube_node_labels[%[1]ds]))`
)

// Used returns the energy that the nodes used between two times, by node name: a [Meter] or a [Model].
type Used interface {
	Used(ctx context.Context, from, to time.Time) (map[string]energy.Usage, Tally, error)
}

// Observer reads the use of the nodes and pods of a cluster.
type Observer struct {
	Power Used
	// Querier provides the series of pods and nodes. It may be a different server than that of Power.
	Querier promql.Querier
}

// Observe returns the observations between two times in slices of the given length. The last slice may be shorter, or
// is omitted if it is shorter than [SampleEvery]. progress, if not nil, is called with the number of finished slices and
// of all slices. Cost: eight queries per slice, plus those for power.
func (o Observer) Observe(ctx context.Context, from, to time.Time, slice time.Duration, progress func(done, all int)) ([]bill.Slice, Tally, error) {
	if slice < SampleEvery || to.Sub(from) < SampleEvery {
		return nil, Tally{}, fmt.Errorf("read %v in slices of %v: both must be at least %v", to.Sub(from), slice, SampleEvery)
	}
	var observed []bill.Slice
	var tally Tally
	all := int((to.Sub(from) + slice - SampleEvery) / slice)
	for i := range all {
		begin := from.Add(time.Duration(i) * slice)
		end := begin.Add(slice)
		if end.After(to) {
			end = to
		}
		s, one, err := o.slice(ctx, begin, end)
		if err != nil {
			return nil, tally, fmt.Errorf("read %s to %s: %w", begin.Format(time.RFC3339), end.Format(time.RFC3339), err)
		}
		observed = append(observed, s)
		for fault, n := range one.Counts {
			tally.Counts[fault] += n
		}
		tally.Nameless += one.Nameless
		if progress != nil {
			progress(i+1, all)
		}
	}
	return observed, tally, nil
}

func (o Observer) slice(ctx context.Context, from, to time.Time) (bill.Slice, Tally, error) {
	used, tally, err := o.Power.Used(ctx, from, to)
	if err != nil {
		return bill.Slice{}, tally, err
	}
	s := bill.Slice{From: from, To: to}
	nodes, err := o.nodes(ctx, from, to)
	if err != nil {
		return s, tally, err
	}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		n := nodes[name]
		n.Name, n.Energy = name, used[name]
		s.Nodes = append(s.Nodes, n)
	}
	s.Pods, err = o.pods(ctx, from, to)
	return s, tally, err
}

// over evaluates an expression with a range.
func (o Observer) over(ctx context.Context, expression string, from, to time.Time) ([]promql.Sample, error) {
	return o.Querier.Query(ctx, fmt.Sprintf(expression, int(to.Sub(from).Seconds())), to)
}

// lookback is how long a value that is not written again remains valid, as for instant queries of Prometheus.
const lookback = 5 * time.Minute

// lately evaluates an expression with a range for properties, over at least [lookback]: properties are written when
// they change and otherwise only now and then, possibly less often than once per slice.
func (o Observer) lately(ctx context.Context, expression string, from, to time.Time) ([]promql.Sample, error) {
	if lately := to.Add(-lookback); lately.Before(from) {
		from = lately
	}
	return o.over(ctx, expression, from, to)
}

// nodes returns the known properties of the nodes, by name.
func (o Observer) nodes(ctx context.Context, from, to time.Time) (map[string]bill.Node, error) {
	known := map[string]bill.Node{}
	cores, err := o.lately(ctx, coresOver, from, to)
	if err != nil {
		return nil, err
	}
	for _, s := range cores {
		if s.Value >= 0 && s.Value < 1e6 { // false for NaN
			known[s.Labels["node"]] = bill.Node{Cores: s.Value}
		}
	}
	for _, ask := range []struct {
		expression string
		types      []string
		zone       string
	}{
		{agentInfoOver, []string{"machine_type"}, "zone"},
		{adapterOver, []string{"machine_type"}, ""},
		{nodeLabelsOver, []string{"label_supercargo_dev_machine_type", "label_node_kubernetes_io_instance_type"}, "label_topology_kubernetes_io_zone"},
	} {
		samples, err := o.lately(ctx, ask.expression, from, to)
		if err != nil {
			return nil, err
		}
		slices.SortFunc(samples, func(a, b promql.Sample) int { // a changed label has two series: the greatest value counts
			for _, l := range append(ask.types, ask.zone) {
				if c := cmp.Compare(b.Labels[l], a.Labels[l]); c != 0 {
					return c
				}
			}
			return 0
		})
		for _, s := range samples {
			n := known[s.Labels["node"]]
			for _, label := range ask.types {
				n.MachineType = cmp.Or(n.MachineType, s.Labels[label])
			}
			n.Zone = cmp.Or(n.Zone, s.Labels[ask.zone])
			known[s.Labels["node"]] = n
		}
	}
	return known, nil
}

// place is a pod on a node.
type place struct{ namespace, pod, node string }

// pods returns the requests and use of the pods, sorted by name, without pods that have neither.
func (o Observer) pods(ctx context.Context, from, to time.Time) ([]bill.Pod, error) {
	requested, err := o.requests(ctx, from, to)
	if err != nil {
		return nil, err
	}
	used, err := o.over(ctx, usedOver, from, to)
	if err != nil {
		return nil, err
	}
	owners, err := o.lately(ctx, ownersOver, from, to)
	if err != nil {
		return nil, err
	}
	cores, workloads := map[[2]string]float64{}, map[[2]string]string{}
	for _, s := range used {
		if s.Value >= 0 && s.Value < 1e6 {
			cores[[2]string{s.Labels["namespace"], s.Labels["pod"]}] = s.Value
		}
	}
	for _, s := range owners {
		name := [2]string{s.Labels["namespace"], s.Labels["pod"]}
		// A pod whose owner changed has two series: the greatest name counts.
		workloads[name] = max(workloads[name], workloadOf(s.Labels["owner_kind"], s.Labels["owner_name"]))
	}
	places := slices.SortedFunc(maps.Keys(requested), func(a, b place) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.pod, b.pod), -cmp.Compare(requested[a], requested[b]), cmp.Compare(a.node, b.node))
	})
	var pods []bill.Pod
	for i, p := range places {
		name := [2]string{p.namespace, p.pod}
		out := bill.Pod{Namespace: p.namespace, Name: p.pod, Workload: cmp.Or(workloads[name], stem(p.pod)), Node: p.node, Requested: requested[p]}
		if c, ok := cores[name]; ok {
			if i > 0 && places[i-1].namespace == p.namespace && places[i-1].pod == p.pod {
				c = 0 // its use counts on the node where it requested most
			}
			out.Used = &c
		}
		if out.Requested > 0 || out.Used != nil && *out.Used > 0 {
			pods = append(pods, out)
		}
	}
	return pods, nil
}

// requests returns the requested cores by pod and node, averaged over the time: 0 for pods without a request.
func (o Observer) requests(ctx context.Context, from, to time.Time) (map[place]float64, error) {
	span, every := int(to.Sub(from).Truncate(SampleEvery).Seconds()), int(SampleEvery.Seconds())
	found := map[place]float64{}
	for _, expression := range []string{
		fmt.Sprintf("0 * count_over_time((%s)[%ds:%ds])", placesNow, span, every),
		fmt.Sprintf("sum_over_time((%s)[%ds:%ds]) * %d / %d", requestsNow, span, every, every, span),
	} {
		samples, err := o.Querier.Query(ctx, expression, to)
		if err != nil {
			return nil, err
		}
		for _, s := range samples {
			p := place{s.Labels["namespace"], s.Labels["pod"], s.Labels["node"]}
			if p.namespace != "" && p.pod != "" && p.node != "" && s.Value >= 0 && s.Value < 1e6 {
				found[p] = s.Value
			}
		}
	}
	return found, nil
}
