//go:build nodes

package agent

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
)

// TestIdleAgentUsesLittleCPU makes a kubelet update its Node as often as a busy one does.
func TestIdleAgentUsesLittleCPU(t *testing.T) {
	const (
		writes = 10
		pause  = 2 * time.Second
		limit  = 800 * time.Millisecond // for all of it: 4 % of a CPU
	)
	b := newBench(t)
	node := b.Nodes[0]
	before := b.cpu(node)
	<-time.After(writes * pause)
	t.Logf("an agent with nothing to do has used %v of CPU, its children included, in %v", b.cpu(node)-before, writes*pause)
	before = b.cpu(node)
	for i := range writes {
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"test.supercargo.dev/write":"%d"}}}`, i)
		if err := b.Patch(b.ctx(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			t.Fatal(err)
		}
		<-time.After(pause) // the CPU time of this interval is measured
	}
	used := b.cpu(node) - before
	t.Logf("an agent with nothing to move has used %v of CPU, its children included, in %v with %d writes of its Node", used, writes*pause, writes)
	if used > limit {
		t.Errorf("an agent with nothing to move has used %v of CPU, want at most %v", used, limit)
	}
}

// cpu returns the CPU time of the agent of a node and of its children that have ended.
func (b *bench) cpu(n *cluster.Node) time.Duration {
	b.Helper()
	const script = `for p in /proc/[0-9]*; do [ "$(cat $p/comm)" = node-agent ] && cat $p/stat; done; true`
	output, err := n.Run(b.ctx(), "sh", "-c", script)
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(output), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 15 {
		b.Fatalf("the agent of %s is not there: %q", n.Name, output)
	}
	var ticks int64
	for _, field := range fields[11:15] { // utime, stime, cutime and cstime
		var value int64
		if _, err := fmt.Sscan(field, &value); err != nil {
			b.Fatal(err)
		}
		ticks += value
	}
	return time.Duration(ticks) * 10 * time.Millisecond // USER_HZ is 100 on all of Linux that Go runs on
}
