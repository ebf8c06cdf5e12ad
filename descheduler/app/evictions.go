package app

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"supercargo.dev/supercargo/descheduler/eviction"
	"supercargo.dev/supercargo/descheduler/eviction/certificate"
	"supercargo.dev/supercargo/descheduler/eviction/evictiondecide"
	"supercargo.dev/supercargo/internal/platform/servingcert"
)

// Evictions configures the webhook that turns evictions into Migrations.
type Evictions struct {
	evictiondecide.Config
	// Address is the host:port to serve at; empty for none. Without a CertDir the webhook does
	// not listen until the Configuration exists.
	Address string
	// Listener replaces Address if it is not nil.
	Listener net.Listener
	// CertDir has tls.crt and tls.key, which others manage. If it is empty, the descheduler
	// manages a certificate of its own.
	CertDir string
	// Secret is the namespace/name of the Secret with the managed certificate. Hosts are its
	// names and addresses. Configuration is the ValidatingWebhookConfiguration that must trust
	// it.
	Secret        string
	Hosts         []string
	Configuration string
	// ClientCA is a file with the authorities of client certificates; empty to request none.
	// ClientNames are the accepted names; empty for any.
	ClientCA    string
	ClientNames []string
}

func (e *Evictions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&e.Address, "eviction-webhook-bind-address", e.Address, "`host:port` of the webhook that turns evictions into Migrations, served while its ValidatingWebhookConfiguration exists")
	flags.StringVar(&e.CertDir, "eviction-webhook-cert-dir", e.CertDir, "`directory` with tls.crt and tls.key of the webhook, read again when they change (default: manage a certificate)")
	flags.StringVar(&e.Secret, "eviction-webhook-secret", e.Secret, "`namespace/name` of the Secret for the managed certificate and the secret in the URL of the webhook")
	flags.StringSliceVar(&e.Hosts, "eviction-webhook-hosts", e.Hosts, "host `names` and addresses of the managed certificate")
	flags.StringVar(&e.Configuration, "eviction-webhook-configuration", e.Configuration, "`name` of the ValidatingWebhookConfiguration in which to write the authority of the managed certificate and the URL with its secret")
	flags.StringVar(&e.ClientCA, "eviction-webhook-client-ca", e.ClientCA, "PEM `file` with the authorities of the API server's client certificate for webhooks (default: request none; a secret in the URL identifies the API server)")
	flags.StringSliceVar(&e.ClientNames, "eviction-webhook-client-names", e.ClientNames, "common `names` or DNS names of which the client certificate must have one (default: any)")
	flags.DurationVar(&e.Deadline, "eviction-deadline", e.Deadline, "deadline of Migrations for evictions")
	flags.IntVar(&e.Attempts, "eviction-attempts", e.Attempts, "how many times to try to move a pod that is being evicted")
	flags.StringVar((*string)(&e.AfterFailure), "eviction-after-failure", string(e.AfterFailure), "what to do with an eviction after the last attempt: `Evict` allows it, Keep refuses it for now")
}

// served reports whether the webhook is served.
func (e *Evictions) served() bool { return e.Listener != nil || e.Address != "" }

// validate returns the errors in the options, with the names of their flags.
func (e *Evictions) validate() error {
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if e.Deadline < 10*time.Second || e.Deadline > 24*time.Hour {
		refuse("--eviction-deadline: %s: must be from 10s to 24h", e.Deadline)
	}
	if e.Attempts < 1 {
		refuse("--eviction-attempts: %d: must be 1 or more", e.Attempts)
	}
	if e.AfterFailure != evictiondecide.Evict && e.AfterFailure != evictiondecide.Keep {
		refuse("--eviction-after-failure: %q: must be %s or %s", e.AfterFailure, evictiondecide.Evict, evictiondecide.Keep)
	}
	if e.Listener == nil && e.served() {
		if _, _, err := net.SplitHostPort(e.Address); err != nil {
			refuse("--eviction-webhook-bind-address: %w: must be host:port", err)
		}
	}
	if len(e.ClientNames) > 0 && e.ClientCA == "" {
		refuse("--eviction-webhook-client-names: --eviction-webhook-client-ca is required too: without it, the webhook requests no client certificate")
	}
	if !e.served() {
		return errors.Join(errs...)
	}
	if namespace, name, ok := strings.Cut(e.Secret, "/"); !ok || namespace == "" || name == "" {
		refuse("--eviction-webhook-secret: %q: must be namespace/name", e.Secret)
	}
	if len(e.Hosts) == 0 && e.CertDir == "" {
		refuse("--eviction-webhook-hosts: at least one name or address is required")
	}
	if e.Configuration == "" {
		refuse("--eviction-webhook-configuration: a name is required")
	}
	return errors.Join(errs...)
}

// addOrWatch adds the webhook to a manager. If the webhook is not served here, it adds a check
// that warns if it is installed but not served.
func (e *Evictions) addOrWatch(m ctrl.Manager) error {
	if e.served() {
		return e.addTo(m)
	}
	return m.Add(&eviction.Unserved{
		Live: m.GetAPIReader(), Events: m.GetEventRecorder("supercargo-descheduler"), Clock: clock.RealClock{},
		Configuration: e.Configuration, Log: m.GetLogger().WithName("eviction"),
	})
}

// addTo adds the webhook to a manager.
func (e *Evictions) addTo(m ctrl.Manager) error {
	namespace, name, _ := strings.Cut(e.Secret, "/")
	keeper := certificate.New(servingcert.Secret{
		Client: m.GetClient(), Live: m.GetAPIReader(), Name: types.NamespacedName{Namespace: namespace, Name: name}, Hosts: e.Hosts,
		Log: m.GetLogger().WithName("eviction"),
	}, e.Configuration, eviction.Path, clock.RealClock{})
	server := &eviction.Server{
		Address: e.Address, Listener: e.Listener, Knows: keeper.Knows, ClientNames: e.ClientNames,
		Handler: &eviction.Webhook{
			Client: m.GetClient(), Live: m.GetAPIReader(), Events: m.GetEventRecorder("supercargo-evictions"), Clock: clock.RealClock{},
			Config: e.Config, Log: m.GetLogger().WithName("eviction"),
		},
	}
	ready, err := e.certificate(m, server, keeper)
	if err != nil {
		return err
	}
	if server.ClientAuthorities, err = e.clientAuthorities(); err != nil {
		return err
	}
	if err := m.Add(keeper); err != nil {
		return fmt.Errorf("set up the certificate of the webhook: %w", err)
	}
	if err := m.AddReadyzCheck("evictions", ready); err != nil {
		return fmt.Errorf("set up health probes: %w", err)
	}
	if err := m.Add(server); err != nil {
		return fmt.Errorf("set up the webhook: %w", err)
	}
	return nil
}

// certificate sets the certificate of the webhook: the managed one, or the one in CertDir; then
// the keeper only manages the secret of the URL. It returns the readiness check.
func (e *Evictions) certificate(m ctrl.Manager, server *eviction.Server, keeper *certificate.Keeper) (healthz.Checker, error) {
	if e.CertDir == "" {
		server.Certificate, server.Wanted = keeper.GetCertificate, keeper.Started()
		return keeper.Ready, nil
	}
	watcher, err := certwatcher.New(filepath.Join(e.CertDir, "tls.crt"), filepath.Join(e.CertDir, "tls.key"))
	if err != nil {
		return nil, fmt.Errorf("--eviction-webhook-cert-dir: read the certificate: %w", err)
	}
	if err := m.Add(watcher); err != nil {
		return nil, fmt.Errorf("set up the certificate of the webhook: %w", err)
	}
	server.Certificate, keeper.Secret.Hosts = watcher.GetCertificate, nil
	return server.Ready, nil
}

// clientAuthorities reads the authorities of client certificates; nil to request none.
func (e *Evictions) clientAuthorities() (*x509.CertPool, error) {
	if e.ClientCA == "" {
		return nil, nil
	}
	text, err := os.ReadFile(e.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("--eviction-webhook-client-ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("--eviction-webhook-client-ca=%s: the file has no certificate", e.ClientCA)
	}
	return pool, nil
}
