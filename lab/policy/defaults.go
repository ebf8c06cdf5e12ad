package policy

import (
	"fmt"
	"sync"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/lab/definition"
)

// defaultFleet returns the spec of a NodeFleet with only the defaults of its
// CustomResourceDefinition.
func defaultFleet() *v1alpha1.NodeFleetSpec { return defaults().Spec.DeepCopy() }

var defaults = sync.OnceValue(func() *v1alpha1.NodeFleet {
	fleet := &v1alpha1.NodeFleet{}
	if err := definition.Complete("nodefleets", map[string]any{"spec": map[string]any{}}, fleet); err != nil {
		panic(fmt.Sprintf("the embedded definition: %v", err))
	}
	return fleet
})
