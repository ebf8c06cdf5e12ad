// Package gang identifies pods that Kubernetes schedules together or not at all.
//
// The field depends on the Kubernetes version. A pod of 1.35 names a Workload in spec.workloadRef, a pod of 1.36 or
// later a PodGroup in spec.schedulingGroup. The build tag kubernetes1.36, set for the module files of later versions,
// selects the field.
package gang
