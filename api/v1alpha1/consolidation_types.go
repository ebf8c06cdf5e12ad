package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ConsolidationName is the name of the Consolidation whose status the descheduler writes.
const ConsolidationName = "default"

// Consolidation is the report of the descheduler: its last decision about nodes that belong to
// no NodeFleet, and about single pods that other machines suit better. The manifests create the
// one object, with name default, and the descheduler writes its status. Options of the
// descheduler configure consolidation.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,categories=supercargo
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.status.mode`
// +kubebuilder:printcolumn:name="Policy",type=string,JSONPath=`.status.policy`
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.nodes`
// +kubebuilder:printcolumn:name="Dollars/h",type=string,JSONPath=`.status.dollarsPerHour`
// +kubebuilder:printcolumn:name="Expected",type=string,JSONPath=`.status.expectedDollarsPerHour`
// +kubebuilder:printcolumn:name="Decided",type=date,JSONPath=`.status.time`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,priority=1
type Consolidation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// status is the last decision. It is empty until the descheduler has decided.
	// +optional
	Status ConsolidationStatus `json:"status,omitempty"`
}

// ConsolidationList is a list of Consolidations.
//
// +kubebuilder:object:root=true
type ConsolidationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items is the list of Consolidations.
	Items []Consolidation `json:"items"`
}

// ConsolidationStatus is the last decision about nodes and single pods. Each list has at most
// 200 entries, and all drains together at most 1,000 pods; omitted counts the others.
type ConsolidationStatus struct {
	// time is when the decision was made.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`

	// mode is whether the decision is carried out, Observe or Act.
	// +optional
	Mode string `json:"mode,omitempty"`

	// policy is how the decision was made, CostAware or HTAS.
	// +optional
	Policy string `json:"policy,omitempty"`

	// paused is why the cluster is paused, so that the mode is Observe. It is empty if the
	// cluster is not paused.
	// +optional
	Paused string `json:"paused,omitempty"`

	// dollarsPerHour is the price of all nodes that are not emptied.
	// +optional
	DollarsPerHour string `json:"dollarsPerHour,omitempty"`

	// expectedDollarsPerHour is that price after the decision has been carried out.
	// +optional
	ExpectedDollarsPerHour string `json:"expectedDollarsPerHour,omitempty"`

	// nodes is the number of nodes.
	// +optional
	Nodes int32 `json:"nodes,omitempty"`

	// emptying are the nodes that the descheduler has cordoned and whose pods are leaving.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=200
	Emptying []string `json:"emptying,omitempty"`

	// emptied are the nodes that the descheduler has cordoned and whose pods have left.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=200
	Emptied []string `json:"emptied,omitempty"`

	// drains are the nodes that were chosen to be emptied, by the last decision that chose any.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=200
	Drains []ConsolidationDrain `json:"drains,omitempty"`

	// kept are under-used nodes that stay, with the reasons.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=200
	Kept []Rejection `json:"kept,omitempty"`

	// energy are the pods that other machines suit better, by the last decision that found any.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=200
	Energy []EnergyMove `json:"energy,omitempty"`

	// omitted is the number of nodes and pods that were left out of lists that were too long.
	// +optional
	Omitted int32 `json:"omitted,omitempty"`
}

// ConsolidationDrain is a node that was chosen to be emptied.
type ConsolidationDrain struct {
	// node is the name of the node.
	Node string `json:"node"`

	// time is when it was chosen.
	Time metav1.Time `json:"time"`

	// reason explains why it was chosen.
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason"`

	// savesDollars is the expected saving, without the costs.
	// +optional
	SavesDollars string `json:"savesDollars,omitempty"`

	// costsDollars is the expected cost of the moves.
	// +optional
	CostsDollars string `json:"costsDollars,omitempty"`

	// untilSeconds is the expected time until the last pod has left.
	// +optional
	UntilSeconds int64 `json:"untilSeconds,omitempty"`

	// pods describes how each pod leaves the node.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	Pods []ConsolidationMove `json:"pods,omitempty"`
}

// ConsolidationMove is how one pod leaves a node.
type ConsolidationMove struct {
	// pod is the namespace and the name of the pod, as namespace/name.
	Pod string `json:"pod"`

	// method is how it leaves: migrate, restart, evict or wait.
	Method string `json:"method"`

	// target is a node with room for the pod. The scheduler decides where it runs.
	// +optional
	Target string `json:"target,omitempty"`

	// reason explains the method.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`
}

// EnergyMove is a pod for the rest of whose work another machine is better.
type EnergyMove struct {
	// time is when the decision was made.
	Time metav1.Time `json:"time"`

	// pod is the namespace and the name of the pod, as namespace/name.
	Pod string `json:"pod"`

	// from is the node of the pod.
	From string `json:"from"`

	// target is the node that suits it better.
	Target string `json:"target"`

	// method is how it moves: migrate or evict.
	Method string `json:"method"`

	// joules is the expected saving of energy for the rest of its work.
	Joules int64 `json:"joules"`

	// soonerSeconds is by how many seconds its work is expected to end sooner.
	SoonerSeconds int64 `json:"soonerSeconds"`

	// dollars is the expected saving of cost, if there is a tariff in dollars.
	// +optional
	Dollars string `json:"dollars,omitempty"`

	// co2Grams is the expected saving of emissions in grams, if there is a tariff of emissions.
	// +optional
	CO2Grams string `json:"co2Grams,omitempty"`

	// reason explains the scores of both machines.
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason"`
}
