package planfile

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/validation"
	resourcehelper "k8s.io/component-helpers/resource"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/cluster/extended"
	"supercargo.dev/supercargo/internal/input/document"
	"supercargo.dev/supercargo/internal/input/table"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/text/clip"
)

// reader reads manifests and collects their errors.
type reader struct {
	file   string
	pods   Pods
	lineOf map[string]int // where a name was first used
	faults table.Errors
}

func readManifests(name string, in io.Reader) (*Pods, error) {
	r := &reader{file: name, lineOf: map[string]int{}}
	text, err := io.ReadAll(io.LimitReader(in, table.MaxInputBytes+1))
	switch {
	case err != nil:
		r.fault(0, "", "read: "+err.Error())
	case len(text) > table.MaxInputBytes:
		r.fault(0, "", fmt.Sprintf("input is larger than %d bytes", table.MaxInputBytes))
	default:
		r.documents(text)
	}
	if len(r.faults.List) > 0 {
		return nil, &r.faults
	}
	r.pods.sort()
	return &r.pods, nil
}

func (r *reader) fault(line int, field, problem string) {
	r.faults.Add(table.Error{File: r.file, Line: line, Column: field, Problem: problem})
}

// documents reads all YAML documents.
func (r *reader) documents(text []byte) {
	documents, err := document.Decode(text)
	empty := true
	for _, d := range documents {
		if root := d.Content[0]; root.Tag != "!!null" {
			empty = false
			r.object(root, "")
		}
	}
	switch {
	case err != nil:
		r.fault(err.Line, "", err.Problem)
	case empty:
		r.fault(0, "", "is empty: must contain pods")
	case len(r.pods.Others) > 0 && len(r.pods.Pods)+len(r.pods.Skipped)+len(r.faults.List) == 0:
		r.fault(0, "", fmt.Sprintf("contains no pods, only %s: must contain pods, as in the output of kubectl get pods -o yaml", counted(r.pods.Others)))
	}
}

// object reads a pod or a list, and counts objects of other kinds.
func (r *reader) object(n *yaml.Node, path string) {
	if n.Kind != yaml.MappingNode {
		r.fault(n.Line, path, "must be a Pod or a List of Pods")
		return
	}
	kind := valueOf(n, "kind")
	switch {
	case kind == nil || kind.Value == "":
		r.fault(n.Line, join(path, "kind"), "is required: must be Pod or List")
	case kind.Value != "Pod" && kind.Value != "List" && kind.Value != "PodList":
		r.other(kind.Value)
	case valueOf(n, "apiVersion") == nil || valueOf(n, "apiVersion").Value != "v1":
		r.fault(n.Line, join(path, "apiVersion"), "must be v1")
	case kind.Value == "Pod":
		r.pod(n, path)
	default:
		r.list(n, path, kind.Value == "PodList")
	}
}

// list reads the items of a list. Those of a PodList have no kind.
func (r *reader) list(n *yaml.Node, path string, ofPods bool) {
	items := valueOf(n, "items")
	if items == nil || items.Kind != yaml.SequenceNode {
		r.fault(n.Line, join(path, "items"), "must be a list of pods")
		return
	}
	for i, item := range items.Content {
		at := join(path, fmt.Sprintf("items[%d]", i))
		kind := valueOf(item, "kind")
		switch {
		case ofPods || kind != nil && kind.Value == "Pod":
			r.pod(item, at)
		case kind == nil || kind.Value == "":
			r.fault(item.Line, join(at, "kind"), "is required: must be Pod")
		default:
			r.other(kind.Value)
		}
	}
}

// other counts an object that is not a pod.
func (r *reader) other(kind string) {
	if r.pods.Others == nil {
		r.pods.Others = map[string]int{}
	}
	r.pods.Others[clip.Cell(kind)]++
}

// pod reads one pod.
func (r *reader) pod(n *yaml.Node, path string) {
	if len(r.pods.Pods) == table.MaxRows {
		r.fault(n.Line, path, fmt.Sprintf("exceeds the limit of %d pods", table.MaxRows))
		return
	}
	phase := ""
	if status := valueOf(n, "status"); status != nil && valueOf(status, "phase") != nil {
		phase = valueOf(status, "phase").Value
	}
	drop(n, "status")
	if metadata := valueOf(n, "metadata"); metadata != nil {
		drop(metadata, "managedFields")
	}
	pod, ok := r.decode(n, path)
	if !ok || !r.checkRequests(n, path) {
		return
	}
	name := pod.Name
	if pod.Namespace != "" {
		name = pod.Namespace + "/" + name
	}
	if problems := validation.IsDNS1123Subdomain(pod.Name); len(problems) > 0 {
		r.fault(lineAt(n, "metadata.name"), join(path, "metadata.name"), fmt.Sprintf("%q is not a valid pod name: %s", clip.Cell(pod.Name), problems[0]))
		return
	}
	if line, taken := r.lineOf[name]; taken {
		r.fault(lineAt(n, "metadata.name"), join(path, "metadata.name"), fmt.Sprintf("%q is also the name of the pod at line %d: names must be unique", name, line))
		return
	}
	r.lineOf[name] = n.Line
	if reason := skip(pod, phase); reason != "" {
		r.pods.Skipped = append(r.pods.Skipped, Skipped{Name: name, Reason: reason})
		return
	}
	constraint.DefaultRequests(&pod.Spec)
	constraint.DefaultHostPorts(&pod.Spec)
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	if requests.Cpu().Cmp(mostCPU) > 0 || requests.Memory().Cmp(mostMemory) > 0 {
		r.fault(n.Line, path, fmt.Sprintf("pod %s requests CPU %v and memory %v: must be at most %v and %v", name, requests.Cpu(), requests.Memory(), &mostCPU, &mostMemory))
		return
	}
	size := packing.Size{MilliCPU: requests.Cpu().MilliValue(), MemoryBytes: requests.Memory().Value()}
	r.pods.Pods = append(r.pods.Pods, Pod{Pod: cluster.Pod{Item: packing.Item{Name: name, Size: size}}, Manifest: pod, Extended: extended.Amounts(requests)})
}

// skip returns the reason why a pod needs no machine of the plan, or an empty string if it needs
// one.
func skip(pod *corev1.Pod, phase string) string {
	switch {
	case phase == string(corev1.PodSucceeded) || phase == string(corev1.PodFailed):
		return "has ended"
	case pod.Annotations[corev1.MirrorPodAnnotationKey] != "":
		return "is a static pod of its node"
	case pod.Spec.Priority != nil && *pod.Spec.Priority < v1alpha1.DefaultExpendablePodsPriorityCutoff:
		return fmt.Sprintf("has priority %d: by default, a NodeFleet buys no machine for a pod below %d", *pod.Spec.Priority, v1alpha1.DefaultExpendablePodsPriorityCutoff)
	}
	for _, owner := range pod.OwnerReferences {
		if owner.Controller != nil && *owner.Controller && owner.Kind == "DaemonSet" {
			return "belongs to DaemonSet " + owner.Name + ", which creates a pod for each node that it selects"
		}
	}
	return ""
}

// decode converts a YAML node to a pod and records unknown fields.
func (r *reader) decode(n *yaml.Node, path string) (*corev1.Pod, bool) {
	var loose any
	if err := n.Decode(&loose); err != nil {
		r.fault(n.Line, path, strings.TrimPrefix(err.Error(), "yaml: "))
		return nil, false
	}
	text, err := json.Marshal(loose)
	if err != nil {
		r.fault(n.Line, path, "has a key that is not a string: "+err.Error())
		return nil, false
	}
	var pod corev1.Pod
	kind := corev1.SchemeGroupVersion.WithKind("Pod") // items of a PodList have no kind
	_, _, err = decoder.Decode(text, &kind, &pod)
	strict, unknown := runtime.AsStrictDecodingError(err)
	if err != nil && !unknown {
		r.fault(n.Line, path, "is not a valid Pod: "+err.Error())
		return nil, false
	}
	if !unknown {
		return &pod, true
	}
	for _, fault := range strict.Errors() {
		if field := unknownField.FindStringSubmatch(fault.Error()); field != nil {
			r.fault(lineAt(n, field[1]), join(path, field[1]), "is not a field of a Pod")
		} else {
			r.fault(n.Line, path, fault.Error())
		}
	}
	return nil, false
}

var (
	decoder      = newDecoder()
	unknownField = regexp.MustCompile(`^unknown field "(.*)"$`)
)

// newDecoder returns a decoder of pods that reports unknown fields.
func newDecoder() runtime.Decoder {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		panic(err) // it is the first group in the scheme
	}
	return kjson.NewSerializerWithOptions(kjson.DefaultMetaFactory, scheme, scheme, kjson.SerializerOptions{Strict: true})
}

// The maximum requests of one pod, as in tables.
var (
	mostCPU    = resource.MustParse("1000000")
	mostMemory = resource.MustParse("1Pi")
)

// checkRequests records requests that are negative or too large for sums.
func (r *reader) checkRequests(n *yaml.Node, path string) bool {
	spec, ok := valueOf(n, "spec"), true
	check := func(at string, amounts *yaml.Node) {
		for i := 0; amounts != nil && amounts.Kind == yaml.MappingNode && i+1 < len(amounts.Content); i += 2 {
			key, value := amounts.Content[i].Value, amounts.Content[i+1]
			quantity, err := resource.ParseQuantity(value.Value)
			if err != nil || quantity.Sign() < 0 || quantity.Cmp(mostMemory) > 0 {
				r.fault(value.Line, join(path, at+"."+key), fmt.Sprintf("%q must be a quantity from 0 to 1Pi, such as 500m or 2Gi", clip.Cell(value.Value)))
				ok = false
			}
		}
	}
	if spec == nil {
		r.fault(n.Line, join(path, "spec"), "is required")
		return false
	}
	for _, list := range []string{"initContainers", "containers"} {
		containers := valueOf(spec, list)
		for i := 0; containers != nil && i < len(containers.Content); i++ {
			if resources := valueOf(containers.Content[i], "resources"); resources != nil {
				check(fmt.Sprintf("spec.%s[%d].resources.requests", list, i), valueOf(resources, "requests"))
				check(fmt.Sprintf("spec.%s[%d].resources.limits", list, i), valueOf(resources, "limits"))
			}
		}
	}
	if resources := valueOf(spec, "resources"); resources != nil {
		check("spec.resources.requests", valueOf(resources, "requests"))
		check("spec.resources.limits", valueOf(resources, "limits"))
	}
	check("spec.overhead", valueOf(spec, "overhead"))
	return ok
}

// valueOf returns the value of a key of a mapping, or nil. It resolves aliases of both.
func valueOf(n *yaml.Node, key string) *yaml.Node {
	n = resolved(n)
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return resolved(n.Content[i+1])
		}
	}
	return nil
}

func resolved(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// drop removes a key from a mapping.
func drop(n *yaml.Node, key string) {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			n.Content = slices.Delete(n.Content, i, i+2)
			return
		}
	}
}

var step = regexp.MustCompile(`[^.\[\]]+|\[[0-9]+\]`)

// lineAt returns the line of a path such as spec.containers[0].image, or of its longest existing
// prefix.
func lineAt(n *yaml.Node, path string) int {
	line := n.Line
	for _, name := range step.FindAllString(path, -1) {
		if index, found := strings.CutPrefix(name, "["); found {
			i, err := strconv.Atoi(strings.TrimSuffix(index, "]"))
			if err != nil || n.Kind != yaml.SequenceNode || i >= len(n.Content) {
				return line
			}
			n = n.Content[i]
			line = n.Line
			continue
		}
		at := -1
		for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == name {
				at = i
			}
		}
		if at < 0 {
			return line
		}
		line, n = n.Content[at].Line, n.Content[at+1]
	}
	return line
}

func join(path, field string) string {
	if path == "" || field == "" {
		return path + field
	}
	return path + "." + field
}
