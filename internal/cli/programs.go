package cli

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/app"
	"supercargo.dev/supercargo/internal/playground"
	"supercargo.dev/supercargo/manifests"
)

// runningAutoscaler is Supercargo's autoscaler in this process, at work on a
// playground.
type runningAutoscaler struct {
	cancel context.CancelFunc
	done   chan error
}

// startAutoscaler installs the CRDs of Supercargo in a playground and starts its
// autoscaler, which logs where the playground's components do.
func startAutoscaler(ctx context.Context, p *playground.Playground) (*runningAutoscaler, error) {
	if err := installCRDs(ctx, p); err != nil {
		return nil, err
	}
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	a := &runningAutoscaler{cancel: cancel, done: make(chan error, 1)}
	o := app.Options{Config: app.Throttle(p.Config()), MetricsAddress: "0", ProbeAddress: "0", Log: klog.Background()}
	go func() { a.done <- app.Run(own, o) }()
	return a, nil
}

// stop ends the autoscaler and waits until it has ended.
func (a *runningAutoscaler) stop() error {
	a.cancel()
	return <-a.done
}

// installCRDs applies the CRDs and waits until their kinds are served.
func installCRDs(ctx context.Context, p *playground.Playground) error {
	var all []playground.Manifest
	err := fs.WalkDir(manifests.CRDs, "crd", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := manifests.CRDs.ReadFile(path)
		if err != nil {
			return err
		}
		found, err := playground.ParseManifests(path, bytes.NewReader(text))
		all = append(all, found...)
		return err
	})
	if err != nil {
		return fmt.Errorf("read the CRDs: %w", err)
	}
	if err := p.Apply(ctx, all); err != nil {
		return err
	}
	c, err := supercargoClient(p.Config())
	if err != nil {
		return err
	}
	var last error
	for ; ctx.Err() == nil; wait(ctx, 50*time.Millisecond) {
		if last = c.List(ctx, &v1alpha1.NodeFleetList{}); last == nil {
			return nil
		}
	}
	return fmt.Errorf("wait until NodeFleets are served: %w", last)
}

// wait waits for a time, or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// supercargoClient returns a client that knows the kinds of Supercargo.
func supercargoClient(config *rest.Config) (client.Client, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("register kinds: %w", err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("reach the cluster: %w", err)
	}
	return c, nil
}
