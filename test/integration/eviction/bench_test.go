package eviction

import (
	"context"
	"encoding/json"
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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/kit"
)

// benchLabel is a label on the nodes of a bench, with its name as value.
const benchLabel = "bench"

// bench is one test's part of the site: a namespace and nodes.
type bench struct {
	*testing.T
	client.Client
	site *kit.Site
	name string
	// typed sends evictions, and warnings contains the API server's warnings.
	typed    kubernetes.Interface
	mu       sync.Mutex
	warnings []string
}

// newBench returns the bench with that name and the given number of nodes, NAME-0 and so on, with agents.
func newBench(t *testing.T, name string, nodes int) *bench {
	t.Helper()
	s, err := sites.Get()
	if err != nil {
		t.Fatalf("start the site: %v", err)
	}
	shared.start(t, s)
	b := &bench{T: t, Client: s.Client, site: s, name: name}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the last lines of the programs:\n%s", shared.log.Tail(60))
		}
	})
	config := rest.CopyConfig(s.Config())
	config.WarningHandler = b
	if b.typed, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	namespace := kit.Namespace(name)
	if isDown(name) {
		namespace.Labels = map[string]string{"down": ""}
	}
	b.make(namespace)
	b.eventually("pods can be made", func() string {
		if err := b.Get(b.Context(), client.ObjectKey{Namespace: name, Name: "default"}, &corev1.ServiceAccount{}); err != nil {
			return err.Error()
		}
		return ""
	})
	b.addNodes(nodes)
	return b
}

func (b *bench) addNodes(n int) {
	b.Helper()
	var specs []playground.NodeSpec
	for i := range n {
		specs = append(specs, playground.NodeSpec{Name: b.node(i), CPU: "8", Memory: "32Gi", Labels: map[string]string{benchLabel: b.name}})
	}
	if err := playground.CreateNodes(b.Context(), b.site.Playground.Client(), specs); err != nil {
		b.Fatal(err)
	}
	b.eventually("all nodes have agents", func() string {
		var list corev1.NodeList
		if err := b.List(b.Context(), &list, client.MatchingLabels{benchLabel: b.name}); err != nil {
			return err.Error()
		}
		for i := range list.Items {
			if list.Items[i].Annotations[v1alpha1.AnnotationCapability] == "" {
				return list.Items[i].Name + " has none"
			}
		}
		return ""
	})
}

func (b *bench) node(i int) string { return fmt.Sprintf("%s-%d", b.name, i) }

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

// make creates an object.
func (b *bench) make(object client.Object) {
	b.Helper()
	if err := b.Create(b.Context(), object); err != nil {
		b.Fatalf("make %T %s: %v", object, object.GetName(), err)
	}
}

// get reads an object of the bench.
func (b *bench) get(name string, object client.Object) {
	b.Helper()
	if err := b.Get(b.Context(), client.ObjectKey{Namespace: b.name, Name: name}, object); err != nil {
		b.Fatalf("read %T %s: %v", object, name, err)
	}
}

// eventually polls until check returns "".
func (b *bench) eventually(what string, check func() string) {
	b.Helper()
	b.site.Eventually(b.T, kit.Waiting{Patience: kit.Patience, Poll: kit.Poll, Show: b.show}, what, check)
}

// show describes the state of all objects.
func (b *bench) show() string {
	var text strings.Builder
	for _, m := range b.migrations() {
		status, _ := json.MarshalIndent(m.Status, "", " ")
		fmt.Fprintf(&text, "Migration %s: %s\n", m.Name, status)
	}
	for _, p := range b.pods() {
		fmt.Fprintf(&text, "Pod %s: %s on %q, labels %v, owners %d, deleted %v\n", p.Name, p.Status.Phase, p.Spec.NodeName, p.Labels, len(p.OwnerReferences), p.DeletionTimestamp)
	}
	return text.String()
}

func (b *bench) migrations() []v1alpha1.Migration {
	b.Helper()
	var list v1alpha1.MigrationList
	if err := b.List(b.Context(), &list, client.InNamespace(b.name)); err != nil {
		b.Fatal(err)
	}
	return list.Items
}

func (b *bench) pods() []corev1.Pod {
	b.Helper()
	var list corev1.PodList
	if err := b.List(b.Context(), &list, client.InNamespace(b.name)); err != nil {
		b.Fatal(err)
	}
	return list.Items
}

// template returns the template of the pods of a bench.
func (b *bench) template(restart corev1.RestartPolicy, change ...func(*corev1.PodTemplateSpec)) corev1.PodTemplateSpec {
	t := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{"app": "work", "team": "blue"}, Annotations: map[string]string{v1alpha1.AnnotationMigration: v1alpha1.MigrationCheckpoint},
		},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{benchLabel: b.name}, RestartPolicy: restart, TerminationGracePeriodSeconds: new(int64(1)),
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
	b.make(&appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.name, Name: "work"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &pods, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "work"}}, Template: b.template(corev1.RestartPolicyAlways, change...),
		},
	})
	return b.running(int(pods))
}

// job creates a Job named work with one pod, and waits until it runs.
func (b *bench) job(change ...func(*corev1.PodTemplateSpec)) corev1.Pod {
	b.Helper()
	b.make(&batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.name, Name: "work"},
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
	p.Namespace, p.Name = b.name, name
	b.make(p)
	b.eventually("pod "+name+" runs", func() string {
		b.get(name, p)
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
	b.eventually(fmt.Sprintf("%d pods run", n), func() string {
		pods = b.pods()
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
	b.make(&policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.name, Name: "work"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: new(intOf(minAvailable)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "work"}},
		},
	})
	b.allowed(allowed)
}

// allowed waits until the budget allows n disruptions.
func (b *bench) allowed(n int32) {
	b.Helper()
	b.eventually(fmt.Sprintf("%d disruptions are allowed", n), func() string {
		var p policyv1.PodDisruptionBudget
		b.get("work", &p)
		if p.Status.ObservedGeneration != p.Generation || p.Status.DisruptionsAllowed != n || p.Status.CurrentHealthy == 0 {
			return fmt.Sprintf("%+v", p.Status)
		}
		return ""
	})
}

// evict requests the eviction of a pod.
func (b *bench) evict(pod string, change ...func(*policyv1.Eviction)) error {
	e := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: b.name, Name: pod}}
	for _, f := range change {
		f(e)
	}
	return b.typed.CoreV1().Pods(b.name).EvictV1(b.Context(), e)
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
	cmd := exec.CommandContext(ctx, program, append([]string{"--kubeconfig", b.site.KubeconfigPath()}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+b.TempDir())
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// drain drains a node, and returns kubectl's output.
func (b *bench) drain(node string) string {
	b.Helper()
	out, err := b.kubectl("drain", node, "--timeout=100s")
	if err != nil {
		b.Fatalf("drain %s: %v\n%s\n%s", node, err, out, b.show())
	}
	return out
}
