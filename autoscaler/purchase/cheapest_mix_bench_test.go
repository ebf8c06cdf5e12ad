package purchase

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"supercargo.dev/supercargo/autoscaler/purchase/mix"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/lab/bound"
	"supercargo.dev/supercargo/test/data"
)

// load is a way to draw pods, and market one to draw flavors.
type (
	load   func(r *rand.Rand, name string) Pod
	market func(r *rand.Rand) []Flavor
)

// randomShapes has as many shapes as pods: up to 2 cores and 4 GiB.
func randomShapes(r *rand.Rand, name string) Pod {
	return pod(name, 50+r.Int64N(2000), 1<<26+r.Int64N(4<<30))
}

// htasTasks are the four tasks of the HTAS paper's table 4.
func htasTasks(r *rand.Rand, name string) Pod {
	n := []int64{1, 1, 1, 1, 1, 2, 2, 2, 3, 0}[r.IntN(10)]
	if n == 0 {
		return pod(name, 100, 429_496_730)
	}
	return pod(name, 100*n, 322_122_548*n)
}

// realPods has the about 25 shapes of a real cluster.
func realPods(r *rand.Rand, name string) Pod {
	rows := strings.Split(strings.TrimSpace(data.OpenbPods), "\n")[1:]
	var id string
	var cpu, memory int64
	if _, err := fmt.Sscanf(strings.ReplaceAll(rows[r.IntN(len(rows))], ",", " "), "%s %d %d", &id, &cpu, &memory); err != nil {
		panic(err)
	}
	return pod(name, cpu, memory<<20)
}

// batch gives pods runtimes from 1 min to 61 min.
func batch(of load) load {
	return func(r *rand.Rand, name string) Pod {
		p := of(r, name)
		p.Runtime = time.Minute + time.Duration(r.Int64N(int64(time.Hour)))
		return p
	}
}

// htasFlavors are those of the HTAS paper's table 7.
func htasFlavors(*rand.Rand) []Flavor {
	return []Flavor{
		flavor("t3.xsmall", 1000, 1<<30, 19_800), flavor("m3.xsmall", 1000, 2<<30, 34_400),
		flavor("m3.small", 2000, 4<<30, 68_600), flavor("m1.medium", 2000, 8<<30, 137_100),
		flavor("m1.large", 4000, 16<<30, 274_600), flavor("m1.xlarge", 8000, 32<<30, 547_900),
	}
}

func awsFlavors(*rand.Rand) []Flavor {
	read, err := catalogue.ReadFlavors("flavors.csv", strings.NewReader(data.AWSFlavors))
	if err != nil {
		panic(err)
	}
	var flavors []Flavor
	for _, f := range read {
		flavors = append(flavors, Flavor{Name: f.Name, Size: size(f.Size.MilliCPU, f.Size.MemoryBytes), MaxPods: f.MaxPods, Arch: f.Arch,
			MicroDollarsPerHour: f.MicroDollarsPerHour})
	}
	return flavors
}

// randomFlavors have up to 32 cores and 62 GiB, and prices within a fifth of proportional to their size. All hold the
// pods of the loads above except the largest.
func randomFlavors(r *rand.Rand) []Flavor {
	var flavors []Flavor
	for i := range 8 {
		cpu, memory := 2100+r.Int64N(30_000), 5<<30+r.Int64N(57<<30)
		price := (cpu*25 + memory>>30*3500) * (80 + r.Int64N(40)) / 100
		flavors = append(flavors, flavor(fmt.Sprint("f", i), cpu, memory, price))
	}
	return flavors
}

// scenes are the benchmarks of Mix.
var scenes = []struct {
	name   string
	load   load
	market market
	opts   MixOptions
}{
	{"htas/tasks/services", htasTasks, htasFlavors, MixOptions{}},
	{"htas/random/services", randomShapes, htasFlavors, MixOptions{}},
	{"aws/real/services", realPods, awsFlavors, MixOptions{}},
	{"aws/random/services", randomShapes, awsFlavors, MixOptions{}},
	{"random/real/services", realPods, randomFlavors, MixOptions{}},
	{"random/random/services", randomShapes, randomFlavors, MixOptions{}},
	{"htas/tasks/batch", batch(htasTasks), htasFlavors, MixOptions{Setup: 150 * time.Second, Period: time.Minute}},
	{"aws/real/batch", batch(realPods), awsFlavors, MixOptions{}},
	{"aws/random/batch", batch(randomShapes), awsFlavors, MixOptions{Setup: 150 * time.Second, Period: time.Minute}},
	{"random/random/batch", batch(randomShapes), randomFlavors, MixOptions{Setup: 150 * time.Second, Period: 10 * time.Minute}},
}

// lowerBound is the lower bound for pods that fit some flavor, in micro-dollars, by the package of bounds, which allows
// fractions of pods.
func lowerBound(pods []Pod, flavors []Flavor, opts MixOptions) float64 {
	run := bound.Run{BillingPeriod: opts.Period}
	for _, f := range flavors {
		run.Flavors = append(run.Flavors, bound.Flavor{Flavor: f})
	}
	for _, p := range pods {
		run.Pods = append(run.Pods, cluster.Pod{Item: packing.Item{Size: p.Size, Runtime: opts.Paid(p.Runtime)}, Arch: p.Arch})
	}
	return float64(bound.Cost(run).MicroDollars)
}

// microDollars is the bill of a plan, with floating-point rounding.
func microDollars(plan Plan, pods []Pod, opts MixOptions) float64 {
	runtimes := map[string]time.Duration{}
	for _, p := range pods {
		runtimes[p.Name] = opts.Paid(p.Runtime)
	}
	sum := 0.0
	for _, m := range plan.Machines {
		var longest time.Duration
		for _, name := range m.Pods {
			longest = max(longest, runtimes[name])
		}
		sum += float64(m.MicroDollarsPerHour) * longest.Hours()
	}
	return sum
}

// BenchmarkMix reports the gap between the bound and the plans of Mix, and those of Greedy in the order that suits the
// pods. No plan can have a gap of 0 if pods leave fragments.
func BenchmarkMix(b *testing.B) {
	for _, n := range []int{mix.ExactItems, 100, 1_000, 10_000} {
		for _, s := range scenes {
			b.Run(fmt.Sprintf("%s/pods=%d", s.name, n), func(b *testing.B) {
				r := rand.New(rand.NewPCG(7, uint64(n)))
				flavors := s.market(r)
				var pods []Pod
				for len(pods) < n {
					if p := s.load(r, fmt.Sprint(len(pods))); unplaceable(p, flavors) == "" {
						pods = append(pods, p)
					}
				}
				var plan Plan
				for b.Loop() {
					plan = mixed(pods, flavors, s.opts)
				}
				least := lowerBound(pods, flavors, s.opts)
				gap := func(p Plan) float64 { return 100 * (microDollars(p, pods, s.opts)/least - 1) }
				b.ReportMetric(gap(plan), "gap-%")
				b.ReportMetric(min(gap(Greedy(pods, flavors, GreedyOptions{})), gap(Greedy(pods, flavors, GreedyOptions{Order: Batch}))), "greedy-gap-%")
			})
		}
	}
}
