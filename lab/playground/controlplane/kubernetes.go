package controlplane

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"supercargo.dev/supercargo/lab/playground/process"

	"k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// KubernetesEnv is the environment variable with the directory of another Kubernetes control plane;
// see [Options.KubernetesDir].
const KubernetesEnv = "SUPERCARGO_KUBERNETES"

// kubernetesDir returns the directory of the control plane's programs, or an empty string for the
// built-in ones.
func (o *Options) kubernetesDir() string { return cmp.Or(o.KubernetesDir, os.Getenv(KubernetesEnv)) }

// checkBuiltIn rejects options that the built-in control plane does not support.
func (o *Options) checkBuiltIn() error {
	if len(o.FeatureGates)+len(o.RuntimeConfig) > 0 {
		return &InputError{Option: "FeatureGates", Err: errors.New("feature gates and runtime configuration require KubernetesDir: the built-in programs share those of this process")}
	}
	return nil
}

// kubernetesProgram finds a program of the control plane.
func (p *ControlPlane) kubernetesProgram(name string) (string, error) {
	program := process.Program{Name: name, Env: KubernetesEnv, Does: "is part of the control plane"}
	return program.Check(filepath.Join(p.opts.kubernetesDir(), name), "the directory of another Kubernetes")
}

// startOtherAPIServer starts the kube-apiserver of another Kubernetes as a child. The caller waits
// until it is ready and then calls release to free the port reservation.
func (p *ControlPlane) startOtherAPIServer(c *certs) (release func(), err error) {
	if p.opts.KubeletsReach != nil {
		return nil, &InputError{Option: "KubeletsReach", Err: errors.New("only the built-in API server supports kubelets")}
	}
	path, err := p.kubernetesProgram("kube-apiserver")
	if err != nil {
		return nil, err
	}
	port, release, err := process.FreePort()
	if err != nil {
		return nil, err
	}
	address := net.JoinHostPort(loopback.String(), strconv.Itoa(port))
	err = p.writeClientConfig(address, c)
	if err == nil {
		err = p.group.StartChild("kube-apiserver", process.KubernetesLog, func() *exec.Cmd { return exec.Command(path, p.apiServerFlags(port, c)...) }, nil)
	}
	if err != nil {
		release()
	}
	return release, err
}

// apiServerFlags are the flags equivalent to [apiServerOptions].
func (p *ControlPlane) apiServerFlags(port int, c *certs) []string {
	flags := []string{
		"--etcd-servers=unix://" + p.dir.etcdSocket(),
		"--bind-address=" + loopback.String(),
		"--advertise-address=" + loopback.String(),
		"--secure-port=" + strconv.Itoa(port),
		"--tls-cert-file=" + c.server.certFile,
		"--tls-private-key-file=" + c.server.keyFile,
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=" + serviceRange,
		"--allow-privileged",
		"--shutdown-send-retry-after",
		"--authorization-mode=RBAC",
		"--client-ca-file=" + c.ca.certFile,
		"--service-account-issuer=" + serviceAccountIssuer,
		"--service-account-key-file=" + c.serviceAccounts.keyFile,
		"--service-account-signing-key-file=" + c.serviceAccounts.keyFile,
		"--proxy-client-cert-file=" + c.frontProxy.certFile,
		"--proxy-client-key-file=" + c.frontProxy.keyFile,
		"--requestheader-client-ca-file=" + c.frontProxyCA.certFile,
		"--requestheader-allowed-names=" + c.frontProxyClient,
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
	}
	if p.opts.AuditPolicy != nil {
		flags = append(flags, "--audit-policy-file="+p.auditPolicyPath(), "--audit-log-path="+p.AuditLogPath())
	}
	if p.opts.NoControllerManager {
		flags = append(flags, "--disable-admission-plugins="+strings.Join(controllersAdmission, ","))
	}
	if len(p.opts.FeatureGates) > 0 {
		flags = append(flags, "--feature-gates="+strings.Join(p.opts.FeatureGates, ","))
	}
	if len(p.opts.RuntimeConfig) > 0 {
		flags = append(flags, "--runtime-config="+strings.Join(p.opts.RuntimeConfig, ","))
	}
	return flags
}

// startOtherControllerManager starts the kube-controller-manager of another Kubernetes as
// a child.
func (p *ControlPlane) startOtherControllerManager(c *certs) error {
	path, err := p.kubernetesProgram("kube-controller-manager")
	if err != nil {
		return &process.Error{Doing: "start", Name: "kube-controller-manager", Err: err}
	}
	qps := strconv.Itoa(ClientQPS)
	flags := []string{
		"--kubeconfig=" + p.dir.kubeconfig, "--kube-api-qps=" + qps, "--kube-api-burst=" + qps,
		"--leader-elect=false",
		"--secure-port=0",
		"--service-account-private-key-file=" + c.serviceAccounts.keyFile,
		"--root-ca-file=" + c.ca.certFile,
		"--cluster-signing-cert-file=" + c.ca.certFile,
		"--cluster-signing-key-file=" + c.ca.keyFile,
	}
	if period := p.opts.AutoscalerPeriod; period > 0 {
		flags = append(flags, "--horizontal-pod-autoscaler-sync-period="+period.String())
	}
	if len(p.opts.FeatureGates) > 0 {
		flags = append(flags, "--feature-gates="+strings.Join(p.opts.FeatureGates, ","))
	}
	return p.group.StartChild("kube-controller-manager", process.KubernetesLog, func() *exec.Cmd { return exec.Command(path, flags...) }, nil)
}

// startOtherScheduler starts the kube-scheduler of another Kubernetes as a child, with a
// configuration file, and returns when its caches are filled.
func (p *ControlPlane) startOtherScheduler(ctx context.Context, config string, extra []app.Option) (*Scheduler, error) {
	fail := func(err error) error {
		return p.group.Explain(&process.Error{Doing: "start", Name: "kube-scheduler", Log: process.KubernetesLog, Err: err})
	}
	if len(extra) > 0 {
		return nil, fail(errors.New("plugins can be added only to the built-in scheduler"))
	}
	path, err := p.kubernetesProgram("kube-scheduler")
	if err != nil {
		return nil, fail(err)
	}
	port, release, err := process.FreePort()
	if err != nil {
		return nil, fail(err)
	}
	defer release()
	flags := []string{"--config=" + config, "--bind-address=" + loopback.String(), "--secure-port=" + strconv.Itoa(port)}
	if len(p.opts.FeatureGates) > 0 {
		flags = append(flags, "--feature-gates="+strings.Join(p.opts.FeatureGates, ","))
	}
	c, err := p.group.NewChild("kube-scheduler", process.KubernetesLog, func() *exec.Cmd { return exec.Command(path, flags...) }, nil)
	if err != nil {
		return nil, err
	}
	ready := schedulerReady(port)
	err = p.group.Poll(ctx, func(ctx context.Context) error {
		select {
		case <-c.Done():
			return nil
		default:
			return ready(ctx)
		}
	})
	select {
	case <-c.Done(): // most likely it rejected its configuration
		err = errors.Join(err, c.Died())
	default:
	}
	if err != nil {
		return nil, errors.Join(fail(err), c.Stop())
	}
	if err := p.group.Add(c); err != nil {
		return nil, err
	}
	return &Scheduler{group: p.group, component: c}, nil
}

// schedulerReady returns a function that checks whether the caches of the scheduler at a port are
// filled.
func schedulerReady(port int) func(context.Context) error {
	client := &http.Client{
		Timeout: time.Second,
		// The scheduler creates its own certificate, and no other program uses the port.
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}, //nolint:gosec // see above
	}
	url := "https://" + net.JoinHostPort(loopback.String(), strconv.Itoa(port)) + "/readyz"
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		if err := response.Body.Close(); err != nil {
			return err
		}
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("wait until its caches are filled: %s returns %s", url, response.Status)
		}
		return nil
	}
}
