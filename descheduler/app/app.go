// Package app builds the descheduler.
package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/consolidation"
	answer "supercargo.dev/supercargo/descheduler/eviction/evictiondecide"
	"supercargo.dev/supercargo/descheduler/migration"
	"supercargo.dev/supercargo/descheduler/migration/migrationdecide"
	"supercargo.dev/supercargo/energy/profiler"
	"supercargo.dev/supercargo/internal/platform/operator"
	"supercargo.dev/supercargo/internal/platform/podcache"
)

// name is the program's name.
const name = "descheduler"

// The actions of the descheduler.
const (
	// ActMigrations carries out Migrations.
	ActMigrations = "migrations"
	// ActConsolidation drains nodes and moves single pods, with --consolidation=Act and --energy-moves=Act.
	ActConsolidation = "consolidation"
	// ActProbing probes machine types, with --probing=Act, and learns from probes and finished pods.
	ActProbing = "probing"
)

// Actions returns the actions of the descheduler.
func Actions() []string { return []string{ActMigrations, ActConsolidation, ActProbing} }

// Options configure the descheduler.
type Options struct {
	operator.Options
	// Migrations limits Migrations.
	Migrations migrationdecide.Config
	// Consolidation selects the nodes to empty.
	Consolidation consolidation.Config
	// Probing selects the machine types to probe, and controls learning.
	Probing profiler.Config
	// Evictions configures the webhook that turns evictions into Migrations. It is served if it
	// has a Listener or an Address; in a cluster a program with fewer permissions serves it:
	// [NewEvictionsCommand].
	Evictions Evictions
}

// Defaults returns the defaults of the flags.
func Defaults() Options {
	return Options{
		Migrations: migrationdecide.Config{
			MaxMigrations: 10, MaxPerNode: 2, CleanPatience: 2 * time.Minute, KeepFinished: 24 * time.Hour, MaxFinished: 100,
		},
		Consolidation: consolidation.Defaults(), Probing: profiler.Defaults(),
		Evictions: Evictions{
			Config: answer.Config{Deadline: v1alpha1.DefaultMigrationDeadline, Attempts: 3, AfterFailure: answer.Evict},
			Secret: "supercargo-system/supercargo-evictions", Configuration: "supercargo-evictions",
			Hosts: []string{"supercargo-evictions.supercargo-system.svc"},
		},
	}
}

// AddFlags adds the flags. The current values are their defaults.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	o.Options.AddFlags(flags)
	o.AddActions(flags, Actions())
	o.Consolidation.AddFlags(flags)
	o.Probing.AddFlags(flags)
	m := &o.Migrations
	flags.IntVar(&m.MaxMigrations, "max-migrations", m.MaxMigrations, "maximum pods that move at the same time")
	flags.IntVar(&m.MaxPerNode, "max-migrations-per-node", m.MaxPerNode, "maximum pods that leave a node at the same time, and that move to it")
	flags.IntVar(&m.MaxPerNamespace, "max-migrations-per-namespace", m.MaxPerNamespace, "maximum pods of a namespace that move at the same time; 0 for half of --max-migrations, rounded up")
	flags.DurationVar(&m.CleanPatience, "clean-up-patience", m.CleanPatience, "how long the end of a Migration waits for agents to clean up; also, after how long to report an agent as silent")
	flags.DurationVar(&m.KeepFinished, "keep-finished", m.KeepFinished, "how long to keep finished Migrations")
	flags.IntVar(&m.MaxFinished, "keep-finished-per-namespace", m.MaxFinished, "maximum finished Migrations to keep in a namespace; the oldest are deleted first")
}

// Validate returns the first error in the options, with the name of its flag.
func (o *Options) Validate() error {
	m := &o.Migrations
	for _, f := range []struct {
		flag       string
		got, least int64
	}{
		{"max-migrations", int64(m.MaxMigrations), 1}, {"max-migrations-per-node", int64(m.MaxPerNode), 1},
		{"max-migrations-per-namespace", int64(m.MaxPerNamespace), 0}, {"clean-up-patience", int64(m.CleanPatience), 0}, {"keep-finished", int64(m.KeepFinished), 0},
		{"keep-finished-per-namespace", int64(m.MaxFinished), 0},
	} {
		if f.got < f.least {
			return fmt.Errorf("--%s: %d: must be at least %d", f.flag, f.got, f.least)
		}
	}
	if err := errors.Join(o.Consolidation.Validate(), o.Probing.Validate(), o.CheckActions(Actions()), o.withheld()); err != nil {
		return err
	}
	return o.Evictions.validate()
}

// withheld returns an error if an option asks for an action that is not among Actions.
func (o *Options) withheld() error {
	for _, f := range []struct {
		flag   string
		acts   bool
		action string
	}{
		{"consolidation", o.Consolidation.Mode == consolidation.Act, ActConsolidation},
		{"energy-moves", o.Consolidation.Energy.Mode == consolidation.Act, ActConsolidation},
		{"probing", o.Probing.Mode == profiler.Act, ActProbing},
	} {
		if f.acts && !o.May(f.action) {
			return fmt.Errorf("--%s=Act: --actions must list %s too", f.flag, f.action)
		}
	}
	return nil
}

// Run runs the descheduler until ctx ends, or until an error that a restart may fix.
func Run(ctx context.Context, o Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	o.Config = o.Fence(name)(o.Config)
	m, err := operator.NewManager(name, o.Options, clientgoscheme.AddToScheme, v1alpha1.AddToScheme)
	if err != nil {
		return err
	}
	r := &migration.Reconciler{
		Client: m.GetClient(), Live: m.GetAPIReader(), Events: m.GetEventRecorder("supercargo-descheduler"),
		Clock: clock.RealClock{}, Config: o.Migrations, DryRun: o.DryRun, Pause: o.PauseOf(m, name, ActMigrations),
	}
	if err := r.SetupWithManager(ctx, m); err != nil {
		return err
	}
	if err := addMover(ctx, m, o); err != nil {
		return err
	}
	if err := addProfiler(ctx, m, o); err != nil {
		return err
	}
	if !o.DryRun {
		if err := o.Evictions.addOrWatch(m); err != nil {
			return err
		}
	}
	return operator.Run(ctx, name, m)
}

// addProfiler adds the profiler of machine types, unless it is off or the cluster has no
// MachineProfiles.
func addProfiler(ctx context.Context, m ctrl.Manager, o Options) error {
	if o.Probing.Mode == profiler.Off {
		return nil
	}
	profiles, err := operator.Served(m, &v1alpha1.MachineProfile{})
	if err != nil {
		return err
	}
	if len(profiles) == 0 {
		m.GetLogger().Info("The CustomResourceDefinition of MachineProfiles is not installed: no machines are probed, and no profiles learned")
		return nil
	}
	p, err := profiler.New(&profiler.Profiler{
		Client: podcache.NewClient(m), Live: m.GetAPIReader(), Events: m.GetEventRecorder("supercargo-descheduler"), Clock: clock.RealClock{},
		Config: o.Probing, DryRun: o.DryRun, ReadOnly: !o.May(ActProbing), Pause: o.Pause(m),
	})
	if err != nil {
		return err
	}
	return p.SetupWithManager(ctx, m)
}

// addMover adds the mover, which empties nodes, unless it is off.
func addMover(ctx context.Context, m ctrl.Manager, o Options) error {
	if o.Consolidation.Off() {
		return nil
	}
	fleets, err := operator.Served(m, &v1alpha1.NodeFleet{})
	if err != nil {
		return err
	}
	profiles, err := operator.Served(m, &v1alpha1.MachineProfile{})
	if err != nil {
		return err
	}
	mv, err := consolidation.New(consolidation.Mover{
		Client: podcache.NewClient(m), Live: m.GetAPIReader(), Events: m.GetEventRecorder("supercargo-descheduler"), Clock: clock.RealClock{},
		Config: o.Consolidation, Fleets: len(fleets) > 0, Profiles: len(profiles) > 0,
		DryRun: o.DryRun, ReadOnly: !o.May(ActConsolidation), Pause: o.Pause(m),
	})
	if err != nil {
		return err
	}
	return mv.SetupWithManager(ctx, m)
}
