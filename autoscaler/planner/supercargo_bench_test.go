package planner

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/autoscaler/fleet/pricelist"
	"supercargo.dev/supercargo/internal/input/catalogue"
)

// ofCatalogue returns the flavors of the whole AWS catalogue that are chosen.
func ofCatalogue(chosen func(catalogue.Flavor) bool) []Flavor {
	read, err := pricelist.Read("aws", "us-east-1")
	if err != nil {
		panic(err)
	}
	var flavors []Flavor
	for _, f := range read {
		if chosen(f) {
			flavors = append(flavors, Flavor{Name: f.Name, Size: size(f.MilliCPU, f.MemoryBytes), MaxPods: f.MaxPods, Arch: f.Arch,
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

// smallAndMedium draws three small pods, up to 2 cores, for each medium one, up to 16,
// with 1 to 8 GiB for each core, in whole steps of 10 mCPU and 1 MiB.
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

// BenchmarkSupercargo reports by how much plans are dearer than their lower bound, and
// how many pods they are for.
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

// coupledPods are the mixed pods in groups of 20: of each five groups one keeps its
// pods on different machines, and one spreads them over zones.
func coupledPods(n int) []Pod {
	pods, c := drawLoad(smallAndMedium, n), newDemands()
	for i := range pods {
		app := fmt.Sprint("app", i/20)
		switch i / 20 % 5 {
		case 0:
			pods[i].Constraints = c.of(app, apartFrom(app, perHost))
		case 1:
			pods[i].Constraints = c.of(app, spreadOver(app, perZone))
		default:
			pods[i].Constraints = c.of(app, corev1.PodSpec{})
		}
	}
	return pods
}

// BenchmarkSupercargoWithCoupledPods also reports by how much dearer first fit is.
func BenchmarkSupercargoWithCoupledPods(b *testing.B) {
	var flavors []Flavor
	for _, zone := range []string{"a", "b", "c"} {
		for _, f := range ofCatalogue(general) {
			f.Name += "-" + zone
			flavors = append(flavors, zoned(f, zone))
		}
	}
	for _, n := range []int{500, 2_000} {
		b.Run(fmt.Sprintf("pods=%d", n), func(b *testing.B) {
			r := Request{Pods: coupledPods(n), Flavors: flavors}
			var result Result
			for b.Loop() {
				result = Supercargo(r)
			}
			b.ReportMetric(100*result.Gap, "gap-%")
			b.ReportMetric(float64(len(result.Unplaceable)), "left-out")
			if d, ok := r.firstFit(); ok {
				b.ReportMetric(100*d.result().Gap, "first-fit-gap-%")
			}
		})
	}
}
