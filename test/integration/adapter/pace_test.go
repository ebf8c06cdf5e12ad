package adapter

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/adapter/store/target"
	"supercargo.dev/supercargo/test/kit"
	"supercargo.dev/supercargo/test/kit/testapi"
)

// announced creates a pod with an address of this machine that requests a scrape every 20 s.
func announced(t *testing.T, s *kit.Site, namespace, address string) {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", Annotations: map[string]string{
		target.ScrapeAnnotation: "true", target.PortAnnotation: port, target.IntervalAnnotation: "20s",
	}}}
	pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
	testapi.Create(t, s.Client, pod)
	before := pod.DeepCopy()
	pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs = corev1.PodRunning, host, []corev1.PodIP{{IP: host}}
	if err := s.Client.Status().Patch(t.Context(), pod, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

func TestAPodIsScrapedAsOftenAsAPolicyReadsIt(t *testing.T) {
	t.Parallel()
	s := site(t)
	const name = "paced"
	namespace(t, s, name)
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "paced_total 1") }))
	t.Cleanup(page.Close)
	announced(t, s, name, strings.TrimPrefix(page.URL, "http://"))
	policy := publish(t, s, name)
	before := policy.DeepCopy()
	policy.Spec.Law = v1alpha1.ReplicaLawSpec{Name: v1alpha1.LawInverseQueue, Interval: metav1.Duration{Duration: time.Second}}
	policy.Spec.Metrics.Preset = nil
	policy.Spec.Metrics.Queries = &v1alpha1.MetricQueries{ArrivalRate: `sum(rate(paced_total{namespace="paced"}[5s]))`, ResponseTime: "vector(0.01)"}
	testapi.Patch(t, s.Client, policy, client.MergeFrom(before))
	often := func() string { return promql(`count_over_time(paced_total{namespace="paced"}[10s]) > bool 5`) }
	becomes(t, s, "six scrapes or more in ten seconds", "1", often)
	testapi.Delete(t, s.Client, policy)
	becomes(t, s, "one scrape or none in ten seconds", "true", func() string {
		got := promql(`sum(count_over_time(paced_total{namespace="paced"}[10s])) or vector(0)`)
		return fmt.Sprint(got == "0" || got == "1")
	})
	if up := promql(`up{namespace="paced"}`); up != "1" {
		t.Errorf("whether the pod is up is %q after the policy has gone, want 1", up)
	}
}
