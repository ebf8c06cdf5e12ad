//go:build kubernetes1.36

package podwire

import "k8s.io/client-go/rest"

// Wrap returns config unchanged: these libraries know the field of the versions that they are for.
func Wrap(config *rest.Config) *rest.Config { return config }
