// Package kubernetes tests the scheduler that is built for another version of Kubernetes with the control
// plane of that version, and what the other programs, which are built once, observe there.
// SUPERCARGO_KUBERNETES is the folder of the programs of that control plane; `make test-kubernetes-1.37`
// builds them.
package kubernetes
