// Package gang tells which pods Kubernetes is to place together or not at all.
//
// The field that says so has changed. A pod of Kubernetes 1.35 names a Workload in
// spec.workloadRef, and one of 1.36 or later a PodGroup in spec.schedulingGroup; the
// build tag kubernetes1.36, set for the module files of later versions, says which of
// the two the libraries have.
package gang
