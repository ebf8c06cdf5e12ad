package servingcert

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// AuthoritiesKey is the key of the authorities in a Secret or a ConfigMap.
const AuthoritiesKey = "ca.crt"

// attempts allows three attempts to write if another replica writes too. They follow each other at once.
var attempts = wait.Backoff{Steps: 3}

// Secret is a Secret that replicas share: the first replica creates the pair, and the others find it. If it is created,
// its type is Opaque, as the manifests create it: they could not be applied later to one of another type.
type Secret struct {
	// Client writes, and Live reads without a cache.
	Client client.Client
	Live   client.Reader
	// Name is the namespace and name.
	Name types.NamespacedName
	// MustExist says that the Secret is not created. Otherwise it is created by accounts that may create Secrets. No
	// ServiceAccount of the manifests may, because it could thereby obtain the token of another one from the API server.
	MustExist bool
	// Hosts are the names and addresses that the pair must be valid for. Without hosts, the Secret has no pair.
	Hosts []string
	// Also, which may be nil, may change other data and reports whether it did.
	Also func(data map[string][]byte, now time.Time) (changed bool)
	// Log is the logger.
	Log logr.Logger
}

// PairOf reads the pair from the data of a Secret.
func PairOf(data map[string][]byte) Pair {
	return Pair{Certificate: data[corev1.TLSCertKey], Key: data[corev1.TLSPrivateKeyKey], Authorities: data[AuthoritiesKey]}
}

// write writes the pair to the data of a Secret.
func (p Pair) write(data map[string][]byte) {
	data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey], data[AuthoritiesKey] = p.Certificate, p.Key, p.Authorities
}

// Ensure returns the data of the Secret after it has ensured that its pair is valid. Cost: a read, and a write if
// something has changed; both again if another replica writes at the same time.
func (s *Secret) Ensure(ctx context.Context, now time.Time) (data map[string][]byte, err error) {
	raced := func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
	err = retry.OnError(attempts, raced, func() error {
		data, err = s.ensure(ctx, now)
		return err
	})
	return data, err
}

func (s *Secret) ensure(ctx context.Context, now time.Time) (map[string][]byte, error) {
	var secret corev1.Secret
	err := s.Live.Get(ctx, s.Name, &secret)
	missing := apierrors.IsNotFound(err)
	switch {
	case err != nil && s.MustExist:
		return nil, fmt.Errorf("read Secret %s, which the manifests create empty: %w", s.Name, err)
	case err != nil && !missing:
		return nil, fmt.Errorf("read Secret %s: %w", s.Name, err)
	}
	data := map[string][]byte{corev1.TLSCertKey: {}, corev1.TLSPrivateKeyKey: {}} // required of a Secret of type kubernetes.io/tls
	maps.Copy(data, secret.Data)
	changed, err := s.renew(data, now, missing)
	if err != nil {
		return nil, err
	}
	if s.Also != nil && s.Also(data, now) {
		changed = true
	}
	secret.Data = data
	switch {
	case missing:
		secret.ObjectMeta, secret.Type = metav1.ObjectMeta{Namespace: s.Name.Namespace, Name: s.Name.Name}, corev1.SecretTypeOpaque
		err = s.Client.Create(ctx, &secret)
		if apierrors.IsForbidden(err) {
			return nil, fmt.Errorf("write Secret %s, which is missing, and which the manifests create empty: apply them again: %w", s.Name, err)
		}
	case changed:
		err = s.Client.Update(ctx, &secret)
	}
	if err != nil {
		return nil, fmt.Errorf("write Secret %s: %w", s.Name, err)
	}
	return data, nil
}

// renew replaces the pair in the data unless it is valid.
func (s *Secret) renew(data map[string][]byte, now time.Time, missing bool) (changed bool, err error) {
	if len(s.Hosts) == 0 {
		return false, nil
	}
	why := PairOf(data).Check(s.Hosts, now)
	if why == nil {
		return false, nil
	}
	pair, err := New(s.Hosts, data[AuthoritiesKey], now)
	if err != nil {
		return false, err
	}
	if !missing {
		s.Log.Info("Created a new certificate", "secret", s.Name, "why", why.Error())
	}
	pair.write(data)
	return true, nil
}
