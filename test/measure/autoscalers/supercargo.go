package autoscalers

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/lab/compressed"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/measure/process"
)

// fleetOfSupercargo is a NodeFleet with the shipped scheduler configuration. Its flavors are
// MachineDeployments, or copies of one MachineDeployment, one for each flavor that it buys.
type fleetOfSupercargo struct{ program string }

// fleetName is the name of the NodeFleet, modelName the name of the MachineDeployment that it copies.
const fleetName, modelName = "all", "m"

func (fleetOfSupercargo) options() playground.Options {
	return playground.Options{ClusterAPI: true, NoScheduler: true}
}

func (fleetOfSupercargo) scheduler(w *world) ([]byte, error) {
	return compressed.SchedulerConfig(w.load.scale.Lifetimes)
}

func (fleetOfSupercargo) machines() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "machines"}
}

func (fleetOfSupercargo) flavor(f catalogue.Flavor) string {
	return strings.ReplaceAll(f.Name, ".", "-")
}

// flavorOf uses the names of MachineDeployments. The name of a copy consists of the model, the flavor and a
// digest.
func (fleetOfSupercargo) flavorOf(labels map[string]string) string {
	name := strings.ReplaceAll(labels["cluster.x-k8s.io/deployment-name"], ".", "-")
	if copied, is := strings.CutPrefix(name, modelName+"-"); is {
		return copied[:max(0, strings.LastIndexByte(copied, '-'))]
	}
	return name
}

// offer creates the MachineDeployments that the fleet can buy.
func (fleetOfSupercargo) offer(ctx context.Context, p *playground.Playground, w *world, fleet *v1alpha1.NodeFleet) error {
	if len(w.flavors) > manyFlavors {
		fleet.Spec.ClusterAPI.Selector, fleet.Spec.Pricing.List, fleet.Spec.Pricing.Region = nil, "aws", "us-east-1"
		fleet.Spec.ClusterAPI.Templates = []v1alpha1.MachineTemplate{{
			MachineDeployment: modelName, InstanceTypeField: "spec.template.spec.instanceType", InstanceTypes: []string{"!*metal*"},
		}}
		return p.AddMarket(ctx, playground.MarketSpec{Name: modelName, Types: typesOf(w.flavors), AcquisitionLag: w.lag})
	}
	var specs []playground.MachineDeploymentSpec
	for _, f := range w.flavors {
		spec := playground.FlavorDeployment(f)
		spec.AcquisitionLag = w.lag
		specs = append(specs, spec)
	}
	return p.AddMachineDeployments(ctx, specs)
}

// typesOf returns a catalogue of machine types in the format that a market reads.
func typesOf(flavors []catalogue.Flavor) string {
	var types strings.Builder
	types.WriteString("cpu,memory_gib,price_per_hour,name,arch,machine_type,max_pods\n")
	for _, f := range flavors {
		const decimals = 30 // of a byte in GiB
		fmt.Fprintf(&types, "%dm,%s,%s,%s,%s,%s,", f.Size.MilliCPU, big.NewRat(f.Size.MemoryBytes, 1<<30).FloatString(decimals),
			big.NewRat(f.MicroDollarsPerHour, 1e6).FloatString(6), f.Name, f.Arch, f.MachineType)
		if f.MaxPods != nil {
			fmt.Fprint(&types, *f.MaxPods)
		}
		types.WriteByte('\n')
	}
	return types.String()
}

func (s fleetOfSupercargo) start(ctx context.Context, p *playground.Playground, w *world, log *os.File) (stop func() error, err error) {
	fleet := compressed.Fleet(fleetName, w.stretch)
	if err := s.offer(ctx, p, w, fleet); err != nil {
		return nil, err
	}
	return s.buy(ctx, p, w, fleet, log)
}

// buy creates the NodeFleet and starts the autoscaler, and returns when it knows all flavors.
func (s fleetOfSupercargo) buy(ctx context.Context, p *playground.Playground, w *world, fleet *v1alpha1.NodeFleet, log *os.File) (stop func() error, err error) {
	if err := p.InstallCRDs(ctx); err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	c, err := client.New(p.Config(), client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	if err := c.Create(ctx, fleet); err != nil {
		return nil, fmt.Errorf("make the NodeFleet: %w", err)
	}
	cmd := exec.Command(s.program, "--kubeconfig", p.KubeconfigPath(), "--leader-elect=false", "--metrics-bind-address=0", "--health-probe-bind-address=0")
	stop, err = process.Start(cmd, log)
	if err != nil {
		return nil, err
	}
	err = poll(ctx, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(fleet), fleet); err != nil {
			return err
		}
		if known := len(fleet.Status.Flavors) + int(fleet.Status.UnlistedFlavors); known != len(w.flavors) {
			return fmt.Errorf("the NodeFleet knows %d of %d flavors", known, len(w.flavors))
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	return stop, nil
}

// poll calls check until it returns nil or ctx ends, and then returns the last error of check.
func poll(ctx context.Context, check func(context.Context) error) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-ticker.C:
		}
	}
}
