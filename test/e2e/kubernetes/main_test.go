//go:build kubernetes

package kubernetes

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/lab/playground/controlplane"
	"supercargo.dev/supercargo/test/kit"
)

const gi = int64(1) << 30

// version is the version of the control plane, such as 1.37.
var version = filepath.Base(os.Getenv(controlplane.KubernetesEnv))

// workloadAPI contains the settings with which each version serves gangs, and the resource name.
var workloadAPI = map[string]struct {
	gates []string
	group string
}{
	"1.35": {[]string{"GenericWorkload=true", "GangScheduling=true"}, "scheduling.k8s.io/v1alpha1"},
	"1.36": {[]string{"GenericWorkload=true", "GangScheduling=true"}, "scheduling.k8s.io/v1alpha2"},
	"1.37": {[]string{"GenericWorkload=true"}, "scheduling.k8s.io/v1beta1"},
}

// plain has a control plane with its default settings, gangs one that serves gangs. Neither simulates nodes,
// so bound pods do not change.
var (
	plain = kit.NewSites(playground.Options{NoScheduler: true, NoKwok: true, NoControllerManager: true})
	gangs = kit.NewSites(playground.Options{
		NoScheduler: true, NoKwok: true, NoControllerManager: true,
		FeatureGates: workloadAPI[version].gates, RuntimeConfig: []string{workloadAPI[version].group + "=true"},
	})
)

func TestMain(m *testing.M) { os.Exit(kit.Main(m, "1", plain, gangs)) }

// get returns a site of the selected version.
func get(t *testing.T, sites *kit.Sites) *kit.Site {
	t.Helper()
	if _, known := workloadAPI[version]; !known {
		t.Fatalf("%s is %q, which is no folder of a known version: run make test-kubernetes-1.37", controlplane.KubernetesEnv, os.Getenv(controlplane.KubernetesEnv))
	}
	s, err := sites.Get()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// startScheduler starts the scheduler of that version until the test ends.
func startScheduler(t *testing.T, s *kit.Site, configuration []byte) {
	t.Helper()
	scheduler, err := s.StartScheduler(t.Context(), configuration)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := scheduler.Stop(); err != nil {
			t.Error(err)
		}
	})
}

// makeNode makes a node for as long as the test runs.
func makeNode(t *testing.T, s *kit.Site, node *corev1.Node) {
	t.Helper()
	nodes := s.Playground.Client().CoreV1().Nodes()
	if _, err := nodes.Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := nodes.Delete(context.Background(), node.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// eventually waits until check returns "". On failure, it logs the state of the pods.
func eventually(t *testing.T, s *kit.Site, what string, check func() string) {
	t.Helper()
	s.Eventually(t, kit.Waiting{Patience: time.Minute, Poll: 50 * time.Millisecond, Show: func() string { return podsOf(t, s) }}, what, check)
}

// podsOf describes where all pods are, and their conditions.
func podsOf(t *testing.T, s *kit.Site) string {
	t.Helper()
	pods, err := s.Playground.Client().CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	var text strings.Builder
	for _, pod := range pods.Items {
		fmt.Fprintf(&text, "%s on %q: %v\n", pod.Name, pod.Spec.NodeName, pod.Status.Conditions)
	}
	return text.String()
}

// nodeOf returns the node to which a pod is bound, or "".
func nodeOf(t *testing.T, s *kit.Site, name string) string {
	t.Helper()
	pod, err := s.Playground.Client().CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod.Spec.NodeName
}

// waitBound waits until the pods are bound.
func waitBound(t *testing.T, s *kit.Site, names ...string) {
	t.Helper()
	for _, name := range names {
		eventually(t, s, name+" is bound", func() string {
			if nodeOf(t, s, name) == "" {
				return "pending"
			}
			return ""
		})
	}
}

// removePods removes all pods when the test ends.
func removePods(t *testing.T, s *kit.Site) {
	t.Helper()
	t.Cleanup(func() {
		now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
		err := s.Playground.Client().CoreV1().Pods("default").DeleteCollection(context.Background(), now, metav1.ListOptions{})
		if err != nil {
			t.Error(err)
		}
	})
}
