package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ReplicaPolicy says how many replicas a service has, so that it answers in time at the
// least cost: a control law looks at what is measured and decides.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=rp,categories=supercargo
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.target.kind`
// +kubebuilder:printcolumn:name="Target",type=string,JSONPath=`.spec.target.name`
// +kubebuilder:printcolumn:name="Law",type=string,JSONPath=`.spec.law.name`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Asked",type=integer,JSONPath=`.status.askedReplicas`
// +kubebuilder:printcolumn:name="Ready pods",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Wanted",type=integer,JSONPath=`.status.wantedReplicas`
// +kubebuilder:printcolumn:name="Measured",type=string,JSONPath=`.status.conditions[?(@.type=="Measured")].status`,priority=1
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ReplicaPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what is to be kept, and by what.
	// +required
	Spec ReplicaPolicySpec `json:"spec"`

	// status is what was measured and decided, and why.
	// +optional
	Status ReplicaPolicyStatus `json:"status,omitempty"`
}

// ReplicaPolicyList is a list of replica policies.
//
// +kubebuilder:object:root=true
type ReplicaPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the policies.
	Items []ReplicaPolicy `json:"items"`
}

// ReplicaMode says what becomes of decisions.
//
// +kubebuilder:validation:Enum=Act;Observe;ViaHPA
type ReplicaMode string

const (
	// ReplicasAct writes the scale of the target.
	ReplicasAct ReplicaMode = "Act"
	// ReplicasObserve decides and shows why, and changes nothing.
	ReplicasObserve ReplicaMode = "Observe"
	// ReplicasViaHPA publishes the wanted replicas as a metric, which a stock
	// HorizontalPodAutoscaler follows within its own limits.
	ReplicasViaHPA ReplicaMode = "ViaHPA"
)

// ReplicaLaw names a control law.
//
// +kubebuilder:validation:Enum=Predictive;InverseQueue;DoubleThreshold
type ReplicaLaw string

const (
	// LawPredictive asks a queueing model what the forecast rate needs, and corrects model
	// and forecast by what is measured.
	LawPredictive ReplicaLaw = "Predictive"
	// LawInverseQueue is FeedBack_InverseQM of Cai and Buyya.
	LawInverseQueue ReplicaLaw = "InverseQueue"
	// LawDoubleThreshold is DHPA of Jiang and Wu.
	LawDoubleThreshold ReplicaLaw = "DoubleThreshold"
)

// ReplicaPolicySpec says what is to be kept, and by what.
//
// +kubebuilder:validation:XValidation:rule="self.minReplicas <= self.maxReplicas",message="minReplicas must not exceed maxReplicas"
// +kubebuilder:validation:XValidation:rule="self.law.name == 'DoubleThreshold' || has(self.slo) && has(self.service)",message="this law needs slo, the response time to keep, and service, what one replica can do"
type ReplicaPolicySpec struct {
	// target is what is scaled: anything with the scale subresource, in the namespace of
	// the policy.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed: make another ReplicaPolicy"
	// +required
	Target ReplicaTarget `json:"target"`

	// mode says what becomes of decisions.
	// +kubebuilder:default=Act
	// +optional
	Mode ReplicaMode `json:"mode,omitempty"`

	// minReplicas is the least number of replicas.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	// +optional
	MinReplicas int32 `json:"minReplicas,omitempty"`

	// maxReplicas is the greatest number of replicas.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	// +required
	MaxReplicas int32 `json:"maxReplicas"`

	// slo is what is promised to those who ask.
	// +optional
	SLO *ServiceLevel `json:"slo,omitempty"`

	// service says what one replica can do.
	// +optional
	Service *ServiceModel `json:"service,omitempty"`

	// law decides.
	// +kubebuilder:default={}
	// +optional
	Law ReplicaLawSpec `json:"law,omitempty"`

	// metrics says where measurements come from.
	// +required
	Metrics ReplicaMetrics `json:"metrics"`
}

// ReplicaTarget names an object with the scale subresource.
type ReplicaTarget struct {
	// apiVersion is group and version.
	// +kubebuilder:default="apps/v1"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`

	// kind is that of the object. The autoscaler is told by --scale-kinds which ones it may
	// scale.
	// +kubebuilder:default=Deployment
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Kind string `json:"kind,omitempty"`

	// name is that of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
}

// ServiceLevel is what is promised.
type ServiceLevel struct {
	// responseTime is the mean response time to keep. It must be longer than one request
	// alone takes.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1ms') && duration(self) <= duration('1h')",message="must be between 1ms and 1h"
	// +required
	ResponseTime metav1.Duration `json:"responseTime"`
}

// ServiceModel is what one replica can do: at an arrival rate lambda it serves
// ratePerReplica + speedUp/lambda requests per second.
//
// +kubebuilder:validation:XValidation:rule="!has(self.pastWeight) || quantity(string(self.pastWeight)).isLessThan(quantity('1'))",message="pastWeight must be below 1"
type ServiceModel struct {
	// ratePerReplica is how many requests per second one replica serves while it is
	// busy all the time: 1 by the mean time of one request alone, such as "12.5".
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="must be above 0"
	// +required
	RatePerReplica resource.Quantity `json:"ratePerReplica"`

	// speedUp is by how much a replica is faster while few requests come, in requests
	// squared per second squared. Default: 0.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) >= 0",message="must not be negative"
	// +optional
	SpeedUp *resource.Quantity `json:"speedUp,omitempty"`

	// pastWeight is the weight of the last response time in the next. Default: 0.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) >= 0",message="must not be negative"
	// +optional
	PastWeight *resource.Quantity `json:"pastWeight,omitempty"`

	// peakArrivalRate is the highest rate expected, in requests per second. With a speedUp,
	// an SLO that cannot be kept there is refused.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="must be above 0"
	// +optional
	PeakArrivalRate *resource.Quantity `json:"peakArrivalRate,omitempty"`
}

// ReplicaLawSpec chooses a law and its constants. What is not given is as
// docs/replicas.md says.
//
// +kubebuilder:validation:XValidation:rule="!has(self.predictive) || self.name == 'Predictive'",message="predictive is for the law Predictive"
// +kubebuilder:validation:XValidation:rule="!has(self.inverseQueue) || self.name == 'InverseQueue'",message="inverseQueue is for the law InverseQueue"
// +kubebuilder:validation:XValidation:rule="!has(self.doubleThreshold) || self.name == 'DoubleThreshold'",message="doubleThreshold is for the law DoubleThreshold"
type ReplicaLawSpec struct {
	// name is that of the law.
	// +kubebuilder:default=Predictive
	// +optional
	Name ReplicaLaw `json:"name,omitempty"`

	// interval is the control interval of Predictive and InverseQueue.
	// +kubebuilder:default="250s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="must be between 1s and 24h"
	// +optional
	Interval metav1.Duration `json:"interval,omitempty,omitzero"`

	// predictive has the constants of that law.
	// +optional
	Predictive *PredictiveConstants `json:"predictive,omitempty"`

	// inverseQueue has the constants of that law.
	// +optional
	InverseQueue *InverseQueueConstants `json:"inverseQueue,omitempty"`

	// doubleThreshold has the constants of that law.
	// +optional
	DoubleThreshold *DoubleThresholdConstants `json:"doubleThreshold,omitempty"`
}

// PredictiveConstants are the constants of the law Predictive.
type PredictiveConstants struct {
	// watch is the time between two looks. Default: a tenth of the interval, at least 1s.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="must be between 1s and 24h"
	// +optional
	Watch *metav1.Duration `json:"watch,omitempty"`

	// violations is the share of control intervals that may break the SLO. Default: 0.05.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="must be above 0"
	// +optional
	Violations *resource.Quantity `json:"violations,omitempty"`

	// margin is the margin at the beginning, in standard deviations of the forecast's error.
	// Default: 0.5.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) >= 0",message="must not be negative"
	// +optional
	Margin *resource.Quantity `json:"margin,omitempty"`

	// maxMargin is the greatest margin. Default: 8.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="must be above 0"
	// +optional
	MaxMargin *resource.Quantity `json:"maxMargin,omitempty"`

	// marginStep is by how much the margin grows after a broken interval. Default: 0.2.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="must be above 0"
	// +optional
	MarginStep *resource.Quantity `json:"marginStep,omitempty"`

	// headroom is added to the forecast, as a share of it. Default: 0.015.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) >= 0",message="must not be negative"
	// +optional
	Headroom *resource.Quantity `json:"headroom,omitempty"`

	// speedWeight is the weight of the last interval in the learned speed. Default: 0.1.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) >= 0",message="must not be negative"
	// +optional
	SpeedWeight *resource.Quantity `json:"speedWeight,omitempty"`

	// queueFactor is how many times longer than the model says the line may be. Default: 3.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="must be above 0"
	// +optional
	QueueFactor *resource.Quantity `json:"queueFactor,omitempty"`

	// drainTime is the time in which added replicas are to work off a line. Default: 10s.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1ms') && duration(self) <= duration('1h')",message="must be between 1ms and 1h"
	// +optional
	DrainTime *metav1.Duration `json:"drainTime,omitempty"`
}

// InverseQueueConstants are the constants of the law InverseQueue.
type InverseQueueConstants struct {
	// gap is how near arrival rates share a reference model, in requests per second.
	// Default: 5.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="must be above 0"
	// +optional
	Gap *resource.Quantity `json:"gap,omitempty"`

	// reach is how far a mature reference model is used, in requests per second.
	// Default: 20.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="must be above 0"
	// +optional
	Reach *resource.Quantity `json:"reach,omitempty"`

	// keep is how many response times are kept for each number of replicas. Default: 10.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	Keep *int32 `json:"keep,omitempty"`

	// spread is how far from their mean, as a share of it, response times may be and still
	// count. Default: 0.4.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="must be above 0"
	// +optional
	Spread *resource.Quantity `json:"spread,omitempty"`

	// rank says which of the stable means is the reference, from the largest. Default: 3.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	Rank *int32 `json:"rank,omitempty"`

	// matureSizes is how many numbers of replicas must have kept the SLO before a model
	// guides. Default: 5.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	MatureSizes *int32 `json:"matureSizes,omitempty"`

	// gain is that of the integral controller. Default: 0.15.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="must be above 0"
	// +optional
	Gain *resource.Quantity `json:"gain,omitempty"`

	// queueFactor is how many times longer than the model says the queue may be before it
	// counts as not stable. Default: 10.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="must be above 0"
	// +optional
	QueueFactor *resource.Quantity `json:"queueFactor,omitempty"`

	// responseFactor is the same for the response time. Default: 1.2.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="must be above 0"
	// +optional
	ResponseFactor *resource.Quantity `json:"responseFactor,omitempty"`

	// drainTime is the time in which added replicas are to work off a queue. Default: 10s.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1ms') && duration(self) <= duration('1h')",message="must be between 1ms and 1h"
	// +optional
	DrainTime *metav1.Duration `json:"drainTime,omitempty"`

	// maxModels bounds the memory. Default: 200.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	MaxModels *int32 `json:"maxModels,omitempty"`
}

// DoubleThresholdConstants are the constants of the law DoubleThreshold.
type DoubleThresholdConstants struct {
	// alphaPercent is the utilisation to keep. Default: 50.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	AlphaPercent *int32 `json:"alphaPercent,omitempty"`

	// betaPercent is the utilisation above which it is urgent. Default: 70.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	BetaPercent *int32 `json:"betaPercent,omitempty"`

	// delta is the growth between samples that counts as normal, as a share. Default: 0.1.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="must be above 0"
	// +optional
	Delta *resource.Quantity `json:"delta,omitempty"`

	// epsilon is the growth that counts as rapid. Default: 0.3.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="must be above 0"
	// +optional
	Epsilon *resource.Quantity `json:"epsilon,omitempty"`

	// window is how many samples are looked at. Default: 3.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=100
	// +optional
	Window *int32 `json:"window,omitempty"`

	// rapidFactor multiplies the mean growth in a rapid scale-out. Default: 10.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="must be above 0"
	// +optional
	RapidFactor *resource.Quantity `json:"rapidFactor,omitempty"`

	// calm is the time to the next sample under alphaPercent. Default: 30s.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="must be between 1s and 1h"
	// +optional
	Calm *metav1.Duration `json:"calm,omitempty"`

	// busy is the time to the next sample between the two. Default: 10s.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="must be between 1s and 1h"
	// +optional
	Busy *metav1.Duration `json:"busy,omitempty"`

	// urgent is the time to the next sample over betaPercent. Default: 1s.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="must be between 1s and 1h"
	// +optional
	Urgent *metav1.Duration `json:"urgent,omitempty"`
}

// ReplicaMetrics says where measurements come from. Queries of one's own take the place of
// those of the preset. Where there is no queueLength, arrival rate times response time is
// used (Little's law); where there is no utilization, what the arrival rate makes of
// service.ratePerReplica.
//
// +kubebuilder:validation:XValidation:rule="has(self.preset) || has(self.queries)",message="give preset or queries: what is to be measured"
type ReplicaMetrics struct {
	// source names a server that the autoscaler was told of by --metrics-url, which is
	// "default", or --metrics-sources.
	// +kubebuilder:default=default
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Source string `json:"source,omitempty"`

	// preset has queries for well-known metrics.
	// +optional
	Preset *MetricPreset `json:"preset,omitempty"`

	// queries are in PromQL. Each answers one sample.
	// +optional
	Queries *MetricQueries `json:"queries,omitempty"`

	// maxAge is how old measurements may be to decide by.
	// +kubebuilder:default="1m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="must be between 1s and 1h"
	// +optional
	MaxAge metav1.Duration `json:"maxAge,omitempty,omitzero"`
}

// MetricPreset names queries for well-known metrics.
type MetricPreset struct {
	// name is that of the preset: ingress-nginx, nginx, container-cpu, pod-usage or
	// work-queue.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name"`

	// parameters are what the preset asks for, as docs/replicas.md says.
	// +kubebuilder:validation:MaxProperties=16
	// +optional
	Parameters map[string]PresetParameter `json:"parameters,omitempty"`
}

// PresetParameter is the value of a parameter of a preset.
//
// +kubebuilder:validation:MaxLength=253
type PresetParameter string

// MetricQueries are PromQL, one for each measurement.
//
// +kubebuilder:validation:MinProperties=1
type MetricQueries struct {
	// arrivalRate is requests per second.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	ArrivalRate string `json:"arrivalRate,omitempty"`

	// responseTime is the mean, in seconds, of requests that were answered of late.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	ResponseTime string `json:"responseTime,omitempty"`

	// queueLength is the requests inside, waiting and in service.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	QueueLength string `json:"queueLength,omitempty"`

	// utilization is the mean load of a Ready replica, in percent of what it requests.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Utilization string `json:"utilization,omitempty"`
}

// ReplicaPolicyStatus is what was measured and decided, and why.
type ReplicaPolicyStatus struct {
	// observedGeneration is the generation of the spec that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready, Measured, Limited, Conflict and Remembered.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// askedReplicas is how many the target is to have by its own spec.
	// +optional
	AskedReplicas int32 `json:"askedReplicas"`

	// replicas is how many pods the target has, those that are leaving not counted.
	// +optional
	Replicas int32 `json:"replicas"`

	// readyReplicas is how many of them are Ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// wantedReplicas is how many the law asks for; 0 while it has not looked yet.
	// +optional
	WantedReplicas int32 `json:"wantedReplicas"`

	// lastObservation is what the law saw when the status was written.
	// +optional
	LastObservation *ReplicaObservation `json:"lastObservation,omitempty"`

	// lastDecision is the last one that changed the wanted replicas.
	// +optional
	LastDecision *ReplicaDecision `json:"lastDecision,omitempty"`

	// startUp is how long pods took from their creation until they were Ready.
	// +optional
	StartUp *LearnedTime `json:"startUp,omitempty"`

	// memory is what the law has learned. Whoever takes over continues from it; what was
	// learned after it was written, in a minute or less, is lost then.
	// +optional
	Memory *LawMemory `json:"memory,omitempty"`
}

// ReplicaObservation is what was seen at a moment. A measurement that is missing was not
// to be had.
type ReplicaObservation struct {
	// time of the measurements.
	Time metav1.Time `json:"time"`

	// arrivalRate is requests per second.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	ArrivalRate string `json:"arrivalRate,omitempty"`

	// responseTime is the mean response time.
	// +optional
	ResponseTime *metav1.Duration `json:"responseTime,omitempty"`

	// queueLength is requests inside, waiting and in service.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	QueueLength string `json:"queueLength,omitempty"`

	// utilizationPercent is the mean load of a Ready replica.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	UtilizationPercent string `json:"utilizationPercent,omitempty"`

	// askedReplicas is how many were asked for: by the target's spec, or in modes Observe
	// and ViaHPA by the law itself.
	AskedReplicas int32 `json:"askedReplicas"`

	// readyReplicas is how many pods were Ready.
	ReadyReplicas int32 `json:"readyReplicas"`

	// notes say what is missing, what was computed instead, and what the source warns of.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=1024
	// +optional
	Notes []string `json:"notes,omitempty"`
}

// ReplicaDecision says what was decided, and why.
type ReplicaDecision struct {
	// time is when it was made.
	Time metav1.Time `json:"time"`

	// mode in which it was made: in Observe nothing was changed.
	Mode ReplicaMode `json:"mode"`

	// from is how many replicas were asked for before.
	From int32 `json:"from"`

	// to is how many are asked for.
	To int32 `json:"to"`

	// reasons are what led to the number, the most important first.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=1024
	Reasons []string `json:"reasons"`

	// observation is what it was decided on.
	Observation ReplicaObservation `json:"observation"`

	// expected is what the model expects of so many replicas at the rate that was measured.
	// +optional
	Expected ReplicaOutcome `json:"expected,omitempty"`

	// measured is what came of it: the first look after all replicas were Ready for as long
	// as measurements may be old.
	// +optional
	Measured *ReplicaOutcome `json:"measured,omitempty"`
}

// ReplicaOutcome is what a decision leads to.
type ReplicaOutcome struct {
	// arrivalRate is requests per second.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	ArrivalRate string `json:"arrivalRate,omitempty"`

	// responseTime is the mean response time.
	// +optional
	ResponseTime *metav1.Duration `json:"responseTime,omitempty"`

	// utilizationPercent is the mean load of a replica.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	UtilizationPercent string `json:"utilizationPercent,omitempty"`

	// readySeconds is the time until all replicas are Ready.
	// +optional
	ReadySeconds int64 `json:"readySeconds,omitempty"`
}

// LawMemory is what a law has learned.
type LawMemory struct {
	// of says what it was learned for: law, SLO and service. For anything else it is not
	// used.
	// +kubebuilder:validation:MaxLength=256
	Of string `json:"of"`

	// time is when it was written.
	Time metav1.Time `json:"time"`

	// data is known to the law alone: at most 128 KiB of JSON.
	// +kubebuilder:pruning:PreserveUnknownFields
	Data runtime.RawExtension `json:"data"`
}

// The conditions of a ReplicaPolicy.
const (
	// PolicyReady says that the target is looked after: the law decides, and what it decides
	// is carried out as the mode says.
	PolicyReady = "Ready"
	// PolicyMeasured says that all that the law needs was measured at the last look. While it
	// is not, replicas stay as they are.
	PolicyMeasured = "Measured"
	// PolicyLimited says that the law asks for as many replicas as are allowed: there may be
	// too few.
	PolicyLimited = "Limited"
	// PolicyConflict says that something else scales the target: a HorizontalPodAutoscaler in
	// mode Act, or an older policy.
	PolicyConflict = "Conflict"
	// PolicyRemembered says that the law's memory is in the status.
	PolicyRemembered = "Remembered"
)
