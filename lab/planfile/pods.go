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
	"supercargo.dev/supercargo/internal/input/table"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/lab/trace"
)

// Pod is a pod that needs a machine. Its name is unlike that of any other pod of the file: for
// manifests it is namespace/name, or the name alone where there is no namespace. Of the rest it
// has its size and, from a table, its architecture.
type Pod struct {
	cluster.Pod
	// Manifest is the pod as Kubernetes knows it; nil for a pod of a table.
	Manifest *corev1.Pod
}

// Skipped is a pod of the file that needs no machine of the plan.
type Skipped struct {
	Name string
	// Reason says why.
	Reason string
}

// Pods are the pods of a file.
type Pods struct {
	// Pods are in the order of their names.
	Pods []Pod
	// Skipped are in the order of the file.
	Skipped []Skipped
}

// ReadPods reads pods that are there together, from a CSV file, see
// [trace.ReadPodList], or from pod manifests as YAML or JSON: one document after the
// other, or lists as `kubectl get pods -o yaml` prints them. The extension of the
// name decides which, or else the first line: a header has no colon.
//
// Runtimes of tables are dropped. Of manifests, pods that have ended, pods of
// DaemonSets and static pods are skipped: no machine is bought for them. Unknown
// fields are refused, since they may say where a pod may go, but those of status and
// managedFields are not looked at. name is used in errors, which are of type
// [*table.Errors].
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
		pods.Pods = append(pods.Pods, Pod{Pod: cluster.Pod{Item: packing.Item{Name: p.Name, Size: p.Size}, Arch: p.Arch}})
	}
	pods.sort()
	return &pods, nil
}

func (p *Pods) sort() {
	slices.SortFunc(p.Pods, func(a, b Pod) int { return strings.Compare(a.Name, b.Name) })
}

// isManifest looks ahead as far as the buffer goes.
func isManifest(name string, in *bufio.Reader) bool {
	switch filepath.Ext(name) {
	case ".csv":
		return false
	case ".yaml", ".yml", ".json":
		return true
	}
	ahead, _ := in.Peek(table.MaxLineBytes) // what keeps it from reading will be met again
	for line := range bytes.Lines(ahead) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return line[0] == '{' || line[0] == '#' || bytes.HasPrefix(line, []byte("---")) || bytes.IndexByte(line, ':') >= 0
		}
	}
	return false
}
