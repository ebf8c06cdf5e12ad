package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	adapter "supercargo.dev/supercargo/autoscaler/adapter/app"
	autoscaler "supercargo.dev/supercargo/autoscaler/app"
	"supercargo.dev/supercargo/descheduler/agent"
	descheduler "supercargo.dev/supercargo/descheduler/app"
	played "supercargo.dev/supercargo/descheduler/checkpoint/simulated"
	"supercargo.dev/supercargo/internal/platform/operator"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/manifests"
)

// program is one of Supercargo's programs in this process, at work on a playground. It
// logs where the playground's components do.
type program struct {
	cancel context.CancelFunc
	done   chan error
}

// startProgram starts a program, which does not end with ctx.
func startProgram(ctx context.Context, run func(context.Context) error) *program {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	started := &program{cancel: cancel, done: make(chan error, 1)}
	go func() { started.done <- run(own) }()
	return started
}

// stop ends the program and waits until it has ended.
func (p *program) stop() error {
	p.cancel()
	return <-p.done
}

// operatorOptions are those of a program that serves nothing.
func operatorOptions(p *playground.Playground) operator.Options {
	return operator.Options{Config: operator.Throttle(p.Config()), MetricsAddress: "0", ProbeAddress: "0", Log: klog.Background()}
}

// startPrograms starts all programs that a playground has beside its scheduler. Those
// that it returns have been started even if another could not be.
func startPrograms(ctx context.Context, p *playground.Playground, flags playgroundFlags) ([]*program, error) {
	d, err := startDescheduler(ctx, p)
	if err != nil {
		return nil, err
	}
	programs := []*program{d}
	if flags.clusterAPI {
		programs = append(programs, startAutoscaler(ctx, p))
	}
	if flags.metricsAdapter {
		m, err := startMetricsAdapter(ctx, p, flags.queryAddress)
		if m != nil {
			programs = append(programs, m)
		}
		if err != nil {
			return programs, err
		}
	}
	a, err := startAgent(ctx, p)
	if err != nil {
		return programs, err
	}
	return append(programs, a), nil
}

// startAutoscaler starts the autoscaler on a playground that knows the CRDs.
func startAutoscaler(ctx context.Context, p *playground.Playground) *program {
	o := autoscaler.Options{Options: operatorOptions(p)}
	return startProgram(ctx, func(ctx context.Context) error { return autoscaler.Run(ctx, o) })
}

// startMetricsAdapter starts the metrics adapter on a playground and returns when its APIs
// are there. Pods are played: only what announces itself by an address of this machine can
// be scraped. PromQL is answered at the address, or nowhere if that is 0. An error comes
// with the program if that has been started.
func startMetricsAdapter(ctx context.Context, p *playground.Playground, queries string) (*program, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start the metrics adapter: %w", err)
	}
	o := adapter.Defaults()
	o.Kubelets.Scrape = false // kwok plays them
	o.Config, o.Log = operator.Throttle(p.Config()), klog.Background()
	o.UseKubeconfig(p.KubeconfigPath())
	o.Store.Dir, o.QueryAddress = filepath.Join(p.Dir(), "metrics"), queries
	serving := o.Server.SecureServing
	serving.Listener, serving.BindPort = listener, listener.Addr().(*net.TCPAddr).Port
	if err := p.Aggregate(ctx, manifests.MetricsAPIServices, serving.BindPort); err != nil {
		return nil, errors.Join(fmt.Errorf("start the metrics adapter: %w", err), listener.Close())
	}
	m := startProgram(ctx, func(ctx context.Context) error { return adapter.Run(ctx, o) })
	waiting, cancel := context.WithTimeout(ctx, adapterPatience)
	defer cancel()
	return m, p.WaitAggregated(waiting)
}

// adapterPatience is for how long the aggregator is waited for. It takes a few seconds.
const adapterPatience = 2 * time.Minute

// startDescheduler starts the descheduler on a playground that knows the CRDs, with its
// defaults but for what is changed.
func startDescheduler(ctx context.Context, p *playground.Playground, change ...func(*descheduler.Options)) (*program, error) {
	o := descheduler.Defaults()
	o.Options = operatorOptions(p)
	for _, c := range change {
		c(&o)
	}
	if err := serveEvictions(ctx, p, &o.Evictions); err != nil {
		return nil, err
	}
	return startProgram(ctx, func(ctx context.Context) error { return descheduler.Run(ctx, o) }), nil
}

// startAgent starts an agent that plays those of all nodes: pods without containers move
// with a state of modelled size, as fast as a disk writes and a network of 1.2 Gbit/s
// carries it.
func startAgent(ctx context.Context, p *playground.Playground) (*program, error) {
	dir := filepath.Join(p.Dir(), "agent")
	a, err := agent.New(agent.Config{
		Client: operator.Throttle(p.Config()), StateDir: filepath.Join(dir, "state"), WorkDir: filepath.Join(dir, "work"), ListenAddress: "127.0.0.1:0",
		Simulation: &agent.Simulation{
			Selector: labels.Everything(),
			Model:    played.Model{MemoryFactor: 1, DumpRate: 1 << 30, ShipRate: 150_000_000, Freeze: 10 * time.Millisecond},
		},
		Log: klog.Background(),
	})
	if err != nil {
		return nil, err
	}
	return startProgram(ctx, a.Run), nil
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

// supercargoClient returns a client that knows the kinds of Kubernetes and of Supercargo.
func supercargoClient(config *rest.Config) (client.Client, error) {
	scheme, err := allKinds()
	if err != nil {
		return nil, err
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("reach the cluster: %w", err)
	}
	return c, nil
}

// allKinds returns a scheme with the kinds of Kubernetes and those of Supercargo.
func allKinds() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("register kinds: %w", err)
	}
	return scheme, nil
}
