package integration

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/movable/capability"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/manifests"
	"supercargo.dev/supercargo/test/fixtures"
	"supercargo.dev/supercargo/test/kit"
	"supercargo.dev/supercargo/test/kit/testapi"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// staging is a control plane in which the test replaces the migration controller and the agents: a scheduler
// learns about a migration only from its status.
type staging struct {
	t       *testing.T
	p       *playground.Playground
	client  kubernetes.Interface
	objects client.Client
}

// newStaging starts a control plane that serves Migrations.
func newStaging(t *testing.T) *staging {
	t.Helper()
	s := withoutMigrations(t)
	s.install()
	return s
}

// withoutMigrations starts a control plane that does not.
func withoutMigrations(t *testing.T) *staging {
	t.Helper()
	p, c := controlPlane(t)
	return &staging{t, p, c, kit.NewClient(t, p.Config())}
}

// install makes the API server serve Migrations.
func (s *staging) install() {
	s.t.Helper()
	text, err := manifests.CRDs.ReadFile("crd/supercargo.dev_migrations.yaml")
	if err != nil {
		s.t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(text, crd); err != nil {
		s.t.Fatal(err)
	}
	testapi.Create(s.t, s.objects, crd)
	eventually(s.t, func() error { return s.objects.List(s.t.Context(), &v1alpha1.MigrationList{}) })
}

// ableNode creates a node that can restore checkpoints.
func (s *staging) ableNode(name string, memory int64, features ...string) {
	s.t.Helper()
	createNode(s.t, s.client, fixtures.Node(name, 4000, memory, func(n *corev1.Node) {
		n.Annotations = map[string]string{v1alpha1.AnnotationCapability: capability.Node{
			Backends: []v1alpha1.MigrationBackend{v1alpha1.BackendSimulated}, Arch: "amd64", CPUFeatures: features, Restore: true,
		}.Encode()}
	}))
}

var needsAVX2 = capability.Requirements{Backend: v1alpha1.BackendSimulated, Arch: "amd64", CPUFeatures: []string{"avx2"}}

// move creates a Migration of the pod NAME-old, if it exists, with its plan and its new pod NAME-moved, of 1
// GiB.
func (s *staging) move(name string, requirements capability.Requirements, change ...func(*corev1.Pod)) {
	s.t.Helper()
	m := &v1alpha1.Migration{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       v1alpha1.MigrationSpec{PodName: name + "-old", Deadline: metav1.Duration{Duration: 5 * time.Minute}},
	}
	testapi.Create(s.t, s.objects, m)
	now, old := metav1.Now(), "old-uid"
	if pod, err := s.client.CoreV1().Pods("default").Get(s.t.Context(), m.Spec.PodName, metav1.GetOptions{}); err == nil {
		old = string(pod.UID)
	}
	s.write(name, func(st *v1alpha1.MigrationStatus) {
		st.Phase, st.Order = v1alpha1.MigrationReserving, v1alpha1.OrderPrepare
		st.Plan = &v1alpha1.MigrationPlan{
			StartedAt: now, DeadlineAt: metav1.NewTime(now.Add(5 * time.Minute)), SourceNode: "source", PodUID: old,
			Container: "main", BaseImage: "busybox", Backend: requirements.Backend, RestoredPod: name + "-moved",
		}
	})
	pod := fixtures.Pod(name+"-moved", 100, gi, change...)
	pod.Labels[v1alpha1.LabelMigration] = string(m.UID)
	pod.Annotations[v1alpha1.AnnotationMigrationName] = name
	pod.Annotations[v1alpha1.AnnotationRequirements] = requirements.Encode()
	createPods(s.t, s.client, []*corev1.Pod{pod})
}

func (s *staging) read(name string) *v1alpha1.Migration {
	s.t.Helper()
	m := &v1alpha1.Migration{}
	testapi.Get(s.t, s.objects, client.ObjectKey{Namespace: "default", Name: name}, m)
	return m
}

// write changes the status of a Migration.
func (s *staging) write(name string, change func(*v1alpha1.MigrationStatus)) {
	s.t.Helper()
	if err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		m := s.read(name)
		change(&m.Status)
		return s.objects.Status().Update(s.t.Context(), m)
	}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *staging) order(name string, order v1alpha1.MigrationOrder) {
	s.t.Helper()
	s.write(name, func(st *v1alpha1.MigrationStatus) { st.Order = order })
}

func (s *staging) target(name, node string, step v1alpha1.TargetStep) {
	s.t.Helper()
	s.write(name, func(st *v1alpha1.MigrationStatus) {
		st.Target = &v1alpha1.TargetReport{Node: node, Step: step, Time: metav1.NowMicro(), Reason: "ImageMissing", Message: "pull busybox on the node"}
	})
}

// reserved waits until the node, or any node if it is "", is reserved for the new pod of a migration, and
// returns its name.
func (s *staging) reserved(name, node string) string {
	s.t.Helper()
	var r *v1alpha1.MigrationReservation
	eventually(s.t, func() error {
		r = s.read(name).Status.Reservation
		if r == nil || node != "" && r.Node != node {
			return fmt.Errorf("reservation %+v, want one of node %q", r, node)
		}
		return nil
	})
	if pod := s.pod(name + "-moved"); r.PodUID != string(pod.UID) {
		s.t.Errorf("reserved for pod %s, want %s", r.PodUID, pod.UID)
	}
	return r.Node
}

// free waits until no node is reserved.
func (s *staging) free(name string) {
	s.t.Helper()
	eventually(s.t, func() error {
		if r := s.read(name).Status.Reservation; r != nil {
			return fmt.Errorf("reservation %+v is not undone", r)
		}
		return nil
	})
}

func (s *staging) pod(name string) *corev1.Pod {
	s.t.Helper()
	pod, err := s.client.CoreV1().Pods("default").Get(s.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return pod
}

// bound waits until the pod is bound, and returns its node.
func (s *staging) bound(name string) string {
	s.t.Helper()
	var node string
	eventually(s.t, func() error {
		if node = s.pod(name).Spec.NodeName; node == "" {
			return fmt.Errorf("pod %s is not bound", name)
		}
		return nil
	})
	return node
}

// others waits until the scheduler binds a pod that does not move. By then it has observed all earlier
// changes, so it will not act on them later.
func (s *staging) others(name string) {
	s.t.Helper()
	createPods(s.t, s.client, []*corev1.Pod{fixtures.Pod(name, 10, gi/64)})
	s.bound(name)
}

// pending fails the test if the new pod of a migration is bound.
func (s *staging) pending(name string) {
	s.t.Helper()
	if node := s.pod(name + "-moved").Spec.NodeName; node != "" {
		s.t.Fatalf("the pod is bound to %s", node)
	}
}

func TestAMovedPodIsHeldOnItsReservedNodeUntilItsCheckpointIsStaged(t *testing.T) {
	s := newStaging(t)
	createNode(t, s.client, fixtures.Node("agentless", 4000, 2*gi))
	s.ableNode("old", 2*gi, "sse4_2")
	s.ableNode("good", 8*gi, "avx2", "sse4_2")
	startScheduler(t, s.p, fast)
	s.move("m", needsAVX2)
	s.reserved("m", "good")
	eventually(t, func() error {
		if node := s.pod("m-moved").Status.NominatedNodeName; node != "good" {
			return fmt.Errorf("the pod's status names node %q", node)
		}
		return nil
	})
	s.target("m", "good", v1alpha1.TargetPrepared)
	s.order("m", v1alpha1.OrderFreeze)
	s.target("m", "old", v1alpha1.TargetStaged) // a report of another node
	s.others("a")
	s.pending("m")
	s.target("m", "good", v1alpha1.TargetStaged)
	if node := s.bound("m-moved"); node != "good" {
		t.Errorf("the pod is bound to %s, want good", node)
	}
	if r := s.read("m").Status.Reservation; r == nil || r.Node != "good" {
		t.Errorf("the reservation has become %+v", r)
	}
}

func TestTheRoomOfAMovedPodIsGivenAwayWhenItsAgentFails(t *testing.T) {
	s := newStaging(t)
	s.ableNode("good", gi+gi/2, "avx2")
	startScheduler(t, s.p, fast)
	s.move("m", needsAVX2)
	s.reserved("m", "good")
	createPods(t, s.client, []*corev1.Pod{fixtures.Pod("waits", 100, gi)})
	wantUnschedulable(t, s.client, "Insufficient memory")
	s.target("m", "good", v1alpha1.TargetFailed)
	s.free("m")
	wantUnschedulable(t, s.client, "the pod cannot be restored on node good: ImageMissing: pull busybox on the node")
	s.bound("waits")
	s.pending("m")
}

func TestAMovedPodIsTriedAgainWhenNobodyPreparesItsNode(t *testing.T) {
	s := newStaging(t)
	s.ableNode("good", 8*gi, "avx2")
	startScheduler(t, s.p, fast+"  pluginConfig:\n  - {name: CheckpointStaging, args: {timeout: 1s}}\n")
	s.move("m", needsAVX2)
	wantUnschedulable(t, s.client, "the pod was held on node good for 1s")
	s.reserved("m", "good")
	// Once it is frozen, the checkpoint has time until the deadline.
	s.order("m", v1alpha1.OrderFreeze)
	eventually(t, func() error { // the order may coincide with the removal of a reservation
		if st := s.read("m").Status; st.Reservation == nil {
			s.write("m", func(st *v1alpha1.MigrationStatus) { st.Order = v1alpha1.OrderPrepare })
			s.reserved("m", "good")
			s.order("m", v1alpha1.OrderFreeze)
			return errors.New("the order came between two reservations")
		}
		return nil
	})
	s.target("m", "good", v1alpha1.TargetStaged)
	s.bound("m-moved")
}

func TestAMovedPodWhoseMigrationIsGoneIsNotBound(t *testing.T) {
	s := newStaging(t)
	s.ableNode("good", 8*gi, "avx2")
	startScheduler(t, s.p, fast)
	s.move("m", needsAVX2)
	s.reserved("m", "good")
	testapi.Delete(t, s.objects, s.read("m"))
	wantUnschedulable(t, s.client, "the pod is the new pod of a migration that no longer exists")
	s.others("a")
	s.pending("m")
}

func TestARollBackEndsTheHoldAndLeavesTheAgentItsReservation(t *testing.T) {
	s := newStaging(t)
	s.ableNode("good", 8*gi, "avx2")
	startScheduler(t, s.p, fast)
	s.move("m", needsAVX2)
	s.reserved("m", "good")
	s.order("m", v1alpha1.OrderThaw)
	s.target("m", "good", v1alpha1.TargetStaged) // too late
	wantUnschedulable(t, s.client, "the pod is the new pod of a migration with order Thaw")
	s.others("a")
	s.pending("m")
	s.reserved("m", "good")
}

func TestTheRoomOfAHeldPodIsFreeWhenItIsDeleted(t *testing.T) {
	s := newStaging(t)
	s.ableNode("good", gi+gi/2, "avx2")
	startScheduler(t, s.p, fast)
	s.move("m", needsAVX2)
	s.reserved("m", "good")
	createPods(t, s.client, []*corev1.Pod{fixtures.Pod("waits", 100, gi)})
	wantUnschedulable(t, s.client, "Insufficient memory")
	if err := s.client.CoreV1().Pods("default").Delete(t.Context(), "m-moved", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.bound("waits")
}

// TestASchedulerKilledWhileItHoldsAPodIsFollowedByOneThatContinues gives the next scheduler a node that it would
// prefer if the checkpoint were not being copied.
func TestASchedulerKilledWhileItHoldsAPodIsFollowedByOneThatContinues(t *testing.T) {
	s := newStaging(t)
	s.ableNode("good", 8*gi, "avx2")
	first := startProcess(t, s.p, fast)
	s.move("m", needsAVX2)
	s.reserved("m", "good")
	s.order("m", v1alpha1.OrderFreeze)
	if err := first.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait() // it was killed
	s.ableNode("better", gi+gi/64, "avx2")
	if _, err := s.client.CoreV1().Pods("default").Patch(t.Context(), "m-moved", "application/merge-patch+json",
		[]byte(`{"status":{"nominatedNodeName":null}}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err) // so that the next scheduler does not find it
	}
	startProcess(t, s.p, fast)
	s.others("a") // on the better node
	s.pending("m")
	s.target("m", "good", v1alpha1.TargetStaged)
	if node := s.bound("m-moved"); node != "good" {
		t.Errorf("the pod is bound to %s, want good", node)
	}
}

func TestASchedulerThatStopsKeepsTheReservationForTheNext(t *testing.T) {
	s := newStaging(t)
	s.ableNode("good", 8*gi, "avx2")
	first := startScheduler(t, s.p, fast)
	s.move("m", needsAVX2)
	s.reserved("m", "good")
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	before := s.read("m").Status.Reservation
	if before == nil {
		t.Fatal("the reservation was undone")
	}
	startScheduler(t, s.p, fast)
	s.order("m", v1alpha1.OrderFreeze)
	s.target("m", "good", v1alpha1.TargetStaged)
	s.bound("m-moved")
	if after := s.read("m").Status.Reservation; after == nil || *after != *before {
		t.Errorf("the reservation was %+v and is %+v", before, after)
	}
}

func TestAPodThatNoNodeCanRestoreIsBoundWhenOneCan(t *testing.T) {
	s := newStaging(t)
	createNode(t, s.client, fixtures.Node("agentless", 4000, 8*gi))
	s.ableNode("old", 8*gi, "sse4_2")
	startScheduler(t, s.p, fast)
	s.move("m", needsAVX2)
	wantUnschedulable(t, s.client, "1 node(s) had no node-agent that could restore a checkpoint")
	wantUnschedulable(t, s.client, "1 node(s) could not restore the checkpoint: the node lacks CPU feature avx2")
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationCapability,
		capability.Node{Backends: []v1alpha1.MigrationBackend{v1alpha1.BackendSimulated}, Arch: "amd64", CPUFeatures: []string{"avx2"}, Restore: true}.Encode())
	if _, err := s.client.CoreV1().Nodes().Patch(t.Context(), "agentless", "application/merge-patch+json", []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	s.reserved("m", "agentless")
}

func TestNoPodIsPreemptedToMoveAnother(t *testing.T) {
	s := newStaging(t)
	s.ableNode("full", gi+gi/2, "avx2")
	createPreemptible(t, s.client, fixtures.Pod("victim", 100, gi, func(p *corev1.Pod) { p.Spec.NodeName = "full" }))
	startScheduler(t, s.p, fast)
	s.move("m", needsAVX2)
	wantUnschedulable(t, s.client, "no pods are preempted for the new pod of a migration")
	// Any other pod of that priority would have preempted it.
	if v := s.pod("victim"); v.DeletionTimestamp != nil {
		t.Error("the other pod was evicted")
	}
	createPods(t, s.client, []*corev1.Pod{fixtures.Pod("plain", 100, gi)})
	eventually(t, func() error {
		if v, err := s.client.CoreV1().Pods("default").Get(t.Context(), "victim", metav1.GetOptions{}); err == nil && v.DeletionTimestamp == nil {
			return errors.New("the other pod is not evicted for a pod that does not move: the test shows nothing")
		}
		return nil
	})
}

// TestASchedulerWorksWhereMigrationsAreNotKnown tests what makes the image a drop-in replacement.
func TestASchedulerWorksWhereMigrationsAreNotKnown(t *testing.T) {
	s := withoutMigrations(t)
	s.ableNode("good", 8*gi, "avx2")
	startScheduler(t, s.p, fast)
	s.others("a")
	createPods(t, s.client, []*corev1.Pod{fixtures.Pod("strange", 100, gi, func(p *corev1.Pod) {
		p.Labels[v1alpha1.LabelMigration] = "nobody-knows"
		p.Annotations[v1alpha1.AnnotationRequirements] = needsAVX2.Encode()
	})})
	wantUnschedulable(t, s.client, "the cache of migrations has not synced yet")
	s.others("b")
	s.install()
	s.move("m", needsAVX2)
	s.reserved("m", "good")
	wantUnschedulable(t, s.client, "the pod is the new pod of a migration that no longer exists")
}

// TestASchedulerNeedsNoRightsToMigrationsUntilOneMoves runs a scheduler as the user that kubeadm creates for
// it, first with the permissions of the stock scheduler.
func TestASchedulerNeedsNoRightsToMigrationsUntilOneMoves(t *testing.T) {
	s := newStaging(t)
	s.ableNode("good", 8*gi, "avx2")
	as, err := clientcmd.LoadFromFile(s.p.KubeconfigPath())
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range as.AuthInfos {
		user.Impersonate = "system:kube-scheduler"
	}
	kubeconfig := filepath.Join(t.TempDir(), "scheduler.conf")
	if err := clientcmd.WriteToFile(*as, kubeconfig); err != nil {
		t.Fatal(err)
	}
	startProcessWith(t, kubeconfig, fast)
	s.others("a")
	s.move("m", needsAVX2)
	// On another pod, because the first was tried before the informer had synced.
	wantUnschedulable(t, s.client, "the cache of migrations has not synced yet")
	eventually(t, func() error {
		createPods(t, s.client, []*corev1.Pod{s.copyOf("m-moved")})
		return unschedulable(t, s.client, "allow the scheduler to get, list and watch migrations.supercargo.dev and to patch migrations/status")
	})
	s.apply("../../manifests/scheduler/replace/rbac.yaml")
	s.reserved("m", "good")
	s.order("m", v1alpha1.OrderFreeze)
	s.target("m", "good", v1alpha1.TargetStaged)
	s.bound("m-moved")
}

// copyOf returns a pod like another, with its own name.
func (s *staging) copyOf(name string) *corev1.Pod {
	like := s.pod(name)
	return fixtures.Pod(fmt.Sprintf("%s-%d", name, time.Now().UnixNano()), 100, gi, func(p *corev1.Pod) {
		p.Labels, p.Annotations = like.Labels, like.Annotations
	})
}

// apply creates the objects in a file.
func (s *staging) apply(path string) {
	s.t.Helper()
	text := testfile.Read(s.t, path)
	for _, doc := range strings.Split(string(text), "\n---\n") {
		var object client.Object = &rbacv1.ClusterRole{}
		if strings.Contains(doc, "kind: ClusterRoleBinding") {
			object = &rbacv1.ClusterRoleBinding{}
		}
		if err := yaml.UnmarshalStrict([]byte(doc), object); err != nil {
			s.t.Fatal(err)
		}
		if err := s.objects.Create(s.t.Context(), object); err != nil && !apierrors.IsAlreadyExists(err) {
			s.t.Fatal(err)
		}
	}
}

func TestManyPodsAreHeldAtOnceAndHoldUpNoOther(t *testing.T) {
	s := newStaging(t)
	const n = 60
	for i := range 4 {
		s.ableNode(fmt.Sprintf("node-%d", i), 64*gi, "avx2")
	}
	startScheduler(t, s.p, fast)
	name := func(i int) string { return fmt.Sprintf("m%02d", i) }
	for i := range n {
		s.move(name(i), needsAVX2)
	}
	nodes := make([]string, n)
	for i := range n {
		nodes[i] = s.reserved(name(i), "")
	}
	s.others("a")
	for i := range n {
		s.pending(name(i))
		s.write(name(i), func(st *v1alpha1.MigrationStatus) {
			st.Order = v1alpha1.OrderFreeze
			st.Target = &v1alpha1.TargetReport{Node: nodes[i], Step: v1alpha1.TargetStaged, Time: metav1.NowMicro()}
		})
	}
	for i := range n {
		if node := s.bound(name(i) + "-moved"); node != nodes[i] {
			t.Errorf("pod %d is on %s, want %s", i, node, nodes[i])
		}
	}
}
