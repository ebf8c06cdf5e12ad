package playground_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"supercargo.dev/supercargo/internal/playground"
)

var machineResource = schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "machines"}

// dynamicClient returns a client for kinds that this module has no types of.
func dynamicClient(t *testing.T, p *playground.Playground) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(p.Config())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// machinesOf returns the Machines of a MachineDeployment.
func machinesOf(t *testing.T, p *playground.Playground, deployment string) []unstructured.Unstructured {
	t.Helper()
	list, err := dynamicClient(t, p).Resource(machineResource).Namespace(metav1.NamespaceDefault).List(t.Context(),
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

// awaitMachines waits until a MachineDeployment has n Machines and all of them
// are in a phase.
func awaitMachines(t *testing.T, p *playground.Playground, deployment, want string, n int) {
	t.Helper()
	eventually(t, func() string {
		phases := map[string]int{}
		for _, m := range machinesOf(t, p, deployment) {
			phases[phase(m)]++
		}
		if len(phases) == 1 && phases[want] == n || n == 0 && len(phases) == 0 {
			return ""
		}
		return fmt.Sprintf("machines are %v, want %d %s", phases, n, want)
	})
}

// addMachines makes a MachineDeployment of small machines.
func addMachines(t *testing.T, p *playground.Playground, spec playground.MachineDeploymentSpec) {
	t.Helper()
	spec.CPU, spec.Memory, spec.Max = "2", "4Gi", 100
	if err := p.AddMachineDeployment(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
}

func TestMachineDeploymentsBecomeNodesThatTakePods(t *testing.T) {
	p := playground.ForTest(t, playground.Options{ClusterAPI: true})
	addMachines(t, p, playground.MachineDeploymentSpec{Name: "small", Replicas: 3})
	awaitMachines(t, p, "small", "Running", 3)
	createPod(t, p, newPod("web"))
	awaitPod(t, p, "web", isRunning)
}
