//go:build replicas

package replicas

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	adapter "supercargo.dev/supercargo/autoscaler/adapter/app"
	"supercargo.dev/supercargo/autoscaler/replica/law"
	"supercargo.dev/supercargo/manifests"
	"supercargo.dev/supercargo/test/kit"
	"supercargo.dev/supercargo/test/kit/testapi"
)

// tryStock replays the load against a Deployment that a stock HorizontalPodAutoscaler scales:
// kube-controller-manager reads the arrival rate from the metrics adapter, through the aggregator. A preset
// computes the rate from the exporter that the adapter scrapes.
func tryStock(t *testing.T, program string, goal law.Goal, requests []arrival) outcome {
	return tryInCluster(t, program, "HorizontalPodAutoscaler", "mall", goal, requests, func(t *testing.T, r *trial) func(*step) {
		r.adapt(t)
		stock := r.makeStock(t)
		return func(s *step) {
			t.Helper()
			testapi.Refresh(t, r.Client, stock)
			for _, c := range stock.Status.Conditions {
				if c.Type == autoscalingv2.AbleToScale || c.Type == autoscalingv2.ScalingActive && c.Status != "True" {
					s.Reason = c.Message
				}
			}
			for _, m := range stock.Status.CurrentMetrics {
				if m.External != nil && m.External.Current.AverageValue != nil {
					s.ArrivalRate = round(m.External.Current.AverageValue.AsApproximateFloat64() * float64(stock.Status.CurrentReplicas))
				}
			}
		}
	})
}

// adapt runs the metrics adapter behind the aggregator, and returns when it is reachable there.
func (r *trial) adapt(t *testing.T) {
	t.Helper()
	o := adapter.Defaults()
	o.Config, o.Log = r.Config(), kit.GlobalLog.Logger("adapter")
	o.UseKubeconfig(r.KubeconfigPath())
	dir := t.TempDir()
	o.Configuration = filepath.Join(dir, "metrics.yaml")
	if err := os.WriteFile(o.Configuration, fmt.Appendf(nil, `apiVersion: adapter.supercargo.dev/v1alpha1
kind: MetricsAdapterConfiguration
targets: [{job: nginx, addresses: [%q], interval: 1s, labels: {namespace: %s}}]
presets: [{name: nginx, parameters: {window: 4s}}]
`, r.exporter, r.namespace), 0o600); err != nil {
		t.Fatal(err)
	}
	o.Kubelets.Scrape, o.ScrapePods, o.ScrapeServices, o.History = false, false, false, false // only the target
	o.Store.Dir, o.QueryAddress = filepath.Join(dir, "store"), "0"
	listener, err := (&net.ListenConfig{}).Listen(r.ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serving := o.Server.SecureServing
	serving.Listener, serving.BindPort = listener, listener.Addr().(*net.TCPAddr).Port
	if err := r.Aggregate(r.ctx, manifests.MetricsAPIServices, serving.BindPort); err != nil {
		t.Fatal(err)
	}
	r.begin(func() error { return adapter.Run(r.ctx, o) })
	waiting, stop := context.WithTimeout(r.ctx, kit.Patience)
	defer stop()
	if err := r.WaitAggregated(waiting); err != nil {
		t.Fatal(err)
	}
}

// makeStock creates the HorizontalPodAutoscaler. Its target is the arrival rate per replica at which replicas
// are as busy as under the law hpa, and it has the times of that law.
func (r *trial) makeStock(t *testing.T) *autoscalingv2.HorizontalPodAutoscaler {
	t.Helper()
	often := int32(hpaInterval / time.Second)
	h := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: service},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: service},
			MinReplicas:    ptr.To[int32](minReplicas), MaxReplicas: maxReplicas,
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
				Metric: autoscalingv2.MetricIdentifier{Name: "nginx_requests_per_second"},
				Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType,
					AverageValue: resource.NewMilliQuantity(int64(1000*r.goal.Model.MuB*hpaTarget/100), resource.DecimalSI)},
			}}},
			Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{
				ScaleUp: &autoscalingv2.HPAScalingRules{Policies: []autoscalingv2.HPAScalingPolicy{
					{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: often}, {Type: autoscalingv2.PodsScalingPolicy, Value: 4, PeriodSeconds: often},
				}},
				ScaleDown: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: ptr.To(int32(hpaSettles / time.Second)),
					Policies: []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: often}}},
			},
		},
	}
	testapi.Create(t, r.Client, h)
	return h
}
