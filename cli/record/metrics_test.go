package record

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/test/kit/promserver"
)

// past is a Prometheus server with two hours of kube-state-metrics, in minutes.
type past struct {
	*promserver.Server
	from   time.Time
	series []minutes
}

// minutes is a series with a value in each minute of a range.
type minutes struct {
	first, last int
	value       float64
	labels      []string
}

func (p *past) put(first, last int, value float64, series ...string) {
	p.series = append(p.series, minutes{first, last, value, append([]string{"__name__"}, series...)})
}

// scrape writes all samples to the server in the order of time.
func (p *past) scrape() {
	for i := range 121 {
		for _, s := range p.series {
			if s.first <= i && i <= s.last {
				p.Put(p.from.Add(time.Duration(i)*time.Minute), s.value, s.labels...)
			}
		}
	}
}

// at returns a minute as a value.
func (p *past) at(minute int) float64 {
	return float64(p.from.Add(time.Duration(minute) * time.Minute).Unix())
}

// pod adds a pod that is reported in a range of minutes.
func (p *past) pod(name, node, owner string, first, last, created, started, completed int) {
	of := func(metric string, more ...string) []string {
		return append([]string{metric, "namespace", "jobs", "pod", name, "uid", "uid-" + name}, more...)
	}
	p.put(first, last, p.at(created), of("kube_pod_created")...)
	p.put(first, last, 1, of("kube_pod_info", "node", node)...)
	if owner != "" {
		p.put(first, last, 1, of("kube_pod_owner", "owner_kind", owner, "owner_is_controller", "true")...)
	}
	for container, cores := range map[string]float64{"main": 0.25, "side": 0.1} {
		p.put(first, last, cores, of("kube_pod_container_resource_requests", "container", container, "resource", "cpu", "node", node)...)
		p.put(first, last, 1<<29, of("kube_pod_container_resource_requests", "container", container, "resource", "memory", "node", node)...)
	}
	if node != "" {
		p.put(first, last, p.at(started), of("kube_pod_start_time")...)
	}
	if completed != 0 {
		p.put(max(first, completed), last, p.at(completed), of("kube_pod_completion_time")...)
	}
}

func (p *past) node(name string, first, last, created int) {
	p.put(first, last, p.at(created), "kube_node_created", "node", name)
	for resource, amount := range map[string]float64{"cpu": 3.92, "memory": 16 << 30, "pods": 110, "ephemeral_storage": 1e9} {
		p.put(first, last, amount, "kube_node_status_allocatable", "node", name, "resource", resource)
	}
	p.put(first, last, 1, "kube_node_labels", "node", name, "label_node_kubernetes_io_instance_type", "m5.xlarge", "label_kubernetes_io_arch", "amd64", "label_topology_kubernetes_io_region", "eu-west-1")
	p.put(first, last, 1, "kube_node_info", "node", name, "provider_id", "aws:///eu-west-1a/i-"+name)
}

func TestThePastIsReadFromWhatKubeStateMetricsToldAServer(t *testing.T) {
	p := &past{Server: promserver.Start(t), from: time.Now().Add(-2 * time.Hour).Truncate(time.Minute)}
	p.node("n", 0, 120, -60)
	p.node("gone", 0, 30, -60)
	p.pod("web", "n", "ReplicaSet", 0, 120, -30, -29, 0)
	p.pod("done", "n", "Job", 10, 60, 10, 12, 40)          // ended, and still listed for a while
	p.pod("deleted", "n", "ReplicaSet", 10, 50, 10, 11, 0) // no longer reported
	p.pod("logs", "n", "DaemonSet", 0, 120, -60, -60, 0)
	p.pod("waits", "", "Job", 100, 120, 100, 0, 0)
	p.pod("long-over", "n", "Job", 0, 10, -50, -49, -20)

	p.scrape()

	var priced []string
	price := int64(192_000)
	m := Metrics{Server: p.Client(), From: p.from, To: p.from.Add(2 * time.Hour), Name: plain, Price: func(n *corev1.Node) *int64 {
		priced = append(priced, n.Name+" "+n.Spec.ProviderID+" "+n.Labels[corev1.LabelTopologyRegion])
		return &price
	}}
	rows, err := m.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range rows {
		line := strings.Join([]string{string(r.Event), r.ID, (r.Time - since1970(p.from)).String(), r.Node, string(r.Class)}, " ")
		got = append(got, strings.TrimSpace(line))
	}
	want := []string{
		"node node/gone -1h0m0s", "node node/n -1h0m0s", "daemon uid-logs -1h0m0s node/n", "start uid-logs -1h0m0s node/n", "pod uid-web -30m0s  service", "start uid-web -29m0s node/n",
		"pod uid-deleted 10m0s  service", "pod uid-done 10m0s  batch", "start uid-deleted 11m0s node/n", "start uid-done 12m0s node/n",
		"gone node/gone 30m0s", "end uid-done 40m0s", "end uid-deleted 50m0s", "pod uid-waits 1h40m0s  batch",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	wantNode := trace.Row{
		Time: since1970(p.from.Add(-time.Hour)), Event: trace.EventNode, ID: "node/n", Name: "n", MilliCPU: 3920, MemoryBytes: 16 << 30, MaxPods: 110,
		Arch: "amd64", Flavor: "m5.xlarge", MicroDollarsPerHour: &price,
	}
	if diff := cmp.Diff(wantNode, rows[1]); diff != "" {
		t.Errorf("the node (-want +got):\n%s", diff)
	}
	if web := rows[4]; web.MilliCPU != 350 || web.MemoryBytes != 1<<30 || web.Namespace != "jobs" || web.Name != "web" {
		t.Errorf("the pod is %+v, want what its two containers request", web)
	}
	if diff := cmp.Diff([]string{"gone aws:///eu-west-1a/i-gone eu-west-1", "n aws:///eu-west-1a/i-n eu-west-1"}, priced); diff != "" {
		t.Errorf("prices were asked of (-want +got):\n%s", diff)
	}

	m.Namespace = "other"
	rows, err = m.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if r.Event == trace.EventPod {
			t.Errorf("of namespace other, pod %s is there", r.Name)
		}
	}
}

func TestAServerWithoutKubeStateMetricsIsNamed(t *testing.T) {
	s := promserver.Start(t)
	m := Metrics{Server: s.Client(), From: time.Now().Add(-time.Hour), To: time.Now(), Name: plain}
	if _, err := m.Read(t.Context()); err == nil || !strings.Contains(err.Error(), "kube-state-metrics") {
		t.Errorf("the error is %v, want what the server lacks", err)
	}
	s.Down.Store(true)
	if _, err := m.Read(t.Context()); err == nil || strings.Contains(err.Error(), "check that it scrapes") {
		t.Errorf("the error is %v, want that of the server", err)
	}
}
