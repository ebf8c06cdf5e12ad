package openstack

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/world"
)

// matching is which node is on which server, as far as known.
type matching struct {
	// nodes are the nodes on servers, by server ID.
	nodes map[string]*corev1.Node
	// doubts are why the node on a server is unknown, by server ID. Such a server may have pods. No server is in both
	// nodes and doubts.
	doubts map[string]string
}

// clockSkew is the maximum difference between the clocks of Nova and of the API server.
const clockSkew = time.Minute

// providerPrefix begins the provider IDs of nodes on OpenStack: openstack:///UUID, or
// openstack://REGION/UUID.
const providerPrefix = "openstack://"

// namingSchemes begin provider IDs that repeat the node's name and so do not identify its machine: distributions set
// them if no cloud controller manager runs.
var namingSchemes = []string{"k3s://", "rke2://"}

// matchNodes finds the nodes of servers. A provider ID decides, or else the system UUID, which Nova gives to its
// guests. For a node with neither, its machine ID, its name and its addresses count as far as they agree: machine IDs
// are copied with images, and names and addresses are reused.
//
// Contradictory evidence, or evidence shared by nodes or servers, leaves a server in doubt. So does a node that has
// joined since the server was created and has no evidence of its location: it may be on that server. Nodes of the
// control plane, with the label of another fleet or with a provider ID of another cloud are not.
func matchNodes(all []servers.Server, nodes map[string]*corev1.Node, fleet string) *matching {
	m := &matcher{
		index:    indexServers(all),
		matching: matching{nodes: map[string]*corev1.Node{}, doubts: map[string]string{}},
		certain:  map[string][]*corev1.Node{}, likely: map[string][]likely{}, disputed: map[string]bool{}, placed: map[string]bool{},
	}
	names := slices.Sorted(maps.Keys(nodes))
	for _, name := range names {
		m.read(nodes[name])
	}
	for i := range all {
		m.settle(&all[i])
	}
	for i := range all {
		m.suspect(&all[i], nodes, names, fleet)
	}
	return &m.matching
}

// remember puts servers in doubt that are no longer matched to their last known node although that node still exists:
// one of the two observations was wrong.
func (m *matching) remember(known map[string]knownNode, nodes map[string]*corev1.Node) {
	for id, had := range known {
		if n := nodes[had.name]; n != nil && n.UID == had.uid && m.nodes[id] == nil && m.doubts[id] == "" {
			m.doubts[id] = fmt.Sprintf("node %s was on it, but no longer identifies it as its server", had.name)
		}
	}
}

// matcher collects the evidence of nodes about their servers.
type matcher struct {
	*index
	matching
	// certain and likely are the nodes of servers, by server ID: those with an ID of the server, and those for which
	// all other evidence points to it.
	certain map[string][]*corev1.Node
	likely  map[string][]likely
	// disputed are the servers, by ID, for which the IDs of a node contradict each other.
	disputed map[string]bool
	// placed are the nodes, by name, whose evidence excludes all servers but the ones that it points to.
	placed map[string]bool
}

// likely is a node on a server, with the number of kinds of evidence for that.
type likely struct {
	*corev1.Node
	kinds int
}

// read records the evidence of a node about its server.
func (m *matcher) read(n *corev1.Node) {
	uuid := canonicalID(n.Status.NodeInfo.SystemUUID)
	system := cmp.Or(m.ids[uuid], m.ids[swapped(uuid)])
	switch named := serverOf(n); {
	case named == "" && !elsewhere(n) && system == "":
		m.readRest(n)
		return
	case named == "" && !elsewhere(n):
		m.certain[system] = append(m.certain[system], n)
	case system != "" && system != named:
		m.doubt(n, fmt.Sprintf("the system UUID and the provider ID of node %s belong to different machines, %s and %s", n.Name, system, n.Spec.ProviderID), system, m.ids[named])
		m.disputed[system], m.disputed[named] = true, true
	case m.ids[named] != "":
		m.certain[named] = append(m.certain[named], n)
	}
	m.placed[n.Name] = true
}

// readRest records the machine ID, the name and the addresses of a node without an ID of a server. A kind of evidence
// that points to no server is ignored: names and addresses may be of a network that Nova does not know.
func (m *matcher) readRest(n *corev1.Node) {
	var union, common []string
	kinds := 0
	for _, found := range [][]string{m.machine(n), m.named(n), m.addressed(n)} {
		if len(found) == 0 {
			continue
		}
		if kinds++; kinds == 1 {
			common = found
		}
		common = slices.DeleteFunc(slices.Clone(common), func(id string) bool { return !slices.Contains(found, id) })
		union = append(union, found...)
	}
	switch {
	case kinds == 0:
	case len(common) == 1:
		m.likely[common[0]] = append(m.likely[common[0]], likely{n, kinds})
	case len(common) == 0:
		m.doubt(n, fmt.Sprintf("the machine ID, name and addresses of node %s belong to different servers", n.Name), union...)
	default:
		m.doubt(n, fmt.Sprintf("the machine ID, name or addresses of node %s match several servers", n.Name), common...)
	}
}

// doubt records why it is unknown whether a node is on servers. The first reason is kept.
func (m *matcher) doubt(n *corev1.Node, why string, ids ...string) {
	m.placed[n.Name] = true
	for _, id := range ids {
		if id != "" && m.doubts[id] == "" {
			m.doubts[id] = why
		}
	}
}

// settle chooses the node of a server. A node with an ID of the server leaves no doubt.
func (m *matcher) settle(s *servers.Server) {
	certain := m.certain[s.ID]
	switch {
	case m.disputed[s.ID]:
	case len(certain) > 0:
		delete(m.doubts, s.ID)
		m.choose(s.ID, certain, true)
	case m.doubts[s.ID] == "":
		m.choose(s.ID, m.contemporaries(s), false)
	}
}

// contemporaries returns the nodes that are likely on a server, only those with the most evidence. A node older than
// the server can be on it only if it has become ready or unready since the server was created: its kubelet has
// registered under an existing name. A node that has been ready all the time leaves the server in doubt.
func (m *matcher) contemporaries(s *servers.Server) []*corev1.Node {
	var found []likely
	for _, n := range m.likely[s.ID] {
		begin := s.Created.Add(-clockSkew)
		switch c, is := world.Ready(n.Node); {
		case !n.CreationTimestamp.Time.Before(begin), !c.LastTransitionTime.Time.Before(begin):
			found = append(found, n)
		case is:
			m.doubt(n.Node, fmt.Sprintf("node %s has its machine ID, name or address, but became ready before it was created", n.Name), s.ID)
		}
	}
	if m.doubts[s.ID] != "" || len(found) == 0 {
		return nil
	}
	most := slices.MaxFunc(found, func(a, b likely) int { return cmp.Compare(a.kinds, b.kinds) }).kinds
	var nodes []*corev1.Node
	for _, n := range found {
		if n.kinds == most {
			nodes = append(nodes, n.Node)
		}
	}
	return nodes
}

// choose records which of several nodes is on a server: the only one that is ready. If none is ready and the nodes have
// an ID, it is the youngest: the others are from before its kubelet registered again. Ties by name.
func (m *matcher) choose(id string, nodes []*corev1.Node, certain bool) {
	if len(nodes) == 0 {
		return
	}
	ready := slices.DeleteFunc(slices.Clone(nodes), func(n *corev1.Node) bool { _, is := world.Ready(n); return !is })
	switch {
	case len(nodes) == 1:
		m.nodes[id] = nodes[0]
	case len(ready) == 1:
		m.nodes[id] = ready[0]
	case len(ready) == 0 && certain:
		m.nodes[id] = slices.MinFunc(nodes, func(a, b *corev1.Node) int {
			return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
		})
	}
	why := fmt.Sprintf("%d nodes identify it as their server, including %s and %s", len(nodes), nodes[0].Name, nodes[len(nodes)-1].Name)
	for _, n := range nodes {
		m.placed[n.Name] = true
		if m.nodes[id] == nil {
			m.doubt(n, why, id)
		}
	}
}

// suspect puts a server without a node in doubt if a node has joined since it was created that has no evidence of its
// location.
func (m *matcher) suspect(s *servers.Server, nodes map[string]*corev1.Node, names []string, fleet string) {
	if m.nodes[s.ID] != nil || m.doubts[s.ID] != "" || !launched(s) {
		return
	}
	for _, name := range names {
		n := nodes[name]
		_, leads := n.Labels["node-role.kubernetes.io/control-plane"]
		other := n.Labels[v1alpha1.LabelFleet] != "" && n.Labels[v1alpha1.LabelFleet] != fleet
		if !m.placed[name] && !leads && !other && !n.CreationTimestamp.Time.Before(s.Created.Add(-clockSkew)) {
			m.doubts[s.ID] = fmt.Sprintf("node %s has joined since it was created, and its provider ID, system UUID, name and addresses do not identify its server", name)
			return
		}
	}
}

// launched reports whether a server may ever have run.
func launched(s *servers.Server) bool {
	return !s.LaunchedAt.IsZero() || s.Status != statusError && s.Status != statusBuild
}

// index finds servers.
type index struct {
	// ids are the IDs of the servers, by themselves. names and addresses map to the IDs of the servers that may have
	// run.
	ids       map[string]string
	names     map[string][]string
	addresses map[netip.Addr][]string
}

func indexServers(all []servers.Server) *index {
	x := &index{ids: map[string]string{}, names: map[string][]string{}, addresses: map[netip.Addr][]string{}}
	for i := range all {
		s := &all[i]
		x.ids[s.ID] = s.ID
		if !launched(s) {
			continue
		}
		name := hostname(s.Name)
		x.names[name] = append(x.names[name], s.ID)
		for _, a := range addressesOf(s) {
			x.addresses[a] = append(x.addresses[a], s.ID)
		}
	}
	return x
}

// machine returns the server whose ID is a node's machine ID, which systemd derives from the system UUID at the first
// boot.
func (x *index) machine(n *corev1.Node) []string {
	if id := x.ids[canonicalID(n.Status.NodeInfo.MachineID)]; id != "" {
		return []string{id}
	}
	return nil
}

// named returns the servers that have a node's name, or, if there are none, its name without the domain.
func (x *index) named(n *corev1.Node) []string {
	name := strings.ToLower(n.Name)
	if found := x.names[name]; len(found) > 0 {
		return found
	}
	host, _, _ := strings.Cut(name, ".")
	return x.names[host]
}

// addressed returns the servers that have an address of a node, ordered.
func (x *index) addressed(n *corev1.Node) []string {
	found := map[string]bool{}
	for _, a := range n.Status.Addresses {
		if a.Type != corev1.NodeInternalIP && a.Type != corev1.NodeExternalIP {
			continue
		}
		if ip, ok := parseAddress(a.Address); ok {
			for _, id := range x.addresses[ip] {
				found[id] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// addressesOf returns the addresses of a server's ports and those mapped to them, without duplicates.
func addressesOf(s *servers.Server) []netip.Addr {
	found := map[netip.Addr]bool{}
	add := func(text any) {
		if ip, ok := parseAddress(fmt.Sprint(text)); ok {
			found[ip] = true
		}
	}
	add(s.AccessIPv4)
	add(s.AccessIPv6)
	for _, network := range s.Addresses {
		ports, _ := network.([]any)
		for _, p := range ports {
			port, _ := p.(map[string]any)
			add(port["addr"])
		}
	}
	return slices.SortedFunc(maps.Keys(found), netip.Addr.Compare)
}

// parseAddress parses an address that can identify a machine.
func parseAddress(text string) (netip.Addr, bool) {
	ip, err := netip.ParseAddr(text)
	ip = ip.Unmap()
	return ip, err == nil && ip.IsGlobalUnicast()
}

// hostname returns the name that Nova gives the guest of a server, like its function sanitize_hostname.
func hostname(server string) string {
	var b strings.Builder
	for _, c := range server[:min(len(server), 63)] {
		switch {
		case c == '_' || c == ' ':
			b.WriteByte('-')
		case c == '-' || c == '.' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z':
			b.WriteRune(c)
		}
	}
	return strings.Trim(strings.ToLower(b.String()), ".-")
}

// serverOf returns the ID of the server in a node's provider ID, or "".
func serverOf(n *corev1.Node) string {
	rest, ok := strings.CutPrefix(n.Spec.ProviderID, providerPrefix)
	if !ok {
		return ""
	}
	return canonicalID(rest[strings.LastIndexByte(rest, '/')+1:])
}

// elsewhere reports whether a node's provider ID is of another cloud.
func elsewhere(n *corev1.Node) bool {
	id := n.Spec.ProviderID
	return id != "" && !strings.HasPrefix(id, providerPrefix) &&
		!slices.ContainsFunc(namingSchemes, func(scheme string) bool { return strings.HasPrefix(id, scheme) })
}

// canonicalID returns a UUID as Nova writes it: in lower case, with hyphens. It returns "" for invalid ones.
func canonicalID(text string) string {
	b, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	if err != nil || len(b) != 16 {
		return ""
	}
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// swapped returns a canonical UUID with the bytes of its first three fields reversed. SMBIOS has them in little-endian
// order since version 2.6, but not every reader or firmware follows that.
func swapped(id string) string {
	b, err := hex.DecodeString(strings.ReplaceAll(id, "-", ""))
	if err != nil || len(b) != 16 {
		return ""
	}
	slices.Reverse(b[:4])
	slices.Reverse(b[4:6])
	slices.Reverse(b[6:8])
	return canonicalID(hex.EncodeToString(b))
}
