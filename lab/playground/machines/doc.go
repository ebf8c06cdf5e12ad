// Package machines is an infrastructure provider of cluster-api whose machines
// are Nodes that kwok simulates.
//
// It serves four kinds. A KwokMachine creates a Node after an acquisition lag and deletes it after
// a release lag. It can be configured never to join or to fail. A KwokMachineTemplate tells
// autoscalers the size of its machines. KwokCluster and KwokControlPlane represent the existing
// control plane: they report it as ready, and give cluster-api's Clusters its kubeconfig.
//
// The provider reads only the few required fields of cluster-api's own kinds.
//
// +kubebuilder:object:generate=true
// +groupName=infrastructure.playground.supercargo.dev
// +versionName=v1alpha1
package machines

import (
	"embed"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// CRDs are the CustomResourceDefinitions of the kinds, one YAML file each.
//
//go:embed crd/*.yaml
var CRDs embed.FS

// GroupVersion is the group and version of the kinds of this package.
var GroupVersion = schema.GroupVersion{Group: "infrastructure.playground.supercargo.dev", Version: "v1alpha1"}

// AddToScheme registers the kinds of this package.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&KwokCluster{}, &KwokClusterList{},
		&KwokControlPlane{}, &KwokControlPlaneList{},
		&KwokMachine{}, &KwokMachineList{},
		&KwokMachineTemplate{}, &KwokMachineTemplateList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
