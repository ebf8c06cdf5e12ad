package playground

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/lab/playground/process"
)

// KarpenterEnv is the environment variable with the path of Karpenter.
const KarpenterEnv = "SUPERCARGO_KARPENTER"

// karpenterProgram is Karpenter with its kwok provider.
var karpenterProgram = process.Program{Name: "karpenter", Env: KarpenterEnv, Does: "launches the machines of NodeClaims", Made: "make bin/karpenter"}

// FindKarpenter returns the path of Karpenter. It searches as [FindKwok] does.
func FindKarpenter(path string) (string, error) { return karpenterProgram.Find(path) }

// KarpenterOptions describe the cloud of a playground with Karpenter.
type KarpenterOptions struct {
	// Flavors are its instance types. Pods can use all of a machine.
	Flavors []catalogue.Flavor
	// Lag is how long a machine takes to become a node, in whole seconds.
	Lag time.Duration
	// Path is the path of Karpenter. Empty means the result of [FindKarpenter].
	Path string
}

// NodeClassName is the name of the KWOKNodeClass of a playground with Karpenter.
const NodeClassName = "default"

// KarpenterZone is the only zone of a playground with Karpenter.
const KarpenterZone = "playground-a"

// karpenterDefinitions are the CRDs of Karpenter and of its kwok provider, written by hack/generate-karpenter.sh.
//
//go:embed karpenter.yaml.gz
var karpenterDefinitions []byte

// startKarpenter installs the CRDs of Karpenter, creates the NodeClass and starts Karpenter as a child process.
func (p *Playground) startKarpenter(ctx context.Context) error {
	fail := func(err error) error {
		return &process.Error{Doing: "start", Name: karpenterProgram.Name, Log: process.KarpenterLog, Err: err}
	}
	path, err := FindKarpenter(p.opts.Karpenter.Path)
	if err != nil {
		return fail(err)
	}
	packed, err := gzip.NewReader(bytes.NewReader(karpenterDefinitions))
	if err != nil {
		return fail(fmt.Errorf("unpack the CRDs: %w", err))
	}
	definitions, err := ParseManifests("karpenter.yaml", packed)
	if err != nil {
		return fail(err)
	}
	for _, m := range definitions {
		dropDescriptions(m.Object.Object)
	}
	if err := p.InstallDefinitions(ctx, definitions); err != nil {
		return fail(err)
	}
	if err := p.Apply(ctx, []Manifest{{Object: nodeClass(p.opts.Karpenter.Lag)}}); err != nil {
		return fail(err)
	}
	types := filepath.Join(p.dir.Path(), "instance-types.json")
	text, err := json.Marshal(KarpenterTypes(p.opts.Karpenter.Flavors))
	if err == nil {
		err = os.WriteFile(types, text, 0o600)
	}
	if err != nil {
		return fail(err)
	}
	return p.group.StartChild(karpenterProgram.Name, process.KarpenterLog, func() *exec.Cmd {
		cmd := exec.Command(path)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+p.dir.KubeconfigPath(), "DISABLE_LEADER_ELECTION=true", "INSTANCE_TYPES_FILE_PATH="+types,
			"METRICS_PORT=0", "HEALTH_PROBE_PORT=0")
		return cmd
	}, nil)
}

// nodeClass returns the NodeClass of the playground.
func nodeClass(lag time.Duration) *unstructured.Unstructured {
	c := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"nodeRegistrationDelay": lag.Truncate(time.Second).String()}}}
	c.SetAPIVersion("karpenter.kwok.sh/v1alpha1")
	c.SetKind("KWOKNodeClass")
	c.SetName(NodeClassName)
	return c
}

// KarpenterType is an instance type as Karpenter's kwok provider reads it.
type KarpenterType struct {
	Name             string              `json:"name"`
	Offerings        []KarpenterOffering `json:"offerings"`
	Architecture     string              `json:"architecture"`
	OperatingSystems []string            `json:"operatingSystems"`
	Resources        corev1.ResourceList `json:"resources"`
}

// KarpenterOffering is how an instance type can be bought.
type KarpenterOffering struct {
	Price        float64
	Available    bool
	Requirements []corev1.NodeSelectorRequirement
}

// defaultMaxPods is the maximum number of pods on a machine of a flavor that states none.
const defaultMaxPods = 110

// What the kwok provider reserves on a machine for the kubelet.
const (
	reservedMilliCPU = 100
	reservedMemory   = 10 << 20
)

// KarpenterTypes converts flavors to instance types of which pods can use as much as of the flavors, at the same price, on
// demand in [KarpenterZone].
func KarpenterTypes(flavors []catalogue.Flavor) []KarpenterType {
	in := func(key, value string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}
	}
	var all []KarpenterType
	for _, f := range flavors {
		all = append(all, KarpenterType{
			Name: f.Name, Architecture: cmp.Or(f.Arch, "amd64"), OperatingSystems: []string{string(corev1.Linux)},
			Offerings: []KarpenterOffering{{
				Price: float64(f.MicroDollarsPerHour) / 1e6, Available: true,
				Requirements: []corev1.NodeSelectorRequirement{in("karpenter.sh/capacity-type", "on-demand"), in(corev1.LabelTopologyZone, KarpenterZone)},
			}},
			Resources: corev1.ResourceList{
				corev1.ResourceCPU:    *resource.NewMilliQuantity(f.Size.MilliCPU+reservedMilliCPU, resource.DecimalSI),
				corev1.ResourceMemory: *resource.NewQuantity(f.Size.MemoryBytes+reservedMemory, resource.BinarySI),
				corev1.ResourcePods:   *resource.NewQuantity(ptr.Deref(f.MaxPods, defaultMaxPods), resource.DecimalSI),
			},
		})
	}
	return all
}
