package autoscalers

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"supercargo.dev/supercargo/autoscaler/fleet/pricelist"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/lab/replay"
	"supercargo.dev/supercargo/lab/scenario"
	"supercargo.dev/supercargo/test/data"
)

// load contains the pods of a comparison, their window and their time scale.
type load struct {
	name   string
	pods   []trace.Pod
	scale  replay.Scale
	window time.Duration
}

const openb = "openb"

// simulated lists the loads of the simulator, by file name.
var simulated = []string{"htas-stable", "htas-growing", "htas-on-off", "days"}

func loadNames() []string { return append([]string{openb}, simulated...) }

// The openb extract is replayed as in `supercargo demo`.
const (
	openbWindow    = 40 * time.Second
	openbLifetimes = 600
)

// A simulator's load is replayed in one minute. Its pods request at most 300m. Here they request ten times as
// much, so that machines of 2 to 192 CPUs are real alternatives.
const (
	simulatedWindow = time.Minute
	simulatedSize   = 10
	simulatedSeed   = 1
)

// readLoad reads a load with the pace of the demo.
func readLoad(name, scenarios string) (*load, error) {
	if name == openb {
		rows, err := trace.Read("openb/pods.csv", strings.NewReader(data.OpenbPods))
		if err != nil {
			return nil, err
		}
		scale := replay.Scale{Arrivals: replay.FitArrivals(rows.Pods, openbWindow*9/10), Lifetimes: openbLifetimes}
		return &load{name: name, pods: rows.Pods, scale: scale, window: openbWindow}, nil
	}
	file := filepath.Join(scenarios, name+".yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the load: %w", err)
	}
	s, err := scenario.Read(file, text, nil)
	if err != nil {
		return nil, err
	}
	drawn, err := s.Arrivals(simulatedSeed)
	if err != nil {
		return nil, err
	}
	faster := s.Horizon.Seconds() / simulatedWindow.Seconds()
	l := &load{name: name, scale: replay.Scale{Arrivals: faster, Lifetimes: faster}, window: simulatedWindow}
	for _, p := range drawn {
		l.pods = append(l.pods, rowOf(p, s.Horizon))
	}
	return l, nil
}

// rowOf converts a pod of a scenario to a row of a trace. A service without a lifetime runs to the end.
func rowOf(p scenario.Pod, horizon time.Duration) trace.Pod {
	row := trace.Pod{
		Item:  packing.Item{Name: p.Name, Arrival: p.Arrival, Runtime: p.Runtime, Size: packing.Size{MilliCPU: simulatedSize * p.Size.MilliCPU, MemoryBytes: simulatedSize * p.Size.MemoryBytes}},
		Class: class.Batch, Category: p.Category, Arch: p.Arch,
	}
	if p.Class == class.Service {
		row.Class = class.Service
		if row.Runtime = p.Lifetime; row.Runtime == 0 {
			row.Runtime = horizon
		}
	}
	return row
}

// slower returns the load slowed down by the factor stretch.
func (l load) slower(stretch float64) load {
	l.scale.Arrivals /= stretch
	l.scale.Lifetimes /= stretch
	l.window = time.Duration(float64(l.window) * stretch)
	return l
}

// catalogues contains the sets of available machines: the eight flavors of the demo; sixty flavors, which are
// the seventh generation of the families c, m and r with processors of two vendors; and the amd64 flavors of
// a region without GPUs and CPU credits, which is a fleet's default. The latter two exclude bare metal.
var catalogues = map[string]func() ([]catalogue.Flavor, error){
	"8": func() ([]catalogue.Flavor, error) {
		return catalogue.ReadFlavors("aws/flavors.csv", strings.NewReader(data.AWSFlavors))
	},
	"60": func() ([]catalogue.Flavor, error) {
		all, err := pricelist.Read("aws", "us-east-1")
		return slices.DeleteFunc(slices.Clone(all), func(f catalogue.Flavor) bool {
			return !seventhGeneration.MatchString(f.Name) || strings.Contains(f.Name, "metal")
		}), err
	},
	wholeCatalogue: func() ([]catalogue.Flavor, error) {
		all, err := pricelist.Read("aws", "us-east-1")
		return slices.DeleteFunc(slices.Clone(all), func(f catalogue.Flavor) bool {
			return f.Arch != "amd64" || f.Kind != "" || strings.Contains(f.Name, "metal")
		}), err
	},
}

// wholeCatalogue is the name of the catalogue of a whole region.
const wholeCatalogue = "all"

// manyFlavors is the number of flavors up to which a NodeFleet gets a MachineDeployment for each. Above it,
// the fleet makes a MachineDeployment for each flavor that it buys.
const manyFlavors = 100

var seventhGeneration = regexp.MustCompile(`^[cmr]7[ai]\.`)

func catalogueNames() []string { return []string{"8", "60", wholeCatalogue} }

func readCatalogue(name string) ([]catalogue.Flavor, error) {
	flavors, err := catalogues[name]()
	if err != nil {
		return nil, err
	}
	return flavors, nil
}
