package controlplane

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"supercargo.dev/supercargo/lab/playground/process"

	"k8s.io/component-base/configz"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	schedulerconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"
	"sigs.k8s.io/yaml"

	"supercargo.dev/supercargo/manifests"
	"supercargo.dev/supercargo/plugins"
)

// ClientQPS is the rate limit of a component's requests per second. The default limits protect API
// servers with more load.
const ClientQPS = 1000

// StockSchedulerConfig is the default profile of kube-scheduler, without plugins of Supercargo.
var StockSchedulerConfig = []byte(`
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
`)

// Scheduler is a running kube-scheduler.
type Scheduler struct {
	group     *process.Group
	component *process.Component
}

// StartScheduler starts a kube-scheduler with a KubeSchedulerConfiguration in YAML or JSON, and
// returns when its caches are filled. All plugins of Supercargo and of scheduler-plugins are
// available, and those in extra. Nil means [manifests.SchedulerConfig].
//
// It changes three things in the configuration: clientConnection.kubeconfig becomes the
// playground's, the request limits are raised unless they are set, and leader election is disabled,
// since a scheduler that loses it exits the process. Several schedulers may run at once if their
// profiles have different names.
func (p *ControlPlane) StartScheduler(ctx context.Context, config []byte, extra ...app.Option) (*Scheduler, error) {
	fail := func(err error) error {
		return &process.Error{Doing: "start", Name: "kube-scheduler", Err: err}
	}
	bad := func(err error) error { return fail(&InputError{Option: "SchedulerConfig", Err: err}) }
	file, err := p.writeSchedulerConfig(config)
	if err != nil {
		return nil, bad(err)
	}
	if p.opts.kubernetesDir() != "" {
		return p.startOtherScheduler(ctx, file, extra)
	}
	schedulerStarts.Lock()
	defer schedulerStarts.Unlock()
	configz.Delete(schedulerConfigz)
	defer configz.Delete(schedulerConfigz)

	// The informers and plugins of Setup use its context, so it must live as long as the scheduler
	// does.
	runCtx, cancel := context.WithCancel(context.Background())
	cc, sched, err := setupScheduler(runCtx, file, append(plugins.Options(), extra...))
	if err != nil {
		cancel()
		return nil, bad(err)
	}
	c := process.Start("kube-scheduler", process.KubernetesLog, func(ctx context.Context) error {
		defer context.AfterFunc(ctx, cancel)()
		defer cancel()
		return runScheduler(runCtx, cc, sched)
	})
	if err := p.group.Add(c); err != nil {
		return nil, err
	}
	s := &Scheduler{group: p.group, component: c}
	if err := s.waitSynced(ctx, sched); err != nil {
		return nil, errors.Join(fail(err), s.Stop())
	}
	return s, nil
}

// schedulerConfigz is the name under which app.Run publishes the configuration in this process,
// which fails if the name is taken. schedulerStarts serializes starts for that reason.
const schedulerConfigz = "componentconfig"

var schedulerStarts sync.Mutex

// writeSchedulerConfig writes the configuration, changed as described at StartScheduler, to a new
// file and returns its path.
func (p *ControlPlane) writeSchedulerConfig(config []byte) (string, error) {
	if config == nil {
		config = manifests.SchedulerConfig
	}
	var fields map[string]any
	if err := yaml.UnmarshalStrict(config, &fields); err != nil {
		return "", fmt.Errorf("read KubeSchedulerConfiguration: %w", err)
	}
	if fields == nil {
		return "", errors.New("read KubeSchedulerConfiguration: it is empty: apiVersion and kind are required")
	}
	for _, set := range []struct {
		section, field string
		value          any
		keep           bool // keep an existing value
	}{
		{"clientConnection", "kubeconfig", p.dir.kubeconfig, false},
		{"clientConnection", "qps", ClientQPS, true},
		{"clientConnection", "burst", ClientQPS, true},
		{"leaderElection", "leaderElect", false, false},
	} {
		section, ok := fields[set.section].(map[string]any)
		if !ok {
			if fields[set.section] != nil {
				return "", fmt.Errorf("read KubeSchedulerConfiguration: %s is %T: must be a mapping", set.section, fields[set.section])
			}
			section = map[string]any{}
			fields[set.section] = section
		}
		if _, present := section[set.field]; !present || !set.keep {
			section[set.field] = set.value
		}
	}
	data, err := yaml.Marshal(fields)
	if err != nil {
		return "", fmt.Errorf("write KubeSchedulerConfiguration: %w", err)
	}
	n := p.schedulers.Add(1)
	path := filepath.Join(p.dir.dir, fmt.Sprintf("scheduler-%d.yaml", n))
	return path, WriteFile(path, data)
}

func setupScheduler(ctx context.Context, configFile string, plugins []app.Option) (*schedulerconfig.CompletedConfig, *scheduler.Scheduler, error) {
	o := options.NewOptions()
	o.ConfigFile = configFile
	o.SecureServing.BindPort = 0
	return app.Setup(ctx, o, plugins...)
}

// runScheduler returns nil if the scheduler ended because ctx ended. None of its informers runs
// after it returns.
func runScheduler(ctx context.Context, cc *schedulerconfig.CompletedConfig, sched *scheduler.Scheduler) error {
	err := app.Run(ctx, cc, sched)
	if ctx.Err() == nil {
		return err
	}
	cc.InformerFactory.Shutdown()
	cc.DynInformerFactory.Shutdown()
	return nil // app.Run always returns an error
}

// waitSynced waits until the scheduler's caches have synced.
func (s *Scheduler) waitSynced(ctx context.Context, sched *scheduler.Scheduler) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-s.component.Done():
			cancel(s.component.Died())
		case <-ctx.Done():
		}
	}()
	if err := sched.WaitForHandlersSync(ctx); err != nil {
		return fmt.Errorf("wait until its caches are filled: %w", errors.Join(err, context.Cause(ctx)))
	}
	return nil
}

// Stop stops the scheduler at once and returns when it has ended. Pods with a chosen node that are
// not bound yet stay unbound. It may be called again.
func (s *Scheduler) Stop() error {
	err := s.component.Stop()
	s.group.Remove(s.component)
	return err
}
