package integration

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/client-go/util/workqueue"
)

// ledger follows every change of every pod, and checks that no pod is bound twice or lost, and no node is
// overcommitted.
type ledger struct {
	t      *testing.T
	client kubernetes.Interface
	// onBound, if not nil, is called with each pod when it first has a node.
	onBound func(*corev1.Pod)

	mu      sync.Mutex
	nodes   map[string]corev1.ResourceList
	bound   map[string]string // pod -> node
	used    map[string]*usage
	changed *sync.Cond
	broken  error // why the watch ended
}

type usage struct{ cpu, memory, pods int64 }

// openLedger starts following. Nodes that join later must be added with addNode.
func openLedger(t *testing.T, client kubernetes.Interface, onBound func(*corev1.Pod)) *ledger {
	t.Helper()
	l := &ledger{t: t, client: client, onBound: onBound,
		nodes: map[string]corev1.ResourceList{}, bound: map[string]string{}, used: map[string]*usage{}}
	l.changed = sync.NewCond(&l.mu)
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes.Items {
		l.nodes[n.Name] = n.Status.Allocatable
	}
	pods, err := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	watcher, err := watchtools.NewRetryWatcherWithContext(t.Context(), pods.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return client.CoreV1().Pods("").Watch(ctx, o)
		},
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return client.CoreV1().Pods("").List(ctx, o)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.follow(watcher.ResultChan())
	}()
	t.Cleanup(func() { watcher.Stop(); <-ended })
	return l
}

// follow reads all changes without delay, because the API server ends a watch that lags behind.
func (l *ledger) follow(changes <-chan watch.Event) {
	for e := range changes {
		l.mu.Lock()
		switch pod, ok := e.Object.(*corev1.Pod); {
		case !ok:
			l.broken = fmt.Errorf("%s: %v", e.Type, e.Object)
		case e.Type != watch.Deleted:
			l.see(pod)
		}
		l.changed.Broadcast()
		l.mu.Unlock()
	}
}

// waitBound waits until want pods are bound.
func (l *ledger) waitBound(want int) {
	l.t.Helper()
	defer time.AfterFunc(patience, l.changed.Broadcast).Stop()
	start := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.bound) < want {
		if time.Since(start) >= patience || l.broken != nil {
			l.t.Fatalf("%d of %d pods are bound after %v (watch: %v)", len(l.bound), want, time.Since(start), l.broken)
		}
		l.changed.Wait()
	}
}

// nodeOf returns the node a pod is bound to.
func (l *ledger) nodeOf(pod string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bound[pod]
}

// placeOne creates a pod, waits until it is bound and returns its node.
func (l *ledger) placeOne(pod *corev1.Pod) string {
	l.t.Helper()
	l.mu.Lock()
	want := len(l.bound) + 1
	l.mu.Unlock()
	createPods(l.t, l.client, []*corev1.Pod{pod})
	l.waitBound(want)
	return l.nodeOf(pod.Name)
}

// addNode adds a node that is about to join to the ledger.
func (l *ledger) addNode(node *corev1.Node) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nodes[node.Name] = node.Status.Allocatable
}

func (l *ledger) see(pod *corev1.Pod) {
	before, known := l.bound[pod.Name]
	switch node := pod.Spec.NodeName; {
	case node == "" && known:
		l.t.Errorf("pod %s has lost its node %s", pod.Name, before)
	case node == "", known && node == before:
	case known:
		l.t.Errorf("pod %s was bound twice: to %s, then to %s", pod.Name, before, node)
	default:
		l.bound[pod.Name] = node
		l.fill(node, pod)
		if l.onBound != nil {
			l.onBound(pod)
		}
	}
}

func (l *ledger) fill(node string, pod *corev1.Pod) {
	room, ok := l.nodes[node]
	if !ok {
		l.t.Errorf("pod %s is bound to %s, which does not exist", pod.Name, node)
		return
	}
	u := l.used[node]
	if u == nil {
		u = &usage{}
		l.used[node] = u
	}
	requests := pod.Spec.Containers[0].Resources.Requests
	u.cpu, u.memory, u.pods = u.cpu+requests.Cpu().MilliValue(), u.memory+requests.Memory().Value(), u.pods+1
	if u.cpu > room.Cpu().MilliValue() || u.memory > room.Memory().Value() || u.pods > room.Pods().Value() {
		l.t.Errorf("node %s is over-filled by pod %s: %+v of %v", node, pod.Name, *u, room)
	}
}

// checkNoneLost compares the pods that exist with those created.
func (l *ledger) checkNoneLost(created int) {
	l.t.Helper()
	pods, err := l.client.CoreV1().Pods("default").List(l.t.Context(), metav1.ListOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	if len(pods.Items) != created {
		l.t.Errorf("%d pods exist, %d were created", len(pods.Items), created)
	}
}

// createPods creates pods concurrently.
func createPods(t *testing.T, client kubernetes.Interface, pods []*corev1.Pod) {
	t.Helper()
	errs := make([]error, len(pods))
	workqueue.ParallelizeUntil(t.Context(), 16, len(pods), func(i int) {
		_, errs[i] = client.CoreV1().Pods(pods[i].Namespace).Create(t.Context(), pods[i], metav1.CreateOptions{})
	})
	for i, err := range errs {
		if err != nil {
			t.Fatalf("create pod %s: %v", pods[i].Name, err)
		}
	}
}

// createPreemptible creates a pod of a new PriorityClass below that of all others. The API server admits pods
// of a class once its watch has delivered the class.
func createPreemptible(t *testing.T, client kubernetes.Interface, pod *corev1.Pod) {
	t.Helper()
	const low = "low"
	if _, err := client.SchedulingV1().PriorityClasses().Create(t.Context(), &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: low}, Value: -10,
	}, metav1.CreateOptions{}); err != nil {
		t.Fatalf("create PriorityClass %s: %v", low, err)
	}
	pod.Spec.PriorityClassName = low
	eventually(t, func() error {
		_, err := client.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{})
		return err
	})
}

// createNode creates a node of the spec's shape that is not simulated.
func createNode(t *testing.T, client kubernetes.Interface, node *corev1.Node) {
	t.Helper()
	status := node.Status
	status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	created, err := client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	created.Status = status
	created.Spec.Taints = node.Spec.Taints // admission adds not-ready
	if created, err = client.CoreV1().Nodes().Update(t.Context(), created, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	created.Status = status
	if _, err := client.CoreV1().Nodes().UpdateStatus(t.Context(), created, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// patience is the timeout of a wait. It is much longer than necessary, for slow machines.
const patience = 5 * time.Minute

// eventually polls until check returns no error.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		last = check()
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("after %v: %v", patience, last)
	}
}

// wantEvent waits for an Event about the pod whose note contains the text.
func wantEvent(t *testing.T, client kubernetes.Interface, reason, text string) {
	t.Helper()
	eventually(t, func() error { return eventSays(t, client, reason, text) })
}

// eventSays returns an error unless such an Event exists.
func eventSays(t *testing.T, client kubernetes.Interface, reason, text string) error {
	events, err := client.EventsV1().Events("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, e := range events.Items {
		if e.Reason == reason && e.Type == corev1.EventTypeWarning && containsText(e.Note, text) {
			return nil
		}
	}
	return fmt.Errorf("no %s Event of %d says %q", reason, len(events.Items), text)
}

// wantUnschedulable waits until the scheduler reports why it cannot place a pod.
func wantUnschedulable(t *testing.T, client kubernetes.Interface, text string) {
	t.Helper()
	eventually(t, func() error { return unschedulable(t, client, text) })
}

// unschedulable returns an error unless an Event or the condition of a pod contains the text. Either may lack
// it: the condition shows only the last attempt, and the recorder of Events counts a second attempt on the
// same version of a pod as a repetition of the first, with the first text.
func unschedulable(t *testing.T, client kubernetes.Interface, text string) error {
	t.Helper()
	pods, err := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range pods.Items {
		for _, c := range pods.Items[i].Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && containsText(c.Message, text) {
				return nil
			}
		}
	}
	return eventSays(t, client, "FailedScheduling", text)
}

func quantity(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.DecimalSI) }
