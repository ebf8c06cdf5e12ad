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
	// is frozen, or killed to be started anew, from 1s to 24h. Then its room is given
	// away. A checkpoint that is on its way has until the migration's deadline. Default:
	// 5m.
	Timeout metav1.Duration `json:"timeout,omitempty"`
}

// IdlePowerMode says whether the idle power of a machine is a cost of the pod that would
// be the only one on it.
// +kubebuilder:validation:Enum=Count;Ignore
type IdlePowerMode string

const (
	// IdlePowerCount counts it: machines that are idle are switched off or given back.
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
