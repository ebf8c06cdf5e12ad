package cluster

import "time"

// Platform is an image on a CPU architecture, as in GOARCH. The operating system is Linux.
type Platform struct{ Image, Arch string }

// Misfit is an image that a pod has shown not to run on the architecture of a node.
type Misfit struct {
	Platform
	// Namespace, Pod and Node say where this was observed. Pod is named as in [Pod].
	Namespace, Pod, Node string
	// Crashed means that a program that the container was to run is built for another architecture. That program need
	// not come from the image: the pod may mount it or name it. If false, the image's registry has no variant for the
	// architecture.
	Crashed bool
	// At is when this was last observed.
	At time.Time
}
