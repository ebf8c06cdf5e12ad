package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/validation"

	"supercargo.dev/supercargo/internal/playground"
	"supercargo.dev/supercargo/internal/trace"
)

// maxMachines bounds what autoscalers buy of one flavor in a playground.
const maxMachines = 1000

// maxDeploymentName is the longest name of a MachineDeployment of which Machines
// get names that Nodes can have as a label.
const maxDeploymentName = 50

// readMachineFlavors describes one MachineDeployment without replicas for each
// flavor of a catalogue. It returns every fault.
func readMachineFlavors(flags playgroundFlags) ([]playground.MachineDeploymentSpec, error) {
	var errs []error
	if flags.machineLag < 0 {
		errs = append(errs, fmt.Errorf("--machine-lag %s: want 0 or more", flags.machineLag))
	}
	if flags.machineReleaseLag < 0 {
		errs = append(errs, fmt.Errorf("--machine-release-lag %s: want 0 or more", flags.machineReleaseLag))
	}
	if flags.machineFlavors == "" {
		return nil, errors.Join(errs...)
	}
	if !flags.clusterAPI {
		errs = append(errs, errors.New("--machine-flavors: needs cluster-api, want no --cluster-api=false beside it"))
	}
	var flavors []trace.Flavor
	err := readNamed("--machine-flavors", flags.machineFlavors, func(r io.Reader) (err error) {
		flavors, err = trace.ReadFlavors(flags.machineFlavors, r)
		return err
	})
	errs = append(errs, err)
	var specs []playground.MachineDeploymentSpec
	flavorOf := map[string]string{}
	for _, f := range flavors {
		spec := machineDeployment(f, flags)
		if err := checkDeploymentName(spec.Name, f.Name, flavorOf[spec.Name]); err != nil {
			errs = append(errs, fmt.Errorf("%s: name: %w", flags.machineFlavors, err))
			continue
		}
		flavorOf[spec.Name] = f.Name
		specs = append(specs, spec)
	}
	return specs, errors.Join(errs...)
}

// checkDeploymentName says what is wrong with a name that a flavor has given a
// MachineDeployment. taken is the flavor that has given another the same name.
func checkDeploymentName(name, flavor, taken string) error {
	problems := validation.IsValidLabelValue(flavor)
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		problems = append(problems, "it has no letter or digit")
	}
	if len(name) > maxDeploymentName {
		problems = append(problems, fmt.Sprintf("it is longer than %d bytes", maxDeploymentName))
	}
	if taken != "" {
		problems = append(problems, fmt.Sprintf("%q gives the same name, %s", taken, name))
	}
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("%q cannot name a MachineDeployment: %s", flavor, strings.Join(problems, "; "))
}

func machineDeployment(f trace.Flavor, flags playgroundFlags) playground.MachineDeploymentSpec {
	return playground.MachineDeploymentSpec{
		Name:           deploymentName(f.Name),
		Flavor:         f.Name,
		MachineType:    f.MachineType,
		CPU:            strconv.FormatInt(f.MilliCPU, 10) + "m",
		Memory:         strconv.FormatInt(f.MemoryBytes, 10),
		MaxPods:        int(f.MaxPods),
		Arch:           f.Arch,
		PricePerHour:   dollarsText(f.MicroDollarsPerHour),
		Max:            maxMachines,
		AcquisitionLag: flags.machineLag,
		ReleaseLag:     flags.machineReleaseLag,
	}
}

// deploymentName makes the name of an object from a flavor's: in small letters,
// with dashes for what cannot be in one.
func deploymentName(flavor string) string {
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

// addMachineDeployments makes the MachineDeployments, several at a time.
func addMachineDeployments(ctx context.Context, p *playground.Playground, specs []playground.MachineDeploymentSpec) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for _, spec := range specs {
		group.Go(func() error { return p.AddMachineDeployment(ctx, spec) })
	}
	return group.Wait()
}
