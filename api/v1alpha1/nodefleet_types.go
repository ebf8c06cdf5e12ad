package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeFleet is a group of unequal machines that is kept as cheap as the pods
// allow: machines are bought for unschedulable pods, and released when
// they are no longer worth their price.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=nf,categories=supercargo
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Class",type=string,JSONPath=`.spec.class`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Machines",type=integer,JSONPath=`.status.machines`
// +kubebuilder:printcolumn:name="In flight",type=integer,JSONPath=`.status.inFlight`
// +kubebuilder:printcolumn:name="Pending",type=integer,JSONPath=`.status.pendingPods`
// +kubebuilder:printcolumn:name="Dollars/h",type=string,JSONPath=`.status.cost.dollarsPerHour`
// +kubebuilder:printcolumn:name="Bound",type=string,JSONPath=`.status.cost.lowerBoundDollarsPerHour`,priority=1
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NodeFleet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the fleet is to be.
	// +required
	Spec NodeFleetSpec `json:"spec"`

	// status is what it is, and why.
	// +optional
	Status NodeFleetStatus `json:"status,omitempty"`
}

// NodeFleetList is a list of fleets.
//
// +kubebuilder:object:root=true
type NodeFleetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the fleets.
	Items []NodeFleet `json:"items"`
}

// FleetClass says which pods the machines of a fleet take.
//
// +kubebuilder:validation:Enum=Any;Batch;Service
type FleetClass string

const (
	// FleetAny takes batch pods and services.
	FleetAny FleetClass = "Any"
	// FleetBatch takes batch pods alone: such machines empty by themselves.
	FleetBatch FleetClass = "Batch"
	// FleetService takes services alone.
	FleetService FleetClass = "Service"
)

// FleetMode says whether decisions are carried out.
//
// +kubebuilder:validation:Enum=Act;Observe
type FleetMode string

const (
	// FleetAct carries decisions out.
	FleetAct FleetMode = "Act"
	// FleetObserve decides and shows why, and changes no machine.
	FleetObserve FleetMode = "Observe"
)

// FleetProvider says where machines come from.
//
// +kubebuilder:validation:Enum=ClusterAPI;OpenStack
type FleetProvider string

const (
	// FleetClusterAPI scales MachineDeployments of cluster-api.
	FleetClusterAPI FleetProvider = "ClusterAPI"
	// FleetOpenStack rents servers of an OpenStack.
	FleetOpenStack FleetProvider = "OpenStack"
)

// NodeFleetSpec is what a fleet is to be.
//
// +kubebuilder:validation:XValidation:rule="self.provider != 'ClusterAPI' || has(self.clusterAPI)",message="provider ClusterAPI needs clusterAPI, which says which MachineDeployments the fleet may scale"
// +kubebuilder:validation:XValidation:rule="!has(self.clusterAPI) || !has(self.clusterAPI.templates) || has(self.pricing.list) || has(self.pricing.catalogue)",message="clusterAPI.templates need pricing.list or pricing.catalogue, which say which instance types there are"
// +kubebuilder:validation:XValidation:rule="(self.provider == 'OpenStack') == has(self.openStack)",message="give openStack, which says what servers are made from, with provider OpenStack and with no other"
type NodeFleetSpec struct {
	// class says which pods the machines take. Nodes that carry another
	// supercargo.dev/class label do not belong to the fleet.
	// +kubebuilder:default=Any
	// +optional
	Class FleetClass `json:"class,omitempty"`

	// mode is Act, or Observe to see decisions without any machine being changed.
	// +kubebuilder:default=Act
	// +optional
	Mode FleetMode `json:"mode,omitempty"`

	// provider says where machines come from.
	// +kubebuilder:default=ClusterAPI
	// +optional
	Provider FleetProvider `json:"provider,omitempty"`

	// clusterAPI says which MachineDeployments are the flavors of the fleet.
	// +optional
	ClusterAPI *ClusterAPIFlavors `json:"clusterAPI,omitempty"`

	// openStack says what the servers of the fleet are made from.
	// +optional
	OpenStack *OpenStackServers `json:"openStack,omitempty"`

	// pricing says what machines cost and how they are billed.
	// +kubebuilder:default={}
	// +optional
	Pricing FleetPricing `json:"pricing,omitempty"`

	// limits are never exceeded by what the fleet buys; machines that are on their way
	// count. What is there already is not released for them.
	// +optional
	Limits FleetLimits `json:"limits,omitempty"`

	// scaling says when machines are bought, and when one that is not ready is abandoned.
	// +kubebuilder:default={}
	// +optional
	Scaling FleetScaling `json:"scaling,omitempty"`

	// consolidation says when machines are released.
	// +kubebuilder:default={}
	// +optional
	Consolidation FleetConsolidation `json:"consolidation,omitempty"`
}

// ClusterAPIFlavors says what machines are made from: MachineDeployments, each of which is a flavor,
// or templates, of which the fleet makes a MachineDeployment for each instance type that it buys.
//
// +kubebuilder:validation:XValidation:rule="(has(self.names) ? 1 : 0) + (has(self.selector) ? 1 : 0) + (has(self.templates) ? 1 : 0) == 1",message="give one of names, selector and templates: which MachineDeployments of the namespace the fleet may scale, or of which it makes others"
type ClusterAPIFlavors struct {
	// namespace is where the MachineDeployments are.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Namespace string `json:"namespace"`

	// names are those of the MachineDeployments.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +optional
	Names []string `json:"names,omitempty"`

	// selector chooses MachineDeployments by their labels. An empty one chooses all.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// templates say which MachineDeployments the fleet copies, with which instance types. Each
	// instance type of spec.pricing is a flavor then. No other fleet may have the same ones.
	// +listType=map
	// +listMapKey=machineDeployment
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Templates []MachineTemplate `json:"templates,omitempty"`
}

// MachineTemplate is a MachineDeployment that is copied for each instance type that is bought. It is
// never scaled itself, and may have 0 replicas.
//
// A copy and its infrastructure template are made when the first machine of an instance type is
// bought, and removed when the last one has gone. When the MachineDeployment or its infrastructure
// template changes, further machines are made from new copies; those that there are continue.
type MachineTemplate struct {
	// machineDeployment is its name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	MachineDeployment string `json:"machineDeployment"`

	// instanceTypeField is where its infrastructure template holds the instance type, such as
	// spec.template.spec.instanceType. There must be text in this place. Default: that of
	// AWSMachineTemplate, AzureMachineTemplate, GCPMachineTemplate and OpenStackMachineTemplate.
	// +kubebuilder:validation:Pattern=`^spec(\.[A-Za-z][A-Za-z0-9]*)+$`
	// +kubebuilder:validation:MaxLength=253
	// +optional
	InstanceTypeField string `json:"instanceTypeField,omitempty"`

	// instanceTypes are those that may be bought, such as m7i.large; * stands for any text, as in
	// m7i.*, and ! before one excludes what it matches. Default: all but those that are Burstable
	// or Accelerated.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:Pattern=`^!?[A-Za-z0-9*][A-Za-z0-9*._-]*$`
	// +kubebuilder:validation:items:MaxLength=63
	// +optional
	InstanceTypes []string `json:"instanceTypes,omitempty"`

	// architecture is that of its image, and so of the instance types that it is used with.
	// +kubebuilder:default=amd64
	// +kubebuilder:validation:Enum=amd64;arm64;ppc64le;s390x;riscv64
	// +optional
	Architecture string `json:"architecture,omitempty"`

	// failureDomains are those that machines may be made in. Default: that of the
	// MachineDeployment.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +optional
	FailureDomains []string `json:"failureDomains,omitempty"`
}

// FleetPricing says what machines cost. The annotation supercargo.dev/price-per-hour counts before the
// catalogue, and that before the list.
//
// +kubebuilder:validation:XValidation:rule="has(self.list) == has(self.region)",message="give list and region together: list prices differ by region"
type FleetPricing struct {
	// list names the list prices of a cloud provider: aws, azure or gcp.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	List string `json:"list,omitempty"`

	// region is the one whose prices count, such as us-east-1.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Region string `json:"region,omitempty"`

	// catalogue has your own prices.
	// +optional
	Catalogue *PriceCatalogue `json:"catalogue,omitempty"`

	// billingPeriod is the unit in which machines are paid, every started one in
	// full. A machine that is paid for is kept until the period ends if it may be
	// needed.
	// +kubebuilder:default="1m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('8784h')",message="must be between 1s and 8784h"
	// +optional
	BillingPeriod metav1.Duration `json:"billingPeriod,omitempty"`
}

// PriceCatalogue is a CSV file in a ConfigMap, with the columns
// name,cpu,memory_gib,price_per_hour and, where they are known, arch, max_pods and kind. A flavor is found by the name that its
// machines have as node.kubernetes.io/instance-type, else by its own.
type PriceCatalogue struct {
	// namespace of the ConfigMap.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Namespace string `json:"namespace"`

	// name of the ConfigMap.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`

	// key in the ConfigMap.
	// +kubebuilder:default="flavors.csv"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Key string `json:"key,omitempty"`
}

// FleetLimits bound what a fleet buys. What is not given is not limited.
type FleetLimits struct {
	// machines is how many machines the fleet may have.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	// +optional
	Machines *int32 `json:"machines,omitempty"`

	// cpu is how much CPU all machines may have together.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) >= 0",message="must not be negative"
	// +optional
	CPU *resource.Quantity `json:"cpu,omitempty"`

	// memory is how much memory all machines may have together.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) >= 0",message="must not be negative"
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`

	// dollarsPerHour is what all machines may cost together, such as "12.50".
	// +kubebuilder:validation:Pattern=`^[0-9]{1,9}(\.[0-9]{1,6})?$`
	// +optional
	DollarsPerHour *string `json:"dollarsPerHour,omitempty"`
}

// FleetScaling says when machines are bought.
//
// +kubebuilder:validation:XValidation:rule="!has(self.batchIdle) || !has(self.batchMax) || duration(self.batchIdle) <= duration(self.batchMax)",message="batchIdle must not be longer than batchMax"
type FleetScaling struct {
	// interval is how often the fleet is looked at when nothing happens.
	// +kubebuilder:default="1m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="must be between 1s and 24h"
	// +optional
	Interval metav1.Duration `json:"interval,omitempty"`

	// batchIdle is for how long no further pod must have come before machines are
	// bought for those that wait.
	// +kubebuilder:default="1s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('1h')",message="must be between 0s and 1h"
	// +optional
	BatchIdle metav1.Duration `json:"batchIdle,omitempty"`

	// batchMax is how long a pod waits at most for others to come.
	// +kubebuilder:default="10s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('1h')",message="must be between 0s and 1h"
	// +optional
	BatchMax metav1.Duration `json:"batchMax,omitempty"`

	// joinTimeout is how long a machine may take from its order until its node is
	// ready. Then it is abandoned, and no machine of its flavor is bought for backOff.
	// +kubebuilder:default="15m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="must be between 1s and 24h"
	// +optional
	JoinTimeout metav1.Duration `json:"joinTimeout,omitempty"`

	// backOff is how long no machine of a flavor is bought after one of it was
	// abandoned; twice as long each time in a row, up to sixteen times.
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="must be between 1s and 24h"
	// +optional
	BackOff metav1.Duration `json:"backOff,omitempty"`

	// expectedLag is how long a machine is taken to need from its order until its
	// node is ready, while none of its flavor has been seen to come.
	// +kubebuilder:default="2m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('24h')",message="must be between 0s and 24h"
	// +optional
	ExpectedLag metav1.Duration `json:"expectedLag,omitempty"`

	// maxWait is for how much longer than a machine takes to come a pod may wait for room that
	// comes free, where that is expected to cost less than to buy now. A machine is bought for a
	// pod at the latest when it has waited for maxWait and the time that a machine takes.
	// status.deferral says which pods wait, and what that saves. With 0s none does.
	// +kubebuilder:default="0s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('24h')",message="must be between 0s and 24h"
	// +optional
	MaxWait metav1.Duration `json:"maxWait,omitempty"`
}

// ConsolidationPolicy says which machines may be released.
//
// +kubebuilder:validation:Enum=Never;WhenEmpty;WhenUnderUsed
type ConsolidationPolicy string

const (
	// ConsolidateNever gives no machine back.
	ConsolidateNever ConsolidationPolicy = "Never"
	// ConsolidateWhenEmpty releases machines without pods.
	ConsolidateWhenEmpty ConsolidationPolicy = "WhenEmpty"
	// ConsolidateWhenUnderUsed also empties machines that are used little, and exchanges
	// machines for cheaper ones.
	ConsolidateWhenUnderUsed ConsolidationPolicy = "WhenUnderUsed"
)

// ServiceEviction says which pods of services may be evicted to empty a machine.
//
// +kubebuilder:validation:Enum=Never;OptIn;OptOut
type ServiceEviction string

const (
	// EvictServicesNever leaves all pods of services where they are.
	EvictServicesNever ServiceEviction = "Never"
	// EvictServicesOptIn evicts those that say that they may be started again.
	EvictServicesOptIn ServiceEviction = "OptIn"
	// EvictServicesOptOut evicts those, too, that do not say that they may not be.
	EvictServicesOptOut ServiceEviction = "OptOut"
)

// FleetConsolidation says when machines are released. Batch pods are moved only where they
// say that they may be, with their state or by eviction; pods of services as evictServices
// says.
type FleetConsolidation struct {
	// policy says which machines may be released.
	// +kubebuilder:default=WhenUnderUsed
	// +optional
	Policy ConsolidationPolicy `json:"policy,omitempty"`

	// evictServices says which pods of services are evicted from machines that are used
	// little, or exchanged for cheaper ones. OptIn: those with annotation
	// supercargo.dev/migration: restart or cluster-autoscaler.kubernetes.io/safe-to-evict: "true".
	// OptOut: others as well, except those with annotation supercargo.dev/migration: never,
	// cluster-autoscaler.kubernetes.io/safe-to-evict: "false" or karpenter.sh/do-not-disrupt:
	// "true"; those with a hostPath volume, or an emptyDir volume on disk, that
	// cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes does not list; and those in
	// namespace kube-system without a PodDisruptionBudget. Never: no pod of a service leaves
	// its machine. Pods without a controller stay, and PodDisruptionBudgets are respected, in
	// any case.
	// +kubebuilder:default=OptOut
	// +optional
	EvictServices ServiceEviction `json:"evictServices,omitempty"`

	// thresholdPercent is the utilisation (the mean of the shares of CPU and memory
	// that pods request) below which a machine is under-used.
	// +kubebuilder:default=50
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	ThresholdPercent *int32 `json:"thresholdPercent,omitempty"`

	// after is for how long a machine must have been under-used or empty. Machines stay to
	// the end of the billing period in any case.
	// +kubebuilder:default="0s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('8784h')",message="must be between 0s and 8784h"
	// +optional
	After metav1.Duration `json:"after,omitempty"`

	// queueEmptyFor is for how long no batch pod must have waited before a machine
	// is emptied.
	// +kubebuilder:default="1m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('8784h')",message="must be between 0s and 8784h"
	// +optional
	QueueEmptyFor metav1.Duration `json:"queueEmptyFor,omitempty"`

	// horizon is how long the cluster is taken to stay as it is, when machines are
	// exchanged for cheaper ones: what is saved later does not count.
	// +kubebuilder:default="1h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('8784h')",message="must be between 0s and 8784h"
	// +optional
	Horizon metav1.Duration `json:"horizon,omitempty"`

	// maxUnavailable is how many machines may be on their way out at a time: a
	// number, or a share of the machines such as "10%", rounded up.
	// +kubebuilder:default="10%"
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}|[0-9]{1,2}%|100%)$`
	// +optional
	MaxUnavailable string `json:"maxUnavailable,omitempty"`

	// podResidence is for how long a pod must have been on its machine before it is moved
	// off it, so that none is moved again and again. Default: the value of after, or 5m if that is 0s.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('8784h')",message="must be between 0s and 8784h"
	// +optional
	PodResidence *metav1.Duration `json:"podResidence,omitempty"`

	// drainTimeout is how long the pods of a machine may take to leave beyond what was
	// expected of them. Then the machine is kept.
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('8784h')",message="must be between 1s and 8784h"
	// +optional
	DrainTimeout metav1.Duration `json:"drainTimeout,omitempty"`

	// releaseDelay is for how long the node of an empty machine is cordoned before the machine is
	// released: a pod that the scheduler was binding to it is bound by then, and the node is
	// uncordoned. While such a pod may still be bound to it the machine stays longer.
	// +kubebuilder:default="3s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('1h')",message="must be between 0s and 1h"
	// +optional
	ReleaseDelay metav1.Duration `json:"releaseDelay,omitempty"`
}

// NodeFleetStatus is what a fleet is, and why.
type NodeFleetStatus struct {
	// observedGeneration is the generation of the spec that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready, Priced, Limited and Degraded.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// machines is how many machines there are, those on their way included.
	// +optional
	Machines int32 `json:"machines"`

	// inFlight is how many of them have no ready node yet.
	// +optional
	InFlight int32 `json:"inFlight"`

	// pendingPods is how many pods wait for room that this fleet could give.
	// +optional
	PendingPods int32 `json:"pendingPods"`

	// cost is what the machines cost and could cost.
	// +optional
	Cost FleetCost `json:"cost,omitempty"`

	// flavors are the kinds of machine that can be bought, ordered by name. If there are
	// more than fit, those that there are machines of are listed first, then those of which
	// something was learned, then the cheapest, of which there are 100 at most.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=1000
	// +optional
	Flavors []FlavorStatus `json:"flavors,omitempty"`

	// unlistedFlavors is how many more flavors there are. They can be bought all the same.
	// +optional
	UnlistedFlavors int32 `json:"unlistedFlavors,omitempty"`

	// kept are machines that are under-used or empty and stay, ordered by name, at most 100.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +optional
	Kept []KeptMachine `json:"kept,omitempty"`

	// intent is what is being done. It is written before the first machine is
	// changed and removed after the last, so that whoever takes over knows.
	// +optional
	Intent *FleetIntent `json:"intent,omitempty"`

	// deferral says for which pods no machine is bought for now, since it is cheaper to wait
	// for room that comes free: see spec.scaling.maxWait.
	// +optional
	Deferral *FleetDeferral `json:"deferral,omitempty"`

	// lastDecision is the last decision that changed machines, or would have in mode
	// Act.
	// +optional
	LastDecision *FleetDecision `json:"lastDecision,omitempty"`
}

// FleetCost is money.
type FleetCost struct {
	// dollarsPerHour is what the machines cost now.
	// +optional
	DollarsPerHour string `json:"dollarsPerHour,omitempty"`

	// lowerBoundDollarsPerHour is what machines of these flavors for all pods of the
	// fleet must cost at least.
	// +optional
	LowerBoundDollarsPerHour string `json:"lowerBoundDollarsPerHour,omitempty"`
}

// FlavorStatus is a kind of machine.
type FlavorStatus struct {
	// name is that of the MachineDeployment.
	Name string `json:"name"`

	// pricePerHour in dollars; empty if it is not known.
	// +optional
	PricePerHour string `json:"pricePerHour,omitempty"`

	// priceSource says where the price comes from: Annotation, Catalogue or List.
	// +optional
	PriceSource string `json:"priceSource,omitempty"`

	// cpu is what pods can use of one machine.
	// +optional
	CPU *resource.Quantity `json:"cpu,omitempty"`

	// memory is what pods can use of one machine.
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`

	// maxPods is how many pods one machine takes.
	// +optional
	MaxPods int64 `json:"maxPods,omitempty"`

	// seen is what the last machine that was seen could hold. While there is none,
	// more than that is not expected, whatever is promised.
	// +optional
	Seen *SeenMachine `json:"seen,omitempty"`

	// arch is the CPU architecture.
	// +optional
	Arch string `json:"arch,omitempty"`

	// instanceType is the label node.kubernetes.io/instance-type of its nodes; empty where
	// they have none.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	InstanceType string `json:"instanceType,omitempty"`

	// machines is how many there are, those on their way included.
	// +optional
	Machines int32 `json:"machines"`

	// min is the least number of machines.
	// +optional
	Min int32 `json:"min"`

	// max is the greatest number of machines.
	// +optional
	Max int32 `json:"max"`

	// lag is how long machines needed from their order until their node was ready.
	// +optional
	Lag *LearnedTime `json:"lag,omitempty"`

	// failures is how many machines in a row were abandoned.
	// +optional
	Failures int32 `json:"failures,omitempty"`

	// backOffUntil is until when no machine is bought.
	// +optional
	BackOffUntil *metav1.Time `json:"backOffUntil,omitempty"`

	// message says why no machine of the flavor can be bought, or what threatens the pods
	// of those that are.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`
}

// SeenMachine is what pods could use of a machine.
type SeenMachine struct {
	// template names what it was made from.
	Template string `json:"template"`

	// cpu that pods could use.
	CPU resource.Quantity `json:"cpu"`

	// memory that pods could use.
	Memory resource.Quantity `json:"memory"`

	// maxPods is how many pods it took.
	MaxPods int64 `json:"maxPods"`
}

// LearnedTime is a time that was measured again and again: an exponentially weighted mean and
// standard deviation.
type LearnedTime struct {
	// mean of the times, to the millisecond.
	Mean metav1.Duration `json:"mean"`

	// deviation is their standard deviation.
	Deviation metav1.Duration `json:"deviation"`

	// samples is how many times it was learned from.
	Samples int64 `json:"samples"`
}

// FleetIntent is what is being done.
type FleetIntent struct {
	// id names the intent. Providers whose machines carry tags write it there.
	ID string `json:"id"`

	// time is when it was made.
	Time metav1.Time `json:"time"`

	// orders are the machines to buy.
	// +listType=map
	// +listMapKey=flavor
	// +kubebuilder:validation:MaxItems=1000
	// +optional
	Orders []FleetOrder `json:"orders,omitempty"`

	// releases are the machines to delete.
	// +listType=map
	// +listMapKey=flavor
	// +kubebuilder:validation:MaxItems=1000
	// +optional
	Releases []FleetRelease `json:"releases,omitempty"`
}

// FleetOrder asks for machines of one flavor.
type FleetOrder struct {
	// flavor is its name.
	Flavor string `json:"flavor"`

	// from is how many machines there were to be.
	From int32 `json:"from"`

	// to is how many there are to be.
	To int32 `json:"to"`
}

// FleetRelease deletes machines of one flavor.
type FleetRelease struct {
	// flavor is its name.
	Flavor string `json:"flavor"`

	// from is how many machines there were to be.
	From int32 `json:"from"`

	// machines are those to delete.
	// +listType=set
	// +kubebuilder:validation:MaxItems=10000
	Machines []string `json:"machines"`
}

// FleetDecision says what was decided, and why.
type FleetDecision struct {
	// id is that of the intent.
	ID string `json:"id"`

	// time is when it was made.
	Time metav1.Time `json:"time"`

	// mode in which it was made: in Observe nothing was changed.
	Mode FleetMode `json:"mode"`

	// summary says it in one line.
	// +kubebuilder:validation:MaxLength=1024
	Summary string `json:"summary"`

	// buys are the machines to buy, one entry a flavor.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +optional
	Buys []DecidedPurchase `json:"buys,omitempty"`

	// releases are machines to delete.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +optional
	Releases []DecidedRelease `json:"releases,omitempty"`

	// rejected says what was not done: flavors that were passed over, pods that no
	// machine holds.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +optional
	Rejected []Rejection `json:"rejected,omitempty"`

	// pricePerHour is what the machines to buy cost together, in dollars.
	// +optional
	PricePerHour string `json:"pricePerHour,omitempty"`

	// lowerBoundPerHour is what machines for the same pods must cost at least.
	// +optional
	LowerBoundPerHour string `json:"lowerBoundPerHour,omitempty"`

	// deferral says for which pods no machine was bought, since it was cheaper to wait.
	// +optional
	Deferral *FleetDeferral `json:"deferral,omitempty"`

	// dollarsUntilEmpty is what the machines to buy are expected to cost together until they
	// are empty again. This is what the choice makes as little as it can.
	// +optional
	DollarsUntilEmpty string `json:"dollarsUntilEmpty,omitempty"`

	// savesDollars is what emptying machines, or exchanging them for others, is expected to
	// save, before costsDollars is taken off.
	// +optional
	SavesDollars string `json:"savesDollars,omitempty"`

	// costsDollars is what that is expected to cost: moves, work that is repeated, and
	// machines that are paid for while others come in their place.
	// +optional
	CostsDollars string `json:"costsDollars,omitempty"`

	// expected is what was expected when it was decided.
	// +optional
	Expected Outcome `json:"expected,omitempty"`

	// measured is what came of it. It is filled in when the last machine bought is
	// ready or was abandoned, and the last one released has gone.
	// +optional
	Measured *Outcome `json:"measured,omitempty"`
}

// FleetDeferral says which pods wait for longer than a purchase would take, and what that
// saves.
type FleetDeferral struct {
	// reason says it in one line.
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason"`

	// pods is how many wait.
	Pods int32 `json:"pods"`

	// podNames are their names. The rest is left out if there are more than fit.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	// +optional
	PodNames []string `json:"podNames,omitempty"`

	// savesDollars is what is expected to be saved: buyDollars less waitDollars.
	SavesDollars string `json:"savesDollars"`

	// buyDollars is what machines for all pods that would wait too long would be expected to
	// cost until they are empty again.
	BuyDollars string `json:"buyDollars"`

	// waitDollars is what the machines that are bought all the same are expected to cost, and
	// those that are there by being needed for longer.
	WaitDollars string `json:"waitDollars"`

	// roomTime is when the last of the pods is expected to find room.
	RoomTime metav1.Time `json:"roomTime"`

	// buyTime is when a machine is bought for the first of them at the latest.
	BuyTime metav1.Time `json:"buyTime"`
}

// Outcome is what a decision leads to.
type Outcome struct {
	// readySeconds is the time until the last machine bought is ready.
	// +optional
	ReadySeconds int64 `json:"readySeconds,omitempty"`

	// dollarsPerHour is what all machines of the fleet cost then.
	// +optional
	DollarsPerHour string `json:"dollarsPerHour,omitempty"`

	// pendingPods is how many pods wait then.
	// +optional
	PendingPods int32 `json:"pendingPods"`
}

// DecidedPurchase is a number of machines of one flavor.
type DecidedPurchase struct {
	// flavor is its name.
	Flavor string `json:"flavor"`

	// count is how many.
	Count int32 `json:"count"`

	// pods is for how many pods.
	Pods int32 `json:"pods"`

	// reason says why this flavor.
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason"`

	// pricePerHour is what one machine costs, in dollars.
	// +optional
	PricePerHour string `json:"pricePerHour,omitempty"`

	// startSeconds is for how long a machine is expected to be paid before it takes pods.
	// +optional
	StartSeconds int64 `json:"startSeconds,omitempty"`

	// billedSeconds is for how long the machines are expected to be paid until they are empty
	// again, all together, each by started billing periods.
	// +optional
	BilledSeconds int64 `json:"billedSeconds,omitempty"`

	// dollarsUntilEmpty is what that comes to: pricePerHour for billedSeconds.
	// +optional
	DollarsUntilEmpty string `json:"dollarsUntilEmpty,omitempty"`

	// machines says it for those that are paid for equally long, the longest first. The rest is
	// left out if there are more than fit.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	// +optional
	Machines []DecidedMachines `json:"machines,omitempty"`
}

// DecidedMachines are machines of one flavor that are expected to be paid for equally long.
type DecidedMachines struct {
	// count is how many.
	Count int32 `json:"count"`

	// busySeconds is for how long, from when it is ready, a machine is expected to have pods:
	// by the runtimes that they state or that were learned. It is missing if a machine is not
	// expected to become empty.
	// +optional
	BusySeconds int64 `json:"busySeconds,omitempty"`

	// billedSeconds is for how long a machine is expected to be paid: startSeconds and
	// busySeconds, rounded up to billing periods. One that is not expected to become empty
	// is compared with others as if it were busy for a day.
	// +optional
	BilledSeconds int64 `json:"billedSeconds,omitempty"`

	// dollarsUntilEmpty is what these machines are expected to cost together.
	// +optional
	DollarsUntilEmpty string `json:"dollarsUntilEmpty,omitempty"`

	// pods is for how many pods.
	Pods int32 `json:"pods"`

	// podNames are their names. The rest is left out if there are more than fit.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	// +optional
	PodNames []string `json:"podNames,omitempty"`
}

// DecidedRelease is a machine to delete.
type DecidedRelease struct {
	// node is its name.
	Node string `json:"node"`

	// reason says why.
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason"`

	// keepDollars is what an empty machine would cost until the end of the next billing period
	// if it were kept.
	// +optional
	KeepDollars string `json:"keepDollars,omitempty"`

	// startDollars is what another in its place would cost until it takes pods.
	// +optional
	StartDollars string `json:"startDollars,omitempty"`

	// savesDollars and costsDollars are what it is expected to save to empty a machine, and
	// what that costs. For machines that are exchanged they stand in the decision.
	// +optional
	SavesDollars string `json:"savesDollars,omitempty"`

	// costsDollars: see savesDollars.
	// +optional
	CostsDollars string `json:"costsDollars,omitempty"`
}

// KeptMachine is a machine that is under-used or empty and stays.
type KeptMachine struct {
	// node is its name.
	Node string `json:"node"`

	// reason says why it stays: which pod, setting or price keeps it.
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason"`
}

// Rejection says what was not done.
type Rejection struct {
	// name is that of a flavor, node or pod.
	Name string `json:"name"`

	// reason says why not.
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason"`
}

// The conditions of a NodeFleet.
const (
	// FleetReady says that the fleet is looked after: its flavors are known, and the
	// last decision could be made and carried out.
	FleetReady = "Ready"
	// FleetPriced says that every flavor has a price. No machine is bought of one that has
	// none.
	FleetPriced = "Priced"
	// FleetLimited says that pods wait because a limit does not allow for more
	// machines.
	FleetLimited = "Limited"
	// FleetDegraded says that machines did not come, or that something is wrong that
	// somebody has to put right.
	FleetDegraded = "Degraded"
)
