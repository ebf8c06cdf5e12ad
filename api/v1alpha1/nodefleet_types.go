package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeFleet is a group of machines of different sizes and prices. The autoscaler buys the
// cheapest machines for unschedulable pods, and releases machines that are no longer worth
// their price.
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

	// spec specifies the desired behavior of the fleet.
	// +required
	Spec NodeFleetSpec `json:"spec"`

	// status is the observed state of the fleet.
	// +optional
	Status NodeFleetStatus `json:"status,omitempty"`
}

// NodeFleetList is a list of NodeFleets.
//
// +kubebuilder:object:root=true
type NodeFleetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items is the list of NodeFleets.
	Items []NodeFleet `json:"items"`
}

// FleetClass specifies which pods the machines of a fleet accept.
//
// +kubebuilder:validation:Enum=Any;Batch;Service
type FleetClass string

const (
	// FleetAny accepts batch pods and services.
	FleetAny FleetClass = "Any"
	// FleetBatch accepts only batch pods. Such machines become empty without evictions.
	FleetBatch FleetClass = "Batch"
	// FleetService accepts only services.
	FleetService FleetClass = "Service"
)

// FleetMode specifies whether decisions are carried out.
//
// +kubebuilder:validation:Enum=Act;Observe
type FleetMode string

const (
	// FleetAct carries out decisions.
	FleetAct FleetMode = "Act"
	// FleetObserve records decisions and their reasons in the status, and changes no machine.
	FleetObserve FleetMode = "Observe"
)

// FleetProvider specifies the API through which machines are bought and released.
//
// +kubebuilder:validation:Enum=ClusterAPI;OpenStack;Karpenter
type FleetProvider string

const (
	// FleetClusterAPI scales MachineDeployments of cluster-api.
	FleetClusterAPI FleetProvider = "ClusterAPI"
	// FleetOpenStack creates and deletes OpenStack servers.
	FleetOpenStack FleetProvider = "OpenStack"
	// FleetKarpenter creates and deletes NodeClaims of Karpenter.
	FleetKarpenter FleetProvider = "Karpenter"
)

// IsClusterAPI reports whether it is [FleetClusterAPI], which is the default.
func (p FleetProvider) IsClusterAPI() bool { return p == "" || p == FleetClusterAPI }

// NodeFleetSpec specifies the desired behavior of a fleet.
//
// +kubebuilder:validation:XValidation:rule="self.provider != 'ClusterAPI' || has(self.clusterAPI)",message="clusterAPI is required if provider is ClusterAPI: it specifies the MachineDeployments that the fleet may scale"
// +kubebuilder:validation:XValidation:rule="!has(self.clusterAPI) || !has(self.clusterAPI.templates) || has(self.pricing.list) || has(self.pricing.catalogue)",message="pricing.list or pricing.catalogue is required if clusterAPI.templates is set"
// +kubebuilder:validation:XValidation:rule="(self.provider == 'OpenStack') == has(self.openStack)",message="openStack is required if provider is OpenStack, and must be unset otherwise"
// +kubebuilder:validation:XValidation:rule="(self.provider == 'Karpenter') == has(self.karpenter)",message="karpenter is required if provider is Karpenter, and must be unset otherwise"
// +kubebuilder:validation:XValidation:rule="!has(self.karpenter) || has(self.pricing.list) || has(self.pricing.catalogue)",message="pricing.list or pricing.catalogue is required if provider is Karpenter, because it lists the instance types"
type NodeFleetSpec struct {
	// class specifies which pods the machines accept. Nodes with a different value of the
	// label supercargo.dev/class do not belong to the fleet.
	// +kubebuilder:default=Any
	// +optional
	Class FleetClass `json:"class,omitempty"`

	// mode specifies whether decisions are carried out. Act carries them out. Observe only
	// records them in the status and changes no machine.
	// +kubebuilder:default=Act
	// +optional
	Mode FleetMode `json:"mode,omitempty"`

	// provider specifies the API through which machines are bought and released.
	// +kubebuilder:default=ClusterAPI
	// +optional
	Provider FleetProvider `json:"provider,omitempty"`

	// clusterAPI specifies the MachineDeployments that are the flavors of the fleet. It is
	// required if provider is ClusterAPI.
	// +optional
	ClusterAPI *ClusterAPIFlavors `json:"clusterAPI,omitempty"`

	// openStack specifies how the servers of the fleet are created. It is required if provider
	// is OpenStack, and must be unset otherwise.
	// +optional
	OpenStack *OpenStackServers `json:"openStack,omitempty"`

	// karpenter specifies the NodeClaims of the fleet. It is required if provider is Karpenter,
	// and must be unset otherwise.
	// +optional
	Karpenter *KarpenterNodes `json:"karpenter,omitempty"`

	// pricing specifies the prices of machines and how they are billed.
	// +kubebuilder:default={}
	// +optional
	Pricing FleetPricing `json:"pricing,omitempty"`

	// limits specifies upper bounds that purchases never exceed. Machines that have been
	// ordered count. Existing machines are not released to meet a limit.
	// +optional
	Limits FleetLimits `json:"limits,omitempty"`

	// scaling specifies when machines are bought, and when a machine that does not become
	// ready is abandoned.
	// +kubebuilder:default={}
	// +optional
	Scaling FleetScaling `json:"scaling,omitempty"`

	// consolidation specifies when machines are released.
	// +kubebuilder:default={}
	// +optional
	Consolidation FleetConsolidation `json:"consolidation,omitempty"`

	// deletionPolicy specifies what happens to the machines when the fleet is deleted. Keep
	// leaves them as they are. Release drains and releases them first: the fleet has the
	// finalizer supercargo.dev/release-machines until the last machine is gone. Pods leave as
	// they do when a machine is drained, even if no other machine has room for them; a machine
	// whose pods may not be moved stays until they end. A fleet in mode Observe releases none.
	// +kubebuilder:default=Keep
	// +optional
	DeletionPolicy FleetDeletionPolicy `json:"deletionPolicy,omitempty"`
}

// FleetDeletionPolicy specifies what happens to the machines of a fleet when it is deleted.
//
// +kubebuilder:validation:Enum=Keep;Release
type FleetDeletionPolicy string

const (
	// FleetDeletionKeep leaves the machines as they are.
	FleetDeletionKeep FleetDeletionPolicy = "Keep"
	// FleetDeletionRelease drains and releases the machines before the fleet is gone.
	FleetDeletionRelease FleetDeletionPolicy = "Release"
)

// FinalizerReleaseMachines keeps a NodeFleet until its machines have been released.
const FinalizerReleaseMachines = GroupName + "/release-machines"

// ClusterAPIFlavors specifies the flavors of a fleet. Exactly one of names, selector and
// templates must be set. With names or selector, each MachineDeployment is a flavor. With
// templates, each instance type is a flavor, and the fleet creates a MachineDeployment for
// each instance type that it buys.
//
// +kubebuilder:validation:XValidation:rule="(has(self.names) ? 1 : 0) + (has(self.selector) ? 1 : 0) + (has(self.templates) ? 1 : 0) == 1",message="exactly one of names, selector and templates must be set"
type ClusterAPIFlavors struct {
	// namespace is the namespace of the MachineDeployments.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Namespace string `json:"namespace"`

	// clusterName is the name of the Cluster that this cluster is. MachineDeployments of other
	// Clusters are never scaled. By default, it is the Cluster in whose name cluster-api has
	// annotated the nodes; without such nodes, the only Cluster that has MachineDeployments among
	// those of this fleet.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	ClusterName string `json:"clusterName,omitempty"`

	// names are the names of the MachineDeployments.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +optional
	Names []string `json:"names,omitempty"`

	// selector selects MachineDeployments by their labels. An empty selector selects all
	// MachineDeployments of the namespace.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// templates specifies the MachineDeployments that the fleet copies, and the instance types
	// of the copies. Each instance type of spec.pricing is then a flavor. Two fleets must not
	// have the same template.
	// +listType=map
	// +listMapKey=machineDeployment
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Templates []MachineTemplate `json:"templates,omitempty"`
}

// MachineTemplate is a MachineDeployment that the fleet copies for each instance type that it
// buys. The MachineDeployment itself is never scaled, and may have 0 replicas.
//
// The fleet creates a copy, and a copy of its infrastructure template, when it buys the first
// machine of an instance type. It deletes both when the last machine is gone. When the
// MachineDeployment or its infrastructure template changes, new machines are created from new
// copies; existing machines are not affected.
type MachineTemplate struct {
	// machineDeployment is the name of the MachineDeployment.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	MachineDeployment string `json:"machineDeployment"`

	// instanceTypeField is the path of the instance type in the infrastructure template, such
	// as spec.template.spec.instanceType. The field must contain a string. Default: the path
	// in AWSMachineTemplate, AzureMachineTemplate, GCPMachineTemplate or
	// OpenStackMachineTemplate.
	// +kubebuilder:validation:Pattern=`^spec(\.[A-Za-z][A-Za-z0-9]*)+$`
	// +kubebuilder:validation:MaxLength=253
	// +optional
	InstanceTypeField string `json:"instanceTypeField,omitempty"`

	// instanceTypes are the instance types that the fleet may buy, such as m7i.large. An
	// asterisk matches any text, as in m7i.*. A leading exclamation mark excludes all matching
	// types. Default: all types except those of kind Burstable or Accelerated.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:Pattern=`^!?[A-Za-z0-9*][A-Za-z0-9*._/-]*$`
	// +kubebuilder:validation:items:MaxLength=63
	// +optional
	InstanceTypes []string `json:"instanceTypes,omitempty"`

	// architecture is the CPU architecture of the template's image. The template is used only
	// with instance types of this architecture.
	// +kubebuilder:default=amd64
	// +kubebuilder:validation:Enum=amd64;arm64;ppc64le;s390x;riscv64
	// +optional
	Architecture string `json:"architecture,omitempty"`

	// failureDomains are the failure domains in which the fleet may create machines. Default:
	// the failure domain of the MachineDeployment.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +optional
	FailureDomains []string `json:"failureDomains,omitempty"`
}

// FleetPricing specifies the prices of machines. The annotation supercargo.dev/price-per-hour
// takes precedence over the catalogue, and the catalogue over the list.
//
// +kubebuilder:validation:XValidation:rule="has(self.list) == has(self.region)",message="list and region must be set together, because list prices differ by region"
type FleetPricing struct {
	// list is the name of a built-in list of a cloud provider's prices: aws, azure or gcp.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	List string `json:"list,omitempty"`

	// region is the region whose list prices apply, such as us-east-1. It is required if list
	// is set.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Region string `json:"region,omitempty"`

	// catalogue refers to a ConfigMap that contains your own prices.
	// +optional
	Catalogue *PriceCatalogue `json:"catalogue,omitempty"`

	// billingPeriod is the period by which machines are billed. Every started period is billed
	// in full. The fleet keeps a machine until the end of a period if it may be needed,
	// because it has been paid for.
	// +kubebuilder:default="1m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('8784h')",message="must be between 1s and 8784h"
	// +optional
	BillingPeriod metav1.Duration `json:"billingPeriod,omitempty"`

	// interruptionsPerHour is how often the cloud provider is expected to interrupt a spot
	// machine, per hour: more than 0 and at most 1. It applies to flavors for which the
	// catalogue states none in the column interruptions_per_hour. The fleet adds the expected
	// loss to the price of a spot machine when it compares prices.
	// +kubebuilder:default="0.05"
	// +kubebuilder:validation:Pattern=`^(0\.[0-9]{1,6}|1(\.0{1,6})?)$`
	// +kubebuilder:validation:MaxLength=8
	// +kubebuilder:validation:XValidation:rule="self.matches('[1-9]')",message="must be more than 0: a machine that is never interrupted is not a spot machine"
	// +optional
	InterruptionsPerHour string `json:"interruptionsPerHour,omitempty"`
}

// PriceCatalogue refers to a CSV file in a ConfigMap. The file has the columns name, cpu,
// memory_gib and price_per_hour, and the optional columns arch, max_pods, kind,
// extended_resources, ephemeral_storage_gib and interruptions_per_hour. A flavor is looked up
// by the label node.kubernetes.io/instance-type of its machines, then by its own name. With
// provider Karpenter, a row with the name of the flavor, such as m7i.large@us-east-1a/spot, or
// of the instance type and the capacity type, such as m7i.large/spot, takes precedence.
type PriceCatalogue struct {
	// namespace is the namespace of the ConfigMap.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Namespace string `json:"namespace"`

	// name is the name of the ConfigMap.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`

	// key is the key of the file in the ConfigMap.
	// +kubebuilder:default="flavors.csv"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Key string `json:"key,omitempty"`
}

// FleetLimits specifies upper bounds on what a fleet buys. An unset field means no limit.
type FleetLimits struct {
	// machines is the maximum number of machines of the fleet.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	// +optional
	Machines *int32 `json:"machines,omitempty"`

	// cpu is the maximum CPU of all machines together.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) >= 0",message="must not be negative"
	// +optional
	CPU *resource.Quantity `json:"cpu,omitempty"`

	// memory is the maximum memory of all machines together.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) >= 0",message="must not be negative"
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`

	// dollarsPerHour is the maximum price of all machines together, in dollars per hour, such
	// as "12.50".
	// +kubebuilder:validation:Pattern=`^[0-9]{1,9}(\.[0-9]{1,6})?$`
	// +optional
	DollarsPerHour *string `json:"dollarsPerHour,omitempty"`
}

// FleetScaling specifies when machines are bought.
//
// +kubebuilder:validation:XValidation:rule="!has(self.batchIdle) || !has(self.batchMax) || duration(self.batchIdle) <= duration(self.batchMax)",message="batchIdle must not be longer than batchMax"
type FleetScaling struct {
	// interval is the maximum time between two rounds. A round also starts when pods, nodes or
	// machines change.
	// +kubebuilder:default="1m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="must be between 1s and 24h"
	// +optional
	Interval metav1.Duration `json:"interval,omitempty"`

	// batchIdle is how long no further unschedulable pod must arrive before the fleet buys
	// machines for those that are pending. 0s means that the fleet does not wait for further
	// pods.
	// +kubebuilder:default="1s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('1h')",message="must be between 0s and 1h"
	// +optional
	BatchIdle metav1.Duration `json:"batchIdle,omitempty"`

	// batchMax is the maximum time that a pending pod waits for further pods to arrive.
	// +kubebuilder:default="10s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('1h')",message="must be between 0s and 1h"
	// +optional
	BatchMax metav1.Duration `json:"batchMax,omitempty"`

	// joinTimeout is the maximum time from the order of a machine until its node is ready.
	// When it expires, the machine is abandoned, and no machine of its flavor is bought for
	// the duration of backOff.
	// +kubebuilder:default="15m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="must be between 1s and 24h"
	// +optional
	JoinTimeout metav1.Duration `json:"joinTimeout,omitempty"`

	// backOff is how long no machine of a flavor is bought after one of its machines has been
	// abandoned. It doubles with each consecutive back-off, up to 16 times its value.
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="must be between 1s and 24h"
	// +optional
	BackOff metav1.Duration `json:"backOff,omitempty"`

	// expectedLag is the expected time from the order of a machine until its node is ready. It
	// applies to flavors of which no machine has joined yet.
	// +kubebuilder:default="2m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('24h')",message="must be between 0s and 24h"
	// +optional
	ExpectedLag metav1.Duration `json:"expectedLag,omitempty"`

	// maxWait is how much longer than the start-up time of a machine a pod may wait for
	// existing resources to become available, if waiting is expected to cost less than buying
	// a machine now. A machine is bought for a pod at the latest when the pod has waited for
	// maxWait plus the start-up time of a machine. status.deferral lists the waiting pods and
	// the expected saving. 0s disables such waiting.
	// +kubebuilder:default="0s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('24h')",message="must be between 0s and 24h"
	// +optional
	MaxWait metav1.Duration `json:"maxWait,omitempty"`

	// expendablePodsPriorityCutoff is the priority below which pods are expendable, as for the
	// option of cluster-autoscaler of that name. No machine is bought for an expendable pod,
	// and it keeps no machine: a machine with only such pods is empty. They are evicted before
	// the machine is released, and a PodDisruptionBudget does not keep the machine. Pods that
	// reserve room for others, such as those of a Deployment of pause containers, need a
	// priority that is lower than that of the others, but not lower than this value.
	// +kubebuilder:default=-10
	// +kubebuilder:validation:Maximum=1000000000
	// +optional
	ExpendablePodsPriorityCutoff *int32 `json:"expendablePodsPriorityCutoff,omitempty"`
}

// DefaultExpendablePodsPriorityCutoff is the default of spec.scaling.expendablePodsPriorityCutoff, which is that of
// cluster-autoscaler.
const DefaultExpendablePodsPriorityCutoff int32 = -10

// ExpendableBelow returns the priority below which pods are expendable.
func (s *FleetScaling) ExpendableBelow() int32 {
	if s.ExpendablePodsPriorityCutoff == nil {
		return DefaultExpendablePodsPriorityCutoff
	}
	return *s.ExpendablePodsPriorityCutoff
}

// ConsolidationPolicy specifies which machines may be released.
//
// +kubebuilder:validation:Enum=Never;WhenEmpty;WhenUnderUsed
type ConsolidationPolicy string

const (
	// ConsolidateNever releases no machine.
	ConsolidateNever ConsolidationPolicy = "Never"
	// ConsolidateWhenEmpty releases machines without pods.
	ConsolidateWhenEmpty ConsolidationPolicy = "WhenEmpty"
	// ConsolidateWhenUnderUsed also drains under-used machines, and exchanges machines for
	// cheaper ones.
	ConsolidateWhenUnderUsed ConsolidationPolicy = "WhenUnderUsed"
)

// ServiceEviction specifies which service pods may be evicted to drain a machine.
//
// +kubebuilder:validation:Enum=Never;OptIn;OptOut
type ServiceEviction string

const (
	// EvictServicesNever evicts no service pod.
	EvictServicesNever ServiceEviction = "Never"
	// EvictServicesOptIn evicts service pods that have an annotation that allows it.
	EvictServicesOptIn ServiceEviction = "OptIn"
	// EvictServicesOptOut also evicts service pods that have no annotation that forbids it.
	EvictServicesOptOut ServiceEviction = "OptOut"
)

// FleetConsolidation specifies when machines are released. Batch pods are moved, with their
// state or by eviction, only if they have an annotation that allows it. evictServices
// specifies which service pods are evicted.
type FleetConsolidation struct {
	// policy specifies which machines may be released. Never releases none. WhenEmpty releases
	// machines without pods. WhenUnderUsed also drains under-used machines, and exchanges
	// machines for cheaper ones.
	// +kubebuilder:default=WhenUnderUsed
	// +optional
	Policy ConsolidationPolicy `json:"policy,omitempty"`

	// evictServices specifies which service pods are evicted from machines that are under-used
	// or exchanged for cheaper ones.
	//
	// OptIn evicts pods with the annotation supercargo.dev/migration: restart or
	// cluster-autoscaler.kubernetes.io/safe-to-evict: "true".
	//
	// OptOut also evicts other pods, except those with the annotation
	// supercargo.dev/migration: never, cluster-autoscaler.kubernetes.io/safe-to-evict: "false"
	// or karpenter.sh/do-not-disrupt: "true"; those with a hostPath volume, or an emptyDir
	// volume on disk, that cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes does
	// not list; and those in namespace kube-system without a PodDisruptionBudget.
	//
	// Never evicts no service pod.
	//
	// Pods without a controller are never evicted, and PodDisruptionBudgets are always
	// respected.
	// +kubebuilder:default=OptOut
	// +optional
	EvictServices ServiceEviction `json:"evictServices,omitempty"`

	// thresholdPercent is the utilization below which a machine is under-used, in percent. The
	// utilization of a machine is the mean of the shares of its CPU and its memory that pods
	// request.
	// +kubebuilder:default=50
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	ThresholdPercent *int32 `json:"thresholdPercent,omitempty"`

	// after is how long a machine must have been under-used or empty before it is drained or
	// released. Machines are always kept until the end of the billing period. 0s means no
	// delay.
	// +kubebuilder:default="0s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('8784h')",message="must be between 0s and 8784h"
	// +optional
	After metav1.Duration `json:"after,omitempty"`

	// queueEmptyFor is how long no batch pod must have been pending before a machine is
	// drained. 0s means only that no batch pod is pending.
	// +kubebuilder:default="1m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('8784h')",message="must be between 0s and 8784h"
	// +optional
	QueueEmptyFor metav1.Duration `json:"queueEmptyFor,omitempty"`

	// horizon is the period for which the cluster is assumed not to change when the fleet
	// decides whether to exchange machines for cheaper ones. Savings after this period do not
	// count.
	// +kubebuilder:default="1h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('8784h')",message="must be between 0s and 8784h"
	// +optional
	Horizon metav1.Duration `json:"horizon,omitempty"`

	// maxUnavailable is the maximum number of machines that are drained or released at the
	// same time. It is a number, or a percentage of the machines such as "10%", rounded up.
	// +kubebuilder:default="10%"
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}|[0-9]{1,2}%|100%)$`
	// +optional
	MaxUnavailable string `json:"maxUnavailable,omitempty"`

	// budgets are further limits of how many machines are drained or released at the same time,
	// for some reasons or at some times, such as none during working hours. Of maxUnavailable and
	// the budgets that apply, the strictest counts. Machines that did not come, and those of a
	// fleet that is being deleted, are released regardless of budgets.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	// +optional
	Budgets []FleetBudget `json:"budgets,omitempty"`

	// expireAfter is the maximum age of a machine: an older one is replaced. The machines that its
	// pods need are bought first. Machines expire at 90 to 100 % of it, so that those that were
	// bought together are not replaced together. Default: machines do not expire.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m')",message="must be at least 1m"
	// +optional
	ExpireAfter *metav1.Duration `json:"expireAfter,omitempty"`

	// drifted specifies what happens to machines that are not made as a new one would be, because
	// the fleet or its template has changed since: with Replace they are replaced, and the machines
	// that their pods need are bought first. Machines of a MachineDeployment are replaced by
	// cluster-api itself, as its rollout strategy says.
	// +kubebuilder:default=Replace
	// +optional
	Drifted FleetDriftPolicy `json:"drifted,omitempty"`

	// unhealthyConditions are the conditions of nodes for which machines are replaced. The machines
	// that their pods need are bought first. While more than a fifth of the machines are unhealthy,
	// none is replaced for that. Machines whose nodes are not ready are released anyway, once
	// nothing is lost with them.
	// +kubebuilder:default={{type: "KernelDeadlock", status: "True", duration: "10m"}, {type: "ReadonlyFilesystem", status: "True", duration: "10m"}}
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=50
	// +optional
	UnhealthyConditions []UnhealthyCondition `json:"unhealthyConditions,omitempty"`

	// podResidence is how long a pod must have been on its machine before it is moved to
	// another, so that pods are not moved repeatedly. Default: the value of after, or 5m if
	// after is 0s.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('8784h')",message="must be between 0s and 8784h"
	// +optional
	PodResidence *metav1.Duration `json:"podResidence,omitempty"`

	// drainTimeout is how much longer than expected the pods of a machine may take to leave.
	// When it expires, the drain is cancelled and the machine is kept.
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('8784h')",message="must be between 1s and 8784h"
	// +optional
	DrainTimeout metav1.Duration `json:"drainTimeout,omitempty"`

	// releaseDelay is how long the node of an empty machine is cordoned before the machine is
	// released. If a pod that the scheduler was already binding is bound to the node in this
	// time, the node is uncordoned. The machine is kept longer if such a pod may still be
	// bound to it.
	// +kubebuilder:default="3s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('1h')",message="must be between 0s and 1h"
	// +optional
	ReleaseDelay metav1.Duration `json:"releaseDelay,omitempty"`
}

// FleetBudgetReason is a reason for which machines are drained or released.
//
// +kubebuilder:validation:Enum=Empty;UnderUsed;Exchange;Unhealthy;Expired;Drifted
type FleetBudgetReason string

const (
	// BudgetEmpty is the release of empty machines.
	BudgetEmpty FleetBudgetReason = "Empty"
	// BudgetUnderUsed is the drain of under-used machines.
	BudgetUnderUsed FleetBudgetReason = "UnderUsed"
	// BudgetExchange is the exchange of machines for cheaper ones.
	BudgetExchange FleetBudgetReason = "Exchange"
	// BudgetUnhealthy is the replacement of machines whose nodes have unhealthy conditions.
	BudgetUnhealthy FleetBudgetReason = "Unhealthy"
	// BudgetExpired is the replacement of machines that are too old.
	BudgetExpired FleetBudgetReason = "Expired"
	// BudgetDrifted is the replacement of machines that are not made as new ones would be.
	BudgetDrifted FleetBudgetReason = "Drifted"
)

// FleetDriftPolicy specifies what happens to machines that are not made as new ones would be.
//
// +kubebuilder:validation:Enum=Replace;Keep
type FleetDriftPolicy string

const (
	// DriftedReplace replaces them.
	DriftedReplace FleetDriftPolicy = "Replace"
	// DriftedKeep keeps them.
	DriftedKeep FleetDriftPolicy = "Keep"
)

// UnhealthyCondition is a condition of a node for which its machine is replaced.
type UnhealthyCondition struct {
	// type is the type of the condition.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	// +required
	Type string `json:"type"`

	// status is the status of an unhealthy node. Default: True.
	// +kubebuilder:validation:Enum="True";"False";Unknown
	// +kubebuilder:default="True"
	// +optional
	Status corev1.ConditionStatus `json:"status,omitempty"`

	// duration is how long the condition must have had this status. Default: 10m.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:default="10m"
	// +optional
	Duration metav1.Duration `json:"duration,omitempty"`
}

// FleetBudget limits how many machines are drained or released at the same time.
//
// +kubebuilder:validation:XValidation:rule="has(self.schedule) == has(self.duration)",message="schedule and duration must be set together"
type FleetBudget struct {
	// nodes is the maximum number of machines that are drained or released at the same time, for
	// any reason: a number, or a percentage of the machines such as "10%", rounded up. If as
	// many are, no other one is for the reasons of this budget.
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}|[0-9]{1,2}%|100%)$`
	// +required
	Nodes string `json:"nodes"`

	// reasons are the reasons for which the budget applies: Empty, UnderUsed, Exchange, Unhealthy,
	// Expired and Drifted. Default: all.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=6
	// +optional
	Reasons []FleetBudgetReason `json:"reasons,omitempty"`

	// schedule specifies when the budget begins to apply, in the format of cron, in UTC, such as
	// "0 9 * * mon-fri", or @daily and the like. Default: the budget always applies.
	// +kubebuilder:validation:Pattern=`^(@(annually|yearly|monthly|weekly|daily|midnight|hourly)|[^\s=]+(\s+[^\s=]+){4})$`
	// +kubebuilder:validation:MaxLength=100
	// +optional
	Schedule *string `json:"schedule,omitempty"`

	// duration is how long the budget applies after each time of its schedule.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('8784h')",message="must be between 1m and 8784h"
	// +optional
	Duration *metav1.Duration `json:"duration,omitempty"`
}

// NodeFleetStatus is the observed state of a fleet.
type NodeFleetStatus struct {
	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready, Priced, Limited and Degraded.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// machines is the number of machines, including ordered machines that are not ready yet.
	// +optional
	Machines int32 `json:"machines"`

	// inFlight is the number of machines without a ready node.
	// +optional
	InFlight int32 `json:"inFlight"`

	// pendingPods is the number of pending pods for which this fleet could buy a machine.
	// +optional
	PendingPods int32 `json:"pendingPods"`

	// cost is the price of the machines and a lower bound on it.
	// +optional
	Cost FleetCost `json:"cost,omitempty"`

	// flavors are the flavors that the fleet can buy, ordered by name. If there are too many
	// to list, flavors that have machines take precedence, then flavors of which the fleet has
	// learned a property, then the cheapest flavors, of which at most 100 are listed.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=1000
	// +optional
	Flavors []FlavorStatus `json:"flavors,omitempty"`

	// unlistedFlavors is the number of flavors that are not listed. The fleet can buy them
	// nevertheless.
	// +optional
	UnlistedFlavors int32 `json:"unlistedFlavors,omitempty"`

	// kept are machines that are under-used, empty or to be replaced but not released, ordered
	// by name. At most 100 are listed.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +optional
	Kept []KeptMachine `json:"kept,omitempty"`

	// intent is the change in progress. The fleet writes it before it changes the first
	// machine and removes it after the last, so that a new leader can continue.
	// +optional
	Intent *FleetIntent `json:"intent,omitempty"`

	// deferral describes the pods for which no machine is bought for now, because it is
	// cheaper to wait for existing resources to become available. See spec.scaling.maxWait.
	// +optional
	Deferral *FleetDeferral `json:"deferral,omitempty"`

	// lastDecision is the last decision that changed machines, or that would have changed
	// machines in mode Act.
	// +optional
	LastDecision *FleetDecision `json:"lastDecision,omitempty"`
}

// FleetCost is the price of the machines of a fleet.
type FleetCost struct {
	// dollarsPerHour is the current price of all machines, in dollars per hour.
	// +optional
	DollarsPerHour string `json:"dollarsPerHour,omitempty"`

	// lowerBoundDollarsPerHour is a lower bound on the price of machines of these flavors for
	// all pods of the fleet, in dollars per hour. It is computed with each decision that changes
	// machines, and at least every ten minutes.
	// +optional
	LowerBoundDollarsPerHour string `json:"lowerBoundDollarsPerHour,omitempty"`
}

// FlavorStatus describes a flavor: machines of one size at one price.
type FlavorStatus struct {
	// name is the name of the flavor, which is that of its MachineDeployment if it has one.
	Name string `json:"name"`

	// pricePerHour is the price of one machine, in dollars per hour. It is empty if the price
	// is unknown.
	// +optional
	PricePerHour string `json:"pricePerHour,omitempty"`

	// priceSource is the source of the price: Annotation, Catalogue or List.
	// +optional
	PriceSource string `json:"priceSource,omitempty"`

	// cpu is the CPU of one machine that pods can use.
	// +optional
	CPU *resource.Quantity `json:"cpu,omitempty"`

	// memory is the memory of one machine that pods can use.
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`

	// maxPods is the maximum number of pods on one machine.
	// +optional
	MaxPods int64 `json:"maxPods,omitempty"`

	// extendedResources are the extended resources of one machine that pods can use, such as
	// GPUs.
	// +optional
	ExtendedResources corev1.ResourceList `json:"extendedResources,omitempty"`

	// seen contains the resources of the last observed machine of the flavor. While the flavor
	// has no machine, the fleet does not expect more resources than these, even if its
	// template specifies more.
	// +optional
	Seen *SeenMachine `json:"seen,omitempty"`

	// arch is the CPU architecture.
	// +optional
	Arch string `json:"arch,omitempty"`

	// instanceType is the value of the label node.kubernetes.io/instance-type of its nodes. It
	// is empty if they do not have that label.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	InstanceType string `json:"instanceType,omitempty"`

	// capacityType is how its machines are sold, as stated by the labels of its nodes:
	// on-demand, spot or reserved. It is empty if no label states it.
	// +optional
	CapacityType string `json:"capacityType,omitempty"`

	// interruptionsPerHour is how often a machine is expected to be interrupted, per hour. It
	// is empty for machines that are not spot machines.
	// +optional
	InterruptionsPerHour string `json:"interruptionsPerHour,omitempty"`

	// machines is the number of machines, including ordered machines that are not ready yet.
	// +optional
	Machines int32 `json:"machines"`

	// min is the minimum number of machines.
	// +optional
	Min int32 `json:"min"`

	// max is the maximum number of machines.
	// +optional
	Max int32 `json:"max"`

	// lag is the learned time from the order of a machine until its node is ready.
	// +optional
	Lag *LearnedTime `json:"lag,omitempty"`

	// failures is the number of consecutive back-offs: of those that began after a machine of the
	// flavor was last ready. Machines that are abandoned during a back-off do not begin another one.
	// +optional
	Failures int32 `json:"failures,omitempty"`

	// backOffUntil is the time until which no machine of the flavor is bought.
	// +optional
	BackOffUntil *metav1.Time `json:"backOffUntil,omitempty"`

	// message explains why no machine of the flavor can be bought.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`

	// warning explains what endangers the pods on the machines of the flavor, which are bought
	// nevertheless.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Warning string `json:"warning,omitempty"`
}

// SeenMachine contains the resources of an observed machine that pods could use.
type SeenMachine struct {
	// template identifies what the machine was created from.
	Template string `json:"template"`

	// cpu is the CPU that pods could use.
	CPU resource.Quantity `json:"cpu"`

	// memory is the memory that pods could use.
	Memory resource.Quantity `json:"memory"`

	// maxPods is the maximum number of pods on the machine.
	MaxPods int64 `json:"maxPods"`

	// extendedResources are the extended resources that pods could use, such as GPUs.
	// +optional
	ExtendedResources corev1.ResourceList `json:"extendedResources,omitempty"`
}

// LearnedTime is a time learned from repeated measurements: an exponentially weighted mean and
// standard deviation.
type LearnedTime struct {
	// mean is the mean time, rounded to milliseconds.
	Mean metav1.Duration `json:"mean"`

	// deviation is the standard deviation of the time.
	Deviation metav1.Duration `json:"deviation"`

	// samples is the number of measurements from which the time was learned.
	Samples int64 `json:"samples"`
}

// FleetIntent is a change in progress.
type FleetIntent struct {
	// id identifies the intent. Providers that support tags record it on the machines.
	ID string `json:"id"`

	// time is the time at which the intent was created.
	Time metav1.Time `json:"time"`

	// orders are the machines to buy.
	// +listType=map
	// +listMapKey=flavor
	// +kubebuilder:validation:MaxItems=1000
	// +optional
	Orders []FleetOrder `json:"orders,omitempty"`

	// releases are the machines to release.
	// +listType=map
	// +listMapKey=flavor
	// +kubebuilder:validation:MaxItems=1000
	// +optional
	Releases []FleetRelease `json:"releases,omitempty"`
}

// FleetOrder requests machines of one flavor.
type FleetOrder struct {
	// flavor is the name of the flavor.
	Flavor string `json:"flavor"`

	// from is the desired number of machines before the order.
	From int32 `json:"from"`

	// to is the desired number of machines after the order.
	To int32 `json:"to"`
}

// FleetRelease releases machines of one flavor.
type FleetRelease struct {
	// flavor is the name of the flavor.
	Flavor string `json:"flavor"`

	// from is the desired number of machines before the release.
	From int32 `json:"from"`

	// machines are the names of the machines to release.
	// +listType=set
	// +kubebuilder:validation:MaxItems=10000
	Machines []string `json:"machines"`
}

// FleetDecision is a decision of the fleet and its reasons.
type FleetDecision struct {
	// id is the ID of the intent.
	ID string `json:"id"`

	// time is the time of the decision.
	Time metav1.Time `json:"time"`

	// mode is the mode of the fleet at the time of the decision. In mode Observe nothing was
	// changed.
	Mode FleetMode `json:"mode"`

	// summary is a one-line description of the decision.
	// +kubebuilder:validation:MaxLength=1024
	Summary string `json:"summary"`

	// buys are the machines to buy, with one entry for each flavor.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +optional
	Buys []DecidedPurchase `json:"buys,omitempty"`

	// releases are the machines to release.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +optional
	Releases []DecidedRelease `json:"releases,omitempty"`

	// rejected are alternatives that were not chosen: flavors that were not bought, and pods
	// that fit on no machine.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +optional
	Rejected []Rejection `json:"rejected,omitempty"`

	// pricePerHour is the price of all machines to buy, in dollars per hour.
	// +optional
	PricePerHour string `json:"pricePerHour,omitempty"`

	// lowerBoundPerHour is a lower bound on the price of machines for the same pods, in
	// dollars per hour.
	// +optional
	LowerBoundPerHour string `json:"lowerBoundPerHour,omitempty"`

	// deferral describes the pods for which no machine was bought because it was cheaper to
	// wait.
	// +optional
	Deferral *FleetDeferral `json:"deferral,omitempty"`

	// dollarsUntilEmpty is the expected cost of all machines to buy until they are empty
	// again, in dollars. The fleet minimizes this value.
	// +optional
	DollarsUntilEmpty string `json:"dollarsUntilEmpty,omitempty"`

	// savesDollars is the expected saving from draining or exchanging machines, in dollars,
	// before costsDollars is subtracted.
	// +optional
	SavesDollars string `json:"savesDollars,omitempty"`

	// costsDollars is the expected cost of draining or exchanging machines, in dollars: moves,
	// repeated work, and machines that are paid for while their replacements start.
	// +optional
	CostsDollars string `json:"costsDollars,omitempty"`

	// expected is the outcome that was expected at the time of the decision.
	// +optional
	Expected Outcome `json:"expected,omitempty"`

	// measured is the actual outcome. It is set when the last machine bought is ready or
	// abandoned, and the last machine released is gone.
	// +optional
	Measured *Outcome `json:"measured,omitempty"`
}

// FleetDeferral describes the pods that wait longer than a purchase would take, and the
// expected saving.
type FleetDeferral struct {
	// reason is a one-line explanation.
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason"`

	// pods is the number of waiting pods.
	Pods int32 `json:"pods"`

	// podNames are the names of the waiting pods. At most 10 are listed.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	// +optional
	PodNames []string `json:"podNames,omitempty"`

	// savesDollars is the expected saving, in dollars: buyDollars minus waitDollars.
	SavesDollars string `json:"savesDollars"`

	// buyDollars is the expected cost, in dollars until they are empty again, of machines for
	// all pods that would wait too long.
	BuyDollars string `json:"buyDollars"`

	// waitDollars is the expected cost, in dollars, of the machines that are bought
	// nevertheless, and of the additional time for which existing machines are needed.
	WaitDollars string `json:"waitDollars"`

	// roomTime is the time at which resources are expected to be available for the last of the
	// pods.
	RoomTime metav1.Time `json:"roomTime"`

	// buyTime is the latest time at which a machine is bought for the first of the pods.
	BuyTime metav1.Time `json:"buyTime"`
}

// Outcome is the outcome of a decision.
type Outcome struct {
	// readySeconds is the time from the decision until the last machine bought is ready, in
	// seconds.
	// +optional
	ReadySeconds int64 `json:"readySeconds,omitempty"`

	// dollarsPerHour is the price of all machines of the fleet at that time, in dollars per
	// hour.
	// +optional
	DollarsPerHour string `json:"dollarsPerHour,omitempty"`

	// pendingPods is the number of pending pods at that time.
	// +optional
	PendingPods int32 `json:"pendingPods"`
}

// DecidedPurchase is a purchase of machines of one flavor.
type DecidedPurchase struct {
	// flavor is the name of the flavor.
	Flavor string `json:"flavor"`

	// count is the number of machines.
	Count int32 `json:"count"`

	// pods is the number of pods for which the machines are bought.
	Pods int32 `json:"pods"`

	// reason explains why this flavor was chosen.
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason"`

	// pricePerHour is the price of one machine, in dollars per hour.
	// +optional
	PricePerHour string `json:"pricePerHour,omitempty"`

	// startSeconds is the expected time for which a machine is billed before it accepts pods,
	// in seconds.
	// +optional
	StartSeconds int64 `json:"startSeconds,omitempty"`

	// billedSeconds is the expected time for which the machines are billed until they are
	// empty again, in seconds. It is the sum over all machines, each in started billing
	// periods.
	// +optional
	BilledSeconds int64 `json:"billedSeconds,omitempty"`

	// dollarsUntilEmpty is the expected cost, in dollars: pricePerHour for billedSeconds.
	// +optional
	DollarsUntilEmpty string `json:"dollarsUntilEmpty,omitempty"`

	// machines breaks the purchase down into groups of machines that are billed for the same
	// time, with the longest time first. At most 10 groups are listed.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	// +optional
	Machines []DecidedMachines `json:"machines,omitempty"`
}

// DecidedMachines are machines of one flavor that are expected to be billed for the same time.
type DecidedMachines struct {
	// count is the number of machines.
	Count int32 `json:"count"`

	// busySeconds is the expected time from when a machine is ready until it is empty again,
	// in seconds, computed from the declared or learned runtimes of its pods. It is unset if
	// the machine is not expected to become empty.
	// +optional
	BusySeconds int64 `json:"busySeconds,omitempty"`

	// billedSeconds is the expected time for which one machine is billed, in seconds:
	// startSeconds plus busySeconds, rounded up to billing periods. A machine that is not
	// expected to become empty is compared with others as if it were busy for one day.
	// +optional
	BilledSeconds int64 `json:"billedSeconds,omitempty"`

	// dollarsUntilEmpty is the expected cost of these machines together, in dollars.
	// +optional
	DollarsUntilEmpty string `json:"dollarsUntilEmpty,omitempty"`

	// pods is the number of pods for which the machines are bought.
	Pods int32 `json:"pods"`

	// podNames are the names of the pods. At most 10 are listed.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	// +optional
	PodNames []string `json:"podNames,omitempty"`
}

// DecidedRelease is a machine to release.
type DecidedRelease struct {
	// node is the name of its node.
	Node string `json:"node"`

	// reason explains why the machine is released.
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason"`

	// keepDollars is the cost of keeping an empty machine until the end of the next billing
	// period, in dollars.
	// +optional
	KeepDollars string `json:"keepDollars,omitempty"`

	// startDollars is the cost of a replacement machine until it accepts pods, in dollars.
	// +optional
	StartDollars string `json:"startDollars,omitempty"`

	// savesDollars is the expected saving from draining the machine, in dollars. For exchanged
	// machines it is set in the decision instead.
	// +optional
	SavesDollars string `json:"savesDollars,omitempty"`

	// costsDollars is the expected cost of draining the machine, in dollars. For exchanged
	// machines it is set in the decision instead.
	// +optional
	CostsDollars string `json:"costsDollars,omitempty"`
}

// KeptMachine is a machine that is under-used or empty but not released.
type KeptMachine struct {
	// node is the name of its node.
	Node string `json:"node"`

	// reason explains which pod, setting or price keeps the machine.
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason"`
}

// Rejection is an alternative that was not chosen.
type Rejection struct {
	// name is the name of a flavor, node or pod.
	Name string `json:"name"`

	// reason explains why it was not chosen.
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason"`
}

// The conditions of a NodeFleet.
const (
	// FleetReady means that the fleet is reconciled: its flavors are known, and the last
	// decision could be made and carried out.
	FleetReady = "Ready"
	// FleetPriced means that every flavor that can otherwise be bought has a price. The fleet does
	// not buy flavors without a price.
	FleetPriced = "Priced"
	// FleetLimited means that pods are pending because a limit allows no more machines.
	FleetLimited = "Limited"
	// FleetDegraded means that machines did not become ready, or that a problem needs manual
	// intervention.
	FleetDegraded = "Degraded"
)
