package playground

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/lab/playground"
)

// BenchmarkStart measures the time to ready.
func BenchmarkStart(b *testing.B) {
	for _, clusterAPI := range []bool{false, true} {
		b.Run(fmt.Sprintf("cluster-api=%v", clusterAPI), func(b *testing.B) {
			for b.Loop() {
				p, err := playground.Start(context.Background(), playground.Options{ClusterAPI: clusterAPI})
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := p.Stop(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}

// BenchmarkMachines measures the time from the creation of a MachineDeployment until all its Nodes are Ready,
// without any lag.
func BenchmarkMachines(b *testing.B) {
	for _, replicas := range []int{3, 200} {
		b.Run(fmt.Sprintf("replicas=%d", replicas), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				p, err := playground.Start(context.Background(), playground.Options{ClusterAPI: true})
				if err != nil {
					b.Fatal(err)
				}
				nodes, err := p.Client().CoreV1().Nodes().Watch(b.Context(), metav1.ListOptions{})
				if err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				spec := playground.MachineDeploymentSpec{Name: "bench", CPU: "2", Memory: "4Gi", Max: replicas, Replicas: replicas}
				if err := p.AddMachineDeployment(b.Context(), spec); err != nil {
					b.Fatal(err)
				}
				ready := map[string]bool{}
				for len(ready) < replicas {
					event, open := <-nodes.ResultChan()
					if !open {
						b.Fatal(errors.New("the watch of nodes has ended"))
					}
					if node, ok := event.Object.(*corev1.Node); ok && len(node.Spec.Taints) == 0 {
						ready[node.Name] = true
					}
				}
				b.StopTimer()
				nodes.Stop()
				if err := p.Stop(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}
