package migration

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/app"
	"supercargo.dev/supercargo/descheduler/consolidation"
	"supercargo.dev/supercargo/internal/movable/capability"
	"supercargo.dev/supercargo/internal/platform/operator"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/kit"
)

// benchLabel is a label on the nodes of a bench, with its name as value.
const benchLabel = "bench"

// bench is one test's part of the site.
type bench struct {
	*testing.T
	client.Client
	site *kit.Site
	name string
	log  *kit.Log
	// agents are the agents of all nodes, if they are scripted.
	agents *agents
	// meanwhile is called at every poll of a wait.
	meanwhile func()
	// poll is the polling interval.
	poll time.Duration
}

// newBench returns the bench with that name and the given number of nodes, NAME-0 and so on, with scripted
// agents.
func newBench(t *testing.T, name string, nodes int, from ...*kit.Sites) *bench {
	t.Helper()
	b := newEmptyBench(t, name, from...)
	can := capability.Node{Backends: []v1alpha1.MigrationBackend{v1alpha1.BackendSimulated, v1alpha1.BackendRestart}, Arch: "amd64", Restore: true}
	b.addNodes(nodes, map[string]string{v1alpha1.AnnotationCapability: can.Encode()})
	b.agents = startAgents(b)
	return b
}

// newEmptyBench returns a bench without nodes and agents.
func newEmptyBench(t *testing.T, name string, from ...*kit.Sites) *bench {
	t.Helper()
	if len(from) == 0 {
		from = []*kit.Sites{sites}
	}
	s, err := from[0].Get()
	if err != nil {
		t.Fatalf("start the site: %v", err)
	}
	b := &bench{T: t, Client: s.Client, site: s, name: name, log: &kit.Log{}, meanwhile: func() {}, poll: kit.Poll}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the descheduler's last lines:\n%s", b.log.Tail(60))
		}
	})
	b.make(kit.Namespace(name))
	if from[0] == sites {
		b.eventually("pods can be made", func() string {
			return message(b.Get(b.Context(), client.ObjectKey{Namespace: name, Name: "default"}, &corev1.ServiceAccount{}))
		})
	}
	return b
}

func (b *bench) addNodes(n int, annotations map[string]string) {
	b.Helper()
	var specs []playground.NodeSpec
	for i := range n {
		specs = append(specs, playground.NodeSpec{
			Name: b.node(i), CPU: "8", Memory: "32Gi", Labels: map[string]string{benchLabel: b.name}, Annotations: annotations,
		})
	}
	if err := playground.CreateNodes(b.Context(), b.site.Playground.Client(), specs); err != nil {
		b.Fatal(err)
	}
}

func message(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

func (b *bench) node(i int) string { return fmt.Sprintf("%s-%d", b.name, i) }

// make creates an object.
func (b *bench) make(object client.Object) {
	b.Helper()
	if err := b.Create(b.Context(), object); err != nil {
		b.Fatalf("make %T %s: %v", object, object.GetName(), err)
	}
}

// read reads an object of the bench by its name, and reports whether it exists.
func (b *bench) read(name string, object client.Object) bool {
	b.Helper()
	err := b.Get(b.Context(), client.ObjectKey{Namespace: b.name, Name: name}, object)
	if client.IgnoreNotFound(err) != nil {
		b.Fatalf("read %T %s: %v", object, name, err)
	}
	return err == nil
}

// eventually polls until check returns "".
func (b *bench) eventually(what string, check func() string) {
	b.Helper()
	meanwhile := func() { b.meanwhile() } // it may change during the wait
	b.site.Eventually(b.T, kit.Waiting{Patience: kit.Patience, Poll: b.poll, Meanwhile: meanwhile, Show: b.show}, what, check)
}

// show describes the state of all objects.
func (b *bench) show() string {
	var text strings.Builder
	for _, m := range b.migrations() {
		status, _ := json.MarshalIndent(m.Status, "", " ")
		fmt.Fprintf(&text, "Migration %s: %s\n", m.Name, status)
	}
	for _, p := range b.pods() {
		fmt.Fprintf(&text, "Pod %s: %s on %q, labels %v, owners %d, finalizers %v, deleted %v, %+v\n",
			p.Name, p.Status.Phase, p.Spec.NodeName, p.Labels, len(p.OwnerReferences), p.Finalizers, p.DeletionTimestamp, p.Status.Conditions)
	}
	var jobs batchv1.JobList
	if err := b.List(b.Context(), &jobs, client.InNamespace(b.name)); err == nil {
		for _, j := range jobs.Items {
			fmt.Fprintf(&text, "Job %s: %+v\n", j.Name, j.Status)
		}
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

// view restricts a client to one bench.
func view(bench string) func(string) kit.Selector {
	return func(path string) kit.Selector {
		if path == "/api/v1/nodes" {
			return kit.Selector{Parameter: "labelSelector", Value: benchLabel + "=" + bench}
		}
		return kit.Selector{Parameter: "fieldSelector", Value: "metadata.namespace=" + bench}
	}
}

// lists are the paths that list all objects of a kind.
var lists = []string{
	"/apis/supercargo.dev/v1alpha1/migrations", "/api/v1/nodes", "/api/v1/pods", "/api/v1/services", "/apis/batch/v1/jobs",
	"/apis/apps/v1/replicasets", "/apis/policy/v1/poddisruptionbudgets",
}

func selectors(bench string) map[string]kit.Selector {
	all := map[string]kit.Selector{}
	for _, path := range lists {
		all[path] = view(bench)(path)
	}
	return all
}

// deschedule runs a descheduler until the returned function is called.
func (b *bench) deschedule(change ...func(*app.Options)) (stop func()) {
	b.Helper()
	end, failed := b.startDescheduler(change...)
	check := func() {
		end()
		if err := failed(); err != nil {
			b.Errorf("the descheduler: %v", err)
		}
	}
	b.Cleanup(check)
	return check
}

// startDescheduler runs a descheduler, and also returns a function that returns its error after it is
// stopped.
func (b *bench) startDescheduler(change ...func(*app.Options)) (stop func(), failed func() error) {
	b.Helper()
	o := app.Defaults()
	o.Consolidation.Mode = consolidation.Off // its writes are not part of a migration
	config := b.site.Config()
	config.QPS, config.Burst = 200, 400
	o.Options = operator.Options{Config: operator.Throttle(config), MetricsAddress: "0", ProbeAddress: "0", Log: b.log.Logger(b.name)}
	for _, f := range change {
		f(&o)
	}
	o.Config.Wrap(kit.View(selectors(b.name)))
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	done := make(chan struct{})
	var err error
	go func() {
		defer close(done)
		err = app.Run(ctx, o)
	}()
	stop = func() { cancel(); <-done }
	b.Cleanup(stop)
	return stop, func() error { return err }
}

// template returns a pod from which those of a bench are made.
func (b *bench) template(change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: b.name, Name: "work", Labels: map[string]string{"app": "work"},
			Annotations: map[string]string{v1alpha1.AnnotationMigration: v1alpha1.MigrationCheckpoint},
		},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{benchLabel: b.name}, RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{Name: "main", Image: "work:1"}},
		},
	}
	for _, f := range change {
		f(pod)
	}
	return pod
}

// job creates a Job named work with parallel pods, and waits until they run.
func (b *bench) job(pods int32, mode batchv1.CompletionMode, change ...func(*corev1.Pod)) *batchv1.Job {
	b.Helper()
	pod := b.template(change...)
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.name, Name: "work"},
		Spec: batchv1.JobSpec{
			Parallelism: &pods, Completions: &pods, CompletionMode: &mode, BackoffLimit: new(int32(0)), PodReplacementPolicy: new(batchv1.Failed),
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels, Annotations: pod.Annotations}, Spec: pod.Spec},
		},
	}
	b.make(job)
	b.running(int(pods))
	return job
}

// bare creates a pod named work and waits until it runs.
func (b *bench) bare(change ...func(*corev1.Pod)) {
	b.Helper()
	b.make(b.template(change...))
	b.running(1)
}

// running waits until n pods run, and returns them.
func (b *bench) running(n int) (pods []corev1.Pod) {
	b.Helper()
	b.eventually(fmt.Sprintf("%d pods run", n), func() string {
		pods = nil
		for _, p := range b.pods() {
			if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
				pods = append(pods, p)
			}
		}
		if len(pods) != n {
			return fmt.Sprintf("%d", len(pods))
		}
		return ""
	})
	return pods
}

// move creates a Migration of a pod.
func (b *bench) move(pod string, change ...func(*v1alpha1.MigrationSpec)) *v1alpha1.Migration {
	b.Helper()
	m := &v1alpha1.Migration{ObjectMeta: metav1.ObjectMeta{Namespace: b.name, Name: "move-" + pod}, Spec: v1alpha1.MigrationSpec{PodName: pod}}
	for _, f := range change {
		f(&m.Spec)
	}
	b.make(m)
	return m
}

// ends waits until a migration has ended in this phase, and returns it.
func (b *bench) ends(name string, phase v1alpha1.MigrationPhase) *v1alpha1.Migration {
	b.Helper()
	m := &v1alpha1.Migration{}
	b.eventually(fmt.Sprintf("migration %s ends as %s", name, phase), func() string {
		if !b.read(name, m) {
			return "gone"
		}
		if c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.MigrationFinished); c == nil || c.Status != metav1.ConditionTrue {
			return "in phase " + string(m.Status.Phase)
		}
		if m.Status.Phase == phase && len(m.Finalizers) > 0 {
			return "with its finalizer"
		}
		return ""
	})
	if m.Status.Phase != phase {
		b.Fatalf("migration %s ends as %s: %+v", name, m.Status.Phase, m.Status.Conditions)
	}
	return m
}

// is waits until check accepts the status of a migration.
func (b *bench) is(name, what string, check func(*v1alpha1.MigrationStatus) bool) *v1alpha1.Migration {
	b.Helper()
	m := &v1alpha1.Migration{}
	b.eventually("migration "+name+" "+what, func() string {
		if !b.read(name, m) {
			return "gone"
		}
		if !check(&m.Status) {
			return "in phase " + string(m.Status.Phase)
		}
		return ""
	})
	return m
}

// condition returns a condition of a migration.
func condition(m *v1alpha1.Migration, kind string) metav1.Condition {
	if c := meta.FindStatusCondition(m.Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// healthy waits until the Job has exactly the given number of active pods, and checks that it has counted no
// failure.
func (b *bench) healthy(job string, pods int) []corev1.Pod {
	b.Helper()
	var owned []corev1.Pod
	b.eventually("the Job is as it was", func() string {
		j := &batchv1.Job{}
		if !b.read(job, j) {
			return "gone"
		}
		owned = nil
		for _, p := range b.pods() {
			if !metav1.IsControlledBy(&p, j) {
				return "there is also pod " + p.Name
			}
			owned = append(owned, p)
		}
		if len(owned) != pods || int(j.Status.Active) != pods || j.Status.Terminating != nil && *j.Status.Terminating != 0 {
			return fmt.Sprintf("%d pods, status %+v", len(owned), j.Status)
		}
		return ""
	})
	j := &batchv1.Job{}
	b.read(job, j)
	if j.Status.Failed != 0 || len(j.Status.Conditions) > 0 {
		b.Errorf("the Job counts %d failures: %+v", j.Status.Failed, j.Status.Conditions)
	}
	return owned
}
