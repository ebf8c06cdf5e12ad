package eviction

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/kit"
)

// bench is one test's part of the site: a namespace and nodes.
type bench struct {
	*kit.Bench
	// typed sends evictions, and warnings contains the API server's warnings.
	typed    kubernetes.Interface
	mu       sync.Mutex
	warnings []string
}

// newBench returns the bench with that name and the given number of nodes, NAME-0 and so on, with agents.
func newBench(t *testing.T, name string, nodes int) *bench {
	t.Helper()
	b := &bench{Bench: sites.Bench(t, name, func(n *corev1.Namespace) {
		if isDown(name) {
			n.Labels = map[string]string{"down": ""}
		}
	})}
	b.Logs = &shared.log
	shared.start(t, b.Site)
	config := rest.CopyConfig(b.Site.Config())
	config.WarningHandler = b
	var err error
	if b.typed, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	b.addNodes(nodes)
	return b
}

func (b *bench) addNodes(n int) {
	b.Helper()
	b.AddNodes(n, nil)
	b.Eventually("all nodes have agents", func() string {
		for _, node := range b.Nodes() {
			if node.Annotations[v1alpha1.AnnotationCapability] == "" {
				return node.Name + " has none"
			}
		}
		return ""
	})
}

// HandleWarningHeader records a warning of the API server.
func (b *bench) HandleWarningHeader(_ int, _, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.warnings = append(b.warnings, text)
}

// warned returns all warnings so far.
func (b *bench) warned() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.warnings, "\n")
}

// template returns the template of the pods of a bench.
func (b *bench) template(restart corev1.RestartPolicy, change ...func(*corev1.PodTemplateSpec)) corev1.PodTemplateSpec {
	t := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{"app": "work", "team": "blue"}, Annotations: map[string]string{v1alpha1.AnnotationMigration: v1alpha1.MigrationCheckpoint},
		},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{kit.BenchLabel: b.Space}, RestartPolicy: restart, TerminationGracePeriodSeconds: new(int64(1)),
			Containers: []corev1.Container{{Name: "main", Image: "work:1"}},
		},
	}
	for _, f := range change {
		f(&t)
	}
	return t
}

// deployment creates a Deployment named work, and waits until its pods run.
func (b *bench) deployment(pods int32, change ...func(*corev1.PodTemplateSpec)) []corev1.Pod {
	b.Helper()
	b.Make(&appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: "work"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &pods, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "work"}}, Template: b.template(corev1.RestartPolicyAlways, change...),
		},
	})
	return b.running(int(pods))
}

// job creates a Job named work with one pod, and waits until it runs.
func (b *bench) job(change ...func(*corev1.PodTemplateSpec)) corev1.Pod {
	b.Helper()
	b.Make(&batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: "work"},
		Spec: batchv1.JobSpec{
			BackoffLimit: new(int32(0)), PodReplacementPolicy: new(batchv1.Failed), Template: b.template(corev1.RestartPolicyNever, change...),
		},
	})
	return b.running(1)[0]
}

// bare creates a pod and waits until it runs.
func (b *bench) bare(name string, change ...func(*corev1.PodTemplateSpec)) *corev1.Pod {
	b.Helper()
	t := b.template(corev1.RestartPolicyNever, change...)
	p := &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
	p.Namespace, p.Name = b.Space, name
	b.Make(p)
	b.Eventually("pod "+name+" runs", func() string {
		b.Read(name, p)
		if p.Status.Phase != corev1.PodRunning || !isReady(p) {
			return string(p.Status.Phase)
		}
		return ""
	})
	return p
}

func isReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// running waits until exactly n pods exist, which run and are ready, and returns them.
func (b *bench) running(n int) (pods []corev1.Pod) {
	b.Helper()
	b.Eventually(fmt.Sprintf("%d pods run", n), func() string {
		pods = b.Pods()
		for i := range pods {
			if p := &pods[i]; p.Status.Phase != corev1.PodRunning || p.DeletionTimestamp != nil || !isReady(p) {
				return fmt.Sprintf("pod %s is %s, deleted %v", p.Name, p.Status.Phase, p.DeletionTimestamp)
			}
		}
		if len(pods) != n {
			return fmt.Sprintf("%d", len(pods))
		}
		return ""
	})
	return pods
}

// budget creates a budget of the pods, and waits until it allows the given number of disruptions.
func (b *bench) budget(minAvailable, allowed int32) {
	b.Helper()
	b.Make(&policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: "work"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: new(intOf(minAvailable)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "work"}},
		},
	})
	b.allowed(allowed)
}

// allowed waits until the budget allows n disruptions.
func (b *bench) allowed(n int32) {
	b.Helper()
	b.Eventually(fmt.Sprintf("%d disruptions are allowed", n), func() string {
		var p policyv1.PodDisruptionBudget
		b.Read("work", &p)
		if p.Status.ObservedGeneration != p.Generation || p.Status.DisruptionsAllowed != n || p.Status.CurrentHealthy == 0 {
			return fmt.Sprintf("%+v", p.Status)
		}
		return ""
	})
}

// evict requests the eviction of a pod.
func (b *bench) evict(pod string, change ...func(*policyv1.Eviction)) error {
	e := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: pod}}
	for _, f := range change {
		f(e)
	}
	return b.typed.CoreV1().Pods(b.Space).EvictV1(b.Context(), e)
}

// drainPatience is the timeout of a drain.
const drainPatience = 2 * time.Minute

// kubectl runs the real kubectl, and returns its output.
func (b *bench) kubectl(args ...string) (string, error) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), drainPatience)
	defer cancel()
	program, err := exec.LookPath("kubectl")
	if err != nil {
		b.Fatalf("find kubectl: %v: build it by `make bin/kubectl` and put bin/ into PATH", err)
	}
	cmd := exec.CommandContext(ctx, program, append([]string{"--kubeconfig", b.Site.KubeconfigPath()}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+b.TempDir())
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// drain drains a node, and returns kubectl's output.
func (b *bench) drain(node string) string {
	b.Helper()
	out, err := b.kubectl("drain", node, "--timeout=100s")
	if err != nil {
		b.Fatalf("drain %s: %v\n%s\n%s", node, err, out, b.Show())
	}
	return out
}
