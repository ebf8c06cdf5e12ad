// Package programs runs Supercargo's own programs on a playground, each in a goroutine of this
// process: the autoscaler, the descheduler with its eviction webhook, the metrics adapter, and one
// node agent that simulates those of all nodes. The playground itself starts the scheduler and the
// programs of other projects.
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

// Program is one of Supercargo's programs that runs in this process on a playground. It logs to the
// same files as the playground's components.
type Program struct {
	cancel context.CancelFunc
	done   chan error
}

// start starts a program that outlives ctx.
func start(ctx context.Context, run func(context.Context) error) *Program {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	started := &Program{cancel: cancel, done: make(chan error, 1)}
	go func() { started.done <- run(own) }()
	return started
}

// Stop stops the program, waits until it has ended and returns its error.
func (p *Program) Stop() error {
	p.cancel()
	return <-p.done
}

// operatorOptions returns the options of a program without metrics and probe servers.
func operatorOptions(p *playground.Playground) operator.Options {
	return operator.Options{Config: operator.Throttle(p.Config()), MetricsAddress: "0", ProbeAddress: "0", Log: klog.Background()}
}

// Options selects the programs in addition to the descheduler and the agent.
type Options struct {
	// Autoscaler requires a playground with cluster-api or Karpenter.
	Autoscaler     bool
	MetricsAdapter bool
	// QueryAddress is the host:port where the metrics adapter serves PromQL; 0 disables it.
	QueryAddress string
}

// Start starts the programs of a playground except its scheduler. The CRDs must be installed. The
// returned programs have been started even if it returns an error: the caller must stop them.
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

// Autoscaler starts the autoscaler on a playground with installed CRDs.
func Autoscaler(ctx context.Context, p *playground.Playground) *Program {
	o := autoscaler.Options{Options: operatorOptions(p)}
	return start(ctx, func(ctx context.Context) error { return autoscaler.Run(ctx, o) })
}

// metricsAdapter starts the metrics adapter on a playground and returns when its APIs are
// available. Pods are simulated, so only targets that announce an address of this machine can be
// scraped. PromQL is served at the address, unless it is 0. If it returns an error, the program is
// not nil if it has been started.
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

// adapterPatience is the timeout for the aggregator, which takes a few seconds.
const adapterPatience = 2 * time.Minute

// Descheduler starts the descheduler on a playground with installed CRDs, with its defaults as
// modified by change.
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

// Agent starts an agent that simulates those of all nodes: pods without containers are migrated
// with a state of modelled size, at the speed of a disk and of a network of 1.2 Gbit/s.
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
