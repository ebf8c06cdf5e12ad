package integration

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	"supercargo.dev/supercargo/lab/playground/controlplane"
	"supercargo.dev/supercargo/manifests"
	"supercargo.dev/supercargo/test/fixtures"
)

// The size of TestAnUnschedulableBacklogDoesNotStarveNewPods. The defaults show starvation within seconds.
var (
	backlogNodes = flag.Int("backlog-nodes", 50, "nodes of the cluster with an unschedulable backlog")
	backlogPods  = flag.Int("backlog-pods", 300, "pods of the backlog")
	backlogPace  = flag.Duration("backlog-pace", 10*time.Millisecond, "the least time that a failed attempt takes, as on a large cluster")
	backlogNew   = flag.Int("backlog-new", 4, "pods that come while the backlog is retried")
)

// slow is a PostFilter plugin that counts failed attempts and makes them take as long as on a large cluster:
// a backlog is harmful when a round of attempts takes longer than the back-off of its pods.
type slow struct{ failed atomic.Int64 }

const slowName = "Slow"

func (s *slow) Name() string { return slowName }

func (s *slow) PostFilter(ctx context.Context, _ fwk.CycleState, _ *corev1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	s.failed.Add(1)
	select {
	case <-time.After(*backlogPace):
	case <-ctx.Done():
	}
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

// TestAnUnschedulableBacklogDoesNotStarveNewPods keeps a scheduler busy with pods that fit nowhere and are
// requeued by ending pods, and counts how many of them are tried before a new pod. The stock order tries each
// of them at most once.
func TestAnUnschedulableBacklogDoesNotStarveNewPods(t *testing.T) {
	for _, profile := range []struct {
		name          string
		configuration []byte
	}{
		{"stock", append(controlplane.StockSchedulerConfig, "profiles: [{plugins: {postFilter: {enabled: [{name: Slow}]}}}]\n"...)},
		{"supercargo", []byte(strings.Replace(string(manifests.SchedulerConfig),
			"postFilter:\n        enabled:\n          - name: BestFit\n", "postFilter:\n        enabled:\n          - name: BestFit\n          - name: Slow\n", 1))},
	} {
		t.Run(profile.name, func(t *testing.T) {
			p, client := controlPlane(t)
			attempts := &slow{}
			fullCluster(t, client)
			if _, err := p.StartScheduler(t.Context(), append([]byte("podMaxBackoffSeconds: 1\n"), profile.configuration...),
				app.WithPlugin(slowName, func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return attempts, nil })); err != nil {
				t.Fatal(err)
			}
			backlog := make([]*corev1.Pod, *backlogPods)
			for i := range backlog {
				backlog[i] = fixtures.Pod(fmt.Sprintf("backlog-%04d", i), 2000, 4*gi)
			}
			createPods(t, client, backlog)
			waitFailed(t, attempts, int64(len(backlog)))
			go wait.UntilWithContext(t.Context(), func(ctx context.Context) { endAPod(ctx, client) }, 100*time.Millisecond)
			// Until the backlog is active, so that no pod finds the queue empty.
			waitFailed(t, attempts, attempts.failed.Load()+int64(len(backlog)))

			for i := range *backlogNew {
				pod, before := fixtures.Pod(fmt.Sprintf("new-%d", i), 10, gi/16), attempts.failed.Load()
				createPods(t, client, []*corev1.Pod{pod})
				came := time.Now()
				// Each pod of the backlog once, and those tried before the new pod reached the queue.
				most := int64(len(backlog) + len(backlog)/2)
				err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
					got, err := client.CoreV1().Pods("default").Get(ctx, pod.Name, metav1.GetOptions{})
					if err != nil || got.Spec.NodeName != "" {
						return err == nil, err
					}
					if tried := attempts.failed.Load() - before; tried > most {
						return false, fmt.Errorf("the scheduler has made %d attempts for %d pods of the backlog since, and none for it", tried, len(backlog))
					}
					return false, nil
				})
				if err != nil {
					t.Errorf("pod %s, which fits, is not bound after %v: %v", pod.Name, time.Since(came).Round(time.Millisecond), err)
					continue
				}
				t.Logf("pod %s was bound after %v and %d attempts for others", pod.Name, time.Since(came).Round(time.Millisecond), attempts.failed.Load()-before)
			}
		})
	}
}

// fullCluster creates nodes with room for only small pods.
func fullCluster(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	full := make([]*corev1.Pod, *backlogNodes)
	for i := range full {
		node := fmt.Sprintf("node-%03d", i)
		createNode(t, client, fixtures.Node(node, 4000, 8*gi))
		full[i] = fixtures.Pod(fmt.Sprintf("full-%03d", i), 3000, 6*gi, func(p *corev1.Pod) { p.Spec.NodeName = node })
	}
	createPods(t, client, full)
}

// endAPod creates a pod that ends on a node. Its room is too small for the backlog, which the scheduler
// learns only by trying.
func endAPod(ctx context.Context, client kubernetes.Interface) {
	pod := fixtures.Pod("", 10, gi/16, func(p *corev1.Pod) {
		p.Name, p.GenerateName, p.UID, p.Spec.NodeName = "", "ending-", "", "node-000"
	})
	now := int64(0)
	if made, err := client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err == nil {
		// Errors while the control plane stops are irrelevant.
		_ = client.CoreV1().Pods("default").Delete(ctx, made.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	}
}

func waitFailed(t *testing.T, s *slow, n int64) {
	t.Helper()
	eventually(t, func() error {
		if got := s.failed.Load(); got < n {
			return fmt.Errorf("%d attempts have failed, want %d", got, n)
		}
		return nil
	})
}
