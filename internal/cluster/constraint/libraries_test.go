//go:build !kubernetes1.37

package constraint_test

// What kube-scheduler of this version of Kubernetes does.
const (
	resolvesNamespaces = false
	spreadsAmongAll    = false
)
