// Package programs has Supercargo's own programs at work on a playground, each in a goroutine
// of this process: the autoscaler, the descheduler with its webhook for evictions, the metrics
// adapter, and one node agent that plays those of all nodes. The scheduler is not among them:
// a playground starts that itself, and so it does with the programs that are not ours.
package programs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"

	adapter "supercargo.dev/supercargo/autoscaler/adapter/app"
	autoscaler "supercargo.dev/supercargo/autoscaler/app"
	"supercargo.dev/supercargo/descheduler/agent"
	descheduler "supercargo.dev/supercargo/descheduler/app"
	played "supercargo.dev/supercargo/descheduler/checkpoint/simulated"
	"supercargo.dev/supercargo/internal/platform/operator"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/manifests"
)

// Program is one of Supercargo's programs in this process, at work on a playground. It
// logs where the playground's components do.
type Program struct {
	cancel context.CancelFunc
	done   chan error
}

// start starts a program, which does not end with ctx.
func start(ctx context.Context, run func(context.Context) error) *Program {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	started := &Program{cancel: cancel, done: make(chan error, 1)}
	go func() { started.done <- run(own) }()
	return started
}

// Stop ends the program, waits until it has ended and returns what it ended with.
func (p *Program) Stop() error {
	p.cancel()
	return <-p.done
}

// operatorOptions are those of a program that serves nothing.
func operatorOptions(p *playground.Playground) operator.Options {
	return operator.Options{Config: operator.Throttle(p.Config()), MetricsAddress: "0", ProbeAddress: "0", Log: klog.Background()}
}

// Options say which programs there are beside the descheduler and the agent.
type Options struct {
	// Autoscaler needs a playground with cluster-api.
	Autoscaler     bool
	MetricsAdapter bool
	// QueryAddress is the host:port where the metrics adapter answers PromQL; 0 is nowhere.
	QueryAddress string
}

// Start starts all programs that a playground has beside its scheduler. The playground must
// know the CRDs. Those that are returned have been started even if another could not be: the
// caller stops them.
func Start(ctx context.Context, p *playground.Playground, o Options) ([]*Program, error) {
	d, err := Descheduler(ctx, p)
	if err != nil {
		return nil, err
	}
	programs := []*Program{d}
	if o.Autoscaler {
		programs = append(programs, Autoscaler(ctx, p))
	}
	if o.MetricsAdapter {
		m, err := metricsAdapter(ctx, p, o.QueryAddress)
		if m != nil {
			programs = append(programs, m)
		}
		if err != nil {
			return programs, err
		}
	}
	a, err := Agent(ctx, p)
	if err != nil {
		return programs, err
	}
	return append(programs, a), nil
}

// Autoscaler starts the autoscaler on a playground that knows the CRDs.
func Autoscaler(ctx context.Context, p *playground.Playground) *Program {
	o := autoscaler.Options{Options: operatorOptions(p)}
	return start(ctx, func(ctx context.Context) error { return autoscaler.Run(ctx, o) })
}

// metricsAdapter starts the metrics adapter on a playground and returns when its APIs
// are there. Pods are played: only what announces itself by an address of this machine can
// be scraped. PromQL is answered at the address, or nowhere if that is 0. An error comes
// with the program if that has been started.
func metricsAdapter(ctx context.Context, p *playground.Playground, queries string) (*Program, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start the metrics adapter: %w", err)
	}
	o := adapter.Defaults()
	o.Kubelets.Scrape = false // kwok simulates them
	o.Config, o.Log = operator.Throttle(p.Config()), klog.Background()
	o.UseKubeconfig(p.KubeconfigPath())
	o.Store.Dir, o.QueryAddress = filepath.Join(p.Dir(), "metrics"), queries
	serving := o.Server.SecureServing
	serving.Listener, serving.BindPort = listener, listener.Addr().(*net.TCPAddr).Port
	if err := p.Aggregate(ctx, manifests.MetricsAPIServices, serving.BindPort); err != nil {
		return nil, errors.Join(fmt.Errorf("start the metrics adapter: %w", err), listener.Close())
	}
	m := start(ctx, func(ctx context.Context) error { return adapter.Run(ctx, o) })
	waiting, cancel := context.WithTimeout(ctx, adapterPatience)
	defer cancel()
	return m, p.WaitAggregated(waiting)
}

// adapterPatience is for how long the aggregator is waited for. It takes a few seconds.
const adapterPatience = 2 * time.Minute

// Descheduler starts the descheduler on a playground that knows the CRDs, with its
// defaults but for what is changed.
func Descheduler(ctx context.Context, p *playground.Playground, change ...func(*descheduler.Options)) (*Program, error) {
	o := descheduler.Defaults()
	o.Options = operatorOptions(p)
	for _, c := range change {
		c(&o)
	}
	if err := serveEvictions(ctx, p, &o.Evictions); err != nil {
		return nil, err
	}
	return start(ctx, func(ctx context.Context) error { return descheduler.Run(ctx, o) }), nil
}

// Agent starts an agent that plays those of all nodes: pods without containers move
// with a state of modelled size, as fast as a disk writes and a network of 1.2 Gbit/s
// carries it.
func Agent(ctx context.Context, p *playground.Playground) (*Program, error) {
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
	return start(ctx, a.Run), nil
}
