package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/lab/compressed"
	"supercargo.dev/supercargo/lab/playground"
)

// fleetOfSupercargo is a NodeFleet of MachineDeployments, with the shipped scheduler
// configuration.
type fleetOfSupercargo struct{ program string }

// fleetName is the name of the NodeFleet.
const fleetName = "all"

func (fleetOfSupercargo) options() playground.Options {
	return playground.Options{ClusterAPI: true, NoScheduler: true}
}

func (fleetOfSupercargo) scheduler(w *world) ([]byte, error) {
	return compressed.SchedulerConfig(w.load.scale.Lifetimes)
}

func (fleetOfSupercargo) machines() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "machines"}
}

func (fleetOfSupercargo) flavor(f trace.Flavor) (label, value string) {
	return "cluster.x-k8s.io/deployment-name", playground.DeploymentName(f.Name)
}

func (s fleetOfSupercargo) start(ctx context.Context, p *playground.Playground, w *world, log *os.File) (stop func() error, err error) {
	var specs []playground.MachineDeploymentSpec
	for _, f := range w.flavors {
		spec := playground.FlavorDeployment(f)
		spec.AcquisitionLag = w.lag
		specs = append(specs, spec)
	}
	if err := p.AddMachineDeployments(ctx, specs); err != nil {
		return nil, err
	}
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
	fleet := compressed.Fleet(fleetName, w.stretch)
	if err := c.Create(ctx, fleet); err != nil {
		return nil, fmt.Errorf("make the NodeFleet: %w", err)
	}
	cmd := exec.Command(s.program, "--kubeconfig", p.KubeconfigPath(), "--leader-elect=false", "--metrics-bind-address=0", "--health-probe-bind-address=0")
	stop, err = startChild(cmd, log)
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

// poll calls check until it returns nil, or ctx ends, and then returns what check said.
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
