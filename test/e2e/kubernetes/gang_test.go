//go:build kubernetes

package kubernetes

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/cluster/gang"
	"supercargo.dev/supercargo/internal/platform/operator"
	"supercargo.dev/supercargo/manifests"
	"supercargo.dev/supercargo/test/fixtures"
	"supercargo.dev/supercargo/test/kit"
)

// makeGang makes a gang of which at least the given number of pods must be placed together.
func makeGang(t *testing.T, s *kit.Site, name string, least int64) {
	t.Helper()
	policy := map[string]any{"gang": map[string]any{"minCount": least}}
	kind, resource, spec := "PodGroup", "podgroups", map[string]any{"schedulingPolicy": policy}
	if version == "1.35" {
		kind, resource = "Workload", "workloads"
		spec = map[string]any{"podGroups": []any{map[string]any{"name": "all", "policy": policy}}}
	}
	group, err := schema.ParseGroupVersion(workloadAPI[version].group)
	if err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetGroupVersionKind(group.WithKind(kind))
	object.SetName(name)
	groups := dynamicClient(t, s).Resource(group.WithResource(resource)).Namespace("default")
	if _, err := groups.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := groups.Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// makeMember makes a pod of a gang. The libraries here know only one of the two fields.
func makeMember(t *testing.T, s *kit.Site, gang, name string) {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(fixtures.Pod(name, 100, gi/4))
	if err != nil {
		t.Fatal(err)
	}
	pod := &unstructured.Unstructured{Object: fields}
	pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	field, value := "schedulingGroup", map[string]any{"podGroupName": gang}
	if version == "1.35" {
		field, value = "workloadRef", map[string]any{"name": gang, "podGroup": "all"}
	}
	if err := unstructured.SetNestedMap(pod.Object, value, "spec", field); err != nil {
		t.Fatal(err)
	}
	pods := dynamicClient(t, s).Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace("default")
	made, err := pods.Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, kept, _ := unstructured.NestedMap(made.Object, "spec", field); !kept {
		t.Fatalf("the API server has dropped spec.%s: it serves no gangs", field)
	}
}

func dynamicClient(t *testing.T, s *kit.Site) dynamic.Interface {
	t.Helper()
	c, err := dynamic.NewForConfig(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestPodsOfAGangAreBoundTogether(t *testing.T) {
	s := get(t, gangs)
	makeNode(t, s, fixtures.Node("a", 4000, 16*gi))
	removePods(t, s)
	startScheduler(t, s, manifests.SchedulerConfig)
	makeGang(t, s, "train", 3)
	makeMember(t, s, "train", "train-0")
	makeMember(t, s, "train", "train-1")
	// A later pod is bound, so the scheduler had the time to bind the others.
	if _, err := s.Playground.Client().CoreV1().Pods("default").Create(t.Context(), fixtures.Pod("single", 100, gi/4), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	waitBound(t, s, "single")
	for _, name := range []string{"train-0", "train-1"} {
		if node := nodeOf(t, s, name); node != "" {
			t.Errorf("%s is on %s before its gang has three pods", name, node)
		}
	}
	makeMember(t, s, "train", "train-2")
	waitBound(t, s, "train-0", "train-1", "train-2")
}

// TestTheAutoscalerSeesWhichPodsAreInAGang reads pods as the managers of the autoscaler and the descheduler
// do: existing pods with a list, new pods with a watch.
func TestTheAutoscalerSeesWhichPodsAreInAGang(t *testing.T) {
	s := get(t, gangs)
	removePods(t, s)
	makeMember(t, s, "train", "listed")
	m, err := operator.NewManager("autoscaler", operator.Options{
		Config: s.Config(), MetricsAddress: "0", ProbeAddress: "0", Log: logr.Discard(),
	}, clientgoscheme.AddToScheme)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- operator.Run(ctx, "autoscaler", m) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	seen := func(want ...string) {
		t.Helper()
		eventually(t, s, "the pods are seen in their gang", func() string {
			var pods corev1.PodList
			if err := m.GetClient().List(t.Context(), &pods, client.InNamespace("default")); err != nil {
				return err.Error()
			}
			var got []string
			for i := range pods.Items {
				pod := &pods.Items[i]
				got = append(got, fmt.Sprintf("%s in %q (%s)", pod.Name, gang.Of(pod), constraint.Unsupported(pod)))
			}
			for _, name := range want {
				if want := fmt.Sprintf("%s in \"train\" (gang train)", name); !strings.Contains(strings.Join(got, ", "), want) {
					return strings.Join(got, ", ")
				}
			}
			return ""
		})
	}
	seen("listed")
	makeMember(t, s, "train", "watched")
	seen("listed", "watched")
}
