package app

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/adapter/store"
	"supercargo.dev/supercargo/autoscaler/replica/law"
	"supercargo.dev/supercargo/autoscaler/replica/preset"
	"supercargo.dev/supercargo/autoscaler/replica/replicadecide"
)

const (
	schedules = 15 * time.Second // how long a new pod is Pending
	starts    = 90 * time.Second // how long it then takes until it is Ready
)

// deployment models the pods of a service under a constant load in cores, as kubelets and
// kube-state-metrics report them. A pod requests one core.
type deployment struct {
	*testing.T
	store *store.Store
	clock *clocktesting.FakePassiveClock
	cores float64
	made  []time.Time // when each pod was created
	used  []float64   // core seconds of each
}

// ready returns the number of Ready pods.
func (d *deployment) ready() (n int) {
	for i := range d.made {
		if d.isReady(i) {
			n++
		}
	}
	return n
}

func (d *deployment) isReady(i int) bool { return d.clock.Now().Sub(d.made[i]) >= starts }

// scale creates pods, or deletes the latest.
func (d *deployment) scale(n int) {
	for len(d.made) < n {
		d.made, d.used = append(d.made, d.clock.Now()), append(d.used, 0)
	}
	d.made, d.used = d.made[:n], d.used[:n]
}

// second advances the clock by one second and scrapes all pods. A starting pod uses little
// CPU.
func (d *deployment) second() {
	d.clock.SetTime(d.clock.Now().Add(time.Second))
	a := d.store.Appender(d.Context())
	put := func(v float64, name string, pod int, pairs ...string) {
		d.Helper()
		series := labels.FromStrings(append(pairs, "__name__", name, "namespace", "shop", "pod", fmt.Sprintf("web-%d", pod))...)
		if _, err := a.Append(0, series, 0, d.clock.Now().UnixMilli(), v, nil, nil, storage.AOptions{}); err != nil {
			d.Fatal(err)
		}
	}
	ready := float64(d.ready())
	for i := range d.made {
		serves := 0.0
		switch {
		case d.isReady(i):
			serves = 1
			d.used[i] += min(d.cores/ready, 1)
			put(d.used[i], "container_cpu_usage_seconds_total", i, "container", "web")
		case d.clock.Now().Sub(d.made[i]) >= schedules:
			d.used[i] += 0.01
			put(d.used[i], "container_cpu_usage_seconds_total", i, "container", "web")
		}
		put(1, "kube_pod_container_resource_requests", i, "container", "web", "resource", "cpu", "uid", "u")
		put(serves, "kube_pod_status_ready", i, "condition", "true", "uid", "u")
		put(1-serves, "kube_pod_status_ready", i, "condition", "false", "uid", "u")
	}
	if err := a.Commit(); err != nil {
		d.Fatal(err)
	}
}

// evaluate answers the queries of a policy from the store and runs its law.
func (d *deployment) evaluate(p *replicadecide.Policy, m law.Memory) (law.Memory, replicadecide.Outcome) {
	d.Helper()
	now := d.clock.Now()
	seen := replicadecide.Seen{Now: now, Spec: len(d.made), Ready: d.ready(), StartUp: starts}
	for _, q := range p.Questions {
		found, err := d.store.Query(d.Context(), q.PromQL, now)
		var samples []replicadecide.Sample
		for _, s := range found {
			samples = append(samples, replicadecide.Sample{Value: s.Value, At: s.At})
		}
		seen.Answers = append(seen.Answers, replicadecide.Read(q.Measurement, now, samples, nil, err))
	}
	return p.Evaluate(m, seen)
}

// TestPodsThatStartAreNotCancelledByTheirOwnRequests: ten Ready pods at 96 % make a law add
// pods, which are Pending for long, then start, and become Ready. The load is constant.
func TestPodsThatStartAreNotCancelledByTheirOwnRequests(t *testing.T) {
	s, clock := openStore(t)
	d := &deployment{T: t, store: s, clock: clock, cores: 9.6}
	d.scale(10)
	for range int(starts.Seconds()) + 60 { // until there are enough samples
		d.second()
	}
	span := metav1.Duration{Duration: time.Minute}
	p, err := replicadecide.New("shop", &v1alpha1.ReplicaPolicySpec{
		Mode: v1alpha1.ReplicasAct, MinReplicas: 2, MaxReplicas: 40, Law: v1alpha1.ReplicaLawSpec{Name: v1alpha1.LawDoubleThreshold},
		Metrics: v1alpha1.ReplicaMetrics{MaxAge: span, Preset: &v1alpha1.MetricPreset{
			Name: preset.ContainerCPU, Parameters: map[string]v1alpha1.PresetParameter{"pods": "web-.*", "window": "10s"},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	const enough = 20 // the load is then 48 %
	var memory law.Memory
	due := clock.Now()
	for range 300 {
		d.second()
		if clock.Now().Before(due) {
			continue
		}
		var out replicadecide.Outcome
		memory, out = d.evaluate(p, memory)
		if out.Missing != "" || out.Replicas < min(len(d.made), enough) {
			t.Fatalf("with %d of %d pods Ready: %+v, want no fewer: the load is the same", d.ready(), len(d.made), out)
		}
		d.scale(out.Replicas)
		due = clock.Now().Add(out.Next)
	}
	if n := len(d.made); n < enough || n > enough+1 || d.ready() != n {
		t.Errorf("%d pods in the end, %d of them Ready, want %d", n, d.ready(), enough)
	}
}
