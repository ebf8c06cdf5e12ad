package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/internal/input"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/lab/playground"
)

// maxDeploymentName is the longest name of a MachineDeployment whose Machines have names that are valid
// label values of Nodes.
const maxDeploymentName = 50

// readMachineFlavors returns a MachineDeployment without replicas for each flavor of a catalogue, or
// all errors.
func readMachineFlavors(flags playgroundFlags) ([]playground.MachineDeploymentSpec, error) {
	var errs input.Faults
	errs.If(flags.machineLag < 0, "--machine-lag %s: must be 0 or more", flags.machineLag)
	errs.If(flags.machineReleaseLag < 0, "--machine-release-lag %s: must be 0 or more", flags.machineReleaseLag)
	if flags.machineFlavors == "" {
		return nil, errors.Join(errs...)
	}
	errs.If(!flags.clusterAPI, "--flavors requires cluster-api: omit --cluster-api=false")
	var flavors []catalogue.Flavor
	err := command.ReadNamed("--flavors", flags.machineFlavors, func(r io.Reader) (err error) {
		flavors, err = catalogue.ReadFlavors(flags.machineFlavors, r)
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

// readKarpenter returns the options of Karpenter, and a catalogue of its instance types, or all errors.
func readKarpenter(flags playgroundFlags) (*playground.KarpenterOptions, []playground.Manifest, error) {
	var errs input.Faults
	errs.If(flags.machineLag < 0 || flags.machineLag%time.Second != 0, "--machine-lag %s: must be 0 or more whole seconds with --machines karpenter", flags.machineLag)
	errs.If(flags.machineReleaseLag != 0, "--machine-release-lag requires cluster-api: omit it, or --machines karpenter")
	o := &playground.KarpenterOptions{Lag: flags.machineLag}
	if flags.machineFlavors == "" {
		errs = append(errs, errors.New("--machines karpenter requires --flavors: the instance types"))
		return o, nil, errors.Join(errs...)
	}
	var rows bytes.Buffer
	err := command.ReadNamed("--flavors", flags.machineFlavors, func(r io.Reader) (err error) {
		o.Flavors, err = catalogue.ReadFlavors(flags.machineFlavors, io.TeeReader(r, &rows))
		return err
	})
	prices := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"flavors.csv": rows.String()}}}
	prices.SetAPIVersion("v1")
	prices.SetKind("ConfigMap")
	prices.SetNamespace(metav1.NamespaceDefault)
	prices.SetName("flavors")
	return o, []playground.Manifest{{Object: prices}}, errors.Join(append(errs, err)...)
}

// checkDeploymentName returns an error if a flavor cannot name a MachineDeployment. taken is the flavor
// of another MachineDeployment with the same name, if any.
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

// machineDeployment returns the MachineDeployment of a flavor, with the lags of the flags.
func machineDeployment(f catalogue.Flavor, flags playgroundFlags) playground.MachineDeploymentSpec {
	spec := playground.FlavorDeployment(f)
	spec.AcquisitionLag, spec.ReleaseLag = flags.machineLag, flags.machineReleaseLag
	return spec
}
