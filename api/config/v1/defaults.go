package v1

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"supercargo.dev/supercargo/internal/runtimes"
)

// DefaultScalingCycle is the autoscaling interval of HTAS (paper, section 6.1).
const DefaultScalingCycle = 5 * time.Minute

// SetDefaultsBestFitArgs fills absent fields.
func SetDefaultsBestFitArgs(args *BestFitArgs) {
	if args.Narrowing == "" {
		args.Narrowing = NarrowAuto
	}
}

// SetDefaultsTimeBinArgs fills absent fields. A duration of 0 counts as absent.
func SetDefaultsTimeBinArgs(args *TimeBinArgs) {
	if args.ScalingCycle.Duration == 0 {
		args.ScalingCycle.Duration = DefaultScalingCycle
	}
	if args.DefaultRuntime.Duration == 0 {
		args.DefaultRuntime.Duration = runtimes.Default
	}
	if args.Narrowing == "" {
		args.Narrowing = NarrowAuto
	}
}

// registerDefaults tells the scheme about the functions above.
func registerDefaults(scheme *runtime.Scheme) {
	scheme.AddTypeDefaultingFunc(&BestFitArgs{}, func(obj any) { SetDefaultsBestFitArgs(obj.(*BestFitArgs)) })
	scheme.AddTypeDefaultingFunc(&TimeBinArgs{}, func(obj any) { SetDefaultsTimeBinArgs(obj.(*TimeBinArgs)) })
}
