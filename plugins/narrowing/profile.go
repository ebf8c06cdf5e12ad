package narrowing

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// The names of Supercargo's own filters. The packing plugins among them never score the same pod: TimeBin scores batch
// pods if it is enabled, BestFit all others.
const (
	// BestFit is the name of the best-fit plugin.
	BestFit = "BestFit"
	// TimeBin is the name of the time-bin plugin.
	TimeBin = "TimeBin"
	// NodeClass is the name of the node-class plugin.
	NodeClass = "NodeClass"
	// CheckpointStaging is the name of the plugin that places the new pods of migrations.
	CheckpointStaging = "CheckpointStaging"
)

// neutral are the PreFilter and Filter plugins that admit every pod that may be narrowed to every usable node with room
// and the right class, unless they are conditional and left a record. [Narrower.Rescue] detects a plugin that behaves
// otherwise.
var neutral = sets.New(BestFit, TimeBin, NodeClass, names.NodeUnschedulable, names.NodeName, names.TaintToleration, names.NodeResourcesFit).
	Union(sets.KeySet(conditional)).Union(idle)

// pluginLister is the part of the framework that lists the plugins of a profile. It is not part of [fwk.Handle], but
// every handle implements it.
type pluginLister interface {
	ListPlugins() *schedconfig.Plugins
}

// profile is what narrowing must know about its profile.
type profile struct {
	// hindrance is why nothing may be narrowed, or empty.
	hindrance string
	// classes reports that the NodeClass filter is enabled.
	classes bool
	// timeBins reports that the TimeBin plugin scores batch pods.
	timeBins bool
	// preferences are the score plugins that may choose among equally good nodes.
	preferences preferences
}

// inspect reads the profile of a handle. It must not be called before the framework is complete, as in a plugin's
// constructor.
func inspect(handle fwk.Handle, plugin string) profile {
	lister, ok := handle.(pluginLister)
	if !ok {
		return profile{hindrance: "the framework does not list its plugins"}
	}
	plugins := lister.ListPlugins()
	p := profile{
		classes:  has(plugins.Filter, NodeClass),
		timeBins: has(plugins.Score, TimeBin),

		preferences: preferencesOf(plugins.Score),
	}
	p.hindrance = hindrance(plugins, plugin)
	return p
}

func hindrance(plugins *schedconfig.Plugins, plugin string) string {
	for _, set := range []schedconfig.PluginSet{plugins.PreFilter, plugins.Filter} {
		for _, other := range set.Enabled {
			if !neutral.Has(other.Name) {
				return fmt.Sprintf("filter plugin %s may reject any node", other.Name)
			}
		}
	}
	if late := unread(plugins, plugin); late != "" {
		return fmt.Sprintf("filter plugin %s has no PreFilter before that of %s, so it is unknown when it may reject a node", late, plugin)
	}
	if first := plugins.PostFilter.Enabled; len(first) == 0 || first[0].Name != BestFit {
		return fmt.Sprintf("%s is not the first PostFilter plugin, so a pod that failed while narrowed could preempt others", BestFit)
	}
	if weight, others := weights(plugins.Score, plugin); weight <= 100*others {
		return fmt.Sprintf("the profile is not strict: %s has weight %d, the other score plugins have %d together, and a strict profile requires more than 100 times as much",
			plugin, weight, others)
	}
	return ""
}

// unread returns a conditional filter whose PreFilter does not run before that of the packing plugin, so that its
// record is missing; empty if there is none.
func unread(plugins *schedconfig.Plugins, plugin string) string {
	before := sets.New[string]()
	for _, p := range plugins.PreFilter.Enabled {
		if p.Name == plugin {
			break
		}
		before.Insert(p.Name)
	}
	for _, p := range plugins.Filter.Enabled {
		if _, ok := conditional[p.Name]; ok && !before.Has(p.Name) {
			return p.Name
		}
	}
	return ""
}

// weights returns the weight of the packing plugin, and the sum of the weights of the other plugins that score the same
// pods.
func weights(set schedconfig.PluginSet, plugin string) (own, others int64) {
	for _, p := range set.Enabled {
		switch p.Name {
		case plugin:
			own = int64(p.Weight)
		case BestFit, TimeBin:
		default:
			others += int64(p.Weight)
		}
	}
	return own, others
}

func has(set schedconfig.PluginSet, name string) bool {
	for _, p := range set.Enabled {
		if p.Name == name {
			return true
		}
	}
	return false
}
