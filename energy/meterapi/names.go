package meterapi

// Names and addresses of the node meters.
const (
	// Name is the name of the node meters' DaemonSet and ServiceAccount, the label app.kubernetes.io/name of their
	// pods, and the name of the ConfigMap with the certificate authorities to trust.
	Name = "supercargo-node-meter"
	// Namespace is their default namespace.
	Namespace = "supercargo-meter"
	// Port is the port on which they serve.
	Port = 8086
	// Audience is the audience of tokens for querying them, and for nothing else.
	Audience = "node-meter.supercargo.dev"
	// TokenFile is where the manifests mount such a token.
	TokenFile = "/var/run/secrets/supercargo.dev/node-meter/token"
	// AuthoritiesKey is the key in the ConfigMap of the certificate authorities, in PEM.
	AuthoritiesKey = "ca.crt"
)

// ServerName returns the name in the certificate of the node meters in a namespace. They share one name because clients
// that query many nodes do not know which certificate belongs to which node.
func ServerName(namespace string) string { return Name + "." + namespace + ".svc" }
