// Package v1alpha1 is the configuration file of the metrics adapter: what it measures, and
// by which names it serves it to the HorizontalPodAutoscaler and other clients.
//
// One Go type serves as versioned and as internal type: there is one version.
//
// +kubebuilder:object:generate=true
package v1alpha1
