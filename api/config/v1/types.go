package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// NarrowingMode specifies whether a packing plugin may give the scheduler only the node that
// it would choose, instead of all nodes.
// +kubebuilder:validation:Enum=Auto;Never
type NarrowingMode string

const (
	// NarrowAuto narrows where this provably does not change any placement: in strict
	// profiles, for plain pods, with filter plugins that are known to be neutral for them.
	NarrowAuto NarrowingMode = "Auto"
	// NarrowNever never narrows.
	NarrowNever NarrowingMode = "Never"
)

// BestFitArgs are the arguments of the BestFit plugin.
// +kubebuilder:object:root=true
type BestFitArgs struct {
	metav1.TypeMeta `json:",inline"`

	// narrowing is Auto or Never. Default: Auto.
	Narrowing NarrowingMode `json:"narrowing,omitempty"`
}

// CheckpointStagingArgs are the arguments of the CheckpointStaging plugin.
// +kubebuilder:object:root=true
type CheckpointStagingArgs struct {
	metav1.TypeMeta `json:",inline"`

	// timeout is how long a node's resources are reserved for the new pod of a migration
	// before the old pod is frozen or, with method Restart, killed. It must be between 1s and
	// 24h. When it expires, the reservation is released. While a checkpoint is being
	// transferred, the deadline of the migration applies instead. Default: 5m.
	Timeout metav1.Duration `json:"timeout,omitempty"`
}

// IdlePowerMode specifies whether the idle power of a machine counts as a cost of the only pod
// on it.
// +kubebuilder:validation:Enum=Count;Ignore
type IdlePowerMode string

const (
	// IdlePowerCount counts the idle power. It is for clusters in which idle machines are
	// switched off or released.
	IdlePowerCount IdlePowerMode = "Count"
	// IdlePowerIgnore does not count the idle power, as in HEATS. It is for clusters in which
	// idle machines stay on.
	IdlePowerIgnore IdlePowerMode = "Ignore"
)

// EnergyPerformanceArgs are the arguments of the EnergyPerformance plugin.
// +kubebuilder:object:root=true
type EnergyPerformanceArgs struct {
	metav1.TypeMeta `json:",inline"`

	// energyWeight is the weight H of energy against runtime, from 0 (runtime only) to 1
	// (energy only). It applies to pods that do not declare a weight and whose namespace does
	// not declare one. Default: 0.5.
	EnergyWeight *float64 `json:"energyWeight,omitempty"`

	// idlePower is Count or Ignore. Default: Count.
	IdlePower IdlePowerMode `json:"idlePower,omitempty"`

	// tariff specifies prices or carbon intensities by which energy is weighted, for a node's
	// zone and the time at which a pod is scheduled. If unset, energy has the same weight
	// everywhere.
	Tariff *EnergyTariff `json:"tariff,omitempty"`
}

// EnergyUnit is the unit of a tariff.
// +kubebuilder:validation:Enum=Dollars;Grams
type EnergyUnit string

const (
	// EnergyDollars weights energy by the price of electricity.
	EnergyDollars EnergyUnit = "Dollars"
	// EnergyGrams weights energy by its carbon intensity.
	EnergyGrams EnergyUnit = "Grams"
)

// EnergyTariff specifies a file of electricity prices or carbon intensities.
type EnergyTariff struct {
	// file is the path of a CSV file in the scheduler's container, such as in a mounted
	// ConfigMap. The file has the columns time, zone, and dollars_per_kwh or grams_per_kwh,
	// according to the unit. The zone of a node is its label topology.kubernetes.io/zone.
	File string `json:"file"`

	// unit is Dollars, or Grams of CO2 equivalent.
	Unit EnergyUnit `json:"unit"`

	// refreshInterval is the time between two checks of the file for changes, from 1s to 24h.
	// Default: 1m.
	RefreshInterval metav1.Duration `json:"refreshInterval,omitempty"`

	// maxAge is how long the last value of a zone is valid, from 1m to 87600h. After that, the
	// zone's price is unknown. Default: 24h.
	MaxAge metav1.Duration `json:"maxAge,omitempty"`
}

// TimeBinArgs are the arguments of the TimeBin plugin.
// +kubebuilder:object:root=true
type TimeBinArgs struct {
	metav1.TypeMeta `json:",inline"`

	// scalingCycle is the width of a time bin, which is the time between two rounds of the
	// node autoscaler, from 1s to 24h. Default: 5m.
	ScalingCycle metav1.Duration `json:"scalingCycle,omitempty"`

	// defaultRuntime is the expected runtime of a batch pod that declares none and whose
	// category has no finished pod yet, from 1s to 8760h. Default: 10m.
	DefaultRuntime metav1.Duration `json:"defaultRuntime,omitempty"`

	// narrowing is Auto or Never. Default: Auto.
	Narrowing NarrowingMode `json:"narrowing,omitempty"`
}
