package families

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"supercargo.dev/supercargo/autoscaler/fleet/pricelist"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/internal/packing"
)

// Catalogue is a set of machines that can be bought.
type Catalogue struct {
	Name string
	// Flavors reads the flavors; data is the folder test/data.
	Flavors func(data string) ([]catalogue.Flavor, error)
}

// Catalogues contains all catalogues. Those of cloud providers exclude machines with accelerators, because
// plans buy these only for pods that request one.
var Catalogues = []Catalogue{
	{"AWS c/m/r", func(string) ([]catalogue.Flavor, error) {
		return listed("aws", "us-east-1", func(f catalogue.Flavor) bool { return f.Arch == "amd64" && general.MatchString(f.MachineType) })
	}},
	{"AWS", func(string) ([]catalogue.Flavor, error) { return listed("aws", "us-east-1", plain) }},
	{"Azure", func(string) ([]catalogue.Flavor, error) { return listed("azure", "eastus", plain) }},
	{"kwok", func(data string) ([]catalogue.Flavor, error) {
		file := filepath.Join(data, "kwok", "flavors.csv")
		text, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("open a catalogue: %w", err)
		}
		defer text.Close()
		offers, err := catalogue.ReadOffers(file, text)
		flavors := make([]catalogue.Flavor, len(offers))
		for i, o := range offers {
			flavors[i] = o.Flavor
		}
		return flavors, err
	}},
	{"linear prices", func(string) ([]catalogue.Flavor, error) { return linear(), nil }},
}

// FewPods is a pod limit per machine at which the number of pods, and not their size, determines how many
// machines are needed.
const FewPods = 16

// WithMaxPods returns a copy of flavors in which no machine holds more than most pods.
func WithMaxPods(flavors []catalogue.Flavor, most int64) []catalogue.Flavor {
	less := make([]catalogue.Flavor, len(flavors))
	for i, f := range flavors {
		if f.MaxPods == nil || *f.MaxPods > most {
			f.MaxPods = new(most)
		}
		less[i] = f
	}
	return less
}

// general matches the families c, m and r, which are the most common.
var general = regexp.MustCompile(`^[cmr][0-9]`)

func plain(f catalogue.Flavor) bool { return f.Kind != catalogue.KindAccelerated }

func listed(list, region string, chosen func(catalogue.Flavor) bool) ([]catalogue.Flavor, error) {
	all, err := pricelist.Read(list, region)
	if err != nil {
		return nil, err
	}
	var flavors []catalogue.Flavor
	for _, f := range all {
		if chosen(f) {
			flavors = append(flavors, f)
		}
	}
	return flavors, nil
}

// linear returns machines of 2 to 96 cores, with 2, 4 and 8 GiB per core, whose price is linear in cores and
// GiB.
func linear() []catalogue.Flavor {
	const perCore, perGiB = 30_000, 4_000
	var flavors []catalogue.Flavor
	for _, cores := range []int64{2, 4, 8, 16, 32, 48, 64, 96} {
		for _, ratio := range []int64{2, 4, 8} {
			flavors = append(flavors, catalogue.Flavor{Flavor: cluster.Flavor{Name: fmt.Sprintf("linear-%dx%d", cores, cores*ratio), Size: packing.Size{MilliCPU: cores * 1000, MemoryBytes: cores * ratio << 30}, MaxPods: new(int64(110)), Arch: "amd64", MicroDollarsPerHour: cores*perCore + cores*ratio*perGiB}})
		}
	}
	return flavors
}
