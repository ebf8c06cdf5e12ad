package app

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"k8s.io/utils/ptr"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/adapter/history"
	"supercargo.dev/supercargo/autoscaler/adapter/store/target"
	"supercargo.dev/supercargo/autoscaler/adapter/usage"
)

// fullPod returns a pod with all fields that are read, and many that are not.
func fullPod() *corev1.Pod {
	list := func(cpu string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}, Annotations: map[string]string{
		target.ScrapeAnnotation: "true", target.IntervalAnnotation: "1s", v1alpha1.AnnotationExpectedFinish: "2026-01-02T12:00:00Z", "other": "long",
	}}}
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: "web", Controller: ptr.To(true)}}
	p.Spec.NodeName, p.Spec.Overhead = "n1", list("100m")
	p.Spec.InitContainers = []corev1.Container{
		{Name: "once", Resources: corev1.ResourceRequirements{Requests: list("3")}},
		{Name: "beside", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways), Resources: corev1.ResourceRequirements{Requests: list("200m")}, Ports: []corev1.ContainerPort{{ContainerPort: 15090}}},
	}
	p.Spec.Containers = []corev1.Container{{Name: "web", Image: "i", Env: []corev1.EnvVar{{Name: "A"}}, Ports: []corev1.ContainerPort{{ContainerPort: 80}}, Resources: corev1.ResourceRequirements{Requests: list("1")}}}
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1", Message: "long", Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionTrue, Message: "long"},
	}}
	return p
}

func fullNode() *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{corev1.LabelInstanceTypeStable: "m1"}}}
	n.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8")}
	n.Status.Allocatable = n.Status.Capacity
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}}
	n.Status.DaemonEndpoints.KubeletEndpoint.Port = 10250
	n.Status.Images = []corev1.ContainerImage{{Names: []string{"long"}}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse}, {Type: corev1.NodeReady, Status: corev1.ConditionTrue, Message: "long"}}
	return n
}

// slimmed returns what the cache keeps of an object.
func slimmed[T any](t *testing.T, slim func(any) (any, error), object T) T {
	t.Helper()
	kept, err := slim(object)
	if err != nil {
		t.Fatal(err)
	}
	return kept.(T)
}

func TestWhatTheCacheKeepsIsAllThatIsRead(t *testing.T) {
	pod, node := fullPod(), fullNode()
	keptPod, keptNode := slimmed(t, slimPod, fullPod()), slimmed(t, slimNode, fullNode())
	limits := target.Limits{Most: 10, MinInterval: time.Second, MaxInterval: time.Minute}
	all, kept := target.Discover([]*corev1.Pod{pod}, nil, nil, limits), target.Discover([]*corev1.Pod{keptPod}, nil, nil, limits)
	if diff := cmp.Diff(all, kept); diff != "" || len(all.Targets) == 0 {
		t.Errorf("targets of the pod, and of what is kept (-all +kept):\n%s", diff)
	}
	if diff := cmp.Diff(history.OfPods([]*corev1.Pod{pod}, 1), history.OfPods([]*corev1.Pod{keptPod}, 1)); diff != "" {
		t.Errorf("history of the pod, and of what is kept (-all +kept):\n%s", diff)
	}
	if kubelet := target.Kubelets([]*corev1.Node{keptNode}); len(kubelet) != 1 || cmp.Diff(target.Kubelets([]*corev1.Node{node}), kubelet) != "" {
		t.Errorf("its kubelet is at %v by what is kept", kubelet)
	}
	before, after := history.Of([]*corev1.Node{node}, []*corev1.Pod{pod}), history.Of([]*corev1.Node{keptNode}, []*corev1.Pod{keptPod})
	if diff := cmp.Diff(before, after); diff != "" || before[history.Key{Name: history.Requested, Node: "n1", MachineType: "m1", Resource: "cpu"}] != 3.1 { // the first init container alone, and overhead
		t.Errorf("history of the node, and of what is kept (-all +kept):\n%s%v", diff, before)
	}
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	measured := []metricsv1beta1.PodMetrics{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Timestamp: metav1.NewTime(now)}}
	if diff := cmp.Diff(usage.Of(measured, []corev1.Pod{*pod}, now), usage.Of(measured, []corev1.Pod{*keptPod}, now)); diff != "" || len(usage.Of(measured, []corev1.Pod{*pod}, now)) == 0 {
		t.Errorf("usage of the pod, and of what is kept (-all +kept):\n%s", diff)
	}
	if len(keptPod.Status.Conditions) != 1 || keptPod.ManagedFields != nil || len(keptPod.Annotations) != 3 || keptPod.Spec.Containers[0].Env != nil || keptPod.Status.Message != "" {
		t.Errorf("more is kept of the pod than is read: %+v", keptPod)
	}
	if keptNode.Status.Images != nil || len(keptNode.Status.Conditions) != 1 {
		t.Errorf("more is kept of the node than is read: %+v", keptNode.Status)
	}
}

func TestWhatTheCacheKeepsOfAServiceAnnouncesItsEndpoints(t *testing.T) {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{target.ScrapeAnnotation: "true", "other": "long"}}}
	ends := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.9"}}}, Ports: []discoveryv1.EndpointPort{{Port: ptr.To(int32(80))}},
	}
	kept := slimmed(t, slimAnnotations, service)
	if found := target.Discover(nil, []*corev1.Service{kept}, []*discoveryv1.EndpointSlice{ends}, target.Limits{Most: 1}); len(found.Targets) != 1 || len(kept.Annotations) != 1 {
		t.Errorf("of %+v there is %+v", kept.Annotations, found)
	}
}

func TestWhatTheCacheKeepsOfAPolicyIsWhatItAsksAndWants(t *testing.T) {
	policy := &v1alpha1.ReplicaPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Generation: 3, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}}}
	policy.Spec.Mode = v1alpha1.ReplicasViaHPA
	policy.Status = v1alpha1.ReplicaPolicyStatus{DesiredReplicas: 7, LastObservation: &v1alpha1.ReplicaObservation{}, Memory: &v1alpha1.LawMemory{Of: "long"}}
	kept := slimmed(t, slimOther, policy)
	if kept.Generation != 3 || kept.Spec.Mode != v1alpha1.ReplicasViaHPA || kept.Status.DesiredReplicas != 7 || kept.Status.LastObservation == nil {
		t.Errorf("less is kept than is read: %+v", kept)
	}
	if kept.Status.Memory != nil || kept.ManagedFields != nil {
		t.Errorf("more is kept than is read: %+v", kept)
	}
}
