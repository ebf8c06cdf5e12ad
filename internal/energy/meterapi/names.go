package meterapi

// Where node meters are found, and how they know others and others know them.
const (
	// Name is that of the node meters' DaemonSet, their ServiceAccount, the label
	// app.kubernetes.io/name of their pods, and the ConfigMap that says whom to trust.
	Name = "supercargo-node-meter"
	// Namespace is where they are, unless something else is said.
	Namespace = "supercargo-meter"
	// Port is where they serve.
	Port = 8086
	// Audience is that of tokens that are good for asking them, and for nothing else.
	Audience = "node-meter.supercargo.dev"
	// TokenFile is where the manifests have such a token mounted.
	TokenFile = "/var/run/secrets/supercargo.dev/node-meter/token"
	// AuthoritiesKey is the key of the ConfigMap that has who signs the certificate, in PEM.
	AuthoritiesKey = "ca.crt"
)

// ServerName is the name in the certificate of the node meters in a namespace. They share
// one: nothing tells the callers of many nodes which certificate is whose.
func ServerName(namespace string) string { return Name + "." + namespace + ".svc" }
