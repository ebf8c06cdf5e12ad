package cli

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/lab/policy"
	"supercargo.dev/supercargo/test/kit/testapi"
	"supercargo.dev/supercargo/test/kit/testfile"
	"supercargo.dev/supercargo/test/kit/testwait"
)

// mixedNodes are nodes of two architectures and three types, one of which has a taint.
func mixedNodes() (specs []playground.NodeSpec) {
	for _, n := range []struct{ name, kind, arch, price string }{
		{"intel-0", "m5.xlarge", "amd64", "0.192"}, {"intel-1", "m5.xlarge", "amd64", "0.192"}, {"arm-0", "m6g.xlarge", "arm64", "0.154"}, {"spot-0", "c5.xlarge", "amd64", "0.07"},
	} {
		spec := playground.NodeSpec{Name: n.name, CPU: "4", Memory: "16Gi", MachineType: n.kind, Labels: map[string]string{corev1.LabelArchStable: n.arch}, Annotations: map[string]string{v1alpha1.AnnotationPricePerHour: n.price}}
		if n.name == "spot-0" {
			spec.Taints = []corev1.Taint{{Key: "spot", Effect: corev1.TaintEffectNoSchedule}}
		}
		specs = append(specs, spec)
	}
	return specs
}

// TestAClusterThatChangesWhileItIsRecordedIsSimulatedUnderEveryPolicy records one control plane four times, and deletes
// something each time.
func TestAClusterThatChangesWhileItIsRecordedIsSimulatedUnderEveryPolicy(t *testing.T) {
	s := siteWith(t, playground.Options{Nodes: mixedNodes()})
	for _, tc := range []struct {
		name, arch string
		delete     func(t *testing.T)
		comes      trace.Event
	}{
		{"a pod is deleted, and replaced", "", func(t *testing.T) {
			var pods corev1.PodList
			testapi.List(t, s.Client, &pods, client.InNamespace("default"))
			testapi.Delete(t, s.Client, &pods.Items[0])
		}, trace.EventEnd},
		{"a Deployment that requires an architecture is deleted", "arm64", func(t *testing.T) {
			testapi.Delete(t, s.Client, deployment("web", 3, "500m"))
		}, trace.EventEnd},
		{"pods that require no architecture of this world are deleted", "x86_64", func(t *testing.T) {
			testapi.Delete(t, s.Client, deployment("web", 3, "500m"))
		}, trace.EventEnd},
		{"a node is deleted with its pods", "arm64", func(t *testing.T) {
			testapi.Delete(t, s.Client, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "arm-0"}})
		}, trace.EventGone},
	} {
		t.Run(tc.name, func(t *testing.T) {
			web := deployment("web", 3, "500m")
			if tc.arch != "" {
				web.Spec.Template.Spec.NodeSelector = map[string]string{corev1.LabelArchStable: tc.arch}
			}
			create(t, s.Client, web)
			path := filepath.Join(t.TempDir(), "week.csv")
			recorder := startRecord(t, "-o", path, "--kubeconfig", s.KubeconfigPath())
			at := func(event trace.Event, n int) {
				t.Helper()
				testwait.Until(t, patience, string(event)+" is recorded", func() string {
					if recordedCounts(t, path)[event] >= n {
						return ""
					}
					return "not yet"
				})
			}
			at(trace.EventPod, 3)
			if tc.arch != "x86_64" {
				at(trace.EventStart, 3)
			}
			tc.delete(t)
			at(tc.comes, 1)
			if code := recorder.stop(t, syscall.SIGINT); code != exitOK {
				t.Fatalf("exit code %d: %s", code, recorder.stderr.String())
			}
			simulatedByAll(t, path)
			_ = client.IgnoreNotFound(s.Client.Delete(t.Context(), deployment("web", 3, "500m"), client.PropagationPolicy(metav1.DeletePropagationBackground))) // it may be gone
			testwait.Until(t, patience, "no pod is left", allRun(t.Context(), s.Client, 0))
		})
	}
}

// simulatedByAll simulates a recording under every policy.
func simulatedByAll(t *testing.T, path string) {
	t.Helper()
	rec, err := trace.ReadRecording(path, bytes.NewReader(testfile.Read(t, path)))
	if err != nil {
		t.Fatal(err)
	}
	pods, _, _ := rec.Workload()
	names := append(policy.Names(), "heats-0.618")
	code, stdout, stderr := simulate("-f", path, "--policy", strings.Join(names, ","), "-o", "json")
	var got struct {
		Policies []struct {
			Name, Error string
			Pods        struct{ Submitted int }
		}
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != exitOK || len(got.Policies) != len(names) {
		t.Fatalf("exit code %d, %v: %s%s", code, err, stdout, stderr)
	}
	for _, p := range got.Policies {
		if p.Error != "" || p.Pods.Submitted != len(pods) {
			t.Errorf("policy %s: %d pods, %s; want %d", p.Name, p.Pods.Submitted, p.Error, len(pods))
		}
	}
}
