// Package openstack rents servers of an OpenStack. Each of Nova's flavors, in each
// availability zone that a fleet names, is a flavor of the fleet.
//
// What there is stands in the cloud alone: servers carry tags that say which cluster,
// fleet, decision and flavor they are of. Names are not unique in Nova; a server is one
// of an order if it has the order's tags, and an order is carried out by making the
// servers of it that are not there yet. Whoever comes after a crash finds what had been
// asked for by listing. Nothing without our tags is ever touched.
//
// The files follow a round: openstack.go (what is kept between rounds), credentials.go
// and session.go (logging in, what there is to choose from), flavor.go, server.go and
// match.go (what there is), buy.go and userdata.go (making servers), fault.go and retry.go (what
// errors mean), clean.go (what was left behind).
package openstack

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/limits"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/cluster"
)

// stockTime is for how long flavors, zones and what the spec names are not looked up
// anew. An order that the cloud refuses ends it.
const stockTime = 5 * time.Minute

// Clouds keeps logins and what was learned of clouds between rounds. All of it can be
// lost: then it is read again. It is safe for concurrent use; the Providers of one fleet
// are not.
type Clouds struct {
	// Live reads Secrets, past any cache. Writer deletes nodes.
	Live   client.Reader
	Writer client.Client
	// Clock says what time it is.
	Clock clock.PassiveClock
	// Cluster tells clusters apart that use one project. If it is empty, it is the UID of
	// the namespace kube-system.
	Cluster string
	// Wrap, if not nil, is put around what sends requests to the clouds.
	Wrap func(http.RoundTripper) http.RoundTripper

	mu     sync.Mutex
	fleets map[types.UID]*cloud
}

// cloud is what is known of the cloud of one fleet.
type cloud struct {
	mu      sync.Mutex // protects session, sum, stock, read, spec and refused
	session *session
	sum     string // of the credentials and the region that the session is for
	stock   *stock
	read    time.Time // when stock was
	spec    int64     // the generation that it is for
	// refused are flavors that the cloud would not sell, by name.
	refused map[string]refusal
	// nodes are the nodes that servers had when they were last seen, by the server's ID.
	// Those of servers that have gone are kept as long as there is the node.
	nodes map[string]knownNode
	// faults are why servers failed that had to be asked for, by ID.
	faults map[string]string
}

// knownNode is the node of a server.
type knownNode struct {
	name string
	uid  types.UID
}

// refusal is that the cloud would not sell a flavor.
type refusal struct {
	until time.Time
	// machines is how many there can be: as many as there were. limits are what the
	// project could have then: when they change, the refusal is forgotten.
	machines int
	limits   limits.Absolute
	// problem is why none can be made; empty if only their number is bounded.
	problem string
}

// For returns the Provider of a fleet. nodes are those of the cluster, by name.
func (c *Clouds) For(fleet *v1alpha1.NodeFleet, nodes map[string]*corev1.Node) *Provider {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fleets == nil {
		c.fleets = map[types.UID]*cloud{}
	}
	known := c.fleets[fleet.UID]
	if known == nil {
		known = &cloud{refused: map[string]refusal{}, nodes: map[string]knownNode{}, faults: map[string]string{}}
		c.fleets[fleet.UID] = known
	}
	return &Provider{clouds: c, cloud: known, fleet: fleet, spec: fleet.Spec.OpenStack, nodes: nodes}
}

// cluster returns what tells this cluster from others.
func (c *Clouds) cluster(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Cluster == "" {
		var system corev1.Namespace
		if err := c.Live.Get(ctx, types.NamespacedName{Name: metav1.NamespaceSystem}, &system); err != nil {
			return "", fmt.Errorf("read namespace %s, whose UID tells clusters apart: %w", metav1.NamespaceSystem, err)
		}
		c.Cluster = string(system.UID)
	}
	return c.Cluster, nil
}

// Provider rents servers for one fleet.
type Provider struct {
	clouds *Clouds
	cloud  *cloud
	fleet  *v1alpha1.NodeFleet
	spec   *v1alpha1.OpenStackServers
	nodes  map[string]*corev1.Node

	cluster string           // set by connect
	session *session         // of Observe
	seen    []servers.Server // by Observe
	matched *matching        // by Observe
}

var (
	_ provider.Provider = (*Provider)(nil)
	_ provider.Cleaner  = (*Provider)(nil)
)

// connect logs in and looks up what the spec names, unless that was done lately.
func (p *Provider) connect(ctx context.Context) (*session, *stock, error) {
	cluster, err := p.clouds.cluster(ctx)
	if err != nil {
		return nil, nil, err
	}
	l, err := readLogin(ctx, p.clouds.Live, p.spec)
	if err != nil {
		return nil, nil, err
	}
	k := p.cloud
	k.mu.Lock()
	defer k.mu.Unlock()
	if p.cluster == "" {
		p.cluster = cluster
	}
	if key := l.sum + " " + l.endpoint.Region + " " + l.auth.IdentityEndpoint; k.session == nil || k.sum != key {
		k.session, k.stock = nil, nil
		if k.session, err = open(ctx, l, p.clouds.Wrap); err != nil {
			return nil, nil, err
		}
		k.sum = key
	}
	now := p.clouds.Clock.Now()
	if k.stock == nil || k.spec != p.fleet.Generation || now.Sub(k.read) >= stockTime {
		k.stock = nil
		if k.stock, err = k.session.stock(ctx, p.spec); err != nil {
			return nil, nil, k.loggedOut(err)
		}
		k.read, k.spec = now, p.fleet.Generation
	}
	return k.session, k.stock, nil
}

// loggedOut forgets a session that the cloud does not let in any more, so that the next
// round logs in anew with what the Secret has then.
func (p *Provider) loggedOut(err error) error {
	p.cloud.mu.Lock()
	defer p.cloud.mu.Unlock()
	return p.cloud.loggedOut(err)
}

// loggedOut is that of the Provider. The caller has mu.
func (k *cloud) loggedOut(err error) error {
	if isCredentials(err) {
		k.session, k.stock = nil, nil
	}
	return err
}

// forgetStock has it looked up anew: it may be out of date.
func (k *cloud) forgetStock() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stock = nil
}

// Observe implements provider.Provider. It takes two requests, one for the servers (one
// more for each further thousand) and one for the limits. There is one more for each
// server that has failed, the first time that it is seen, and some more every stockTime.
func (p *Provider) Observe(ctx context.Context) (*provider.Inventory, error) {
	s, stock, err := p.connect(ctx)
	if err != nil {
		return nil, err
	}
	all, err := s.servers(ctx, p.tags()...)
	if err != nil {
		return nil, p.loggedOut(err)
	}
	may, err := s.limits(ctx)
	if err != nil {
		return nil, p.loggedOut(err)
	}
	if err := p.explainFaults(ctx, s, all); err != nil {
		return nil, p.loggedOut(err)
	}
	p.session, p.seen, p.matched = s, all, matchNodes(all, p.nodes, p.fleet.Name)
	p.matched.remember(p.cloud.nodes, p.nodes)
	found := &provider.Inventory{Quota: quota(may)}
	examples := map[string]*corev1.Node{}
	for i := range all {
		m := p.machine(&all[i], stock, p.matched)
		if n := p.matched.nodes[m.Name]; n != nil {
			examples[m.Flavor] = better(examples[m.Flavor], n)
		}
		found.Machines = append(found.Machines, m)
	}
	p.rememberNodes(found.Machines)
	wants := count(found.Machines)
	forget(p.cloud.refused, may, p.clouds.Clock.Now())
	for _, o := range stock.offers(p.spec) {
		f := o.flavor(p.fleet, p.spec, stock, examples[o.name])
		f.Want = wants[f.Name]
		f.Max = f.Want + room(may, o)
		if r, ok := p.cloud.refused[f.Name]; ok {
			f.Max = min(f.Max, max(r.machines, f.Want))
			f.Problem = cmp.Or(f.Problem, r.problem)
			f.Named = f.Named || r.problem != ""
		}
		delete(wants, f.Name)
		found.Flavors = append(found.Flavors, f)
	}
	for _, name := range slices.Sorted(maps.Keys(wants)) { // which the spec names no more
		found.Flavors = append(found.Flavors, provider.Flavor{
			Name: name, Want: wants[name], Max: wants[name], Problem: "there are machines of it, but spec.openStack does not offer it any more",
		})
	}
	slices.SortFunc(found.Flavors, func(a, b provider.Flavor) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(found.Machines, func(a, b provider.Machine) int { return cmp.Compare(a.Name, b.Name) })
	return found, nil
}

// tags are those that every server of the fleet carries.
func (p *Provider) tags() []string {
	return []string{tag(tagCluster, p.cluster), tag(tagFleet, p.fleet.Name)}
}

// orderTags are those of one server of an order.
func (p *Provider) orderTags(intent, flavor string, ordinal int) []string {
	return append(p.tags(), tag(tagIntent, intent), tag(tagFlavor, flavor), tag(tagOrdinal, strconv.Itoa(ordinal)))
}

// count returns how many machines of each flavor there are that stay.
func count(machines []provider.Machine) map[string]int {
	n := map[string]int{}
	for _, m := range machines {
		if !m.Leaving {
			n[m.Flavor]++
		}
	}
	return n
}

// rememberNodes notes the nodes of machines, and gives those whose node is missing now
// the name that it had, unless another node may be theirs. Where nodes carry no provider ID,
// what is remembered of machines that have gone is all that says which nodes were on them.
func (p *Provider) rememberNodes(machines []provider.Machine) {
	known := make(map[string]knownNode, len(machines))
	for id, had := range p.cloud.nodes {
		if n := p.nodes[had.name]; n != nil && n.UID == had.uid {
			known[id] = had
		}
	}
	for i := range machines {
		m := &machines[i]
		had, ok := p.cloud.nodes[m.Name]
		switch n := p.matched.nodes[m.Name]; {
		case n != nil:
			known[m.Name] = knownNode{n.Name, n.UID}
		case ok:
			known[m.Name] = had
			if m.Unidentified == "" {
				m.Node = had.name
			}
		}
	}
	p.cloud.nodes = known
}

// forget drops refusals that are old, or that came of other limits.
func forget(refused map[string]refusal, may *limits.Absolute, now time.Time) {
	maps.DeleteFunc(refused, func(_ string, r refusal) bool {
		return !now.Before(r.until) || r.problem == "" && ceilings(r.limits) != ceilings(*may)
	})
}

// ceilings are what the project may have, without what it has.
func ceilings(l limits.Absolute) [3]int {
	return [3]int{l.MaxTotalInstances, l.MaxTotalCores, l.MaxTotalRAMSize}
}

// quota is what the project may still have.
func quota(l *limits.Absolute) cluster.Limits {
	left := func(most, used, unit int) *int64 {
		if most < 0 { // no limit
			return nil
		}
		return new(int64(max(0, most-used)) * int64(unit))
	}
	return cluster.Limits{
		Machines: left(l.MaxTotalInstances, l.TotalInstancesUsed, 1), MilliCPU: left(l.MaxTotalCores, l.TotalCoresUsed, 1000),
		MemoryBytes: left(l.MaxTotalRAMSize, l.TotalRAMUsed, mebibyte),
	}
}

// room is how many servers of an offer the project may still have.
func room(l *limits.Absolute, o offer) int {
	fits := func(most, used, each int) int {
		if most < 0 || each <= 0 {
			return maxServers
		}
		return max(0, most-used) / each
	}
	return min(fits(l.MaxTotalInstances, l.TotalInstancesUsed, 1),
		fits(l.MaxTotalCores, l.TotalCoresUsed, o.nova.VCPUs), fits(l.MaxTotalRAMSize, l.TotalRAMUsed, o.nova.RAM))
}

// maxServers stands for no limit.
const maxServers = 1 << 20
