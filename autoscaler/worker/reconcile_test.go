package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/platform/pause"
	"supercargo.dev/supercargo/test/kit/testapi"
)

func TestWhatIsToBeDoneIsRecordedBeforeItIsDone(t *testing.T) {
	m := startManager(t)
	refuse := true
	b := newBench(t, interceptor.Funcs{SubResourceUpdate: func(ctx context.Context, c client.Client, what string, o client.Object, opts ...client.SubResourceUpdateOption) error {
		if refuse {
			return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("workerpools").GroupResource(), o.GetName(), errors.New("somebody else wrote it"))
		}
		return c.SubResource(what).Update(ctx, o, opts...)
	}}, poolAt(m.Address))
	if _, err := b.Reconcile(t.Context(), reconcile.Request{NamespacedName: name}); !apierrors.IsConflict(errors.Unwrap(err)) || len(b.pods()) > 0 {
		t.Fatalf("error %v and %d pods, want the conflict and none", err, len(b.pods()))
	}
	refuse = false
	if b.evaluate(); len(b.pods()) != 1 {
		t.Errorf("%d pods, want one at once: nothing was done before", len(b.pods()))
	}
}

func TestAResizeThatWasHalfDoneCountsAsOne(t *testing.T) {
	m := startManager(t)
	m.Put(answers(1795334232, 2, 0, []string{task(1, "split", 4, ""), task(2, "fold", 4, "")}, nil)) // one of each category
	made := 0
	b := newBench(t, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if made++; made == 2 {
			return errors.New("no quota")
		}
		return c.Create(ctx, o, opts...)
	}}, poolAt(m.Address))
	if _, err := b.Reconcile(t.Context(), reconcile.Request{NamespacedName: name}); err == nil || !strings.Contains(err.Error(), "worker 2 of 2: no quota") {
		t.Fatalf("error %v, want that of the second pod", err)
	}
	if b.evaluate(); len(b.pods()) != 1 {
		t.Errorf("%d pods, want one until an initialisation time is over", len(b.pods()))
	}
	b.clock.SetTime(begin.Add(time.Minute + time.Second))
	if b.evaluate(); len(b.pods()) != 2 {
		t.Errorf("%d pods an initialisation time later, want two", len(b.pods()))
	}
}

func TestADryRunWritesNothing(t *testing.T) {
	m := startManager(t)
	b := newBench(t, interceptor.Funcs{}, poolAt(m.Address))
	b.DryRun = true
	if p := b.evaluate(); len(b.pods()) > 0 || len(p.Status.Conditions) > 0 || len(b.events.Events) > 0 {
		t.Errorf("%d pods, status %+v, %d Events; want nothing", len(b.pods()), p.Status, len(b.events.Events))
	}
}

func TestAPausedPoolSaysWhatItWouldDoAndActsWhenItIsResumed(t *testing.T) {
	m := startManager(t)
	b := newBench(t, interceptor.Funcs{}, poolAt(m.Address))
	b.Pause = &pause.Switch{Client: b.Client, Namespace: "home"}
	paused := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "home", Name: pause.Name}, Data: map[string]string{pause.ReasonKey: "an incident"}}
	testapi.Create(t, b, paused)
	p := b.evaluate()
	if d := p.Status.LastDecision; len(b.pods()) > 0 || d == nil || d.Mode != v1alpha1.WorkerPoolObserve {
		t.Errorf("%d pods of a paused pool, decision %+v", len(b.pods()), d)
	}
	if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionPaused); c == nil || !strings.Contains(c.Message, "an incident") {
		t.Errorf("condition Paused is %+v", c)
	}
	testapi.Delete(t, b, paused)
	if p = b.evaluate(); len(b.pods()) == 0 || meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionPaused) != nil {
		t.Errorf("%d pods once it is resumed, conditions %+v", len(b.pods()), p.Status.Conditions)
	}

	paused.ResourceVersion = ""
	testapi.Create(t, b, paused)
	b.evaluate()
	testapi.Delete(t, b, paused)
	b.evaluate()
	told := map[string]int{}
	for len(b.events.Events) > 0 {
		told[strings.Fields(<-b.events.Events)[1]]++
	}
	if told[v1alpha1.ConditionPaused] != 2 || told[v1alpha1.ReasonResumed] != 2 {
		t.Errorf("of two pauses %v is told, want each beginning and each end", told)
	}
}

func TestAPoolThatIsBeingDeletedMakesNothing(t *testing.T) {
	m := startManager(t)
	pool := poolAt(m.Address)
	pool.Finalizers, pool.DeletionTimestamp = []string{"somebody/else"}, &metav1.Time{Time: begin}
	b := newBench(t, interceptor.Funcs{}, pool)
	if b.evaluate(); len(b.pods()) > 0 {
		t.Errorf("%d pods for a pool that is going", len(b.pods()))
	}
}

func TestAPoolOfTheSameNameBeginsAgain(t *testing.T) {
	m := startManager(t)
	pool := poolAt(m.Address)
	b := newBench(t, interceptor.Funcs{}, pool.DeepCopy())
	b.evaluate()
	testapi.Delete(t, b, b.pool())
	pool.UID = "another"
	testapi.Create(t, b, pool)
	b.evaluate() // the only pod belongs to the previous pool, and no resize is known
	if pods := b.pods(); len(pods) != 2 || pods[0].OwnerReferences[0].UID == pods[1].OwnerReferences[0].UID {
		t.Errorf("%d pods, want one of each pool", len(pods))
	}
}

func TestOnlyTheVeryPodThatWasSeenIsTold(t *testing.T) {
	b, _, _ := anIdleWorker(t)
	seen := b.pods()[0]
	var told *client.DeleteOptions
	b.Client = interceptor.NewClient(b.Client.(client.WithWatch), interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
		told = (&client.DeleteOptions{}).ApplyOptions(opts)
		return c.Delete(ctx, o, opts...)
	}})
	b.Reconciler.Client = b.Client
	testapi.Update(t, b, &seen)
	b.evaluate()
	if told == nil || told.Preconditions == nil || told.Preconditions.UID == nil || *told.Preconditions.UID != seen.UID {
		t.Errorf("deleted with %+v, want only the pod of UID %q", told, seen.UID)
	}
	if told != nil && told.GracePeriodSeconds != nil {
		t.Errorf("deleted with a grace of %d s, want the pod's own", *told.GracePeriodSeconds)
	}
}

func TestWhatADecisionCameToIsNextToWhatWasExpected(t *testing.T) {
	b, m, worker := anIdleWorker(t)
	d := b.pool().Status.LastDecision
	if d.Add != 1 || d.ExpectedReady == nil || d.ExpectedReady.Duration != time.Minute || d.MeasuredReady == nil || d.MeasuredReady.Duration != 61*time.Second {
		t.Errorf("%+v, want a worker expected after a minute and seen a second later", d)
	}
	busy := strings.Replace(worker, `"cores_total"`, `"total_tasks_running":1,"cores_inuse":4,"cores_total"`, 1)
	m.Put(answers(1795334232, 0, 1, []string{task(3, "split", 4, "10.0.0.1:1")}, []string{busy}))
	if b.evaluate(); len(b.pods()) != 1 {
		t.Error("a busy worker is told to leave")
	}
}

func TestAWorkerThatDoesNotComeIsNamed(t *testing.T) {
	m := startManager(t)
	b := newBench(t, interceptor.Funcs{}, poolAt(m.Address))
	b.evaluate()
	pod := b.pods()[0]
	pod.CreationTimestamp = metav1.NewTime(begin)
	testapi.Update(t, b, &pod)
	for _, tc := range []struct {
		status corev1.PodStatus
		says   string
	}{
		{corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/3 nodes are available"}}}, "0/3 nodes are available"},
		{corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "worker", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}}}}}, "ImagePullBackOff: no such image"},
	} {
		pod.Status = tc.status
		if err := b.Client.Status().Update(t.Context(), &pod); err != nil {
			t.Fatal(err)
		}
		b.clock.SetTime(begin.Add(3*time.Minute - time.Second))
		b.evaluate()
		b.expect(v1alpha1.PoolDegraded, metav1.ConditionFalse, "WorkersReady")
		b.clock.SetTime(begin.Add(3 * time.Minute))
		b.evaluate()
		b.expect(v1alpha1.PoolDegraded, metav1.ConditionTrue, "WorkersNotReady")
		if !b.told("WorkersNotReady pod " + pod.Name + ": " + tc.says) {
			t.Errorf("no Event says %q", tc.says)
		}
	}
}

func TestAWorkerThatRunsAndNeverConnectsIsNamed(t *testing.T) {
	m := startManager(t)
	b := newBench(t, interceptor.Funcs{}, poolAt(m.Address))
	b.evaluate()
	pod := b.pods()[0]
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "worker", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(begin)}}}}}
	if err := b.Client.Status().Update(t.Context(), &pod); err != nil {
		t.Fatal(err)
	}
	for after, reason := range []string{"WorkersReady", "WorkersReady", "WorkersReady", "WorkersDoNotConnect"} { // minutes, which are initialisation times
		b.clock.SetTime(begin.Add(time.Duration(after) * time.Minute))
		b.evaluate()
		b.expect(v1alpha1.PoolDegraded, map[bool]metav1.ConditionStatus{false: metav1.ConditionFalse, true: metav1.ConditionTrue}[reason == "WorkersDoNotConnect"], reason)
	}
	if len(b.pods()) != 1 || !b.told("WorkersDoNotConnect 1 worker runs but has not connected to the manager at "+m.Address+", such as pod "+pod.Name) {
		t.Errorf("%d pods, want the worker kept, since no other is connected, and an Event that names it", len(b.pods()))
	}
}

func TestAStatusThatSomebodyHasEditedTeachesNothing(t *testing.T) {
	s := &v1alpha1.WorkerPoolStatus{
		InitTimes:  []v1alpha1.WorkerInitTime{{Flavor: "a", Mean: span(-time.Hour), Samples: 3}, {Flavor: "b", Mean: span(time.Hour)}, {Flavor: "c", Mean: span(time.Minute), Samples: 1}},
		Categories: []v1alpha1.TaskCategory{{Name: "x", MeanRuntime: new(span(-time.Second)), Samples: 5}, {Name: "y", MeanRuntime: new(span(time.Second)), Samples: 1 << 30}},
	}
	m := recall(s)
	if len(m.InitTimes) != 1 || m.InitTimes[0].Flavor != "c" || len(m.Categories[0].Recent) != 0 || len(m.Categories[1].Recent) > 32 {
		t.Errorf("recalled %+v", m)
	}
}

// fleetOf is a NodeFleet with a flavor of four cores, one of eight, and an expensive one.
func fleetOf() *v1alpha1.NodeFleet {
	q := func(text string) *resource.Quantity { return new(resource.MustParse(text)) }
	return &v1alpha1.NodeFleet{ObjectMeta: metav1.ObjectMeta{Name: "batch"}, Status: v1alpha1.NodeFleetStatus{Flavors: []v1alpha1.FlavorStatus{
		{Name: "four", CPU: q("4"), Memory: q("16Gi"), PricePerHour: "0.2", InstanceType: "m.four"},
		{Name: "eight", CPU: q("8"), Memory: q("32Gi"), PricePerHour: "0.5", InstanceType: "m.eight"},
		{Name: "dear", CPU: q("16"), Memory: q("64Gi"), PricePerHour: "9"},
	}}}
}

func TestAWorkerSelectsTheMachinesOfTheFlavorThatCostsLeast(t *testing.T) {
	m := startManager(t)
	onFleet := func(flavors ...string) corev1.Pod {
		t.Helper()
		b := newBench(t, interceptor.Funcs{}, fleetOf(), poolAt(m.Address, func(s *v1alpha1.WorkerPoolSpec) {
			s.Worker.Resources, s.Worker.NodeFleet, s.Worker.Flavors = nil, "batch", flavors
		}))
		p := b.evaluate()
		pods := b.pods()
		if len(pods) != 1 || p.Status.LastDecision.Flavor != pods[0].Annotations[v1alpha1.AnnotationFlavor] {
			t.Fatalf("%d pods, decision %+v", len(pods), p.Status.LastDecision)
		}
		return pods[0]
	}
	if pod := onFleet(); pod.Spec.NodeSelector[corev1.LabelInstanceTypeStable] != "m.four" {
		t.Errorf("selects %v, want the machines of the flavor that costs least", pod.Spec.NodeSelector)
	}
	if pod := onFleet("eight", "dear"); pod.Spec.NodeSelector[corev1.LabelInstanceTypeStable] != "m.eight" || pod.Spec.Containers[0].Resources.Requests.Cpu().Value() != 8 {
		t.Errorf("selects %v and requests %v, want a whole machine of those that may be used", pod.Spec.NodeSelector, pod.Spec.Containers[0].Resources.Requests)
	}
}

func TestWorkersLeaveWhatDaemonSetsTake(t *testing.T) {
	daemon := func(name string, spec corev1.PodSpec) *appsv1.DaemonSet {
		requests := func(cpu, memory string) corev1.ResourceRequirements {
			return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}}
		}
		spec.Containers = []corev1.Container{{Name: "c", Resources: requests("250m", "512Mi")}}
		spec.InitContainers = []corev1.Container{{Name: "sidecar", RestartPolicy: new(corev1.ContainerRestartPolicyAlways), Resources: requests("150m", "256Mi")}}
		spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("256Mi")}
		return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}, Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: spec}}}
	}
	b := newBench(t, interceptor.Funcs{}, fleetOf(), daemon("everywhere", corev1.PodSpec{}), daemon("linux", corev1.PodSpec{NodeSelector: map[string]string{corev1.LabelOSStable: "linux"}}),
		daemon("elsewhere", corev1.PodSpec{NodeSelector: map[string]string{"gpu": "yes"}}), daemon("somewhere", corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}}))
	for _, tc := range []struct {
		name    string
		change  func(*v1alpha1.WorkerPoolSpec)
		cores   int64
		memory  string
		dollars int64 // micro-dollars per hour
		trouble string
	}{
		{"two of them are on each machine", func(*v1alpha1.WorkerPoolSpec) {}, 3, "14Gi", 200_000, ""},
		{"and more is reserved", func(s *v1alpha1.WorkerPoolSpec) {
			s.Worker.Reserved = v1alpha1.WorkerReserve{CPU: new(resource.MustParse("100m"))}
		}, 2, "14Gi", 200_000, ""},
		{"the template has a sidecar, with a limit alone, and an init container that ends before", func(s *v1alpha1.WorkerPoolSpec) {
			s.Template.Raw = []byte(`{"spec":{"containers":[{"name":"worker","image":"cctools","resources":{"requests":{"cpu":"2"}}}, {"name":"log","image":"log","resources":{"limits":{"cpu":"100m","memory":"1Gi"}}}],
				"initContainers":[{"name":"setup","image":"setup","resources":{"requests":{"cpu":"1","memory":"4Gi"}}}]}}`)
		}, 2, "13Gi", 200_000, ""},
		{"with the sidecar, a stated size does not fit", func(s *v1alpha1.WorkerPoolSpec) {
			s.Template.Raw = []byte(`{"spec":{"containers":[{"name":"worker","image":"cctools"}, {"name":"log","image":"log","resources":{"requests":{"cpu":"500m"}}}]}}`)
			s.Worker.Resources = &v1alpha1.WorkerResources{Cores: 3, Memory: resource.MustParse("1Gi")}
		}, 3, "1Gi", 200_000, "a machine has 2 whole cores"},
		{"a stated size that fits", func(s *v1alpha1.WorkerPoolSpec) {
			s.Worker.Resources = &v1alpha1.WorkerResources{Cores: 1, Memory: resource.MustParse("7Gi")}
		}, 1, "7Gi", 200_000, ""},
		{"two that share a machine pay half each", func(s *v1alpha1.WorkerPoolSpec) {
			s.Worker.Resources, s.Worker.Packing = &v1alpha1.WorkerResources{Cores: 1, Memory: resource.MustParse("7Gi")}, v1alpha1.WorkersPacked
		}, 1, "7Gi", 100_000, ""},
		{"one that does not fit", func(s *v1alpha1.WorkerPoolSpec) {
			s.Worker.Resources = &v1alpha1.WorkerResources{Cores: 4, Memory: resource.MustParse("1Gi")}
		}, 4, "1Gi", 200_000, "a machine has 3 whole cores and 14336 MiB of memory for workers, which is too little for one"},
	} {
		pool := poolAt("m:1", func(s *v1alpha1.WorkerPoolSpec) { s.Worker.Resources, s.Worker.NodeFleet = nil, "batch" }, tc.change)
		c, why, err := (&reconciliation{Reconciler: b.Reconciler, pool: pool, now: begin}).config(t.Context())
		if err != nil || why.message != "" {
			t.Fatalf("%s: %v, %v", tc.name, why, err)
		}
		f, memory := c.Flavors[0], resource.MustParse(tc.memory)
		if f.Worker.MilliCores != 1000*tc.cores || f.Worker.MemoryBytes != memory.Value() || f.MicroDollarsPerHour != tc.dollars || !strings.HasPrefix(f.Trouble, tc.trouble) || (tc.trouble == "") != (f.Trouble == "") {
			t.Errorf("%s: %+v, want %d cores, %s, %d micro-dollars and trouble %q", tc.name, f, tc.cores, tc.memory, tc.dollars, tc.trouble)
		}
	}
}

func TestPodsOfOneAddressTellNothingByIt(t *testing.T) {
	m := startManager(t)
	b := newBench(t, interceptor.Funcs{}, poolAt(m.Address))
	owner := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Other", Name: "o", UID: types.UID("pool-uid")}}
	for i, ip := range []string{"10.0.0.1", "10.0.0.1", "10.0.0.2"} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("w-%d", i), Labels: map[string]string{v1alpha1.LabelWorkerPool: "flow"}, OwnerReferences: owner},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "worker"}}}, Status: corev1.PodStatus{PodIP: ip},
		}
		testapi.Create(t, b, pod)
	}
	rc := &reconciliation{Reconciler: b.Reconciler, pool: b.pool(), now: begin}
	if err := rc.observePods(t.Context()); err != nil {
		t.Fatal(err)
	}
	var ips []string
	for _, p := range rc.seen.Pods {
		ips = append(ips, p.IP)
	}
	if slices.Sort(ips); !slices.Equal(ips, []string{"", "", "10.0.0.2"}) {
		t.Errorf("addresses %q, want only the one that one pod alone has", ips)
	}
}

// TestConditionsAreMetrics: alerts can use the conditions of the status, until the pool is deleted.
func TestConditionsAreMetrics(t *testing.T) {
	m := startManager(t)
	b := newBench(t, interceptor.Funcs{}, poolAt(m.Address))
	shown := func() string {
		text, err := testutil.CollectAndFormat(metricConditions, expfmt.TypeTextPlain, "supercargo_workerpool_condition")
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	pool := b.evaluate()
	want := fmt.Sprintf(`supercargo_workerpool_condition{namespace=%q,pool=%q,reason="Responding",status="True",type="Connected"} 1`, pool.Namespace, pool.Name)
	if got := shown(); !strings.Contains(got, want) {
		t.Errorf("the metrics have no %s:\n%s", want, got)
	}
	testapi.Delete(t, b, pool)
	if _, err := b.Reconcile(t.Context(), reconcile.Request{NamespacedName: name}); err != nil {
		t.Fatal(err)
	}
	if got := shown(); strings.Contains(got, fmt.Sprintf("pool=%q", pool.Name)) {
		t.Errorf("a pool that is no more is shown:\n%s", got)
	}
}
