package playground

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/lab/playground/machines"
)

// capi returns a client for a resource of cluster-api in the namespace default.
func capi(t *testing.T, p *playground.Playground, resource string) dynamic.ResourceInterface {
	t.Helper()
	return resources(t, p, schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: resource})
}

// kwok returns a client for a resource of the provider in the namespace default.
func kwok(t *testing.T, p *playground.Playground, resource string) dynamic.ResourceInterface {
	t.Helper()
	return resources(t, p, machines.GroupVersion.WithResource(resource))
}

func resources(t *testing.T, p *playground.Playground, resource schema.GroupVersionResource) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(p.Config())
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(resource).Namespace(metav1.NamespaceDefault)
}

// machinesOf returns the Machines of a MachineDeployment.
func machinesOf(t *testing.T, p *playground.Playground, deployment string) []unstructured.Unstructured {
	t.Helper()
	list, err := capi(t, p, "machines").List(t.Context(),
		metav1.ListOptions{LabelSelector: "cluster.x-k8s.io/deployment-name=" + deployment})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func phase(machine unstructured.Unstructured) string {
	phase, _, _ := unstructured.NestedString(machine.Object, "status", "phase")
	return phase
}

// reason returns status, reason and message of one of an object's conditions.
func reason(object unstructured.Unstructured, condition string) string {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, c := range conditions {
		if c := c.(map[string]any); c["type"] == condition {
			return fmt.Sprint(c["status"], " ", c["reason"], ": ", c["message"])
		}
	}
	return "no condition " + condition
}

// awaitMachines waits until a MachineDeployment has n Machines and all of them
// are in a phase.
func awaitMachines(t *testing.T, p *playground.Playground, deployment, want string, n int) []unstructured.Unstructured {
	t.Helper()
	var found []unstructured.Unstructured
	eventually(t, func() string {
		phases := map[string]int{}
		found = machinesOf(t, p, deployment)
		for _, m := range found {
			phases[phase(m)]++
		}
		if len(found) == n && phases[want] == n {
			return ""
		}
		return fmt.Sprintf("machines of %s are %v, want %d %s", deployment, phases, n, want)
	})
	return found
}

// nodesOf returns the Nodes of a MachineDeployment, which have its name as flavor.
func nodesOf(t *testing.T, p *playground.Playground, flavor string) []corev1.Node {
	t.Helper()
	list, err := p.Client().CoreV1().Nodes().List(t.Context(), metav1.ListOptions{LabelSelector: corev1.LabelInstanceTypeStable + "=" + flavor})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// addMachines creates a MachineDeployment of small machines, with its name as flavor.
func addMachines(t *testing.T, p *playground.Playground, spec playground.MachineDeploymentSpec) {
	t.Helper()
	spec.CPU, spec.Memory, spec.Max, spec.Flavor = "2", "4Gi", 100, spec.Name
	if err := p.AddMachineDeployment(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
}

func scale(t *testing.T, p *playground.Playground, deployment string, replicas int32) {
	t.Helper()
	object := &autoscalingv1.Scale{
		TypeMeta:   metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"},
		ObjectMeta: metav1.ObjectMeta{Name: deployment, Namespace: metav1.NamespaceDefault},
		Spec:       autoscalingv1.ScaleSpec{Replicas: replicas},
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := capi(t, p, "machinedeployments").Update(t.Context(), &unstructured.Unstructured{Object: fields}, metav1.UpdateOptions{}, "scale"); err != nil {
		t.Fatal(err)
	}
}

// TestMachines starts one playground for all subtests.
func TestMachines(t *testing.T) {
	p := playground.ForTest(t, playground.Options{ClusterAPI: true, OldClusterAPI: true})
	for _, tc := range []struct {
		name string
		test func(*testing.T, *playground.Playground)
	}{
		{"three replicas become three Nodes that take pods", testThreeReplicas},
		{"fifty replicas become fifty Nodes", testFiftyReplicas},
		{"a smaller MachineDeployment loses the marked Machine", testMarkedMachine},
		{"a Machine drains its Node and honours disruption budgets", testDrain},
		{"a machine that never joins is provisioned without a Node", testNeverJoins},
		{"a machine that fails says so on its Machine", testFails},
		{"lags pass before a Node comes and before it goes", testLags},
		{"another namespace gets a Cluster of its own", testOtherNamespace},
		{"a MachineDeployment that is there stays as it is", testStaysAsItIs},
		{"old versions of the kinds are converted", testConversion},
		{"what cluster-api's webhooks refuse is the caller's fault", testRefusal},
		{"a size that is none is the caller's fault", testBadSize},
	} {
		t.Run(tc.name, func(t *testing.T) { tc.test(t, p) })
	}
}

func testThreeReplicas(t *testing.T, p *playground.Playground) {
	taint := corev1.Taint{Key: "dedicated", Value: "tests", Effect: corev1.TaintEffectNoSchedule}
	err := p.AddMachineDeployment(t.Context(), playground.MachineDeploymentSpec{
		Name: "three", Flavor: "m1.tiny", MachineType: "xeon", CPU: "1500m", Memory: "3Gi", MaxPods: 29, Arch: "arm64", PricePerHour: "0.0686",
		Labels: map[string]string{"topology.kubernetes.io/zone": "z1", v1alpha1.LabelClass: "service"}, Taints: []corev1.Taint{taint},
		Min: 1, Max: 5, Replicas: 3,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range awaitMachines(t, p, "three", "Running", 3) {
		node, err := p.Client().CoreV1().Nodes().Get(t.Context(), m.GetName(), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		providerID, _, _ := unstructured.NestedString(m.Object, "spec", "providerID")
		if node.Spec.ProviderID != providerID || providerID != machines.ProviderID(m.GetName()) {
			t.Errorf("Node %s has provider ID %q, its Machine %q", node.Name, node.Spec.ProviderID, providerID)
		}
		for label, want := range map[string]string{
			corev1.LabelInstanceTypeStable: "m1.tiny", v1alpha1.LabelMachineType: "xeon", corev1.LabelArchStable: "arm64",
			"topology.kubernetes.io/zone": "z1", v1alpha1.LabelClass: "service", corev1.LabelHostname: m.GetName(),
		} {
			if got := node.Labels[label]; got != want {
				t.Errorf("label %s is %q, want %q", label, got, want)
			}
		}
		if got := node.Annotations[v1alpha1.AnnotationPricePerHour]; got != "0.0686" {
			t.Errorf("price is %q, want 0.0686", got)
		}
		free := node.Status.Allocatable
		if free.Cpu().String() != "1500m" || free.Memory().String() != "3Gi" || free.Pods().Value() != 29 {
			t.Errorf("allocatable is %v, want 1500m, 3Gi and 29 pods", free)
		}
		if !slices.Contains(node.Spec.Taints, taint) {
			t.Errorf("taints are %v, want %v among them", node.Spec.Taints, taint)
		}
	}
	pod := newPod("on-three")
	pod.Spec.NodeSelector = map[string]string{corev1.LabelInstanceTypeStable: "m1.tiny"}
	pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	createPod(t, p, pod)
	awaitPod(t, p, pod.Name, isRunning)
	wantAnnotations(t, p)
}

// wantAnnotations checks the annotations for autoscalers on the MachineDeployment three and its template.
func wantAnnotations(t *testing.T, p *playground.Playground) {
	t.Helper()
	deployment, err := capi(t, p, "machinedeployments").Get(t.Context(), "three", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := deployment.GetAnnotations()
	for annotation, want := range map[string]string{
		"cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size": "1",
		"cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": "5",
		"capacity.cluster-autoscaler.kubernetes.io/cpu":               "1500m",
		"capacity.cluster-autoscaler.kubernetes.io/memory":            "3Gi",
		"capacity.cluster-autoscaler.kubernetes.io/maxPods":           "29",
		"capacity.cluster-autoscaler.kubernetes.io/labels": "node.kubernetes.io/instance-type=m1.tiny,supercargo.dev/class=service," +
			"supercargo.dev/machine-type=xeon,topology.kubernetes.io/zone=z1",
		"capacity.cluster-autoscaler.kubernetes.io/taints": "dedicated=tests:NoSchedule",
		"supercargo.dev/price-per-hour":                    "0.0686",
	} {
		if got[annotation] != want {
			t.Errorf("annotation %s is %q, want %q", annotation, got[annotation], want)
		}
	}
	template, err := kwok(t, p, "kwokmachinetemplates").Get(t.Context(), "three", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	capacity, _, err := unstructured.NestedStringMap(template.Object, "status", "capacity")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"cpu": "1500m", "memory": "3Gi", "pods": "29"}, capacity); diff != "" {
		t.Errorf("capacity of the template (-want +got):\n%s", diff)
	}
}

func testFiftyReplicas(t *testing.T, p *playground.Playground) {
	addMachines(t, p, playground.MachineDeploymentSpec{Name: "fifty", Replicas: 50})
	awaitMachines(t, p, "fifty", "Running", 50)
	if n := len(nodesOf(t, p, "fifty")); n != 50 {
		t.Errorf("%d nodes, want 50", n)
	}
	scale(t, p, "fifty", 0)
	awaitMachines(t, p, "fifty", "", 0)
	if n := len(nodesOf(t, p, "fifty")); n != 0 {
		t.Errorf("%d nodes, want none", n)
	}
}

func testMarkedMachine(t *testing.T, p *playground.Playground) {
	addMachines(t, p, playground.MachineDeploymentSpec{Name: "marked", Replicas: 3})
	all := awaitMachines(t, p, "marked", "Running", 3)
	slices.SortFunc(all, func(a, b unstructured.Unstructured) int { return strings.Compare(a.GetName(), b.GetName()) })
	mark := []byte(`{"metadata":{"annotations":{"cluster.x-k8s.io/delete-machine":"true"}}}`)
	if _, err := capi(t, p, "machines").Patch(t.Context(), all[1].GetName(), types.MergePatchType, mark, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	scale(t, p, "marked", 2)
	for _, m := range awaitMachines(t, p, "marked", "Running", 2) {
		if m.GetName() == all[1].GetName() {
			t.Errorf("machine %s, which was marked, is still there", m.GetName())
		}
	}
	if n := len(nodesOf(t, p, "marked")); n != 2 {
		t.Errorf("%d nodes, want 2", n)
	}
}

func testDrain(t *testing.T, p *playground.Playground) {
	addMachines(t, p, playground.MachineDeploymentSpec{Name: "drained", Replicas: 1})
	machine := awaitMachines(t, p, "drained", "Running", 1)[0]
	pod := newPod("guarded")
	pod.Labels = map[string]string{"app": "guarded"}
	pod.Spec.NodeSelector = map[string]string{corev1.LabelInstanceTypeStable: "drained"}
	createPod(t, p, pod)
	awaitPod(t, p, pod.Name, isRunning)
	budget := guard(t, p)

	scale(t, p, "drained", 0)
	eventually(t, func() string {
		m, err := capi(t, p, "machines").Get(t.Context(), machine.GetName(), metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if got := reason(*m, "Deleting"); !strings.HasPrefix(got, "True DrainingNode: ") || !strings.Contains(got, "default/guarded") {
			return "machine is " + got + ", want it draining, and the pod named"
		}
		return ""
	})
	awaitPod(t, p, pod.Name, func(pod *corev1.Pod) bool { return isRunning(pod) && pod.DeletionTimestamp == nil })
	if nodes := nodesOf(t, p, "drained"); len(nodes) != 1 || !nodes[0].Spec.Unschedulable {
		t.Errorf("nodes are %v, want the one, closed to new pods", nodes)
	}

	gone := watchPod(t, p, pod.Name)
	if err := p.Client().PolicyV1().PodDisruptionBudgets(metav1.NamespaceDefault).Delete(t.Context(), budget, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := <-gone; got != "EvictionByEvictionAPI" {
		t.Errorf("the pod went because of %q, want an eviction", got)
	}
	awaitMachines(t, p, "drained", "", 0)
	if n := len(nodesOf(t, p, "drained")); n != 0 {
		t.Errorf("%d nodes, want none", n)
	}
}

// guard creates a budget that allows no disruption of the pod labelled app=guarded, and waits until it is in
// force.
func guard(t *testing.T, p *playground.Playground) (budget string) {
	t.Helper()
	budgets := p.Client().PolicyV1().PodDisruptionBudgets(metav1.NamespaceDefault)
	one := intstr.FromInt32(1)
	_, err := budgets.Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "guard"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "guarded"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		b, err := budgets.Get(t.Context(), "guard", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if b.Status.CurrentHealthy != 1 {
			return "the budget has not seen the pod"
		}
		return ""
	})
	return "guard"
}

// watchPod returns a channel that, once the pod is gone, receives the reason of its condition
// DisruptionTarget.
func watchPod(t *testing.T, p *playground.Playground, name string) <-chan string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	w, err := p.Client().CoreV1().Pods(metav1.NamespaceDefault).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		t.Fatal(err)
	}
	found := make(chan string, 1)
	go func() {
		defer w.Stop()
		why := "not gone"
		for event := range w.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok {
				continue
			}
			for _, c := range pod.Status.Conditions {
				if c.Type == corev1.DisruptionTarget {
					why = c.Reason
				}
			}
			if event.Type == watch.Deleted {
				break
			}
		}
		found <- why
	}()
	return found
}

func testNeverJoins(t *testing.T, p *playground.Playground) {
	addMachines(t, p, playground.MachineDeploymentSpec{Name: "never", Replicas: 1, Fault: machines.FaultNever})
	m := awaitMachines(t, p, "never", "Provisioned", 1)[0]
	if got := reason(m, "InfrastructureReady"); !strings.HasPrefix(got, "True ") {
		t.Errorf("InfrastructureReady is %s, want True", got)
	}
	if nodes := nodesOf(t, p, "never"); len(nodes) > 0 {
		t.Errorf("nodes are %v, want none", nodes)
	}
	scale(t, p, "never", 0)
	awaitMachines(t, p, "never", "", 0)
}

func testFails(t *testing.T, p *playground.Playground) {
	addMachines(t, p, playground.MachineDeploymentSpec{Name: "fails", Replicas: 1, Fault: machines.FaultFail})
	eventually(t, func() string {
		found := machinesOf(t, p, "fails")
		if len(found) != 1 {
			return fmt.Sprintf("%d machines, want 1", len(found))
		}
		if got := reason(found[0], "InfrastructureReady"); !strings.HasPrefix(got, "False ProvisioningFailed: ") {
			return "InfrastructureReady is " + got
		}
		return ""
	})
	if nodes := nodesOf(t, p, "fails"); len(nodes) > 0 {
		t.Errorf("nodes are %v, want none", nodes)
	}
	scale(t, p, "fails", 0)
	awaitMachines(t, p, "fails", "", 0)
}

func testLags(t *testing.T, p *playground.Playground) {
	const acquisition, release = 2 * time.Second, time.Second
	asked := time.Now()
	addMachines(t, p, playground.MachineDeploymentSpec{Name: "late", Replicas: 1, AcquisitionLag: acquisition, ReleaseLag: release})
	machine := awaitMachines(t, p, "late", "Running", 1)[0]
	if lag := time.Since(asked); lag < acquisition {
		t.Errorf("the node came after %v, want at least %v", lag, acquisition)
	}
	object, err := kwok(t, p, "kwokmachines").Get(t.Context(), machine.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var m machines.KwokMachine
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &m); err != nil {
		t.Fatal(err)
	}
	if m.Status.RequestTime == nil || m.Status.ProvisionTime == nil {
		t.Fatalf("status is %+v, want both times", m.Status)
	}
	if lag := m.Status.ProvisionTime.Sub(m.Status.RequestTime.Time); lag < acquisition {
		t.Errorf("provisioned %v after the request, want at least %v", lag, acquisition)
	}
	released := time.Now()
	scale(t, p, "late", 0)
	awaitMachines(t, p, "late", "", 0)
	if lag := time.Since(released); lag < release {
		t.Errorf("the machine went after %v, want at least %v", lag, release)
	}
}

func testOtherNamespace(t *testing.T, p *playground.Playground) {
	const namespace = "elsewhere"
	_, err := p.Client().CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	addMachines(t, p, playground.MachineDeploymentSpec{Name: "other", Namespace: namespace, Replicas: 1})
	eventually(t, func() string {
		if n := len(nodesOf(t, p, "other")); n != 1 {
			return fmt.Sprintf("%d nodes, want 1", n)
		}
		return ""
	})
	if n := len(machinesOf(t, p, "other")); n != 0 {
		t.Errorf("%d machines in the namespace default, want none", n)
	}
}

func testStaysAsItIs(t *testing.T, p *playground.Playground) {
	addMachines(t, p, playground.MachineDeploymentSpec{Name: "again", Replicas: 1})
	addMachines(t, p, playground.MachineDeploymentSpec{Name: "again", Replicas: 2, PricePerHour: "1"})
	deployment, err := capi(t, p, "machinedeployments").Get(t.Context(), "again", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if n, _, _ := unstructured.NestedInt64(deployment.Object, "spec", "replicas"); n != 1 || deployment.GetAnnotations()[v1alpha1.AnnotationPricePerHour] != "" {
		t.Errorf("it has %d replicas and annotations %v, want it as it was made", n, deployment.GetAnnotations())
	}
}

func testConversion(t *testing.T, p *playground.Playground) {
	addMachines(t, p, playground.MachineDeploymentSpec{Name: "old"})
	old := schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta1", Resource: "machinedeployments"}
	deployment, err := resources(t, p, old).Get(t.Context(), "old", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// The field apiGroup in v1beta2 is apiVersion in v1beta1.
	version, _, _ := unstructured.NestedString(deployment.Object, "spec", "template", "spec", "infrastructureRef", "apiVersion")
	if version != machines.GroupVersion.String() {
		t.Errorf("apiVersion of the reference is %q, want %q", version, machines.GroupVersion)
	}
}

func testRefusal(t *testing.T, p *playground.Playground) {
	deployment := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment", "metadata": map[string]any{"name": "wrong"},
		"spec": map[string]any{
			"clusterName": playground.ClusterName,
			"selector":    map[string]any{"matchLabels": map[string]any{"a": "b"}},
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"a": "c"}},
				"spec": map[string]any{
					"clusterName": playground.ClusterName, "bootstrap": map[string]any{"dataSecretName": ""},
					"infrastructureRef": map[string]any{"apiGroup": machines.GroupVersion.Group, "kind": "KwokMachineTemplate", "name": "x"},
				},
			},
		},
	}}
	err := p.Apply(t.Context(), []playground.Manifest{{Source: "test", Document: 1, Object: deployment}})
	wantInputError(t, err, "", "validation.machinedeployment.cluster.x-k8s.io")
}

func testBadSize(t *testing.T, p *playground.Playground) {
	err := p.AddMachineDeployment(t.Context(), playground.MachineDeploymentSpec{Name: "odd", CPU: "two", Memory: "1Gi"})
	wantInputError(t, err, "", `add MachineDeployment odd: cpu "two"`)
	if _, err := capi(t, p, "machinedeployments").Get(t.Context(), "odd", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("getting it gives %v, want that it was not made", err)
	}
}

func TestAMachineDeploymentNeedsClusterAPI(t *testing.T) {
	p := playground.ForTest(t, playground.Options{NoScheduler: true, NoKwok: true, NoControllerManager: true})
	err := p.AddMachineDeployment(t.Context(), playground.MachineDeploymentSpec{Name: "a", CPU: "1", Memory: "1Gi"})
	if err == nil || !strings.Contains(err.Error(), "without cluster-api") {
		t.Errorf("error is %v, want one that says what is missing", err)
	}
}

func TestMachinesAreResumed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	p := playground.ForTest(t, playground.Options{Dir: dir, ClusterAPI: true})
	addMachines(t, p, playground.MachineDeploymentSpec{Name: "resumed", Replicas: 2})
	before := awaitMachines(t, p, "resumed", "Running", 2)
	old := schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta1", Resource: "machines"}
	if _, err := resources(t, p, old).List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("asked for Machines of an older version: error %v, want that there are none: each would be converted", err)
	}
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}

	p = playground.ForTest(t, playground.Options{Dir: dir, ClusterAPI: true})
	scale(t, p, "resumed", 3)
	names := map[string]bool{}
	for _, m := range awaitMachines(t, p, "resumed", "Running", 3) {
		names[m.GetName()] = true
	}
	for _, m := range before {
		if !names[m.GetName()] {
			t.Errorf("machine %s is gone", m.GetName())
		}
	}
	// Draining a Machine needs the kubeconfig of this start.
	scale(t, p, "resumed", 0)
	awaitMachines(t, p, "resumed", "", 0)
}

func TestAManagerThatDoesNotStartIsBlamed(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	broken := filepath.Join(t.TempDir(), "cluster-api")
	if err := os.WriteFile(broken, []byte("#!/bin/sh\necho no clusters today\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := playground.Start(t.Context(), playground.Options{ClusterAPI: true, ClusterAPIPath: broken})
	if err == nil || !strings.Contains(err.Error(), "cluster-api") || !strings.Contains(err.Error(), "no clusters today") {
		t.Errorf("error is %v, want one that blames cluster-api and quotes its log", err)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("temporary files %v are left (%v)", left, err)
	}
	if left := children(t, os.Getpid()); len(left) > 0 {
		t.Errorf("processes %v still run", left)
	}
}

func TestTheServerSaysWhichKubernetesItIs(t *testing.T) {
	p := playground.ForTest(t, playground.Options{NoScheduler: true, NoKwok: true, NoControllerManager: true})
	version, err := p.Client().Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(version.GitVersion, "v1.35.") {
		t.Errorf("it says %q, want v1.35.x", version.GitVersion)
	}
}
