package connection

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"supercargo.dev/supercargo/internal/text/clip"
)

// FailureKind is what kind of failure an error is.
type FailureKind int

// The kinds of failures.
const (
	FailureNone FailureKind = iota
	// Unanswering: there is no answer of an API server.
	Unanswering
	// Untrusted: the certificate of the server is not accepted.
	Untrusted
	// NoCredentials: the user's program for credentials has failed.
	NoCredentials
	// NotReady: the API server answers that it is not ready.
	NotReady
	// Forbidden and Unauthorized: the API server refuses the user, or does not know who the user is.
	Forbidden
	Unauthorized
	// NotInstalled: the cluster does not have this kind of object.
	NotInstalled
	// OtherFailure is any other answer.
	OtherFailure
)

// Failure is why a request failed.
type Failure struct {
	Kind FailureKind
	// Words say it in plain words, as the end of a sentence whose subject is the API server; without a URL.
	Words string
}

// Probed returns the failure of a probe, from its HTTP status code, 0 if there was none, and its error. Every answer is
// one, also a refusal: a user who may not read whether the server is ready has reached it.
func Probed(code int, err error) Failure {
	switch {
	case err == nil, code > 0 && code < http.StatusInternalServerError:
		return Failure{}
	case code >= http.StatusInternalServerError:
		return Failure{NotReady, fmt.Sprintf("answers that it is not ready (HTTP status %d)", code)}
	}
	return Failed(err)
}

// Failed returns the failure of a request that got an error; that of nil is none.
func Failed(err error) Failure {
	switch {
	case err == nil:
		return Failure{}
	case apierrors.IsForbidden(err):
		return Failure{Forbidden, "refuses it"}
	case apierrors.IsUnauthorized(err):
		return Failure{Unauthorized, "does not accept the credentials"}
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return Failure{NotInstalled, "does not have this kind"}
	}
	var answer apierrors.APIStatus
	if errors.As(err, &answer) && answer.Status().Code > 0 {
		return Failure{OtherFailure, "answers: " + firstLine(answer.Status().Message)}
	}
	return network(err)
}

// network returns the failure of a request without an answer.
func network(err error) Failure {
	var lookup *net.DNSError
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var verification *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var timeout net.Error
	text := err.Error()
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return Failure{Unanswering, "refuses connections"}
	case errors.As(err, &lookup):
		return Failure{Unanswering, "has a host name that cannot be resolved"}
	case errors.As(err, &authority), errors.As(err, &host), errors.As(err, &invalid), errors.As(err, &verification):
		return Failure{Untrusted, "has a certificate that the kubeconfig does not trust"}
	case errors.As(err, &record), strings.Contains(text, "server gave HTTP response to HTTPS client"):
		return Failure{Unanswering, "does not use HTTPS, as the kubeconfig says it does"}
	case strings.Contains(text, "getting credentials: "):
		_, why, _ := strings.Cut(text, "getting credentials: ")
		return Failure{NoCredentials, "cannot be asked without credentials, which the kubeconfig's program did not give: " + firstLine(why)}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return Failure{Unanswering, "does not answer"}
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return Failure{Unanswering, "cannot be reached from this network"}
	case strings.Contains(text, "connection reset"), strings.Contains(text, "EOF"), strings.Contains(text, "closed network connection"), strings.Contains(text, "connection lost"), strings.Contains(text, "broken pipe"):
		return Failure{Unanswering, "closes connections"}
	}
	return Failure{OtherFailure, "gives no answer: " + firstLine(text)}
}

// longest is the length of what is quoted of an error, in bytes.
const longest = 300

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return clip.Bytes(line, longest)
}
