// Package kubernetes tests the scheduler that is built for another version of Kubernetes
// with the control plane of that version, and what the other programs, which are built
// once, see there. SUPERCARGO_KUBERNETES says where the programs of that control plane are;
// `make test-kubernetes-1.37` builds them.
package kubernetes
