package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// OpenStackServers specifies how the servers of a fleet are created. Images, networks,
// security groups and the server group can be specified by name or by ID.
type OpenStackServers struct {
	// credentials specifies the credentials of the OpenStack project.
	// +required
	Credentials OpenStackCredentials `json:"credentials"`

	// region is the region of the cloud. Default: the region that the credentials name.
	// +kubebuilder:validation:MaxLength=255
	// +optional
	Region string `json:"region,omitempty"`

	// flavors are the names of the flavors that the fleet may buy. Default: all flavors that
	// the project can see.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=500
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=255
	// +optional
	Flavors []string `json:"flavors,omitempty"`

	// availabilityZones are the availability zones in which servers are created. Each flavor
	// is offered in each zone, under the name FLAVOR@ZONE. Default: the cloud chooses the
	// zone.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=255
	// +optional
	AvailabilityZones []string `json:"availabilityZones,omitempty"`

	// image is the image from which servers boot.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +required
	Image string `json:"image"`

	// networks are the networks of the servers, in the order of their ports.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=255
	// +required
	Networks []string `json:"networks"`

	// keyName is the name of the key pair for SSH.
	// +kubebuilder:validation:MaxLength=255
	// +optional
	KeyName string `json:"keyName,omitempty"`

	// securityGroups are the security groups of the servers. Default: the default group of the
	// project.
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=255
	// +optional
	SecurityGroups []string `json:"securityGroups,omitempty"`

	// serverGroup is the server group of the servers. Its policy determines how they are
	// spread over hosts.
	// +kubebuilder:validation:MaxLength=255
	// +optional
	ServerGroup string `json:"serverGroup,omitempty"`

	// userData specifies the user data of the servers, such as the commands that join the
	// cluster.
	// +optional
	UserData *OpenStackUserData `json:"userData,omitempty"`

	// nodeLabels are the labels of the nodes. The user data must pass them to the kubelet.
	// +kubebuilder:validation:MaxProperties=64
	// +optional
	NodeLabels map[string]string `json:"nodeLabels,omitempty"`

	// nodeTaints are the taints of the nodes. The user data must pass them to the kubelet.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +optional
	NodeTaints []corev1.Taint `json:"nodeTaints,omitempty"`

	// reserved is the part of a server's CPU and memory that pods cannot use, because the
	// kernel, the system and the kubelet need it. It applies to a flavor until the fleet has
	// observed a node of that flavor.
	// +kubebuilder:default={}
	// +optional
	Reserved OpenStackReserve `json:"reserved,omitempty"`

	// maxPods is the maximum number of pods on a node.
	// +kubebuilder:default=110
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	// +optional
	MaxPods int64 `json:"maxPods,omitempty"`
}

// OpenStackCredentials refers to a Secret. The Secret contains either a clouds.yaml, or the
// keys auth_url, application_credential_id and application_credential_secret, and region_name
// if there are several regions. Its optional key cacert contains the certificates to trust, in
// PEM.
type OpenStackCredentials struct {
	// namespace is the namespace of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Namespace string `json:"namespace"`

	// name is the name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`

	// cloud is the name of a cloud in clouds.yaml. It is required only if clouds.yaml has
	// several clouds.
	// +kubebuilder:validation:MaxLength=255
	// +optional
	Cloud string `json:"cloud,omitempty"`
}

// OpenStackUserData specifies a template in the language of Go's text/template. The template
// can use .Name (of the server), .Fleet, .Flavor, .Zone, .Labels and .Taints (in the format of
// the kubelet's flags), and .Values (of the Secret).
//
// +kubebuilder:validation:XValidation:rule="has(self.secret) != has(self.configMap)",message="exactly one of secret and configMap must be set"
type OpenStackUserData struct {
	// secret refers to the Secret that contains the template.
	// +optional
	Secret *ObjectKey `json:"secret,omitempty"`

	// configMap refers to the ConfigMap that contains the template.
	// +optional
	ConfigMap *ObjectKey `json:"configMap,omitempty"`

	// values refers to a Secret whose entries the template can use, such as .Values.token.
	// +optional
	Values *ObjectName `json:"values,omitempty"`
}

// ObjectName is a reference to an object.
type ObjectName struct {
	// namespace is the namespace of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Namespace string `json:"namespace"`

	// name is the name of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
}

// ObjectKey is a reference to an entry of an object.
type ObjectKey struct {
	ObjectName `json:",inline"`

	// key is the name of the entry.
	// +kubebuilder:default="user-data"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Key string `json:"key,omitempty"`
}

// OpenStackReserve is the part of a server that pods cannot use.
type OpenStackReserve struct {
	// cpu is the CPU that pods cannot use.
	// +kubebuilder:default="0"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) >= 0",message="must not be negative"
	// +optional
	CPU resource.Quantity `json:"cpu,omitempty"`

	// memory is the memory that pods cannot use.
	// +kubebuilder:default="256Mi"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) >= 0",message="must not be negative"
	// +optional
	Memory resource.Quantity `json:"memory,omitempty"`
}
