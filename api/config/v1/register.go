package v1

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	kubeschedulerv1 "k8s.io/kube-scheduler/config/v1"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
)

// kube-scheduler reads its configuration with one scheme and converts plugin
// arguments with another that it builds when first needed, from these builders.
// The arguments must be in both.
func init() {
	schedconfig.SchemeBuilder.Register(addInternalTypes)
	kubeschedulerv1.SchemeBuilder.Register(addVersionedTypes)
	utilruntime.Must(addInternalTypes(scheme.Scheme))
	utilruntime.Must(addVersionedTypes(scheme.Scheme))
}

func addInternalTypes(s *runtime.Scheme) error {
	addTypes(s, runtime.APIVersionInternal)
	return nil
}

func addVersionedTypes(s *runtime.Scheme) error {
	addTypes(s, kubeschedulerv1.SchemeGroupVersion.Version)
	registerDefaults(s)
	return nil
}

func addTypes(s *runtime.Scheme, version string) {
	s.AddKnownTypes(schema.GroupVersion{Group: schedconfig.GroupName, Version: version}, &BestFitArgs{}, &CheckpointStagingArgs{}, &EnergyPerformanceArgs{}, &TimeBinArgs{})
}
