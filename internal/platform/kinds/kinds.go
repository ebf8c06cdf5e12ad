// Package kinds has the kinds of objects that clients of Supercargo can read and write.
package kinds

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// Scheme returns a new scheme with the kinds of Kubernetes and of Supercargo.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("register the API types: %w", err)
	}
	return scheme, nil
}
