package replay

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/internal/text/plural"
	"supercargo.dev/supercargo/lab/report"
)

// life is the state of a pod.
type life int

const (
	expected life = iota // not created yet, or all create calls failed so far
	asked                // a create call is in progress
	present
	leaving // a delete call is in progress or must be retried
	over    // gone, refused, or never to be created
)

// pod is one pod of the trace. Only the loop touches it.
type pod struct {
	object   *corev1.Pod
	arrival  time.Duration // scaled, from the beginning
	runtime  time.Duration // scaled
	life     life
	failures int // consecutive failures of the current call
	stay     report.Stay
	sent     bool          // the first create call has been sent at stay.Created
	created  bool          // known to have been created
	since    time.Duration // when it was known to have been created
	judged   time.Duration // when the scheduler reported that it has no room; 0 if it has not
	restarts int
	failed   bool // failed or deleted by another client, and to be created again once it is gone
}

// run is the state of a replay. The loop owns all of it; workers and the watch communicate with it
// only through the channels.
type run struct {
	opts   Options
	pods   []pod
	index  map[string]int
	agenda agenda
	ready  []call // due calls that wait for a worker

	calls     chan call
	answers   chan answer
	sightings chan sighting
	blind     chan struct{} // closed when sightings are no longer read

	began    time.Time
	open     int // pods that are not over
	progress Progress
	refused  []error
	lost     int
	replaced []report.Stay // of pods that were created again
	result   *Result       // set when the window has ended
	gaveUp   bool
	lastOver time.Time // when the last pod was finally gone
}

func newRun(opts Options) *run {
	rows := trace.Rebase(opts.Pods)
	trace.SortPods(rows)
	r := &run{
		agenda: newAgenda(),
		opts:   opts, pods: make([]pod, len(rows)), index: make(map[string]int, len(rows)), open: len(rows),
		calls: make(chan call), answers: make(chan answer), sightings: make(chan sighting), blind: make(chan struct{}),
		progress: Progress{Window: opts.Window, Pods: len(rows)},
	}
	for i, row := range rows {
		runtime := scaled(row.Runtime, opts.Scale.Lifetimes)
		r.pods[i] = pod{
			object: PodOf(row, runtime, opts), arrival: scaled(row.Arrival, opts.Scale.Arrivals), runtime: runtime,
			stay: report.Stay{
				Pod: row.Name, MilliCPU: row.Size.MilliCPU, MemoryBytes: row.Size.MemoryBytes,
				Bound: report.Never, Gone: report.Never,
			},
		}
		r.index[row.Name] = i
	}
	return r
}

// longest prevents overflow when scaled times are added to a date.
const longest = 100 * 365 * 24 * time.Hour

// scaled divides a time of the trace by a scale.
func scaled(d time.Duration, scale float64) time.Duration {
	return time.Duration(min(float64(d)/scale, float64(longest)))
}

// play starts the workers, runs the loop and stops the workers.
func (r *run) play(ctx context.Context) (*Result, error) {
	// Calls outlive ctx, because created pods must be found and deleted.
	callCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var workers sync.WaitGroup
	for range r.opts.Concurrency {
		workers.Go(func() { r.work(callCtx) })
	}
	r.plan()
	r.loop(ctx)
	close(r.calls)
	cancel()
	go func() {
		workers.Wait()
		close(r.answers)
	}()
	for range r.answers { // answers that are no longer awaited
	}
	r.reportProgress()
	if r.gaveUp {
		return r.result, fmt.Errorf("replay: %s not removed: no pod has been removed for %s", plural.Count(r.open, "pod")+plural.Form(r.open, " was", " were"), r.opts.CleanUp)
	}
	return r.result, ctx.Err()
}

// plan fills the agenda.
func (r *run) plan() {
	r.began = r.opts.Clock.Now()
	for i := range r.pods {
		r.agenda.Push(entry{at: r.began.Add(r.pods[i].arrival), verb: createPod, pod: i})
	}
	if r.opts.Window > 0 {
		r.agenda.Push(entry{at: r.began.Add(r.opts.Window), verb: endWindow})
	}
	if r.opts.Progress != nil {
		r.agenda.Push(entry{at: r.began, verb: tick})
	}
}

// loop processes events until no pod is left or it gives up.
func (r *run) loop(ctx context.Context) {
	cancelled := ctx.Done()
	for r.open > 0 && !r.gaveUp {
		now := r.opts.Clock.Now()
		r.begin(now)
		timer := r.opts.Clock.NewTimer(r.agenda.wait(now, time.Hour))
		var calls chan call
		var next call
		if len(r.ready) > 0 {
			calls, next = r.calls, r.ready[0]
		}
		select {
		case <-cancelled:
			cancelled = nil
			r.end(r.opts.Clock.Now())
		case calls <- next:
			r.ready = r.ready[1:]
			r.sent(next, now)
		case a := <-r.answers:
			r.settle(a)
		case s := <-r.sightings:
			r.see(s)
		case <-timer.C():
		}
		timer.Stop()
	}
	r.end(r.opts.Clock.Now())
}

// begin starts all agenda entries that are due.
func (r *run) begin(now time.Time) {
	for {
		e, ok := r.agenda.due(now)
		if !ok {
			return
		}
		switch e.verb {
		case createPod:
			if r.result == nil {
				r.pods[e.pod].life = asked
				r.queue(createPod, e.pod)
			}
		case deletePod:
			if r.pods[e.pod].life != over && r.pods[e.pod].restarts == e.restarts {
				r.pods[e.pod].life = leaving
				r.queue(deletePod, e.pod)
			}
		case endWindow:
			r.end(now)
		case giveUp:
			if until := r.lastOver.Add(r.opts.CleanUp); until.After(now) {
				r.agenda.Push(entry{at: until, verb: giveUp})
			} else {
				r.gaveUp = true
			}
		case tick:
			r.reportProgress()
			r.agenda.Push(entry{at: now.Add(reportEvery), verb: tick})
		}
	}
}

// reportEvery is the interval between calls of Progress.
const reportEvery = 200 * time.Millisecond

func (r *run) queue(v verb, i int) {
	p := &r.pods[i]
	r.ready = append(r.ready, call{verb: v, pod: i, object: p.object, unsure: v == deletePod && !p.created})
}

// sent records that a worker has taken a call. now was read before that, because the cluster may
// act on the call before the loop gets here.
func (r *run) sent(c call, now time.Time) {
	p := &r.pods[c.pod]
	if c.verb == createPod && !p.sent {
		p.sent = true
		p.stay.Created = now.Sub(r.began)
	}
}

// end closes the window, if it is open: it records the result and deletes every pod.
func (r *run) end(now time.Time) {
	if r.result != nil {
		return
	}
	r.result = r.resultAt(now)
	r.ready = slices.DeleteFunc(r.ready, func(c call) bool {
		if c.verb == createPod {
			r.pods[c.pod].life = expected
		}
		return c.verb == createPod
	})
	for i := range r.pods {
		switch r.pods[i].life {
		case expected:
			r.remove(i)
		case present:
			r.leave(i)
		}
	}
	r.agenda.Push(entry{at: now.Add(r.opts.CleanUp), verb: giveUp})
}

// remove ends the life of a pod that is not known to exist. If a create call failed, the pod may
// exist nevertheless.
func (r *run) remove(i int) {
	if r.pods[i].failures > 0 {
		r.leave(i)
		return
	}
	r.finish(i)
}

// resultAt copies the record.
func (r *run) resultAt(now time.Time) *Result {
	result := &Result{
		Began: r.began, Window: now.Sub(r.began), Retries: r.progress.Retries, Refused: slices.Clone(r.refused), Lost: r.lost, Replaced: slices.Clone(r.replaced),
	}
	for i := range r.pods {
		if r.pods[i].created {
			result.Stays = append(result.Stays, r.pods[i].stay)
		}
	}
	return result
}

// settle processes the answer to a call.
func (r *run) settle(a answer) {
	p := &r.pods[a.pod]
	if a.verb == createPod {
		r.settleCreate(p, a)
		return
	}
	if a.err == nil || apierrors.IsNotFound(a.err) {
		if p.failed && r.result == nil {
			return // the watch has not reported its deletion yet, which must not be taken for that of its successor
		}
		r.goes(a.pod, r.opts.Clock.Now())
		return
	}
	r.again(a)
}

func (r *run) settleCreate(p *pod, a answer) {
	taken := apierrors.IsAlreadyExists(a.err)
	switch {
	case a.err == nil, p.created, taken && p.failures > 0:
		// An earlier attempt that seemed to fail may have succeeded.
		r.exists(p, r.opts.Clock.Now())
		if r.result != nil && p.life == present {
			r.leave(a.pod)
		}
	case taken || hopeless(a.err):
		r.refused = append(r.refused, fmt.Errorf("create pod %s: %w", p.object.Name, a.err))
		r.finish(a.pod)
	case r.result != nil:
		r.leave(a.pod) // it may exist nevertheless
	default:
		r.again(a)
	}
}

// exists records that a pod exists, as its create call or the watch reports.
func (r *run) exists(p *pod, at time.Time) {
	p.failures = 0
	if p.life == asked || p.life == expected {
		p.life = present
	}
	if !p.created {
		p.created, p.since = true, at.Sub(r.began)
		r.progress.Created++
	}
}

// again puts a call back on the agenda.
func (r *run) again(a answer) {
	p := &r.pods[a.pod]
	if p.life == over {
		return
	}
	p.failures++
	r.progress.Retries++
	if a.verb == createPod && p.life == asked {
		p.life = expected
	}
	r.agenda.Push(entry{at: r.opts.Clock.Now().Add(pause(p.failures, a.err)), verb: a.verb, pod: a.pod, restarts: p.restarts})
}

// see processes an event of the watch.
func (r *run) see(s sighting) {
	i, ok := r.index[s.name]
	if !ok || r.pods[i].life == over {
		return
	}
	p := &r.pods[i]
	r.exists(p, s.at)
	if s.unschedulable && p.judged == 0 {
		p.judged = s.at.Sub(r.began)
	}
	if s.node != "" && p.stay.Bound == report.Never {
		r.bound(i, s)
	}
	switch {
	case s.removed:
		r.loses(p)
		r.goes(i, s.at)
	case s.ended:
		if s.failed {
			r.loses(p)
		}
		r.returnPod(p, s.at)
		if p.life == present {
			r.leave(i)
		}
	case r.result != nil && p.life == present:
		r.leave(i)
	}
}

// bound records the node of a pod and plans its end.
func (r *run) bound(i int, s sighting) {
	p := &r.pods[i]
	p.stay.Node = s.node
	p.stay.Bound = s.at.Sub(r.began)
	if p.stay.Gone != report.Never { // its end was seen first
		p.stay.Gone = max(p.stay.Gone, p.stay.Bound)
	}
	r.progress.Bound++
	if r.result == nil {
		r.agenda.Push(entry{at: s.at.Add(p.runtime), verb: deletePod, pod: i, restarts: p.restarts})
	}
}

// loses records that a pod has ended within the window without being deleted by the replay.
func (r *run) loses(p *pod) {
	if r.result != nil || p.life != present {
		return
	}
	r.lost++
	p.failed = r.opts.Recreate
}

// leave deletes a pod now.
func (r *run) leave(i int) {
	r.pods[i].life = leaving
	r.pods[i].failures = 0
	r.queue(deletePod, i)
}

// goes records that a pod is gone.
func (r *run) goes(i int, at time.Time) {
	if r.pods[i].life == over {
		return
	}
	r.returnPod(&r.pods[i], at)
	if r.pods[i].failed && r.result == nil {
		r.replace(i)
		return
	}
	r.finish(i)
}

// replace creates a pod again that is gone.
func (r *run) replace(i int) {
	p := &r.pods[i]
	r.replaced = append(r.replaced, p.stay)
	*p = pod{
		object: p.object, arrival: p.arrival, runtime: p.runtime, life: asked, restarts: p.restarts + 1,
		stay: report.Stay{
			Pod: p.stay.Pod, MilliCPU: p.stay.MilliCPU, MemoryBytes: p.stay.MemoryBytes,
			Bound: report.Never, Gone: report.Never,
		},
	}
	r.queue(createPod, i)
}

// givesBack records that a pod's requests are free again. Only the first time counts: that of a pod
// that ends is its end, not its deletion.
func (r *run) returnPod(p *pod, at time.Time) {
	if p.stay.Gone == report.Never && p.created {
		// The end of a pod may be observed shortly before its binding, if both happen at once.
		p.stay.Gone = max(at.Sub(r.began), p.stay.Created, p.stay.Bound)
		r.progress.Gone++
	}
}

// finish ends a pod's life.
func (r *run) finish(i int) {
	if r.pods[i].life != over {
		r.pods[i].life = over
		r.open--
		r.lastOver = r.opts.Clock.Now()
	}
}

// reportProgress reports progress.
func (r *run) reportProgress() {
	if r.opts.Progress == nil {
		return
	}
	r.progress.Elapsed = r.opts.Clock.Now().Sub(r.began)
	r.progress.CreateLag, r.progress.BindLag = r.lags(r.progress.Elapsed)
	r.opts.Progress(r.progress)
}
