package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// NarrowingMode says whether a packing plugin may hand the scheduler one proven
// node instead of all of them.
// +kubebuilder:validation:Enum=Auto;Never
type NarrowingMode string

const (
	// NarrowAuto narrows wherever it provably changes no placement: strict
	// profiles, plain pods, filters known to be neutral for them.
	NarrowAuto NarrowingMode = "Auto"
	// NarrowNever always lets the scheduler look at all nodes.
	NarrowNever NarrowingMode = "Never"
)

// BestFitArgs are the arguments of the BestFit plugin.
// +kubebuilder:object:root=true
type BestFitArgs struct {
	metav1.TypeMeta `json:",inline"`

	// narrowing is Auto (the default) or Never.
	Narrowing NarrowingMode `json:"narrowing,omitempty"`
}

// CheckpointStagingArgs are the arguments of the CheckpointStaging plugin.
// +kubebuilder:object:root=true
type CheckpointStagingArgs struct {
	metav1.TypeMeta `json:",inline"`

	// timeout is how long the new pod of a migration is held on a node before its old pod
	// is frozen, or killed to be restarted, from 1s to 24h. Then its room is given
	// away. A checkpoint that is on its way has until the migration's deadline. Default:
	// 5m.
	Timeout metav1.Duration `json:"timeout,omitempty"`
}

// IdlePowerMode says whether the idle power of a machine is a cost of the pod that would
// be the only one on it.
// +kubebuilder:validation:Enum=Count;Ignore
type IdlePowerMode string

const (
	// IdlePowerCount counts it: machines that are idle are switched off or released.
	IdlePowerCount IdlePowerMode = "Count"
	// IdlePowerIgnore does not, as in HEATS: idle machines stay on.
	IdlePowerIgnore IdlePowerMode = "Ignore"
)

// EnergyPerformanceArgs are the arguments of the EnergyPerformance plugin.
// +kubebuilder:object:root=true
type EnergyPerformanceArgs struct {
	metav1.TypeMeta `json:",inline"`

	// energyWeight is H for pods that declare none and whose namespace does not, from 0,
	// runtime alone, to 1, energy alone. Default: 0.5.
	EnergyWeight *float64 `json:"energyWeight,omitempty"`

	// idlePower is Count (the default) or Ignore.
	IdlePower IdlePowerMode `json:"idlePower,omitempty"`

	// tariff has joules count by what they cost, or emit, in a node's zone when a pod is
	// scheduled. Without it they count the same everywhere.
	Tariff *EnergyTariff `json:"tariff,omitempty"`
}

// EnergyUnit is what a tariff counts.
// +kubebuilder:validation:Enum=Dollars;Grams
type EnergyUnit string

const (
	// EnergyDollars has joules count by the price of electricity.
	EnergyDollars EnergyUnit = "Dollars"
	// EnergyGrams has them count by carbon intensity.
	EnergyGrams EnergyUnit = "Grams"
)

// EnergyTariff says where the price of electricity, or its carbon intensity, is written.
type EnergyTariff struct {
	// file is the path of a CSV file as the scheduler sees it, such as in a ConfigMap that
	// is mounted, with the columns time, zone, and that of the unit: dollars_per_kwh or
	// grams_per_kwh. The zone is that of the node label topology.kubernetes.io/zone.
	File string `json:"file"`

	// unit is Dollars or Grams, of CO2 equivalent.
	Unit EnergyUnit `json:"unit"`

	// refreshInterval is how often the file is looked at, from 1s to 24h. Default: 1m.
	RefreshInterval metav1.Duration `json:"refreshInterval,omitempty"`

	// maxAge is for how long a value holds that no later one of its zone follows, from 1m to
	// 87600h. Then the price is not known. Default: 24h.
	MaxAge metav1.Duration `json:"maxAge,omitempty"`
}

// TimeBinArgs are the arguments of the TimeBin plugin.
// +kubebuilder:object:root=true
type TimeBinArgs struct {
	metav1.TypeMeta `json:",inline"`

	// scalingCycle is the width of a time bin: the time between two rounds of
	// the node autoscaler, from 1s to 24h. Default: 5m.
	ScalingCycle metav1.Duration `json:"scalingCycle,omitempty"`

	// defaultRuntime is the expected runtime of a batch pod that declares none
	// and whose category has no finished pod yet, from 1s to 8760h. Default: 10m.
	DefaultRuntime metav1.Duration `json:"defaultRuntime,omitempty"`

	// narrowing is Auto (the default) or Never.
	Narrowing NarrowingMode `json:"narrowing,omitempty"`
}
