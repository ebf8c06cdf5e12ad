// Package podvolumes finds the volumes of a container whose contents exist on its node alone, and go with its pod: emptyDirs,
// and the shared memory that containerd gives to each pod.
package podvolumes

import (
	"path"
	"slices"
	"strings"
)

// SharedMemory is where a container has its shared memory.
const SharedMemory = "/dev/shm"

// Mount is a mount of the specification of a container.
type Mount struct {
	// Destination is the path in the container.
	Destination string `json:"destination"`
	// Source is the path on the node.
	Source string `json:"source"`
	// Type is "bind" for a folder of the node.
	Type string `json:"type"`
}

// Volume is a volume that only the pod has.
type Volume struct {
	// Destination is its path in the container, and Source its path on the node.
	Destination, Source string
	// Skip are the paths in it at which other things are mounted, relative to it and in order.
	Skip []string
}

// Of returns the volumes that only the pod with this UID has, in the order of their paths in the container. A volume that is
// mounted more than once is found once.
func Of(mounts []Mount, pod string) []Volume {
	var all []Volume
	for _, m := range mounts {
		if !own(m, pod) {
			continue
		}
		v := Volume{Destination: path.Clean(m.Destination), Source: path.Clean(m.Source)}
		for _, other := range mounts {
			below, is := strings.CutPrefix(path.Clean(other.Destination), v.Destination+"/")
			if is {
				v.Skip = append(v.Skip, below)
			}
		}
		slices.Sort(v.Skip)
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b Volume) int { return strings.Compare(a.Destination, b.Destination) })
	found := map[string]bool{}
	return slices.DeleteFunc(all, func(v Volume) bool {
		again := found[v.Source]
		found[v.Source] = true
		return again
	})
}

// own reports whether only the pod has what is mounted: the kubelet keeps emptyDirs by the UID of the pod, and containerd
// keeps shared memory by its sandbox.
func own(m Mount, pod string) bool {
	if m.Type != "bind" || !path.IsAbs(m.Source) || pod == "" {
		return false
	}
	dir, volume := path.Split(path.Clean(m.Source))
	if strings.HasSuffix(dir, "/pods/"+pod+"/volumes/kubernetes.io~empty-dir/") {
		return true
	}
	return path.Clean(m.Destination) == SharedMemory && volume == "shm" && strings.Contains(dir, "/sandboxes/")
}
