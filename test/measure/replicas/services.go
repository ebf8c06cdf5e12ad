package replicas

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/replica/queueing"
	"supercargo.dev/supercargo/test/kit"
)

// The pods of each service, the requests per second that each pod serves, and the mean requests per second
// that it receives, which vary with the amplitude swing.
const (
	podsOfEach     = 10
	ratePerReplica = 10.0
	meanRate       = 70.0
	swing          = 20.0
	swingPeriod    = 10 * time.Minute
)

// populate creates services with a policy each, a hundred per namespace.
func populate(ctx context.Context, c client.Client, policies int, interval time.Duration) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(32)
	for i := range policies {
		namespace := fmt.Sprintf("team-%d", i/100)
		if i%100 == 0 {
			if err := c.Create(ctx, kit.Namespace(namespace)); err != nil {
				return fmt.Errorf("make namespace %s: %w", namespace, err)
			}
		}
		group.Go(func() error { return service(ctx, c, namespace, fmt.Sprintf("web-%d", i), interval) })
	}
	return group.Wait()
}

// service creates a Deployment, its pods with status Ready, and its policy.
func service(ctx context.Context, c client.Client, namespace, name string, interval time.Duration) error {
	labels := map[string]string{"app": name}
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	spec := corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "web"}}}
	objects := []client.Object{
		&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(podsOfEach)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
		}},
		&v1alpha1.ReplicaPolicy{ObjectMeta: meta, Spec: v1alpha1.ReplicaPolicySpec{
			Target: v1alpha1.ReplicaTarget{Name: name}, MinReplicas: 1, MaxReplicas: 100,
			SLO:     &v1alpha1.ServiceLevel{ResponseTime: metav1.Duration{Duration: 200 * time.Millisecond}},
			Service: &v1alpha1.ServiceModel{RatePerReplica: *resource.NewQuantity(ratePerReplica, resource.DecimalSI)},
			Law:     v1alpha1.ReplicaLawSpec{Interval: metav1.Duration{Duration: interval}},
			Metrics: v1alpha1.ReplicaMetrics{Queries: &v1alpha1.MetricQueries{
				ArrivalRate: `rate{of="` + name + `"}`, ResponseTime: `response{of="` + name + `"}`, QueueLength: `queue{of="` + name + `"}`,
			}},
		}},
	}
	for i := range podsOfEach {
		objects = append(objects, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s-%d", name, i), Labels: labels}, Spec: spec})
	}
	for _, o := range objects {
		if err := c.Create(ctx, o); err != nil {
			return fmt.Errorf("make %T %s/%s: %w", o, namespace, o.GetName(), err)
		}
		if pod, ok := o.(*corev1.Pod); ok {
			pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
			if err := c.Status().Update(ctx, pod); err != nil {
				return fmt.Errorf("start pod %s/%s: %w", namespace, pod.Name, err)
			}
		}
	}
	return nil
}

// source answers queries by the queueing model for the current rate. The rates of services vary out of phase,
// so that some services are scaled at any time.
type source struct {
	*httptest.Server
	asked atomic.Int64
}

// value returns the value of a query such as rate{of="web-7"} at a time in Unix seconds.
func value(query string, at float64) (float64, error) {
	name, of, _ := strings.Cut(query, `{of="web-`)
	number, err := strconv.Atoi(strings.TrimSuffix(of, `"}`))
	if err != nil {
		return 0, fmt.Errorf("query %s: want measurement{of=\"web-NUMBER\"}", query)
	}
	rate := meanRate + swing*math.Sin(2*math.Pi*at/swingPeriod.Seconds()+float64(number))
	model := queueing.System{Servers: podsOfEach, ArrivalRate: rate, ServiceRate: ratePerReplica}
	switch name {
	case "rate":
		return rate, nil
	case "response":
		return model.Response(), nil
	case "queue":
		return model.Requests(), nil
	}
	return 0, fmt.Errorf("query %s: want rate, response or queue", query)
}

func newSource() *source {
	s := &source{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		at, err := strconv.ParseFloat(r.FormValue("time"), 64)
		if err != nil {
			http.Error(w, "time: want Unix seconds", http.StatusBadRequest)
			return
		}
		value, err := value(r.FormValue("query"), at)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": map[string]any{
			"resultType": "vector", "result": []any{map[string]any{"metric": map[string]string{}, "value": []any{at, strconv.FormatFloat(value, 'g', -1, 64)}}},
		}})
	}))
	return s
}
