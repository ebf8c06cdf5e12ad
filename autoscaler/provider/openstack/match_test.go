package openstack

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// Servers a, b and gone, which no longer exists, and a's ID in the byte order of other firmware.
const (
	idA        = "8d0a7ef2-11c4-4f6a-9b52-6e0d3c1f5a01"
	idASwapped = "f27e0a8d-c411-6a4f-9b52-6e0d3c1f5a01"
	idB        = "0b6f3c55-2a3d-4c58-8c0f-8f6f0a0b7c02"
	idGone     = "77777777-1111-4222-8333-999999999999"
)

// born is when servers are created.
var born = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// serverAt is a running server with one port.
func serverAt(id, name, address string) servers.Server {
	s := servers.Server{ID: id, Name: name, Status: statusActive, Created: born, LaunchedAt: born}
	if address != "" {
		s.Addresses = map[string]any{"nodes": []any{map[string]any{"addr": address, "version": 4.0, "OS-EXT-IPS:type": "fixed"}}}
	}
	return s
}

// aNode is a ready node that has joined five minutes after born.
func aNode(name string, change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(born.Add(5 * time.Minute))}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: n.CreationTimestamp}}
	for _, f := range change {
		f(n)
	}
	return n
}

func withProvider(id string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Spec.ProviderID = id }
}

func withSystem(uuid string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Status.NodeInfo.SystemUUID = uuid }
}

func withMachine(id string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Status.NodeInfo.MachineID = id }
}

func at(addresses ...string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		for _, a := range addresses {
			n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
		}
	}
}

func labelled(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels = map[string]string{key: value} }
}

// joined changes the creation time of a node, and the time of its last change of readiness.
func joined(after time.Duration) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.CreationTimestamp = metav1.NewTime(born.Add(after))
		n.Status.Conditions[0].LastTransitionTime = n.CreationTimestamp
	}
}

func notReady(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }

// changedAt sets the time of a node's last change of readiness.
func changedAt(after time.Duration) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Conditions[0].LastTransitionTime = metav1.NewTime(born.Add(after))
	}
}

func TestNodesAreMatchedToServers(t *testing.T) {
	two := []servers.Server{serverAt(idA, "batch-x-0", "10.0.0.4"), serverAt(idB, "batch-x-1", "10.0.0.5")}
	twins := []servers.Server{serverAt(idA, "batch-x-0", "10.0.0.4"), serverAt(idB, "batch-x-0", "10.0.0.5")}
	building := serverAt(idB, "batch-x-0", "")
	building.Status, building.LaunchedAt = statusBuild, time.Time{}
	refused := building
	refused.Status = statusError
	broken := two[1]
	broken.Status = statusError // while it was running
	tests := []struct {
		name    string
		servers []servers.Server
		nodes   []*corev1.Node
		on      map[string]string // node by server
		doubts  map[string]string // part of why, by server
	}{
		{"by provider ID", two, []*corev1.Node{aNode("n", withProvider("openstack:///"+idA))}, map[string]string{idA: "n"}, nil},
		{"by provider ID with a region", two, []*corev1.Node{aNode("n", withProvider("openstack://North/"+idA))}, map[string]string{idA: "n"}, nil},
		{"by provider ID in capitals", two, []*corev1.Node{aNode("n", withProvider("openstack:///"+strings.ToUpper(idA)))}, map[string]string{idA: "n"}, nil},
		{"by system UUID", two, []*corev1.Node{aNode("n", withSystem(idA))}, map[string]string{idA: "n"}, nil},
		{"by system UUID in capitals", two, []*corev1.Node{aNode("n", withSystem(strings.ToUpper(idA)))}, map[string]string{idA: "n"}, nil},
		{"by system UUID in the other byte order", two, []*corev1.Node{aNode("n", withSystem(strings.ToUpper(idASwapped)))}, map[string]string{idA: "n"}, nil},
		{"by machine ID", two, []*corev1.Node{aNode("n", withMachine(strings.ReplaceAll(idA, "-", "")))}, map[string]string{idA: "n"}, nil},
		{"by name", two, []*corev1.Node{aNode("batch-x-0")}, map[string]string{idA: "batch-x-0"}, nil},
		{"by name with a domain", two, []*corev1.Node{aNode("batch-x-0.novalocal")}, map[string]string{idA: "batch-x-0.novalocal"}, nil},
		{"by the name that Nova makes of the server's", []servers.Server{serverAt(idA, "My Server_1!", "")}, []*corev1.Node{aNode("my-server-1")}, map[string]string{idA: "my-server-1"}, nil},
		{"by address", two, []*corev1.Node{aNode("n", at("10.0.0.5"))}, map[string]string{idB: "n"}, nil},
		{"by one of several addresses", two, []*corev1.Node{aNode("n", at("192.168.7.7", "10.0.0.5", "fe80::1"))}, map[string]string{idB: "n"}, nil},
		{"by address in another notation", []servers.Server{serverAt(idA, "s", "2001:db8::1")}, []*corev1.Node{aNode("n", at("2001:0DB8:0:0::1"))}, map[string]string{idA: "n"}, nil},
		{"by name and address", two, []*corev1.Node{aNode("batch-x-0", at("10.0.0.4"))}, map[string]string{idA: "batch-x-0"}, nil},
		{"by name, with an address that Nova does not know", two, []*corev1.Node{aNode("batch-x-0", at("100.64.0.1"))}, map[string]string{idA: "batch-x-0"}, nil},
		{"by name, on hardware with an ID of its own", two, []*corev1.Node{aNode("batch-x-0", withSystem(idGone))}, map[string]string{idA: "batch-x-0"}, nil},
		{"by name, with a provider ID that repeats it", two, []*corev1.Node{aNode("batch-x-0", withProvider("k3s://batch-x-0"))}, map[string]string{idA: "batch-x-0"}, nil},
		{"by name, with a provider ID that nobody filled in", two, []*corev1.Node{aNode("batch-x-0", withProvider("openstack:///INSTANCE"))}, map[string]string{idA: "batch-x-0"}, nil},
		{"each by what it has", two, []*corev1.Node{aNode("m", withSystem(idB)), aNode("n", withProvider("openstack:///"+idA))}, map[string]string{idA: "n", idB: "m"}, nil},
		{"an ID counts more than a name", two, []*corev1.Node{aNode("batch-x-0", withSystem(idB))}, map[string]string{idB: "batch-x-0"}, nil},
		{"an ID counts more than the name of another", two, []*corev1.Node{aNode("batch-x-0"), aNode("n", withSystem(idA))}, map[string]string{idA: "n"}, map[string]string{idB: "node batch-x-0 has joined"}},
		{"name and address count more than either", two, []*corev1.Node{aNode("batch-x-0", at("10.0.0.4")), aNode("n", at("10.0.0.4"))}, map[string]string{idA: "batch-x-0"}, map[string]string{idB: "node n has joined"}},
		{"the whole name counts more than its host", []servers.Server{serverAt(idA, "web.1", ""), serverAt(idB, "web", "")}, []*corev1.Node{aNode("web.1")}, map[string]string{idA: "web.1"}, nil},

		{"none is ready, the youngest is right", two, []*corev1.Node{aNode("old", withSystem(idA), notReady), aNode("new", withSystem(idA), notReady, joined(time.Hour))}, map[string]string{idA: "new"}, nil},
		{"one of two is ready", two, []*corev1.Node{aNode("old", withSystem(idA)), aNode("new", withSystem(idA), notReady, joined(time.Hour))}, map[string]string{idA: "old"}, nil},
		{"two are ready", two, []*corev1.Node{aNode("m", withSystem(idA)), aNode("n", withProvider("openstack:///"+idA))}, nil, map[string]string{idA: "2 nodes identify it as their server, including m and n"}},
		{"one of two of a name is ready", two, []*corev1.Node{aNode("batch-x-0", notReady), aNode("batch-x-0.novalocal")}, map[string]string{idA: "batch-x-0.novalocal"}, nil},
		{"two of a name are not ready", two, []*corev1.Node{aNode("batch-x-0", notReady), aNode("batch-x-0.novalocal", notReady)}, nil, map[string]string{idA: "2 nodes identify it as their server"}},
		{"two of an address are ready", two, []*corev1.Node{aNode("m", at("10.0.0.4")), aNode("n", at("10.0.0.4"))}, nil, map[string]string{idA: "2 nodes identify it as their server"}},

		{"the provider ID and the system UUID disagree", two, []*corev1.Node{aNode("n", withProvider("openstack:///"+idA), withSystem(idB))}, nil, map[string]string{idA: "belong to different machines", idB: "belong to different machines"}},
		{"the provider ID is of another cloud, the system UUID of ours", two, []*corev1.Node{aNode("n", withProvider("aws:///zone/i-1"), withSystem(idB))}, nil, map[string]string{idB: "belong to different machines"}},
		{"name and address disagree", two, []*corev1.Node{aNode("batch-x-0", at("10.0.0.5"))}, nil, map[string]string{idA: "belong to different servers", idB: "belong to different servers"}},
		{"a copied machine ID and the name disagree", two, []*corev1.Node{aNode("batch-x-0", withMachine(idB))}, nil, map[string]string{idA: "belong to different servers", idB: "belong to different servers"}},
		{"a copied machine ID does not count beside the system UUID", two, []*corev1.Node{aNode("n", withSystem(idA), withMachine(idB))}, map[string]string{idA: "n"}, nil},
		{"two servers have a name", twins, []*corev1.Node{aNode("batch-x-0")}, nil, map[string]string{idA: "match several servers", idB: "match several servers"}},
		{"two servers have a name, one of them the address", twins, []*corev1.Node{aNode("batch-x-0", at("10.0.0.5"))}, map[string]string{idB: "batch-x-0"}, nil},
		{"two servers have a name, one never ran", []servers.Server{two[0], building}, []*corev1.Node{aNode("batch-x-0")}, map[string]string{idA: "batch-x-0"}, nil},
		{"two servers have an address", []servers.Server{two[0], serverAt(idB, "other", "10.0.0.4")}, []*corev1.Node{aNode("n", at("10.0.0.4"))}, nil, map[string]string{idA: "match several servers", idB: "match several servers"}},
		{"an ID settles what the name of another leaves open", twins, []*corev1.Node{aNode("batch-x-0"), aNode("n", withSystem(idA))}, map[string]string{idA: "n"}, map[string]string{idB: "match several servers"}},

		{"an older node of the name that has been ready all the time", two, []*corev1.Node{aNode("batch-x-0", joined(-time.Hour))}, nil, map[string]string{idA: "became ready before it was created"}},
		{"an older node of the name that is dead", two, []*corev1.Node{aNode("batch-x-0", joined(-time.Hour), notReady)}, nil, nil},
		{"an older node of the name that has come to life", two, []*corev1.Node{aNode("batch-x-0", joined(-time.Hour), changedAt(time.Minute))}, map[string]string{idA: "batch-x-0"}, nil},
		{"an older node of the name that has died since", two, []*corev1.Node{aNode("batch-x-0", joined(-time.Hour), notReady, changedAt(time.Minute))}, map[string]string{idA: "batch-x-0"}, nil},
		{"a clock that is slightly behind", two, []*corev1.Node{aNode("batch-x-0", joined(-10*time.Second))}, map[string]string{idA: "batch-x-0"}, nil},
		{"a dead node whose address is used again", two, []*corev1.Node{aNode("gone", at("10.0.0.4"), joined(-time.Hour), notReady), aNode("batch-x-0", at("10.0.0.4"))}, map[string]string{idA: "batch-x-0"}, nil},

		{"a node that says nothing may be on any server", two, []*corev1.Node{aNode("worker")}, nil, map[string]string{idA: "node worker has joined since", idB: "node worker has joined since"}},
		{"dead or not", two, []*corev1.Node{aNode("worker", notReady)}, nil, map[string]string{idA: "node worker has joined since", idB: "node worker has joined since"}},
		{"unless the server's is known", two, []*corev1.Node{aNode("worker"), aNode("n", withSystem(idA))}, map[string]string{idA: "n"}, map[string]string{idB: "node worker has joined since"}},
		{"unless it is older", two, []*corev1.Node{aNode("worker", joined(-time.Hour))}, nil, nil},
		{"unless it leads", two, []*corev1.Node{aNode("leader", labelled("node-role.kubernetes.io/control-plane", ""))}, nil, nil},
		{"unless it is of another fleet", two, []*corev1.Node{aNode("worker", labelled(v1alpha1.LabelFleet, "other"))}, nil, nil},
		{"also with the fleet's label", two[:1], []*corev1.Node{aNode("worker", labelled(v1alpha1.LabelFleet, "f"))}, nil, map[string]string{idA: "node worker has joined since"}},
		{"unless it is on another server", two, []*corev1.Node{aNode("worker", withProvider("openstack:///"+idGone))}, nil, nil},
		{"unless it is in another cloud", two, []*corev1.Node{aNode("worker", withProvider("aws:///zone/i-1"))}, nil, nil},
		{"a server that is built has no node", []servers.Server{building}, []*corev1.Node{aNode("worker")}, nil, nil},
		{"a server that no host took has no node", []servers.Server{refused}, []*corev1.Node{aNode("worker")}, nil, nil},
		{"a server that failed while it ran may have one", []servers.Server{broken}, []*corev1.Node{aNode("worker")}, nil, map[string]string{idB: "node worker has joined since"}},
		{"no node at all", two, nil, nil, nil},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			nodes := map[string]*corev1.Node{}
			for _, n := range tc.nodes {
				nodes[n.Name] = n
			}
			found := matchNodes(tc.servers, nodes, "f")
			on := map[string]string{}
			for id, n := range found.nodes {
				on[id] = n.Name
			}
			if diff := cmp.Diff(tc.on, on, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("nodes by server (-want +got):\n%s", diff)
			}
			for _, id := range []string{idA, idB} {
				if got, want := found.doubts[id], tc.doubts[id]; !strings.Contains(got, want) || (got == "") != (want == "") {
					t.Errorf("server %s is in doubt for %q, want %q", id, got, want)
				}
			}
		})
	}
}

// TestAServerThatItsNodeNoLongerNamesIsInDoubt also checks a server whose node is gone.
func TestAServerThatItsNodeNoLongerNamesIsInDoubt(t *testing.T) {
	all := []servers.Server{serverAt(idA, "batch-x-0", "10.0.0.4"), serverAt(idB, "batch-x-1", "10.0.0.5")}
	known := map[string]knownNode{idA: {"n", "uid"}, idGone: {"old", "old"}}
	for _, tc := range []struct {
		name string
		node *corev1.Node
		want string // part of why the first server is in doubt
	}{
		{"it says that it is on another", aNode("n", withSystem(idB)), "node n was on it, but no longer"},
		{"it says the same", aNode("n", withSystem(idA)), ""},
		{"it has registered again and is on another", aNode("n", withSystem(idB), func(n *corev1.Node) { n.UID = "another" }), ""},
		{"it has gone", aNode("other", withSystem(idB)), ""},
	} {
		if tc.node.UID == "" {
			tc.node.UID = "uid"
		}
		nodes := map[string]*corev1.Node{tc.node.Name: tc.node}
		found := matchNodes(all, nodes, "f")
		found.remember(known, nodes)
		if got := found.doubts[idA]; !strings.Contains(got, tc.want) || (got == "") != (tc.want == "") {
			t.Errorf("%s: in doubt for %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestProviderIDsNameServers(t *testing.T) {
	for id, want := range map[string]string{
		"openstack:///" + idA: idA, "openstack://North/" + idA: idA, "openstack://" + idA: idA, "": "", "aws:///zone/i-1": "", "openstack": "",
		"openstack:///i-0000001f": "", "openstack:///": "", "aws:///" + idA: "",
	} {
		if got := serverOf(&corev1.Node{Spec: corev1.NodeSpec{ProviderID: id}}); got != want {
			t.Errorf("server of %q is %q, want %q", id, got, want)
		}
	}
}

func TestUUIDsAreReadInEveryNotation(t *testing.T) {
	for text, want := range map[string]string{
		idA: idA, strings.ToUpper(idA): idA, strings.ReplaceAll(idA, "-", ""): idA, "": "", "Not Specified": "", idA + "0": "", idA[:35]: "", idA[:35] + "g": "",
	} {
		if got := canonicalID(text); got != want {
			t.Errorf("%q is read as %q, want %q", text, got, want)
		}
	}
	if got := swapped(idA); got != idASwapped {
		t.Errorf("%s in the other byte order is %s, want %s", idA, got, idASwapped)
	}
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "bytes")
		id := canonicalID(fmt.Sprintf("%x", b))
		if id == "" || canonicalID(id) != id || swapped(swapped(id)) != id {
			t.Fatalf("%x is read as %q, twice swapped %q", b, id, swapped(swapped(id)))
		}
	})
}

// TestNoNodeIsOnTwoServersAndNoServerIsKnownAndInDoubt draws servers and nodes with few names, addresses and IDs. A
// node without evidence leaves every server without a node in doubt.
func TestNoNodeIsOnTwoServersAndNoServerIsKnownAndInDoubt(t *testing.T) {
	ids := []string{idA, idB, idGone}
	rapid.Check(t, func(t *rapid.T) {
		var all []servers.Server
		for _, id := range ids[:rapid.IntRange(1, 3).Draw(t, "servers")] {
			s := serverAt(id, rapid.SampledFrom([]string{"s-0", "s-1"}).Draw(t, "name"), rapid.SampledFrom([]string{"", "10.0.0.4", "10.0.0.5"}).Draw(t, "address"))
			s.Status = rapid.SampledFrom([]string{statusActive, statusBuild, statusError}).Draw(t, "status")
			all = append(all, s)
		}
		id := rapid.SampledFrom([]string{"", "", idA, idB, idGone})
		nodes := map[string]*corev1.Node{}
		for range rapid.IntRange(0, 4).Draw(t, "nodes") {
			n := aNode(rapid.SampledFrom([]string{"s-0", "s-0.local", "s-1", "n"}).Draw(t, "name"), withSystem(id.Draw(t, "system")), withMachine(id.Draw(t, "machine")),
				joined(time.Duration(rapid.IntRange(-2, 2).Draw(t, "joined"))*time.Hour), at(rapid.SampledFrom([]string{"", "10.0.0.4", "10.0.0.5"}).Draw(t, "address")))
			if server := id.Draw(t, "provider"); server != "" {
				n.Spec.ProviderID = "openstack:///" + server
			}
			if rapid.Bool().Draw(t, "dead") {
				notReady(n)
			}
			nodes[n.Name] = n
		}
		found := matchNodes(all, nodes, "f")
		on := map[string]string{}
		for id, n := range found.nodes {
			if found.doubts[id] != "" {
				t.Errorf("server %s has node %s and is in doubt for %s", id, n.Name, found.doubts[id])
			}
			if other := on[n.Name]; other != "" {
				t.Errorf("node %s is on servers %s and %s", n.Name, id, other)
			}
			on[n.Name] = id
		}
		for name, n := range nodes {
			info := n.Status.NodeInfo
			if name != "n" || n.Spec.ProviderID+info.SystemUUID+info.MachineID+n.Status.Addresses[0].Address != "" || n.CreationTimestamp.Time.Before(born) {
				continue
			}
			for i := range all {
				if s := &all[i]; launched(s) && found.nodes[s.ID] == nil && found.doubts[s.ID] == "" {
					t.Errorf("nothing says where node %s is, and server %s is not in doubt", name, s.ID)
				}
			}
		}
	})
}
