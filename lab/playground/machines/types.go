package machines

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fault is how a machine misbehaves.
// +kubebuilder:validation:Enum=Never;Fail
type Fault string

const (
	// FaultNever provisions machines whose Node never joins.
	FaultNever Fault = "Never"
	// FaultFail never provisions machines and reports the failure.
	FaultFail Fault = "Fail"
)

// KwokMachineSpec says what a machine is and how it behaves.
type KwokMachineSpec struct {
	// providerID is set by the provider: kwok:// and the machine's name.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`

	// cpu is what the machine offers to pods. Default: that of its instance type, with its memory,
	// pods, architecture and machine type.
	// +optional
	CPU resource.Quantity `json:"cpu,omitzero"`

	// memory is what the machine offers to pods.
	// +optional
	Memory resource.Quantity `json:"memory,omitzero"`

	// pods is how many pods the machine takes; 110 unless set.
	// +optional
	// +kubebuilder:default=110
	// +kubebuilder:validation:Minimum=1
	Pods int32 `json:"pods,omitempty"`

	// arch is the architecture as in GOARCH; amd64 unless set.
	// +optional
	// +kubebuilder:default=amd64
	// +kubebuilder:validation:MaxLength=63
	Arch string `json:"arch,omitempty"`

	// instanceType is the value of the Node's label
	// node.kubernetes.io/instance-type. Where cpu is not given it is one of those for sale in the
	// namespace.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	InstanceType string `json:"instanceType,omitempty"`

	// nodeLabels are put on the Node when it joins.
	// +optional
	// +kubebuilder:validation:MaxProperties=100
	NodeLabels map[string]string `json:"nodeLabels,omitempty"`

	// nodeAnnotations are put on the Node when it joins.
	// +optional
	// +kubebuilder:validation:MaxProperties=100
	NodeAnnotations map[string]string `json:"nodeAnnotations,omitempty"`

	// nodeTaints are put on the Node when it joins.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	NodeTaints []corev1.Taint `json:"nodeTaints,omitempty"`

	// acquisitionLag is how long it takes from the request to the Node; if
	// acquisitionLagSD is set, on average.
	// +optional
	AcquisitionLag metav1.Duration `json:"acquisitionLag,omitempty"`

	// acquisitionLagSD is the standard deviation of the acquisition lag. Each
	// machine's is drawn by its name: the same name waits equally long again.
	// +optional
	AcquisitionLagSD metav1.Duration `json:"acquisitionLagSD,omitempty"`

	// releaseLag is how long the machine and its Node stay after they have been
	// asked to go.
	// +optional
	ReleaseLag metav1.Duration `json:"releaseLag,omitempty"`

	// fault is how the machine misbehaves; not at all unless set.
	// +optional
	Fault Fault `json:"fault,omitempty"`
}

// Initialization is how cluster-api learns that a part of a cluster is there.
type Initialization struct {
	// provisioned says that the infrastructure is there.
	// +optional
	Provisioned *bool `json:"provisioned,omitempty"`

	// controlPlaneInitialized says that the API server takes requests.
	// +optional
	ControlPlaneInitialized *bool `json:"controlPlaneInitialized,omitempty"`
}

// Address is one of a machine's addresses.
type Address struct {
	// type is Hostname or InternalDNS.
	Type string `json:"type"`
	// address is the address itself.
	Address string `json:"address"`
}

// KwokMachineStatus is how far a machine has come.
type KwokMachineStatus struct {
	// initialization.provisioned says that the machine runs.
	// +optional
	Initialization Initialization `json:"initialization,omitempty,omitzero"`

	// addresses are the machine's. No packet reaches them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Addresses []Address `json:"addresses,omitempty"`

	// requestTime is when the machine was asked for and the acquisition lag began.
	// +optional
	RequestTime *metav1.MicroTime `json:"requestTime,omitempty"`

	// provisionTime is when the acquisition lag was over.
	// +optional
	ProvisionTime *metav1.MicroTime `json:"provisionTime,omitempty"`

	// releaseTime is when the machine was asked to go and the release lag began.
	// +optional
	ReleaseTime *metav1.MicroTime `json:"releaseTime,omitempty"`

	// conditions has Ready, which cluster-api shows on the Machine.
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

// KwokMachineTemplateSpec says what machines are made from a template.
type KwokMachineTemplateSpec struct {
	// template is what each of them is like.
	Template KwokMachineTemplateResource `json:"template"`
}

// KwokMachineTemplateResource is what each machine of a template is like.
type KwokMachineTemplateResource struct {
	// metadata is added to that of the machines.
	// +optional
	Metadata TemplateMetadata `json:"metadata,omitempty,omitzero"`
	// spec is that of the machines.
	Spec KwokMachineSpec `json:"spec"`
}

// TemplateMetadata is the metadata that a template passes on.
type TemplateMetadata struct {
	// labels are added to those of the machines.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// annotations are added to those of the machines.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// NodeInfo is what autoscalers want to know of a Node besides its size.
type NodeInfo struct {
	// architecture is as in GOARCH.
	// +optional
	Architecture string `json:"architecture,omitempty"`
	// operatingSystem is as in GOOS.
	// +optional
	OperatingSystem string `json:"operatingSystem,omitempty"`
}

// KwokMachineTemplateStatus tells autoscalers what a machine of a template that
// has none yet would be.
type KwokMachineTemplateStatus struct {
	// capacity is what the Node of such a machine has.
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`
	// nodeInfo is the architecture and system of such a Node.
	// +optional
	NodeInfo NodeInfo `json:"nodeInfo,omitempty,omitzero"`
}

// KwokMachineTemplate is what MachineDeployments make machines from.
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

// KwokClusterStatus says that there is nothing to wait for.
type KwokClusterStatus struct {
	// initialization.provisioned is true.
	// +optional
	Initialization Initialization `json:"initialization,omitempty,omitzero"`

	// conditions has Ready, which cluster-api shows on the Cluster.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=10
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// KwokCluster is the infrastructure of a cluster beside its machines: none.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
type KwokCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec has nothing to say.
	// +optional
	Spec   KwokClusterSpec   `json:"spec,omitempty,omitzero"`
	Status KwokClusterStatus `json:"status,omitempty,omitzero"`
}

// KwokClusterSpec has nothing to say.
type KwokClusterSpec struct{}

// KwokClusterList is a list of KwokClusters.
//
// +kubebuilder:object:root=true
type KwokClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []KwokCluster `json:"items"`
}

// KwokControlPlaneSpec says which Kubernetes the control plane is.
type KwokControlPlaneSpec struct {
	// version is that of the playground's API server.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version,omitempty"`
}

// KwokControlPlaneStatus says that the control plane runs.
type KwokControlPlaneStatus struct {
	// initialization.controlPlaneInitialized is true.
	// +optional
	Initialization Initialization `json:"initialization,omitempty,omitzero"`

	// version is the one that runs.
	// +optional
	Version string `json:"version,omitempty"`

	// externalManagedControlPlane is true: no Machine is part of the control
	// plane. Otherwise cluster-api would take the last worker for its last member
	// and not drain it.
	// +optional
	ExternalManagedControlPlane bool `json:"externalManagedControlPlane,omitempty"`

	// conditions has Available, which cluster-api shows on the Cluster.
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
