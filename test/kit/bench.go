package kit

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/agent"
	"supercargo.dev/supercargo/descheduler/checkpoint/simulated"
	"supercargo.dev/supercargo/internal/platform/operator"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/kit/testapi"
)

// BenchLabel is a label on nodes, fleets and MachineDeployments of a bench, with the bench's namespace as value.
const BenchLabel = "bench"

// Bench is one test's part of a site: a namespace, and objects without a namespace that have its label.
type Bench struct {
	testing.TB
	client.WithWatch
	// Waiting has the parameters of waits. A test may change them.
	Waiting
	Site *Site
	// Space is the namespace.
	Space string
	// Logs is the log of the programs of the bench. The end of it is shown if the test fails.
	Logs *Log
}

// Bench creates the namespace of a test, and waits until pods can be created in it.
func (s *Sites) Bench(t testing.TB, namespace string, change ...func(*corev1.Namespace)) *Bench {
	t.Helper()
	site, err := s.Get()
	if err != nil {
		t.Fatalf("start the site: %v", err)
	}
	b := &Bench{TB: t, WithWatch: site.Client, Site: site, Space: namespace, Logs: &Log{}, Waiting: Waiting{Patience: Patience, Poll: Poll}}
	b.Show = b.Describe
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the last lines of the programs:\n%s", b.Logs.Tail(60))
		}
	})
	n := Namespace(namespace)
	for _, f := range change {
		f(n)
	}
	b.Make(n)
	if !s.options.NoControllerManager {
		b.Eventually("pods can be made", func() string {
			return Message(b.Get(b.Context(), client.ObjectKey{Namespace: namespace, Name: "default"}, &corev1.ServiceAccount{}))
		})
	}
	return b
}

// Message returns the text of an error, or "".
func Message(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

// Make creates objects.
func (b *Bench) Make(objects ...client.Object) {
	b.Helper()
	testapi.Create(b, b, objects...)
}

// Key returns the key of an object in the namespace.
func (b *Bench) Key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: b.Space, Name: name}
}

// Find reads an object in the namespace by its name, and reports whether it exists.
func (b *Bench) Find(name string, object client.Object) bool {
	b.Helper()
	err := b.Get(b.Context(), b.Key(name), object)
	if client.IgnoreNotFound(err) != nil {
		b.Fatalf("read %T %s: %v", object, name, err)
	}
	return err == nil
}

// Read reads an object in the namespace by its name. It must exist.
func (b *Bench) Read(name string, object client.Object) {
	b.Helper()
	testapi.Get(b, b, b.Key(name), object)
}

// Pods returns the pods in the namespace.
func (b *Bench) Pods() []corev1.Pod {
	b.Helper()
	var list corev1.PodList
	testapi.List(b, b, &list, client.InNamespace(b.Space))
	return list.Items
}

// Running returns the pods in the namespace that run and are not being deleted.
func (b *Bench) Running() (pods []corev1.Pod) {
	b.Helper()
	for _, p := range b.Pods() {
		if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			pods = append(pods, p)
		}
	}
	return pods
}

// Runs waits until n pods run, and returns them.
func (b *Bench) Runs(n int) (pods []corev1.Pod) {
	b.Helper()
	b.Eventually(fmt.Sprintf("%d pods run", n), func() string {
		if pods = b.Running(); len(pods) != n {
			return fmt.Sprintf("%d do", len(pods))
		}
		return ""
	})
	return pods
}

// Migrations returns the Migrations in the namespace.
func (b *Bench) Migrations() []v1alpha1.Migration {
	b.Helper()
	var list v1alpha1.MigrationList
	testapi.List(b, b, &list, client.InNamespace(b.Space))
	return list.Items
}

// Nodes returns the nodes of the bench.
func (b *Bench) Nodes() []corev1.Node {
	b.Helper()
	var list corev1.NodeList
	testapi.List(b, b, &list, client.MatchingLabels{BenchLabel: b.Space})
	return list.Items
}

// Node returns the name of the i-th node that AddNodes creates.
func (b *Bench) Node(i int) string { return fmt.Sprintf("%s-%d", b.Space, i) }

// AddNodes creates nodes of 8 cores and 32 GiB with annotations.
func (b *Bench) AddNodes(n int, annotations map[string]string) {
	b.Helper()
	for i := range n {
		b.AddNode(playground.NodeSpec{Name: b.Node(i), CPU: "8", Memory: "32Gi", Annotations: annotations})
	}
}

// AddNode creates a node with the label of the bench.
func (b *Bench) AddNode(spec playground.NodeSpec) {
	b.Helper()
	spec.Labels = maps.Clone(spec.Labels)
	if spec.Labels == nil {
		spec.Labels = map[string]string{}
	}
	spec.Labels[BenchLabel] = b.Space
	if err := playground.CreateNodes(b.Context(), b.Site.Playground.Client(), []playground.NodeSpec{spec}); err != nil {
		b.Fatal(err)
	}
}

// Eventually polls until check returns "", or fails the test on a timeout.
func (b *Bench) Eventually(what string, check func() string) {
	b.Helper()
	w := b.Waiting
	w.Meanwhile = func() { // it may change during the wait
		if b.Meanwhile != nil {
			b.Meanwhile()
		}
	}
	b.Site.Eventually(b, w, what, check)
}

// HasEvent waits for an Event about an object, whose message contains a text, and returns the message.
func (b *Bench) HasEvent(kind, name, reason, says string) (message string) {
	b.Helper()
	b.Eventually(fmt.Sprintf("there is an Event %s that says %q", reason, says), func() string {
		var all corev1.EventList
		testapi.List(b, b, &all)
		var others []string
		for _, e := range all.Items {
			if e.InvolvedObject.Kind != kind || e.InvolvedObject.Name != name || e.InvolvedObject.Namespace != "" && e.InvolvedObject.Namespace != b.Space {
				continue
			}
			if message = e.Message; e.Reason == reason && strings.Contains(e.Message, says) {
				return ""
			}
			others = append(others, e.Reason+": "+e.Message)
		}
		return "others: " + strings.Join(others, "\n")
	})
	return message
}

// Condition waits until an object has a condition with a status and a reason, and returns the condition.
func (b *Bench) Condition(what, kind string, status metav1.ConditionStatus, reason string, conditions func() []metav1.Condition) (found metav1.Condition) {
	b.Helper()
	b.Eventually(fmt.Sprintf("%s: %s is %s (%s)", what, kind, status, reason), func() string {
		c := meta.FindStatusCondition(conditions(), kind)
		if c == nil || c.Status != status || c.Reason != reason {
			return fmt.Sprintf("%+v", c)
		}
		found = *c
		return ""
	})
	return found
}

// Options returns the options of a program with an administrator's permissions. It has no ports, and logs to Logs.
func (b *Bench) Options(log string) operator.Options {
	return operator.Options{Config: operator.Throttle(b.Site.Config()), MetricsAddress: "0", ProbeAddress: "0", Log: b.Logs.Logger(log)}
}

// Start runs a program until the returned function is called, which returns the program's error, or until the test
// ends.
func (b *Bench) Start(run func(context.Context) error) (stop func() error) {
	b.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	stop = sync.OnceValue(func() error { cancel(); return <-ended })
	b.Cleanup(func() { _ = stop() })
	return stop
}

// StartSound is Start of a program that must not return an error.
func (b *Bench) StartSound(what string, run func(context.Context) error) (stop func()) {
	b.Helper()
	end := b.Start(run)
	stop = sync.OnceFunc(func() {
		if err := end(); err != nil {
			b.Errorf("%s: %v", what, err)
		}
	})
	b.Cleanup(stop)
	return stop
}

// SimulateAgents runs an agent that simulates those of all nodes of the bench.
func (b *Bench) SimulateAgents(model simulated.Model) {
	b.Helper()
	a, err := agent.New(SimulatedAgents(b.Site.Config(), b.TempDir(), labels.SelectorFromSet(labels.Set{BenchLabel: b.Space}), model, b.Logs))
	if err != nil {
		b.Fatal(err)
	}
	b.StartSound("the agents", a.Run)
}

// SimulatedAgents configures an agent that simulates those of all nodes that match a selector. Its state is in dir.
func SimulatedAgents(config *rest.Config, dir string, nodes labels.Selector, model simulated.Model, log *Log) agent.Config {
	return agent.Config{
		Client: operator.Throttle(config), StateDir: filepath.Join(dir, "state"), WorkDir: filepath.Join(dir, "work"), ListenAddress: "127.0.0.1:0",
		Simulation: &agent.Simulation{Selector: nodes, Model: model}, Log: log.Logger("agents"),
	}
}

// StartAfterCut calls again, which starts another program, once the connection of a program is cut during a wait. It
// fails the test if the program has ended with an error without that.
func (b *Bench) StartAfterCut(what string, c *Cut, stop func() error, again func()) {
	b.Helper()
	b.Cleanup(func() {
		if err := stop(); err != nil && !c.Broken() {
			b.Errorf("%s: %v", what, err)
		}
	})
	b.Meanwhile = func() {
		if c.Broken() {
			b.Meanwhile = nil
			_ = stop() // its connection is gone
			b.Logs.Logger(b.Space).Info("cut", "what", c.What)
			again()
		}
	}
}

// View restricts the client of a program to the bench, for rest.Config.Wrap: at these paths it lists the objects in
// the namespace, and of nodes and fleets those with the label.
func (b *Bench) View(paths ...string) func(http.RoundTripper) http.RoundTripper {
	labelled := Selector{Parameter: "labelSelector", Value: BenchLabel + "=" + b.Space}
	view := map[string]Selector{"/api/v1/nodes": labelled, "/apis/supercargo.dev/v1alpha1/nodefleets": labelled}
	for _, path := range paths {
		view[path] = Selector{Parameter: "fieldSelector", Value: "metadata.namespace=" + b.Space}
	}
	return View(view)
}

// ServiceAccount returns a configuration that gives a client the permissions of a service account.
func ServiceAccount(namespace, name string) rest.ImpersonationConfig {
	return rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + namespace + ":" + name,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
	}
}

// Describe returns the state of the objects of the bench, for a test that fails.
func (b *Bench) Describe() string {
	var text strings.Builder
	own, labelled := client.InNamespace(b.Space), client.MatchingLabels{BenchLabel: b.Space}
	for _, of := range []struct {
		list   client.ObjectList
		option client.ListOption
	}{
		{&v1alpha1.NodeFleetList{}, labelled}, {&v1alpha1.ReplicaPolicyList{}, own}, {&v1alpha1.MigrationList{}, own},
		{&appsv1.DeploymentList{}, own}, {&batchv1.JobList{}, own}, {&corev1.PodList{}, own}, {&corev1.NodeList{}, labelled},
	} {
		if err := b.List(context.WithoutCancel(b.Context()), of.list, of.option); err != nil {
			fmt.Fprintln(&text, err)
		}
		_ = meta.EachListItem(of.list, func(o runtime.Object) error { text.WriteString(describe(o)); return nil })
	}
	return text.String()
}

// describe returns the metadata and the status of an object, of pods and nodes also what the scheduler writes.
func describe(o runtime.Object) string {
	switch o := o.(type) {
	case *corev1.Node:
		return fmt.Sprintf("Node %s: labels %v, annotations %v, unschedulable %v\n", o.Name, o.Labels, o.Annotations, o.Spec.Unschedulable)
	case *corev1.Pod:
		return fmt.Sprintf("Pod %s: %s on %q, labels %v, owners %d, finalizers %v, deleted %v, %+v\n",
			o.Name, o.Status.Phase, o.Spec.NodeName, o.Labels, len(o.OwnerReferences), o.Finalizers, o.DeletionTimestamp, o.Status.Conditions)
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return err.Error()
	}
	status, err := json.MarshalIndent(fields["status"], "", " ")
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%T %s: %s\n", o, o.(client.Object).GetName(), status)
}
