// Package controlplane runs a Kubernetes control plane on this machine: an etcd, a kube-apiserver, a
// kube-controller-manager and Supercargo's kube-scheduler, in this process or, of another version of Kubernetes, as
// children. It also owns their directory, certificates and kubeconfig.
//
// The files follow the start order: directory.go, certs.go, etcd.go, apiserver.go, kubeconfig.go,
// controllermanager.go, scheduler.go. The programs of another Kubernetes are in kubernetes.go.
package controlplane

import (
	"net"
	"sync/atomic"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"supercargo.dev/supercargo/lab/playground/process"
)

// Options configures a control plane. The fields are those of the playground's Options, which explain them.
type Options struct {
	NoControllerManager         bool
	KubeletsReach               net.IP
	KubernetesDir               string
	FeatureGates, RuntimeConfig []string
	AutoscalerPeriod            time.Duration
	AuditPolicy                 []byte
	EtcdQuotaBytes              int64
}

// ControlPlane is a control plane of which nothing runs at first. Call StartEtcd, then StartAPIServer, then the
// others, one after the other.
type ControlPlane struct {
	opts  Options
	dir   *Directory
	group *process.Group
	certs *certs

	config     *rest.Config
	client     kubernetes.Interface
	schedulers atomic.Int64 // started so far, to name their files
}

// New creates the certificates of a control plane in a directory. Its components become part of the group.
func New(opts Options, dir *Directory, group *process.Group) (*ControlPlane, error) {
	certs, err := dir.writeCerts(opts.apiAddress())
	if err != nil {
		return nil, err
	}
	return &ControlPlane{opts: opts, dir: dir, group: group, certs: certs}, nil
}

// Config returns the administrator's client configuration, once the API server runs. The caller owns it.
func (p *ControlPlane) Config() *rest.Config { return rest.CopyConfig(p.config) }

// Client returns a client with the administrator's rights and no rate limit, once the API server runs.
func (p *ControlPlane) Client() kubernetes.Interface { return p.client }

// CA returns the certificate, in PEM, of the authority that signs the certificates of servers and clients.
func (p *ControlPlane) CA() []byte { return p.certs.ca.cert }

// WebhookCert returns the files, in one directory, with the certificate and the key of cluster-api's webhooks.
func (p *ControlPlane) WebhookCert() (certFile, keyFile string) {
	return p.certs.webhook.certFile, p.certs.webhook.keyFile
}
