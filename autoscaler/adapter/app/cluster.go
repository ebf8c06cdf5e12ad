package app

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// reach returns the cluster, with a cache of the objects that are read repeatedly.
func reach(o Options) (cluster.Cluster, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiregistrationv1.AddToScheme, metricsv1beta1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("register kinds: %w", err)
		}
	}
	c, err := cluster.New(o.Config, func(c *cluster.Options) {
		c.Scheme, c.Logger = scheme, o.Log
		c.Cache.DefaultTransform = slimOther
		c.Cache.ByObject = map[client.Object]cache.ByObject{
			&corev1.Pod{}: {Transform: slimPod}, &corev1.Node{}: {Transform: slimNode},
			&corev1.Service{}: {Transform: slimAnnotations}, &discoveryv1.EndpointSlice{}: {},
		}
	})
	if err != nil {
		return nil, fmt.Errorf("reach the cluster: %w", err)
	}
	return c, nil
}

// slimPod keeps only the fields of a pod that are read here: pods are many and large.
func slimPod(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	slim := &corev1.Pod{TypeMeta: pod.TypeMeta, ObjectMeta: pod.ObjectMeta}
	slim.ManagedFields = nil
	slim.Annotations = ours(pod.Annotations)
	slim.Spec = corev1.PodSpec{NodeName: pod.Spec.NodeName, Overhead: pod.Spec.Overhead, Resources: pod.Spec.Resources}
	slim.Spec.Containers, slim.Spec.InitContainers = slimContainers(pod.Spec.Containers), slimContainers(pod.Spec.InitContainers)
	slim.Status = corev1.PodStatus{Phase: pod.Status.Phase, PodIP: pod.Status.PodIP, StartTime: pod.Status.StartTime}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			slim.Status.Conditions = []corev1.PodCondition{{Type: c.Type, Status: c.Status}}
		}
	}
	return slim, nil
}

func slimContainers(list []corev1.Container) []corev1.Container {
	slim := make([]corev1.Container, len(list))
	for i, c := range list {
		slim[i] = corev1.Container{Name: c.Name, Ports: c.Ports, Resources: c.Resources, RestartPolicy: c.RestartPolicy}
	}
	return slim
}

// slimNode keeps only the fields of a node that are read here: the list of images alone is
// long.
func slimNode(object any) (any, error) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return object, nil
	}
	slim := &corev1.Node{TypeMeta: node.TypeMeta, ObjectMeta: node.ObjectMeta}
	slim.ManagedFields = nil
	slim.Annotations = ours(node.Annotations)
	slim.Spec.Unschedulable = node.Spec.Unschedulable
	slim.Status = corev1.NodeStatus{
		Capacity: node.Status.Capacity, Allocatable: node.Status.Allocatable, Addresses: node.Status.Addresses, DaemonEndpoints: node.Status.DaemonEndpoints,
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			slim.Status.Conditions = []corev1.NodeCondition{{Type: c.Type, Status: c.Status}}
		}
	}
	return slim, nil
}

// slimAnnotations keeps only the annotations that are read here.
func slimAnnotations(object any) (any, error) {
	if o, ok := object.(client.Object); ok {
		o.SetManagedFields(nil)
		o.SetAnnotations(ours(o.GetAnnotations()))
	}
	return object, nil
}

// slimOther keeps only the fields of a ReplicaPolicy that are read here: the memory of its
// law is large. ReplicaPolicy is not listed in ByObject, because kinds listed there must be
// installed.
func slimOther(object any) (any, error) {
	policy, ok := object.(*v1alpha1.ReplicaPolicy)
	if !ok {
		return cache.TransformStripManagedFields()(object)
	}
	slim := &v1alpha1.ReplicaPolicy{TypeMeta: policy.TypeMeta, ObjectMeta: policy.ObjectMeta, Spec: policy.Spec}
	slim.ManagedFields = nil
	slim.Annotations = nil
	slim.Status = v1alpha1.ReplicaPolicyStatus{DesiredReplicas: policy.Status.DesiredReplicas, LastObservation: policy.Status.LastObservation}
	return slim, nil
}

func ours(annotations map[string]string) map[string]string {
	var kept map[string]string
	for name, value := range annotations {
		if strings.HasPrefix(name, "prometheus.io/") || strings.HasPrefix(name, v1alpha1.GroupName+"/") {
			if kept == nil {
				kept = map[string]string{}
			}
			kept[name] = value
		}
	}
	return kept
}
