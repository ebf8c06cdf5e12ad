package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"

	"supercargo.dev/supercargo/lab/playground/process"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	controlplane "k8s.io/kubernetes/pkg/controlplane/apiserver"
)

// serviceRange is the range of Service IPs. No packet is ever sent there.
const serviceRange = "10.96.0.0/16"

// serviceAccountIssuer is the issuer of service account tokens.
const serviceAccountIssuer = "https://kubernetes.default.svc"

// controllersAdmission are the admission plugins that need a controller manager: the first requires
// default service accounts, the second taints nodes until a controller finds them ready.
var controllersAdmission = []string{"ServiceAccount", "TaintNodesByCondition"}

// loopback is the address of the API server, unless it serves kubelets.
var loopback = net.IPv4(127, 0, 0, 1)

// StartAPIServer starts the kube-apiserver on a free port, writes its kubeconfig, and waits until
// it is ready.
func (p *ControlPlane) StartAPIServer(ctx context.Context) error {
	c := p.certs
	fail := func(err error) error {
		return &process.Error{Doing: "start", Name: "kube-apiserver", Log: process.KubernetesLog, Err: err}
	}
	if p.opts.AuditPolicy != nil {
		if err := WriteFile(p.auditPolicyPath(), p.opts.AuditPolicy); err != nil {
			return fail(err)
		}
	}
	if p.opts.kubernetesDir() != "" {
		release, err := p.startOtherAPIServer(c)
		if err != nil {
			return fail(err)
		}
		defer release()
		return p.waitAPIServer(ctx)
	}
	if err := p.opts.checkBuiltIn(); err != nil {
		return fail(err)
	}
	// The server gets the listener, not a port number that another process
	// could take in between.
	listener, err := net.Listen("tcp4", net.JoinHostPort(p.opts.apiAddress().String(), "0"))
	if err != nil {
		return fail(err)
	}
	opts := apiServerOptions(p.dir, c, listener)
	if p.opts.KubeletsReach != nil {
		serveKubelets(opts, c)
	}
	if p.opts.AuditPolicy != nil {
		opts.Audit.PolicyFile, opts.Audit.LogOptions.Path = p.auditPolicyPath(), p.AuditLogPath()
	}
	if p.opts.NoControllerManager {
		opts.Admission.GenericAdmission.DisablePlugins = controllersAdmission
	}
	if err := p.writeClientConfig(listener.Addr().String(), c); err != nil {
		return errors.Join(fail(err), listener.Close())
	}
	completed, err := completeAPIServer(ctx, opts)
	if err != nil {
		return errors.Join(fail(err), listener.Close())
	}
	component := process.Start("kube-apiserver", process.KubernetesLog, func(ctx context.Context) error {
		defer listener.Close() // if it ends before it serves
		return app.Run(ctx, completed)
	})
	if err := p.group.Add(component); err != nil {
		return err
	}
	return p.waitAPIServer(ctx)
}

// AuditLogPath returns where the API server writes its audit log, if the options have a
// policy for it: one event of audit.k8s.io/v1 a line, as JSON.
func (p *ControlPlane) AuditLogPath() string { return filepath.Join(p.dir.LogDir(), "audit.json") }

func (p *ControlPlane) auditPolicyPath() string {
	return filepath.Join(p.dir.dir, "audit-policy.yaml")
}

// waitAPIServer waits until the API server is ready.
func (p *ControlPlane) waitAPIServer(ctx context.Context) error {
	if err := p.group.Poll(ctx, func(ctx context.Context) error { return p.apiServerReady(ctx) }); err != nil {
		return &process.Error{Doing: "start", Name: "kube-apiserver", Log: process.KubernetesLog, Err: fmt.Errorf("wait until it is ready: %w", err)}
	}
	return nil
}

// apiAddress returns the address of the API server.
func (o *Options) apiAddress() net.IP {
	if o.KubeletsReach != nil {
		return o.KubeletsReach
	}
	return loopback
}

// serveKubelets authorizes kubelets per node and makes the API server authenticate to them with a
// client certificate. It requests logs as the administrator.
func serveKubelets(o *options.ServerRunOptions, c *certs) {
	o.Authorization.Modes = []string{"Node", "RBAC"}
	o.Admission.GenericAdmission.EnablePlugins = append(o.Admission.GenericAdmission.EnablePlugins, "NodeRestriction")
	o.KubeletConfig.TLSClientConfig.CertFile = c.admin.certFile
	o.KubeletConfig.TLSClientConfig.KeyFile = c.admin.keyFile
	o.KubeletConfig.PreferredAddressTypes = []string{string(corev1.NodeInternalIP)}
}

// apiServerOptions returns the equivalent of the flags. Creating the flags themselves would change
// feature gates of the whole process, which is possible only once.
func apiServerOptions(s *Directory, c *certs, listener net.Listener) *options.ServerRunOptions {
	o := options.NewServerRunOptions()
	o.Etcd.StorageConfig.Transport.ServerList = []string{"unix://" + s.etcdSocket()}

	o.SecureServing.Listener = listener
	address := listener.Addr().(*net.TCPAddr)
	o.SecureServing.BindPort = address.Port // validated even though Listener is set
	o.SecureServing.ServerCert.CertKey.CertFile = c.server.certFile
	o.SecureServing.ServerCert.CertKey.KeyFile = c.server.keyFile
	o.GenericServerRunOptions.AdvertiseAddress = address.IP
	o.EndpointReconcilerType = "none" // loopback is not a valid endpoint of the Service kubernetes
	o.ServiceClusterIPRanges = serviceRange
	o.AllowPrivileged = true
	// Only with this option does a shutdown limit the wait for watching clients to two seconds.
	o.GenericServerRunOptions.ShutdownSendRetryAfter = true

	o.Authorization.Modes = []string{"RBAC"}
	o.Authentication.ClientCert.ClientCA = c.ca.certFile
	o.Authentication.ServiceAccounts.Issuers = []string{serviceAccountIssuer}
	o.Authentication.ServiceAccounts.KeyFiles = []string{c.serviceAccounts.keyFile}
	o.ServiceAccountSigningKeyFile = c.serviceAccounts.keyFile

	// The client that an aggregated API server accepts requests from.
	o.ProxyClientCertFile = c.frontProxy.certFile
	o.ProxyClientKeyFile = c.frontProxy.keyFile
	o.Authentication.RequestHeader.ClientCAFile = c.frontProxyCA.certFile
	o.Authentication.RequestHeader.AllowedNames = []string{c.frontProxyClient}
	o.Authentication.RequestHeader.UsernameHeaders = []string{"X-Remote-User"}
	o.Authentication.RequestHeader.GroupHeaders = []string{"X-Remote-Group"}
	o.Authentication.RequestHeader.ExtraHeaderPrefixes = []string{"X-Remote-Extra-"}
	return o
}

func completeAPIServer(ctx context.Context, o *options.ServerRunOptions) (options.CompletedOptions, error) {
	if err := o.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return options.CompletedOptions{}, err
	}
	completed, err := o.Complete(ctx)
	if err != nil {
		return options.CompletedOptions{}, err
	}
	return completed, errors.Join(completed.Validate()...)
}

// writeClientConfig creates the client configuration for the API server at address, for this
// process and, as a kubeconfig, for others.
func (p *ControlPlane) writeClientConfig(address string, c *certs) error {
	server := "https://" + address
	p.config = &rest.Config{
		Host: server,
		TLSClientConfig: rest.TLSClientConfig{
			CAData: c.ca.cert, CertData: c.admin.cert, KeyData: c.admin.key,
		},
		QPS: -1, // no limit
	}
	var err error
	if p.client, err = kubernetes.NewForConfig(p.config); err != nil {
		return err
	}
	return p.dir.writeKubeconfig(server, c)
}

// apiServerReady returns an error until the API server answers and has created its lease, for which
// it creates the system namespaces. It does not shut down before it has created that lease, and may
// retry creating the namespaces only after a minute.
func (p *ControlPlane) apiServerReady(ctx context.Context) error {
	if err := p.client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
		return err
	}
	leases, err := p.client.CoordinationV1().Leases(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{
		LabelSelector: controlplane.IdentityLeaseComponentLabelKey + "=" + controlplane.KubeAPIServer,
	})
	if err == nil && len(leases.Items) == 0 {
		err = errors.New("it has not created its Lease in " + metav1.NamespaceSystem)
	}
	return err
}
