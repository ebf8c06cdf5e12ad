// Package energyperformance is the scheduler plugin that weighs the energy that a pod would use on each node against
// its runtime there, with a weight chosen by the pod's owner: the score of HEATS (Rocha et al., PDP 2019), as in
// [score.Rank].
//
// It reads the properties of machines from MachineProfiles. It never rejects a pod: without profiles, nodes score
// alike.
package energyperformance

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	configv1 "supercargo.dev/supercargo/api/config/v1"
	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/energy/profile"
	"supercargo.dev/supercargo/energy/score"
)

// Name is the plugin's name in a KubeSchedulerConfiguration.
const Name = "EnergyPerformance"

// Machines provides what is known about machine types. It is safe for concurrent use.
type Machines interface {
	// Machines returns what is known now. The caller must not change it.
	Machines() profile.Set
}

// Plugin scores nodes by energy and runtime.
type Plugin struct {
	handle     fwk.Handle
	clock      clock.PassiveClock
	machines   Machines
	namespaces corelisters.NamespaceLister
	weight     float64
	idleCounts bool
	prices     score.Prices // nil if joules count the same everywhere
	// reading returns whether the profiles have been read, or why they cannot be; nil if machines are given.
	reading func() (why string, done bool)
	// The fields below belong to the scheduling cycles of one profile, which are sequential.
	kinds    kinds
	reported lack // the last reported reason why no machine is known
}

var (
	_ fwk.PreScorePlugin = (*Plugin)(nil)
	_ fwk.ScorePlugin    = (*Plugin)(nil)
)

// New returns the plugin's factory for the given clock. It reads MachineProfiles from the API server unless machines is
// given, as in simulations and tests.
func New(clk clock.PassiveClock, machines Machines) func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return func(ctx context.Context, obj runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		args, ok := obj.(*configv1.EnergyPerformanceArgs)
		if !ok {
			return nil, fmt.Errorf("%s: arguments are %T, must be *EnergyPerformanceArgs", Name, obj)
		}
		path := field.NewPath("pluginConfig").Key(Name).Child("args")
		if err := configv1.ValidateEnergyPerformanceArgs(path, args).ToAggregate(); err != nil {
			return nil, fmt.Errorf("%s: %w", Name, err)
		}
		p := &Plugin{
			handle:     handle,
			clock:      clk,
			machines:   machines,
			namespaces: handle.SharedInformerFactory().Core().V1().Namespaces().Lister(),
			weight:     *args.EnergyWeight,
			idleCounts: args.IdlePower == configv1.IdlePowerCount,
		}
		if args.Tariff != nil {
			p.CountBy(followTariff(ctx, args.Tariff, clk, func() events.EventRecorder { return handle.EventRecorder() }))
		}
		if machines == nil {
			w, err := watched(ctx, handle, beginning)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", Name, err)
			}
			p.machines, p.reading = w, w.reading
		}
		return p, nil
	}
}

// CountBy weights joules by prices. It must be called before the first pod is scheduled. The plugin's arguments can set
// the tariff of a file instead.
func (p *Plugin) CountBy(prices score.Prices) { p.prices, p.kinds.zoned = prices, true }

// Name returns the plugin's name.
func (p *Plugin) Name() string { return Name }

// scores are the scores of one pod by kind of node. They are in the cycle state from PreScore to Score and are
// immutable.
type scores []score.Result

// Clone returns the same value, because it is immutable.
func (s scores) Clone() fwk.StateData { return s }

const stateKey fwk.StateKey = "supercargo.dev/scores/" + Name

// PreScore predicts the energy and runtime of the pod on each kind of node that passed the filters, once for each kind.
// It skips Score if no node is known.
func (p *Plugin) PreScore(_ context.Context, state fwk.CycleState, pod *corev1.Pod, infos []fwk.NodeInfo) *fwk.Status {
	machines := p.machines.Machines()
	if len(machines) == 0 {
		p.notKnown()
		return fwk.NewStatus(fwk.Skip)
	}
	present := p.kinds.learn(infos)
	size, now := score.SizeOf(pod), p.clock.Now()
	options, known := make([]score.Option, len(present)), false
	for k := range options {
		at := &p.kinds.places[k/2]
		m := machines[at.machineType]
		if !present[k] || m == nil {
			continue
		}
		options[k], known = score.Predict(m, at.governor, size, p.idleCounts && k%2 == 1, now), true
		if p.prices != nil {
			options[k].Price = p.prices.At(at.zone, now)
		}
	}
	if !known {
		p.notKnown()
		return fwk.NewStatus(fwk.Skip)
	}
	p.someKnown()
	if p.prices != nil {
		countPriced(options)
	}
	s := make(scores, len(options))
	score.Rank(p.weightOf(pod).H, options, s)
	state.Write(stateKey, s)
	return nil
}

// weightOf returns the pod's weight of energy, and records an Event if an annotation is malformed.
func (p *Plugin) weightOf(pod *corev1.Pod) score.Weight {
	var ofNamespace map[string]string
	// A namespace that is not in the cache, because it is new or being deleted, sets no weight.
	if ns, err := p.namespaces.Get(pod.Namespace); err == nil {
		ofNamespace = ns.Annotations
	}
	weight, err := score.WeightOf(pod.Annotations, ofNamespace, p.weight)
	if err != nil {
		p.handle.EventRecorder().Eventf(pod, nil, corev1.EventTypeWarning, v1alpha1.SchedulingReasonInvalidAnnotation, v1alpha1.ActionScheduling,
			"%v; %v (%s) is used", err, weight.H, weight.Origin)
	}
	return weight
}

// Score returns the score from PreScore for this kind of node.
func (p *Plugin) Score(_ context.Context, state fwk.CycleState, _ *corev1.Pod, info fwk.NodeInfo) (int64, *fwk.Status) {
	data, err := state.Read(stateKey)
	if err != nil { // PreScore is disabled in this profile
		return score.Neutral, nil
	}
	k, learned := p.kinds.of(info)
	if !learned { // the node was not in PreScore either
		return score.Neutral, nil
	}
	return data.(scores)[k].Score, nil
}

// ScoreExtensions returns nil, because the scores are already in range.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return nil }
