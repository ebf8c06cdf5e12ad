package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/kit"
	"supercargo.dev/supercargo/test/kit/testapi"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// startRecord runs `supercargo record` as a process.
func startRecord(t *testing.T, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(self, append([]string{"record"}, args...)...), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), runAs+"=supercargo")
	p.cmd.Stderr = &p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // seen in its ProcessState
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // in case it is still running
		<-p.ended
		if t.Failed() {
			t.Logf("stderr of supercargo record %v:\n%s", args, p.stderr.String())
		}
	})
	return p
}

// recordedCounts reads a recording that a recorder may still append to, and counts its rows by event.
func recordedCounts(t *testing.T, path string) map[trace.Event]int {
	t.Helper()
	counts := map[trace.Event]int{}
	text, err := os.ReadFile(path)
	if err != nil || bytes.Count(text, []byte("\n")) < 2 {
		return counts // nothing yet
	}
	rec, err := trace.ReadRecording(path, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for i := range rec.Rows {
		counts[rec.Rows[i].Event]++
	}
	return counts
}

// TestARecordedClusterIsSimulated records a cluster, crashes the recorder, resumes the recording, and replays
// it.
func TestARecordedClusterIsSimulated(t *testing.T) {
	priced := map[string]string{v1alpha1.AnnotationPricePerHour: "0.20"}
	s := siteWith(t, playground.Options{Nodes: []playground.NodeSpec{
		{Name: "one", CPU: "4", Memory: "16Gi", MachineType: "m5.xlarge", Annotations: priced}, {Name: "two", CPU: "4", Memory: "16Gi", MachineType: "m5.xlarge", Annotations: priced},
	}})
	path := filepath.Join(t.TempDir(), "week.csv")
	await := func(what string, check func() string) {
		t.Helper()
		s.Eventually(t, kit.Waiting{Patience: patience, Poll: kit.Poll, Meanwhile: func() {}, Show: func() string {
			text, _ := os.ReadFile(path)
			return string(text)
		}}, what, check)
	}
	hasRows := func(want map[trace.Event]int) func() string {
		return func() string {
			got := recordedCounts(t, path)
			for event, n := range want {
				if got[event] != n {
					return fmt.Sprintf("rows are %v, want %v", got, want)
				}
			}
			return ""
		}
	}
	scale := func(replicas int32) { scaleWeb(t, s.Client, replicas) }
	running := func(n int) func() string { return allRun(t.Context(), s.Client, n) }
	create(t, s.Client, deployment("web", 2, "1"))
	await("two pods run", running(2))

	args := []string{"-o", path, "--hash-names", "--kubeconfig", s.KubeconfigPath()}
	first := startRecord(t, args...)
	await("what is there is recorded", hasRows(map[trace.Event]int{trace.EventBegin: 1, trace.EventNode: 2, trace.EventPod: 2, trace.EventStart: 2}))
	scale(3)
	await("a pod that comes is recorded", hasRows(map[trace.Event]int{trace.EventPod: 3, trace.EventStart: 3}))
	if code, _, stderr := supercargo(append([]string{"record"}, args...)...); code != exitUsage || !strings.Contains(stderr, "another supercargo record") {
		t.Errorf("a second recorder of the same file: exit code %d, %s", code, stderr)
	}
	first.stop(t, syscall.SIGKILL)

	// Two pods are deleted while no recorder runs.
	scale(1)
	await("two pods have gone", running(1))
	second := startRecord(t, args...)
	await("what went meanwhile is recorded", hasRows(map[trace.Event]int{trace.EventBegin: 2, trace.EventPod: 3, trace.EventEnd: 2, trace.EventNode: 2}))
	scale(2)
	await("it continues", hasRows(map[trace.Event]int{trace.EventPod: 4, trace.EventStart: 4}))
	if code := second.stop(t, syscall.SIGINT); code != exitOK || !strings.Contains(second.stderr.String(), "supercargo simulate -f") {
		t.Errorf("exit code %d, stderr %q; want 0 and how to play it", code, second.stderr.String())
	}
	if text, err := os.ReadFile(path); err != nil || bytes.Contains(text, []byte("web-")) || bytes.Contains(text, []byte(",one,")) || recordedCounts(t, path)[trace.EventStop] != 1 {
		t.Errorf("the file (%v) has names, or no end:\n%s", err, text)
	}
	plays(t, path)
}

// plays simulates a recording of four pods on two nodes, alone and as a trace of a scenario.
func plays(t *testing.T, path string) {
	t.Helper()
	code, stdout, stderr := simulate("-f", path, "--policy", "default,supercargo", "-o", "json")
	if code != exitOK {
		t.Fatalf("simulate: exit code %d: %s", code, stderr)
	}
	var got struct {
		Policies []struct {
			Name  string
			Pods  struct{ Submitted, Scheduled int }
			Nodes struct{ Start int }
			Cost  float64 `json:"costDollars"`
		}
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || len(got.Policies) != 2 {
		t.Fatalf("%v: %s", err, stdout)
	}
	for _, p := range got.Policies {
		if p.Pods.Submitted != 4 || p.Pods.Scheduled != 4 || p.Nodes.Start != 2 || p.Cost <= 0 {
			t.Errorf("policy %s: %+v; want four pods placed, two nodes at the start, and a bill", p.Name, p)
		}
	}
	if !strings.Contains(stderr, "2 nodes cost $") {
		t.Errorf("stderr is %q, want what the recorded cluster cost", stderr)
	}
	scenario := filepath.Join(filepath.Dir(path), "scenario.yaml")
	text := "apiVersion: supercargo.dev/v1alpha1\nkind: Scenario\nmetadata: {name: s}\nspec:\n  horizon: 1h\n  flavors: [{name: m, cpu: 4, memory: 16Gi, pricePerHour: 0.2}]\n  workload: {traces: [{file: week.csv}]}\n"
	testfile.Write(t, scenario, text)
	if code, _, stderr := simulate("-f", scenario, "--policy", "default"); code != exitOK {
		t.Errorf("a recording as a trace: exit code %d: %s", code, stderr)
	}
}

// allRun returns a check that n pods exist and run.
func allRun(ctx context.Context, c client.Client, n int) func() string {
	return func() string {
		var pods corev1.PodList
		if err := c.List(ctx, &pods, client.InNamespace("default")); err != nil {
			return err.Error()
		}
		got := 0
		for i := range pods.Items {
			if pods.Items[i].Status.Phase == corev1.PodRunning && pods.Items[i].DeletionTimestamp == nil {
				got++
			}
		}
		if got != n || len(pods.Items) != n {
			return fmt.Sprintf("%d of %d pods run, want %d", got, len(pods.Items), n)
		}
		return ""
	}
}

func scaleWeb(t *testing.T, c client.Client, replicas int32) {
	t.Helper()
	var d appsv1.Deployment
	testapi.Get(t, c, client.ObjectKey{Namespace: "default", Name: "web"}, &d)
	patch := client.MergeFrom(d.DeepCopy())
	d.Spec.Replicas = &replicas
	testapi.Patch(t, c, &d, patch)
}
