//go:build replicas

package replicas

import (
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/adapter/nginx/exporter"
	"supercargo.dev/supercargo/autoscaler/adapter/store"
	"supercargo.dev/supercargo/autoscaler/adapter/store/target"
	"supercargo.dev/supercargo/autoscaler/app"
	"supercargo.dev/supercargo/autoscaler/replica/law"
	"supercargo.dev/supercargo/autoscaler/replica/preset"
	"supercargo.dev/supercargo/internal/platform/operator"
	"supercargo.dev/supercargo/internal/platform/promql/prometheus"
	"supercargo.dev/supercargo/internal/platform/promql/source"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/kit"
	"supercargo.dev/supercargo/test/kit/testapi"
)

// The service in the cluster.
const (
	service = "web"
	node    = "node-0"
)

// sites has a real control plane, and a node whose kubelet the tests simulate.
var sites = kit.NewSites(playground.Options{NoKwok: true, AutoscalerPeriod: hpaInterval, Nodes: []playground.NodeSpec{{Name: node, CPU: "4", Memory: "8Gi"}}})

func TestMain(m *testing.M) { os.Exit(kit.Main(m, "1", sites)) }

// trial is a Deployment in its own namespace, whose pods are processes behind their own nginx.
type trial struct {
	programs
	*kit.Site
	namespace  string
	goal       law.Goal
	deployment *appsv1.Deployment
	exporter   string // address at which nginx's metrics can be scraped
}

// tryInCluster replays the load against a Deployment that scale starts to scale before the load. scale
// returns a function that adds the scaler's own status to a step.
func tryInCluster(t *testing.T, program, name, namespace string, goal law.Goal, requests []arrival, scale func(*testing.T, *trial) func(*step)) outcome {
	site, err := sites.Get()
	if err != nil {
		t.Fatal(err)
	}
	p := emptyPool(t, program)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("programs said:\n%s", kit.GlobalLog.Tail(40))
		}
	})
	r := &trial{programs: programs{ctx: ctx, failed: make(chan error, 1)}, Site: site, namespace: namespace, goal: goal}
	defer r.end(t)
	defer cancel()
	r.begin(func() error {
		return (&kubelet{client: site.Playground.Client(), node: node, namespace: namespace, pool: p}).run(ctx)
	})
	r.deployment = makeService(t, site.Client, namespace)
	p.open(first)
	s := newSight(t, p)
	if err := s.follow.Poll(); err != nil { // reading begins here
		t.Fatal(err)
	}
	r.exporter = r.export(t, p.balancer)
	says := scale(t, r)

	before, began := readMachine(t), r.deployment.Generation
	start := time.Now().Add(time.Second)
	ended := make(chan *answers, 1)
	go func() { ended <- send(t.Context(), p.balancer.listen, start, requests) }()
	var got *answers
	var steps []step
	for tick := time.Tick(time.Second); got == nil; {
		select {
		case got = <-ended:
		case <-tick:
			steps = append(steps, r.seen(t, start))
			says(&steps[len(steps)-1])
		case err := <-r.failed:
			t.Fatal(err)
		}
	}
	o := s.outcome(t, got, steps, readMachine(t), before, start, goal.SLO, len(requests))
	o.Law, o.ScalingActions = name, int(r.deployment.Generation-began)
	return o
}

// tryPolicy replays the load against a Deployment that a ReplicaPolicy scales: the autoscaler queries a store
// by a preset, and the store scrapes the exporter beside nginx. All are ours and run as in a cluster.
func tryPolicy(t *testing.T, program string, goal law.Goal, requests []arrival) outcome {
	return tryInCluster(t, program, "ReplicaPolicy", "shop", goal, requests, func(t *testing.T, r *trial) func(*step) {
		scaler := r.measure(t)
		r.begin(func() error { return app.Run(r.ctx, scaler) })
		policy := r.makePolicy(t)
		return func(s *step) {
			t.Helper()
			testapi.Refresh(t, r.Client, policy)
			told(s, &policy.Status)
		}
	})
}

// programs contains functions that run beside a test.
type programs struct {
	ctx    context.Context
	all    sync.WaitGroup
	failed chan error
}

// begin runs a function. Its error ends the test.
func (p *programs) begin(run func() error) {
	p.all.Go(func() {
		if err := run(); err != nil {
			select {
			case p.failed <- err:
			default: // an earlier error ends the test
			}
		}
	})
}

// export runs the exporter beside nginx, and returns its address.
func (r *trial) export(t *testing.T, b *balancer) string {
	t.Helper()
	beside := freeAddress(t)
	r.begin(func() error {
		return exporter.Run(r.ctx, exporter.Options{StatusURL: "http://" + b.status + "/stub_status", LogPath: filepath.Join(b.dir, "access.log"),
			Poll: 100 * time.Millisecond, MaxUpstreams: 10, Listen: beside, Clock: clock.RealClock{}, Log: kit.GlobalLog.Logger("exporter")}, nil)
	})
	return beside
}

// measure runs a store that scrapes the exporter every second, and returns the options of an autoscaler that
// queries the store.
func (r *trial) measure(t *testing.T) app.Options {
	t.Helper()
	keeps := store.Defaults()
	keeps.Dir, keeps.Log = t.TempDir(), kit.GlobalLog.Logger("policy")
	kept, err := store.Open(keeps)
	if err != nil {
		t.Fatal(err)
	}
	scraping := store.ScrapeDefaults()
	scraping.Log = kit.GlobalLog.Logger("policy")
	scraper, err := kept.NewScraper(scraping, []target.Job{{Name: "nginx"}})
	if err != nil {
		t.Fatal(err)
	}
	targets := make(chan []target.Target, 1)
	targets <- []target.Target{{Job: "nginx", Address: r.exporter, Interval: time.Second, Labels: map[string]string{"namespace": r.namespace}}}
	r.begin(func() error {
		err := scraper.Run(r.ctx, targets)
		return errors.Join(err, kept.Close())
	})
	api := httptest.NewServer(kept.Handler(time.Now))
	t.Cleanup(api.Close)
	return app.Options{
		Options:       operator.Options{Config: r.Config(), MetricsAddress: "0", ProbeAddress: "0", Log: kit.GlobalLog.Logger("policy")},
		MetricSources: []source.Config{{Name: source.Default, Config: prometheus.Config{URL: api.URL}}},
	}
}

// end waits until all functions have ended.
func (p *programs) end(t *testing.T) {
	p.all.Wait()
	select {
	case err := <-p.failed:
		t.Error(err)
	default:
	}
}

// makeService creates the Deployment, whose pods the test's kubelet runs.
func makeService(t *testing.T, c client.Client, namespace string) *appsv1.Deployment {
	t.Helper()
	labels := map[string]string{"app": service}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: service},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](first), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: service, Image: service,
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(millicores, resource.DecimalSI)}},
			}}}},
		},
	}
	for _, o := range []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, d} {
		testapi.Create(t, c, o)
	}
	return d
}

// makePolicy creates the policy, with the constants that the law has without a cluster.
func (r *trial) makePolicy(t *testing.T) *v1alpha1.ReplicaPolicy {
	t.Helper()
	goal := r.goal
	p := &v1alpha1.ReplicaPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: service},
		Spec: v1alpha1.ReplicaPolicySpec{
			Target: v1alpha1.ReplicaTarget{APIVersion: "apps/v1", Kind: "Deployment", Name: service}, Mode: v1alpha1.ReplicasAct,
			MinReplicas: minReplicas, MaxReplicas: maxReplicas,
			SLO:     &v1alpha1.ServiceLevel{ResponseTime: metav1.Duration{Duration: goal.SLO}},
			Service: &v1alpha1.ServiceModel{RatePerReplica: resource.MustParse(strconv.FormatFloat(goal.Model.MuB, 'f', 3, 64))},
			Law: v1alpha1.ReplicaLawSpec{Name: v1alpha1.LawPredictive, Interval: metav1.Duration{Duration: interval},
				Predictive: &v1alpha1.PredictiveConstants{DrainTime: &metav1.Duration{Duration: ourDrain}}},
			Metrics: v1alpha1.ReplicaMetrics{Preset: &v1alpha1.MetricPreset{Name: preset.Nginx, Parameters: map[string]v1alpha1.PresetParameter{"window": "4s"}},
				MaxAge: metav1.Duration{Duration: 10 * time.Second}},
		},
	}
	testapi.Create(t, r.Client, p)
	return p
}

// seen reads the current Deployment.
func (r *trial) seen(t *testing.T, start time.Time) step {
	t.Helper()
	d := r.deployment
	testapi.Refresh(t, r.Client, d)
	return step{AtSeconds: round(time.Since(start).Seconds()), Ready: int(d.Status.ReadyReplicas), Desired: int(d.Status.Replicas), Decided: int(*d.Spec.Replicas)}
}

// told adds the status of a policy.
func told(s *step, p *v1alpha1.ReplicaPolicyStatus) {
	if last := p.LastDecision; last != nil && len(last.Reasons) > 0 {
		s.Reason = last.Reasons[0]
	}
	if o := p.LastObservation; o != nil {
		s.ArrivalRate, _ = strconv.ParseFloat(o.ArrivalRate, 64)
		s.QueueLength, _ = strconv.ParseFloat(o.QueueLength, 64)
		if o.ResponseTime != nil {
			s.ResponseSeconds = round(o.ResponseTime.Seconds())
		}
	}
}
