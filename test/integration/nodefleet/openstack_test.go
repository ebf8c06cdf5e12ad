package nodefleet

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
)

func TestServersWhoseNodesCarryNoProviderIDAreKept(t *testing.T) {
	t.Parallel()
	b := newBench(t, "noid")
	c := newCloud(b, 1)
	c.forget()
	c.joins(func(i int, s *cloudServer, n *corev1.Node) {
		switch i {
		case 0:
			n.Status.NodeInfo.SystemUUID = strings.ToUpper(s.ID)
		case 1:
			n.Name = s.Name + ".novalocal"
		case 2:
			n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: s.address}}
		}
	})
	const joinTimeout = 8
	c.rent(func(s *v1alpha1.NodeFleetSpec) { s.Scaling.JoinTimeout = seconds(joinTimeout) })
	b.pods("p", 3, "1500m", "1Gi")
	b.wait(3)
	b.autoscale()
	b.Runs(3)
	_, _, last := c.read()
	c.rounds(last.Add(2 * joinTimeout * time.Second))
	if there, deleted, _ := c.read(); there != 3 || deleted > 0 {
		t.Errorf("there are %d servers and %d were deleted, want the 3 that were bought", there, deleted)
	}
	if n := len(b.Running()); n != 3 {
		t.Errorf("%d pods run, want all 3", n)
	}
	b.has("rented", v1alpha1.FleetDegraded, metav1.ConditionFalse, "MachinesReady")
	b.removePods()
	c.isEmpty()
}

// TestAMachineWithADeadNodeIsKeptWhileItsPodsMayRun does not cover pods that stay terminating forever: kwok
// ends them even on a node that it no longer simulates.
func TestAMachineWithADeadNodeIsKeptWhileItsPodsMayRun(t *testing.T) {
	t.Parallel()
	b := newBench(t, "dead")
	c := newCloud(b, 1)
	c.forget()
	c.joins(func(_ int, s *cloudServer, n *corev1.Node) { n.Spec.ProviderID = "openstack:///" + s.ID })
	const joinTimeout = 6
	c.rent(func(s *v1alpha1.NodeFleetSpec) { s.Scaling.JoinTimeout = seconds(joinTimeout) })
	const stuck = "supercargo.dev/no-kubelet" // so that they are not deleted at once
	b.pods("p", 2, "800m", "1Gi", func(p *corev1.Pod) { p.Finalizers = []string{stuck} })
	b.Cleanup(func() {
		for _, p := range b.Pods() {
			before := p.DeepCopy()
			p.Finalizers = nil
			if err := b.Patch(context.WithoutCancel(b.Context()), &p, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
				b.Errorf("let pod %s go: %v", p.Name, err)
			}
		}
	})
	b.wait(2)
	b.autoscale()
	b.Runs(2)
	node := b.Nodes()[0]
	c.silence(&node)
	text := b.has("rented", v1alpha1.FleetDegraded, metav1.ConditionTrue, "NodesNotReady")
	if want := "node " + node.Name + " is not ready, and pod dead/p-000 on it is not being deleted"; !strings.Contains(text, want) {
		t.Errorf("the fleet is degraded for %q, want %q in it", text, want)
	}
	c.rounds(time.Now())
	if there, _, _ := c.read(); there != 1 {
		t.Fatal("the server is deleted while pods on it are not")
	}
	b.removePods() // as the taint of unreachable nodes does
	c.isEmpty()
	if note := b.event("MachineAbandoned"); !strings.Contains(note, "node "+node.Name+" has not be") {
		t.Errorf("the Event says %q", note)
	}
}

// isEmpty waits until no server exists.
func (c *cloud) isEmpty() {
	c.Helper()
	c.Eventually("the servers are released", func() string {
		if there, _, _ := c.read(); there > 0 {
			return fmt.Sprintf("%d are there", there)
		}
		return ""
	})
}

func TestAServerWhoseNodeIsNotIdentifiedIsKeptAndSaidSo(t *testing.T) {
	t.Parallel()
	b := newBench(t, "doubt")
	c := newCloud(b, 1)
	c.forget()
	c.joins(func(int, *cloudServer, *corev1.Node) {})
	const joinTimeout = 8
	c.rent(func(s *v1alpha1.NodeFleetSpec) { s.Scaling.JoinTimeout = seconds(joinTimeout) })
	b.pods("p", 1, "1500m", "1Gi")
	b.wait(1)
	b.autoscale()
	b.Runs(1)
	node := b.Nodes()[0]
	text := b.has("rented", v1alpha1.FleetDegraded, metav1.ConditionTrue, "NodesUnidentified")
	for _, want := range []string{"the node of 1 machine is not identified", "node " + node.Name + " has joined since it was created", "Set spec.providerID of its node to openstack:///"} {
		if !strings.Contains(text, want) {
			t.Errorf("the fleet is degraded for %q, want %q in it", text, want)
		}
	}
	if note := b.event("NodesUnidentified"); !strings.Contains(note, node.Name) {
		t.Errorf("the Event says %q", note)
	}
	c.rounds(time.Now())
	if there, deleted, _ := c.read(); there != 1 || deleted > 0 || len(b.Running()) != 1 {
		t.Errorf("there are %d servers, %d were deleted, %d pods run; want the one that was bought with its pod", there, deleted, len(b.Running()))
	}

	before := node.DeepCopy()
	node.Spec.ProviderID = "openstack:///" + c.servers[0].ID
	if err := b.Patch(b.Context(), &node, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	b.has("rented", v1alpha1.FleetDegraded, metav1.ConditionFalse, "MachinesReady")
	b.removePods()
	c.isEmpty()
}

func TestAFleetOfMoreThanAThousandOffersBuys(t *testing.T) {
	t.Parallel()
	b := newBench(t, "offers")
	var zones []string
	for i := range 50 {
		zones = append(zones, fmt.Sprintf("a-zone-with-rather-a-long-name-%02d", i))
	}
	c := newCloud(b, 30, zones...)
	c.forget()
	c.joins(func(_ int, s *cloudServer, n *corev1.Node) {
		n.Spec.ProviderID = "openstack:///" + s.ID
		n.Labels[corev1.LabelTopologyZone] = zones[7]
	})
	c.rent()
	b.pods("p", 1, "1500m", "1Gi", func(p *corev1.Pod) { p.Spec.NodeSelector[corev1.LabelTopologyZone] = zones[7] })
	b.wait(1)
	b.autoscale()
	b.Runs(1)
	b.Eventually("the fleet says what it has", func() string {
		s := b.get("rented").Status
		used := 0
		for i := range s.Flavors {
			used += int(s.Flavors[i].Machines)
		}
		if s.Machines != 1 || used != 1 || len(s.Flavors) != 101 || s.UnlistedFlavors != 1399 {
			return fmt.Sprintf("%d machines, %d of them of %d flavors, %d flavors more", s.Machines, used, len(s.Flavors), s.UnlistedFlavors)
		}
		return ""
	})
}
