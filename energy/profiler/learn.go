package profiler

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/energy/probe"
	"supercargo.dev/supercargo/energy/profile"
	"supercargo.dev/supercargo/energy/profiler/profilerdecide"
	"supercargo.dev/supercargo/internal/platform/conditions"
	"supercargo.dev/supercargo/internal/text/plural"
)

// learned is the result of a refit of a machine type.
type learned struct {
	profile.Profile
	governed
	unusable, modelled, probes, tasks int
	err                               error
}

// learn updates the profiles: it refits those that are due or that a user has edited, and
// writes conditions about the progress of probing.
func (r *round) learn(ctx context.Context, steps []profilerdecide.Step) error {
	var all map[string]learned // of all types at once, when the first one needs it
	var errs []error
	for _, s := range steps {
		p := r.profiles[s.Type]
		if p == nil {
			continue
		}
		if err := r.followHardware(ctx, p); err != nil {
			errs = append(errs, err)
			continue
		}
		before := p.DeepCopy()
		if !r.ReadOnly && s.Reason != "" { // without records it is unknown
			r.condition(p, v1alpha1.ProfileProbed, s.Reason == v1alpha1.ProfileReasonProbed, s.Reason, s.Message)
		}
		if r.due(p) {
			if all == nil {
				all = r.fit()
			}
			if err := r.refit(ctx, p, all[s.Type]); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		r.judge(p)
		if r.DryRun || equal(before, p) {
			continue
		}
		if err := r.Client.Status().Patch(ctx, p, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("write the status of MachineProfile %s: %w", p.Name, err))
		}
	}
	return errors.Join(errs...)
}

func equal(a, b *v1alpha1.MachineProfile) bool {
	one, err := json.Marshal(a.Status)
	other, err2 := json.Marshal(b.Status)
	return err == nil && err2 == nil && string(one) == string(other)
}

// due reports whether a profile must be refitted: the period has passed, there is a new probe, or
// its models differ from the learned ones.
func (r *round) due(p *v1alpha1.MachineProfile) bool {
	known := r.memory.records[p.Spec.MachineType]
	if r.ReadOnly || known == nil || known.Probe == nil && len(known.Tasks) == 0 || p.Spec.Hardware == nil || known.Fingerprint != p.Spec.Hardware.Fingerprint {
		return false
	}
	return known.Learned.IsZero() || r.now.Sub(known.Learned) >= r.Config.Period || digestOf(p.Status.Models) != known.Digest
}

// fit learns from all records: first from probes alone, then from probes and finished pods, which
// the first profiles make comparable.
func (r *round) fit() map[string]learned {
	all, probes := map[string]learned{}, map[string][]profile.Sample{}
	probed, tasks := map[string]profile.Profile{}, map[string][]profile.Task{}
	for machineType, known := range r.memory.records {
		if known == nil {
			continue
		}
		var l learned
		if known.Probe != nil {
			report, err := probe.Decode([]byte(known.Probe.Report))
			if err != nil {
				l.err = err
			}
			probes[machineType], l.modelled = report.Samples(probe.Power{Model: r.power(machineType, known.Probe.Threads), Threads: known.Probe.Threads})
			if p, _, err := profile.Learn(probes[machineType]); err == nil {
				probed[machineType] = p
			}
			l.governed = governedBy(report)
		}
		for _, t := range known.Tasks {
			tasks[machineType] = append(tasks[machineType], t.Sample())
		}
		all[machineType] = l
	}
	standard := profile.Standardize(tasks, probed)
	for machineType, l := range all {
		l.probes, l.tasks = len(probes[machineType]), len(standard[machineType])
		p, unusable, err := profile.Learn(slices.Concat(probes[machineType], standard[machineType]))
		l.Profile, l.unusable, l.err = p, unusable, errors.Join(l.err, err)
		all[machineType] = l
	}
	return all
}

// power returns the power model of a machine type, for energy that was not measured: that of its
// profile, else of the table by type, else the mean of all CPUs.
func (r *round) power(machineType string, threads int) energy.Model {
	stated := profile.StatedPower{}
	if o := r.profiles[machineType]; o != nil {
		_ = stated.Add(o) // an invalid profile reports that in its own status
	}
	return stated.Of(machineType, float64(threads))
}

// refit writes the learned models to the status of a profile. It first writes their digest to the
// record, so that a status with neither these nor the previous models must have been edited by
// somebody.
func (r *round) refit(ctx context.Context, p *v1alpha1.MachineProfile, l learned) error {
	known := r.recordOf(p.Spec.MachineType)
	is := digestOf(p.Status.Models)
	// A record without a digest is new, or of new hardware: the models are of the old hardware.
	edited := known.Digest != "" && is != known.Digest && is != known.Before && p.Status.Models != nil
	why := ""
	if edited {
		why = faultOf(p)
	}
	p.Status.UnusableSamples = int32(min(l.unusable, 1<<30))
	var models *v1alpha1.MachineModels
	if l.err == nil {
		models = l.models(r.now.UTC().Truncate(time.Second), known.Fingerprint)
	}
	before := *known
	known.Before, known.Digest, known.Learned = is, digestOf(models), r.now.UTC().Truncate(time.Second)
	if err := r.save(ctx, p.Spec.MachineType); err != nil {
		*known = before
		return err
	}
	if edited && !r.DryRun {
		r.Events.Eventf(p, nil, corev1.EventTypeWarning, v1alpha1.ProfileReasonModelsInvalid, v1alpha1.ActionLearn, "status.models are replaced by what was learned: %s. Write your own models to spec.models", why)
	}
	p.Status.Models = models
	if l.err != nil {
		r.condition(p, v1alpha1.ProfileLearned, false, v1alpha1.ProfileReasonInsufficientSamples, l.err.Error())
		return nil
	}
	metricRefits.Inc()
	publish(p.Spec.MachineType, l.Profile)
	r.condition(p, v1alpha1.ProfileLearned, true, v1alpha1.ProfileReasonFitted, l.origin())
	return nil
}

// faultOf returns what is wrong with the models in a status, which are not those that were learned.
func faultOf(p *v1alpha1.MachineProfile) string {
	alone := &v1alpha1.MachineProfile{ObjectMeta: p.ObjectMeta, Spec: v1alpha1.MachineProfileSpec{MachineType: p.Spec.MachineType}, Status: p.Status}
	if _, err := profile.FromObject(alone); err != nil {
		return err.Error()
	}
	return "they differ from the learned ones"
}

// origin describes what the models were learned from.
func (l *learned) origin() string {
	how := ""
	switch {
	case l.modelled > 0:
		how = fmt.Sprintf(" (energy of %d of them modelled)", l.modelled)
	case l.probes > 0:
		how = " (energy measured)"
	}
	return fmt.Sprintf("from %s%s and %s of finished pods%s", plural.Count(l.probes, "probed size"), how, plural.Count(l.tasks, "size"), l.under())
}

// judge sets the condition for whether the profile can be used.
func (r *round) judge(p *v1alpha1.MachineProfile) {
	p.Status.ObservedGeneration = p.Generation
	switch _, err := profile.FromObject(p); {
	case errors.Is(err, profile.ErrNothingLearned):
		r.condition(p, v1alpha1.ProfileReady, false, v1alpha1.ProfileReasonNothingLearned, err.Error())
	case err != nil:
		r.condition(p, v1alpha1.ProfileReady, false, v1alpha1.ProfileReasonInvalidSpec, err.Error())
	case p.Spec.Models != nil:
		r.condition(p, v1alpha1.ProfileReady, true, v1alpha1.ProfileReasonSpecified, "spec.models predict energy and runtime")
	default:
		r.condition(p, v1alpha1.ProfileReady, true, v1alpha1.ProfileReasonLearned, "status.models predict energy and runtime")
	}
}

func (r *round) condition(p *v1alpha1.MachineProfile, kind string, is bool, reason, message string) {
	conditions.Set(&p.Status.Conditions, kind, is, reason, message, p.Generation, r.now)
}

// digestOf returns a hash of models as the API server returns them; "" for none.
func digestOf(m *v1alpha1.MachineModels) string {
	if m == nil {
		return ""
	}
	text, err := json.Marshal(m)
	again := &v1alpha1.MachineModels{}
	if err == nil {
		err = json.Unmarshal(text, again) // normalizes quantities and times
	}
	if err == nil {
		text, err = json.Marshal(again)
	}
	if err != nil {
		return "unreadable"
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// ensureProfile creates the profile of a machine type that has none.
func (r *round) ensureProfile(ctx context.Context, machineType string) error {
	if r.profiles[machineType] != nil {
		return nil
	}
	p := &v1alpha1.MachineProfile{ObjectMeta: metav1.ObjectMeta{Name: profile.NameOf(machineType)}, Spec: v1alpha1.MachineProfileSpec{MachineType: machineType}}
	for i := range r.types {
		if r.types[i].Name == machineType {
			p.Spec.Hardware = r.hardware[r.types[i].Hardware]
		}
	}
	if m, known := energy.BuiltIn().MachineType(machineType); known {
		p.Spec.Power = profile.PowerObject(m)
	}
	if err := r.Client.Create(ctx, p); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create MachineProfile %s: %w", p.Name, err)
	}
	r.profiles[machineType] = p
	return nil
}

// followHardware writes the current hardware of the machines to the spec of a profile. That
// invalidates models of other hardware at once, for all readers.
func (r *round) followHardware(ctx context.Context, p *v1alpha1.MachineProfile) error {
	at := slices.IndexFunc(r.types, func(t profilerdecide.Type) bool { return t.Name == p.Spec.MachineType })
	if at < 0 || !r.probing() {
		return nil
	}
	hw := r.hardware[r.types[at].Hardware]
	if hw == nil || p.Spec.Hardware != nil && p.Spec.Hardware.Fingerprint == hw.Fingerprint {
		return nil
	}
	before := p.DeepCopy()
	p.Spec.Hardware = hw
	if err := r.Client.Patch(ctx, p, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("write the hardware of MachineProfile %s: %w", p.Name, err)
	}
	if before.Spec.Hardware != nil {
		r.Events.Eventf(p, nil, corev1.EventTypeNormal, v1alpha1.ProfileReasonHardwareChanged, v1alpha1.ActionLearn, "the hardware of the machines has changed (%s): the learned models are discarded", hw.CPUModel)
	}
	return nil
}
