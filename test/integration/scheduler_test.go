package integration

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/lab/playground/controlplane"
	"supercargo.dev/supercargo/test/fixtures"
	"supercargo.dev/supercargo/test/kit/testfile"
	"supercargo.dev/supercargo/test/scheduling"
)

const gi = int64(1) << 30

// fast is the strict configuration with client limits above the default of 50 requests per second, but low
// enough not to flood the API server, which shares this machine's cores with everything else, with bindings.
// Otherwise they time out, and no scheduler can tell which of them have succeeded.
const fast = "clientConnection: {qps: 300, burst: 300}\n" + scheduling.StrictConfiguration

func containsText(text, part string) bool { return strings.Contains(text, part) }

// controlPlane starts an API server without a scheduler and without simulated nodes, so bound pods do not
// change.
func controlPlane(t *testing.T) (*playground.Playground, kubernetes.Interface) {
	t.Helper()
	p := playground.ForTest(t, playground.Options{NoScheduler: true, NoKwok: true, NoControllerManager: true})
	return p, p.Client()
}

func startScheduler(t *testing.T, p *playground.Playground, configuration string) *controlplane.Scheduler {
	t.Helper()
	s, err := p.StartScheduler(t.Context(), []byte(configuration))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// mixedPods returns services and batch jobs of many sizes, some with malformed labels or annotations.
func mixedPods(n int, seed uint64) []*corev1.Pod {
	r := rand.New(rand.NewPCG(seed, 0))
	pods := make([]*corev1.Pod, n)
	for i := range pods {
		p := fixtures.Pod(fmt.Sprintf("pod-%05d", i), 10*(1+r.Int64N(20)), (1+r.Int64N(16))<<26)
		switch r.IntN(5) {
		case 0:
			fixtures.Batch(fmt.Sprintf("%ds", 1+r.IntN(5000)))(p)
		case 1:
			fixtures.Batch([]string{"soon", "-1m", "", "1e99h", "NaN"}[r.IntN(5)])(p)
		case 2:
			p.Labels[v1alpha1.LabelClass] = []string{"Batch", "any", "1"}[r.IntN(3)]
		}
		pods[i] = p
	}
	return pods
}

// oddNodes creates usable nodes and, among them, all kinds of nodes that a scheduler must cope with.
func oddNodes(t *testing.T, client kubernetes.Interface, usable int) {
	t.Helper()
	for i := range usable {
		n := fixtures.Node(fmt.Sprintf("node-%03d", i), 16000, 64*gi)
		switch i % 4 {
		case 1:
			n.Labels = nil
		case 2:
			n.Labels[v1alpha1.LabelClass] = "sevrice"
		}
		createNode(t, client, n)
	}
	createNode(t, client, fixtures.Node("zero", 0, 0))
	createNode(t, client, fixtures.Node("no-memory", 16000, 0))
	createNode(t, client, fixtures.Node("no-slots", 16000, 64*gi, func(n *corev1.Node) {
		n.Status.Allocatable = n.Status.Allocatable.DeepCopy()
		n.Status.Allocatable[corev1.ResourcePods] = quantity(0)
	}))
	createNode(t, client, fixtures.Node("silent", 0, 0, func(n *corev1.Node) {
		n.Labels, n.Status.Allocatable, n.Status.Capacity = nil, nil, nil
	}))
	createNode(t, client, fixtures.Node("tainted", 16000, gi, func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "k", Value: "v", Effect: corev1.TaintEffectNoSchedule}}
	}))
}

func TestABurstOfTenThousandPodsIsBoundWithoutLossOrOverfilling(t *testing.T) {
	p, client := controlPlane(t)
	oddNodes(t, client, 120)
	l := openLedger(t, client, func(pod *corev1.Pod) {
		if _, written := runtimes.Written(pod); written != (pod.Labels[v1alpha1.LabelClass] == "batch") {
			t.Errorf("pod %s, class %q: expected finish written with the binding: %t", pod.Name, pod.Labels[v1alpha1.LabelClass], written)
		}
	})
	const n = 10_000
	createPods(t, client, mixedPods(n, 1))
	startScheduler(t, p, fast)
	l.waitBound(n)
	l.checkNoneLost(n)
	for _, node := range []string{"zero", "no-memory", "no-slots", "silent", "tainted"} {
		if l.used[node] != nil {
			t.Errorf("node %s was given %d pods", node, l.used[node].pods)
		}
	}
	wantEvent(t, client, "InvalidAnnotation", `supercargo.dev/runtime="soon"`)
	wantEvent(t, client, "InvalidLabel", `supercargo.dev/class="Batch"`)
	wantEvent(t, client, "InvalidLabel", `supercargo.dev/class="sevrice"`)
}

// schedulerProcess is a kube-scheduler in its own process.
type schedulerProcess struct {
	*exec.Cmd
	log *os.File
}

func startProcess(t *testing.T, p *playground.Playground, configuration string) schedulerProcess {
	t.Helper()
	return startProcessWith(t, p.KubeconfigPath(), configuration)
}

func startProcessWith(t *testing.T, kubeconfig, configuration string) schedulerProcess {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	configuration = strings.Replace(configuration, "clientConnection: {", "clientConnection: {kubeconfig: "+kubeconfig+", ", 1)
	testfile.Write(t, file, "leaderElection: {leaderElect: false}\n"+configuration)
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "--config", file, "--secure-port=0", "--v=2")
	cmd.Env = append(os.Environ(), beScheduler+"=yes")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if text, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("the end of the scheduler's log:\n%s", text[max(0, len(text)-4000):])
		}
	})
	return schedulerProcess{cmd, log}
}

func TestASchedulerKilledAgainAndAgainLosesNoPodAndBindsNoneTwice(t *testing.T) {
	p, client := controlPlane(t)
	oddNodes(t, client, 60)
	l := openLedger(t, client, nil)
	const n = 3000
	createPods(t, client, mixedPods(n, 2))
	for kill := range 4 {
		s := startProcess(t, p, fast)
		l.waitBound((kill + 1) * n / 6) // while it is working
		if err := s.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	startProcess(t, p, fast)
	l.waitBound(n)
	l.checkNoneLost(n)
}

func TestARestartedSchedulerKnowsWhenNodesWillBeFree(t *testing.T) {
	p, client := controlPlane(t)
	for _, name := range []string{"a", "b", "c"} {
		createNode(t, client, fixtures.Node(name, 4000, 16*gi))
	}
	l := openLedger(t, client, nil)
	bind := func(name string, memory int64, runtime string) string {
		t.Helper()
		return l.placeOne(fixtures.Pod(name, 100, memory, fixtures.Batch(runtime)))
	}
	first := startScheduler(t, p, fast)
	// Each of these requests more than half of a node, so each is on its own node.
	long, medium, short := bind("long", 9*gi, "3h"), bind("medium", 10*gi, "1h"), bind("short", 11*gi, "2m")
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	startScheduler(t, p, fast)
	for _, tc := range []struct{ name, runtime, want string }{
		{"also-medium", "59m", medium}, {"also-short", "1m", short}, {"also-long", "179m", long},
	} {
		if got := bind(tc.name, gi, tc.runtime); got != tc.want {
			t.Errorf("a pod of %s is on %s, want %s, where one like it runs", tc.runtime, got, tc.want)
		}
	}
}

func TestRuntimesAreLearnedFromFinishedSiblings(t *testing.T) {
	p, client := controlPlane(t)
	createNode(t, client, fixtures.Node("a", 16000, 64*gi))
	category := func(p *corev1.Pod) {
		p.Labels[v1alpha1.LabelClass] = "batch"
		p.Annotations[v1alpha1.AnnotationCategory] = "render"
	}
	finished := make([]*corev1.Pod, 3)
	for i := range finished {
		finished[i] = fixtures.Pod(fmt.Sprintf("finished-%d", i), 100, gi, category)
	}
	createPods(t, client, finished)
	ended := time.Now().Truncate(time.Second)
	for i, f := range finished {
		f.UID = "" // the API server assigns another UID
		f.Status = corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "main", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				StartedAt: metav1.NewTime(ended.Add(-time.Duration(30+i) * time.Minute)), FinishedAt: metav1.NewTime(ended)}}}}}
		if _, err := client.CoreV1().Pods("default").UpdateStatus(t.Context(), f, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	startScheduler(t, p, fast)
	// The watch of finished pods syncs independently of the scheduler's own caches, so the first pods may
	// still get the default.
	i := 0
	eventually(t, func() error {
		name := fmt.Sprintf("next-%d", i)
		i++
		before := time.Now()
		createPods(t, client, []*corev1.Pod{fixtures.Pod(name, 100, gi/8, category)})
		var finish time.Time
		eventually(t, func() error {
			pod, err := client.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			var ok bool
			if finish, ok = runtimes.Written(pod); !ok {
				return fmt.Errorf("pod %s is not bound", name)
			}
			return nil
		})
		if expected := finish.Sub(before); expected < 31*time.Minute || expected > 32*time.Minute {
			return fmt.Errorf("%v are expected, want the median of 31 minutes", expected)
		}
		return nil
	})
}

// TestArgumentsOfFiltersHoldWhileNarrowedAndNobodyIsEvicted makes NodeAffinity reject, by its arguments, the
// node that fits best. Wrong proofs are tested beside the plugins, where a filter can give false results.
func TestArgumentsOfFiltersHoldWhileNarrowedAndNobodyIsEvicted(t *testing.T) {
	p, client := controlPlane(t)
	createNode(t, client, fixtures.Node("tight", 4000, 2*gi))
	createNode(t, client, fixtures.Node("good", 4000, 8*gi, func(n *corev1.Node) { n.Labels["zone"] = "a" }))
	l := openLedger(t, client, nil)
	createPreemptible(t, client, fixtures.Pod("victim", 3000, 5*gi, func(p *corev1.Pod) { p.Spec.NodeName = "good" }))
	startScheduler(t, p, fast+`
  pluginConfig:
  - name: NodeAffinity
    args:
      addedAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a]}]}]
`)
	createPods(t, client, []*corev1.Pod{fixtures.Pod("narrowed", 500, gi)})
	l.waitBound(2)
	if got := l.nodeOf("narrowed"); got != "good" {
		t.Errorf("the pod is on %q, want good", got)
	}
	if v, err := client.CoreV1().Pods("default").Get(t.Context(), "victim", metav1.GetOptions{}); err != nil || v.DeletionTimestamp != nil {
		t.Errorf("the other pod was evicted: %v", err)
	}
}

func TestConstrainedPodsFindTheOneNodeThatSuits(t *testing.T) {
	p, client := controlPlane(t)
	label := func(k, v string) func(*corev1.Node) { return func(n *corev1.Node) { n.Labels[k] = v } }
	for i := range 8 { // tighter nodes, none of them suitable
		createNode(t, client, fixtures.Node(fmt.Sprintf("tight-%d", i), 1000, 2*gi, label("zone", "z")))
	}
	createNode(t, client, fixtures.Node("ssd", 4000, 64*gi, label("disk", "ssd"), label("zone", "z")))
	createNode(t, client, fixtures.Node("tainted", 4000, 32*gi, label("zone", "z"), func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
	}))
	createNode(t, client, fixtures.Node("elsewhere", 4000, 64*gi, label("zone", "other")))
	app := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}
	pods := map[string]*corev1.Pod{
		"ssd": fixtures.Pod("selector", 100, gi, func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} }),
		"tainted": fixtures.Pod("taint", 100, 16*gi, func(p *corev1.Pod) {
			p.Spec.NodeSelector = map[string]string{"zone": "z"}
			p.Spec.Tolerations = []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}
		}),
	}
	l := openLedger(t, client, nil)
	startScheduler(t, p, fast)
	for want, pod := range pods {
		if got := l.placeOne(pod); got != want {
			t.Errorf("pod %s is on %s, want %s", pod.Name, got, want)
		}
	}
	// Two pods that must be in different zones: the second goes to the only other zone.
	zones := map[string]bool{}
	for i := range 2 {
		node := l.placeOne(fixtures.Pod(fmt.Sprintf("spread-%d", i), 100, gi, func(p *corev1.Pod) {
			p.Labels["app"] = "x"
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: app}}
		}))
		zones[map[bool]string{true: "other", false: "z"}[node == "elsewhere"]] = true
	}
	if len(zones) != 2 {
		t.Errorf("both are in one zone: %v", zones)
	}
	// One host port is available once on each node with room.
	used := map[string]bool{}
	for i := range 5 {
		node := l.placeOne(fixtures.Pod(fmt.Sprintf("port-%d", i), 100, gi/4, func(p *corev1.Pod) {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}
		}))
		if used[node] {
			t.Errorf("host port 8080 is used twice on %s", node)
		}
		used[node] = true
	}
}

func TestPodsThatFitNowhereAreBoundWhenANodeComes(t *testing.T) {
	p, client := controlPlane(t)
	createNode(t, client, fixtures.Node("service", 4000, 8*gi, fixtures.NodeClass("service")))
	l := openLedger(t, client, nil)
	startScheduler(t, p, fast)
	createPods(t, client, []*corev1.Pod{fixtures.Pod("job", 100, gi, fixtures.Batch("5m"))})
	wantUnschedulable(t, client, "took only service pods and the pod is batch")
	batch := fixtures.Node("batch", 4000, 8*gi, fixtures.NodeClass("batch"))
	l.addNode(batch)
	createNode(t, client, batch)
	l.waitBound(1)
}

func TestMalformedArgumentsStopTheStartAndNameTheField(t *testing.T) {
	p, _ := controlPlane(t)
	for args, want := range map[string]string{
		"{scalingCycle: 1ms}":      "pluginConfig[TimeBin].args.scalingCycle",
		"{scalingCycle: soon}":     "TimeBin",
		"{scalingCylce: 5m}":       `unknown field "scalingCylce"`,
		"{defaultRuntime: -1h}":    "pluginConfig[TimeBin].args.defaultRuntime",
		"{narrowing: Sometimes}":   "pluginConfig[TimeBin].args.narrowing",
		"{narrowing: [Auto, 1e9]}": "narrowing",
	} {
		s, err := p.StartScheduler(t.Context(), []byte(fast+"  pluginConfig:\n  - {name: TimeBin, args: "+args+"}\n"))
		if err == nil {
			t.Errorf("a scheduler started with args %s", args)
			_ = s.Stop()
			continue
		}
		if !strings.Contains(err.Error(), want) {
			t.Errorf("args %s: error %v does not name %s", args, err, want)
		}
	}
}
