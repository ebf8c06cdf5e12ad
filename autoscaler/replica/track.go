package replica

import (
	"context"
	"hash/fnv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/replica/decide"
	"supercargo.dev/supercargo/autoscaler/replica/law"
)

// tracked is what is remembered of a policy between looks. All of it can be lost: the
// status has what matters.
type tracked struct {
	key  types.NamespacedName
	uid  types.UID
	spec int64 // the generation of the spec that sound or invalid came from

	// object is the policy as read last. Its status is what was read then.
	object *v1alpha1.ReplicaPolicy
	// status is what the status is to say. written and writtenAt are what it says.
	status, written *v1alpha1.ReplicaPolicyStatus
	writtenAt       time.Time

	sound   *decide.Policy
	invalid error // why there is no sound policy
	memory  law.Memory

	// due is when to look again, and looks how often there was a look.
	due   time.Time
	looks int
	// last is what the last look came to, and readyAt since when as many pods have been
	// Ready as the last decision asked for.
	last    *decide.Outcome
	readyAt time.Time
	// pending is a decision that could not be carried out yet.
	pending *decide.Outcome
	scale   *scaled
	// said is the last event of each kind, which is not repeated.
	said map[string]string
	// cancel ends the asking that is under way.
	cancel context.CancelFunc

	// pods and measured are written by others than the look.
	pods     pods
	measured measured
}

// track returns what is remembered of a policy, up to date with its spec.
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
			key: key, uid: policy.UID, status: policy.Status.DeepCopy(), written: policy.Status.DeepCopy(), said: map[string]string{}, cancel: func() {},
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

// adopt reads a spec that is new. What the law knows stays where it is still of use, and
// there is a look at once.
func (t *tracked) adopt(policy *v1alpha1.ReplicaPolicy) {
	if t.sound != nil && t.memory != nil {
		if saved, err := t.sound.Save(t.memory, t.writtenAt); err == nil {
			t.status.Memory = saved
		}
	}
	t.cancel()
	t.spec, t.due, t.last, t.pending, t.readyAt, t.memory = policy.Generation, time.Time{}, nil, nil, time.Time{}, nil
	t.measured.drop()
	t.sound, t.invalid = decide.New(policy.Namespace, &policy.Spec)
}

// forget drops what is remembered of a policy that is no more.
func (r *Reconciler) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.tracked[key]; t != nil {
		t.cancel()
		delete(r.tracked, key)
	}
	forgetMetrics(key)
}

// stagger shortens the first wait of a policy by up to half, each by its own share: all
// policies begin at once when the controller does, and are not to ask at once ever after.
func (t *tracked) stagger(wait time.Duration) time.Duration {
	if t.looks != 1 {
		return wait
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(t.uid)) // never fails
	return wait - time.Duration(float64(wait)/2*float64(h.Sum32())/float64(1<<32))
}

// measured is what a source answered, or is being asked.
type measured struct {
	mu      sync.Mutex
	round   int
	asking  bool
	askedAt time.Time
	answers []decide.Answer // nil: none that has not been used
}

// begin starts a round of questions, unless one is under way.
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

// end takes the answers of a round, unless it has been dropped.
func (m *measured) end(round int, answers []decide.Answer) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if round != m.round || !m.asking {
		return false
	}
	m.asking, m.answers = false, answers
	return true
}

// take returns answers that have not been used, and when they were asked for.
func (m *measured) take() (answers []decide.Answer, askedAt time.Time, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	answers, m.answers = m.answers, nil
	return answers, m.askedAt, answers != nil
}

// drop lets a round that is under way come to nothing.
func (m *measured) drop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.round++
	m.asking, m.answers = false, nil
}
