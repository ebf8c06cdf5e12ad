package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/worker/estimate"
	"supercargo.dev/supercargo/autoscaler/worker/workerdecide"
	"supercargo.dev/supercargo/autoscaler/worker/workqueue"
	"supercargo.dev/supercargo/autoscaler/worker/workqueue/workqueuetest"
	"supercargo.dev/supercargo/test/fixtures"
	"supercargo.dev/supercargo/test/kit/testapi"
	"supercargo.dev/supercargo/test/kit/testfile"
	"supercargo.dev/supercargo/test/kit/testwait"
)

var begin = time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)

// startManager starts a manager with two waiting tasks of one core, and no worker.
func startManager(t *testing.T) *workqueuetest.Manager {
	t.Helper()
	return workqueuetest.Start(t, twoWait, "", nil)
}

// twoWait are the answers of a manager with two waiting tasks of one core, and no worker.
var twoWait = map[string]string{
	"queue_status": `[{"project":"p","starttime":1795334232,"tasks_waiting":2}]`, "worker_status": `[]`,
	"task_status":  `[{"taskid":1,"category":"split","state":"WAITING","cores":1},{"taskid":2,"category":"split","state":"WAITING","cores":1}]`,
	"wable_status": `[{"category":"split","tasks_waiting":2}]`,
}

func span(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }

func poolAt(address string, change ...func(*v1alpha1.WorkerPoolSpec)) *v1alpha1.WorkerPool {
	p := &v1alpha1.WorkerPool{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "flow", UID: "pool-uid", Generation: 1},
		Spec: v1alpha1.WorkerPoolSpec{
			Mode:    v1alpha1.WorkerPoolAct,
			Manager: v1alpha1.WorkQueueManager{Address: &address, Timeout: span(20 * time.Second), GoneAfter: span(time.Minute)},
			Worker: v1alpha1.WorkerShape{
				Packing: v1alpha1.WorkersOnePerNode, Resources: &v1alpha1.WorkerResources{Cores: 4, Memory: resource.MustParse("8Gi")},
				IdleTimeout: span(30 * time.Second), DrainTimeout: span(time.Hour),
			},
			Template: runtime.RawExtension{Raw: []byte(`{"metadata":{"labels":{"team":"a"}},"spec":{"containers":[{"name":"worker","image":"cctools"}]}}`)},
			Limits:   v1alpha1.WorkerLimits{Max: 5},
			Scaling:  v1alpha1.WorkerScaling{Law: v1alpha1.WorkerLawSupercargo, Interval: span(10 * time.Second), ExpectedInitTime: span(time.Minute)},
		},
	}
	for _, f := range change {
		f(&p.Spec)
	}
	return p
}

// bench is a reconciler with its environment.
type bench struct {
	*testing.T
	client.Client
	*Reconciler
	clock  *clocktesting.FakePassiveClock
	events *events.FakeRecorder
}

func newBench(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) *bench {
	t.Helper()
	b := &bench{T: t, clock: clocktesting.NewFakePassiveClock(begin), events: events.NewFakeRecorder(100)}
	create := funcs.Create
	funcs.Create = func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if o.GetCreationTimestamp().Time.IsZero() {
			o.SetCreationTimestamp(metav1.NewTime(b.clock.Now())) // as the API server does
		}
		if create != nil {
			return create(ctx, c, o, opts...)
		}
		return c.Create(ctx, o, opts...)
	}
	c := fixtures.Client().WithStatusSubresource(&v1alpha1.WorkerPool{}).WithObjects(objects...).WithInterceptorFuncs(funcs).Build()
	b.Client = c
	b.restart()
	return b
}

// restart replaces the reconciler by one with empty memory.
func (b *bench) restart() {
	b.Reconciler = &Reconciler{Client: b.Client, Live: b.Client, Events: b.events, Clock: b.clock}
}

var name = types.NamespacedName{Namespace: "ns", Name: "flow"}

func (b *bench) evaluate() *v1alpha1.WorkerPool {
	b.Helper()
	if _, err := b.Reconcile(b.Context(), reconcile.Request{NamespacedName: name}); err != nil {
		b.Fatal(err)
	}
	return b.pool()
}

func (b *bench) pool() *v1alpha1.WorkerPool {
	b.Helper()
	p := &v1alpha1.WorkerPool{}
	if err := b.Get(b.Context(), name, p); err != nil {
		b.Fatal(err)
	}
	return p
}

func (b *bench) pods() []corev1.Pod {
	b.Helper()
	var list corev1.PodList
	if err := b.List(b.Context(), &list); err != nil {
		b.Fatal(err)
	}
	return list.Items
}

func (b *bench) expect(kind string, status metav1.ConditionStatus, reason string) {
	b.Helper()
	c := meta.FindStatusCondition(b.pool().Status.Conditions, kind)
	if c == nil || c.Status != status || c.Reason != reason {
		b.Errorf("%s is %+v, want %s (%s)", kind, c, status, reason)
	}
}

func TestAPoolMakesAWorkerForWhatWaits(t *testing.T) {
	m := startManager(t)
	b := newBench(t, interceptor.Funcs{}, poolAt(m.Address))
	p := b.evaluate()
	if pods := b.pods(); len(pods) != 1 || pods[0].Labels["team"] != "a" || pods[0].Labels[v1alpha1.LabelWorkerPool] != "flow" {
		t.Fatalf("pods %+v, want one worker", pods)
	}
	s := p.Status
	if s.Phase != "WarmUp" || s.Queue.Waiting != 2 || s.ShortageCores != "2" || s.LastDecision == nil || s.LastDecision.Add != 1 || !s.Resized.Time.Equal(begin) {
		t.Errorf("status %+v", s)
	}
	if len(s.Categories) != 1 || s.Categories[0].Source != "Declared" || s.Categories[0].CPU.Value() != 1 {
		t.Errorf("categories %+v, want what the tasks declare", s.Categories)
	}
	b.expect(v1alpha1.PoolReady, metav1.ConditionTrue, "Active")
	b.expect(v1alpha1.PoolConnected, metav1.ConditionTrue, "Responding")
	b.restart() // the worker is starting, and the new reconciler knows
	if b.evaluate(); len(b.pods()) != 1 {
		t.Errorf("%d pods, want the same one", len(b.pods()))
	}
}

func TestAPoolInModeObserveMakesNothing(t *testing.T) {
	m := startManager(t)
	b := newBench(t, interceptor.Funcs{}, poolAt(m.Address, func(s *v1alpha1.WorkerPoolSpec) { s.Mode = v1alpha1.WorkerPoolObserve }))
	if p := b.evaluate(); len(b.pods()) != 0 || p.Status.LastDecision.Add != 1 {
		t.Errorf("%d pods and %+v, want none and what would be done", len(b.pods()), p.Status.LastDecision)
	}
	if e := <-b.events.Events; !strings.Contains(e, "would add 1 worker:") {
		t.Errorf("event %q", e)
	}
}

// TestAPoolThatHasOnlyObservedActsAtOnce: a decision that was not carried out is no resize, so nothing waits for an
// initialisation time; earlier actual resizes still count.
func TestAPoolThatHasOnlyObservedActsAtOnce(t *testing.T) {
	m := startManager(t)
	b := newBench(t, interceptor.Funcs{}, poolAt(m.Address, func(s *v1alpha1.WorkerPoolSpec) { s.Mode = v1alpha1.WorkerPoolObserve }))
	if p := b.evaluate(); p.Status.LastDecision.Add != 1 || p.Status.Resized != nil {
		t.Errorf("decided %+v, resized at %v, want a decision that was not carried out", p.Status.LastDecision, p.Status.Resized)
	}
	b.mode(v1alpha1.WorkerPoolAct)
	b.clock.SetTime(begin.Add(time.Second))
	if p := b.evaluate(); len(b.pods()) != 1 || !p.Status.Resized.Time.Equal(b.clock.Now()) {
		t.Fatalf("%d pods, resized at %v, want one worker now", len(b.pods()), p.Status.Resized)
	}
	testapi.Delete(t, b, &b.pods()[0])
	for i, mode := range []v1alpha1.WorkerPoolMode{v1alpha1.WorkerPoolObserve, v1alpha1.WorkerPoolAct} {
		b.mode(mode)
		b.clock.SetTime(begin.Add(time.Duration(i+2) * time.Second))
		if p := b.evaluate(); len(b.pods()) != 0 || !p.Status.Resized.Time.Equal(begin.Add(time.Second)) {
			t.Errorf("in mode %s there are %d pods, resized at %v, want none before the initialisation time has passed", mode, len(b.pods()), p.Status.Resized)
		}
	}
}

func (b *bench) mode(to v1alpha1.WorkerPoolMode) {
	b.Helper()
	b.change(func(s *v1alpha1.WorkerPoolSpec) { s.Mode = to })
}

func (b *bench) timeout(to time.Duration) {
	b.Helper()
	b.change(func(s *v1alpha1.WorkerPoolSpec) { s.Manager.Timeout = span(to) })
}

func (b *bench) change(spec func(*v1alpha1.WorkerPoolSpec)) {
	b.Helper()
	p := b.pool()
	spec(&p.Spec)
	if err := b.Update(b.Context(), p); err != nil {
		b.Fatal(err)
	}
}

func TestAPoolWhoseManagerIsGoneDrainsItsWorkers(t *testing.T) {
	m := startManager(t)
	b := newBench(t, interceptor.Funcs{}, poolAt(m.Address))
	b.evaluate()
	m.Close() // the host refuses connections from now on
	b.clock.SetTime(begin.Add(2 * time.Minute))
	if b.evaluate(); len(b.pods()) != 1 {
		t.Fatal("a worker went for one refused connection")
	}
	b.expect(v1alpha1.PoolReady, metav1.ConditionFalse, "NotResized")
	b.expect(v1alpha1.PoolConnected, metav1.ConditionFalse, "NotResponding")
	b.clock.SetTime(begin.Add(2*time.Minute + 59*time.Second))
	b.restart() // the status stores since when it is gone
	if b.evaluate(); len(b.pods()) != 1 {
		t.Fatal("a worker went too soon")
	}
	b.clock.SetTime(begin.Add(3 * time.Minute))
	if p := b.evaluate(); len(b.pods()) != 0 || p.Status.Phase != "CleanUp" || !p.Status.GoneSince.Time.Equal(begin.Add(2*time.Minute)) {
		t.Errorf("%d pods in phase %s, gone since %v, want none", len(b.pods()), p.Status.Phase, p.Status.GoneSince)
	}
	b.expect(v1alpha1.PoolDegraded, metav1.ConditionFalse, "WorkersReady")
}

// TestAPoolKeepsTheWorkersOfAManagerThatIsSilent: for any kind of silence, workers may run tasks.
func TestAPoolKeepsTheWorkersOfAManagerThatIsSilent(t *testing.T) {
	all := func(m *workqueuetest.Manager, answer func(query string) string) {
		for query := range m.Answers() {
			m.Put(map[string]string{query: answer(query)})
		}
	}
	for _, tc := range []struct {
		name, reason, says string
		change             func(b *bench, m *workqueuetest.Manager)
	}{
		{"it does not answer", "ManagerUnreachable", "incomplete answer", func(_ *bench, m *workqueuetest.Manager) { all(m, func(string) string { return workqueuetest.Hang }) }},
		{"its answers are garbled", "ManagerResponseInvalid", "unexpected EOF", func(_ *bench, m *workqueuetest.Manager) {
			all(m, func(query string) string { return m.Answers()[query][:len(m.Answers()[query])/2] })
		}},
		{"it closes without an answer", "ManagerResponseInvalid", "closed without an answer", func(_ *bench, m *workqueuetest.Manager) { all(m, func(string) string { return "" }) }},
		{"its answer is too large", "ManagerResponseInvalid", "exceeds the maximum size", func(_ *bench, m *workqueuetest.Manager) {
			all(m, func(string) string { return strings.Repeat(" ", workqueue.DefaultMaxBytes+1) })
		}},
		{"its password is missing", "ManagerNotQueried", "read Secret makeflow", func(b *bench, _ *workqueuetest.Manager) {
			if err := b.Delete(b.Context(), secret("makeflow", "password", nil)); err != nil {
				b.Fatal(err)
			}
		}},
		{"another password", "ManagerResponseInvalid", "does not match that of the manager", func(b *bench, _ *workqueuetest.Manager) { b.put(secret("makeflow", "password", []byte("another"))) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := workqueuetest.Start(t, twoWait, "word\n", nil)
			b := newBench(t, interceptor.Funcs{}, secret("makeflow", "password", []byte("word\n")), poolAt(m.Address, func(s *v1alpha1.WorkerPoolSpec) {
				s.Manager.PasswordSecret, s.Manager.Timeout = &v1alpha1.SecretKey{Name: "makeflow", Key: "password"}, span(10*time.Second)
			}))
			b.evaluate()
			if tc.reason == "ManagerUnreachable" {
				b.timeout(500 * time.Millisecond) // expires at each reconciliation, and is long enough to connect
			}
			tc.change(b, m)
			for _, after := range []time.Duration{0, 59 * time.Second, time.Minute, 48 * time.Hour} {
				b.clock.SetTime(begin.Add(2*time.Minute + after))
				if p := b.evaluate(); len(b.pods()) != 1 || p.Status.Phase != "Waiting" || p.Status.GoneSince != nil {
					t.Fatalf("after %v %d pods, phase %s, gone since %v, want the worker kept", after, len(b.pods()), p.Status.Phase, p.Status.GoneSince)
				}
				if after < time.Minute {
					b.expect(v1alpha1.PoolDegraded, metav1.ConditionFalse, "WorkersReady")
				} else {
					b.expect(v1alpha1.PoolDegraded, metav1.ConditionTrue, tc.reason)
				}
			}
			if c := meta.FindStatusCondition(b.pool().Status.Conditions, v1alpha1.PoolDegraded); !strings.Contains(c.Message, tc.says) || !b.told(tc.reason) {
				t.Errorf("Degraded says %q, want %q in it and in an Event", c.Message, tc.says)
			}
		})
	}
}

func TestWhatCannotBeIsSaidAndNothingIsDone(t *testing.T) {
	m := startManager(t)
	raw := func(text string) func(*v1alpha1.WorkerPoolSpec) {
		return func(s *v1alpha1.WorkerPoolSpec) { s.Template.Raw = []byte(text) }
	}
	for _, tc := range []struct {
		change               func(*v1alpha1.WorkerPoolSpec)
		kind, reason, saying string
	}{
		{raw(`{"spec":{"containers":[{"name":"w","imag":"x"}]}}`), v1alpha1.PoolReady, "InvalidTemplate", `unknown field "imag"`},
		{raw(`{"spec":{"containers":[]}}`), v1alpha1.PoolReady, "InvalidTemplate", "spec.template.spec.containers"},
		{raw(`{"spec":{"containers":[{"name":"w","image":"x","args":["a"]}]}}`), v1alpha1.PoolReady, "InvalidTemplate", "must not have command or args"},
		{func(s *v1alpha1.WorkerPoolSpec) { s.Worker.NodeFleet = "none" }, v1alpha1.PoolReady, "NodeFleetMissing", "NodeFleet none does not exist"},
		{func(s *v1alpha1.WorkerPoolSpec) { s.Manager.PasswordSecret = &v1alpha1.SecretKey{Name: "pw", Key: "k"} }, v1alpha1.PoolConnected, "NotResponding", "read Secret pw"},
		{func(s *v1alpha1.WorkerPoolSpec) {
			s.Manager.TLS = &v1alpha1.WorkQueueTLS{CASecret: &v1alpha1.SecretKey{Name: "ca", Key: "k"}}
		}, v1alpha1.PoolConnected, "NotResponding", "contains no PEM certificate"},
	} {
		ca := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "ca"}, Data: map[string][]byte{"k": []byte("none")}}
		b := newBench(t, interceptor.Funcs{}, poolAt(m.Address, tc.change), ca)
		p := b.evaluate()
		b.expect(tc.kind, metav1.ConditionFalse, tc.reason)
		if c := meta.FindStatusCondition(p.Status.Conditions, tc.kind); c == nil || !strings.Contains(c.Message, tc.saying) || len(b.pods()) > 0 {
			t.Errorf("%+v and %d pods, want %q and none", c, len(b.pods()), tc.saying)
		}
	}
}

func TestAPodThatTheAPIServerRefusesIsTriedAgain(t *testing.T) {
	m := startManager(t)
	refuse := true
	b := newBench(t, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if refuse {
			return errors.New("no quota")
		}
		return c.Create(ctx, o, opts...)
	}}, poolAt(m.Address))
	if _, err := b.Reconcile(t.Context(), reconcile.Request{NamespacedName: name}); err == nil || !strings.Contains(err.Error(), "no quota") {
		t.Fatalf("error %v, want that of the API server", err)
	}
	b.expect(v1alpha1.PoolReady, metav1.ConditionFalse, "ResizeFailed")
	refuse = false
	if b.evaluate(); len(b.pods()) != 1 {
		t.Errorf("%d pods, want one at once: nothing was resized before", len(b.pods()))
	}
}

func TestAPodThatFailedIsReplaced(t *testing.T) {
	m := startManager(t)
	b := newBench(t, interceptor.Funcs{}, poolAt(m.Address))
	b.evaluate()
	pod := b.pods()[0]
	pod.Status.Phase, pod.Status.Reason = corev1.PodFailed, "Evicted"
	if err := b.Client.Status().Update(t.Context(), &pod); err != nil {
		t.Fatal(err)
	}
	b.clock.SetTime(begin.Add(2 * time.Minute))
	b.evaluate()
	if pods := b.pods(); len(pods) != 1 || pods[0].Name == pod.Name {
		t.Errorf("pods %v, want another than %s", pods, pod.Name)
	}
}

func TestWhatWasLearnedIsKeptInTheStatus(t *testing.T) {
	m := workerdecide.Memory{
		Queue: workerdecide.QueueID{Project: "p", Started: begin}, SilentSince: begin, GoneSince: begin.Add(time.Minute), Resized: begin.Add(time.Second),
		Categories: []workerdecide.Category{
			{Name: "a", Need: estimate.Resources{MilliCores: 1500, MemoryBytes: 1 << 30, DiskBytes: 1 << 20, GPUs: 1}, Source: workerdecide.Measured, Used: estimate.Resources{MilliCores: 250, MemoryBytes: 300 << 20}, Recent: slices.Repeat([]time.Duration{time.Minute}, 5), Ended: 70},
			{Name: "b", Source: workerdecide.WholeWorker},
		},
		InitTimes: []workerdecide.InitTime{{Flavor: "four", Mean: 157 * time.Second, Deviation: 4 * time.Second, Node: 100 * time.Second, Image: 50 * time.Second, Connect: 7 * time.Second, Samples: 3}},
	}
	s := v1alpha1.WorkerPoolStatus{Queue: &v1alpha1.WorkQueueStatus{Project: "p", Started: new(metav1.NewTime(begin))}}
	keep(&s, &m, nil)
	got := recall(&s)
	if diff := cmp.Diff(m, got, cmp.AllowUnexported(workerdecide.Memory{}), cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "last" || p.String() == "pods" }, cmp.Ignore())); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}

func TestTasksThatUseFarLessThanTheyDeclareAreSaidOnce(t *testing.T) {
	m := startManager(t)
	b := newBench(t, interceptor.Funcs{}, poolAt(m.Address))
	says := func(done, memory int) {
		m.Put(map[string]string{
			"task_status":  `[{"taskid":1,"category":"split","state":"WAITING","cores":1,"memory":4096}]`,
			"wable_status": fmt.Sprintf(`[{"category":"split","tasks_done":%d,"max_cores":"~0.010","max_memory":"~%d","max_disk":"~1"}]`, done, memory),
		})
		b.clock.SetTime(b.clock.Now().Add(10 * time.Second))
		b.evaluate()
	}
	says(0, 300)
	b.expect(v1alpha1.PoolOverstated, metav1.ConditionFalse, "NotMeasured")
	says(5, 300)
	b.expect(v1alpha1.PoolOverstated, metav1.ConditionTrue, "RequestsExceedUsage")
	if !b.told("RequestsExceedUsage category split declares up to 1 core, 4096 MiB") {
		t.Error("no Event says so")
	}
	says(6, 310)
	if b.told("RequestsExceedUsage") {
		t.Error("an Event says it again")
	}
	c := b.pool().Status.Categories[0]
	if c.Used == nil || c.Used.CPU.MilliValue() != 10 || c.Used.Memory.Value() != 310<<20 || c.Memory.Value() != 4<<30 {
		t.Errorf("category %+v, want what it used beside what it declares", c)
	}
	text := meta.FindStatusCondition(b.pool().Status.Conditions, v1alpha1.PoolOverstated).Message
	if want := "category split declares up to 1 core, 4096 MiB of memory for a task: with 1 core, 310 MiB of memory, 1 MiB of disk, which covers the greatest measured use, 4 of its tasks would fit where 2 do"; text != want {
		t.Errorf("it says %q, want %q", text, want)
	}
}

func TestAPodIsMadeForItsFlavor(t *testing.T) {
	pool := poolAt("m.ns.svc:9123", func(s *v1alpha1.WorkerPoolSpec) {
		s.Manager.PasswordSecret = &v1alpha1.SecretKey{Name: "makeflow", Key: "pw"}
	})
	template, err := parseTemplate(pool)
	if err != nil {
		t.Fatal(err)
	}
	size := estimate.Resources{MilliCores: 3000, MemoryBytes: 8 << 30, DiskBytes: 10 << 30, GPUs: 1}
	pod := podFor(pool, template, &workerdecide.Flavor{Name: "batch-4x", Worker: size}, "m1.large")
	c := pod.Spec.Containers[0]
	want := strings.Fields("--single-shot --idle-timeout 30 --connect-timeout 15 --max-backoff 10 --cores 3 --memory 8192 --gpus 1 --disk 10240 --password /var/run/supercargo/work-queue/password m.ns.svc 9123")
	if diff := cmp.Diff(want, c.Args); diff != "" {
		t.Errorf("arguments: want -, got +:\n%s", diff)
	}
	if offered(pod) != size {
		t.Errorf("it offers %+v, want %+v", offered(pod), size)
	}
	if pod.Spec.NodeSelector[corev1.LabelInstanceTypeStable] != "m1.large" || pod.Annotations[v1alpha1.AnnotationFlavor] != "batch-4x" {
		t.Errorf("selects %v with %v, want the flavor's machines", pod.Spec.NodeSelector, pod.Annotations)
	}
	if pod.Annotations[v1alpha1.AnnotationMigration] != "never" || pod.Annotations[annotationSafeToEvict] != "false" || pod.Labels[v1alpha1.LabelClass] != "batch" {
		t.Errorf("annotations %v, labels %v: want it left where it is", pod.Annotations, pod.Labels)
	}
	if *pod.Spec.TerminationGracePeriodSeconds != 3600 || pod.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		t.Error("it is not given the time to end its tasks")
	}
	if terms := pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution; len(terms) != 1 || terms[0].TopologyKey != corev1.LabelHostname {
		t.Errorf("anti-affinity %+v, want one worker a node", terms)
	}
	pool.Spec.Worker.Packing = v1alpha1.WorkersPacked
	if pod := podFor(pool, template, &workerdecide.Flavor{Worker: size}, ""); pod.Spec.Affinity != nil || pod.Spec.NodeSelector != nil {
		t.Error("packed workers are kept apart")
	}
	if len(template.Spec.Volumes) > 0 || template.Labels[v1alpha1.LabelWorkerPool] != "" {
		t.Error("the template was changed")
	}
	catalog := poolAt("", func(s *v1alpha1.WorkerPoolSpec) {
		s.Manager.Address, s.Manager.Catalog = nil, &v1alpha1.WorkQueueCatalog{Servers: []string{"a:1", "b:2"}, Project: "my.flow"}
	})
	if args := arguments(catalog, size); !slices.Equal(args[len(args)-4:], []string{"--catalog", "a:1,b:2", "--manager-name", `^my\.flow$`}) {
		t.Errorf("arguments %q, want the catalog servers and the project's very name", args)
	}
}

func TestWorkersFillTheMachinesOfAFleet(t *testing.T) {
	q := func(text string) *resource.Quantity { return new(resource.MustParse(text)) }
	until := metav1.NewTime(begin.Add(time.Minute))
	fleet := &v1alpha1.NodeFleet{ObjectMeta: metav1.ObjectMeta{Name: "batch"}, Status: v1alpha1.NodeFleetStatus{Flavors: []v1alpha1.FlavorStatus{
		{Name: "four", CPU: q("3920m"), Memory: q("16Gi"), PricePerHour: "0.2"},
		{Name: "alone", CPU: q("8"), Memory: q("16Gi"), BackOffUntil: &until},
		{Name: "tiny", CPU: q("940m"), Memory: q("1Gi"), PricePerHour: "0.01"},
		{Name: "new"},
	}}}
	pool := poolAt("m:1", func(s *v1alpha1.WorkerPoolSpec) {
		s.Worker.Resources, s.Worker.NodeFleet = nil, "batch"
		s.Worker.Reserved = v1alpha1.WorkerReserve{Memory: q("256Mi")}
	})
	b := newBench(t, interceptor.Funcs{}, fleet)
	rc := &reconciliation{Reconciler: b.Reconciler, pool: pool, now: begin}
	c, why, err := rc.config(t.Context())
	if err != nil || why.message != "" || len(c.Flavors) != 4 || !c.Bought {
		t.Fatalf("%+v, %v, %v", c, why, err)
	}
	if f := c.Flavors[0]; f.Worker.MilliCores != 3000 || f.Worker.MemoryBytes != 16<<30-256<<20 || f.MicroDollarsPerHour != 200_000 || f.Trouble != "" {
		t.Errorf("flavor %+v, want whole cores and all memory but what is reserved", f)
	}
	for i, says := range map[int]string{1: "in back-off until 2026-11-22T08:01:00Z", 2: "less than one core", 3: "is not known yet"} {
		if !strings.Contains(c.Flavors[i].Trouble, says) {
			t.Errorf("flavor %s: %q, want %q", c.Flavors[i].Name, c.Flavors[i].Trouble, says)
		}
	}
}

// TestTheCommandOfAWorkerEndsWhenItsSessionHasEnded runs the command with a replacement of work_queue_worker that logs
// its start and end, and dies if it gets a signal.
func TestTheCommandOfAWorkerEndsWhenItsSessionHasEnded(t *testing.T) {
	dir := t.TempDir()
	note, end := filepath.Join(dir, "note"), filepath.Join(dir, "end")
	stand := "#!/bin/sh\necho begin \"$@\" >> " + note + "\nwhile [ ! -e " + end + " ]; do sleep 0.05; done\necho end >> " + note + "\n"
	if err := os.WriteFile(filepath.Join(dir, "work_queue_worker"), []byte(stand), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", serve, "work_queue_worker", "--cores", "3")
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	noted := func() string { text, _ := os.ReadFile(note); return string(text) }
	until := func(what, want string) {
		t.Helper()
		testwait.For(t, 20*time.Second, fmt.Sprintf("%s: noted %q", what, want), func() bool { return noted() == want })
	}
	until("the first session", "begin --cores 3\n")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		t.Fatalf("it ended with its session under way: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	testfile.Write(t, end, "")
	select {
	case err := <-ended:
		if err != nil || noted() != "begin --cores 3\nend\n" {
			t.Errorf("%v, noted %q: want the session to end, and no other to begin", err, noted())
		}
	case <-time.After(20 * time.Second):
		t.Error("it does not end with its session")
	}
}
