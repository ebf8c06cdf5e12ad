// Package lives draws what happens in small clusters while `supercargo record` watches them: pods with every kind
// of constraint, nodes of several architectures, zones and prices, deletions, and interruptions of the recorder. The
// recordings are written by the recorder's own tracker and file.
//
// lives.go has the recorder, events.go what happens, nodes.go and pods.go the objects.
package lives

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/cli/record"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/input/trace"
)

// Life is what a recording must show of the life of a cluster.
type Life struct {
	// Pods is the number of pods to simulate: those that were observed, without the pods of DaemonSets and those
	// that ended before they were observed to run.
	Pods int
	// Services is the number of services among them that had not ended.
	Services int
	// Unpriced reports whether a node without a known price was observed, and Nodes whether any node was.
	Unpriced, Nodes bool
}

// Record draws a life and records it in a new file. Equal seeds give equal lives, but names and IDs may be hashed
// with a random salt.
func Record(path string, seed uint64) (*Life, error) {
	l := &life{r: rand.New(rand.NewPCG(seed, 11)), path: path, now: time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC), fates: map[string]*fate{}}
	l.hash, l.unpriced = l.oneIn(4), l.oneIn(25)
	var err error
	for range l.r.IntN(8) {
		err = errors.Join(err, l.nodeComes())
	}
	for range l.r.IntN(30) {
		err = errors.Join(err, l.happens())
	}
	err = errors.Join(err, l.begin())
	for range 20 + l.r.IntN(130) {
		if err == nil {
			err = l.happens()
		}
	}
	if err = errors.Join(err, l.end(l.oneIn(3))); err != nil {
		return nil, fmt.Errorf("seed %d: %w", seed, err)
	}
	return l.told(), nil
}

// life is a cluster and its recorder.
type life struct {
	r     *rand.Rand
	now   time.Time
	nodes []*corev1.Node
	pods  []*corev1.Pod
	made  int // objects so far, for names and UIDs
	// skews are by how much the clocks of nodes differ from that of the recorder, by name.
	skews map[string]time.Duration
	// unpriced reports whether a flavor has no price.
	unpriced bool

	path    string
	hash    bool
	file    *record.File // nil while no recorder runs
	tracker *record.Tracker
	began   time.Time
	sawNode bool
	sawOdd  bool // a node without a price
	fates   map[string]*fate
}

// fate is what the recorder observed of a pod.
type fate struct{ daemon, service, started, ended bool }

func (l *life) oneIn(n int) bool { return l.r.IntN(n) == 0 }

func oneOf[T any](l *life, of ...T) T { return of[l.r.IntN(len(of))] }

// begin starts a recorder, which observes everything that exists, as record.Run does.
func (l *life) begin() (err error) {
	if l.file, err = record.OpenFile(l.path, l.hash); err != nil {
		return err
	}
	l.tracker = record.NewTracker(l.file.Name, l.priceOf, l.file.Before)
	interrupted := l.tracker.Interrupted()
	if l.began.IsZero() {
		l.began = l.now
	}
	rows := []trace.Row{l.tracker.Begin(l.now, l.file.Hashed)}
	slices.SortStableFunc(l.nodes, earlier[*corev1.Node])
	slices.SortStableFunc(l.pods, earlier[*corev1.Pod])
	there := map[string]bool{}
	var uids []string
	for _, node := range l.nodes {
		uids = append(uids, string(node.UID))
		rows = append(rows, l.sees(node)...)
	}
	for _, pod := range l.pods {
		there[string(pod.UID)] = true
		rows = append(rows, l.seesPod(pod)...)
	}
	for uid, f := range l.fates {
		f.ended = f.ended || !there[uid]
	}
	return l.file.Append(append(rows, l.tracker.Missing(uids, interrupted)...)...)
}

func earlier[O metav1.Object](a, b O) int {
	x, y := a.GetCreationTimestamp(), b.GetCreationTimestamp()
	return cmp.Or(x.Compare(y.Time), cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
}

// end ends the recorder, if one runs: in an orderly way, or by a crash.
func (l *life) end(crash bool) (err error) {
	if l.file == nil {
		return nil
	}
	if !crash {
		err = l.file.Append(l.tracker.Stop(l.now))
	}
	err = errors.Join(err, l.file.Close())
	l.file = nil
	return err
}

// observe has the recorder append what it makes of an event.
func (l *life) observe(rows func() []trace.Row) error {
	if l.file == nil {
		return nil
	}
	return l.file.Append(rows()...)
}

func (l *life) sees(node *corev1.Node) []trace.Row {
	if !node.Status.Allocatable.Cpu().IsZero() {
		l.sawNode = true
		l.sawOdd = l.sawOdd || l.priceOf(node) == nil
	}
	return l.tracker.Node(node, l.now)
}

func (l *life) seesPod(pod *corev1.Pod) []trace.Row {
	rows := l.tracker.Pod(pod, l.now)
	f, ended := l.fates[string(pod.UID)], class.Ended(pod)
	if f == nil {
		if ended && finished(pod).Before(l.began.Truncate(time.Millisecond)) {
			return rows
		}
		kind, _ := class.OfPod(pod)
		f = &fate{daemon: class.EveryNode(pod), service: kind == class.Service}
		l.fates[string(pod.UID)] = f
	}
	f.started = f.started || pod.Spec.NodeName != "" && pod.Status.StartTime != nil
	f.ended = f.ended || ended
	return rows
}

// told returns what the recording must show.
func (l *life) told() *Life {
	t := &Life{Unpriced: l.sawOdd, Nodes: l.sawNode}
	for _, f := range l.fates {
		if !f.daemon && (f.started || !f.ended) {
			t.Pods++
		}
		if f.service && !f.daemon && !f.ended {
			t.Services++
		}
	}
	return t
}
