package cluster

import "time"

// Platform is an image on a CPU architecture, as in GOARCH. The system is Linux.
type Platform struct{ Image, Arch string }

// Misfit is an image that does not run on the architecture of a node, as a pod there shows.
type Misfit struct {
	Platform
	// Namespace, Pod and Node say where that was seen. The pod's name is that of [Pod].
	Namespace, Pod, Node string
	// Crashed says that a program that the container was to run is of another architecture.
	// That program need not be the image's: it may be mounted, or named by the pod.
	// Otherwise the image's registry has no variant of it for the architecture.
	Crashed bool
	// At is when it was so last.
	At time.Time
}
