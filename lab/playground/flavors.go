package playground

import (
	"context"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
	"k8s.io/utils/ptr"

	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/internal/text/dollars"
)

// maxMachines is the maximum number of machines of one flavor that autoscalers may buy in a
// playground.
const maxMachines = 1000

// FlavorDeployment returns a MachineDeployment without replicas for machines of a flavor, which
// start and stop without delay. Autoscalers may buy up to 1000 of them.
func FlavorDeployment(f catalogue.Flavor) MachineDeploymentSpec {
	return MachineDeploymentSpec{
		Name:         DeploymentName(f.Name),
		Flavor:       f.Name,
		MachineType:  f.MachineType,
		CPU:          strconv.FormatInt(f.Size.MilliCPU, 10) + "m",
		Memory:       strconv.FormatInt(f.Size.MemoryBytes, 10),
		MaxPods:      int(ptr.Deref(f.MaxPods, 0)),
		Arch:         f.Arch,
		PricePerHour: dollars.Format(f.MicroDollarsPerHour),
		Max:          maxMachines,
	}
}

// DeploymentName converts a flavor name to the name of a MachineDeployment: in lower case, with
// dashes for invalid characters. It is empty for a flavor without letters and digits, and two
// flavors may have the same result.
func DeploymentName(flavor string) string {
	name := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '.' {
			return r
		}
		return '-'
	}, strings.ToLower(flavor))
	// A dot must be between letters or digits.
	parts := strings.Split(name, ".")
	for i := range parts {
		parts[i] = strings.Trim(parts[i], "-")
	}
	return strings.Trim(strings.Join(parts, "."), ".")
}

// AddMachineDeployments creates MachineDeployments concurrently, each as
// [Playground.AddMachineDeployment] does.
func (p *Playground) AddMachineDeployments(ctx context.Context, specs []MachineDeploymentSpec) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for _, spec := range specs {
		group.Go(func() error { return p.AddMachineDeployment(ctx, spec) })
	}
	return group.Wait()
}
