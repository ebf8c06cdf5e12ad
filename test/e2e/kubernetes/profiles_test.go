//go:build kubernetes

package kubernetes

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/lab/playground/controlplane"
	"supercargo.dev/supercargo/manifests"
	"supercargo.dev/supercargo/test/fixtures"
	"supercargo.dev/supercargo/test/kit/testfile"
)

func TestTheControlPlaneIsOfTheVersionAskedFor(t *testing.T) {
	s := get(t, plain)
	got, err := s.Playground.Client().Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if got.Major+"."+got.Minor != version || !strings.HasPrefix(got.GitVersion, "v"+version+".") {
		t.Errorf("the API server is of %s.%s (%s), want %s", got.Major, got.Minor, got.GitVersion, version)
	}
}

// TestPodsOfEveryProfileAreBound starts the scheduler with each shipped configuration, and with the stock
// one.
func TestPodsOfEveryProfileAreBound(t *testing.T) {
	s := get(t, plain)
	makeNode(t, s, fixtures.Node("a", 4000, 16*gi))
	makeNode(t, s, fixtures.Node("b", 4000, 32*gi))
	files, err := filepath.Glob("../../../manifests/scheduler/config/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	files = slices.DeleteFunc(files, func(file string) bool { return filepath.Base(file) == "kustomization.yaml" })
	if len(files) < 5 {
		t.Fatalf("there are %d configurations: %q", len(files), files)
	}
	configurations := map[string][]byte{"stock": controlplane.StockSchedulerConfig}
	for _, file := range files {
		text := testfile.Read(t, file)
		configurations[filepath.Base(file)] = text
	}
	for name, configuration := range configurations {
		t.Run(name, func(t *testing.T) {
			removePods(t, s)
			startScheduler(t, s, configuration)
			var pods []string
			for i, profile := range profilesOf(t, configuration) {
				of := func(p *corev1.Pod) { p.Spec.SchedulerName = profile }
				for _, pod := range []*corev1.Pod{
					fixtures.Pod(fmt.Sprintf("service-%d", i), 100, gi/4, of),
					fixtures.Pod(fmt.Sprintf("batch-%d", i), 100, gi/4, fixtures.Batch("5m"), of),
				} {
					if _, err := s.Playground.Client().CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
						t.Fatal(err)
					}
					pods = append(pods, pod.Name)
				}
			}
			waitBound(t, s, pods...)
		})
	}
}

// profilesOf returns the names of a configuration's profiles.
func profilesOf(t *testing.T, configuration []byte) []string {
	t.Helper()
	var read struct {
		Profiles []struct {
			SchedulerName string `json:"schedulerName"`
		} `json:"profiles"`
	}
	testfile.YAML(t, configuration, &read)
	if len(read.Profiles) == 0 {
		return []string{corev1.DefaultSchedulerName}
	}
	var names []string
	for _, p := range read.Profiles {
		names = append(names, p.SchedulerName)
	}
	return names
}

// TestServicesGoWhereTheyFitBestAndJobsWhereTheyEndTogether uses two nodes, of which services prefer the one
// that jobs do not.
func TestServicesGoWhereTheyFitBestAndJobsWhereTheyEndTogether(t *testing.T) {
	s := get(t, plain)
	makeNode(t, s, fixtures.Node("small", 4000, 8*gi))
	makeNode(t, s, fixtures.Node("large", 4000, 64*gi))
	removePods(t, s)
	startScheduler(t, s, manifests.SchedulerConfig)
	place := func(want string, pod *corev1.Pod) {
		t.Helper()
		pods := s.Playground.Client().CoreV1().Pods("default")
		if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		waitBound(t, s, pod.Name)
		bound, err := pods.Get(t.Context(), pod.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if bound.Spec.NodeName != want {
			t.Errorf("%s is on %s, want %s", pod.Name, bound.Spec.NodeName, want)
		}
		if _, written := runtimes.Written(bound); written != (pod.Labels["supercargo.dev/class"] == "batch") {
			t.Errorf("%s: expected finish written with the binding: %t", pod.Name, written)
		}
	}
	place("small", fixtures.Pod("service", 100, gi))
	place("large", fixtures.Pod("three-hours", 100, 16*gi, fixtures.Batch("3h"))) // fits nowhere else
	place("small", fixtures.Pod("next-service", 100, gi))
	place("large", fixtures.Pod("as-long", 100, gi, fixtures.Batch("179m")))
}
