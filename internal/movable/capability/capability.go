// Package capability describes what a node can do for pods that move with their state, and decides whether that
// suffices for a pod.
//
// The agent of a node writes a [Node] to the node's annotation supercargo.dev/checkpoint-capability. What the
// checkpoint of a container needs is a [Requirements], in the annotation supercargo.dev/checkpoint-requirements of the
// pod that is restored from it. Both are small, versioned JSON documents. The scheduler compares them.
//
// The scheduler does not know what they do not contain: the agent of the target checks whether the base image is
// present and whether there is enough disk space.
package capability

import (
	"encoding/json"
	"fmt"
	"slices"

	"supercargo.dev/supercargo/api/v1alpha1"
)

const (
	// Version is the version of the JSON that this package reads and writes. Other versions are rejected, because their
	// requirements cannot be checked completely.
	Version = 1

	// MaxBytes bounds the JSON of a [Node] and of [Requirements]. It is also the limit of the field in which the
	// source's agent reports the latter.
	MaxBytes = 16384

	// maxFeatures bounds the number of CPU features; Linux names about 250 for x86-64.
	maxFeatures = 1024
	// maxName bounds the length of a name, such as that of a CPU feature.
	maxName = 128
	// maxImage bounds the length of an image name: a host, a path and a digest.
	maxImage = 1024
)

// Node holds the capabilities of a node.
type Node struct {
	// Backends are the ways in which the node's agent takes and stages checkpoints.
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
	// Restore means that containers can be started from checkpoint images on the node. Without it, pods can move off
	// the node but not to it.
	Restore bool
}

// Requirements are what a node must have to restore a container. A zero field requires nothing.
type Requirements struct {
	// Backend is how the state was taken. The node's agent must support it too.
	Backend v1alpha1.MigrationBackend
	// Arch is the architecture.
	Arch string
	// CPUFeatures are those that the process may have detected and therefore may use.
	CPUFeatures []string
	// Kernel is the minimum kernel version, such as "5.9".
	Kernel string
	// Runtime is the container runtime, as "containerd", or with the minimum version, as "containerd://2.1".
	Runtime string
	// CRIU is the minimum CRIU version. CRIU reads the images of older versions.
	CRIU string
	// BaseImage is the image from which the container was first created, as its pod named it.
	BaseImage string
	// BaseImageID is the ID of that image.
	BaseImageID string
}

// nodeJSON is the JSON form of a Node.
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

// requirementsJSON is the JSON form of Requirements.
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

// Encode returns the node's annotation. It is equal for equal capabilities, regardless of their order.
func (n Node) Encode() string {
	return encode(nodeJSON{Version, ordered(n.Backends), n.Arch, ordered(n.CPUFeatures), n.Kernel, n.Runtime, n.CRIU, n.Restore})
}

// Encode returns the pod's annotation.
func (r Requirements) Encode() string {
	return encode(requirementsJSON{Version, r.Backend, r.Arch, ordered(r.CPUFeatures), r.Kernel, r.Runtime, r.CRIU, r.BaseImage, r.BaseImageID})
}

func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil { // strings, numbers and lists of them can always be encoded
		panic(fmt.Sprintf("encode %T: %v", v, err))
	}
	return string(text)
}

// ordered returns a sorted copy without duplicates, or nil for an empty list.
func ordered[T ~string](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	sorted := slices.Clone(list)
	slices.Sort(sorted)
	return slices.Compact(sorted)
}

// ParseNode parses a node's annotation. Lists are returned sorted and without duplicates. Unknown fields are ignored: a
// node may have further capabilities.
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

// ParseRequirements parses a pod's annotation. Lists are returned sorted and without duplicates. An unknown field is an
// error because the checkpoint may depend on it.
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

// list is a field with a list of names.
type list struct {
	field string
	names []string
}

// name returns the list for a field with at most one name.
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

// check returns an error for the first field that is invalid.
func check(lists ...list) error {
	for _, l := range lists {
		if len(l.names) > maxFeatures {
			return fmt.Errorf("%s: %d names: must be at most %d", l.field, len(l.names), maxFeatures)
		}
		for _, n := range l.names {
			if n == "" || len(n) > maxName {
				return fmt.Errorf("%s: a name has %d characters: must be from 1 to %d", l.field, len(n), maxName)
			}
		}
	}
	return nil
}
