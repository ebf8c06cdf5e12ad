package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MachineProfile describes the speed and the power consumption of the machines of one type.
// The scheduler plugin EnergyPerformance uses it to weigh energy against runtime. The status
// holds the models learned from probes and finished pods. Models in the spec take precedence
// over them, so that you can copy a profile from one cluster to another.
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

	// spec specifies the machine type and its known properties.
	// +required
	Spec MachineProfileSpec `json:"spec"`

	// status is the learned state of the profile.
	// +optional
	Status MachineProfileStatus `json:"status,omitempty"`
}

// MachineProfileList is a list of MachineProfiles.
//
// +kubebuilder:object:root=true
type MachineProfileList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items is the list of MachineProfiles.
	Items []MachineProfile `json:"items"`
}

// MachineProfileSpec specifies a machine type and its known properties.
type MachineProfileSpec struct {
	// machineType is the value of the node label supercargo.dev/machine-type or, for nodes
	// without that label, of node.kubernetes.io/instance-type. If several profiles specify the
	// same type, the scheduler uses the one whose name sorts first. This field is immutable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="is immutable: create another MachineProfile"
	MachineType string `json:"machineType"`

	// hardware is the hardware of the machines, as reported by one of them. Models that were
	// learned on other hardware are not used.
	// +optional
	Hardware *MachineHardware `json:"hardware,omitempty"`

	// power is the power consumption of a machine when idle and at full load. If unset, waking
	// an idle machine is assumed to cost no energy.
	// +optional
	Power *MachinePower `json:"power,omitempty"`

	// models are user-provided models. They take precedence over the models in the status.
	// +optional
	Models *MachineModels `json:"models,omitempty"`
}

// MachineHardware describes the hardware of a machine.
type MachineHardware struct {
	// fingerprint identifies the hardware. It has 16 hexadecimal digits and changes when the
	// hardware changes.
	// +required
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{16}$`
	Fingerprint string `json:"fingerprint"`

	// architecture is the CPU architecture of the node, such as amd64 or arm64.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Architecture string `json:"architecture,omitempty"`

	// cpuModel is the name of the CPU, as reported by the kernel.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	CPUModel string `json:"cpuModel,omitempty"`

	// threads is the number of CPUs that the kernel reports.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65536
	Threads int32 `json:"threads,omitempty"`
}

// MachinePower describes the power consumption of a machine.
//
// +kubebuilder:validation:XValidation:rule="quantity(string(self.idleWatts)).compareTo(quantity(string(self.fullWatts))) <= 0",message="idleWatts must not exceed fullWatts"
type MachinePower struct {
	// idleWatts is the power without load, in watts. It must be greater than 0.
	// +required
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0')) && quantity(string(self)).isLessThan(quantity('1M'))",message="must be above 0 and below 1M"
	IdleWatts resource.Quantity `json:"idleWatts"`

	// fullWatts is the power at full load, in watts.
	// +required
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0')) && quantity(string(self)).isLessThan(quantity('1M'))",message="must be above 0 and below 1M"
	FullWatts resource.Quantity `json:"fullWatts"`

	// curve is a list of points between idle and full load, in any order. If empty, power is
	// linear in utilization.
	// +optional
	// +listType=map
	// +listMapKey=utilizationPercent
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:XValidation:rule="self.all(p, self.all(q, q.utilizationPercent <= p.utilizationPercent || q.powerPercent >= p.powerPercent))",message="powerPercent must not decrease as utilizationPercent increases"
	Curve []PowerPoint `json:"curve,omitempty"`
}

// PowerPoint is one point of a power curve.
type PowerPoint struct {
	// utilizationPercent is the CPU utilization, in percent.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=99
	UtilizationPercent int32 `json:"utilizationPercent"`

	// powerPercent is the power above idle, in percent of the difference between full load and
	// idle.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	PowerPercent int32 `json:"powerPercent"`
}

// MachineModels predict the energy and the runtime of a pod on a machine of the type.
type MachineModels struct {
	// energy predicts the energy that a pod uses, in joules, without the idle power of the
	// machine.
	// +required
	Energy MachineModel `json:"energy"`

	// runtime predicts the runtime of a pod, in seconds.
	// +required
	Runtime MachineModel `json:"runtime"`

	// learnedAt is the time at which the models were learned. The weight of models older than
	// one week decreases with their age. If unset, the models do not age.
	// +optional
	LearnedAt *metav1.Time `json:"learnedAt,omitempty"`

	// fingerprint identifies the hardware on which the models were learned.
	// +optional
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{16}$`
	Fingerprint string `json:"fingerprint,omitempty"`

	// governor is the CPU governor of the machines at the time the models were learned. If
	// CPUs have different governors, they are separated by commas. It is empty if the machines
	// have no governor or it is unknown.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[a-z0-9_,-]+$`
	Governor string `json:"governor,omitempty"`

	// governors are models that were learned under other CPU governors. They apply to nodes
	// that run under one of these governors.
	// +optional
	// +listType=map
	// +listMapKey=governor
	// +kubebuilder:validation:MaxItems=2
	Governors []GovernorModels `json:"governors,omitempty"`
}

// GovernorModels predict the energy and the runtime of a pod on a machine that runs under one
// CPU governor.
type GovernorModels struct {
	// governor is the name of the CPU governor, as reported by the kernel.
	// +required
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[a-z0-9_,-]+$`
	Governor string `json:"governor"`

	// energy predicts the energy that a pod uses, in joules, without the idle power of the
	// machine.
	// +required
	Energy MachineModel `json:"energy"`

	// runtime predicts the runtime of a pod, in seconds.
	// +required
	Runtime MachineModel `json:"runtime"`
}

// ModelTerm is the value that a coefficient is multiplied by. One is the constant 1. The other
// terms are computed from the requests of the pod, with CPU in cores and memory in GiB.
//
// +kubebuilder:validation:Enum=One;CPU;Memory;CPUTimesMemory;OnePerCPU;MemoryPerCPU
type ModelTerm string

// MachineModel is a linear regression on the requests of a pod: the sum of coefficients
// multiplied by terms.
type MachineModel struct {
	// terms are the summands of the regression.
	// +required
	// +listType=map
	// +listMapKey=term
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=6
	Terms []ModelCoefficient `json:"terms"`

	// cpu is the range of the CPU requests of the samples, in cores.
	// +required
	CPU ModelRange `json:"cpu"`

	// memory is the range of the memory requests of the samples, in bytes.
	// +required
	Memory ModelRange `json:"memory"`

	// value is the range of the measured values of the samples, in joules or seconds. It must
	// be greater than 0.
	// +required
	// +kubebuilder:validation:XValidation:rule="quantity(string(self.least)).isGreaterThan(quantity('0'))",message="least must be above 0"
	Value ModelRange `json:"value"`

	// samples is the number of samples from which the model was learned.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Samples int32 `json:"samples,omitempty"`

	// sizes is the number of distinct requests among the samples.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Sizes int32 `json:"sizes,omitempty"`

	// rSquaredPermille is the coefficient of determination (R²), in thousandths.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	RSquaredPermille int32 `json:"rSquaredPermille,omitempty"`

	// spreadPermille is the typical relative error on requests that are not among the samples,
	// in thousandths. A model with at most 100 has full weight, and a model with 500 or more
	// is ignored.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	SpreadPermille int32 `json:"spreadPermille,omitempty"`
}

// ModelCoefficient is one summand of a regression.
type ModelCoefficient struct {
	// term is the value that the coefficient is multiplied by.
	// +required
	Term ModelTerm `json:"term"`

	// coefficient is a decimal number. It is a string because clients may change the value of
	// floating-point numbers.
	// +required
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?$`
	Coefficient string `json:"coefficient"`
}

// ModelRange is a range of observed values.
//
// +kubebuilder:validation:XValidation:rule="quantity(string(self.least)).compareTo(quantity(string(self.most))) <= 0",message="least must not exceed most"
// +kubebuilder:validation:XValidation:rule="quantity(string(self.least)).compareTo(quantity('0')) >= 0",message="least must not be negative"
type ModelRange struct {
	// least is the lower bound of the range.
	// +required
	Least resource.Quantity `json:"least"`

	// most is the upper bound of the range.
	// +required
	Most resource.Quantity `json:"most"`
}

// MachineProfileStatus is the learned state of a MachineProfile.
type MachineProfileStatus struct {
	// observedGeneration is the generation of the spec that the conditions describe.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// models are the most recently learned models.
	// +optional
	Models *MachineModels `json:"models,omitempty"`

	// unusableSamples is the number of samples that were ignored because their values are
	// implausible.
	// +optional
	// +kubebuilder:validation:Minimum=0
	UnusableSamples int32 `json:"unusableSamples,omitempty"`

	// conditions describe whether the profile is usable (Ready), when and from which samples
	// its models were learned (Learned), and the progress of probing (Probed).
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// The conditions of a MachineProfile.
const (
	// ProfileReady means that the profile has models that can predict.
	ProfileReady = "Ready"
	// ProfileLearned means that the last refit produced models.
	ProfileLearned = "Learned"
	// ProfileProbed means that the hardware of the profile has been probed.
	ProfileProbed = "Probed"
)
