package drain

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/movable/attempts"
	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/internal/world"
)

// LabelDrained is the label of Migrations that drain a node. Its value is the UID of the pod that they move.
const LabelDrained = v1alpha1.GroupName + "/drained-pod"

// Emptying moves or evicts the pods of nodes that are being drained.
type Emptying struct {
	// Client creates Migrations and evictions.
	Client client.Client
	// View is the cluster; its Migrations show what has been tried.
	View *world.View
	// Learned holds learned runtimes of batch pods.
	Learned *runtimes.Learner

	tried map[types.UID]tries
}

// tries is the outcome of the Migrations of one pod.
type tries struct {
	moving     bool
	rolledBack int
	refused    string
	last       int
}

// NewEmptying returns an Emptying for the given view of the cluster.
func NewEmptying(c client.Client, v *world.View, learned *runtimes.Learner) *Emptying {
	e := &Emptying{Client: c, View: v, Learned: learned, tried: map[types.UID]tries{}}
	for i := range v.Migrations {
		m := &v.Migrations[i]
		uid := types.UID(m.Spec.PodUID)
		if m.Status.Plan != nil {
			uid = types.UID(m.Status.Plan.PodUID)
		}
		if ended := world.Ended(m); uid == "" || ended && m.Labels[LabelDrained] == "" {
			continue // finished Migrations that were not made for a drain do not count
		}
		tried := e.tried[uid].with(m)
		if number, ok := attempts.Number(m.Name, attempts.Drain, uid); ok {
			tried.last = max(tried.last, number)
		}
		e.tried[uid] = tried
	}
	return e
}

func (t tries) with(m *v1alpha1.Migration) tries {
	switch {
	case !world.Ended(m):
		t.moving = true
	case m.Status.Phase == v1alpha1.MigrationRolledBack:
		t.rolledBack++
	case m.Status.Phase == v1alpha1.MigrationRefused:
		t.refused = "its migration was refused"
		for _, c := range m.Status.Conditions {
			if c.Type == v1alpha1.MigrationFinished && c.Message != "" {
				t.refused += ": " + c.Message
			}
		}
	}
	return t
}

// Leaver returns what is known about a pod that is to leave.
func (e *Emptying) Leaver(pod *corev1.Pod) Leaver {
	exit, tried := e.View.Exit(pod), e.tried[pod.UID]
	l := Leaver{
		Ways: exit.Ways, Held: exit.Held, Budget: exit.Budget, Going: pod.DeletionTimestamp != nil,
		Moving: tried.moving || world.Restoring(pod), Refused: tried.refused, LastTry: tried.last,
		RolledBack: max(tried.rolledBack, attempts.Failed(pod, attempts.Drain, e.View.Now())),
	}
	if kind, _ := class.OfPod(pod); kind == class.Batch {
		l.Ends = runtimes.Expected(pod, e.Learned, runtimes.Default)
	}
	return l
}

// Asked is what was requested for a pod.
type Asked int

const (
	// Nothing means that nothing was requested, or that the request was refused for now.
	Nothing Asked = iota
	// Migration means that a Migration was created.
	Migration
	// Eviction means that the pod was evicted.
	Eviction
)

// Do carries out a step for a pod and returns what it requested. An eviction that a PodDisruptionBudget, or the webhook
// that turns evictions into migrations, refuses is retried in the next round. A Migration that already exists is not an
// error.
func (e *Emptying) Do(ctx context.Context, pod *corev1.Pod, s Step, owner string) (Asked, error) {
	switch s.Do {
	case Migrate:
		return e.migrate(ctx, pod, s, owner)
	case Evict:
		return e.evict(ctx, pod)
	}
	return Nothing, nil
}

func (e *Emptying) migrate(ctx context.Context, pod *corev1.Pod, s Step, owner string) (Asked, error) {
	m := &v1alpha1.Migration{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: attempts.Name(attempts.Drain, pod.UID, s.Try),
			Labels:      map[string]string{LabelDrained: string(pod.UID)},
			Annotations: map[string]string{v1alpha1.AnnotationRequestedBy: owner},
		},
		Spec: v1alpha1.MigrationSpec{PodName: pod.Name, PodUID: string(pod.UID), TargetNode: s.Target},
	}
	switch err := e.Client.Create(ctx, m); {
	case err == nil:
		return Migration, nil
	case apierrors.IsAlreadyExists(err):
		return Nothing, nil // the cache will soon contain it
	default:
		return Nothing, fmt.Errorf("create Migration %s/%s of pod %s: %w", m.Namespace, m.Name, pod.Name, err)
	}
}

// Cancel deletes the Migrations that owner requested to drain a node and that have not frozen anything yet. The node
// stays, so these pods may stay too. Other Migrations run to their end.
func (e *Emptying) Cancel(ctx context.Context, node, owner string) error {
	on := map[types.UID]bool{}
	for _, p := range e.View.Pods {
		if p.Spec.NodeName == node {
			on[p.UID] = true
		}
	}
	for i := range e.View.Migrations {
		m := &e.View.Migrations[i]
		if world.Ended(m) || m.Annotations[v1alpha1.AnnotationRequestedBy] != owner || !on[types.UID(m.Labels[LabelDrained])] {
			continue
		}
		switch m.Status.Phase {
		case "", v1alpha1.MigrationPending, v1alpha1.MigrationReserving:
			if err := e.Client.Delete(ctx, m, client.Preconditions{UID: new(m.UID), ResourceVersion: new(m.ResourceVersion)}); client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
				return fmt.Errorf("cancel Migration %s/%s: %w", m.Namespace, m.Name, err)
			}
		}
	}
	return nil
}

func (e *Emptying) evict(ctx context.Context, pod *corev1.Pod) (Asked, error) {
	eviction := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))},
	}
	switch err := e.Client.SubResource("eviction").Create(ctx, pod, eviction); {
	case err == nil:
		return Eviction, nil
	case apierrors.IsTooManyRequests(err), apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return Nothing, nil
	default:
		return Nothing, fmt.Errorf("evict pod %s: %w", world.PodName(pod), err)
	}
}
