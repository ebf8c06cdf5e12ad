// Package energyperformance is the scheduler plugin that weighs the energy a pod would
// take on each node against how fast it would run there, by the wish of the pod's owner:
// the score of HEATS (Rocha et al., PDP 2019), as [score.Rank] has it.
//
// What it knows of machines it reads from MachineProfiles. It never rejects a pod: where
// nothing is known, nodes score alike.
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
	"supercargo.dev/supercargo/internal/energy/profile"
	"supercargo.dev/supercargo/internal/energy/score"
)

// Name is the plugin's name in a KubeSchedulerConfiguration.
const Name = "EnergyPerformance"

// Machines tells what is known about machine types. It is safe for concurrent use.
type Machines interface {
	// Machines returns what is known now. The caller does not change it.
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
	prices     score.Prices // nil where joules count the same everywhere
	// reading says whether the profiles have been read, or why they cannot be; nil where nobody
	// reads them.
	reading func() (why string, done bool)
	// What follows belongs to the scheduling cycles of one profile, which follow each other.
	kinds kinds
	said  lack // why nothing is known of any machine, as was said last
}

var (
	_ fwk.PreScorePlugin = (*Plugin)(nil)
	_ fwk.ScorePlugin    = (*Plugin)(nil)
)

// New returns the plugin's factory for the given clock. It reads MachineProfiles from the
// API server, unless machines is given, as simulations and tests do.
func New(clk clock.PassiveClock, machines Machines) func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return func(ctx context.Context, obj runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		args, ok := obj.(*configv1.EnergyPerformanceArgs)
		if !ok {
			return nil, fmt.Errorf("%s: arguments are %T, want *EnergyPerformanceArgs", Name, obj)
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

// CountBy has joules count by prices, before the first pod is scheduled. The arguments have
// that done by a tariff in a file.
func (p *Plugin) CountBy(prices score.Prices) { p.prices, p.kinds.zoned = prices, true }

// Name returns the plugin's name.
func (p *Plugin) Name() string { return Name }

// scores are the scores of one pod by kind of node. They live in the cycle state from
// PreScore to Score and do not change.
type scores []score.Result

// Clone returns the same value: it never changes.
func (s scores) Clone() fwk.StateData { return s }

const stateKey fwk.StateKey = "supercargo.dev/scores/" + Name

// PreScore predicts what the pod takes on each kind of node that passed the filters, once
// each. It has Score skipped where nothing is known of any node.
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

// weightOf returns the pod's weight of energy, and tells its owner about a malformed one.
func (p *Plugin) weightOf(pod *corev1.Pod) score.Weight {
	var ofNamespace map[string]string
	// A namespace that is not in the cache, new or on its way out, says nothing.
	if ns, err := p.namespaces.Get(pod.Namespace); err == nil {
		ofNamespace = ns.Annotations
	}
	weight, err := score.WeightOf(pod.Annotations, ofNamespace, p.weight)
	if err != nil {
		p.handle.EventRecorder().Eventf(pod, nil, corev1.EventTypeWarning, "InvalidAnnotation", "Scheduling",
			"%v; %v (%s) is used", err, weight.H, weight.Origin)
	}
	return weight
}

// Score returns what PreScore found for nodes of this kind.
func (p *Plugin) Score(_ context.Context, state fwk.CycleState, _ *corev1.Pod, info fwk.NodeInfo) (int64, *fwk.Status) {
	data, err := state.Read(stateKey)
	if err != nil { // PreScore is off in this profile
		return score.Neutral, nil
	}
	k, learned := p.kinds.of(info)
	if !learned { // nor was the node among those of PreScore
		return score.Neutral, nil
	}
	return data.(scores)[k].Score, nil
}

// ScoreExtensions returns nil: the scores are in range already.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return nil }
