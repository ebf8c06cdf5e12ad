package planfile

import (
	"bufio"
	"bytes"
	"io"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/extended"
	"supercargo.dev/supercargo/internal/input/table"
	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/internal/packing"
)

// Pod is a pod that needs a machine. Its name is unique in the file: for manifests it is
// namespace/name, or only the name without a namespace. Otherwise only its size and, from a table,
// its architecture are set.
type Pod struct {
	cluster.Pod
	// Manifest is the Kubernetes pod, or nil for a pod of a table.
	Manifest *corev1.Pod
	// Extended are the extended resources that it requests; nil if there are none.
	Extended map[corev1.ResourceName]int64
}

// Skipped is a pod of the file that needs no machine of the plan.
type Skipped struct {
	Name string
	// Reason is the reason.
	Reason string
}

// Pods are the pods of a file.
type Pods struct {
	// Pods are ordered by name.
	Pods []Pod
	// Skipped are in file order.
	Skipped []Skipped
	// Others counts the objects of the file that are not pods, by kind; it may be nil.
	Others map[string]int
}

// ReadPods reads pods that exist at the same time, either from a CSV file, see [trace.ReadPodList],
// or from pod manifests as YAML or JSON: a sequence of documents, or lists as printed by `kubectl
// get pods -o yaml`. Objects of other kinds are counted and ignored, but a file without any pod is an
// error. The extension of the name decides, or else the first line: a CSV header has no
// colon.
//
// Runtimes in tables are ignored. In manifests, pods that have ended, DaemonSet pods and static
// pods are skipped, because no machine is bought for them. Unknown fields are errors, since they
// may restrict where a pod can run, but status and managedFields are ignored. name is used in
// errors, which are of type [*table.Errors].
//
// Cost: O(n log n).
func ReadPods(name string, in io.Reader) (*Pods, error) {
	buffered := bufio.NewReaderSize(in, table.MaxLineBytes)
	if isManifest(name, buffered) {
		return readManifests(name, buffered)
	}
	list, err := trace.ReadPodList(name, buffered)
	if err != nil {
		return nil, err
	}
	var pods Pods
	for _, p := range list.Pods {
		pod := Pod{Pod: cluster.Pod{Item: packing.Item{Name: p.Name, Size: p.Size}, Arch: p.Arch}}
		if p.MilliGPUs > 0 {
			pod.Extended = map[corev1.ResourceName]int64{extended.MilliGPU: p.MilliGPUs}
		}
		pods.Pods = append(pods.Pods, pod)
	}
	pods.sort()
	return &pods, nil
}

func (p *Pods) sort() {
	slices.SortFunc(p.Pods, func(a, b Pod) int { return strings.Compare(a.Name, b.Name) })
}

// isManifest peeks at most one buffer ahead.
func isManifest(name string, in *bufio.Reader) bool {
	switch filepath.Ext(name) {
	case ".csv":
		return false
	case ".yaml", ".yml", ".json":
		return true
	}
	ahead, _ := in.Peek(table.MaxLineBytes) // a read error recurs at the actual read
	for line := range bytes.Lines(ahead) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return line[0] == '{' || line[0] == '#' || bytes.HasPrefix(line, []byte("---")) || bytes.IndexByte(line, ':') >= 0
		}
	}
	return false
}
