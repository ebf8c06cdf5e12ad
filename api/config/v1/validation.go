package v1

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateBestFitArgs returns everything wrong with defaulted arguments.
func ValidateBestFitArgs(path *field.Path, args *BestFitArgs) field.ErrorList {
	return oneOf(path.Child("narrowing"), args.Narrowing, NarrowAuto, NarrowNever)
}

// ValidateCheckpointStagingArgs returns everything wrong with defaulted arguments.
func ValidateCheckpointStagingArgs(path *field.Path, args *CheckpointStagingArgs) field.ErrorList {
	return within(path.Child("timeout"), args.Timeout, time.Second, 24*time.Hour)
}

// ValidateEnergyPerformanceArgs returns everything wrong with defaulted arguments.
func ValidateEnergyPerformanceArgs(path *field.Path, args *EnergyPerformanceArgs) field.ErrorList {
	var errs field.ErrorList
	// Written so that a NaN is refused.
	if h := args.EnergyWeight; h == nil {
		errs = append(errs, field.Required(path.Child("energyWeight"), "must be from 0 to 1"))
	} else if !(*h >= 0 && *h <= 1) {
		errs = append(errs, field.Invalid(path.Child("energyWeight"), *h, "must be from 0 (runtime only) to 1 (energy only)"))
	}
	errs = append(errs, oneOf(path.Child("idlePower"), args.IdlePower, IdlePowerCount, IdlePowerIgnore)...)
	if args.Tariff != nil {
		errs = append(errs, validateEnergyTariff(path.Child("tariff"), args.Tariff)...)
	}
	return errs
}

func validateEnergyTariff(path *field.Path, t *EnergyTariff) field.ErrorList {
	var errs field.ErrorList
	if t.File == "" {
		errs = append(errs, field.Required(path.Child("file"), "must be the path of a CSV file"))
	}
	errs = append(errs, oneOf(path.Child("unit"), t.Unit, EnergyDollars, EnergyGrams)...)
	errs = append(errs, within(path.Child("refreshInterval"), t.RefreshInterval, time.Second, 24*time.Hour)...)
	return append(errs, within(path.Child("maxAge"), t.MaxAge, time.Minute, 10*365*24*time.Hour)...)
}

// ValidateTimeBinArgs returns everything wrong with defaulted arguments.
func ValidateTimeBinArgs(path *field.Path, args *TimeBinArgs) field.ErrorList {
	errs := within(path.Child("scalingCycle"), args.ScalingCycle, time.Second, 24*time.Hour)
	errs = append(errs, within(path.Child("defaultRuntime"), args.DefaultRuntime, time.Second, 365*24*time.Hour)...)
	return append(errs, oneOf(path.Child("narrowing"), args.Narrowing, NarrowAuto, NarrowNever)...)
}

func oneOf[T ~string](path *field.Path, value T, allowed ...T) field.ErrorList {
	for _, a := range allowed {
		if value == a {
			return nil
		}
	}
	return field.ErrorList{field.NotSupported(path, value, allowed)}
}

func within(path *field.Path, value metav1.Duration, least, most time.Duration) field.ErrorList {
	if value.Duration >= least && value.Duration <= most {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value.Duration.String(), fmt.Sprintf("must be from %v to %v", least, most))}
}
