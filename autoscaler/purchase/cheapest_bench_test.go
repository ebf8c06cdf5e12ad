package purchase

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/autoscaler/fleet/pricelist"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/test/families"
)

// ofCatalogue returns the selected flavors of the whole AWS catalogue.
func ofCatalogue(chosen func(catalogue.Flavor) bool) []Flavor {
	read, err := pricelist.Read("aws", "us-east-1")
	if err != nil {
		panic(err)
	}
	var flavors []Flavor
	for _, f := range read {
		if chosen(f) {
			flavors = append(flavors, Flavor{Name: f.Name, Size: size(f.Size.MilliCPU, f.Size.MemoryBytes), MaxPods: f.MaxPods, Arch: f.Arch,
				MicroDollarsPerHour: f.MicroDollarsPerHour})
		}
	}
	return flavors
}

// general are the amd64 flavors of the families c, m and r.
func general(f catalogue.Flavor) bool {
	return f.Arch == "amd64" && strings.ContainsRune("cmr", rune(f.MachineType[0])) && f.MachineType[1] >= '0' && f.MachineType[1] <= '9'
}

func every(catalogue.Flavor) bool { return true }

// smallAndMedium draws three small pods, up to 2 cores, for each medium one, up to 16, with 1 to 8 GiB for each core,
// in steps of 10 mCPU and 1 MiB.
func smallAndMedium(r *rand.Rand, name string) Pod {
	cpu := 10 * (5 + r.Int64N(196))
	if r.IntN(4) == 0 {
		cpu = 10 * (200 + r.Int64N(1401))
	}
	return pod(name, cpu, cpu*(1024+r.Int64N(7*1024+1))/1000<<20)
}

var supercargoScenes = []struct {
	name   string
	chosen func(catalogue.Flavor) bool
	load   load
	pods   []int
}{
	{"cmr/mixed", general, smallAndMedium, []int{500, 2_000, 10_000}},
	{"cmr/openb", general, realPods, []int{500, 2_000, 10_000}},
	{"all/mixed", every, smallAndMedium, []int{500, 2_000, 10_000, 50_000}},
	{"all/openb", every, realPods, []int{500, 2_000, 10_000}},
}

func drawLoad(l load, n int) []Pod {
	r := rand.New(rand.NewPCG(7, uint64(n)))
	var pods []Pod
	for i := range n {
		pods = append(pods, l(r, fmt.Sprint(i)))
	}
	return pods
}

// BenchmarkSupercargo reports the gap between plans and their lower bound, and the number of pods.
func BenchmarkSupercargo(b *testing.B) {
	for _, s := range supercargoScenes {
		flavors := ofCatalogue(s.chosen)
		for _, n := range s.pods {
			b.Run(fmt.Sprintf("%s/pods=%d", s.name, n), func(b *testing.B) {
				pods := drawLoad(s.load, n)
				var result Result
				for b.Loop() {
					result = Supercargo(Request{Pods: pods, Flavors: flavors})
				}
				b.ReportMetric(100*result.Gap, "gap-%")
				b.ReportMetric(float64(n), "pods")
				b.ReportMetric(float64(len(result.Machines)), "machines")
			})
		}
	}
}

// coupling is how the pods of a load constrain each other.
type coupling struct {
	name string
	// size is the number of pods in a group. Of each ten groups, apart have anti-affinity on hosts, and spread are
	// spread over zones.
	size, apart, spread int
}

var couplings = []coupling{
	{"a fifth each", 20, 2, 2},
	{"half apart", 20, 5, 0},
	{"half spread", 20, 0, 5},
	{"all", 20, 5, 5},
	{"large groups", 100, 2, 2},
	{"small groups", 3, 4, 4},
}

// couple divides pods into groups. Their constraints do not depend on their size.
func (s coupling) couple(pods []Pod) []Pod {
	c := newDemands()
	for i := range pods {
		group := i / s.size
		app := fmt.Sprint("app", group)
		spec := corev1.PodSpec{}
		switch at := group * 3 % 10; {
		case at < s.apart:
			spec = apartFrom(app, perHost)
		case at < s.apart+s.spread:
			spec = spreadOver(app, perZone)
		}
		pods[i].Demands = c.of(app, spec)
	}
	return pods
}

// inZones returns each flavor once for each of three zones, each more expensive by the given percentage of the price in
// the first.
func inZones(flavors []Flavor, costlier int64) []Flavor {
	var all []Flavor
	for i, zone := range []string{"a", "b", "c"} {
		for _, f := range flavors {
			f.Name += "-" + zone
			f.MicroDollarsPerHour += f.MicroDollarsPerHour * costlier * int64(i) / 100
			all = append(all, zoned(f, zone))
		}
	}
	return all
}

// fullNodes are nodes without room, one in each zone, so that a spread is over their zones.
func fullNodes() []ExistingNode {
	var nodes []ExistingNode
	for _, zone := range []string{"a", "b", "c"} {
		n := standing("node-"+zone, 0, 0, 0)
		n.Host.Labels[perZone] = zone
		nodes = append(nodes, n)
	}
	return nodes
}

// BenchmarkSupercargoWithCoupledPods also reports how much more first fit costs.
func BenchmarkSupercargoWithCoupledPods(b *testing.B) {
	for _, s := range couplings {
		for _, n := range []int{500, 2_000, 10_000} {
			b.Run(fmt.Sprintf("%s/pods=%d", s.name, n), func(b *testing.B) {
				reportCoupled(b, Request{Pods: s.couple(drawLoad(smallAndMedium, n)), Flavors: inZones(ofCatalogue(general), 0), Nodes: fullNodes()})
			})
		}
	}
}

// BenchmarkSupercargoWithCoupledPodsInMoreExpensiveZones has a second zone that is a twentieth more expensive, and a third
// that is a tenth more expensive.
func BenchmarkSupercargoWithCoupledPodsInMoreExpensiveZones(b *testing.B) {
	for _, s := range couplings {
		for _, n := range []int{500, 2_000} {
			b.Run(fmt.Sprintf("%s/pods=%d", s.name, n), func(b *testing.B) {
				reportCoupled(b, Request{Pods: s.couple(drawLoad(smallAndMedium, n)), Flavors: inZones(ofCatalogue(general), 5), Nodes: fullNodes()})
			})
		}
	}
}

// BenchmarkSupercargoWithCoupledPodsByFamily has pods and catalogues that were not used in developing the planner.
func BenchmarkSupercargoWithCoupledPodsByFamily(b *testing.B) {
	for _, c := range families.Catalogues {
		for _, f := range families.All {
			for _, s := range couplings[:1] {
				for _, n := range []int{500, 2_000} {
					b.Run(fmt.Sprintf("%s/%s/%s/pods=%d", f.Name, c.Name, s.name, n), func(b *testing.B) {
						reportCoupled(b, Request{Pods: s.couple(familyPods(f, n, 11)), Flavors: inZones(familyFlavors(b, c, 0), 0), Nodes: fullNodes()})
					})
				}
			}
		}
	}
}

func reportCoupled(b *testing.B, r Request) {
	b.Helper()
	var result Result
	for b.Loop() {
		result = Supercargo(r)
	}
	b.ReportMetric(100*result.Gap, "gap-%")
	b.ReportMetric(float64(len(result.Unplaceable)), "left-out")
	b.ReportMetric(float64(len(result.Machines)), "machines")
	if d, ok := r.firstFit(math.MaxInt64); ok {
		b.ReportMetric(100*Gap(d.result().MicroDollarsPerHour, result.LowerBoundMicroDollarsPerHour), "first-fit-gap-%")
	}
}
