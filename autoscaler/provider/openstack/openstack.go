// Package openstack rents servers of an OpenStack. Each of Nova's flavors, in each availability zone that a fleet
// names, is a flavor of the fleet.
//
// The state is only in the cloud: tags of servers identify their cluster, fleet, decision and flavor. Names are not
// unique in Nova; a server belongs to an order if it has the order's tags, and an order creates those of its servers
// that do not exist yet. After a crash, listing the servers shows what was requested. Servers without our tags are
// never touched.
//
// The files follow a round: openstack.go (state between rounds), credentials.go and session.go (login, available
// choices), flavor.go, server.go and match.go (the observation), buy.go and userdata.go (creating servers), fault.go
// and retry.go (the meaning of errors), clean.go (leftovers).
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

// stockTime is how long flavors, zones and the references of the spec are cached. An order that the cloud refuses ends
// it.
const stockTime = 5 * time.Minute

// Clouds keeps logins and knowledge about clouds between rounds. All of it may be lost: then it is read again. It is
// safe for concurrent use; the Providers of one fleet are not.
type Clouds struct {
	// Live reads Secrets without a cache. Writer deletes nodes.
	Live   client.Reader
	Writer client.Client
	// Clock returns the current time.
	Clock clock.PassiveClock
	// Cluster distinguishes clusters that use the same project. If it is empty, it is set to the UID of the namespace
	// kube-system.
	Cluster string
	// Wrap, if not nil, wraps the transport of requests to the clouds.
	Wrap func(http.RoundTripper) http.RoundTripper

	mu     sync.Mutex
	fleets map[types.UID]*cloud
}

// cloud is what is known about the cloud of one fleet.
type cloud struct {
	mu      sync.Mutex // protects session, sum, stock, read, spec and refused
	session *session
	sum     string // of the credentials and the region of the session
	stock   *stock
	read    time.Time // when stock was
	spec    int64     // the generation that stock is for
	// refused are flavors that the cloud refused to sell, by name.
	refused map[string]refusal
	// nodes are the last known nodes of servers, by server ID. Those of deleted servers are kept while the node exists.
	nodes map[string]knownNode
	// faults are the errors of servers that had to be requested separately, by ID.
	faults map[string]string
}

// knownNode is the node of a server.
type knownNode struct {
	name string
	uid  types.UID
}

// refusal records that the cloud refused to sell a flavor.
type refusal struct {
	until time.Time
	// machines is the maximum number, which is the number at the time. limits are the limits of the project at that
	// time: when they change, the refusal is forgotten.
	machines int
	limits   limits.Absolute
	// problem is why no server can be created; empty if only their number is bounded.
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

// cluster returns the ID that distinguishes this cluster from others.
func (c *Clouds) cluster(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Cluster == "" {
		var system corev1.Namespace
		if err := c.Live.Get(ctx, types.NamespacedName{Name: metav1.NamespaceSystem}, &system); err != nil {
			return "", fmt.Errorf("read namespace %s, whose UID identifies the cluster: %w", metav1.NamespaceSystem, err)
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

// connect logs in and looks up the references of the spec, unless that was done recently.
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

// loggedOut drops the session if the cloud rejects its credentials, so that the next round logs in with the then
// current Secret.
func (p *Provider) loggedOut(err error) error {
	p.cloud.mu.Lock()
	defer p.cloud.mu.Unlock()
	return p.cloud.loggedOut(err)
}

// loggedOut is that of the Provider. The caller must hold mu.
func (k *cloud) loggedOut(err error) error {
	if isCredentials(err) {
		k.session, k.stock = nil, nil
	}
	return err
}

// forgetStock drops the stock, which may be out of date, so that it is looked up again.
func (k *cloud) forgetStock() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stock = nil
}

// Observe implements provider.Provider. It takes two requests, one for the servers (one more for each further thousand)
// and one for the limits, plus one for each failed server when it is first observed, and some more every stockTime.
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
		if n := p.matched.nodes[m.Name]; n != nil && !m.Outdated {
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
	for _, name := range slices.Sorted(maps.Keys(wants)) { // which the spec no longer names
		found.Flavors = append(found.Flavors, provider.Flavor{
			Name: name, Want: wants[name], Max: wants[name], Problem: "it has machines, but spec.openStack no longer offers it",
		})
	}
	slices.SortFunc(found.Flavors, func(a, b provider.Flavor) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(found.Machines, func(a, b provider.Machine) int { return cmp.Compare(a.Name, b.Name) })
	return found, nil
}

// tags returns the tags of every server of the fleet.
func (p *Provider) tags() []string {
	return []string{tag(tagCluster, p.cluster), tag(tagFleet, p.fleet.Name)}
}

// orderTags returns the tags of one server of an order.
func (p *Provider) orderTags(intent, flavor string, ordinal int) []string {
	return append(p.tags(), tag(tagIntent, intent), tag(tagFlavor, flavor), tag(tagOrdinal, strconv.Itoa(ordinal)))
}

// count returns the number of machines of each flavor that are not leaving.
func count(machines []provider.Machine) map[string]int {
	n := map[string]int{}
	for _, m := range machines {
		if !m.Leaving {
			n[m.Flavor]++
		}
	}
	return n
}

// rememberNodes records the nodes of machines, and sets the last known node of those whose node is missing now, unless
// another node may be theirs. If nodes have no provider ID, this memory is all that tells which nodes were on deleted
// machines.
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

// forget drops refusals that have expired, or that were caused by other limits.
func forget(refused map[string]refusal, may *limits.Absolute, now time.Time) {
	maps.DeleteFunc(refused, func(_ string, r refusal) bool {
		return !now.Before(r.until) || r.problem == "" && ceilings(r.limits) != ceilings(*may)
	})
}

// ceilings returns the limits of the project, without its usage.
func ceilings(l limits.Absolute) [3]int {
	return [3]int{l.MaxTotalInstances, l.MaxTotalCores, l.MaxTotalRAMSize}
}

// quota returns what the project may still use.
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

// room returns how many more servers of an offer the project may have.
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

// maxServers means no limit.
const maxServers = 1 << 20
