// Package v1 holds the arguments of Supercargo's scheduler plugins, as they are
// written under pluginConfig of a KubeSchedulerConfiguration. They belong to
// kube-scheduler's own group and version, kubescheduler.config.k8s.io/v1, since
// that is where it looks for a plugin's arguments.
//
// One Go type serves as versioned and as internal type: there is one version,
// and the scheme needs no conversion between a type and itself.
//
// +kubebuilder:object:generate=true
package v1
