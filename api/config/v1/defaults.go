package v1

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime"
)

// The defaults that the packages of the decisions have too. A test of the plugins holds both
// to one value: this package imports nothing of Supercargo.
const (
	// DefaultEnergyWeight counts energy and runtime alike.
	DefaultEnergyWeight = 0.5
	// DefaultTariffMaxAge is for how long the last value of a tariff holds.
	DefaultTariffMaxAge = 24 * time.Hour
	// DefaultRuntime is the runtime of a batch pod about which nothing is known.
	DefaultRuntime = 10 * time.Minute
)

// DefaultScalingCycle is the autoscaling interval of HTAS (paper, section 6.1).
const DefaultScalingCycle = 5 * time.Minute

// SetDefaultsBestFitArgs fills absent fields.
func SetDefaultsBestFitArgs(args *BestFitArgs) {
	if args.Narrowing == "" {
		args.Narrowing = NarrowAuto
	}
}

// DefaultStagingTimeout is how long a migration may take to get under way. It is the
// default of a migration's deadline too.
const DefaultStagingTimeout = 5 * time.Minute

// SetDefaultsCheckpointStagingArgs fills absent fields. A duration of 0 counts as absent.
func SetDefaultsCheckpointStagingArgs(args *CheckpointStagingArgs) {
	if args.Timeout.Duration == 0 {
		args.Timeout.Duration = DefaultStagingTimeout
	}
}

// SetDefaultsEnergyPerformanceArgs fills absent fields. A duration of 0 counts as absent.
func SetDefaultsEnergyPerformanceArgs(args *EnergyPerformanceArgs) {
	if args.EnergyWeight == nil {
		weight := DefaultEnergyWeight
		args.EnergyWeight = &weight
	}
	if args.IdlePower == "" {
		args.IdlePower = IdlePowerCount
	}
	if t := args.Tariff; t != nil {
		if t.RefreshInterval.Duration == 0 {
			t.RefreshInterval.Duration = DefaultTariffRefresh
		}
		if t.MaxAge.Duration == 0 {
			t.MaxAge.Duration = DefaultTariffMaxAge
		}
	}
}

// DefaultTariffRefresh is how often a tariff is checked. A ConfigMap takes about as long
// to reach a mount.
const DefaultTariffRefresh = time.Minute

// SetDefaultsTimeBinArgs fills absent fields. A duration of 0 counts as absent.
func SetDefaultsTimeBinArgs(args *TimeBinArgs) {
	if args.ScalingCycle.Duration == 0 {
		args.ScalingCycle.Duration = DefaultScalingCycle
	}
	if args.DefaultRuntime.Duration == 0 {
		args.DefaultRuntime.Duration = DefaultRuntime
	}
	if args.Narrowing == "" {
		args.Narrowing = NarrowAuto
	}
}

// registerDefaults tells the scheme about the functions above.
func registerDefaults(scheme *runtime.Scheme) {
	scheme.AddTypeDefaultingFunc(&BestFitArgs{}, func(obj any) { SetDefaultsBestFitArgs(obj.(*BestFitArgs)) })
	scheme.AddTypeDefaultingFunc(&CheckpointStagingArgs{}, func(obj any) { SetDefaultsCheckpointStagingArgs(obj.(*CheckpointStagingArgs)) })
	scheme.AddTypeDefaultingFunc(&EnergyPerformanceArgs{}, func(obj any) { SetDefaultsEnergyPerformanceArgs(obj.(*EnergyPerformanceArgs)) })
	scheme.AddTypeDefaultingFunc(&TimeBinArgs{}, func(obj any) { SetDefaultsTimeBinArgs(obj.(*TimeBinArgs)) })
}
