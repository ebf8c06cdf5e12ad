//go:build kubernetes1.36

package podwire

import "k8s.io/client-go/rest"

// Wrap returns config: the libraries know the field of the versions they are for.
func Wrap(config *rest.Config) *rest.Config { return config }
