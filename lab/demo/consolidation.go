package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	descheduler "supercargo.dev/supercargo/descheduler/app"
	"supercargo.dev/supercargo/internal/text/plural"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/lab/playground/programs"
)

const (
	// jobRuntime is the declared runtime of the Jobs of the consolidation. Every second Job ends
	// early; the others outlive the demo.
	jobRuntime = time.Hour
	// early is the label of the pods that end early.
	early = "early"
	// jobCount is the number of Jobs, and jobWave the number that start at a time. The fleet buys
	// for each wave.
	jobCount, jobWave = 36, 6
	// quietTime is how long nothing must change until the consolidation counts as ended, and
	// consolidationTime the maximum time to wait for that.
	quietTime         = 10 * time.Second
	consolidationTime = 3 * time.Minute
	// residence prevents a pod from being moved twice in a row.
	residence = 10 * time.Second
)

// Consolidation is the result of a fleet that empties machines by moving pods with their state.
type Consolidation struct {
	// Jobs is the number of Jobs that kept running, with one pod each. JobsFailed counts all
	// failures.
	Jobs       int `json:"jobs"`
	JobsFailed int `json:"jobsFailed"`
	// Migrations is the number of moved pods. FrozenSecondsMean is the mean time that each was
	// frozen.
	Migrations        int     `json:"migrations"`
	FrozenSecondsMean float64 `json:"frozenSecondsMean"`
	// The values before are from the moment when half of the Jobs had ended.
	MachinesBefore       int                  `json:"machinesBefore"`
	MachinesAfter        int                  `json:"machinesAfter"`
	DollarsPerHourBefore float64              `json:"dollarsPerHourBefore"`
	DollarsPerHourAfter  float64              `json:"dollarsPerHourAfter"`
	Course               []ConsolidationPoint `json:"course"`
	Decisions            []string             `json:"decisions"`
}

// ConsolidationPoint is the cluster at one moment: Seconds since the watch began, the machines of
// the fleet and how many of them are being emptied, the pods that are being moved and that have
// been moved, and the price of the machines per hour.
type ConsolidationPoint struct {
	Seconds        float64 `json:"seconds"`
	Machines       int     `json:"machines"`
	Emptying       int     `json:"emptying"`
	Moving         int     `json:"moving"`
	Moved          int     `json:"moved"`
	DollarsPerHour float64 `json:"dollarsPerHour"`
}

// consolidate fills machines of the fleet with Jobs, ends half of them early, and watches the fleet
// move the others together.
func consolidate(ctx context.Context, p *playground.Playground, c client.Client, config []byte, progress *Progress) (result *Consolidation, err error) {
	progress.say("consolidation: starting %d Jobs, half of which end early", jobCount)
	scheduler, err := p.StartScheduler(ctx, config)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, scheduler.Stop()) }()
	mover, err := programs.Descheduler(ctx, p, func(o *descheduler.Options) {
		o.Migrations.MaxPerNamespace, o.Migrations.MaxPerNode = o.Migrations.MaxMigrations, o.Migrations.MaxMigrations // these nodes have the whole network for themselves
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, mover.Stop()) }()
	agent, err := programs.Agent(ctx, p)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, agent.Stop()) }()
	if err := setConsolidation(ctx, c, onlyEmpty); err != nil {
		return nil, err
	}
	w := &consolidationWatch{client: c, began: time.Now()}
	for begun := 0; begun < jobCount; begun += jobWave {
		if err := startJobs(ctx, c, begun, jobWave); err != nil {
			return nil, err
		}
		if err := w.until(ctx, func(ConsolidationPoint) bool { return w.running == begun+jobWave }); err != nil {
			return nil, fmt.Errorf("wait until Jobs run: %w", err)
		}
	}
	if err := endEarly(ctx, c); err != nil {
		return nil, err
	}
	if err := w.until(ctx, func(ConsolidationPoint) bool { return w.ended == jobCount/2 }); err != nil {
		return nil, fmt.Errorf("wait until half of the Jobs have ended: %w", err)
	}
	progress.say("consolidation: half of the Jobs have ended; waiting until the others are consolidated")
	if err := setConsolidation(ctx, c, underUsedToo); err != nil {
		return nil, err
	}
	w.course = nil
	// On a slow machine the consolidation may still be running. It is enough that pods have moved
	// and the bill has fallen.
	if err := w.until(ctx, w.quiet); err != nil && (ctx.Err() != nil || !w.saved()) {
		return nil, fmt.Errorf("wait until no machine is being emptied: %w", err)
	}
	return w.result(ctx)
}

// onlyEmpty lets a fleet release only empty machines, so that machines become half-empty while Jobs
// start and end.
func onlyEmpty(c *v1alpha1.FleetConsolidation) { c.Policy = v1alpha1.ConsolidateWhenEmpty }

// underUsedToo lets a fleet empty under-used machines, a quarter of all at a time.
func underUsedToo(c *v1alpha1.FleetConsolidation) {
	c.Policy = v1alpha1.ConsolidateWhenUnderUsed
	c.ThresholdPercent = new(int32(60))
	c.MaxUnavailable = "25%"
	c.DrainTimeout = metav1.Duration{Duration: 2 * time.Minute}
	c.PodResidence = &metav1.Duration{Duration: residence}
}

// setConsolidation updates the consolidation settings of the fleet.
func setConsolidation(ctx context.Context, c client.Client, to func(*v1alpha1.FleetConsolidation)) error {
	var fleet v1alpha1.NodeFleet
	if err := c.Get(ctx, client.ObjectKey{Name: fleetName}, &fleet); err != nil {
		return fmt.Errorf("read NodeFleet %s: %w", fleetName, err)
	}
	before := fleet.DeepCopy()
	to(&fleet.Spec.Consolidation)
	if err := c.Patch(ctx, &fleet, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("set the consolidation policy of NodeFleet %s: %w", fleetName, err)
	}
	return nil
}

// startJobs creates n more Jobs of three sizes, every second of which is to end early. All declare
// the same runtime, so that they are placed alike, and may be moved with their state.
func startJobs(ctx context.Context, c client.Client, from, n int) error {
	sizes := []struct{ cpu, memory string }{{"900m", "512Mi"}, {"1500m", "1Gi"}, {"400m", "768Mi"}}
	for i := from; i < from+n; i++ {
		job := newJob(fmt.Sprintf("work-%02d", i), sizes[i/2%len(sizes)].cpu, sizes[i/2%len(sizes)].memory)
		if i%2 == 1 {
			job.Spec.Template.Labels = map[string]string{early: ""}
		}
		if err := c.Create(ctx, job); err != nil {
			return fmt.Errorf("create Job %s: %w", job.Name, err)
		}
	}
	return nil
}

// endEarly marks the pods that end early as succeeded, as their kubelet would.
func endEarly(ctx context.Context, c client.Client) error {
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(metav1.NamespaceDefault), client.HasLabels{early}); err != nil {
		return fmt.Errorf("list the pods that end early: %w", err)
	}
	for i := range pods.Items {
		before := &pods.Items[i]
		pod := before.DeepCopy()
		pod.Status.Phase = corev1.PodSucceeded
		for at := range pod.Status.Conditions {
			if cond := &pod.Status.Conditions[at]; cond.Type == corev1.PodReady || cond.Type == corev1.ContainersReady {
				cond.Status, cond.Reason = corev1.ConditionFalse, "PodCompleted"
			}
		}
		for at := range pod.Status.ContainerStatuses {
			s := &pod.Status.ContainerStatuses[at]
			s.Ready, s.Started = false, new(false)
			s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: ptr.Deref(pod.Status.StartTime, metav1.Time{}), FinishedAt: metav1.Now()}}
		}
		if err := c.Status().Patch(ctx, pod, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("end pod %s: %w", pod.Name, err)
		}
	}
	return nil
}

func newJob(name, cpu, memory string) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec: batchv1.JobSpec{
			PodReplacementPolicy: new(batchv1.Failed), BackoffLimit: new(int32(0)),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
					v1alpha1.AnnotationMigration: v1alpha1.MigrationCheckpoint, v1alpha1.AnnotationRuntime: jobRuntime.String(),
				}},
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever,
					Containers: []corev1.Container{{
						Name: "work", Image: "registry.k8s.io/pause:3.10",
						Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
							corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
						}},
					}},
				},
			},
		},
	}
}

// consolidationWatch polls a consolidation about twice a second.
type consolidationWatch struct {
	client                 client.Client
	began                  time.Time
	running, ended, failed int // Jobs
	course                 []ConsolidationPoint
	decisions              []string
}

// until polls until done returns true.
func (w *consolidationWatch) until(ctx context.Context, done func(ConsolidationPoint) bool) error {
	var last error
	err := until(ctx, sampleEvery, consolidationTime, func() bool {
		var p ConsolidationPoint
		p, last = w.sample(ctx)
		return last == nil && done(p)
	})
	if !errors.Is(err, errTooLong) {
		return err
	}
	state := "no state was observed"
	if len(w.course) > 0 {
		p := w.course[len(w.course)-1]
		state = fmt.Sprintf("%s for $%.2f/h, of which %d %s being emptied; %s and %d %s moved; decided: %s",
			plural.Count(p.Machines, "machine"), p.DollarsPerHour, p.Emptying, plural.Form(p.Emptying, "is", "are"),
			plural.Count(p.Moving, "pod")+plural.Form(p.Moving, " moves", " move"), p.Moved, plural.Form(p.Moved, "has", "have"), strings.Join(w.decisions, "; "))
	}
	return errors.Join(fmt.Errorf("timed out after %v: %s", consolidationTime, state), last)
}

// sample records the present state.
func (w *consolidationWatch) sample(ctx context.Context) (ConsolidationPoint, error) {
	var jobs batchv1.JobList
	var nodes corev1.NodeList
	var migrations v1alpha1.MigrationList
	if err := errors.Join(w.client.List(ctx, &jobs), w.client.List(ctx, &nodes), w.client.List(ctx, &migrations)); err != nil {
		return ConsolidationPoint{}, err
	}
	fleetPoint, fleet, err := observeFleet(ctx, w.client)
	if err != nil {
		return ConsolidationPoint{}, err
	}
	v := ConsolidationPoint{
		Seconds: time.Since(w.began).Seconds(), Machines: fleetPoint.Machines, DollarsPerHour: fleetPoint.DollarsPerHour,
	}
	w.countJobs(jobs.Items)
	for i := range nodes.Items {
		if nodes.Items[i].Annotations[v1alpha1.AnnotationDraining] != "" {
			v.Emptying++
		}
	}
	for i := range migrations.Items {
		switch migrations.Items[i].Status.Phase {
		case v1alpha1.MigrationSucceeded:
			v.Moved++
		case v1alpha1.MigrationRefused, v1alpha1.MigrationRolledBack:
		default:
			v.Moving++
		}
	}
	if d := fleet.Status.LastDecision; d != nil && len(d.Releases) > 0 && !slices.Contains(w.decisions, d.Summary) {
		w.decisions = append(w.decisions, d.Summary)
	}
	w.course = append(w.course, v)
	return v, nil
}

func (w *consolidationWatch) countJobs(jobs []batchv1.Job) {
	w.running, w.ended, w.failed = 0, 0, 0
	for i := range jobs {
		s := &jobs[i].Status
		w.failed += int(s.Failed)
		switch {
		case s.Succeeded > 0:
			w.ended++
		case s.Ready != nil && *s.Ready > 0:
			w.running++
		}
	}
}

// saved reports whether pods have moved and the bill has fallen.
func (w *consolidationWatch) saved() bool {
	if len(w.course) == 0 {
		return false
	}
	first, last := w.course[0], w.course[len(w.course)-1]
	return last.Moved > first.Moved && last.DollarsPerHour < first.DollarsPerHour
}

// quiet reports whether nothing has changed for a while.
func (w *consolidationWatch) quiet(now ConsolidationPoint) bool {
	if now.Moving+now.Emptying > 0 {
		return false
	}
	for _, p := range slices.Backward(w.course) {
		if p.Machines != now.Machines || p.Moved != now.Moved || p.Emptying > 0 {
			return false
		}
		if now.Seconds-p.Seconds >= quietTime.Seconds() {
			return true
		}
	}
	return false
}

// newConsolidation returns the result of a course of at least one point, without what Migrations measured.
func newConsolidation(course []ConsolidationPoint, decisions []string, failed int) *Consolidation {
	first, last := course[0], course[len(course)-1]
	r := &Consolidation{
		Jobs: jobCount / 2, JobsFailed: failed, Migrations: last.Moved, MachinesBefore: first.Machines, MachinesAfter: last.Machines,
		DollarsPerHourBefore: first.DollarsPerHour, DollarsPerHourAfter: last.DollarsPerHour,
		Decisions: append([]string{}, decisions...), // JSON has no null
	}
	for _, p := range course {
		p.Seconds -= first.Seconds
		r.Course = append(r.Course, p)
	}
	r.Course = thinned(r.Course, 14)
	return r
}

// result summarizes the observations.
func (w *consolidationWatch) result(ctx context.Context) (*Consolidation, error) {
	r := newConsolidation(w.course, w.decisions, w.failed)
	var migrations v1alpha1.MigrationList
	if err := w.client.List(ctx, &migrations); err != nil {
		return nil, fmt.Errorf("list Migrations: %w", err)
	}
	var frozen float64
	for i := range migrations.Items {
		if m := migrations.Items[i].Status.Measured; m != nil && migrations.Items[i].Status.Phase == v1alpha1.MigrationSucceeded {
			var seconds float64
			if _, err := fmt.Sscanf(m.FrozenSeconds, "%f", &seconds); err == nil {
				frozen += seconds
			}
		}
	}
	if r.Migrations > 0 {
		r.FrozenSecondsMean = frozen / float64(r.Migrations)
	}
	return r, nil
}
