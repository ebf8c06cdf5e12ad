//go:build nodes

package agent

import (
	"fmt"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
)

// TestTheImageIsPinnedWhileAMoveWaits: the kubelet does not remove pinned images when a disk is full. It would wait 30 s for
// the image of a container that is frozen.
func TestTheImageIsPinnedWhileAMoveWaits(t *testing.T) {
	b := newBench(t)
	from, to := b.Nodes[0], b.Nodes[1]
	pod := b.pod("counter", from, cluster.Images["counter"])
	b.pinned(to, false)
	m := b.prepare(pod, to, v1alpha1.BackendContainerd)
	b.pinned(to, true)
	b.restart(to) // an agent that starts again keeps it, since it knows the Migration
	b.pinned(to, true)
	b.order(m, v1alpha1.OrderThaw)
	b.sourceSays(m, v1alpha1.SourceThawed)
	b.order(m, v1alpha1.OrderClean)
	b.targetSays(m, v1alpha1.TargetCleaned)
	b.pinned(to, false)
}

// pinned waits until the image of counters is pinned on a node, or is not, as the kubelet sees it: containerd tells its CRI
// plugin of a change after it has answered.
func (b *bench) pinned(n *cluster.Node, want bool) {
	b.Helper()
	conn, err := n.CRI()
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = conn.Close() }() // no data is lost after the last answer
	b.eventually(fmt.Sprintf("the image is pinned: %v", want), func() error {
		answer, err := runtimeapi.NewImageServiceClient(conn).ImageStatus(b.ctx(), &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: cluster.Images["counter"]}})
		if err == nil && answer.GetImage().GetPinned() != want {
			err = fmt.Errorf("it is pinned: %v", !want)
		}
		return err
	})
}
