// Package machines is an infrastructure provider of cluster-api whose machines
// are Nodes that kwok simulates.
//
// It serves four kinds. A KwokMachine becomes a Node after an acquisition lag and
// takes that Node away after a release lag; it can be told never to join or to
// fail. A KwokMachineTemplate tells autoscalers how large its machines would be.
// KwokCluster and KwokControlPlane stand for the control plane that is there
// already, which they report as ready, and give cluster-api's Clusters the
// kubeconfig of it.
//
// Of cluster-api's own kinds it knows the few fields that a provider must read.
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

// CRDs are the definitions of the kinds, one YAML file each.
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
