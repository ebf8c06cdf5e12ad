//go:build nodes

// Package agent tests node agents on real nodes, with containerd, CRIU and kubelets. The tests write the
// orders instead of the controller and the scheduler.
package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
	"supercargo.dev/supercargo/test/e2e/nodes/fleet"
)

// The timeout of a wait, and its polling interval.
const (
	patience = 5 * time.Minute
	poll     = 50 * time.Millisecond
)

// theFleet is started by the first test that needs it. All tests share it.
var theFleet = sync.OnceValues(startFleet)

var started bool

// TestMain stops the fleet.
func TestMain(m *testing.M) {
	code := m.Run()
	if started {
		if f, err := theFleet(); err == nil {
			if err := f.Stop(context.Background()); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = max(code, 1)
			}
		}
	}
	os.Exit(code)
}

// startFleet starts a cluster whose agents may also request checkpoints from kubelets.
func startFleet() (*fleet.Fleet, error) {
	started = true
	ctx := context.Background()
	f, err := fleet.Start(ctx, fleet.Config{Parts: []string{"agent"}, AgentFlags: func(n *cluster.Node) []string {
		return []string{
			"--kubelet-url", "https://" + n.Address + ":10250", "--kubelet-authorities", filepath.Join(n.Dir, "pki", "kubelet.crt"),
			"--kubelet-checkpoints", filepath.Join(n.KubeletRoot, "checkpoints"),
		}
	}})
	if err != nil {
		return nil, err
	}
	return f, f.Objects.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "supercargo-node-agent-kubelet"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "supercargo-node-agent-kubelet"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "supercargo-agent", Name: "supercargo-node-agent"}},
	})
}
