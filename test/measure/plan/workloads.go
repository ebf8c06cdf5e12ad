package plan

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/cli/planfile"
	"supercargo.dev/supercargo/internal/input/catalogue"
)

// spec is a workload without its seed.
type spec struct {
	name string
	pods int
	// catalogue is the file of flavors, relative to the folder of catalogues, and chosen selects those that
	// are used.
	catalogue string
	chosen    func(catalogue.Offer) bool
	draw      func(r *rand.Rand, n int) ([]byte, string) // pods and their file's extension
	seeds     []uint64
	// withoutGreedy is the reason why greedy does not run; Karpenter always does.
	withoutGreedy string
	// flavors returns the file of flavors instead of a catalogue.
	flavors func(data string) ([]byte, error)
	// family means that it is one of the families.
	family bool
}

const (
	generalFamilies = "c, m and r families"
	wholeCatalogue  = "whole catalogue"
	kwokTypes       = "kwok types"
	diverseDemands  = "diverse demands"

	aws     = "../../autoscaler/fleet/pricelist/aws/us-east-1.csv"
	kwok    = "kwok/flavors.csv"
	demands = "supports only pods without constraints"
)

var specs = []spec{
	{name: generalFamilies, pods: 500, catalogue: aws, chosen: general, draw: shapes, seeds: []uint64{1, 2, 3}},
	{name: generalFamilies, pods: 2_000, catalogue: aws, chosen: general, draw: shapes, seeds: []uint64{1, 2, 3}},
	{name: generalFamilies, pods: 10_000, catalogue: aws, chosen: general, draw: shapes, seeds: []uint64{1, 2}},
	{name: wholeCatalogue, pods: 500, catalogue: aws, chosen: every[catalogue.Offer], draw: shapes, seeds: []uint64{1, 2, 3}},
	{name: wholeCatalogue, pods: 2_000, catalogue: aws, chosen: every[catalogue.Offer], draw: shapes, seeds: []uint64{1, 2, 3}},
	{name: wholeCatalogue, pods: 10_000, catalogue: aws, chosen: every[catalogue.Offer], draw: shapes, seeds: []uint64{1, 2}},
	{name: wholeCatalogue, pods: 50_000, catalogue: aws, chosen: every[catalogue.Offer], draw: shapes, seeds: []uint64{1}},
	{name: kwokTypes, pods: 500, catalogue: kwok, chosen: every[catalogue.Offer], draw: kinds, seeds: []uint64{1, 2, 3}},
	{name: kwokTypes, pods: 2_000, catalogue: kwok, chosen: every[catalogue.Offer], draw: kinds, seeds: []uint64{1, 2, 3}},
	{name: kwokTypes, pods: 10_000, catalogue: kwok, chosen: every[catalogue.Offer], draw: kinds, seeds: []uint64{1, 2}},
	{name: diverseDemands, pods: 500, catalogue: kwok, chosen: every[catalogue.Offer], draw: diverse, seeds: []uint64{1, 2, 3}, withoutGreedy: demands},
	{name: diverseDemands, pods: 1_000, catalogue: kwok, chosen: every[catalogue.Offer], draw: diverse, seeds: []uint64{1, 2, 3}, withoutGreedy: demands},
}

var generalFamily = regexp.MustCompile(`^[cmr][0-9]`)

// general reports whether an offer is an x86-64 machine of the families c, m and r, which are the most
// common.
func general(o catalogue.Offer) bool {
	return o.Arch == "amd64" && generalFamily.MatchString(o.MachineType)
}

func every[T any](T) bool { return true }

// shapes draws pods of different sizes: 100m to 8 CPUs and 1 to 12 GiB per CPU, both log-uniform, so that
// most pods are small. Almost no two are equal, and the largest is less than a quarter of the largest
// machine.
func shapes(r *rand.Rand, n int) ([]byte, string) {
	var b bytes.Buffer
	b.WriteString("name,cpu_milli,memory_mib\n")
	for i := range n {
		cpu := math.Round(100*math.Pow(80, r.Float64())/10) * 10
		memory := math.Ceil(cpu/1000*1024*math.Pow(12, r.Float64())/16) * 16
		fmt.Fprintf(&b, "pod-%d,%.0f,%.0f\n", i, cpu, memory)
	}
	return b.Bytes(), "csv"
}

// The requests in Karpenter's own benchmark.
var (
	kindsOfCPU    = []int64{100, 250, 500, 1000, 1500}
	kindsOfMemory = []int64{100, 256, 512, 1024, 2048, 4096}
)

// kinds draws pods of 30 sizes.
func kinds(r *rand.Rand, n int) ([]byte, string) {
	var b bytes.Buffer
	b.WriteString("name,cpu_milli,memory_mib\n")
	for i := range n {
		fmt.Fprintf(&b, "pod-%d,%d,%d\n", i, kindsOfCPU[r.IntN(len(kindsOfCPU))], kindsOfMemory[r.IntN(len(kindsOfMemory))])
	}
	return b.Bytes(), "csv"
}

// diverse draws pods with the mix of Karpenter's own benchmark, a fifth each: without constraints, spread
// over zones, spread over nodes, with affinity to equal pods in a zone, and with anti-affinity by node.
// Unlike there, pods are spread among pods of their own kind, like those of a Deployment, and not among
// random others.
func diverse(r *rand.Rand, n int) ([]byte, string) {
	list := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
	for i := range n {
		pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%d", i), Namespace: "default"}}
		pod.Spec.Containers = []corev1.Container{{Name: "pod", Image: "pod", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(kindsOfCPU[r.IntN(len(kindsOfCPU))], resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(kindsOfMemory[r.IntN(len(kindsOfMemory))]<<20, resource.BinarySI),
		}}}}
		fifth := i * 5 / n
		app := fmt.Sprintf("app-%d-%d", fifth, r.IntN(7))
		if fifth == 4 {
			app = "nginx"
		}
		pod.Labels = map[string]string{"app": app}
		demand(&pod, fifth)
		list.Items = append(list.Items, pod)
	}
	text, err := json.Marshal(list)
	if err != nil {
		panic(err) // cannot fail for generated pods
	}
	return text, "json"
}

// demand adds the constraints of its fifth to a pod.
func demand(pod *corev1.Pod, fifth int) {
	like := &metav1.LabelSelector{MatchLabels: pod.Labels}
	spread := func(key string) []corev1.TopologySpreadConstraint {
		return []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: like}}
	}
	near := func(key string) []corev1.PodAffinityTerm {
		return []corev1.PodAffinityTerm{{TopologyKey: key, LabelSelector: like}}
	}
	switch fifth {
	case 1:
		pod.Spec.TopologySpreadConstraints = spread(corev1.LabelTopologyZone)
	case 2:
		pod.Spec.TopologySpreadConstraints = spread(corev1.LabelHostname)
	case 3:
		pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: near(corev1.LabelTopologyZone)}}
	case 4:
		pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: near(corev1.LabelHostname)}}
	}
}

// write writes the files of a workload into a folder and reads them again, as the checker sees them.
func (s *spec) write(dir, data string, seed uint64) (*Workload, error) {
	text, extension := s.draw(rand.New(rand.NewPCG(seed, uint64(s.pods))), s.pods)
	w := &Workload{Name: s.name, Seed: seed, Family: s.family, podsFile: filepath.Join(dir, "pods."+extension), flavorsFile: filepath.Join(dir, "flavors.csv")}
	w.planners = []*Figures{
		{Planner: "supercargo"},
		{Planner: "greedy", LeftOut: s.withoutGreedy},
		{Planner: "karpenter"},
	}
	if err := os.WriteFile(w.podsFile, text, 0o600); err != nil {
		return nil, err
	}
	pods, err := planfile.ReadPods(w.podsFile, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	w.pods = pods.Pods
	if err := s.writeFlavors(w, data); err != nil {
		return nil, err
	}
	w.Pods, w.Flavors = len(w.pods), len(w.flavors)
	return w, w.checkSizes()
}

// writeFlavors writes the flavors and reads them again.
func (s *spec) writeFlavors(w *Workload, data string) error {
	if s.flavors == nil {
		return w.choose(filepath.Join(data, s.catalogue), s.chosen)
	}
	text, err := s.flavors(data)
	if err != nil {
		return err
	}
	if err := os.WriteFile(w.flavorsFile, text, 0o600); err != nil {
		return err
	}
	w.flavors, err = planfile.ReadFlavors(w.flavorsFile, bytes.NewReader(text))
	return err
}

// choose copies the chosen rows of a catalogue.
func (w *Workload) choose(file string, chosen func(catalogue.Offer) bool) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	offers, err := catalogue.ReadOffers(file, bytes.NewReader(text))
	if err != nil {
		return err
	}
	keep := map[string]bool{}
	for _, o := range offers {
		keep[o.Name] = chosen(o)
	}
	var copied bytes.Buffer
	lines := bufio.NewScanner(bytes.NewReader(text))
	for header := true; lines.Scan(); header = false {
		name, _, _ := bytes.Cut(lines.Bytes(), []byte(",")) // the first column in both catalogues
		if header || keep[string(name)] {
			copied.Write(lines.Bytes())
			copied.WriteByte('\n')
		}
	}
	if err := os.WriteFile(w.flavorsFile, copied.Bytes(), 0o600); err != nil {
		return err
	}
	w.flavors, err = planfile.ReadFlavors(w.flavorsFile, &copied)
	return err
}

// checkSizes checks that no pod is larger than a quarter of the largest flavor.
func (w *Workload) checkSizes() error {
	var cpu, memory int64
	for _, f := range w.flavors {
		cpu, memory = max(cpu, f.Size.MilliCPU), max(memory, f.Size.MemoryBytes)
	}
	for _, p := range w.pods {
		if 4*p.Size.MilliCPU > cpu || 4*p.Size.MemoryBytes > memory {
			return fmt.Errorf("pod %s asks for %dm and %d bytes, more than a quarter of what machines have", p.Name, p.Size.MilliCPU, p.Size.MemoryBytes)
		}
	}
	return nil
}
