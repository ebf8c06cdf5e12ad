package fleetsite

import (
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/input/catalogue"
)

// clusterName is the name of the Cluster.
const clusterName = "site"

// clusterKind returns a kind of cluster-api, whose types only its provider knows.
func clusterKind(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: kind}
}

// AddMachine stores the Machine of a MachineDeployment. Its node may be empty: then it has none yet.
func (s *Server) AddMachine(name, deployment, node string, made time.Time) error {
	spec, status := map[string]any{"clusterName": clusterName}, map[string]any{}
	if node != "" {
		spec["providerID"], status["nodeRef"] = providerID(node), map[string]any{"name": node}
	}
	return s.addOf("Machine", map[string]any{
		"metadata": map[string]any{
			"name": name, "namespace": Machines, "uid": name, "creationTimestamp": made.UTC().Format(time.RFC3339),
			"labels": map[string]any{"cluster.x-k8s.io/deployment-name": deployment, "cluster.x-k8s.io/set-name": deployment, "cluster.x-k8s.io/cluster-name": clusterName},
		},
		"spec": spec, "status": status,
	})
}

// AddDeployment stores the MachineDeployment of a flavor in a zone.
func (s *Server) AddDeployment(f *catalogue.Flavor, zone string, replicas int) error {
	annotations := map[string]any{
		v1alpha1.AnnotationPricePerHour:                     fmt.Sprintf("%.6f", float64(f.MicroDollarsPerHour)/1e6),
		"capacity.cluster-autoscaler.kubernetes.io/cpu":     fmt.Sprintf("%dm", f.Size.MilliCPU),
		"capacity.cluster-autoscaler.kubernetes.io/memory":  fmt.Sprint(f.Size.MemoryBytes),
		"capacity.cluster-autoscaler.kubernetes.io/maxPods": fmt.Sprint(maxPods),
		"capacity.cluster-autoscaler.kubernetes.io/labels":  "node.kubernetes.io/instance-type=" + f.Name,
		"machinedeployment.clusters.x-k8s.io/revision":      "1",
	}
	return s.addOf("MachineDeployment", map[string]any{
		"metadata": map[string]any{"name": f.Name, "namespace": Machines, "uid": f.Name, "annotations": annotations},
		"spec": map[string]any{"clusterName": clusterName, "replicas": int64(replicas), "template": map[string]any{"spec": map[string]any{
			"clusterName": clusterName, "failureDomain": zone,
			"infrastructureRef": map[string]any{"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "AWSMachineTemplate", "name": "workers"},
		}}},
	})
}

// SetReplicas changes the number of machines of a MachineDeployment, and no machine.
func (s *Server) SetReplicas(deployment string, replicas int) error {
	return s.change("MachineDeployment", deployment, func(d map[string]any) error {
		return unstructured.SetNestedField(d, int64(replicas), "spec", "replicas")
	})
}

// SetNode gives a Machine its node.
func (s *Server) SetNode(machine, node string) error {
	return s.change("Machine", machine, func(m map[string]any) error {
		if err := unstructured.SetNestedField(m, providerID(node), "spec", "providerID"); err != nil {
			return err
		}
		return unstructured.SetNestedField(m, node, "status", "nodeRef", "name")
	})
}

// MachinesOf returns the Machines of a MachineDeployment in the order in which they were added.
func (s *Server) MachinesOf(deployment string) (all []client.Object) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, m := range s.kind(clusterKind("Machine")).all {
		if m.GetLabels()["cluster.x-k8s.io/deployment-name"] == deployment {
			all = append(all, m)
		}
	}
	return all
}

// replicas returns the number of machines of a MachineDeployment.
func (s *Server) replicas(key client.ObjectKey) (int64, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	of := s.kind(clusterKind("MachineDeployment"))
	at, exists := of.index[key]
	if !exists {
		return 0, fmt.Errorf("there is no MachineDeployment %s", key)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(of.all[at])
	if err != nil {
		return 0, err
	}
	n, _, err := unstructured.NestedInt64(content, "spec", "replicas")
	return n, err
}

// addOf adds an object of a kind whose type only its provider knows.
func (s *Server) addOf(kind string, content map[string]any) error {
	object, err := s.objectOf(kind, maps.Clone(content))
	if err != nil {
		return err
	}
	return s.Add(object)
}

func (s *Server) objectOf(kind string, content map[string]any) (client.Object, error) {
	object, err := s.scheme.New(clusterKind(kind))
	if err != nil {
		return nil, err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, object); err != nil {
		return nil, fmt.Errorf("make a %s: %w", kind, err)
	}
	return object.(client.Object), nil
}

// change replaces an object by a changed copy.
func (s *Server) change(kind, name string, by func(content map[string]any) error) error {
	s.mu.RLock()
	of := s.kind(clusterKind(kind))
	at, exists := of.index[client.ObjectKey{Namespace: Machines, Name: name}]
	s.mu.RUnlock()
	if !exists {
		return fmt.Errorf("there is no %s %s", kind, name)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(of.all[at])
	if err != nil {
		return err
	}
	if err := by(content); err != nil {
		return err
	}
	changed, err := s.objectOf(kind, content)
	if err != nil {
		return err
	}
	return s.Replace(of.all[at], changed)
}
