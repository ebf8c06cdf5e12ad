package replica

import (
	"context"
	"hash/fnv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/replica/law"
	"supercargo.dev/supercargo/autoscaler/replica/replicadecide"
)

// tracked is the state of a policy between evaluations. It can be rebuilt: the status contains what matters.
type tracked struct {
	key  types.NamespacedName
	uid  types.UID
	spec int64 // the generation that sound or invalid was made from

	// object is the policy as last read, with the status as read.
	object *v1alpha1.ReplicaPolicy
	// status is the desired status. written and writtenAt are the last written one.
	status, written *v1alpha1.ReplicaPolicyStatus
	writtenAt       time.Time

	sound   *replicadecide.Policy
	invalid error // why sound is nil
	memory  law.Memory

	// due is the time of the next evaluation, and evaluations the number of evaluations.
	due         time.Time
	evaluations int
	// last is the last outcome. readyAt is the time since which as many pods have been Ready as the last decision
	// wants.
	last    *replicadecide.Outcome
	readyAt time.Time
	// pending is a decision that has not been carried out yet.
	pending *replicadecide.Outcome
	scale   *scaled
	// events is the last Event message for each reason; it is not repeated.
	events map[string]string
	// cancel cancels the running queries.
	cancel context.CancelFunc

	// pods and measured are also written outside the reconcile loop.
	pods     pods
	measured measured
}

// track returns the state of a policy, updated for its spec.
func (r *Reconciler) track(policy *v1alpha1.ReplicaPolicy) *tracked {
	key := client.ObjectKeyFromObject(policy)
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.tracked[key]
	if t == nil || t.uid != policy.UID {
		if t != nil {
			t.cancel()
		}
		t = &tracked{
			key: key, uid: policy.UID, status: policy.Status.DeepCopy(), written: policy.Status.DeepCopy(), events: map[string]string{}, cancel: func() {},
		}
		t.pods.startUp = t.status.StartUp
		r.tracked[key] = t
	}
	t.object = policy
	if t.spec != policy.Generation {
		t.adopt(policy)
	}
	return t
}

// adopt takes over a new spec. The law's memory is kept if the new law can use it, and an evaluation is due at once.
func (t *tracked) adopt(policy *v1alpha1.ReplicaPolicy) {
	if t.sound != nil && t.memory != nil {
		if saved, err := t.sound.Save(t.memory, t.writtenAt); err == nil {
			t.status.Memory = saved
		}
	}
	t.cancel()
	t.spec, t.due, t.last, t.pending, t.readyAt, t.memory = policy.Generation, time.Time{}, nil, nil, time.Time{}, nil
	t.measured.drop()
	t.sound, t.invalid = replicadecide.New(policy.Namespace, &policy.Spec)
}

// forget drops the state of a deleted policy.
func (r *Reconciler) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.tracked[key]; t != nil {
		t.cancel()
		delete(r.tracked, key)
	}
	forgetMetrics(key)
}

// stagger shortens the first wait of a policy by up to half, by a share derived from its UID. All policies start with
// the controller, and would otherwise query at the same times ever after.
func (t *tracked) stagger(wait time.Duration) time.Duration {
	if t.evaluations != 1 {
		return wait
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(t.uid)) // never fails
	return wait - time.Duration(float64(wait)/2*float64(h.Sum32())/float64(1<<32))
}

// measured is the state of the queries of a policy.
type measured struct {
	mu      sync.Mutex
	round   int
	asking  bool
	askedAt time.Time
	answers []replicadecide.Answer // nil: no unused answers
}

// begin starts a round of queries, unless one is running.
func (m *measured) begin(now time.Time) (round int, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.asking {
		return 0, false
	}
	m.round++
	m.asking, m.askedAt, m.answers = true, now, nil
	return m.round, true
}

// end stores the answers of a round, unless the round was dropped.
func (m *measured) end(round int, answers []replicadecide.Answer) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if round != m.round || !m.asking {
		return false
	}
	m.asking, m.answers = false, answers
	return true
}

// take returns unused answers, and the time for which they were queried.
func (m *measured) take() (answers []replicadecide.Answer, askedAt time.Time, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	answers, m.answers = m.answers, nil
	return answers, m.askedAt, answers != nil
}

// drop discards the running round and unused answers.
func (m *measured) drop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.round++
	m.asking, m.answers = false, nil
}
