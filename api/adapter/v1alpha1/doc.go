// Package v1alpha1 is the configuration file of the metrics adapter: what it measures, and the
// names under which it serves metrics to HorizontalPodAutoscalers and other clients.
//
// There is only one version, so one Go type serves as versioned and as internal type.
//
// +kubebuilder:object:generate=true
package v1alpha1
