package fleet

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/cluster/extended"
	"supercargo.dev/supercargo/internal/drain"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/internal/world"
	"supercargo.dev/supercargo/test/fixtures"
	"supercargo.dev/supercargo/test/fixtures/fleetfixtures"
)

const (
	testGiB = 1 << 30
	second  = time.Second
	minute  = time.Minute
)

// Short names of the objects that tests are made of.
var (
	epoch       = fleetfixtures.Epoch
	fleetNamed  = fleetfixtures.Fleet
	modelFlavor = fleetfixtures.Flavor
	testNode    = fleetfixtures.Node
	testPod     = fleetfixtures.Pod
	waitsSince  = fleetfixtures.WaitsSince
	placedOn    = fleetfixtures.Placed
	waitingPod  = fleetfixtures.Waiting
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// errDied is returned by a write during which the process dies.
var errDied = errors.New("the process dies")

// errAPI is the error of an overloaded API server.
var errAPI = apierrors.NewTooManyRequests("later", 1)

// model is a cluster with a minimal cloud, scheduler and kubelet, and a reconciler that may die during any write.
type model struct {
	t      *testing.T
	client client.WithWatch
	clock  *clocktesting.FakePassiveClock
	r      *Reconciler

	flavors  []provider.Flavor // Want is the desired number
	sellers  map[string]string // the only fleet that may buy a flavor; any may buy the others
	machines []*modelMachine
	made     int // number of machines ever created
	lastMade time.Time
	done     int            // jobs that have ended
	killed   []string       // pods lost with their machine
	most     map[string]int // maximum number of machines at a time, by flavor
	wanted   int            // maximum desired number of machines at a time, of all flavors

	mu      sync.Mutex // held during a write
	writes  int
	dies    int                     // at which write; 0 means never
	applied bool                    // whether that write still takes effect
	before  func(what string) error // is called before each write, and may refuse it
	refuses func() (refused, done bool)
	sick    bool                  // nodes never become ready
	lag     time.Duration         // how long a machine takes from its order until it is ready; 0 is a minute
	goes    time.Duration         // how long released machines stay, empty
	creates func(pod *corev1.Pod) // what controllers create in place of evicted pods; nil: the same
	// promised is how much less than their flavor nodes have, taints are those that they start with.
	promised packing.Size
	taints   []corev1.Taint
	silent   bool // nodes do not have the extended resources of their flavor
	log      []string

	migrates bool // Migrations are installed, and all nodes able
	moved    int  // pods that Migrations have moved
	fails    int  // how many of the next Migrations fail; all if negative
}

type modelMachine struct {
	provider.Machine
	comes time.Duration // from order to ready; never if negative
	asked time.Time     // when it was released
}

func newModel(t *testing.T, fleets []*v1alpha1.NodeFleet, flavors []provider.Flavor) *model {
	t.Helper()
	m := &model{t: t, clock: clocktesting.NewFakePassiveClock(epoch), flavors: slices.Clone(flavors), most: map[string]int{}}
	objects := make([]client.Object, len(fleets))
	for i := range fleets {
		objects[i] = fleets[i].DeepCopy()
	}
	objects = append(objects, testJob())
	m.client = fixtures.Client(objects...).WithStatusSubresource(&v1alpha1.NodeFleet{}, &v1alpha1.Migration{}).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).Build()
	m.restart()
	return m
}

// restart begins with an empty memory, like a new process.
func (m *model) restart() {
	c := interceptor.NewClient(m.client, interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, c client.Client, name string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			return m.write(fmt.Sprintf("update %s of %s", name, o.GetName()), func() error { return c.SubResource(name).Update(ctx, o, opts...) })
		},
		SubResourceCreate: func(ctx context.Context, c client.Client, name string, o, body client.Object, opts ...client.SubResourceCreateOption) error {
			return m.write(fmt.Sprintf("%s of %s", name, o.GetName()), func() error { return m.evict(ctx, o) })
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			o.SetCreationTimestamp(metav1.NewTime(m.clock.Now()))
			return m.write("create "+o.GetName(), func() error { return c.Create(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return m.write("delete "+o.GetName(), func() error { return c.Delete(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return m.write("patch "+o.GetName(), func() error { return c.Patch(ctx, o, p, opts...) })
		},
	})
	m.r = &Reconciler{
		Client: c, Live: c, Events: &events.FakeRecorder{}, Clock: m.clock,
		NewProvider: func(f *v1alpha1.NodeFleet, _ map[string]*corev1.Node) (provider.Provider, error) {
			return &modelProvider{m, f.Name}, nil
		},
		learned: runtimes.NewLearner(), memory: map[types.UID]*memory{}, Migrations: m.migrates,
	}
}

// write does a write, unless the process dies before or after it.
func (m *model) write(what string, do func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writes++
	m.log = append(m.log, fmt.Sprintf("%v write %d: %s", m.clock.Now().Sub(epoch), m.writes, what))
	if m.before != nil {
		if err := m.before(what); err != nil {
			return err
		}
	}
	if m.refuses != nil {
		if refused, done := m.refuses(); refused && done {
			m.must(do())
			return errAPI
		} else if refused {
			return errAPI
		}
	}
	if m.dies > 0 && m.writes > m.dies {
		return errDied // it did
	}
	if m.writes != m.dies {
		return do()
	}
	if m.applied {
		if err := do(); err != nil {
			m.t.Fatalf("write %d (%s): %v", m.writes, what, err)
		}
	}
	return errDied
}

// modelProvider sells a fleet its flavors.
type modelProvider struct {
	*model
	fleet string
}

// Observe implements provider.Provider.
func (p *modelProvider) Observe(context.Context) (*provider.Inventory, error) {
	others := func(flavor string) bool { return cmp.Or(p.sellers[flavor], p.fleet) != p.fleet }
	found := &provider.Inventory{Flavors: slices.Clone(p.flavors)}
	found.Flavors = slices.DeleteFunc(found.Flavors, func(f provider.Flavor) bool { return others(f.Name) })
	for _, machine := range p.machines {
		if !others(machine.Flavor) {
			found.Machines = append(found.Machines, machine.Machine)
		}
	}
	return found, nil
}

func (m *model) flavor(name string) *provider.Flavor {
	return &m.flavors[slices.IndexFunc(m.flavors, func(f provider.Flavor) bool { return f.Name == name })]
}

// announced fails the test unless the fleet's status contains what is about to be done.
func (p *modelProvider) announced(intent string) {
	if written := p.model.fleet(p.fleet).Status.Intent; written == nil || written.ID != intent {
		p.t.Errorf("%s is carried out while the status has %+v", intent, written)
	}
}

// Buy implements provider.Provider.
func (p *modelProvider) Buy(_ context.Context, intent, flavor string, from, to int) error {
	p.announced(intent)
	return p.write(fmt.Sprintf("buy %s %d to %d (%s)", flavor, from, to, intent), func() error {
		switch f := p.flavor(flavor); f.Want {
		case to:
		case from:
			f.Want = to
			sum := 0
			for i := range p.flavors {
				sum += p.flavors[i].Want
			}
			p.wanted = max(p.wanted, sum)
		default:
			return provider.ErrChanged
		}
		return nil
	})
}

// Release implements provider.Provider.
func (p *modelProvider) Release(_ context.Context, intent, flavor string, from int, names []string) error {
	p.announced(intent)
	return p.write(fmt.Sprintf("release %s of %d %s (%s)", names, from, flavor, intent), func() error {
		switch f := p.flavor(flavor); f.Want {
		case from - len(names):
		case from:
			for _, machine := range p.machines {
				if slices.Contains(names, machine.Name) {
					machine.Leaving, machine.asked = true, p.clock.Now()
				}
			}
			f.Want -= len(names)
		default:
			return provider.ErrChanged
		}
		return nil
	})
}

func (m *model) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// pods returns all pods, by name.
func (m *model) pods() []corev1.Pod {
	var list corev1.PodList
	m.must(m.client.List(m.t.Context(), &list))
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return list.Items
}

func (m *model) nodes() map[string]*corev1.Node {
	var list corev1.NodeList
	m.must(m.client.List(m.t.Context(), &list))
	found := map[string]*corev1.Node{}
	for i := range list.Items {
		found[list.Items[i].Name] = &list.Items[i]
	}
	return found
}

// pass lets time pass: machines are created and deleted, nodes join, jobs end, pods are bound.
func (m *model) pass(d time.Duration) {
	m.clock.SetTime(m.clock.Now().Add(d))
	m.goAway()
	m.make()
	m.finish()
	m.migrate()
	m.schedule()
}

// goAway deletes the released machines, with their nodes and pods.
func (m *model) goAway() {
	gone := func(machine *modelMachine) bool { return machine.Leaving && m.clock.Now().Sub(machine.asked) >= m.goes }
	for _, machine := range m.machines {
		if !gone(machine) {
			continue
		}
		for _, pod := range m.pods() {
			if machine.Node == "" || pod.Spec.NodeName != machine.Node {
				continue
			}
			if pod.Status.Phase == corev1.PodRunning {
				m.killed = append(m.killed, pod.Name)
			}
			m.must(m.client.Delete(m.t.Context(), &pod))
		}
		if machine.Node != "" {
			m.must(client.IgnoreNotFound(m.client.Delete(m.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: machine.Node}})))
		}
	}
	m.machines = slices.DeleteFunc(m.machines, gone)
}

// makes reports whether another machine is created now: never of an unmade flavor, and of a slow one some time after
// the last.
func (m *model) makes(flavor string) bool {
	switch {
	case strings.HasPrefix(flavor, "unmade"):
		return false
	case strings.HasPrefix(flavor, "slow"):
		return m.clock.Now().Sub(m.lastMade) >= 6*minute
	}
	return true
}

func (m *model) make() {
	for i := range m.flavors {
		f := &m.flavors[i]
		there := 0
		for _, machine := range m.machines {
			if machine.Flavor == f.Name && !machine.Leaving {
				there++
			}
		}
		for ; there < f.Want && m.makes(f.Name); there++ {
			m.made++
			m.lastMade = m.clock.Now()
			comes := cmp.Or(m.lag, minute)
			if strings.HasPrefix(f.Name, "never") {
				comes = -1
			}
			m.machines = append(m.machines, &modelMachine{Machine: provider.Machine{Name: fmt.Sprintf("m%02d", m.made), Flavor: f.Name, Ordered: m.clock.Now()}, comes: comes})
		}
		m.most[f.Name] = max(m.most[f.Name], there)
	}
	for _, machine := range m.machines {
		if machine.Node != "" || machine.comes < 0 || m.clock.Now().Sub(machine.Ordered) < machine.comes {
			continue
		}
		f := m.flavor(machine.Flavor)
		machine.Node = "node-" + machine.Name
		node := testNode(machine.Node, f.Size.Minus(m.promised), m.clock.Now())
		node.Spec.Taints = m.taints
		maps.Copy(node.Labels, f.Labels)
		if !m.silent {
			publishDevices(node, f)
		}
		if m.migrates {
			node.Annotations = map[string]string{v1alpha1.AnnotationCapability: able}
		}
		if m.sick {
			node.Status.Conditions[0].Status = corev1.ConditionFalse
		}
		m.must(m.client.Create(m.t.Context(), node))
	}
}

// finish ends jobs whose runtime is over.
func (m *model) finish() {
	for _, pod := range m.pods() {
		length, err := time.ParseDuration(cmp.Or(pod.Annotations["ends-after"], pod.Annotations[v1alpha1.AnnotationRuntime]))
		if err == nil && pod.Status.Phase == corev1.PodRunning && m.clock.Now().Sub(pod.Status.StartTime.Time) >= length {
			m.done++
			pod.Status.Phase = corev1.PodSucceeded
			m.must(m.client.Status().Update(m.t.Context(), &pod))
		}
	}
}

// modelResources are the extended resources of the model.
var modelResources = extended.Names{gpu}

// requestsOf is what a pod requests.
func requestsOf(pod *corev1.Pod) packing.Size {
	size, _ := world.Requests(pod)
	_, _, others := constraint.Requests(pod)
	size.Extended, _ = modelResources.Requests(others)
	return size
}

// room is the free room on nodes that are ready and not cordoned.
func (m *model) room() map[string]packing.Size {
	free := map[string]packing.Size{}
	for name, node := range m.nodes() {
		if _, is := world.Ready(node); is && !node.Spec.Unschedulable && len(node.Spec.Taints) == 0 {
			free[name] = packing.Size{
				MilliCPU: node.Status.Allocatable.Cpu().MilliValue(), MemoryBytes: node.Status.Allocatable.Memory().Value(),
				Extended: modelResources.Capacity(extended.Amounts(node.Status.Allocatable)),
			}
		}
	}
	pods := m.pods()
	for i := range pods {
		if left, ok := free[pods[i].Spec.NodeName]; ok && pods[i].Status.Phase == corev1.PodRunning {
			free[pods[i].Spec.NodeName] = left.Minus(requestsOf(&pods[i]))
		}
	}
	return free
}

// schedule binds pods to the first node that has room, largest first.
func (m *model) schedule() {
	free, pods := m.room(), m.pods()
	names := slices.Sorted(maps.Keys(free))
	slices.SortStableFunc(pods, func(a, b corev1.Pod) int {
		return cmp.Compare(requestsOf(&b).MilliCPU, requestsOf(&a).MilliCPU)
	})
	for i := range pods {
		pod := &pods[i]
		if pod.Spec.NodeName != "" {
			continue
		}
		size := requestsOf(pod)
		at := slices.IndexFunc(names, func(n string) bool { return size.Fits(free[n]) })
		if at < 0 {
			if _, is := world.Unschedulable(pod); !is {
				pod.Status.Conditions = []corev1.PodCondition{waitsSince(m.clock.Now())}
				m.must(m.client.Status().Update(m.t.Context(), pod))
			}
			continue
		}
		free[names[at]] = free[names[at]].Minus(size)
		pod.Spec.NodeName = names[at]
		m.must(m.client.Update(m.t.Context(), pod))
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: new(metav1.NewTime(m.clock.Now()))}
		m.must(m.client.Status().Update(m.t.Context(), pod))
	}
}

// evict kills a pod; its job starts it again.
func (m *model) evict(ctx context.Context, o client.Object) error {
	pod := &corev1.Pod{}
	if err := m.client.Get(ctx, client.ObjectKeyFromObject(o), pod); err != nil {
		return err
	}
	if err := m.client.Delete(ctx, pod); err != nil {
		return err
	}
	pod.Name, pod.ResourceVersion, pod.Spec.NodeName, pod.Status = pod.Name+"-again", "", "", corev1.PodStatus{}
	pod.UID, pod.CreationTimestamp = types.UID(pod.Name), metav1.NewTime(m.clock.Now())
	if m.creates != nil {
		m.creates(pod)
	}
	return m.client.Create(ctx, pod)
}

func (m *model) add(pods ...*corev1.Pod) {
	for _, pod := range pods {
		m.must(m.client.Create(m.t.Context(), pod))
	}
	m.schedule()
}

// round runs a round of a fleet and returns when the next is due. A process that dies is restarted.
func (m *model) round(fleet string) time.Duration {
	result, err := m.r.Reconcile(m.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: fleet}})
	switch {
	case m.dies > 0 && m.writes >= m.dies:
		m.log = append(m.log, "the process dies")
		m.dies = 0
		m.restart()
		return second
	case errors.Is(err, errAPI):
		return second
	case err != nil:
		m.t.Fatalf("%v\n%s", err, strings.Join(m.log, "\n"))
	}
	return result.RequeueAfter
}

// run runs rounds of fleets for some time, at least one every half minute for each fleet.
func (m *model) run(d time.Duration, fleets ...string) {
	for end := m.clock.Now().Add(d); m.clock.Now().Before(end); {
		wait := 30 * second
		for _, fleet := range fleets {
			wait = min(wait, m.round(fleet))
		}
		m.pass(max(wait, settling))
	}
}

func (m *model) fleet(name string) *v1alpha1.NodeFleet {
	m.t.Helper()
	f := &v1alpha1.NodeFleet{}
	m.must(m.client.Get(m.t.Context(), client.ObjectKey{Name: name}, f))
	return f
}

// outcome is the final state.
func (m *model) outcome() string {
	running, waiting := 0, 0
	for _, pod := range m.pods() {
		switch pod.Status.Phase {
		case corev1.PodRunning:
			running++
		case corev1.PodPending:
			waiting++
		}
	}
	text := fmt.Sprintf("%d pods run, %d wait, %d have ended, lost %q;", running, waiting, m.done, m.killed)
	if m.migrates {
		text += fmt.Sprintf(" %d moved;", m.moved)
	}
	for i := range m.flavors {
		there := 0
		for _, machine := range m.machines {
			if machine.Flavor == m.flavors[i].Name {
				there++
			}
		}
		text += fmt.Sprintf(" %s %d of %d, at most %d;", m.flavors[i].Name, there, m.flavors[i].Want, m.most[m.flavors[i].Name])
	}
	closed := 0
	for _, node := range m.nodes() {
		if _, marked := drain.MarkOf(node); marked || node.Spec.Unschedulable {
			closed++
		}
	}
	var fleets v1alpha1.NodeFleetList
	m.must(m.client.List(m.t.Context(), &fleets))
	for i := range fleets.Items {
		if intent := fleets.Items[i].Status.Intent; intent != nil {
			text += fmt.Sprintf(" the intent %s is left;", intent.ID)
		}
	}
	return text + fmt.Sprintf(" %d were made, %d nodes are cordoned", m.made, closed)
}

// scenario is a sequence of events during which the process may die, and its outcome. If the process died, another
// outcome may be equally good.
type scenario struct {
	name   string
	fleets []*v1alpha1.NodeFleet
	sell   []provider.Flavor
	owners map[string]string
	play   func(m *model)
	want   string
	or     string
}

func least(n int, f provider.Flavor) provider.Flavor {
	f.Min, f.Want = n, n
	return f
}

// atLeast returns a flavor with that minimum of which there is no machine.
func atLeast(n int, f provider.Flavor) provider.Flavor {
	f.Min = n
	return f
}

func scenarios() []scenario { return append(evictingScenarios(), movingScenarios()...) }

func evictingScenarios() []scenario {
	small, large := modelFlavor("small", 4, 16, 100_000), modelFlavor("large", 16, 64, 350_000)
	f, g := fleetNamed("f"), fleetNamed("g")
	one := []*v1alpha1.NodeFleet{f}
	job := func(m *model, n int, cpu int64, length time.Duration) {
		for range n {
			pod := testPod(fmt.Sprintf("job-%02d", len(m.pods())), cpu, 1024, length)
			pod.Annotations[v1alpha1.AnnotationMigration] = v1alpha1.MigrationRestart
			m.add(pod)
		}
	}
	return []scenario{
		{
			"machines come for jobs and go when those have ended", one, []provider.Flavor{large, small}, nil,
			func(m *model) {
				job(m, 9, 3000, 4*minute)
				m.run(15*minute, "f")
			},
			`0 pods run, 0 wait, 9 have ended, lost []; large 0 of 0, at most 2; small 0 of 0, at most 0; 2 were made, 0 nodes are cordoned`, ``,
		},
		{
			"machines of two flavors at a time", one, []provider.Flavor{large, small}, nil,
			func(m *model) {
				job(m, 1, 15_000, time.Hour)
				job(m, 1, 2000, time.Hour)
				m.run(5*minute, "f")
			},
			`2 pods run, 0 wait, 0 have ended, lost []; large 1 of 1, at most 1; small 1 of 1, at most 1; 2 were made, 0 nodes are cordoned`, ``,
		},
		{
			"an under-used machine is emptied onto another", one, []provider.Flavor{small}, nil,
			func(m *model) {
				for i, cpu := range []int64{2100, 2000} { // which end earlier than expected
					pod := testPod(fmt.Sprintf("early-%d", i), cpu, 1024, time.Hour)
					pod.Annotations["ends-after"] = "3m"
					m.add(pod)
				}
				job(m, 1, 1800, time.Hour)
				job(m, 1, 1700, time.Hour)
				m.run(15*minute, "f")
			},
			`2 pods run, 0 wait, 2 have ended, lost []; small 1 of 1, at most 2; 2 were made, 0 nodes are cordoned`, ``,
		},
		{
			"machines that never come are abandoned for others", one, []provider.Flavor{modelFlavor("never", 4, 16, 10_000), small}, nil,
			func(m *model) {
				job(m, 3, 2500, time.Hour)
				m.run(14*minute, "f")
			},
			`3 pods run, 0 wait, 0 have ended, lost []; never 0 of 0, at most 3; small 3 of 3, at most 3; 6 were made, 0 nodes are cordoned`, ``,
		},
		{
			"a flavor keeps its least number", one, []provider.Flavor{least(1, small)}, nil,
			func(m *model) {
				job(m, 3, 3000, 3*minute)
				m.run(12*minute, "f")
			},
			`0 pods run, 0 wait, 3 have ended, lost []; small 1 of 1, at most 3; 3 were made, 0 nodes are cordoned`, ``,
		},
		{
			"a flavor is grown to its least number, which serves pods", one, []provider.Flavor{atLeast(2, small)}, nil,
			func(m *model) {
				m.run(2*second, "f")
				job(m, 2, 3000, 3*minute)
				m.run(12*minute, "f")
			},
			`0 pods run, 0 wait, 2 have ended, lost []; small 2 of 2, at most 2; 2 were made, 0 nodes are cordoned`, ``,
		},
		{
			"the machines of a deleted fleet are released", []*v1alpha1.NodeFleet{releasing("f")}, []provider.Flavor{small}, nil,
			func(m *model) {
				job(m, 2, 3000, time.Hour)
				m.run(5*minute, "f")
				m.retire("f")
			},
			`0 pods run, 0 wait, 0 have ended, lost []; small 0 of 0, at most 2; 2 were made, 0 nodes are cordoned`, ``,
		},
		{
			"two fleets buy once for the same pods", []*v1alpha1.NodeFleet{f, g}, []provider.Flavor{large, small}, map[string]string{"large": "g", "small": "f"},
			func(m *model) {
				job(m, 2, 3000, time.Hour)
				m.run(5*minute, "g", "f")
			},
			`2 pods run, 0 wait, 0 have ended, lost []; large 1 of 1, at most 1; small 0 of 0, at most 0; 1 were made, 0 nodes are cordoned`,
			// The other fleet came first.
			`2 pods run, 0 wait, 0 have ended, lost []; large 0 of 0, at most 0; small 2 of 2, at most 2; 2 were made, 0 nodes are cordoned`,
		},
		{
			"of two fleets with the same flavors the older has them", []*v1alpha1.NodeFleet{f, g}, []provider.Flavor{small}, nil,
			func(m *model) {
				job(m, 2, 3000, 2*minute)
				m.run(10*minute, "g", "f")
			},
			`0 pods run, 0 wait, 2 have ended, lost []; small 0 of 0, at most 2; 2 were made, 0 nodes are cordoned`, ``,
		},
	}
}

// thorough has the tests of faults try all that they know. It takes four times as long: make test-nightly sets it.
var thorough = flag.Bool("thorough", false, "let the process die both before and after each write, and draw the faults of four seeds")

// TestWhereverTheProcessDiesTheOutcomeIsTheSame lets the process die at each write and restart with an empty memory:
// after the write has taken effect, and if thorough also before, which leaves what the write before it left.
func TestWhereverTheProcessDiesTheOutcomeIsTheSame(t *testing.T) {
	for _, tc := range scenarios() {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			play := func(dies int, applied bool) int {
				m := newModel(t, tc.fleets, tc.sell)
				m.sellers, m.dies, m.applied = tc.owners, dies, applied
				tc.play(m)
				if got := m.outcome(); got != tc.want && (dies == 0 || got != tc.or) {
					t.Errorf("dying at write %d (done: %t):\n%s\nwant\n%s\n%s", dies, applied, got, tc.want, strings.Join(m.log, "\n"))
				}
				return m.writes
			}
			writes := play(0, false)
			if writes == 0 {
				t.Fatal("nothing was written")
			}
			for dies := 1; dies <= writes; dies++ {
				play(dies, true)
				if *thorough {
					play(dies, false)
				}
			}
		})
	}
}

// TestFaultsOfTheAPIServerDelayAndChangeNothing refuses one write of four, or does it and returns an error.
func TestFaultsOfTheAPIServerDelayAndChangeNothing(t *testing.T) {
	for _, tc := range scenarios() {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			seeds := uint64(1)
			if *thorough {
				seeds = 4
			}
			for seed := range seeds {
				r := rand.New(rand.NewPCG(seed, 0))
				m := newModel(t, tc.fleets, tc.sell)
				m.sellers = tc.owners
				m.refuses = func() (bool, bool) { return r.IntN(4) == 0, r.IntN(2) == 0 }
				tc.play(m)
				if got := m.outcome(); got != tc.want && got != tc.or {
					t.Errorf("seed %d:\n%s\nwant\n%s\n%s", seed, got, tc.want, strings.Join(m.log, "\n"))
				}
			}
		})
	}
}
