package migrationdecide

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/migration/podedit"
	"supercargo.dev/supercargo/test/fixtures"
)

// world simulates everything around a migration: an API server, the actual state of processes and
// machines, and all actors. Each actor does one small step at a time, in any order, and may stop
// for good.
type world struct {
	rnd *rand.Rand
	now time.Time
	// API objects.
	version int
	m       *v1alpha1.Migration // nil if it is gone
	pods    map[string]*corev1.Pod
	nodes   map[string]*corev1.Node
	job     *batchv1.Job // nil if no Job is the owner
	set     *appsv1.ReplicaSet
	budgets []policyv1.PodDisruptionBudget
	made    int // pods that the owner has created
	// The actual state.
	processes map[types.UID]*process
	cut       map[string]bool // machines that are disconnected from the API server
	images    map[string]int  // progress in the checkpoint staged on a node
	left      map[string]bool // nodes with something of the migration on their disk
	dump      int             // progress in the dump on the source
	killOrder bool            // in the source's ledger
	binding   string          // the node to which the scheduler is about to bind
	late      *Step           // the next action of a delayed controller
	// restarted: the old container was killed and started from the beginning.
	restarted bool
	// ran: the kubelet has reported that the new pod runs, before it was to go, and nobody has deleted it since.
	ran bool
	// died: the pod died for a reason that has nothing to do with its migration.
	died bool
	// frozenAt is the progress at the freeze.
	frozenAt int
	trace    []string
	config   Config
}

// process is the actual state of a pod's container.
type process struct {
	node     string
	running  bool
	frozen   bool
	progress int
}

func (p *process) dead() bool { return !p.running && !p.frozen }

const (
	nodeA, nodeB, nodeC = "a", "b", "c"
	source              = "work-x1"
)

// owner is the kind of a pod's owner.
type owner int

const (
	bare owner = iota
	ofJob
	ofSet
)

func newWorld(seed uint64, owned owner) *world {
	w := &world{
		rnd: rand.New(rand.NewPCG(seed, 1)), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), version: 1,
		pods: map[string]*corev1.Pod{}, nodes: map[string]*corev1.Node{}, processes: map[types.UID]*process{},
		cut: map[string]bool{}, images: map[string]int{}, left: map[string]bool{},
		config: Config{MaxMigrations: 10, MaxPerNode: 2, CleanPatience: time.Minute, KeepFinished: time.Hour, MaxFinished: 10},
	}
	for _, name := range []string{nodeA, nodeB, nodeC} {
		w.nodes[name] = fixtures.AbleNode(name)
	}
	pod := runningPod(source, nodeA, v1alpha1.MigrationCheckpoint)
	switch owned {
	case bare:
	case ofJob:
		w.job = fixtures.OwnerJob(pod)
	case ofSet:
		w.set = fixtures.OwnerReplicaSet(pod)
	}
	w.pods[source] = pod
	w.processes[pod.UID] = &process{node: nodeA, running: true}
	w.m = &v1alpha1.Migration{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "move", UID: "1234-5678", ResourceVersion: "1", Generation: 1, CreationTimestamp: metav1.NewTime(w.now)},
		Spec:       v1alpha1.MigrationSpec{PodName: source, Deadline: metav1.Duration{Duration: 5 * time.Minute}},
	}
	return w
}

// ready are the conditions of a ready pod.
var ready = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}

func runningPod(name, node, how string) *corev1.Pod {
	return fixtures.MovablePod(name, node, func(pod *corev1.Pod) {
		pod.ResourceVersion, pod.Annotations[v1alpha1.AnnotationMigration] = "1", how
	})
}

// owned reports whether the pods have an owner. owns reports whether it owns a pod.
func (w *world) owned() bool { return w.job != nil || w.set != nil }

func (w *world) owns(pod *corev1.Pod) bool {
	return w.job != nil && metav1.IsControlledBy(pod, w.job) || w.set != nil && metav1.IsControlledBy(pod, w.set)
}

func (w *world) logf(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
}

// changed sets the next version of an object.
func (w *world) changed(o metav1.Object) {
	w.version++
	o.SetResourceVersion(fmt.Sprint(w.version))
}

// restored returns the pod that the migration created; nil if there is none.
func (w *world) restored() *corev1.Pod {
	for _, pod := range w.pods {
		if pod.Annotations[v1alpha1.AnnotationMigrationName] != "" {
			return pod
		}
	}
	return nil
}

// remove removes a pod's object.
func (w *world) remove(pod *corev1.Pod) {
	delete(w.pods, pod.Name)
	w.logf("pod %s is gone", pod.Name)
}

// deletePod deletes a pod like the API server.
func (w *world) deletePod(pod *corev1.Pod, grace int64) {
	switch {
	case pod.Spec.NodeName == "" || dead(pod):
		if pod.DeletionTimestamp == nil {
			pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = new(metav1.NewTime(w.now)), new(int64(0))
			w.changed(pod)
		}
		w.removeIfDone(pod)
	case pod.DeletionTimestamp == nil || grace < *pod.DeletionGracePeriodSeconds:
		pod.DeletionTimestamp = new(metav1.NewTime(w.now.Add(time.Duration(grace) * time.Second)))
		pod.DeletionGracePeriodSeconds = &grace
		w.changed(pod)
	}
}

// removeIfDone removes a deleted pod without finalizers whose containers are dead.
func (w *world) removeIfDone(pod *corev1.Pod) {
	if pod.DeletionTimestamp != nil && len(pod.Finalizers) == 0 && (pod.Spec.NodeName == "" || dead(pod)) {
		w.remove(pod)
	}
}

// observe returns the observation of the current state.
func (w *world) observe() Observation {
	o := Observation{Migration: w.m.DeepCopy(), Nodes: map[string]*corev1.Node{}, Job: w.job, ReplicaSet: w.set, Budgets: w.budgets}
	for name, node := range w.nodes {
		o.Nodes[name] = node.DeepCopy()
	}
	if pod := w.pods[w.m.Spec.PodName]; pod != nil {
		o.Source = pod.DeepCopy()
	}
	if plan := w.m.Status.Plan; plan != nil {
		if pod := w.pods[plan.RestoredPod]; pod != nil {
			o.Restored = pod.DeepCopy()
		}
		if o.Source != nil && string(o.Source.UID) != plan.PodUID {
			o.Source = nil
		}
	}
	return o
}

// decide returns the next step.
func (w *world) decide() Step {
	o := w.observe()
	step := Next(w.config, o, w.now)
	if step.Do == TryPod {
		o.Trial = &Trial{}
		step = Next(w.config, o, w.now)
	}
	return step
}

// apply does a step like the API server: only if its object has not changed. It reports whether
// there was something to do.
func (w *world) apply(step Step, version string) bool {
	switch step.Do {
	case Wait:
		return false
	case WriteBudget:
		w.budgets = []policyv1.PodDisruptionBudget{*step.Budget}
		return true
	case CreatePod:
		if w.pods[step.Pod.Name] == nil {
			pod := step.Pod.DeepCopy()
			pod.UID = types.UID(fmt.Sprintf("uid-%s-%d", pod.Name, w.version))
			pod.Status.Phase = corev1.PodPending
			w.changed(pod)
			w.pods[pod.Name] = pod
		}
		return true
	case PatchPod, DeletePod:
		pod := w.pods[step.Pod.Name]
		if pod == nil || pod.ResourceVersion != step.Pod.ResourceVersion {
			return true
		}
		if step.Do == DeletePod {
			w.deletePod(pod, step.GraceSeconds)
			return true
		}
		to := step.Pod.DeepCopy()
		w.changed(to)
		w.pods[to.Name] = to
		w.removeIfDone(to)
		return true
	}
	if w.m == nil || w.m.ResourceVersion != version {
		return true
	}
	switch step.Do {
	case WriteStatus:
		w.m.Status = *step.Status.DeepCopy()
	case AddFinalizer:
		w.m.Finalizers = []string{v1alpha1.FinalizerMigration}
	case RemoveFinalizer:
		w.m.Finalizers = nil
	case DeleteMigration:
		w.m.DeletionTimestamp = new(metav1.NewTime(w.now))
	}
	w.changed(w.m)
	w.migrationMayGo()
	return true
}

func (w *world) migrationMayGo() {
	if w.m.DeletionTimestamp != nil && len(w.m.Finalizers) == 0 {
		w.m = nil
	}
}

// controller observes, decides and writes. It reports whether it wrote.
func (w *world) controller() bool {
	if w.m == nil {
		return w.sweep()
	}
	step := w.decide()
	if step.Do != Wait {
		w.logf("controller: %s: %s", step.Do, step.Why)
	}
	return w.apply(step, w.m.ResourceVersion)
}

// sweep removes the pod that a delayed controller created too late.
func (w *world) sweep() bool {
	pod := w.restored()
	if pod == nil || pod.Labels[v1alpha1.LabelMigration] == "" {
		return false
	}
	var old *corev1.Pod
	if name, uid, ok := podedit.SourceOf(pod); ok && w.pods[name] != nil && w.pods[name].UID == uid {
		old = w.pods[name].DeepCopy()
	}
	step := Leftover(w.m, pod.DeepCopy(), old)
	if step == nil {
		return false
	}
	w.logf("controller: %s a leftover", step.Do)
	return w.apply(*step, "")
}

// holdUp lets a controller observe and decide, and delays its write.
func (w *world) holdUp() {
	if w.m != nil && w.late == nil {
		step := w.decide()
		if step.Do == CreatePod || step.Do == DeletePod || step.Do == PatchPod {
			w.late = &step
			w.logf("a controller is held up before: %s", step.Do)
		}
	}
}

func (w *world) comeLate() {
	if w.late != nil {
		w.logf("late: %s", w.late.Do)
		w.apply(*w.late, "")
		w.late = nil
	}
}

// jobController does one round for the Job, like that of Kubernetes.
func (w *world) jobController() {
	if w.job == nil {
		return
	}
	active, terminating := []*corev1.Pod{}, 0
	for _, name := range slices.Sorted(maps.Keys(w.pods)) {
		pod := w.pods[name]
		if !metav1.IsControlledBy(pod, w.job) {
			continue
		}
		tracked := slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer)
		switch {
		case dead(pod) && tracked:
			if pod.Status.Phase == corev1.PodFailed {
				w.job.Status.Failed++
			} else {
				w.job.Status.Succeeded++
			}
			pod.Finalizers = nil
			w.changed(pod)
			w.removeIfDone(pod)
		case dead(pod):
		case pod.DeletionTimestamp != nil:
			terminating++
		default:
			active = append(active, pod)
		}
	}
	if w.job.Status.Succeeded > 0 {
		return
	}
	if len(active) > 1 {
		w.deletePod(active[0], 30)
	}
	if len(active)+terminating == 0 && w.made < 3 {
		w.makeFresh()
	}
}

// setController does one round for the ReplicaSet, like that of Kubernetes: it adopts and
// releases pods by their labels, creates missing ones, and deletes surplus ones in its order of
// preference.
func (w *world) setController() {
	if w.set == nil {
		return
	}
	selector := labels.SelectorFromSet(w.set.Spec.Selector.MatchLabels)
	var active []*corev1.Pod
	for _, name := range slices.Sorted(maps.Keys(w.pods)) {
		pod := w.pods[name]
		if dead(pod) || pod.DeletionTimestamp != nil {
			continue
		}
		matches := selector.Matches(labels.Set(pod.Labels))
		switch owner := metav1.GetControllerOf(pod); {
		case owner == nil && matches:
			pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(w.set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
			w.changed(pod)
			w.logf("the ReplicaSet adopts %s", name)
		case owner != nil && !matches:
			pod.OwnerReferences = nil
			w.changed(pod)
			continue
		case owner == nil:
			continue
		}
		active = append(active, pod)
	}
	switch {
	case len(active) == 0 && w.made < 3:
		w.makeFresh()
	case len(active) > 1:
		slices.SortFunc(active, func(a, b *corev1.Pod) int { return slices.Compare(goesFirst(a), goesFirst(b)) })
		w.logf("the ReplicaSet has %d pods and deletes %s", len(active), active[0].Name)
		w.deletePod(active[0], 30)
	}
}

// goesFirst returns the sort key of a ReplicaSet's pods: the least is deleted first.
func goesFirst(pod *corev1.Pod) []int {
	cost, _ := strconv.Atoi(pod.Annotations[corev1.PodDeletionCost]) // 0 if there is none
	bit := func(is bool) int {
		if is {
			return 1
		}
		return 0
	}
	return []int{bit(pod.Spec.NodeName != ""), bit(pod.Status.Phase == corev1.PodRunning), bit(isReady(pod)), cost}
}

// makeFresh creates the pod with which an owner replaces another. It starts at once.
func (w *world) makeFresh() {
	w.made++
	pod := runningPod(fmt.Sprintf("work-y%d", w.made), nodeC, v1alpha1.MigrationNever)
	if w.set != nil {
		fixtures.OwnerReplicaSet(pod)
	} else {
		fixtures.OwnerJob(pod)
	}
	w.changed(pod)
	w.pods[pod.Name] = pod
	w.processes[pod.UID] = &process{node: nodeC, running: true}
	w.logf("the owner makes %s", pod.Name)
}

// kubelet does one step for one pod of its node.
func (w *world) kubelet(node string) {
	if w.cut[node] {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(w.pods)) {
		pod := w.pods[name]
		if pod.Spec.NodeName != node {
			continue
		}
		if w.tend(pod) {
			return
		}
	}
}

// tend brings a pod one step closer to its desired state, and reports whether it did.
func (w *world) tend(pod *corev1.Pod) bool {
	p := w.processes[pod.UID]
	switch {
	case p == nil && pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodPending:
		return w.start(pod)
	case p == nil && pod.DeletionTimestamp != nil:
		w.processes[pod.UID] = &process{node: pod.Spec.NodeName}
		return true
	case p == nil:
		return false
	case pod.DeletionTimestamp != nil && p.running:
		*p = process{node: p.node, progress: p.progress}
		w.logf("%s is killed", pod.Name)
		return true
	case pod.DeletionTimestamp != nil && p.frozen && w.now.After(pod.DeletionTimestamp.Time):
		*p = process{node: p.node, progress: p.progress} // SIGKILL also kills frozen processes
		w.logf("%s is killed: its time is over", pod.Name)
		return true
	case p.dead() && !dead(pod):
		pod.Status.Phase = corev1.PodFailed
		pod.Status.Conditions, pod.Status.ContainerStatuses = nil, nil
		w.changed(pod)
		w.logf("%s is said to be dead", pod.Name)
		return true
	case p.dead() && pod.DeletionTimestamp != nil:
		w.removeIfDone(pod)
		return w.pods[pod.Name] == nil
	case p.running && pod.Status.Phase == corev1.PodPending:
		w.saidToRun(pod)
		return true
	}
	return false
}

// saidToRun has the kubelet report that a pod runs.
func (w *world) saidToRun(pod *corev1.Pod) {
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = ready
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "main", ContainerID: "containerd://" + pod.Name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(w.now)}},
	}}
	w.changed(pod)
	w.ran = w.ran || pod.Name != source && w.m != nil && !Back(w.m)
	w.logf("%s is said to run", pod.Name)
}

// start starts the container of a bound pod, from its checkpoint if it has one that exists.
func (w *world) start(pod *corev1.Pod) bool {
	p := &process{node: pod.Spec.NodeName, running: true}
	if c := pod.Spec.Containers[0]; c.ImagePullPolicy == corev1.PullNever {
		progress, ok := w.images[pod.Spec.NodeName]
		if !ok {
			return false
		}
		p.progress = progress
	}
	w.processes[pod.UID] = p
	w.logf("%s starts on %s", pod.Name, p.node)
	return true
}
