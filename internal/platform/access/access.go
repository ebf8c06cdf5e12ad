// Package access says in one sentence why a program cannot reach a cluster, or may not do something there, and what to do
// about it.
package access

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
)

// connectionError is an error of a request that got no response.
type connectionError struct {
	server, context string
	err             error
}

func (e *connectionError) Error() string { return e.err.Error() }
func (e *connectionError) Unwrap() error { return e.err }

// Mark makes the errors of requests that get no response tell [Explain] which API server they are about. context is the
// name of its context in the kubeconfig; it may be empty. The marking transport is below those that get credentials, so
// that a failed login is not called unreachable.
func Mark(config *rest.Config, context string) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &marking{server: config.Host, context: context, next: next}
	})
}

// marking is a transport that marks errors.
type marking struct {
	server, context string
	next            http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (m *marking) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := m.next.RoundTrip(request)
	if err != nil && !errors.Is(request.Context().Err(), context.Canceled) {
		err = &connectionError{server: m.server, context: m.context, err: err}
	}
	return response, err
}

// WrappedRoundTripper lets client-go find the transport below.
func (m *marking) WrappedRoundTripper() http.RoundTripper { return m.next }

// explained is an error with the sentence that is shown in its place.
type explained struct {
	says string
	err  error
}

func (e *explained) Error() string { return e.says }
func (e *explained) Unwrap() error { return e.err }

// Explain returns an error about a cluster with a sentence that says what to do: where the API server cannot be reached, is
// not trusted or does not accept the credentials, where a permission is missing, and where a kind is not installed. It
// returns all other errors, and nil, as they are.
func Explain(err error) error {
	says := advice(err)
	if says == "" {
		return err
	}
	return &explained{says: says, err: err}
}

func advice(err error) string {
	var connection *connectionError
	var untrusted *tls.CertificateVerificationError
	var missing *meta.NoKindMatchError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &connection) && errors.As(connection.err, &untrusted):
		return fmt.Sprintf("the certificate of %s is not trusted: %v: get a new kubeconfig, or name the cluster's authority with --certificate-authority", connection.name(), untrusted.Err)
	case errors.As(err, &connection):
		return fmt.Sprintf("%s cannot be reached: %v: check that the cluster runs and that your network leads to it (VPN, proxy, firewall), or choose another cluster with --context",
			connection.name(), connection.err)
	case apierrors.IsUnauthorized(err):
		return fmt.Sprintf("%v: the API server does not accept your credentials: log in again or renew the kubeconfig", err)
	case refusesDiscovery(err):
		return fmt.Sprintf("%v: the API server does not show its kinds to your account, as to users whom it does not know: log in, or use another account with --context", err)
	case lacksPermission(err):
		return fmt.Sprintf("%v: ask an administrator of the cluster for this permission, or use another account with --context or --as", err)
	case errors.As(err, &missing) && strings.HasSuffix(missing.GroupKind.Group, "supercargo.dev"):
		return fmt.Sprintf("%v: the cluster does not have the kind %s: install Supercargo's definitions (chart supercargo-crds)", err, missing.GroupKind.Kind)
	}
	return ""
}

// name names the API server.
func (e *connectionError) name() string {
	if e.context == "" {
		return "the API server " + e.server
	}
	return fmt.Sprintf("the API server %s of context %q", e.server, e.context)
}

// refusesDiscovery reports whether the API server's authorizer has refused to list the kinds of objects, which all users
// but anonymous ones may do. client-go does not keep what the API server says about it.
func refusesDiscovery(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "failed to get server groups")
}

// lacksPermission reports whether the API server's authorizer has refused a request. Admission refuses with the same
// code, for example by a quota, where a permission does not help.
func lacksPermission(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), " cannot ")
}
