package plan

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"

	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/test/families"
)

// familySeeds differ from the seeds with which the planner was developed.
var familySeeds = []uint64{11, 12}

// familySpecs returns all families on all catalogues, with the pod limits in the catalogue, and with low
// ones.
func familySpecs() []spec {
	var all []spec
	for _, c := range families.Catalogues {
		for _, f := range families.All {
			for _, maxPods := range []int64{0, families.FewPods} {
				name := fmt.Sprintf("family: %s, %s", f.Name, c.Name)
				if maxPods > 0 {
					name += fmt.Sprintf(", %d pods for each machine", maxPods)
				}
				all = append(all, spec{
					name: name, pods: 2_000, seeds: familySeeds, draw: drawFamily(f), family: true,
					flavors: func(data string) ([]byte, error) {
						flavors, err := c.Flavors(data)
						if err != nil {
							return nil, err
						}
						if maxPods > 0 {
							flavors = families.WithMaxPods(flavors, maxPods)
						}
						return written(flavors), nil
					},
				})
			}
		}
	}
	return all
}

func drawFamily(f families.Family) func(*rand.Rand, int) ([]byte, string) {
	return func(r *rand.Rand, n int) ([]byte, string) {
		var b bytes.Buffer
		b.WriteString("name,cpu_milli,memory_mib\n")
		for i := range n {
			cpu, memory := f.Draw(r)
			fmt.Fprintf(&b, "pod-%d,%d,%d\n", i, cpu, memory>>20)
		}
		return b.Bytes(), "csv"
	}
}

// written returns flavors as a file.
func written(flavors []catalogue.Flavor) []byte {
	exact := func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
	var b bytes.Buffer
	b.WriteString("name,cpu,memory_gib,price_per_hour,arch,max_pods\n")
	for _, f := range flavors {
		fmt.Fprintf(&b, "%s,%s,%s,%s,%s,%d\n", f.Name, exact(float64(f.Size.MilliCPU)/1000), exact(float64(f.Size.MemoryBytes)/(1<<30)),
			exact(float64(f.MicroDollarsPerHour)/1e6), f.Arch, *f.MaxPods)
	}
	return b.Bytes()
}
