package usage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/autoscaler/adapter/store"
	"supercargo.dev/supercargo/autoscaler/replica/preset"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func list(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

// pod returns a pod of the namespace shop whose containers have these requests.
func pod(name string, containers ...corev1.ResourceList) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}
	for _, c := range containers {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Resources: corev1.ResourceRequirements{Requests: c}})
	}
	return p
}

// measuredAt returns a measurement of its containers.
func measuredAt(name string, at time.Time, containers ...corev1.ResourceList) metricsv1beta1.PodMetrics {
	m := metricsv1beta1.PodMetrics{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Timestamp: metav1.NewTime(at)}
	for _, c := range containers {
		m.Containers = append(m.Containers, metricsv1beta1.ContainerMetrics{Usage: c})
	}
	return m
}

func TestContainersOfAPodAreAddedUp(t *testing.T) {
	at := noon.Add(-10 * time.Second)
	starting := pod("starting", list("cpu", "1"))
	starting.Status.Conditions[0].Status = corev1.ConditionFalse
	got := Of([]metricsv1beta1.PodMetrics{
		measuredAt("web", at, list("cpu", "150m", "memory", "1Mi"), list("cpu", "50m", "memory", "1Mi")),
		measuredAt("unknown", at, list("cpu", "1")),
		measuredAt("half", at, list("cpu", "1"), list()),
		measuredAt("ahead", noon.Add(time.Second), list("cpu", "1")),
		measuredAt("negative", at, list("cpu", "-1")),
		measuredAt("empty", at),
		measuredAt("starting", at, list("cpu", "10m")),
	}, []corev1.Pod{starting, pod("web", list("cpu", "100m"), list("cpu", "300m")), pod("half", list("cpu", "2")), pod("not measured", list("cpu", "1"))}, noon)
	key := func(name, pod, resource string) Key {
		return Key{name, types.NamespacedName{Namespace: "shop", Name: pod}, corev1.ResourceName(resource)}
	}
	want := map[Key]Value{
		key(Used, "web", "cpu"): {0.2, at}, key(Used, "web", "memory"): {2 << 20, at}, key(Requested, "web", "cpu"): {0.4, at},
		key(Used, "starting", "cpu"): {0.01, at},
		key(Used, "unknown", "cpu"):  {1, at}, key(Requested, "half", "cpu"): {2, at},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

// told is a reader that returns one list.
type told struct {
	client.Reader
	metrics []metricsv1beta1.PodMetrics
	pods    []corev1.Pod
	err     error
}

func (a *told) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	switch into := into.(type) {
	case *metricsv1beta1.PodMetricsList:
		into.Items = a.metrics
	case *corev1.PodList:
		into.Items = a.pods
	}
	return a.err
}

// TestAPresetReadsWhatIsRecorded follows a pod that is measured, not measured again, no longer
// reported, and reported again, through the store and the preset.
func TestAPresetReadsWhatIsRecorded(t *testing.T) {
	clock := clocktesting.NewFakeClock(noon)
	o := store.Defaults()
	o.Dir, o.Clock, o.Registerer = t.TempDir(), clock, prometheus.NewRegistry()
	s, err := store.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	metrics, pods := &told{}, &told{pods: []corev1.Pod{pod("web-1", list("cpu", "100m")), pod("web-2", list("cpu", "100m")), pod("db-1", list("cpu", "1"))}}
	var said []string
	r := &Recorder{Metrics: metrics, Pods: pods, Store: s, Interval: 15 * time.Second, Clock: clock, Log: funcr.New(func(_, line string) { said = append(said, line) }, funcr.Options{})}
	note := r.note()
	queries, err := preset.New(preset.PodUsage, "shop", map[string]string{"pods": "web-.*"})
	if err != nil {
		t.Fatal(err)
	}
	utilization := func() string {
		t.Helper()
		found, err := s.Query(t.Context(), queries.Utilization, clock.Now())
		if err != nil {
			t.Fatal(err)
		}
		var values []string
		for _, f := range found {
			values = append(values, fmt.Sprintf("%.6g", f.Value))
		}
		return strings.Join(values, " ")
	}
	used := func(at time.Time, one, two string) []metricsv1beta1.PodMetrics {
		return []metricsv1beta1.PodMetrics{measuredAt("web-1", at, list("cpu", one)), measuredAt("web-2", at, list("cpu", two)), measuredAt("db-1", at, list("cpu", "1"))}
	}
	first := noon.Add(-5 * time.Second)
	for _, step := range []struct {
		what    string
		metrics []metricsv1beta1.PodMetrics
		err     error
		want    string
	}{
		{"both are measured", used(first, "50m", "70m"), nil, "60"},
		{"nothing was measured again", used(first, "50m", "70m"), nil, "60"},
		{"one is told no more", used(first.Add(30*time.Second), "80m", "70m")[:1], nil, "80"},
		{"it is told again as it was", slices.Concat(used(first.Add(45*time.Second), "80m", "70m")[:1], used(first, "50m", "70m")[1:2]), nil, "80"},
		{"both are measured again", used(first.Add(60*time.Second), "80m", "100m"), nil, "90"},
		{"nobody answers", nil, errors.New("the server could not find the requested resource"), ""},
		{"still nobody", nil, errors.New("the server could not find the requested resource"), ""},
		{"there it is again", used(first.Add(105*time.Second), "10m", "10m"), nil, "10"},
	} {
		metrics.metrics, metrics.err = step.metrics, step.err
		err := r.Record(t.Context())
		note(err)
		if (err != nil) != (step.err != nil) {
			t.Errorf("%s: error %v, want %v", step.what, err, step.err)
		}
		if got := utilization(); got != step.want {
			t.Errorf("%s: %q %%, want %q", step.what, got, step.want)
		}
		clock.Step(15 * time.Second)
	}
	if len(said) != 2 || !strings.Contains(said[0], "metrics.k8s.io") {
		t.Errorf("it is said %q, want the fault once and its end", said)
	}
}
