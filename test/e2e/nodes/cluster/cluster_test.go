//go:build linux

package cluster

import (
	"encoding/json"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/test/kit/testfile"
)

// maxLinkName is the longest name that Linux gives a network link.
const maxLinkName = 15

func TestNoTwoNodesOfAMachineShareAnAddressOrAName(t *testing.T) {
	names := map[string]string{}
	taken := func(name, by string) {
		if other, ok := names[name]; ok {
			t.Errorf("%s and %s are both %s", by, other, name)
		}
		names[name] = by
	}
	for number := range slots {
		s := &slot{number: number}
		who := "bridge " + s.bridge()
		taken(s.bridge(), who)
		taken(s.gateway(), who)
		for i := range maxNodes {
			n := (&Cluster{slot: s}).newNode(i)
			who := s.bridge() + " " + n.Name
			for _, name := range []string{s.link(i), s.address(i), s.podRange(i), n.CgroupRoot} {
				taken(name, who)
			}
			if name := s.link(i); len(name) > maxLinkName {
				t.Errorf("the link %s has %d letters, want at most %d", name, len(name), maxLinkName)
			}
			gateway := netip.MustParseAddr(s.gateway())
			if network, err := gateway.Prefix(24); err != nil || !network.Contains(netip.MustParseAddr(n.Address)) {
				t.Errorf("%s has the address %s, which %s does not reach: %v", who, n.Address, gateway, err)
			}
			if _, err := netip.ParsePrefix(s.podRange(i)); err != nil {
				t.Errorf("pods of %s: %v", who, err)
			}
		}
	}
}

func TestPathsOfSocketsAreShortEnough(t *testing.T) {
	const longest = 107 // in Linux
	c := &Cluster{slot: &slot{number: slots - 1}, Dir: filepath.Join("/var/tmp/supercargo-nodes/run", "15")}
	if socket := c.newNode(maxNodes-1).ContainerdSocket + ".ttrpc"; len(socket) > longest {
		t.Errorf("the path %s has %d letters, want at most %d", socket, len(socket), longest)
	}
}

func TestTheRuntimeIsToldOfItsNodeOnly(t *testing.T) {
	c := &Cluster{slot: &slot{number: 2}, Dir: t.TempDir()}
	n := c.newNode(1)
	if err := n.writeRuntimeConfig(); err != nil {
		t.Fatal(err)
	}
	config := testfile.Read(t, filepath.Join(n.Dir, "containerd.toml"))
	for _, want := range []string{
		`address = "` + n.ContainerdSocket + `"`, `root = "` + n.Dir + `/root"`, `sandbox = "` + PauseImage + `"`,
		`BinaryName = "` + n.Runtime + `"`,
	} {
		if !strings.Contains(string(config), want) {
			t.Errorf("containerd's configuration lacks %s:\n%s", want, config)
		}
	}
	network := testfile.Read(t, filepath.Join(n.Dir, "cni", "10-bridge.conflist"))
	if !json.Valid(network) || !strings.Contains(string(network), c.slot.podRange(1)) {
		t.Errorf("the network of pods is no JSON with %s in it:\n%s", c.slot.podRange(1), network)
	}
}

func TestANodeTakesPodsOnceItsKubeletHasSaidSo(t *testing.T) {
	started := time.Date(2026, 11, 21, 12, 0, 0, 700e6, time.UTC)
	reported := func(status corev1.ConditionStatus, after time.Duration) []corev1.NodeCondition {
		at := metav1.NewTime(started.Add(after).Truncate(time.Second)) // as the API server keeps it
		return []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastHeartbeatTime: at}}
	}
	tests := []struct {
		name       string
		conditions []corev1.NodeCondition
		taints     []string
		want       bool
	}{
		{"ready", reported(corev1.ConditionTrue, 2*time.Second), nil, true},
		{"ready within the same second", reported(corev1.ConditionTrue, 100*time.Millisecond), nil, true},
		{"nothing said", nil, nil, false},
		{"said before the start", reported(corev1.ConditionTrue, -5*time.Second), nil, false},
		{"not ready", reported(corev1.ConditionFalse, 2*time.Second), nil, false},
		{"held to be not ready", reported(corev1.ConditionTrue, 2*time.Second), []string{corev1.TaintNodeNotReady}, false},
		{"held to be unreachable", reported(corev1.ConditionTrue, 2*time.Second), []string{corev1.TaintNodeUnreachable}, false},
		{"closed by somebody", reported(corev1.ConditionTrue, 2*time.Second), []string{"mine"}, true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			node := &corev1.Node{Status: corev1.NodeStatus{Conditions: tc.conditions}}
			for _, key := range tc.taints {
				node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key})
			}
			if err := takesPods(node, started); (err == nil) != tc.want {
				t.Errorf("takesPods = %v, want it to take pods: %v", err, tc.want)
			}
		})
	}
}

func TestAClusterOfTooManyNodesIsRefused(t *testing.T) {
	for _, nodes := range []int{-1, maxNodes + 1} {
		if c, err := Up(t.Context(), Config{Nodes: nodes}); err == nil || !strings.Contains(err.Error(), "1 to 16") {
			t.Errorf("Up with %d nodes = %v, %v, want an error that says how many there may be", nodes, c, err)
		}
	}
}

func TestWithoutTheProgramsTheErrorSaysHowToBuildThem(t *testing.T) {
	t.Setenv("NODES_DIR", t.TempDir())
	if c, err := Up(t.Context(), Config{}); err == nil || !strings.Contains(err.Error(), "make nodes-install") {
		t.Errorf("Up = %v, %v, want an error that names make nodes-install", c, err)
	}
}

func TestAProgramOfANodeThatIsDownDoesNotStart(t *testing.T) {
	n := (&Cluster{slot: &slot{}, Dir: t.TempDir()}).newNode(0)
	if err := n.Program("containerd").Start(); err == nil || !strings.Contains(err.Error(), "node-a is down") {
		t.Errorf("Start = %v, want an error that says that the node is down", err)
	}
	if ns := n.NetNS(); ns != "" {
		t.Errorf("a node that is down has the network namespace %s", ns)
	}
}
