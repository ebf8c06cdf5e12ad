// Package adopt converts the NodePools of Karpenter, and the MachineDeployments that cluster-autoscaler scales, to
// NodeFleets.
//
// Each setting is either converted or listed in a [Note], with what to do about it. Where a restriction cannot be
// expressed, the NodeFleet buys nothing (limits.machines: 0) until somebody has decided. NodeFleets are printed in mode
// Observe, together with the steps to go over and back.
//
// The package is pure: the same objects give the same document.
package adopt

import (
	"cmp"
	"slices"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/input/catalogue"
)

// Around is what is known about the cluster besides the objects to convert.
type Around struct {
	// Region is the cloud region; empty if it is unknown.
	Region string
	// Zones are the zones in which nodes exist, and ClassZones those of each NodeClass, by kind and name separated by a
	// slash. All are ordered.
	Zones      []string
	ClassZones map[string][]string
	// Prices returns the instance types of a list of prices in a region, ordered by name. It fails if there is no such
	// list.
	Prices func(list, region string) ([]catalogue.Flavor, error)
}

// Document is what an adoption results in. It is also a List that kubectl apply accepts: it ignores the other fields.
type Document struct {
	APIVersion string  `json:"apiVersion"`
	Kind       string  `json:"kind"`
	Items      []Fleet `json:"items"`
	// Notes are the settings without an equivalent, or with a different one.
	Notes []Note `json:"notes"`
	// Steps lead to the NodeFleets, and Back leads back.
	Steps []Step `json:"steps"`
	Back  []Step `json:"back"`
}

// Fleet is a NodeFleet of which only the fields that follow from the source are set.
type Fleet struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   Metadata `json:"metadata"`
	Spec       Spec     `json:"spec"`
}

// Metadata is that of a Fleet.
type Metadata struct {
	Name string `json:"name"`
}

// Spec has the fields of [v1alpha1.NodeFleetSpec] that are set.
type Spec struct {
	Class         v1alpha1.FleetClass         `json:"class,omitempty"`
	Mode          v1alpha1.FleetMode          `json:"mode"`
	Provider      v1alpha1.FleetProvider      `json:"provider"`
	ClusterAPI    *v1alpha1.ClusterAPIFlavors `json:"clusterAPI,omitempty"`
	Karpenter     *v1alpha1.KarpenterNodes    `json:"karpenter,omitempty"`
	Pricing       *Pricing                    `json:"pricing,omitempty"`
	Limits        *v1alpha1.FleetLimits       `json:"limits,omitempty"`
	Consolidation *Consolidation              `json:"consolidation,omitempty"`
}

// Pricing has the fields of [v1alpha1.FleetPricing] that are set.
type Pricing struct {
	List      string                   `json:"list,omitempty"`
	Region    string                   `json:"region,omitempty"`
	Catalogue *v1alpha1.PriceCatalogue `json:"catalogue,omitempty"`
}

// Consolidation has the fields of [v1alpha1.FleetConsolidation] that are set.
type Consolidation struct {
	Policy           v1alpha1.ConsolidationPolicy `json:"policy"`
	ThresholdPercent *int32                       `json:"thresholdPercent,omitempty"`
	After            string                       `json:"after,omitempty"`
	MaxUnavailable   string                       `json:"maxUnavailable,omitempty"`
	Budgets          []v1alpha1.FleetBudget       `json:"budgets,omitempty"`
}

// Note describes a setting that has no equivalent, or a different one.
type Note struct {
	// Fleet is the name of the NodeFleet; empty if there is none.
	Fleet string `json:"fleet"`
	// Object is the object that has the setting, such as NodePool default.
	Object string `json:"object"`
	// Field is the path of the setting, and Value its value; empty if it is not set.
	Field string `json:"field"`
	Value string `json:"value,omitempty"`
	// Difference is what is different, and Action what to do about it.
	Difference string `json:"difference"`
	Action     string `json:"action"`
}

// Step is a step to go over or back, with the commands for it.
type Step struct {
	Text     string   `json:"text"`
	Commands []string `json:"commands,omitempty"`
}

// newFleet returns a NodeFleet in mode Observe.
func newFleet(name string, spec Spec) Fleet {
	spec.Mode = v1alpha1.FleetObserve
	return Fleet{APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeFleet", Metadata: Metadata{Name: name}, Spec: spec}
}

// newDocument orders the NodeFleets and, for each object, keeps the order of the notes.
func newDocument(fleets []Fleet, notes []Note, steps, back []Step) *Document {
	slices.SortStableFunc(fleets, func(a, b Fleet) int { return cmp.Compare(a.Metadata.Name, b.Metadata.Name) })
	slices.SortStableFunc(notes, func(a, b Note) int { return cmp.Or(cmp.Compare(a.Fleet, b.Fleet), cmp.Compare(a.Object, b.Object)) })
	d := &Document{APIVersion: "v1", Kind: "List", Items: fleets, Notes: notes, Steps: steps, Back: back}
	if d.Items == nil {
		d.Items = []Fleet{}
	}
	if d.Notes == nil {
		d.Notes = []Note{}
	}
	return d
}
