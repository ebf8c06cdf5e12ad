package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MachineProfile says how fast the machines of one type are and how much power they
// draw. The scheduler's plugin EnergyPerformance reads it to weigh energy against
// runtime. What is learned from probes and finished pods stands in the status; a spec
// with models of its own takes precedence, so that a profile can be carried from one
// cluster to the next.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=mprof,categories=supercargo
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Machine type",type=string,JSONPath=`.spec.machineType`
// +kubebuilder:printcolumn:name="Idle W",type=string,JSONPath=`.spec.power.idleWatts`
// +kubebuilder:printcolumn:name="Full W",type=string,JSONPath=`.spec.power.fullWatts`
// +kubebuilder:printcolumn:name="Samples",type=integer,JSONPath=`.status.models.runtime.samples`
// +kubebuilder:printcolumn:name="Learned",type=date,JSONPath=`.status.models.learnedAt`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type MachineProfile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which machines these are, and what their owner knows about them.
	// +required
	Spec MachineProfileSpec `json:"spec"`

	// status is what has been learned.
	// +optional
	Status MachineProfileStatus `json:"status,omitempty"`
}

// MachineProfileList is a list of machine profiles.
//
// +kubebuilder:object:root=true
type MachineProfileList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the profiles.
	Items []MachineProfile `json:"items"`
}

// MachineProfileSpec says which machines a profile is about, and what their owner knows
// about them.
type MachineProfileSpec struct {
	// machineType is the value of the node label supercargo.dev/machine-type, or, for
	// nodes without it, of node.kubernetes.io/instance-type. Of two profiles for one type
	// the one whose name comes first is used.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed: make another MachineProfile"
	MachineType string `json:"machineType"`

	// hardware is what the machines are made of, as one of them reported it. What was
	// learned on other hardware is not used.
	// +optional
	Hardware *MachineHardware `json:"hardware,omitempty"`

	// power is what a machine draws without load and at full load. Without it, waking an
	// idle machine is thought to cost nothing.
	// +optional
	Power *MachinePower `json:"power,omitempty"`

	// models are given by hand. They take precedence over those in the status.
	// +optional
	Models *MachineModels `json:"models,omitempty"`
}

// MachineHardware is what a machine is made of.
type MachineHardware struct {
	// fingerprint changes when the hardware does: 16 hexadecimal digits.
	// +required
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{16}$`
	Fingerprint string `json:"fingerprint"`

	// architecture is that of the node: amd64, arm64.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Architecture string `json:"architecture,omitempty"`

	// cpuModel is the CPU's name as the kernel tells it.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	CPUModel string `json:"cpuModel,omitempty"`

	// threads is how many CPUs the kernel counts.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65536
	Threads int32 `json:"threads,omitempty"`
}

// MachinePower is what a machine draws.
//
// +kubebuilder:validation:XValidation:rule="quantity(string(self.idleWatts)).compareTo(quantity(string(self.fullWatts))) <= 0",message="idleWatts must not exceed fullWatts"
type MachinePower struct {
	// idleWatts is the power without load, above 0.
	// +required
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0')) && quantity(string(self)).isLessThan(quantity('1M'))",message="must be above 0 and below 1M"
	IdleWatts resource.Quantity `json:"idleWatts"`

	// fullWatts is the power at full load.
	// +required
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0')) && quantity(string(self)).isLessThan(quantity('1M'))",message="must be above 0 and below 1M"
	FullWatts resource.Quantity `json:"fullWatts"`

	// curve has points between the two, in any order. Without it power is a straight line.
	// +optional
	// +listType=map
	// +listMapKey=utilizationPercent
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:XValidation:rule="self.all(p, self.all(q, q.utilizationPercent <= p.utilizationPercent || q.powerPercent >= p.powerPercent))",message="power must not fall with utilization"
	Curve []PowerPoint `json:"curve,omitempty"`
}

// PowerPoint is one point of a power curve.
type PowerPoint struct {
	// utilizationPercent is the busy share of the CPU.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=99
	UtilizationPercent int32 `json:"utilizationPercent"`

	// powerPercent is the power above idle, as a share of what is drawn above idle at full
	// load.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	PowerPercent int32 `json:"powerPercent"`
}

// MachineModels predict what a pod takes on a machine of the type.
type MachineModels struct {
	// energy predicts the joules that a pod uses, idle power not counted.
	// +required
	Energy MachineModel `json:"energy"`

	// runtime predicts the seconds that a pod runs.
	// +required
	Runtime MachineModel `json:"runtime"`

	// learnedAt is when they were learned. Models of more than a week are trusted less
	// and less. Without it they do not age.
	// +optional
	LearnedAt *metav1.Time `json:"learnedAt,omitempty"`

	// fingerprint is that of the hardware on which they were learned.
	// +optional
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{16}$`
	Fingerprint string `json:"fingerprint,omitempty"`

	// governor is the CPU governor under which the machines were when they were learned, all
	// of them separated by commas where CPUs differ. Empty where there is none, or it is not
	// known.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[a-z0-9_,-]+$`
	Governor string `json:"governor,omitempty"`

	// governors are models learned under other CPU governors. A node that runs under one of
	// these is predicted by them.
	// +optional
	// +listType=map
	// +listMapKey=governor
	// +kubebuilder:validation:MaxItems=2
	Governors []GovernorModels `json:"governors,omitempty"`
}

// GovernorModels predict what a pod takes on a machine that runs under a CPU governor.
type GovernorModels struct {
	// governor is its name, as the kernel tells it.
	// +required
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[a-z0-9_,-]+$`
	Governor string `json:"governor"`

	// energy predicts the joules that a pod uses, idle power not counted.
	// +required
	Energy MachineModel `json:"energy"`

	// runtime predicts the seconds that a pod runs.
	// +required
	Runtime MachineModel `json:"runtime"`
}

// ModelTerm is what a coefficient is multiplied with: One with 1, the others with what a
// pod requests, CPU in cores and memory in GiB.
//
// +kubebuilder:validation:Enum=One;CPU;Memory;CPUTimesMemory;OnePerCPU;MemoryPerCPU
type ModelTerm string

// MachineModel is a regression on what pods request: the sum of coefficients times terms.
type MachineModel struct {
	// terms are the parts of the sum.
	// +required
	// +listType=map
	// +listMapKey=term
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=6
	Terms []ModelCoefficient `json:"terms"`

	// cpu is the range of requests that samples had, in cores.
	// +required
	CPU ModelRange `json:"cpu"`

	// memory is the range of requests that samples had, in bytes.
	// +required
	Memory ModelRange `json:"memory"`

	// value is the range of what samples took: joules or seconds, above 0.
	// +required
	// +kubebuilder:validation:XValidation:rule="quantity(string(self.least)).isGreaterThan(quantity('0'))",message="least must be above 0"
	Value ModelRange `json:"value"`

	// samples is how many were learned from.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Samples int32 `json:"samples,omitempty"`

	// sizes is how many different requests they had.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Sizes int32 `json:"sizes,omitempty"`

	// rSquaredPermille is the explained share of the variance, in thousandths.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	RSquaredPermille int32 `json:"rSquaredPermille,omitempty"`

	// spreadPermille is the usual relative error on requests that were not learned from,
	// in thousandths. Up to 100 the model is trusted in full, from 500 on not at all.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	SpreadPermille int32 `json:"spreadPermille,omitempty"`
}

// ModelCoefficient is one part of a regression.
type ModelCoefficient struct {
	// term is what the coefficient is multiplied with.
	// +required
	Term ModelTerm `json:"term"`

	// coefficient is a decimal number, as text, since numbers with a fraction do not come
	// through every client unchanged.
	// +required
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?$`
	Coefficient string `json:"coefficient"`
}

// ModelRange is a range that was seen.
//
// +kubebuilder:validation:XValidation:rule="quantity(string(self.least)).compareTo(quantity(string(self.most))) <= 0",message="least must not exceed most"
// +kubebuilder:validation:XValidation:rule="quantity(string(self.least)).compareTo(quantity('0')) >= 0",message="least must not be negative"
type ModelRange struct {
	// least is the lower end.
	// +required
	Least resource.Quantity `json:"least"`

	// most is the upper end.
	// +required
	Most resource.Quantity `json:"most"`
}

// MachineProfileStatus is what has been learned about a machine type.
type MachineProfileStatus struct {
	// observedGeneration is the generation of the spec that the conditions are about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// models are what was learned last.
	// +optional
	Models *MachineModels `json:"models,omitempty"`

	// unusableSamples is how many samples could not be true and were passed over.
	// +optional
	// +kubebuilder:validation:Minimum=0
	UnusableSamples int32 `json:"unusableSamples,omitempty"`

	// conditions say whether the profile can be used (Ready), when and from what it was
	// learned (Learned), and how far probing is (Probed).
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// The conditions of a MachineProfile.
const (
	// ProfileReady: it has models that predict.
	ProfileReady = "Ready"
	// ProfileLearned: the last refit has given models.
	ProfileLearned = "Learned"
	// ProfileProbed: the hardware that it is about has been probed.
	ProfileProbed = "Probed"
)
