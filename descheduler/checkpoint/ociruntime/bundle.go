package ociruntime

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"supercargo.dev/supercargo/descheduler/checkpoint/podvolumes"
)

// maxSpec bounds the specification of a container, in bytes. containerd's own limit for a message is the same.
const maxSpec = 16 << 20

// The annotations that containerd's CRI plugin writes, whatever the pod contains.
const (
	annotationType      = "io.kubernetes.cri.container-type"
	annotationPod       = "io.kubernetes.cri.sandbox-uid"
	annotationContainer = "io.kubernetes.cri.container-name"
)

// bundle is what the specification of a container says about its place in Kubernetes.
type bundle struct {
	// Pod is the UID of its pod, and Container its name in the pod. Both are empty for the sandbox of a pod, and for a
	// container that no kubelet asked for.
	Pod, Container string
	// Rootfs is its root folder.
	Rootfs string
}

// readBundle reads the specification in a folder.
func readBundle(dir string) (bundle, error) {
	f, err := os.Open(filepath.Join(dir, "config.json"))
	if err != nil {
		return bundle{}, err
	}
	defer f.Close()
	b, err := parseBundle(f)
	if err != nil {
		return bundle{}, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	if !filepath.IsAbs(b.Rootfs) {
		b.Rootfs = filepath.Join(dir, b.Rootfs)
	}
	return b, nil
}

func parseBundle(r io.Reader) (bundle, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxSpec+1))
	if err != nil {
		return bundle{}, err
	}
	if len(text) > maxSpec {
		return bundle{}, fmt.Errorf("it is longer than %d bytes", maxSpec)
	}
	var spec struct {
		Root *struct {
			Path string `json:"path"`
		} `json:"root"`
		Annotations map[string]string `json:"annotations"`
	}
	if err := json.Unmarshal(text, &spec); err != nil {
		return bundle{}, err
	}
	var b bundle
	if spec.Root != nil {
		b.Rootfs = spec.Root.Path
	}
	if spec.Annotations[annotationType] == "container" {
		b.Pod, b.Container = spec.Annotations[annotationPod], spec.Annotations[annotationContainer]
	}
	return b, nil
}

// readMounts reads the mounts of the specification in a folder.
func readMounts(dir string) ([]podvolumes.Mount, error) {
	text, err := os.ReadFile(filepath.Join(dir, "config.json")) // readBundle has bounded it
	if err != nil {
		return nil, err
	}
	var spec struct {
		Mounts []podvolumes.Mount `json:"mounts"`
	}
	if err := json.Unmarshal(text, &spec); err != nil {
		return nil, fmt.Errorf("read the mounts of the container: %w", err)
	}
	return spec.Mounts, nil
}
