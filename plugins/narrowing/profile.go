package narrowing

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// The names of Supercargo's own filters. Of the packing plugins among them, whose
// scores exclude each other, TimeBin scores batch pods where it is on, BestFit all
// others.
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

// neutral are the PreFilter and Filter plugins that let every pod that may be narrowed
// pass on every usable node with room and the right class, unless they are conditional
// and left a record. A plugin that proves otherwise is found out by [Narrower.Rescue].
var neutral = sets.New(BestFit, TimeBin, NodeClass, names.NodeUnschedulable, names.NodeName, names.TaintToleration, names.NodeResourcesFit).
	Union(sets.KeySet(conditional)).Union(idle)

// pluginLister is the part of the framework that says what a profile consists of.
// It is not part of [fwk.Handle], but every handle has it.
type pluginLister interface {
	ListPlugins() *schedconfig.Plugins
}

// profile is what narrowing must know about the profile it runs in.
type profile struct {
	// hindrance says why nothing may be narrowed, or is empty.
	hindrance string
	// classes says that the NodeClass filter is on.
	classes bool
	// timeBins says that the TimeBin plugin scores batch pods.
	timeBins bool
	// preferences says which score plugins may choose among equally good nodes.
	preferences preferences
}

// inspect reads the profile of a handle. It must not be called before the
// framework is complete, that is not from a plugin's constructor.
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
		return fmt.Sprintf("filter plugin %s has no PreFilter before that of %s, so it is not known when it may reject a node", late, plugin)
	}
	if first := plugins.PostFilter.Enabled; len(first) == 0 || first[0].Name != BestFit {
		return fmt.Sprintf("%s is not the first PostFilter plugin, so a pod that failed while narrowed could preempt others", BestFit)
	}
	if weight, others := weights(plugins.Score, plugin); weight <= 100*others {
		return fmt.Sprintf("the profile is blended: %s weighs %d, the others together %d, and strict needs more than 100 times as much",
			plugin, weight, others)
	}
	return ""
}

// unread returns a conditional filter whose PreFilter does not come before that of the
// packing plugin, or the empty string: its record would not be there yet.
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

// weights returns the weight of the packing plugin and the sum of all that score
// the same pods as it.
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
