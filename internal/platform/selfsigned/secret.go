package selfsigned

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
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// AuthoritiesKey is the key of the authorities in a Secret or a ConfigMap.
const AuthoritiesKey = "ca.crt"

// tries is the number of attempts to write if another replica writes too.
const tries = 3

// Secret is a Secret of type kubernetes.io/tls that replicas share: the first replica creates the pair, and the others
// find it.
type Secret struct {
	// Client writes, and Live reads without a cache.
	Client client.Client
	Live   client.Reader
	// Name is the namespace and name. The Secret is created if it does not exist.
	Name types.NamespacedName
	// Hosts are the hosts that the pair must be valid for. Without hosts, the Secret has no pair.
	Hosts []string
	// Log is the logger.
	Log logr.Logger
}

// PairOf reads the pair from the data of a Secret.
func PairOf(data map[string][]byte) Pair {
	return Pair{Certificate: data[corev1.TLSCertKey], Key: data[corev1.TLSPrivateKeyKey], Authorities: data[AuthoritiesKey]}
}

// Keep returns the data of the Secret after it has ensured that its pair is valid. also, which may be nil, may change
// other data and reports whether it did. Cost: a read, and a write if something has changed; both again if another
// replica writes at the same time.
func (s *Secret) Keep(ctx context.Context, now time.Time, also func(data map[string][]byte) (changed bool)) (data map[string][]byte, err error) {
	for range tries {
		data, err = s.keep(ctx, now, also)
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			break
		}
	}
	return data, err
}

func (s *Secret) keep(ctx context.Context, now time.Time, also func(map[string][]byte) bool) (map[string][]byte, error) {
	var secret corev1.Secret
	err := s.Live.Get(ctx, s.Name, &secret)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read Secret %s: %w", s.Name, err)
	}
	missing := err != nil
	data := map[string][]byte{corev1.TLSCertKey: {}, corev1.TLSPrivateKeyKey: {}} // required by its type
	maps.Copy(data, secret.Data)
	changed, err := s.renew(data, now, missing)
	if err != nil {
		return nil, err
	}
	if also != nil && also(data) {
		changed = true
	}
	secret.Data = data
	switch {
	case missing:
		secret.ObjectMeta, secret.Type = metav1.ObjectMeta{Namespace: s.Name.Namespace, Name: s.Name.Name}, corev1.SecretTypeTLS
		err = s.Client.Create(ctx, &secret)
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
	data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey], data[AuthoritiesKey] = pair.Certificate, pair.Key, pair.Authorities
	return true, nil
}
