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

// maxMachines bounds what autoscalers buy of one flavor in a playground.
const maxMachines = 1000

// FlavorDeployment describes a MachineDeployment without replicas for machines of a
// flavor, which come and go without delay. Autoscalers may buy up to 1000 of them.
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

// DeploymentName makes the name of a MachineDeployment from a flavor's: in small
// letters, with dashes for what cannot be in one. It is empty for a flavor whose name has
// no letter and no digit, and two flavors may give the same name.
func DeploymentName(flavor string) string {
	name := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '.' {
			return r
		}
		return '-'
	}, strings.ToLower(flavor))
	// A dot may only stand between letters or digits.
	parts := strings.Split(name, ".")
	for i := range parts {
		parts[i] = strings.Trim(parts[i], "-")
	}
	return strings.Trim(strings.Join(parts, "."), ".")
}

// AddMachineDeployments makes MachineDeployments, several at a time, as
// [Playground.AddMachineDeployment] makes one.
func (p *Playground) AddMachineDeployments(ctx context.Context, specs []MachineDeploymentSpec) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for _, spec := range specs {
		group.Go(func() error { return p.AddMachineDeployment(ctx, spec) })
	}
	return group.Wait()
}
