//go:build nodes

package nodes

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"supercargo.dev/supercargo/descheduler/agent/detect"
	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
)

// checkerVariable makes this test's program check the CRIU of the node whose root folder it names.
const checkerVariable = "SUPERCARGO_NODES_CHECK_CRIU"

func checkerMain(root string) int {
	host := detect.Host{Root: root, CRIU: cluster.ProgramPath("criu"), Path: "/usr/sbin:/usr/bin:/sbin:/bin"}
	version, err := host.CRIUVersion(context.Background())
	if err == nil && version != "" {
		err = host.CheckCRIU(context.Background())
	}
	fmt.Println(version, err)
	return 0
}

// TestANodesCRIUIsCheckedFromOutsideItsMounts checks a node as its agent does from a pod: in the PID
// namespace of the node, but not in its mount namespace. CRIU mounts file systems to detect features of the
// kernel, and caches the result.
func TestANodesCRIUIsCheckedFromOutsideItsMounts(t *testing.T) {
	s := newBench(t)
	node := s.Nodes[0]
	if _, err := node.Run(s.Context(), "rm", "-f", "/run/criu.kdat"); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out, err := node.Run(s.Context(), "unshare", "--mount", "env", checkerVariable+"=/proc/1/root", "NODES_DIR="+os.Getenv("NODES_DIR"), self)
	if err != nil {
		t.Fatal(err)
	}
	if version, check, _ := strings.Cut(string(out), " "); version == "" || check != "<nil>\n" {
		t.Errorf("CRIU's version and what its check says are %q, want a version and <nil>", out)
	}
}
