package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KarpenterNodes specifies the NodeClaims of a fleet. Karpenter must run in the cluster, with
// the cloud provider of the NodeClass. The fleet creates one NodeClaim for each machine,
// without a NodePool: Karpenter launches, registers and terminates the machine, and does not
// consolidate it.
type KarpenterNodes struct {
	// nodeClassRef refers to the NodeClass of the machines, such as an EC2NodeClass.
	// +required
	NodeClassRef KarpenterNodeClass `json:"nodeClassRef"`

	// instanceTypes are the instance types that the fleet may buy, such as m7i.large. An
	// asterisk matches any text, as in m7i.*. A leading exclamation mark excludes all matching
	// types. Default: all types of spec.pricing except those of kind Burstable or Accelerated.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:Pattern=`^!?[A-Za-z0-9*][A-Za-z0-9*._/-]*$`
	// +kubebuilder:validation:items:MaxLength=63
	// +optional
	InstanceTypes []string `json:"instanceTypes,omitempty"`

	// requirements are the requirements of the NodeClaims, as in a NodePool. Each combination
	// of an instance type of spec.pricing, a zone of the requirement
	// topology.kubernetes.io/zone and a capacity type of the requirement
	// karpenter.sh/capacity-type is a flavor. Without these requirements, the cloud chooses the
	// zone, and the capacity type is on-demand. Only instance types of the architectures in the
	// requirement kubernetes.io/arch are bought, by default amd64. The other requirements are
	// copied to each NodeClaim.
	// +listType=map
	// +listMapKey=key
	// +kubebuilder:validation:MaxItems=50
	// +optional
	Requirements []KarpenterRequirement `json:"requirements,omitempty"`

	// labels are labels of the nodes.
	// +kubebuilder:validation:MaxProperties=64
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// taints are the taints of the nodes.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Taints []corev1.Taint `json:"taints,omitempty"`

	// startupTaints are taints that another controller removes from the nodes, such as a
	// DaemonSet that prepares them. Pods wait for that.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +optional
	StartupTaints []corev1.Taint `json:"startupTaints,omitempty"`

	// expireAfter is the age at which Karpenter terminates a machine together with the pods on
	// it.
	// +kubebuilder:default=Never
	// +kubebuilder:validation:Pattern=`^(([0-9]+(s|m|h))+|Never)$`
	// +kubebuilder:validation:MaxLength=32
	// +optional
	ExpireAfter string `json:"expireAfter,omitempty"`

	// terminationGracePeriod is how long Karpenter waits for the pods of a machine that is
	// being terminated. After that it deletes them, regardless of PodDisruptionBudgets. Default:
	// Karpenter waits until all pods have left.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
	// +kubebuilder:validation:MaxLength=32
	// +optional
	TerminationGracePeriod *metav1.Duration `json:"terminationGracePeriod,omitempty"`
}

// KarpenterNodeClass refers to a NodeClass of Karpenter. Its kind depends on the cloud.
type KarpenterNodeClass struct {
	// group is the API group, such as karpenter.k8s.aws.
	// +kubebuilder:validation:Pattern=`^[^/]+$`
	// +kubebuilder:validation:MaxLength=253
	// +required
	Group string `json:"group"`

	// kind is the kind, such as EC2NodeClass.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Kind string `json:"kind"`

	// name is the name of the NodeClass.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
}

// KarpenterRequirement is a requirement on the labels of nodes.
//
// +kubebuilder:validation:XValidation:rule="self.operator in ['In', 'NotIn', 'Gt', 'Lt'] ? has(self.values) && self.values.size() > 0 : !has(self.values)",message="values must be set if operator is In, NotIn, Gt or Lt, and must be unset otherwise"
// +kubebuilder:validation:XValidation:rule="self.operator == 'In' || !(self.key in ['topology.kubernetes.io/zone', 'karpenter.sh/capacity-type', 'kubernetes.io/arch'])",message="operator must be In for topology.kubernetes.io/zone, karpenter.sh/capacity-type and kubernetes.io/arch, because the fleet names their values in each NodeClaim"
// +kubebuilder:validation:XValidation:rule="!(self.key in ['node.kubernetes.io/instance-type', 'karpenter.sh/nodepool', 'kubernetes.io/hostname'])",message="key must not be node.kubernetes.io/instance-type, for which instanceTypes is used, karpenter.sh/nodepool or kubernetes.io/hostname"
// +kubebuilder:validation:XValidation:rule="self.key != 'karpenter.sh/capacity-type' || !has(self.values) || self.values.all(v, v in ['on-demand', 'spot', 'reserved'])",message="values of karpenter.sh/capacity-type must be on-demand, spot or reserved: Karpenter has no others"
type KarpenterRequirement struct {
	// key is the key of the label.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	// +required
	Key string `json:"key"`

	// operator is the relation of the label to the values.
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist;Gt;Lt
	// +required
	Operator corev1.NodeSelectorOperator `json:"operator"`

	// values are the values of the label.
	// +listType=set
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=63
	// +optional
	Values []string `json:"values,omitempty"`
}
