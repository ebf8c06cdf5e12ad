package profiler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/energy/probe"
	"supercargo.dev/supercargo/energy/profiler/profilerdecide"
	"supercargo.dev/supercargo/energy/profiler/record"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/drain"
	"supercargo.dev/supercargo/internal/world"
)

// run decides and carries out the steps. It returns when the next round is due.
func (r *round) run(ctx context.Context) (time.Duration, error) {
	again := interval
	steps := profilerdecide.Decide(profilerdecide.Limits{
		Inactive: r.inactive(), AtOnce: r.Config.AtOnce, Settle: r.Config.settle, Backoff: r.Config.Backoff, MostBackoff: mostBackoff,
	}, r.types, r.now)
	var errs []error
	for i := range steps {
		s := &steps[i]
		if s.Again > 0 {
			again = min(again, s.Again)
		}
		if err := r.do(ctx, s); err != nil {
			s.Reason, s.Message = "", "" // it is not known what was done
			if apierrors.IsConflict(err) {
				again = settling // the observed state is outdated
				continue
			}
			errs = append(errs, fmt.Errorf("machine type %s: %w", s.Type, err))
		}
	}
	if !r.ReadOnly {
		errs = append(errs, r.gather(ctx))
	}
	errs = append(errs, r.learn(ctx, steps))
	return again, errors.Join(errs...)
}

// do carries out one step. If it does something else, because more is known by then, it changes the reason and the
// message.
func (r *round) do(ctx context.Context, s *profilerdecide.Step) error {
	if s.Action == profilerdecide.Nothing {
		r.observeOnly(ctx, *s)
		return nil
	}
	log.FromContext(ctx).Info("Probing", "machineType", s.Type, "action", s.Action, "node", s.Node, "reason", s.Reason, "message", s.Message)
	if r.DryRun || r.ReadOnly {
		return nil
	}
	var err error
	switch s.Action {
	case profilerdecide.Reserve:
		err = r.reserve(ctx, *s)
	case profilerdecide.Launch:
		err = r.launch(ctx, s)
	case profilerdecide.Cancel:
		err = r.end(ctx, *s)
		r.count(err, "cancelled")
	case profilerdecide.Collect:
		return r.collect(ctx, s)
	case profilerdecide.Fail:
		return r.fail(ctx, s, r.lastWords(ctx, *s))
	case profilerdecide.Free:
		err = r.free(ctx, s.Node)
	}
	if err == nil {
		r.recordEvent(*s, corev1.EventTypeNormal, s.Reason, s.Message)
	}
	return err
}

func (r *round) count(err error, result string) {
	if err == nil {
		metricProbes.WithLabelValues(result).Inc()
	}
}

// reserve taints a node, if it has not changed since it was observed, and creates a profile of
// its machine type.
func (r *round) reserve(ctx context.Context, s profilerdecide.Step) error {
	if err := r.ensureProfile(ctx, s.Type); err != nil {
		return err
	}
	node := r.world.Nodes[s.Node]
	taints := append(slices.DeleteFunc(slices.Clone(node.Spec.Taints), isOurs), corev1.Taint{
		Key: v1alpha1.TaintProbing, Effect: corev1.TaintEffectNoSchedule, TimeAdded: &metav1.Time{Time: r.now},
	})
	return r.taint(ctx, node, taints)
}

// free removes the taint from a node. A missing node is no error.
func (r *round) free(ctx context.Context, name string) error {
	node := r.world.Nodes[name]
	if node == nil || !slices.ContainsFunc(node.Spec.Taints, isOurs) {
		return nil
	}
	return client.IgnoreNotFound(r.taint(ctx, node, slices.DeleteFunc(slices.Clone(node.Spec.Taints), isOurs)))
}

// taint sets the taints of a node. They are written as a whole, so the write fails with a
// conflict if the node has changed since it was read.
func (r *round) taint(ctx context.Context, node *corev1.Node, taints []corev1.Taint) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": node.ResourceVersion}, "spec": map[string]any{"taints": taints},
	})
	if err != nil {
		return fmt.Errorf("write taints of node %s: %w", node.Name, err)
	}
	if err := r.Client.Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("write taints of node %s: %w", node.Name, err)
	}
	return nil
}

// launch creates the Job, unless the API server has a pod on the node that the cache lacks.
func (r *round) launch(ctx context.Context, s *profilerdecide.Step) error {
	pods, err := drain.Pods(ctx, r.Live, s.Node)
	if err != nil {
		return err
	}
	if len(pods) > 0 {
		s.Reason, s.Message = v1alpha1.ProfileReasonNodeBusy, fmt.Sprintf("node %s is not probed: pod %s is on it", s.Node, world.PodName(&pods[0]))
		return r.free(ctx, s.Node) // the next decision chooses again
	}
	object := r.world.Nodes[s.Node]
	state := r.view.Node(object, cluster.Node{Name: object.Name, Class: class.Any})
	sizes, err := probe.SizesFor(room(&state))
	if err != nil {
		return err
	}
	hw, err := hardwareOf(object)
	if err != nil || hw == nil {
		return errors.Join(err, fmt.Errorf("node %s no longer has the annotation with its hardware", s.Node))
	}
	authorities, err := r.meterAuthorities(ctx)
	if err != nil {
		log.FromContext(ctx).Info("Failed to read the certificate authority of node meters; the machine is probed without a meter", "node", object.Name, "error", err.Error())
	}
	job := r.Config.jobFor(s.Type, hw.Fingerprint, object, sizes, string(authorities))
	if err := r.Client.Create(ctx, job); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create Job %s/%s: %w", job.Namespace, job.Name, err)
	}
	r.count(nil, "started")
	return nil
}

// end deletes the Job of a type and frees its node. The pod may restore governors while the node
// already accepts other pods.
func (r *round) end(ctx context.Context, s profilerdecide.Step) error {
	if job := r.jobs[s.Type]; job != nil {
		err := r.Client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationForeground), client.Preconditions{UID: &job.UID})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete Job %s/%s: %w", job.Namespace, job.Name, err)
		}
	}
	return r.free(ctx, s.Node)
}

// words returns the termination messages of the pods of a type's probe, newest first.
func (r *round) words(ctx context.Context, machineType string) ([]string, error) {
	job := r.jobs[machineType]
	var pods corev1.PodList
	if err := r.Live.List(ctx, &pods, client.InNamespace(job.Namespace), client.MatchingLabels{batchv1.ControllerUidLabel: string(job.UID)}); err != nil {
		return nil, fmt.Errorf("list the pods of Job %s/%s: %w", job.Namespace, job.Name, err)
	}
	slices.SortFunc(pods.Items, func(a, b corev1.Pod) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) })
	var all []string
	for i := range pods.Items {
		for _, c := range pods.Items[i].Status.ContainerStatuses {
			if t := c.State.Terminated; t != nil {
				all = append(all, t.Message)
			}
		}
	}
	return all, nil
}

// lastWords returns why a probe has failed.
func (r *round) lastWords(ctx context.Context, s profilerdecide.Step) string {
	texts, err := r.words(ctx, s.Type)
	if err != nil || len(texts) == 0 {
		return s.Message
	}
	if report, err := probe.Decode([]byte(texts[0])); err == nil && report.Failure != "" {
		return s.Message + ": " + report.Failure
	}
	return s.Message
}

// collect saves the result of a probe. An unusable result is a failure.
func (r *round) collect(ctx context.Context, s *profilerdecide.Step) error {
	texts, err := r.words(ctx, s.Type)
	if err != nil {
		return err
	}
	why := "the pod of the probe left no report"
	for _, text := range texts {
		report, err := probe.Decode([]byte(text))
		switch {
		case err != nil:
			why = fmt.Sprintf("the report of the probe is invalid: %v", err)
		case !report.Complete:
			why = "the report of the probe is incomplete"
		default:
			return r.keep(ctx, *s, text)
		}
	}
	return r.fail(ctx, s, fmt.Sprintf("the probe on node %s failed: %s", s.Node, why))
}

// keep writes the report of a complete probe to the record before it deletes the Job.
func (r *round) keep(ctx context.Context, s profilerdecide.Step, report string) error {
	job := jobState(r.jobs[s.Type])
	threads := 1
	if hw := r.hardware[job.Hardware]; hw != nil {
		threads = int(max(1, hw.Threads))
	} else if p := r.profiles[s.Type]; p != nil && p.Spec.Hardware != nil && p.Spec.Hardware.Fingerprint == job.Hardware {
		threads = int(max(1, p.Spec.Hardware.Threads))
	}
	known := r.recordOf(s.Type)
	before := *known
	known.Of(s.Type, job.Hardware)
	known.Probe = &record.Probe{Report: report, Node: s.Node, Ended: r.now.UTC().Truncate(time.Second), Threads: threads}
	known.Failures, known.Failed, known.Failure, known.Learned = 0, time.Time{}, "", time.Time{}
	if err := r.save(ctx, s.Type); err != nil {
		*known = before
		return err
	}
	err := r.end(ctx, s)
	r.count(err, "succeeded")
	if err == nil {
		r.recordEvent(s, corev1.EventTypeNormal, s.Reason, s.Message)
	}
	return err
}

// fail records a failed probe.
func (r *round) fail(ctx context.Context, s *profilerdecide.Step, why string) error {
	const most = 512
	s.Reason, s.Message = v1alpha1.ProfileReasonProbeFailed, why
	known := r.recordOf(s.Type)
	before := *known
	known.Of(s.Type, jobState(r.jobs[s.Type]).Hardware)
	known.Failures++
	known.Failed, known.Failure = r.now.UTC().Truncate(time.Second), strings.ToValidUTF8(why[:min(len(why), most)], "")
	if err := r.save(ctx, s.Type); err != nil {
		*known = before
		return err
	}
	err := r.end(ctx, *s)
	r.count(err, "failed")
	if err == nil {
		r.recordEvent(*s, corev1.EventTypeWarning, s.Reason, s.Message)
	}
	return err
}

// recordOf returns the record of a type, which it creates if necessary.
func (r *round) recordOf(machineType string) *record.Record {
	known := r.memory.records[machineType]
	if known == nil {
		known = &record.Record{MachineType: machineType}
		r.memory.records[machineType] = known
	}
	return known
}

// save writes a record to its ConfigMap.
func (r *round) save(ctx context.Context, machineType string) error {
	if r.DryRun {
		return nil
	}
	text, err := r.memory.records[machineType].Encode()
	if err != nil {
		return err
	}
	name := r.recordName(machineType)
	object := applycorev1.ConfigMap(name.Name, name.Namespace).WithData(map[string]string{recordKey: text})
	if err := r.Client.Apply(ctx, object, client.FieldOwner(fieldOwner), client.ForceOwnership); err != nil {
		return fmt.Errorf("write the record of machine type %s to ConfigMap %s: %w", machineType, name, err)
	}
	delete(r.memory.dirty, machineType)
	return nil
}

const fieldOwner = "supercargo-profiler"
