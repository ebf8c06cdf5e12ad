package replay

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/lab/report"
)

// cluster is a fake API server in virtual time, with a scheduler that at once binds every pod that
// requests less than 1,000 milli-CPU, and reports that the others are unschedulable.
func cluster(ctx context.Context, t *testing.T) *fake.Clientset {
	t.Helper()
	return clusterThatBinds(ctx, t, 0)
}

// clusterThatBinds returns a cluster whose scheduler takes so long for each pod.
func clusterThatBinds(ctx context.Context, t *testing.T, takes time.Duration) *fake.Clientset {
	t.Helper()
	client := fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	pods, err := client.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer pods.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case event := <-pods.ResultChan():
				pod, ok := event.Object.(*corev1.Pod)
				if !ok || pod.Spec.NodeName != "" || len(pod.Status.Conditions) > 0 {
					continue
				}
				select {
				case <-time.After(takes): // virtual time
				case <-ctx.Done():
					return
				}
				bound := pod.DeepCopy()
				if pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue() < 1000 {
					bound.Spec.NodeName = "node-1"
				} else {
					bound.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
				}
				_, _ = client.CoreV1().Pods("default").Update(ctx, bound, metav1.UpdateOptions{}) // it may be gone
			}
		}
	}()
	return client
}

// inBubble runs a test in virtual time, with a context that stops the fakes.
func inBubble(t *testing.T, test func(ctx context.Context, t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		test(ctx, t)
	})
}

func left(ctx context.Context, t *testing.T, client *fake.Clientset) []string {
	t.Helper()
	list, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range list.Items {
		names = append(names, p.Name)
	}
	return names
}

var threePods = []trace.Pod{
	{Item: packing.Item{Name: "late", Arrival: 130 * time.Second, Runtime: 30 * time.Second, Size: packing.Size{MilliCPU: 200, MemoryBytes: 2}}},
	{Item: packing.Item{Name: "first", Arrival: 100 * time.Second, Runtime: 80 * time.Second, Size: packing.Size{MilliCPU: 100, MemoryBytes: 1}}},
	{Item: packing.Item{Name: "huge", Arrival: 110 * time.Second, Runtime: 10 * time.Second, Size: packing.Size{MilliCPU: 5000, MemoryBytes: 3}}},
}

// wantStays is the expected result of replaying threePods ten times (arrivals) and twenty times
// (lifetimes) as fast for five seconds.
var wantStays = []report.Stay{
	{Pod: "first", MilliCPU: 100, MemoryBytes: 1, Created: 0, Bound: 0, Gone: 4 * time.Second, Node: "node-1"},
	{Pod: "huge", MilliCPU: 5000, MemoryBytes: 3, Created: time.Second, Bound: report.Never, Gone: report.Never},
	{Pod: "late", MilliCPU: 200, MemoryBytes: 2, Created: 3 * time.Second, Bound: 3 * time.Second, Gone: 4500 * time.Millisecond, Node: "node-1"},
}

func TestRunCreatesAndDeletesPodsInScaledTime(t *testing.T) {
	inBubble(t, func(ctx context.Context, t *testing.T) {
		client := cluster(ctx, t)
		var last Progress
		calls := 0
		result, err := Run(ctx, Options{
			Client: client, Pods: threePods, Scale: Scale{Arrivals: 10, Lifetimes: 20}, Window: 5 * time.Second,
			Progress: func(p Progress) { last = p; calls++ },
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(wantStays, result.Stays); diff != "" {
			t.Errorf("stays (-want +got):\n%s", diff)
		}
		if result.Window != 5*time.Second || result.Retries != 0 || result.Refused != nil {
			t.Errorf("result is %+v, want a window of 5 s and no trouble", result)
		}
		if names := left(ctx, t, client); names != nil {
			t.Errorf("pods %v are still there", names)
		}
		want := Progress{Elapsed: 5 * time.Second, Window: 5 * time.Second, Pods: 3, Created: 3, Bound: 2, Gone: 3}
		if diff := cmp.Diff(want, last); diff != "" {
			t.Errorf("last progress (-want +got):\n%s", diff)
		}
		if calls < 25 || calls > 28 {
			t.Errorf("progress was told %d times in 5 s, want about 26", calls)
		}
	})
}

func TestRunWithoutWindowEndsWithTheLastPod(t *testing.T) {
	inBubble(t, func(ctx context.Context, t *testing.T) {
		client := cluster(ctx, t)
		result, err := Run(ctx, Options{Client: client, Pods: threePods[:2], Scale: Scale{Arrivals: 1, Lifetimes: 1}})
		if err != nil {
			t.Fatal(err)
		}
		if result.Window != 80*time.Second || len(result.Stays) != 2 || result.Stays[0].Gone != 80*time.Second {
			t.Errorf("result is %+v, want it to end with the first pod, after 80 s", result)
		}
	})
}

func TestRunRetriesWhatFails(t *testing.T) {
	inBubble(t, func(ctx context.Context, t *testing.T) {
		client := cluster(ctx, t)
		var creates, deletes atomic.Int32
		client.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			return creates.Add(1) <= 3, nil, apierrors.NewInternalError(errors.New("no etcd"))
		})
		client.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			return deletes.Add(1) <= 2, nil, apierrors.NewTooManyRequests("slow down", 1)
		})
		result, err := Run(ctx, Options{Client: client, Pods: threePods[1:2], Scale: Scale{Arrivals: 10, Lifetimes: 20}})
		if err != nil {
			t.Fatal(err)
		}
		want := []report.Stay{{
			Pod: "first", MilliCPU: 100, MemoryBytes: 1, Created: 0, Node: "node-1",
			Bound: 700 * time.Millisecond,  // after pauses of 100, 200 and 400 ms
			Gone:  6700 * time.Millisecond, // 4 s of life and two pauses of 1 s
		}}
		if diff := cmp.Diff(want, result.Stays); diff != "" {
			t.Errorf("stays (-want +got):\n%s", diff)
		}
		if result.Retries != 5 {
			t.Errorf("%d retries, want 5", result.Retries)
		}
	})
}

func TestRunTakesACreateThatOnlySeemedToFail(t *testing.T) {
	inBubble(t, func(ctx context.Context, t *testing.T) {
		client := cluster(ctx, t)
		var creates atomic.Int32
		client.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
			if creates.Add(1) > 1 {
				return false, nil, nil
			}
			pod := a.(clienttesting.CreateAction).GetObject().DeepCopyObject()
			if err := client.Tracker().Create(a.GetResource(), pod, a.GetNamespace()); err != nil {
				t.Error(err)
			}
			return true, nil, apierrors.NewTimeoutError("the answer got lost", 0)
		})
		result, err := Run(ctx, Options{Client: client, Pods: threePods[1:2], Scale: Scale{Arrivals: 10, Lifetimes: 20}})
		if err != nil {
			t.Fatal(err)
		}
		if len(result.Stays) != 1 || result.Stays[0].Gone != 4*time.Second || len(result.Refused) != 0 {
			t.Errorf("result is %+v, want one pod that ran 4 s", result)
		}
	})
}

func TestRunGivesUpOnlyWhatCannotBeCreated(t *testing.T) {
	inBubble(t, func(ctx context.Context, t *testing.T) {
		client := cluster(ctx, t)
		foreign := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "late", Namespace: "default"}, Spec: corev1.PodSpec{
			NodeName: "x", Containers: []corev1.Container{{}},
		}}
		if _, err := client.CoreV1().Pods("default").Create(ctx, foreign, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		client.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
			name := a.(clienttesting.CreateAction).GetObject().(*corev1.Pod).Name
			return name == "huge", nil, apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, name, nil)
		})
		// The fake's informer returns pods with any label, so the foreign pod is hidden from the
		// check for leftover pods.
		hideFromLists(client, "late")
		result, err := Run(ctx, Options{Client: client, Pods: threePods, Scale: Scale{Arrivals: 10, Lifetimes: 20}})
		if err != nil {
			t.Fatal(err)
		}
		if len(result.Stays) != 1 || result.Stays[0].Pod != "first" || len(result.Refused) != 2 {
			t.Errorf("result is %+v, want one pod and two refusals", result)
		}
		if _, err := client.CoreV1().Pods("default").Get(ctx, "late", metav1.GetOptions{}); err != nil {
			t.Errorf("the pod of somebody else: %v", err)
		}
	})
}

// hideFromLists removes a pod from the results of lists.
func hideFromLists(client *fake.Clientset, name string) {
	client.PrependReactor("list", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		object, err := client.Tracker().List(a.GetResource(), schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, a.GetNamespace())
		if err != nil {
			return true, nil, err
		}
		list := object.(*corev1.PodList)
		kept := list.Items[:0:0]
		for _, p := range list.Items {
			if p.Name != name {
				kept = append(kept, p)
			}
		}
		list.Items = kept
		return true, list, nil
	})
}

func TestRunCleansUpWhenCancelled(t *testing.T) {
	inBubble(t, func(ctx context.Context, t *testing.T) {
		client := cluster(ctx, t)
		runCtx, cancel := context.WithCancel(ctx)
		end := time.Now().Add(1500 * time.Millisecond)
		time.AfterFunc(time.Until(end), cancel)
		result, err := Run(runCtx, Options{Client: client, Pods: threePods, Scale: Scale{Arrivals: 10, Lifetimes: 1}})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error is %v, want the context's", err)
		}
		if result == nil || !result.Began.Add(result.Window).Equal(end) || len(result.Stays) != 2 {
			t.Errorf("result is %+v, want the two pods of the first 1.5 s", result)
		}
		if names := left(ctx, t, client); names != nil {
			t.Errorf("pods %v are still there", names)
		}
	})
}

func TestRunStopsCleaningUpInTheEnd(t *testing.T) {
	inBubble(t, func(ctx context.Context, t *testing.T) {
		client := cluster(ctx, t)
		client.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewInternalError(errors.New("no etcd"))
		})
		began := time.Now()
		result, err := Run(ctx, Options{Client: client, Pods: threePods, Scale: Scale{Arrivals: 10, Lifetimes: 1}, Window: 4 * time.Second})
		if err == nil || !strings.Contains(err.Error(), "3 pods were not removed: no pod has been removed for 30s") {
			t.Errorf("error is %v, want one that counts the pods left", err)
		}
		if result == nil || len(result.Stays) != 3 {
			t.Errorf("result is %+v, want three pods anyway", result)
		}
		if took := time.Since(began); took < 34*time.Second || took > 37*time.Second {
			t.Errorf("took %s, want 34 s and a little to start and end the watch", took)
		}
	})
}

func TestRunContinuesCleaningUpAsLongAsPodsGo(t *testing.T) {
	inBubble(t, func(ctx context.Context, t *testing.T) {
		client := cluster(ctx, t)
		began := time.Now()
		// A busy API server: the pods can be deleted only 20 s, 40 s and 60 s after the window.
		after := map[string]time.Duration{"first": 24 * time.Second, "huge": 44 * time.Second, "late": 64 * time.Second}
		client.PrependReactor("delete", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
			name := action.(clienttesting.DeleteAction).GetName()
			if time.Since(began) < after[name] {
				return true, nil, apierrors.NewInternalError(errors.New("busy"))
			}
			return false, nil, nil
		})
		_, err := Run(ctx, Options{Client: client, Pods: threePods, Scale: Scale{Arrivals: 10, Lifetimes: 1}, Window: 4 * time.Second})
		if err != nil {
			t.Error(err)
		}
		if names := left(ctx, t, client); names != nil {
			t.Errorf("pods %v are still there", names)
		}
	})
}

func TestAPodThatEndsByItselfIsRemoved(t *testing.T) {
	inBubble(t, func(ctx context.Context, t *testing.T) {
		client := cluster(ctx, t)
		end := time.Now().Add(2 * time.Second)
		time.AfterFunc(time.Until(end), func() {
			pod, err := client.CoreV1().Pods("default").Get(ctx, "first", metav1.GetOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			pod.Status.Phase = corev1.PodFailed
			if _, err := client.CoreV1().Pods("default").UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
				t.Error(err)
			}
		})
		result, err := Run(ctx, Options{Client: client, Pods: threePods[1:2], Scale: Scale{Arrivals: 10, Lifetimes: 20}})
		if err != nil {
			t.Fatal(err)
		}
		if len(result.Stays) != 1 || !result.Began.Add(result.Stays[0].Gone).Equal(end) {
			t.Errorf("result is %+v, want one pod that gave its room back after 2 s", result)
		}
		if names := left(ctx, t, client); names != nil {
			t.Errorf("pods %v are still there", names)
		}
	})
}

// busyClient counts concurrent create calls, each of which takes a time. The fake itself serializes
// calls.
type busyClient struct {
	kubernetes.Interface
	typedcorev1.CoreV1Interface
	typedcorev1.PodInterface
	takes       time.Duration
	under, most atomic.Int32
}

func (c *busyClient) CoreV1() typedcorev1.CoreV1Interface { return c }

func (c *busyClient) Pods(string) typedcorev1.PodInterface { return busyPods{c.PodInterface, c} }

// IsWatchListSemanticsUnSupported returns the same as the fake: informers list first.
func (c *busyClient) IsWatchListSemanticsUnSupported() bool { return true }

func (c *busyClient) RESTClient() rest.Interface { return c.CoreV1Interface.RESTClient() }

type busyPods struct {
	typedcorev1.PodInterface
	count *busyClient
}

func (p busyPods) Create(ctx context.Context, pod *corev1.Pod, opts metav1.CreateOptions) (*corev1.Pod, error) {
	p.count.most.Store(max(p.count.most.Load(), p.count.under.Add(1)))
	defer p.count.under.Add(-1)
	time.Sleep(p.count.takes) // virtual time: lets the other workers start
	return p.PodInterface.Create(ctx, pod, opts)
}

func TestRunKeepsToItsConcurrency(t *testing.T) {
	inBubble(t, func(ctx context.Context, t *testing.T) {
		inner := cluster(ctx, t)
		client := &busyClient{Interface: inner, CoreV1Interface: inner.CoreV1(), PodInterface: inner.CoreV1().Pods("default"), takes: time.Millisecond}
		pods := make([]trace.Pod, 50)
		for i := range pods {
			pods[i] = trace.Pod{Item: packing.Item{Name: fmt.Sprintf("p-%d", i), Runtime: time.Second}}
		}
		result, err := Run(ctx, Options{Client: client, Pods: pods, Scale: Scale{Arrivals: 1, Lifetimes: 1}, Concurrency: 3})
		if err != nil {
			t.Fatal(err)
		}
		if most := client.most.Load(); len(result.Stays) != 50 || most != 3 {
			t.Errorf("%d pods, %d calls at a time, want 50 and 3", len(result.Stays), most)
		}
	})
}

func TestRunRefusesBadOptions(t *testing.T) {
	_, err := Run(t.Context(), Options{
		Pods: []trace.Pod{{Item: packing.Item{Name: "a"}}, {Item: packing.Item{Name: "a"}}}, Scale: Scale{Arrivals: -1}, Window: -1, Concurrency: -1, Run: "?",
	})
	for _, want := range []string{"a client is required", "scale of arrivals", "scale of lifetimes", "window", "concurrency", `run "?"`, `two pods have the name "a"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want it to contain %q", err, want)
		}
	}
	_, err = Run(t.Context(), Options{
		Client: fake.NewClientset(), Pods: threePods, Scale: Scale{Arrivals: 1, Lifetimes: 1}, Namespace: "nowhere",
	})
	if err == nil || !strings.Contains(err.Error(), "read namespace nowhere") {
		t.Errorf("error is %v, want one about the namespace", err)
	}
}

func TestRunRefusesToMixWithPodsFromBefore(t *testing.T) {
	inBubble(t, func(ctx context.Context, t *testing.T) {
		client := cluster(ctx, t)
		pod := PodOf(threePods[0], time.Second, Options{Namespace: "default", Run: "replay"})
		if _, err := client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		_, err := Run(ctx, Options{Client: client, Pods: threePods, Scale: Scale{Arrivals: 1, Lifetimes: 1}})
		if err == nil || !strings.Contains(err.Error(), "still has 1 pod with the label supercargo.dev/replay=replay") {
			t.Errorf("error is %v, want one that says what is in the way", err)
		}
	})
}

func TestFitArrivals(t *testing.T) {
	if got := FitArrivals(threePods, 3*time.Second); got != 10 {
		t.Errorf("FitArrivals = %v, want 10", got)
	}
	for _, pods := range [][]trace.Pod{nil, threePods[:1]} {
		if got := FitArrivals(pods, time.Second); got != 1 {
			t.Errorf("FitArrivals of %d pods = %v, want 1", len(pods), got)
		}
	}
	if got := FitArrivals(threePods, 0); got != 1 {
		t.Errorf("FitArrivals into no time = %v, want 1", got)
	}
}

// takeAway deletes or fails a pod some time after its first creation, as a drain or a failing node
// does.
func takeAway(ctx context.Context, t *testing.T, client *fake.Clientset, name string, after time.Duration, fail bool) {
	t.Helper()
	pods := client.CoreV1().Pods("default")
	created, err := pods.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-created.ResultChan()
		created.Stop()
		time.Sleep(after) // virtual time: how long the pod runs until it is taken away
		if !fail {
			_ = pods.Delete(ctx, name, metav1.DeleteOptions{})
			return
		}
		pod, err := pods.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return
		}
		pod.Status.Phase = corev1.PodFailed
		_, _ = pods.Update(ctx, pod, metav1.UpdateOptions{})
	}()
}

func TestAPodThatIsTakenAwayRunsAgainFromItsBeginningIfItHasAController(t *testing.T) {
	first := func(created, gone time.Duration) report.Stay {
		return report.Stay{Pod: "first", MilliCPU: 100, MemoryBytes: 1, Created: created, Bound: created, Gone: gone, Node: "node-1"}
	}
	for _, tc := range []struct {
		name     string
		fail     bool
		recreate bool
		want     report.Stay
		replaced []report.Stay
	}{
		{name: "deleted", recreate: true, want: first(time.Second, 5*time.Second), replaced: []report.Stay{first(0, time.Second)}},
		{name: "failed", fail: true, recreate: true, want: first(time.Second, 5*time.Second), replaced: []report.Stay{first(0, time.Second)}},
		{name: "deleted, without a controller", want: first(0, time.Second)},
		{name: "failed, without a controller", fail: true, want: first(0, time.Second)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, func(ctx context.Context, t *testing.T) {
				client := cluster(ctx, t)
				takeAway(ctx, t, client, "first", time.Second, tc.fail)
				result, err := Run(ctx, Options{
					Client: client, Pods: threePods[1:2], Scale: Scale{Arrivals: 10, Lifetimes: 20}, Window: 6 * time.Second, Recreate: tc.recreate,
				})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff([][]report.Stay{{tc.want}, tc.replaced}, [][]report.Stay{result.Stays, result.Replaced}); diff != "" {
					t.Errorf("stays and those replaced (-want +got):\n%s", diff)
				}
				if result.Lost != 1 {
					t.Errorf("%d pods were lost, want 1", result.Lost)
				}
				if names := left(ctx, t, client); names != nil {
					t.Errorf("pods %v are still there", names)
				}
			})
		})
	}
}

func TestPodsThatTheReplayEndsItselfAreNotLost(t *testing.T) {
	inBubble(t, func(ctx context.Context, t *testing.T) {
		result, err := Run(ctx, Options{
			Client: cluster(ctx, t), Pods: threePods, Scale: Scale{Arrivals: 10, Lifetimes: 20}, Window: 5 * time.Second, Recreate: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(wantStays, result.Stays); diff != "" || result.Lost+len(result.Replaced) != 0 {
			t.Errorf("%d pods lost, stays (-want +got):\n%s", result.Lost, diff)
		}
	})
}

// TestAPodIsNotGoneBeforeItIsBound tests both orders: several goroutines take the times of
// sightings and answers, so the end of a pod may be observed first or have an earlier time.
func TestAPodIsNotGoneBeforeItIsBound(t *testing.T) {
	for name, both := range map[string]func(bound, gone func()){
		"bound first": func(bound, gone func()) { bound(); gone() },
		"gone first":  func(bound, gone func()) { gone(); bound() },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(Options{Pods: []trace.Pod{{Item: packing.Item{Name: "a", Runtime: time.Second}}}, Scale: Scale{Arrivals: 1, Lifetimes: 1}})
			r.result = &Result{} // the window is over: nothing is planned any more
			p := &r.pods[0]
			p.created, p.stay.Created = true, time.Second
			both(
				func() { r.bound(0, sighting{node: "n", at: r.began.Add(3 * time.Second)}) },
				func() { r.returnPod(p, r.began.Add(2*time.Second)) },
			)
			if p.stay.Gone != 3*time.Second {
				t.Errorf("gone at %v, want 3s, when it was bound", p.stay.Gone)
			}
		})
	}
}
