// Package capability says what a node can do for pods that move with their state, and
// whether that is enough for one of them.
//
// The agent of a node writes a [Node] as the node's annotation
// supercargo.dev/checkpoint-capability. What the checkpoint of a container needs is a
// [Requirements], the annotation supercargo.dev/checkpoint-requirements of the pod that
// is restored from it. Both are JSON, small and versioned. The scheduler compares them.
//
// What is not in them the scheduler does not know, and the agent of the target finds
// out: whether the base image is there and whether there is room.
package capability

import (
	"encoding/json"
	"fmt"
	"slices"

	"supercargo.dev/supercargo/api/v1alpha1"
)

const (
	// Version is the version of the JSON that this package reads and writes. Any other is
	// refused: who does not know all that a checkpoint needs cannot say that it is there.
	Version = 1

	// MaxBytes bounds the JSON of a [Node] and that of [Requirements]. It is also the
	// limit of the field in which the source's agent reports the latter.
	MaxBytes = 16384

	// maxFeatures bounds the CPU features; x86-64 has some 250 that Linux names.
	maxFeatures = 1024
	// maxName bounds the length of a name, such as that of a CPU feature.
	maxName = 128
	// maxImage bounds the length of an image's name: a host, a path and a digest.
	maxImage = 1024
)

// Node is what a node can do.
type Node struct {
	// Backends are the ways in which its agent takes checkpoints and stages them.
	Backends []v1alpha1.MigrationBackend
	// Arch is the architecture, as Go names it.
	Arch string
	// CPUFeatures are the features of the CPU that a process can use, as Linux names them.
	CPUFeatures []string
	// Kernel is the version of the kernel, such as "6.18.0-3-amd64".
	Kernel string
	// Runtime is the container runtime and its version as the node reports it, such as
	// "containerd://2.3.7".
	Runtime string
	// CRIU is the version of CRIU, such as "4.2.1".
	CRIU string
	// Restore says that containers can be started from checkpoint images here. Without
	// it a node can give pods away but takes none.
	Restore bool
}

// Requirements are what a node must have to go on with a container. The zero value of
// a field asks for nothing.
type Requirements struct {
	// Backend is how the state was taken. The node's agent must know it too. For
	// [v1alpha1.BackendRestart] all else is left out, since no state moves.
	Backend v1alpha1.MigrationBackend
	// Arch is the architecture.
	Arch string
	// CPUFeatures are those that the process may have found, and so may use.
	CPUFeatures []string
	// Kernel is the oldest kernel that will do, such as "5.9".
	Kernel string
	// Runtime is the container runtime, as "containerd", or with the oldest version that
	// will do, as "containerd://2.1".
	Runtime string
	// CRIU is the oldest CRIU that will do: one reads what its elders wrote.
	CRIU string
	// BaseImage is the image that the container was first made from, as its pod named it.
	BaseImage string
	// BaseImageID is the ID of that image.
	BaseImageID string
}

// nodeJSON is how a Node is written.
type nodeJSON struct {
	Version     int                         `json:"version"`
	Backends    []v1alpha1.MigrationBackend `json:"backends,omitempty"`
	Arch        string                      `json:"arch,omitempty"`
	CPUFeatures []string                    `json:"cpuFeatures,omitempty"`
	Kernel      string                      `json:"kernel,omitempty"`
	Runtime     string                      `json:"runtime,omitempty"`
	CRIU        string                      `json:"criu,omitempty"`
	Restore     bool                        `json:"restore"`
}

// requirementsJSON is how Requirements are written.
type requirementsJSON struct {
	Version     int                       `json:"version"`
	Backend     v1alpha1.MigrationBackend `json:"backend"`
	Arch        string                    `json:"arch,omitempty"`
	CPUFeatures []string                  `json:"cpuFeatures,omitempty"`
	Kernel      string                    `json:"kernel,omitempty"`
	Runtime     string                    `json:"runtime,omitempty"`
	CRIU        string                    `json:"criu,omitempty"`
	BaseImage   string                    `json:"baseImage,omitempty"`
	BaseImageID string                    `json:"baseImageID,omitempty"`
}

// Encode returns the node's annotation: the same text for nodes that can do the same,
// in whatever order they name it.
func (n Node) Encode() string {
	return encode(nodeJSON{Version, ordered(n.Backends), n.Arch, ordered(n.CPUFeatures), n.Kernel, n.Runtime, n.CRIU, n.Restore})
}

// Encode returns the pod's annotation.
func (r Requirements) Encode() string {
	return encode(requirementsJSON{Version, r.Backend, r.Arch, ordered(r.CPUFeatures), r.Kernel, r.Runtime, r.CRIU, r.BaseImage, r.BaseImageID})
}

func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil { // strings, numbers and lists of them always can be
		panic(fmt.Sprintf("encode %T: %v", v, err))
	}
	return string(text)
}

// ordered returns a sorted copy without repetitions, and nil for an empty list.
func ordered[T ~string](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	sorted := slices.Clone(list)
	slices.Sort(sorted)
	return slices.Compact(sorted)
}

// ParseNode reads a node's annotation. Lists come back in order and without
// repetitions. Fields that it does not know are passed over: a node may be able to do
// more than is asked here.
func ParseNode(text string) (Node, error) {
	var j nodeJSON
	if err := decode(text, &j, passedOver); err != nil {
		return Node{}, fmt.Errorf("read annotation %s of a node: %w", v1alpha1.AnnotationCapability, err)
	}
	err := check(
		list{"backends", anyStrings(j.Backends)}, list{"cpuFeatures", j.CPUFeatures},
		name("arch", j.Arch), name("kernel", j.Kernel), name("runtime", j.Runtime), name("criu", j.CRIU))
	if err != nil {
		return Node{}, fmt.Errorf("read annotation %s of a node: %w", v1alpha1.AnnotationCapability, err)
	}
	return Node{ordered(j.Backends), j.Arch, ordered(j.CPUFeatures), j.Kernel, j.Runtime, j.CRIU, j.Restore}, nil
}

// ParseRequirements reads a pod's annotation. Lists come back in order and without
// repetitions. A field that it does not know is an error: it may be one that the
// checkpoint cannot do without.
func ParseRequirements(text string) (Requirements, error) {
	r, err := parseRequirements(text)
	if err != nil {
		return Requirements{}, fmt.Errorf("read annotation %s of a pod: %w", v1alpha1.AnnotationRequirements, err)
	}
	return r, nil
}

func parseRequirements(text string) (Requirements, error) {
	var j requirementsJSON
	if err := decode(text, &j, refused); err != nil {
		return Requirements{}, err
	}
	if j.Backend == "" {
		return Requirements{}, fmt.Errorf("backend is missing")
	}
	err := check(
		list{"cpuFeatures", j.CPUFeatures}, name("backend", string(j.Backend)),
		name("arch", j.Arch), name("kernel", j.Kernel), name("runtime", j.Runtime), name("criu", j.CRIU))
	if err != nil {
		return Requirements{}, err
	}
	if len(j.BaseImage) > maxImage || len(j.BaseImageID) > maxImage {
		return Requirements{}, fmt.Errorf("the name or ID of the base image is longer than %d characters", maxImage)
	}
	for _, v := range []struct{ field, version string }{{"kernel", j.Kernel}, {"criu", j.CRIU}, {"runtime", runtimeVersion(j.Runtime)}} {
		if _, ok := parseVersion(v.version); v.version != "" && !ok {
			return Requirements{}, fmt.Errorf("%s: %q does not start with a version such as 6.18", v.field, v.version)
		}
	}
	return Requirements{j.Backend, j.Arch, ordered(j.CPUFeatures), j.Kernel, j.Runtime, j.CRIU, j.BaseImage, j.BaseImageID}, nil
}

// list is a field with names in it.
type list struct {
	field string
	names []string
}

// name is a field with one name, or none.
func name(field, value string) list {
	if value == "" {
		return list{field: field}
	}
	return list{field, []string{value}}
}

func anyStrings[T ~string](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}

// check returns what is wrong with the first field that cannot be right.
func check(lists ...list) error {
	for _, l := range lists {
		if len(l.names) > maxFeatures {
			return fmt.Errorf("%s: %d names, more than %d", l.field, len(l.names), maxFeatures)
		}
		for _, n := range l.names {
			if n == "" || len(n) > maxName {
				return fmt.Errorf("%s: a name of %d characters; they have 1 to %d", l.field, len(n), maxName)
			}
		}
	}
	return nil
}
