package status

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestMessagesOfTheSchedulerInShort(t *testing.T) {
	for _, tc := range []struct{ message, want string }{
		{"0/24 nodes are available: 2 node(s) were unschedulable, 22 Insufficient cpu.", "Of 24 nodes, 22 have too little free CPU and 2 are cordoned."},
		{"0/3 nodes are available: 3 Insufficient memory. preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod.", "All 3 nodes have too little free memory."},
		{"0/1 nodes are available: 1 Insufficient nvidia.com/gpu.", "The only node has too little free nvidia.com/gpu."},
		{"0/9 nodes are available: 1 Too many pods, 9 node(s) had untolerated taint(s).", "All 9 nodes have a taint that the pod does not tolerate and 1 runs as many pods as it may."},
		{"0/9 nodes are available: 3 node(s) had untolerated taint {dedicated: db}, 6 node(s) didn't match Pod's node affinity/selector.", "Of 9 nodes, 6 lack the labels that the pod selects nodes by and 3 have a taint that the pod does not tolerate."},
		{"0/9 nodes are available: 1 Insufficient cpu, 2 Insufficient memory, 3 Too many pods, 4 node(s) were unschedulable, 5 node(s) didn't have free ports for the requested pod ports.",
			"Of 9 nodes, 5 have the host port in use, 4 are cordoned, 3 run as many pods as they may and 2 other reasons apply to fewer nodes."},
		{"0/8 nodes are available: 1 Insufficient cpu, 7 node(s) didn't satisfy plugin(s) [NodeAffinity].",
			"Of 8 nodes, 7 are excluded by the pod's affinity to names of nodes and 1 has too little free CPU."},
		{"0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind.", "Both nodes have no free volume for the pod's claim."},
		{"0/5 nodes are available: 1 node(s) didn't match pod topology spread constraints, 4 node(s) didn't match pod topology spread constraints (missing required label).",
			"Of 5 nodes, 4 lack a label that the pod's topology spread constraints require and 1 would break the pod's topology spread constraints."},
		{"0/2 nodes are available: 2 node(s) are of the wrong colour.", "Both nodes are refused: are of the wrong colour."},
		{"0/2 nodes are available: persistentvolumeclaim \"data\" not found.", ""},
		{"0/2 nodes are available: .", ""},
		{"no nodes available to schedule pods", ""},
		{"", ""},
	} {
		u, _ := ParseUnschedulable(tc.message)
		if got := u.Sentence(); got != tc.want {
			t.Errorf("%s\n got %q\nwant %q", tc.message, got, tc.want)
		}
	}
}

// TestOfAPodForOneNodeTheMessageIsAboutThat has the messages about pods of DaemonSets.
func TestOfAPodForOneNodeTheMessageIsAboutThat(t *testing.T) {
	for _, tc := range []struct{ message, want string }{
		{"0/3 nodes are available: 1 Insufficient cpu, 1 Too many pods, 2 node(s) didn't satisfy plugin(s) [NodeAffinity].", "Node a has too little free CPU and runs as many pods as it may."},
		{"0/1 nodes are available: 1 node(s) had untolerated taint(s).", "Node a has a taint that the pod does not tolerate."},
		{"0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [NodeAffinity].", ""},                       // the node does not exist
		{"0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't match Pod's node affinity/selector.", ""}, // which of the three is it?
		{"0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.", ""},
		{"no nodes available to schedule pods", ""},
	} {
		u, _ := ParseUnschedulable(tc.message)
		if got := u.OfNode("a"); got != tc.want {
			t.Errorf("%s\n got %q\nwant %q", tc.message, got, tc.want)
		}
	}
}

func TestAMessageAboutNoNodeInParticularIsReadWithoutItsFrame(t *testing.T) {
	for _, tc := range []struct{ message, whole, preemption string }{
		{"0/8 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found", "pod has unbound immediate PersistentVolumeClaims", ""},
		{`0/8 nodes are available: persistentvolumeclaim "data" not found. not found`, `persistentvolumeclaim "data" not found`, ""},
		{"0/8 nodes are available: request r: device class a.b does not exist. no new claims to deallocate, preemption: 0/8 nodes are available: 8 Preemption is not helpful for scheduling.",
			"request r: device class a.b does not exist", "0/8 nodes are available: 8 Preemption is not helpful for scheduling"},
		{"0/8 nodes are available: 8 Insufficient cpu.", "", ""},
		{"0/8 nodes are available: 1 Insufficient cpu, a, b.", "", ""},
	} {
		if u, _ := ParseUnschedulable(tc.message); u.Whole != tc.whole || u.Preemption != tc.preemption {
			t.Errorf("%s\n got %q, preemption %q\nwant %q, preemption %q", tc.message, u.Whole, u.Preemption, tc.whole, tc.preemption)
		}
	}
}

// FuzzAMessageInShort checks that any message has a sentence that is short, or none.
func FuzzAMessageInShort(f *testing.F) {
	f.Add("0/24 nodes are available: 2 node(s) were unschedulable, 22 Insufficient cpu.")
	f.Add("0/99999999999999999999 nodes are available: 99999999999999999999 x, y. preemption: z")
	f.Fuzz(func(t *testing.T, message string) {
		u, _ := ParseUnschedulable(message)
		if s := u.Sentence(); len(s) > 2*longest || s != "" && !strings.HasSuffix(s, ".") {
			t.Errorf("%q", s)
		}
	})
}

func TestTheZoneAndThePoolOfANodeAreThoseOfItsLabels(t *testing.T) {
	for label, of := range map[string]func(*corev1.Node) string{
		"supercargo.dev/fleet": nodePool, "karpenter.sh/nodepool": nodePool, "eks.amazonaws.com/nodegroup": nodePool, "cloud.google.com/gke-nodepool": nodePool,
		"kubernetes.azure.com/agentpool": nodePool, "kops.k8s.io/instancegroup": nodePool, "topology.kubernetes.io/zone": zoneOf,
	} {
		node := aNode("n", func(n *corev1.Node) { n.Labels[label] = "x" })
		if got := of(node); got != "x" {
			t.Errorf("%s=x: %q, want x", label, got)
		}
	}
	owned := aNode("n", func(n *corev1.Node) {
		n.Annotations["cluster.x-k8s.io/owner-kind"], n.Annotations["cluster.x-k8s.io/owner-name"] = "MachineSet", "workers-large-x7k2p"
	})
	if got := nodePool(owned); got != "workers-large" {
		t.Errorf("the pool of a machine of MachineSet workers-large-x7k2p is %q, want its MachineDeployment workers-large", got)
	}
	if bare := aNode("n"); nodePool(bare) != "" || zoneOf(bare) != "" {
		t.Errorf("a node without labels is in pool %q and zone %q", nodePool(bare), zoneOf(bare))
	}
	both := aNode("n", func(n *corev1.Node) {
		n.Labels["supercargo.dev/fleet"], n.Labels["karpenter.sh/nodepool"] = "ours", "theirs"
	})
	if got := nodePool(both); got != "ours" {
		t.Errorf("the pool is %q, want the NodeFleet", got)
	}
}
