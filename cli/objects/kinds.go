package objects

import (
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// kind is a kind of object that an audit needs.
type kind struct {
	apiVersion string
	new        func() any
}

// kinds are all kinds except MachineDeployment, by name.
var kinds = map[string]kind{
	"Node":                  {"v1", func() any { return &corev1.Node{} }},
	"Pod":                   {"v1", func() any { return &corev1.Pod{} }},
	"Service":               {"v1", func() any { return &corev1.Service{} }},
	"Namespace":             {"v1", func() any { return &corev1.Namespace{} }},
	"PersistentVolumeClaim": {"v1", func() any { return &corev1.PersistentVolumeClaim{} }},
	"PersistentVolume":      {"v1", func() any { return &corev1.PersistentVolume{} }},
	"StorageClass":          {"storage.k8s.io/v1", func() any { return &storagev1.StorageClass{} }},
	"PodDisruptionBudget":   {"policy/v1", func() any { return &policyv1.PodDisruptionBudget{} }},
	"DaemonSet":             {"apps/v1", func() any { return &appsv1.DaemonSet{} }},
	"ReplicaSet":            {"apps/v1", func() any { return &appsv1.ReplicaSet{} }},
	"Job":                   {"batch/v1", func() any { return &batchv1.Job{} }},
	"NodeMetrics":           {"metrics.k8s.io/v1beta1", func() any { return &metricsv1beta1.NodeMetrics{} }},
}

// mostAmount is the maximum accepted amount of any resource.
var mostAmount = resource.MustParse("1Pi")

// checkAmounts rejects amounts that are negative or too large to be added up.
func checkAmounts(field string, amounts corev1.ResourceList) error {
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		if q := amounts[name]; q.Sign() < 0 || q.Cmp(mostAmount) > 0 {
			return fmt.Errorf("%s.%s: %q is not a valid amount: must be from 0 to 1Pi", field, name, clip(q.String()))
		}
	}
	return nil
}
