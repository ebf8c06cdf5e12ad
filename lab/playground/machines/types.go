package machines

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fault is a simulated fault of a machine.
// +kubebuilder:validation:Enum=Never;Fail
type Fault string

const (
	// FaultNever provisions machines whose Node never joins.
	FaultNever Fault = "Never"
	// FaultFail never provisions machines and reports the failure.
	FaultFail Fault = "Fail"
)

// KwokMachineSpec describes the resources and the behavior of a machine.
type KwokMachineSpec struct {
	// providerID is set by the provider to kwok:// and the name of the machine.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`

	// cpu is the allocatable CPU of the Node. If unset, the CPU, memory, pods, architecture and
	// machine type of the instance type apply.
	// +optional
	CPU resource.Quantity `json:"cpu,omitzero"`

	// memory is the allocatable memory of the Node.
	// +optional
	Memory resource.Quantity `json:"memory,omitzero"`

	// pods is the maximum number of pods on the Node. Defaults to 110.
	// +optional
	// +kubebuilder:default=110
	// +kubebuilder:validation:Minimum=1
	Pods int32 `json:"pods,omitempty"`

	// arch is the architecture, as in GOARCH. Defaults to amd64.
	// +optional
	// +kubebuilder:default=amd64
	// +kubebuilder:validation:MaxLength=63
	Arch string `json:"arch,omitempty"`

	// instanceType is the value of the Node's label
	// node.kubernetes.io/instance-type. If cpu is unset, it must be an instance type that is
	// for sale in the namespace.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	InstanceType string `json:"instanceType,omitempty"`

	// nodeLabels are added to the Node when it joins.
	// +optional
	// +kubebuilder:validation:MaxProperties=100
	NodeLabels map[string]string `json:"nodeLabels,omitempty"`

	// nodeAnnotations are added to the Node when it joins.
	// +optional
	// +kubebuilder:validation:MaxProperties=100
	NodeAnnotations map[string]string `json:"nodeAnnotations,omitempty"`

	// nodeTaints are added to the Node when it joins.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	NodeTaints []corev1.Taint `json:"nodeTaints,omitempty"`

	// acquisitionLag is the time from the request for the machine until its Node
	// joins. If acquisitionLagSD is set, it is the mean.
	// +optional
	AcquisitionLag metav1.Duration `json:"acquisitionLag,omitempty"`

	// acquisitionLagSD is the standard deviation of the acquisition lag. The lag of
	// a machine depends only on its name, so a machine of the same name takes
	// equally long.
	// +optional
	AcquisitionLagSD metav1.Duration `json:"acquisitionLagSD,omitempty"`

	// releaseLag is how long the machine and its Node remain after the deletion of
	// the machine is requested.
	// +optional
	ReleaseLag metav1.Duration `json:"releaseLag,omitempty"`

	// fault is the simulated fault of the machine. If unset, the machine works.
	// +optional
	Fault Fault `json:"fault,omitempty"`
}

// Initialization tells cluster-api whether a part of a cluster is initialized.
type Initialization struct {
	// provisioned is true when the infrastructure is provisioned.
	// +optional
	Provisioned *bool `json:"provisioned,omitempty"`

	// controlPlaneInitialized is true when the API server accepts requests.
	// +optional
	ControlPlaneInitialized *bool `json:"controlPlaneInitialized,omitempty"`
}

// Address is an address of a machine.
type Address struct {
	// type is Hostname or InternalDNS.
	Type string `json:"type"`
	// address is the host name.
	Address string `json:"address"`
}

// KwokMachineStatus is the observed state of a machine.
type KwokMachineStatus struct {
	// initialization.provisioned is true when the machine runs.
	// +optional
	Initialization Initialization `json:"initialization,omitempty,omitzero"`

	// addresses are the addresses of the machine. They are not reachable.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Addresses []Address `json:"addresses,omitempty"`

	// requestTime is when the machine was requested and the acquisition lag began.
	// +optional
	RequestTime *metav1.MicroTime `json:"requestTime,omitempty"`

	// provisionTime is when the acquisition lag ended.
	// +optional
	ProvisionTime *metav1.MicroTime `json:"provisionTime,omitempty"`

	// releaseTime is when the deletion was requested and the release lag began.
	// +optional
	ReleaseTime *metav1.MicroTime `json:"releaseTime,omitempty"`

	// conditions contains Ready, which cluster-api copies to the Machine.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=10
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// KwokMachine is a machine whose Node kwok simulates.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.instanceType`
// +kubebuilder:printcolumn:name="ProviderID",type=string,JSONPath=`.spec.providerID`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type KwokMachine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   KwokMachineSpec   `json:"spec"`
	Status KwokMachineStatus `json:"status,omitempty,omitzero"`
}

// KwokMachineList is a list of machines.
//
// +kubebuilder:object:root=true
type KwokMachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []KwokMachine `json:"items"`
}

// KwokMachineTemplateSpec describes the machines that are created from a template.
type KwokMachineTemplateSpec struct {
	// template describes each machine.
	Template KwokMachineTemplateResource `json:"template"`
}

// KwokMachineTemplateResource describes each machine of a template.
type KwokMachineTemplateResource struct {
	// metadata is added to the metadata of the machines.
	// +optional
	Metadata TemplateMetadata `json:"metadata,omitempty,omitzero"`
	// spec is the spec of the machines.
	Spec KwokMachineSpec `json:"spec"`
}

// TemplateMetadata is the metadata that a template adds to its machines.
type TemplateMetadata struct {
	// labels are added to the labels of the machines.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// annotations are added to the annotations of the machines.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// NodeInfo describes a Node to autoscalers, besides its capacity.
type NodeInfo struct {
	// architecture is the architecture, as in GOARCH.
	// +optional
	Architecture string `json:"architecture,omitempty"`
	// operatingSystem is the operating system, as in GOOS.
	// +optional
	OperatingSystem string `json:"operatingSystem,omitempty"`
}

// KwokMachineTemplateStatus describes the Nodes of a template, so that autoscalers
// can scale it from zero.
type KwokMachineTemplateStatus struct {
	// capacity is the capacity of the Node of such a machine.
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`
	// nodeInfo is the architecture and operating system of such a Node.
	// +optional
	NodeInfo NodeInfo `json:"nodeInfo,omitempty,omitzero"`
}

// KwokMachineTemplate is the template from which MachineDeployments create machines.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
type KwokMachineTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   KwokMachineTemplateSpec   `json:"spec"`
	Status KwokMachineTemplateStatus `json:"status,omitempty,omitzero"`
}

// KwokMachineTemplateList is a list of templates.
//
// +kubebuilder:object:root=true
type KwokMachineTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []KwokMachineTemplate `json:"items"`
}

// KwokClusterStatus is the observed state of the cluster. It is provisioned at once.
type KwokClusterStatus struct {
	// initialization.provisioned is true.
	// +optional
	Initialization Initialization `json:"initialization,omitempty,omitzero"`

	// conditions contains Ready, which cluster-api copies to the Cluster.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=10
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// KwokCluster is the infrastructure of a cluster apart from its machines. It consists of nothing.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
type KwokCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is empty.
	// +optional
	Spec   KwokClusterSpec   `json:"spec,omitempty,omitzero"`
	Status KwokClusterStatus `json:"status,omitempty,omitzero"`
}

// KwokClusterSpec has no fields.
type KwokClusterSpec struct{}

// KwokClusterList is a list of KwokClusters.
//
// +kubebuilder:object:root=true
type KwokClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []KwokCluster `json:"items"`
}

// KwokControlPlaneSpec describes the control plane.
type KwokControlPlaneSpec struct {
	// version is the Kubernetes version of the playground's API server.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version,omitempty"`
}

// KwokControlPlaneStatus is the observed state of the control plane.
type KwokControlPlaneStatus struct {
	// initialization.controlPlaneInitialized is true.
	// +optional
	Initialization Initialization `json:"initialization,omitempty,omitzero"`

	// version is the Kubernetes version that runs.
	// +optional
	Version string `json:"version,omitempty"`

	// externalManagedControlPlane is true, because no Machine is part of the
	// control plane. Otherwise cluster-api would treat the last worker as the last
	// control plane machine and not drain it.
	// +optional
	ExternalManagedControlPlane bool `json:"externalManagedControlPlane,omitempty"`

	// conditions contains Available, which cluster-api copies to the Cluster.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=10
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// KwokControlPlane is the playground's own control plane as cluster-api sees it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
type KwokControlPlane struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec   KwokControlPlaneSpec   `json:"spec,omitempty,omitzero"`
	Status KwokControlPlaneStatus `json:"status,omitempty,omitzero"`
}

// KwokControlPlaneList is a list of KwokControlPlanes.
//
// +kubebuilder:object:root=true
type KwokControlPlaneList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []KwokControlPlane `json:"items"`
}
