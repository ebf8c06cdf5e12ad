//go:build nodes

package migration

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/eviction"
	"supercargo.dev/supercargo/descheduler/eviction/evictiondecide"
	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
)

// kubectlPath is the kubectl of the tested Kubernetes version.
const kubectlPath = "../../../../bin/kubectl"

// evictionAddress returns the address of the webhook, with a port that was free.
var evictionAddress = sync.OnceValues(func() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return listener.Addr().String(), listener.Close()
})

// evictionFlags returns the flags that make the webhook serve at evictionAddress.
func evictionFlags() ([]string, error) {
	address, err := evictionAddress()
	return []string{"--eviction-webhook-bind-address", address, "--eviction-webhook-hosts", "127.0.0.1"}, err
}

// askForEvictions makes the API server call the webhook at its address, and waits until it trusts the
// webhook.
func (w *town) askForEvictions() {
	w.Helper()
	address, err := evictionAddress()
	if err != nil {
		w.Fatal(err)
	}
	c, key := &admissionv1.ValidatingWebhookConfiguration{}, client.ObjectKey{Name: "supercargo-evictions"}
	if err := w.fleet.Objects.Get(w.Context(), key, c); err != nil {
		w.Fatal(err)
	}
	before, url := c.DeepCopy(), "https://"+address+eviction.Path
	authority := c.Webhooks[0].ClientConfig.CABundle
	if service := c.Webhooks[0].ClientConfig.Service; service != nil && service.Path != nil {
		url = "https://" + address + *service.Path // the path contains the secret that the webhook has written
	}
	c.Webhooks[0].ClientConfig = admissionv1.WebhookClientConfig{URL: &url, CABundle: authority}
	// An eviction that the webhook does not answer must fail, or the test would pass without it.
	c.Webhooks[0].FailurePolicy = new(admissionv1.Fail)
	if err := w.fleet.Objects.Patch(w.Context(), c, client.MergeFrom(before)); err != nil {
		w.Fatal(err)
	}
	w.Eventually("the webhook has an authority", func(ctx context.Context) error {
		if err := w.fleet.Objects.Get(ctx, key, c); err != nil || len(c.Webhooks[0].ClientConfig.CABundle) > 0 && strings.Contains(*c.Webhooks[0].ClientConfig.URL, eviction.Path+"/") {
			return err
		}
		return fmt.Errorf("it has none, or no secret in its URL")
	})
}

// kubectl runs the real kubectl, and returns its output.
func (w *town) kubectl(args ...string) string {
	w.Helper()
	program, err := filepath.Abs(kubectlPath)
	if err != nil {
		w.Fatal(err)
	}
	cmd := exec.CommandContext(w.Context(), program, append([]string{"--kubeconfig", w.fleet.KubeconfigPath()}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+w.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.Fatalf("kubectl %s: %v (`make bin/kubectl` builds it)\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// drain drains a node.
func (w *town) drain(node *cluster.Node) string {
	w.Helper()
	return w.kubectl("drain", node.Name, "--timeout=4m")
}

func TestAJobIsDrainedTwiceByKubectlAndEveryChainIsWhole(t *testing.T) {
	const indexes, steps = 3, 1500
	w := newTown(t)
	w.askForEvictions()
	a, b := w.fleet.Nodes[0], w.fleet.Nodes[1]
	t.Cleanup(func() { w.kubectl("uncordon", a.Name, b.Name) })
	w.kubectl("cordon", b.Name)
	w.Chains("drained", indexes, steps)
	for _, node := range []*cluster.Node{a, b} {
		w.kubectl("uncordon", w.other(node.Name).Name)
		if out := w.drain(node); strings.Count(out, evictiondecide.Evacuation) < indexes {
			t.Errorf("the drain of %s does not say of %d pods that they move:\n%s", node.Name, indexes, out)
		}
		w.Eventually("all pods run on the other node", func(ctx context.Context) error {
			pods := w.RunningPods(ctx, "drained")
			for _, pod := range pods {
				if pod.Spec.NodeName == node.Name {
					return fmt.Errorf("pod %s is on %s", pod.Name, node.Name)
				}
			}
			if len(pods) != indexes {
				return fmt.Errorf("%d of %d run", len(pods), indexes)
			}
			return nil
		})
	}
	job := w.Complete("drained")
	if job.Status.Failed != 0 || job.Status.Succeeded != indexes {
		t.Errorf("the Job counts %d failed and %d succeeded, want 0 and %d", job.Status.Failed, job.Status.Succeeded, indexes)
	}
	seen := sets.New[string]()
	for _, pod := range w.PodsOf(w.Context(), "drained") {
		w.WholeChain(&pod, steps)
		seen.Insert(pod.Annotations[batchv1.JobCompletionIndexAnnotation])
	}
	if seen.Len() != indexes {
		t.Errorf("chains %v were hashed, want %d", sets.List(seen), indexes)
	}
	w.allSucceeded(2 * indexes)
}

// allSucceeded checks that evictions have created n migrations, all of which have succeeded.
func (w *town) allSucceeded(n int) {
	w.Helper()
	var all v1alpha1.MigrationList
	if err := w.fleet.Objects.List(w.Context(), &all, client.InNamespace(w.Namespace)); err != nil {
		w.Fatal(err)
	}
	for i := range all.Items {
		m := w.Succeeded(&all.Items[i])
		w.LogDuration(m)
	}
	if len(all.Items) != n {
		w.Errorf("evictions have made %d migrations, want %d", len(all.Items), n)
	}
}
