package workerdecide

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"supercargo.dev/supercargo/autoscaler/worker/estimate"
	"supercargo.dev/supercargo/internal/text/plural"
)

// Phase is the phase of a pool.
type Phase string

// The phases.
const (
	// Waiting means that the manager does not answer.
	Waiting Phase = "Waiting"
	// WarmUp means that there are tasks, but none is measured. One task of each category is enough to measure it.
	WarmUp Phase = "WarmUp"
	// Runtime means that the pool is sized by the needs of its tasks.
	Runtime Phase = "Runtime"
	// CleanUp means that there are no tasks, or that the manager is gone. Workers are drained.
	CleanUp Phase = "CleanUp"
)

// Decision is a decision on a pool, with its reason.
type Decision struct {
	Phase Phase
	// Add is the number of workers of Flavor to create. Drain names pods that must take no more tasks. At most one of
	// them is set.
	Add    int
	Flavor string
	Drain  []string
	// Held reports that the reading does not justify a resize.
	Held bool
	// Read reports that there was a reading that does not contradict itself. Otherwise only the pods are known: all that
	// follows about tasks and workers is zero.
	Read bool
	// Silent is how the manager has been silent, if for so long that it counts as a fault; empty otherwise, and for a
	// manager that is [Gone].
	Silent Silence
	// Recheck is the time until the next query of the manager, above 0.
	Recheck time.Duration
	// Reason explains the decision.
	Reason string

	// The observation: tasks by state, the millicores that waiting tasks request, connected workers, those of them
	// without a pod of the pool, and pods that are starting and leaving.
	TasksWaiting, TasksRunning int
	ShortageMilliCores         int64
	Connected, Foreign         int
	Coming, Leaving            int
	// WaitingThen is the number of tasks that will wait at the end of the window. Uncounted are the tasks that wait
	// besides them, because they fit no worker, or because their category must be measured first.
	WaitingThen, Uncounted int
	// Limited reports that the tasks that wait justify more workers than the maximum allows.
	Limited       bool
	InitTime      time.Duration
	Unplaceable   []Unplaceable
	Rejected      []Rejected
	Relearned     []string // categories whose tasks have changed
	Overstated    []Overstated
	Unconnected   []string // pods that have run for long without ever connecting
	Arrived       []string // pods whose worker is connected, or has been
	UseKnown      UseKnown
	QueueReplaced bool
	WorkersLost   int64 // by the manager's count
}

// Decide evaluates a pool, learns from the observation, and returns the decision. The guarantees of package estimate on
// limits and resizes hold: there are never two resizes within one initialisation time.
//
// It fails only on an invalid configuration. A bad reading is not an error: then the decision is to hold.
func Decide(c Config, o Observation, m Memory, now time.Time) (Decision, Memory, error) {
	if err := c.Validate(); err != nil {
		return Decision{}, m, err
	}
	m = m.clone()
	// Lists of pods may have those created in the same second in any order.
	o.Pods = slices.SortedFunc(slices.Values(o.Pods), func(a, b Pod) int { return cmp.Or(a.Asked.Compare(b.Asked), cmp.Compare(a.Name, b.Name)) })
	d := Decision{Phase: Runtime, Recheck: c.Cycle}
	d.count(o.Pods)
	if o.Reading == nil {
		d.silent(&c, &o, &m, now)
		return d, m, nil
	}
	m.SilentSince, m.GoneSince = time.Time{}, time.Time{}
	if why := distrust(o.Reading); why != "" {
		d.hold("the manager contradicts itself: " + why)
		return d, m, nil
	}
	d.Read = true
	if id := (QueueID{o.Reading.Queue.Project, o.Reading.Queue.Started}); id != m.Queue {
		d.QueueReplaced = m.Queue != QueueID{}
		m.anotherQueue(id)
	}
	d.decide(&c, &o, &m, now)
	return d, m, nil
}

// count counts the pods that are leaving.
func (d *Decision) count(pods []Pod) {
	for i := range pods {
		if pods[i].Leaving {
			d.Leaving++
		}
	}
}

func (d *Decision) hold(why string) {
	d.Held = true
	d.Reason = "the pool is not resized: " + why
}

// silent decides without a reading. Workers stay, however long the silence lasts: a manager that is busy, stopped or
// cut off from the autoscaler may have tasks on all of them, and draining would kill a worker when its grace period
// ends. Only a manager that every attempt has found [Gone] for c.Gone has no tasks on any worker, since workers abort
// theirs when the connection to the manager ends.
func (d *Decision) silent(c *Config, o *Observation, m *Memory, now time.Time) {
	m.silence()
	m.SilentSince = since(m.SilentSince, now)
	if o.Silence == Gone {
		m.GoneSince = since(m.GoneSince, now)
	} else {
		m.GoneSince = time.Time{}
	}
	d.Phase = Waiting
	if o.Silence != Gone && now.Sub(m.SilentSince) >= c.Gone {
		d.Silent = cmp.Or(o.Silence, Unreachable)
	}
	if o.Silence != Gone || now.Sub(m.GoneSince) < c.Gone {
		d.hold(o.Silence.String() + ": " + o.Fault)
		return
	}
	for i := range o.Pods {
		if !o.Pods[i].Leaving {
			d.Drain = append(d.Drain, o.Pods[i].Name)
		}
	}
	slices.Sort(d.Drain)
	d.Reason = fmt.Sprintf("no query has reached the manager for %v: %s", now.Sub(m.GoneSince).Round(time.Second), o.Fault)
	if len(d.Drain) > 0 {
		d.Phase, m.Resized = CleanUp, now
	}
}

// since returns when an ongoing condition began: before, or now if it has just begun or if the clock was set back.
func since(before, now time.Time) time.Time {
	if before.IsZero() || before.After(now) {
		return now
	}
	return before
}

// decide decides on a trusted reading.
func (d *Decision) decide(c *Config, o *Observation, m *Memory, now time.Time) {
	relearned := map[string]int64{}
	for i := range m.Categories {
		relearned[m.Categories[i].Name] = m.Categories[i].Relearned
	}
	m.learnRuntimes(o.Reading, now)
	hosts, foreign := hostsOf(o.Pods, o.Reading)
	m.follow(c, o.Pods, hosts, now)
	corrected := *c
	corrected.Flavors = m.correct(c, o.Pods)
	m.shun(c, corrected.Flavors, o.Pods, now)
	d.Unconnected, d.Arrived = m.unconnected(c, o.Pods, now), m.arrived(o.Pods)
	t := translator{config: &corrected, memory: m, flavor: &corrected.Flavors[0], now: now}
	if len(hosts) > 0 { // their problem is not common to all workers, such as a wrong password
		t.lost = d.Unconnected
	}
	tr := t.translate(o, hosts, foreign)
	flavor, others := choose(corrected.Flavors, tr.on)
	if flavor != nil {
		t.unplaced = m.unplaced(c, flavor, corrected.Flavors, o.Pods, now)
	}
	if flavor != nil && (flavor != t.flavor || len(t.unplaced) > 0) {
		t.flavor = flavor
		tr = t.translate(o, hosts, foreign) // a task that takes a whole worker takes one of this flavor
	}
	m.learnNeeds(tr.kinds, o.Reading.Categories)
	for i := range m.Categories {
		if n := &m.Categories[i]; n.Relearned > relearned[n.Name] {
			d.Relearned = append(d.Relearned, n.Name)
		}
	}
	d.Rejected, d.Overstated, d.UseKnown = others, m.overstated(t.flavor), m.useKnown(o.Reading)
	d.see(o, &tr)
	d.Unplaceable = setAside(&corrected, &tr.state)
	d.Phase = phase(&tr.state)
	switch {
	case flavor != nil:
		d.plan(&corrected, flavor, m, &tr, now)
	case t.flavor.Worker.MilliCores > 0: // workers may still be drained
		if d.plan(&corrected, t.flavor, m, &tr, now); d.Add > 0 {
			d.Add = 0
			d.hold("no flavor is available: " + describe(others))
		}
	default:
		d.hold("no flavor is available: " + describe(others))
	}
	if d.Add > 0 || len(d.Drain) > 0 {
		m.Resized = now
	}
}

func describe(rejected []Rejected) string {
	var what []string
	for _, r := range rejected {
		what = append(what, strings.TrimPrefix(r.Flavor+": ", ": ")+r.Reason)
	}
	return strings.Join(what, "; ")
}

// correct returns the flavors, reduced to what their connected workers report, if that is less than expected.
func (m *Memory) correct(c *Config, pods []Pod) []Flavor {
	flavors := slices.Clone(c.Flavors)
	for i := range pods {
		seen := m.pods[pods[i].Name].seen
		k := slices.IndexFunc(flavors, func(f Flavor) bool { return f.Name == pods[i].Flavor })
		if k < 0 || seen.MilliCores == 0 {
			continue
		}
		w := &flavors[k].Worker
		if w.DiskBytes == Boundless {
			w.DiskBytes = seen.DiskBytes
		}
		w.MilliCores, w.MemoryBytes = min(w.MilliCores, seen.MilliCores), min(w.MemoryBytes, seen.MemoryBytes)
	}
	return flavors
}

// see stores the observation in the decision.
func (d *Decision) see(o *Observation, tr *translation) {
	d.Foreign, d.ShortageMilliCores, d.WorkersLost = tr.foreign, tr.shortage, o.Reading.Queue.WorkersLost
	d.Connected = tr.foreign + len(tr.hosts)
	d.TasksWaiting = countOf(tr.state.Waiting)
	for i := range tr.state.Workers {
		w := &tr.state.Workers[i]
		d.TasksRunning += len(w.Running)
		if p := tr.pods[w.Name]; p != nil && !p.Leaving && tr.hosts[w.Name] == nil {
			d.Coming++
		}
	}
}

// countOf returns the number of tasks.
func countOf(waiting []estimate.Batch) (n int) {
	for i := range waiting {
		n += waiting[i].Count
	}
	return n
}

// phase returns the phase for the waiting and running tasks.
func phase(s *estimate.State) Phase {
	running, measured := false, false
	for i := range s.Workers {
		for _, r := range s.Workers[i].Running {
			running = true
			measured = measured || r.Left != estimate.Unknown
		}
	}
	for i := range s.Waiting {
		measured = measured || s.Waiting[i].Runtime != estimate.Unknown
	}
	switch {
	case len(s.Waiting) == 0 && !running:
		return CleanUp
	case !measured:
		return WarmUp
	}
	return Runtime
}

// plan runs the law, and restricts its plan to what is allowed.
func (d *Decision) plan(c *Config, f *Flavor, m *Memory, tr *translation, now time.Time) {
	d.InitTime = m.initTime(c, f.Name)
	limits := estimate.Pool{
		Worker: f.Worker, InitTime: d.InitTime, Cycle: c.Cycle,
		Min: c.Min + tr.foreign, Max: c.Max + tr.foreign, Foreign: tr.foreign, // they are not limited
	}
	law := estimate.Supercargo
	if c.Law == HTA {
		law = estimate.HTA
	}
	state := tr.state
	state.Waiting = oneOfEach(tr.state, estimate.PatienceFor(d.InitTime).Warmup)
	state.Uncounted = d.TasksWaiting - countOf(state.Waiting)
	p, err := law(limits, state, now)
	if err != nil {
		d.hold("the state of the queue is invalid: " + err.Error())
		return
	}
	d.WaitingThen, d.Uncounted, d.Limited = p.Waiting, p.Uncounted, p.Limited
	d.Recheck = min(p.Recheck, c.Cycle) // to learn from tasks that end in between
	d.Flavor, d.Reason = f.Name, p.Reason
	d.add(p.Add, c.Max-len(tr.pods))
	d.drain(p.Drain, tr)
	if settled := now.Sub(m.Resized) >= d.InitTime; settled && d.Add == 0 && len(d.Drain) == 0 {
		d.giveUp(tr)
	}
}

// giveUp drains the workers that are not expected to come.
func (d *Decision) giveUp(tr *translation) {
	d.Drain = slices.Concat(tr.lost, tr.unplaced)
	workers := func(n int) string { return plural.Form(n, "1 worker has", fmt.Sprintf("%d workers have", n)) }
	if n := len(tr.lost); n > 0 {
		d.Reason += fmt.Sprintf("; %s not connected for a long time, while others have", workers(n))
	}
	if n := len(tr.unplaced); n > 0 {
		d.Reason += fmt.Sprintf("; %s waited too long for a node of a flavor that is not available", workers(n))
	}
}

// add limits the workers that the law adds to the room left by all pods. Pods that are leaving count: each occupies a
// machine until it has gone, and may take tasks until then.
func (d *Decision) add(wanted, room int) {
	d.Add = min(wanted, max(0, room))
	if d.Add < wanted {
		d.Limited = true
		d.Reason += fmt.Sprintf("; only %d now: %s towards the limit until %s gone", d.Add, plural.Form(d.Leaving, "1 terminating worker counts", fmt.Sprintf("%d terminating workers count", d.Leaving)), plural.Form(d.Leaving, "it is", "they are"))
	}
}

// drain restricts the workers that the law drains to the pool's own that are idle by all accounts or never connected.
func (d *Decision) drain(names []string, tr *translation) {
	var busy, elsewhere int
	for _, name := range names {
		p, h := tr.pods[name], tr.hosts[name]
		switch {
		case p == nil:
			elsewhere++
		case h != nil && !h.idle():
			busy++
		case h == nil && !p.Started.IsZero() && !slices.Contains(tr.lost, name):
			busy++ // it may be connecting, or be missing from the reading
		default:
			d.Drain = append(d.Drain, name)
		}
	}
	var kept []string
	if busy > 0 {
		kept = append(kept, plural.Form(busy, "1 stays until the manager reports it as idle", fmt.Sprintf("%d stay until the manager reports them as idle", busy)))
	}
	if elsewhere > 0 {
		kept = append(kept, fmt.Sprintf("%d %s not belong to this pool", elsewhere, plural.Form(elsewhere, "does", "do")))
	}
	if len(kept) > 0 {
		d.Reason += "; " + strings.Join(kept, ", ")
	}
}

// oneOfEach returns the queue with one task of each unmeasured category. That task measures the category; adding
// workers for all of them would be a guess. Once a task of the category has run for warmup, its tasks are long, and all
// count.
func oneOfEach(s estimate.State, warmup time.Duration) []estimate.Batch {
	if !slices.ContainsFunc(s.Waiting, func(b estimate.Batch) bool { return b.Runtime == estimate.Unknown }) {
		return s.Waiting
	}
	longest := map[string]time.Duration{}
	for i := range s.Workers {
		for _, r := range s.Workers[i].Running {
			longest[r.Category] = max(longest[r.Category], r.Ran)
		}
	}
	queue := make([]estimate.Batch, 0, len(s.Waiting))
	first := map[string]bool{}
	for _, b := range s.Waiting {
		if b.Runtime == estimate.Unknown && longest[b.Category] < warmup {
			if first[b.Category] {
				continue
			}
			first[b.Category] = true
			b.Count = 1
		}
		queue = append(queue, b)
	}
	return queue
}
