package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ReplicaPolicy scales a service so that it meets its target response time with the fewest
// replicas. A control law computes the number of replicas from measurements.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=rp,categories=supercargo
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.target.kind`
// +kubebuilder:printcolumn:name="Target",type=string,JSONPath=`.spec.target.name`
// +kubebuilder:printcolumn:name="Law",type=string,JSONPath=`.spec.law.name`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Spec",type=integer,JSONPath=`.status.specReplicas`
// +kubebuilder:printcolumn:name="Ready pods",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.status.desiredReplicas`
// +kubebuilder:printcolumn:name="Measured",type=string,JSONPath=`.status.conditions[?(@.type=="Measured")].status`,priority=1
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ReplicaPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec specifies the target and how it is scaled.
	// +required
	Spec ReplicaPolicySpec `json:"spec"`

	// status contains the last measurements and decisions.
	// +optional
	Status ReplicaPolicyStatus `json:"status,omitempty"`
}

// ReplicaPolicyList is a list of ReplicaPolicies.
//
// +kubebuilder:object:root=true
type ReplicaPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items is the list of ReplicaPolicies.
	Items []ReplicaPolicy `json:"items"`
}

// ReplicaMode specifies how decisions are carried out.
//
// +kubebuilder:validation:Enum=Act;Observe;ViaHPA
type ReplicaMode string

const (
	// ReplicasAct updates the scale subresource of the target.
	ReplicasAct ReplicaMode = "Act"
	// ReplicasObserve records decisions and their reasons in the status, and changes nothing
	// else.
	ReplicasObserve ReplicaMode = "Observe"
	// ReplicasViaHPA publishes the desired number of replicas as a metric, which a
	// HorizontalPodAutoscaler follows within its own limits.
	ReplicasViaHPA ReplicaMode = "ViaHPA"
)

// ReplicaLaw is the name of a control law.
//
// +kubebuilder:validation:Enum=Predictive;InverseQueue;DoubleThreshold
type ReplicaLaw string

const (
	// LawPredictive forecasts the arrival rate, computes the required replicas with a queueing
	// model, and corrects both by measurements.
	LawPredictive ReplicaLaw = "Predictive"
	// LawInverseQueue is FeedBack_InverseQM of Cai and Buyya.
	LawInverseQueue ReplicaLaw = "InverseQueue"
	// LawDoubleThreshold is DHPA of Jiang and Wu.
	LawDoubleThreshold ReplicaLaw = "DoubleThreshold"
)

// ReplicaPolicySpec specifies the target and how it is scaled.
//
// +kubebuilder:validation:XValidation:rule="self.minReplicas <= self.maxReplicas",message="minReplicas must not exceed maxReplicas"
// +kubebuilder:validation:XValidation:rule="self.law.name == 'DoubleThreshold' || has(self.slo) && has(self.service)",message="slo and service are required for the laws Predictive and InverseQueue"
type ReplicaPolicySpec struct {
	// target is the object to scale. It can be any object with the scale subresource in the
	// namespace of the policy. This field is immutable.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="is immutable: create another ReplicaPolicy"
	// +required
	Target ReplicaTarget `json:"target"`

	// mode specifies how decisions are carried out. Act updates the scale of the target.
	// Observe only records decisions in the status. ViaHPA publishes the desired number of
	// replicas as a metric, which a HorizontalPodAutoscaler follows.
	// +kubebuilder:default=Act
	// +optional
	Mode ReplicaMode `json:"mode,omitempty"`

	// minReplicas is the minimum number of replicas.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	// +optional
	MinReplicas int32 `json:"minReplicas,omitempty"`

	// maxReplicas is the maximum number of replicas.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	// +required
	MaxReplicas int32 `json:"maxReplicas"`

	// slo is the service level objective. It is required for the laws Predictive and
	// InverseQueue.
	// +optional
	SLO *ServiceLevel `json:"slo,omitempty"`

	// service describes the capacity of one replica. It is required for the laws Predictive
	// and InverseQueue.
	// +optional
	Service *ServiceModel `json:"service,omitempty"`

	// law specifies the control law and its constants.
	// +kubebuilder:default={}
	// +optional
	Law ReplicaLawSpec `json:"law,omitempty"`

	// metrics specifies the source of the measurements.
	// +required
	Metrics ReplicaMetrics `json:"metrics"`
}

// ReplicaTarget is a reference to an object with the scale subresource.
type ReplicaTarget struct {
	// apiVersion is the API group and version of the object.
	// +kubebuilder:default="apps/v1"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`

	// kind is the kind of the object. The option --scale-kinds of the autoscaler lists the
	// kinds that it may scale.
	// +kubebuilder:default=Deployment
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Kind string `json:"kind,omitempty"`

	// name is the name of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
}

// ServiceLevel is a service level objective.
type ServiceLevel struct {
	// responseTime is the target of the mean response time. It must be greater than the time
	// that a single request takes on an idle replica.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1ms') && duration(self) <= duration('1h')",message="must be between 1ms and 1h"
	// +required
	ResponseTime metav1.Duration `json:"responseTime"`
}

// ServiceModel describes the capacity of one replica: at an arrival rate lambda it serves
// ratePerReplica + speedUp/lambda requests per second.
//
// +kubebuilder:validation:XValidation:rule="!has(self.pastWeight) || quantity(string(self.pastWeight)).isLessThan(quantity('1'))",message="pastWeight must be below 1"
type ServiceModel struct {
	// ratePerReplica is the number of requests per second that one fully loaded replica
	// serves, such as "12.5". It is the reciprocal of the mean time, in seconds, of a single
	// request.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="must be above 0"
	// +required
	RatePerReplica resource.Quantity `json:"ratePerReplica"`

	// speedUp specifies how much faster a replica is at low load, in requests squared per
	// second squared. Default: 0.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) >= 0",message="must not be negative"
	// +optional
	SpeedUp *resource.Quantity `json:"speedUp,omitempty"`

	// pastWeight is the weight of the previous response time in the next one. It must be less
	// than 1. Default: 0.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) >= 0",message="must not be negative"
	// +optional
	PastWeight *resource.Quantity `json:"pastWeight,omitempty"`

	// peakArrivalRate is the highest expected arrival rate, in requests per second. If speedUp
	// is set, an SLO that cannot be met at this rate is rejected.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="must be above 0"
	// +optional
	PeakArrivalRate *resource.Quantity `json:"peakArrivalRate,omitempty"`
}

// ReplicaLawSpec specifies a control law and its constants. docs/replicas.md describes the
// constants.
//
// +kubebuilder:validation:XValidation:rule="!has(self.predictive) || self.name == 'Predictive'",message="predictive must be unset unless name is Predictive"
// +kubebuilder:validation:XValidation:rule="!has(self.inverseQueue) || self.name == 'InverseQueue'",message="inverseQueue must be unset unless name is InverseQueue"
// +kubebuilder:validation:XValidation:rule="!has(self.doubleThreshold) || self.name == 'DoubleThreshold'",message="doubleThreshold must be unset unless name is DoubleThreshold"
type ReplicaLawSpec struct {
	// name is the name of the control law.
	// +kubebuilder:default=Predictive
	// +optional
	Name ReplicaLaw `json:"name,omitempty"`

	// interval is the control interval of the laws Predictive and InverseQueue.
	// +kubebuilder:default="250s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="must be between 1s and 24h"
	// +optional
	Interval metav1.Duration `json:"interval,omitempty,omitzero"`

	// predictive specifies the constants of the law Predictive.
	// +optional
	Predictive *PredictiveConstants `json:"predictive,omitempty"`

	// inverseQueue specifies the constants of the law InverseQueue.
	// +optional
	InverseQueue *InverseQueueConstants `json:"inverseQueue,omitempty"`

	// doubleThreshold specifies the constants of the law DoubleThreshold.
	// +optional
	DoubleThreshold *DoubleThresholdConstants `json:"doubleThreshold,omitempty"`
}

// PredictiveConstants are the constants of the law Predictive.
type PredictiveConstants struct {
	// watch is the time between two measurements. Default: one tenth of the interval, at least
	// 1s.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="must be between 1s and 24h"
	// +optional
	Watch *metav1.Duration `json:"watch,omitempty"`

	// violations is the fraction of control intervals that may violate the SLO. Default: 0.05.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="must be above 0"
	// +optional
	Violations *resource.Quantity `json:"violations,omitempty"`

	// margin is the initial safety margin, in standard deviations of the forecast error.
	// Default: 0.5.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) >= 0",message="must not be negative"
	// +optional
	Margin *resource.Quantity `json:"margin,omitempty"`

	// maxMargin is the maximum safety margin, in standard deviations of the forecast error.
	// Default: 8.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="must be above 0"
	// +optional
	MaxMargin *resource.Quantity `json:"maxMargin,omitempty"`

	// marginStep is the increment of the safety margin after a control interval that violated
	// the SLO, in standard deviations of the forecast error. Default: 0.2.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="must be above 0"
	// +optional
	MarginStep *resource.Quantity `json:"marginStep,omitempty"`

	// headroom is added to the forecast, as a fraction of the forecast. Default: 0.015.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) >= 0",message="must not be negative"
	// +optional
	Headroom *resource.Quantity `json:"headroom,omitempty"`

	// speedWeight is the weight of the last control interval in the learned speed of a
	// replica. Default: 0.1.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) >= 0",message="must not be negative"
	// +optional
	SpeedWeight *resource.Quantity `json:"speedWeight,omitempty"`

	// queueFactor is the maximum length of the queue, as a multiple of the length that the
	// model predicts. Default: 3.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="must be above 0"
	// +optional
	QueueFactor *resource.Quantity `json:"queueFactor,omitempty"`

	// drainTime is the time in which additional replicas should process an excess queue.
	// Default: 10s.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1ms') && duration(self) <= duration('1h')",message="must be between 1ms and 1h"
	// +optional
	DrainTime *metav1.Duration `json:"drainTime,omitempty"`
}

// InverseQueueConstants are the constants of the law InverseQueue.
type InverseQueueConstants struct {
	// gap is the maximum difference of arrival rates that share a reference model, in requests
	// per second. Default: 5.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="must be above 0"
	// +optional
	Gap *resource.Quantity `json:"gap,omitempty"`

	// reach is the maximum difference between the arrival rate and that of a mature reference
	// model that is used for it, in requests per second. Default: 20.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="must be above 0"
	// +optional
	Reach *resource.Quantity `json:"reach,omitempty"`

	// keep is the number of response times that are stored for each number of replicas.
	// Default: 10.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	Keep *int32 `json:"keep,omitempty"`

	// spread is the maximum deviation of a response time from the mean, as a fraction of the
	// mean. Response times with a larger deviation are ignored. Default: 0.4.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="must be above 0"
	// +optional
	Spread *resource.Quantity `json:"spread,omitempty"`

	// rank specifies which stable mean is the reference response time, counted from the
	// largest. Default: 3.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	Rank *int32 `json:"rank,omitempty"`

	// matureSizes is how many different numbers of replicas must have met the SLO before a
	// reference model is used. Default: 5.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	MatureSizes *int32 `json:"matureSizes,omitempty"`

	// gain is the gain of the integral controller. Default: 0.15.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="must be above 0"
	// +optional
	Gain *resource.Quantity `json:"gain,omitempty"`

	// queueFactor is the length of the queue above which the queue counts as unstable, as a
	// multiple of the length that the model predicts. Default: 10.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="must be above 0"
	// +optional
	QueueFactor *resource.Quantity `json:"queueFactor,omitempty"`

	// responseFactor is the response time above which the queue counts as unstable, as a
	// multiple of the response time that the model predicts. Default: 1.2.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="must be above 0"
	// +optional
	ResponseFactor *resource.Quantity `json:"responseFactor,omitempty"`

	// drainTime is the time in which additional replicas should process an excess queue.
	// Default: 10s.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1ms') && duration(self) <= duration('1h')",message="must be between 1ms and 1h"
	// +optional
	DrainTime *metav1.Duration `json:"drainTime,omitempty"`

	// maxModels is the maximum number of reference models in memory. Default: 200.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	MaxModels *int32 `json:"maxModels,omitempty"`
}

// DoubleThresholdConstants are the constants of the law DoubleThreshold.
type DoubleThresholdConstants struct {
	// alphaPercent is the target utilization, in percent. Default: 50.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	AlphaPercent *int32 `json:"alphaPercent,omitempty"`

	// betaPercent is the utilization above which scaling out is urgent, in percent. Default:
	// 70.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	BetaPercent *int32 `json:"betaPercent,omitempty"`

	// delta is the growth of utilization between two samples that counts as normal, as a
	// fraction. Default: 0.1.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="must be above 0"
	// +optional
	Delta *resource.Quantity `json:"delta,omitempty"`

	// epsilon is the growth of utilization between two samples that counts as rapid, as a
	// fraction. Default: 0.3.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="must be above 0"
	// +optional
	Epsilon *resource.Quantity `json:"epsilon,omitempty"`

	// window is the number of samples that are evaluated. Default: 3.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=100
	// +optional
	Window *int32 `json:"window,omitempty"`

	// rapidFactor is the factor by which the mean growth is multiplied in a rapid scale-out.
	// Default: 10.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="must be above 0"
	// +optional
	RapidFactor *resource.Quantity `json:"rapidFactor,omitempty"`

	// calm is the time to the next sample if utilization is below alphaPercent. Default: 30s.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="must be between 1s and 1h"
	// +optional
	Calm *metav1.Duration `json:"calm,omitempty"`

	// busy is the time to the next sample if utilization is between alphaPercent and
	// betaPercent. Default: 10s.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="must be between 1s and 1h"
	// +optional
	Busy *metav1.Duration `json:"busy,omitempty"`

	// urgent is the time to the next sample if utilization is above betaPercent. Default: 1s.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="must be between 1s and 1h"
	// +optional
	Urgent *metav1.Duration `json:"urgent,omitempty"`
}

// ReplicaMetrics specifies the source of the measurements. A query in queries replaces the
// query of the preset for the same measurement. Without queueLength, the queue length is
// computed as arrival rate times response time (Little's law). Without utilization, it is
// computed from the arrival rate and service.ratePerReplica.
//
// +kubebuilder:validation:XValidation:rule="has(self.preset) || has(self.queries)",message="preset or queries is required"
type ReplicaMetrics struct {
	// source is the name of a Prometheus server: "default" is the server of the autoscaler's
	// option --metrics-url; the option --metrics-sources names others.
	// +kubebuilder:default=default
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Source string `json:"source,omitempty"`

	// preset specifies predefined queries for well-known metrics.
	// +optional
	Preset *MetricPreset `json:"preset,omitempty"`

	// queries are PromQL queries. Each must return one sample.
	// +optional
	Queries *MetricQueries `json:"queries,omitempty"`

	// maxAge is the maximum age of measurements on which decisions are based.
	// +kubebuilder:default="1m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="must be between 1s and 1h"
	// +optional
	MaxAge metav1.Duration `json:"maxAge,omitempty,omitzero"`
}

// MetricPreset specifies predefined queries for well-known metrics.
type MetricPreset struct {
	// name is the name of the preset: ingress-nginx, nginx, container-cpu, pod-usage or
	// work-queue.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name"`

	// parameters are the parameters of the preset. docs/replicas.md describes them.
	// +kubebuilder:validation:MaxProperties=16
	// +optional
	Parameters map[string]PresetParameter `json:"parameters,omitempty"`
}

// PresetParameter is the value of a parameter of a preset.
//
// +kubebuilder:validation:MaxLength=253
type PresetParameter string

// MetricQueries are PromQL queries, one for each measurement.
//
// +kubebuilder:validation:MinProperties=1
type MetricQueries struct {
	// arrivalRate is the query for the arrival rate, in requests per second.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	ArrivalRate string `json:"arrivalRate,omitempty"`

	// responseTime is the query for the mean response time of recent requests, in seconds.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	ResponseTime string `json:"responseTime,omitempty"`

	// queueLength is the query for the number of requests that are waiting or being served.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	QueueLength string `json:"queueLength,omitempty"`

	// utilization is the query for the mean utilization of a Ready replica, in percent of its
	// requests.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Utilization string `json:"utilization,omitempty"`
}

// ReplicaPolicyStatus contains the last measurements and decisions of a policy.
type ReplicaPolicyStatus struct {
	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready, Measured, Limited, Conflict and Remembered.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// specReplicas is the desired number of replicas in the spec of the target.
	// +optional
	SpecReplicas int32 `json:"specReplicas"`

	// replicas is the number of pods of the target, without those that are terminating.
	// +optional
	Replicas int32 `json:"replicas"`

	// readyReplicas is the number of Ready pods of the target.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// desiredReplicas is the number of replicas that the law requests. It is 0 until the law
	// has decided for the first time.
	// +optional
	DesiredReplicas int32 `json:"desiredReplicas"`

	// lastObservation is the law's input when the status was last written.
	// +optional
	LastObservation *ReplicaObservation `json:"lastObservation,omitempty"`

	// lastDecision is the last decision that changed the desired number of replicas.
	// +optional
	LastDecision *ReplicaDecision `json:"lastDecision,omitempty"`

	// startUp is the learned time from the creation of a pod until it is Ready.
	// +optional
	StartUp *LearnedTime `json:"startUp,omitempty"`

	// memory is the learned state of the law. A new leader continues from it. What the law has
	// learned since the memory was written, which is at most one minute ago, is then lost.
	// +optional
	Memory *LawMemory `json:"memory,omitempty"`
}

// ReplicaObservation contains the measurements at one time. Measurements that were not
// available are unset.
type ReplicaObservation struct {
	// time is the time of the measurements.
	Time metav1.Time `json:"time"`

	// arrivalRate is the arrival rate, in requests per second.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	ArrivalRate string `json:"arrivalRate,omitempty"`

	// responseTime is the mean response time.
	// +optional
	ResponseTime *metav1.Duration `json:"responseTime,omitempty"`

	// queueLength is the number of requests that are waiting or being served.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	QueueLength string `json:"queueLength,omitempty"`

	// utilizationPercent is the mean utilization of a Ready replica, in percent of its
	// requests.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	UtilizationPercent string `json:"utilizationPercent,omitempty"`

	// specReplicas is the desired number of replicas: the one in the target's spec or, in
	// modes Observe and ViaHPA, the one that the law requests.
	SpecReplicas int32 `json:"specReplicas"`

	// readyReplicas is the number of Ready pods.
	ReadyReplicas int32 `json:"readyReplicas"`

	// notes list missing measurements, values that were computed instead, and warnings of the
	// source.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=1024
	// +optional
	Notes []string `json:"notes,omitempty"`
}

// ReplicaDecision is a decision of the law and its reasons.
type ReplicaDecision struct {
	// time is the time of the decision.
	Time metav1.Time `json:"time"`

	// mode is the mode of the policy at the time of the decision. In mode Observe nothing was
	// changed.
	Mode ReplicaMode `json:"mode"`

	// from is the desired number of replicas before the decision.
	From int32 `json:"from"`

	// to is the desired number of replicas after the decision.
	To int32 `json:"to"`

	// reasons explain the number of replicas, with the most important reason first.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=1024
	Reasons []string `json:"reasons"`

	// observation contains the measurements on which the decision is based.
	Observation ReplicaObservation `json:"observation"`

	// expected is the outcome that the model predicts for this number of replicas at the
	// measured arrival rate.
	// +optional
	Expected ReplicaOutcome `json:"expected,omitempty"`

	// measured is the actual outcome. It is set from the first measurement after all replicas
	// have been Ready for maxAge.
	// +optional
	Measured *ReplicaOutcome `json:"measured,omitempty"`
}

// ReplicaOutcome is the outcome of a decision.
type ReplicaOutcome struct {
	// arrivalRate is the arrival rate, in requests per second.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	ArrivalRate string `json:"arrivalRate,omitempty"`

	// responseTime is the mean response time.
	// +optional
	ResponseTime *metav1.Duration `json:"responseTime,omitempty"`

	// utilizationPercent is the mean utilization of a replica, in percent of its requests.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	UtilizationPercent string `json:"utilizationPercent,omitempty"`

	// readySeconds is the time from the decision until all replicas are Ready, in seconds.
	// +optional
	ReadySeconds int64 `json:"readySeconds,omitempty"`
}

// LawMemory is the learned state of a law.
type LawMemory struct {
	// of identifies the law, SLO and service model for which the state was learned. The state
	// is not used with others.
	// +kubebuilder:validation:MaxLength=256
	Of string `json:"of"`

	// time is the time at which the state was written.
	Time metav1.Time `json:"time"`

	// data is the state in a format private to the law, at most 128 KiB of JSON.
	// +kubebuilder:pruning:PreserveUnknownFields
	Data runtime.RawExtension `json:"data"`
}

// The conditions of a ReplicaPolicy.
const (
	// PolicyReady means that the target is reconciled: the law decides, and its decisions are
	// carried out as the mode specifies.
	PolicyReady = "Ready"
	// PolicyMeasured means that all required measurements were available at the last
	// evaluation. While it is false, the number of replicas does not change.
	PolicyMeasured = "Measured"
	// PolicyLimited means that the law requests the maximum number of replicas, so that there
	// may be too few.
	PolicyLimited = "Limited"
	// PolicyConflict means that something else also scales the target: a
	// HorizontalPodAutoscaler while the mode is Act, or an older policy.
	PolicyConflict = "Conflict"
	// PolicyRemembered means that the state of the law is stored in the status.
	PolicyRemembered = "Remembered"
)
