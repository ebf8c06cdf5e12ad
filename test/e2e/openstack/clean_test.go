//go:build openstack

package openstack

import (
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
)

func flavorID(b *bench, name string) string {
	b.Helper()
	pages := must(flavors.ListDetail(b.compute, nil).AllPages(b.Context()))(b.T)
	for _, f := range must(flavors.ExtractFlavors(pages))(b.T) {
		if f.Name == name {
			return f.ID
		}
	}
	b.Fatalf("there is no flavor %s", name)
	return ""
}

func imageID(b *bench) string {
	b.Helper()
	glance := must(openstack.NewImageV2(b.project.provider, gophercloud.EndpointOpts{}))(b.T)
	pages := must(images.List(glance, images.ListOpts{Name: "node"}).AllPages(b.Context()))(b.T)
	return must(images.ExtractImages(pages))(b.T)[0].ID
}

func TestCleaningUpTakesTwinsAndLeavesForeignServersAlone(t *testing.T) {
	t.Parallel()
	b := newBench(newProject(t, 10))
	ours := []string{"supercargo-cluster=" + b.id, "supercargo-fleet=batch", "supercargo-flavor=t3.xsmall", "supercargo-ordinal=0"}
	b.buy("first", "t3.xsmall", 0, 1)
	first := b.servers()[0]
	keep := map[string]bool{first.ID: true}
	for name, tags := range map[string][]string{
		"untagged":      nil,
		"other-cluster": {"supercargo-cluster=elsewhere", "supercargo-fleet=batch", "supercargo-flavor=t3.xsmall", "supercargo-ordinal=0", "supercargo-intent=first"},
		"other-fleet":   {"supercargo-cluster=" + b.id, "supercargo-fleet=other", "supercargo-flavor=t3.xsmall", "supercargo-ordinal=0", "supercargo-intent=first"},
		"other-order":   append([]string{"supercargo-intent=second"}, ours...),
		first.Name:      {"mine"},
	} {
		keep[foreign(b, name, tags...).ID] = true
	}
	foreign(b, first.Name, append([]string{"supercargo-intent=first"}, ours...)...) // a duplicate
	b.settled()
	if f := b.flavor("t3.xsmall"); f.Want != 3 {
		t.Errorf("there are to be %d of the fleet, want 3 with the twin", f.Want)
	}
	b.clean()
	b.left(len(keep))
	for _, s := range b.servers() {
		if !keep[s.ID] {
			t.Errorf("server %s should have gone", s.Name)
		}
	}
}

func TestNodesWithoutServersAreRemoved(t *testing.T) {
	t.Parallel()
	b := newBench(newProject(t, 5))
	b.buy("first", "t3.xsmall", 0, 1)
	s := b.settled()[0]
	other := foreign(b, "untagged")
	const gone = "11111111-2222-3333-4444-555555555555"
	down := func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Hour)),
		}}
	}
	up := func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	}
	b.node("on-a-server", s.ID, down)
	b.node("on-an-untagged-server", other.ID, down)
	b.node("without-server", gone, down)
	b.node("without-server-but-alive", gone[:35]+"6", up)
	b.node("without-server-of-others", gone[:35]+"7", down, func(n *corev1.Node) { n.Labels = nil })
	b.node("without-server-of-another-fleet", gone[:35]+"8", down, func(n *corev1.Node) { n.Labels[v1alpha1.LabelFleet] = "other" })
	b.node("elsewhere", gone[:35]+"9", down, func(n *corev1.Node) { n.Spec.ProviderID = "aws:///zone/i-1" })
	b.clean()
	for name := range b.nodes {
		err := b.kube.Get(t.Context(), client.ObjectKey{Name: name}, &corev1.Node{})
		if has, want := !apierrors.IsNotFound(err), name != "without-server"; has != want {
			t.Errorf("node %s is there: %v, want %v", name, has, want)
		}
	}
}

func TestAServerThatSomebodyElseDeletesIsNoLongerThere(t *testing.T) {
	t.Parallel()
	b := newBench(newProject(t, 5))
	b.buy("first", "t3.xsmall", 0, 2)
	all := b.settled()
	b.try("delete one", servers.Delete(t.Context(), b.compute, all[0].ID).Err)
	b.left(1)
	found := b.observe()
	if len(found.Machines) != 1 || found.Machines[0].Name != all[1].ID {
		t.Errorf("machines are %+v, want %s alone", found.Machines, all[1].ID)
	}
}
