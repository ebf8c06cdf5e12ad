package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// OpenStackServers says what the servers of a fleet are made from. Images, networks,
// security groups and the server group may be given by name or by ID.
type OpenStackServers struct {
	// credentials say how to log in.
	// +required
	Credentials OpenStackCredentials `json:"credentials"`

	// region of the cloud; by default the one that the credentials name.
	// +kubebuilder:validation:MaxLength=255
	// +optional
	Region string `json:"region,omitempty"`

	// flavors are the names of those that may be bought; by default all that the
	// project sees.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=500
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=255
	// +optional
	Flavors []string `json:"flavors,omitempty"`

	// availabilityZones are those in which servers may be; each flavor is offered in each
	// of them, under the name FLAVOR@ZONE. By default the cloud chooses.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=255
	// +optional
	AvailabilityZones []string `json:"availabilityZones,omitempty"`

	// image that servers boot from.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +required
	Image string `json:"image"`

	// networks that servers are in, in the order of their ports.
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

	// securityGroups of the servers; by default the project's default group.
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=255
	// +optional
	SecurityGroups []string `json:"securityGroups,omitempty"`

	// serverGroup that servers become members of, so that its policy spreads them over
	// hosts.
	// +kubebuilder:validation:MaxLength=255
	// +optional
	ServerGroup string `json:"serverGroup,omitempty"`

	// userData is what servers are told when they boot, such as how to join the
	// cluster.
	// +optional
	UserData *OpenStackUserData `json:"userData,omitempty"`

	// nodeLabels are labels that the nodes will have. The user data has to give them to
	// the kubelet.
	// +kubebuilder:validation:MaxProperties=64
	// +optional
	NodeLabels map[string]string `json:"nodeLabels,omitempty"`

	// nodeTaints are taints that the nodes will have. The user data has to give them to
	// the kubelet.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +optional
	NodeTaints []corev1.Taint `json:"nodeTaints,omitempty"`

	// reserved is how much less pods can use of a server than its flavor has: what the
	// kernel, the system and the kubelet take. It counts until a node of the flavor has
	// been seen.
	// +kubebuilder:default={}
	// +optional
	Reserved OpenStackReserve `json:"reserved,omitempty"`

	// maxPods is how many pods a node takes.
	// +kubebuilder:default=110
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	// +optional
	MaxPods int64 `json:"maxPods,omitempty"`
}

// OpenStackCredentials is a Secret. It has either a clouds.yaml, or the keys auth_url,
// application_credential_id and application_credential_secret, and region_name if there
// are several. Beside either it may have cacert, the certificates to trust in PEM.
type OpenStackCredentials struct {
	// namespace of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Namespace string `json:"namespace"`

	// name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`

	// cloud is which one of clouds.yaml; not needed if there is only one.
	// +kubebuilder:validation:MaxLength=255
	// +optional
	Cloud string `json:"cloud,omitempty"`
}

// OpenStackUserData is a template in the language of Go's text/template, with
// .Name (of the server), .Fleet, .Flavor, .Zone, .Labels and .Taints (as the kubelet's
// flags have them), and .Values (of the Secret).
//
// +kubebuilder:validation:XValidation:rule="has(self.secret) != has(self.configMap)",message="give either secret or configMap: where the template is"
type OpenStackUserData struct {
	// secret has the template.
	// +optional
	Secret *ObjectKey `json:"secret,omitempty"`

	// configMap has the template.
	// +optional
	ConfigMap *ObjectKey `json:"configMap,omitempty"`

	// values is a Secret whose entries the template may use, such as .Values.token.
	// +optional
	Values *ObjectName `json:"values,omitempty"`
}

// ObjectName names an object.
type ObjectName struct {
	// namespace of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Namespace string `json:"namespace"`

	// name of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
}

// ObjectKey names an entry of an object.
type ObjectKey struct {
	ObjectName `json:",inline"`

	// key of the entry.
	// +kubebuilder:default="user-data"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Key string `json:"key,omitempty"`
}

// OpenStackReserve is what pods cannot use of a server.
type OpenStackReserve struct {
	// cpu that pods cannot use.
	// +kubebuilder:default="0"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) >= 0",message="must not be negative"
	// +optional
	CPU resource.Quantity `json:"cpu,omitempty"`

	// memory that pods cannot use.
	// +kubebuilder:default="256Mi"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) >= 0",message="must not be negative"
	// +optional
	Memory resource.Quantity `json:"memory,omitempty"`
}
