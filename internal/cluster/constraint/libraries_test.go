//go:build !kubernetes1.37

package constraint_test

// resolvesNamespaces is what kube-scheduler of this version of Kubernetes does.
const resolvesNamespaces = false
