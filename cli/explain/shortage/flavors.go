package shortage

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/text/plural"
)

// Flavors is a resource of which machines of some flavors have too little for a pod.
type Flavors struct {
	// Resource is cpu or memory, and Requested what the pod requests.
	Resource  string            `json:"resource"`
	Requested resource.Quantity `json:"requested"`
	// Flavors is the number of flavors with too little. Of them, Largest has the most: Room; of equal ones it is the first by
	// name.
	Flavors int               `json:"flavors"`
	Largest string            `json:"largest"`
	Room    resource.Quantity `json:"room"`
}

// OfFlavors returns the resources of which flavors have less than a pod requests, by the room of each flavor: CPU first.
func OfFlavors(requests packing.Size, rooms map[string]packing.Size) (all []Flavors) {
	for _, r := range []struct {
		name corev1.ResourceName
		of   func(packing.Size) int64
	}{
		{corev1.ResourceCPU, func(s packing.Size) int64 { return s.MilliCPU }},
		{corev1.ResourceMemory, func(s packing.Size) int64 { return s.MemoryBytes }},
	} {
		small := slices.DeleteFunc(slices.Sorted(maps.Keys(rooms)), func(flavor string) bool { return r.of(rooms[flavor]) >= r.of(requests) })
		if len(small) == 0 {
			continue
		}
		largest := slices.MaxFunc(small, func(a, b string) int { return cmp.Compare(r.of(rooms[a]), r.of(rooms[b])) })
		all = append(all, Flavors{string(r.name), quantity(r.name, r.of(requests)), len(small), largest, quantity(r.name, r.of(rooms[largest]))})
	}
	return all
}

// String says what the pod requests and what machines have, as a sentence.
func (f *Flavors) String() string {
	u := unitOf(corev1.ResourceName(f.Resource), f.Requested)
	if f.Flavors == 1 {
		return fmt.Sprintf("It requests %s; a machine of %s has room for %s.", u.request(f.Requested), f.Largest, u.floor(f.Room))
	}
	return fmt.Sprintf("It requests %s; of the %s with too little, %s has the most room: %s.", u.request(f.Requested), plural.Count(f.Flavors, "flavor"), f.Largest, u.floor(f.Room))
}
