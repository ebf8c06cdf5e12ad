package sim

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// kube-scheduler breaks ties between equally good nodes with the global random source, which cannot
// be seeded. To get the same choice in every run, each profile gets score plugins that prevent ties
// without any other effect: all weights are multiplied by tieFactor, and three plugins with weights
// 101², 101 and 1 add the base-101 digits of a unique rank of each node. The ranks are drawn for
// each pod, so the choice is as fair as a random one.
const (
	tieDigits = 3
	tieBase   = fwk.MaxNodeScore + 1
	tieFactor = tieBase * tieBase * tieBase
)

// BreakTies returns the KubeSchedulerConfiguration with ties broken by the seed, and the plugins
// that it needs. It leaves profiles unchanged whose weights are too large for that, as in strict
// packing profiles. These have ties only between nodes that pack equally well and score equally for
// a pod's soft preferences. With one worker the scheduler then selects the same node in every run,
// by the order in which nodes were added.
func BreakTies(configuration []byte, seed uint64) ([]byte, runtime.Registry, error) {
	config, err := decode(configuration)
	if err != nil {
		return nil, nil, err
	}
	registry := runtime.Registry{}
	for i := range config.Profiles {
		if plugins := config.Profiles[i].Plugins; plugins != nil && scalable(plugins) {
			addTieBreak(plugins, registry, &tieBreaker{seed: seed}, i)
		}
	}
	codec, err := encoder()
	if err != nil {
		return nil, nil, err
	}
	text, err := apiruntime.Encode(codec, config)
	return text, registry, err
}

// addTieBreak adds the three plugins to a profile. Their names contain the profile's number,
// because each profile has its own ranks.
func addTieBreak(plugins *schedconfig.Plugins, registry runtime.Registry, t *tieBreaker, profile int) {
	scale(plugins.MultiPoint.Enabled)
	scale(plugins.Score.Enabled)
	weight := int64(1)
	for digit := range tieDigits {
		name := fmt.Sprintf("TieBreak%d-%d", profile, digit)
		registry[name] = func(context.Context, apiruntime.Object, fwk.Handle) (fwk.Plugin, error) {
			return &tiePlugin{tieBreaker: t, name: name, digit: digit}, nil
		}
		plugins.MultiPoint.Enabled = append(plugins.MultiPoint.Enabled, schedconfig.Plugin{Name: name, Weight: int32(weight)})
		weight *= tieBase
	}
}

// tieBreaker ranks nodes. It belongs to one profile of one scheduler.
type tieBreaker struct {
	seed  uint64
	ranks map[string]int64 // of the nodes of the current pod
}

func scalable(plugins *schedconfig.Plugins) bool {
	for _, set := range [][]schedconfig.Plugin{plugins.MultiPoint.Enabled, plugins.Score.Enabled} {
		for _, p := range set {
			if int64(p.Weight)*tieFactor > math.MaxInt32 {
				return false
			}
		}
	}
	return true
}

func scale(plugins []schedconfig.Plugin) {
	for i := range plugins {
		plugins[i].Weight = int32(int64(max(1, plugins[i].Weight)) * tieFactor) // no weight means 1
	}
}

// rank draws the ranks of the nodes for a pod: a Fisher-Yates permutation of 0..n-1 over the nodes
// in name order, from the seed and the name of the pod. The order of the snapshot is unsuitable: it
// depends on when each node was first seen. Cost: O(n·log n).
func (t *tieBreaker) rank(pod *corev1.Pod, infos []fwk.NodeInfo) {
	names := make([]string, len(infos))
	for i, info := range infos {
		names[i] = info.Node().Name
	}
	slices.Sort(names)
	name := fnv.New64a()
	fmt.Fprintf(name, "%s/%s", pod.Namespace, pod.Name)
	state := t.seed ^ name.Sum64()
	t.ranks = make(map[string]int64, len(names))
	for i := len(names) - 1; i >= 0; i-- {
		j := int(splitMix(&state) % uint64(i+1))
		names[i], names[j] = names[j], names[i]
		t.ranks[names[i]] = int64(i) % tieFactor
	}
}

// splitMix is the generator of Steele, Lea and Flood (OOPSLA 2014): small, and the same on every
// machine.
func splitMix(state *uint64) uint64 {
	*state += 0x9e3779b97f4a7c15
	z := *state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// tiePlugin scores one digit of a node's rank.
type tiePlugin struct {
	*tieBreaker
	name  string
	digit int
}

var (
	_ fwk.PreScorePlugin = (*tiePlugin)(nil)
	_ fwk.ScorePlugin    = (*tiePlugin)(nil)
)

// Name implements fwk.Plugin.
func (p *tiePlugin) Name() string { return p.name }

// PreScore draws the ranks once for all digits.
func (p *tiePlugin) PreScore(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, infos []fwk.NodeInfo) *fwk.Status {
	if p.digit == 0 {
		p.rank(pod, infos)
	}
	return nil
}

// Score returns the digit of the node's rank.
func (p *tiePlugin) Score(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, info fwk.NodeInfo) (int64, *fwk.Status) {
	rank := p.ranks[info.Node().Name]
	for range p.digit {
		rank /= tieBase
	}
	return rank % tieBase, nil
}

// ScoreExtensions implements fwk.ScorePlugin.
func (p *tiePlugin) ScoreExtensions() fwk.ScoreExtensions { return nil }
