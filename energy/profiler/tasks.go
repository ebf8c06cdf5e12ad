package profiler

import (
	"cmp"
	"context"
	"math"
	"net"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/energy/meterapi"
	"supercargo.dev/supercargo/energy/probe"
	"supercargo.dev/supercargo/energy/profiler/record"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/internal/world"
)

// finished is a pod that has succeeded.
type finished struct {
	node       string
	pod        types.UID
	start, end time.Time
	task       record.Task
}

// finish records a pod that has succeeded, if it can be learned from: a batch pod with a category
// or an owner that requests CPU and memory and nothing else.
func (p *Profiler) finish(pod *corev1.Pod) {
	took, ok := runtimes.Observed(pod)
	kind, _ := class.OfPod(pod)
	if !ok || kind != class.Batch || pod.Namespace == p.Config.Namespace || pod.Spec.NodeName == "" {
		return
	}
	size, other := world.Requests(pod)
	if other != "" || size.MilliCPU <= 0 {
		return
	}
	category := pod.Annotations[v1alpha1.AnnotationCategory]
	if owner := metav1.GetControllerOf(pod); category == "" && owner != nil {
		category = owner.Kind + ":" + owner.Name // pods of one Job do the same work
	}
	if category == "" {
		return
	}
	start, end := span(pod)
	f := finished{node: pod.Spec.NodeName, pod: pod.UID, start: start, end: end, task: record.Task{
		UID: string(pod.UID), Category: pod.Namespace + "/" + category, Ended: end.Unix(),
		MilliCPU: size.MilliCPU, MemoryBytes: size.MemoryBytes, Millis: took.Milliseconds(),
	}}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.finished) < mostFinished {
		p.finished = append(p.finished, f)
	}
}

// span returns when a pod's containers started and ended; the far future if they have not ended.
func span(pod *corev1.Pod) (start, end time.Time) {
	if pod.Status.StartTime != nil {
		start = pod.Status.StartTime.Time
	}
	if !class.Ended(pod) {
		return start, time.Unix(math.MaxInt32, 0)
	}
	for _, s := range pod.Status.ContainerStatuses {
		if t := s.State.Terminated; t != nil && t.FinishedAt.After(end) {
			end = t.FinishedAt.Time
		}
	}
	return start, end
}

// gatherEvery is the minimum time between writes of a record because of finished pods.
const gatherEvery = time.Minute

// gather adds finished pods to the records of their machine types, except for types without a
// profile. Pods whose energy the node's meter does not have yet wait for a later round.
func (r *round) gather(ctx context.Context) error {
	r.mu.Lock()
	all := r.finished
	r.finished = nil
	r.mu.Unlock()
	for i := range all {
		f := &all[i]
		node := r.world.Nodes[f.node]
		if node == nil {
			continue
		}
		machineType := machineTypeOf(node)
		profile := r.profiles[machineType]
		hw, err := hardwareOf(node)
		if profile == nil || profile.Spec.Hardware == nil || err != nil || hw == nil || hw.Fingerprint != profile.Spec.Hardware.Fingerprint {
			continue
		}
		known := r.recordOf(machineType)
		if changed := known.Of(machineType, hw.Fingerprint); changed {
			r.memory.dirty[machineType] = time.Time{}
		}
		var later bool
		if f.task.Decijoules, later = r.energy(ctx, node, f, known); later {
			r.mu.Lock()
			r.finished = append(r.finished, *f)
			r.mu.Unlock()
			continue
		}
		if _, waits := r.memory.dirty[machineType]; known.Add(f.task, r.now) && !waits {
			r.memory.dirty[machineType] = r.now
		}
	}
	for machineType, since := range r.memory.dirty {
		if r.now.Sub(since) < gatherEvery {
			continue
		}
		if err := r.save(ctx, machineType); err != nil {
			return err
		}
	}
	return nil
}

// leastSpan is the minimum duration of a pod whose energy is used, because the times of
// containers are whole seconds.
const leastSpan = 20 * time.Second

// meterLag returns for how long after a pod's end its node's meter may lack readings: the next
// one comes some seconds later or, if the meter queries a server, up to a tenth of the pod's
// duration later.
func meterLag(f *finished) time.Duration {
	return min(15*time.Second+f.end.Sub(f.start)/10, 2*time.Minute)
}

// energy returns the energy that a pod used, in tenths of a joule; 0 if unknown. The pod must
// have been alone on its node, the node's meter must have measured all of the time, and the probe
// must have measured the same machine without load. later means that the meter may have the
// energy later.
func (r *round) energy(ctx context.Context, node *corev1.Node, f *finished, known *record.Record) (decijoules int64, later bool) {
	idle, is := idleWatts(known)
	if !is || f.end.Sub(f.start) < leastSpan || f.start.Before(r.memory.began) || !r.alone(ctx, f) {
		return 0, false
	}
	host := ""
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			host = cmp.Or(host, a.Address)
		}
	}
	if host == "" {
		return 0, false
	}
	meter := meterapi.Client{URL: "https://" + net.JoinHostPort(host, strconv.Itoa(r.Config.MeterPort)), HTTP: r.HTTP}
	used, has, err := meter.Usage(ctx, f.start, f.end)
	if err != nil {
		log.FromContext(ctx).V(2).Info("Failed to read energy from a node meter", "node", node.Name, "error", err.Error())
		return 0, false
	}
	if !has {
		return 0, r.now.Sub(f.end) < meterLag(f)
	}
	if used.Modelled > 0 {
		return 0, false
	}
	return max(0, int64(math.Round(10*(float64(used.Measured)-idle*f.end.Sub(f.start).Seconds())))), false
}

// idleWatts returns the machine's idle power from its probe; false if it was not measured.
func idleWatts(known *record.Record) (float64, bool) {
	if known.Probe == nil {
		return 0, false
	}
	report, err := probe.Decode([]byte(known.Probe.Report))
	if err != nil {
		return 0, false
	}
	for _, i := range report.Idle {
		if w, is := i.Watts(); is && i.Measured && i.Governor == report.Home {
			return float64(w), true
		}
	}
	return 0, false
}

// alone reports whether no other pod was on the node meanwhile, except those that run on every
// node.
func (r *round) alone(ctx context.Context, f *finished) bool {
	r.mu.Lock()
	left := r.left[f.node]
	r.mu.Unlock()
	if left.After(f.start) {
		return false
	}
	var pods corev1.PodList // includes pods that have ended
	if err := r.Client.List(ctx, &pods, client.UnsafeDisableDeepCopy); err != nil {
		return false
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		if p.Spec.NodeName != f.node || p.UID == f.pod || class.EveryNode(p) {
			continue
		}
		if start, end := span(p); start.Before(f.end) && end.After(f.start) {
			return false
		}
	}
	return true
}
