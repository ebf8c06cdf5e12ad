//go:build kubernetes1.37 && !kubernetes1.38

package constraint_test

// What kube-scheduler of this version of Kubernetes does.
const (
	resolvesNamespaces = true
	spreadsAmongAll    = false
)
