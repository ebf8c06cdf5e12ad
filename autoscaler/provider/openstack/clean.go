package openstack

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// Clean implements provider.Cleaner. It ignores servers without nodes: the fleet abandons those that do not join in
// time.
func (p *Provider) Clean(ctx context.Context) error {
	if err := p.cleanTwins(ctx); err != nil {
		return err
	}
	return p.cleanNodes(ctx)
}

// cleanTwins deletes servers that were created twice under one number of an order, because a process died, or a
// connection broke, while Nova created the first. The older one stays, ties by ID, unless it failed; one that has a
// node, or may have one, always stays.
func (p *Provider) cleanTwins(ctx context.Context) error {
	same := map[string][]*servers.Server{}
	for i := range p.seen {
		s := &p.seen[i]
		if leaving(s) || tagValue(s, tagIntent) == "" {
			continue
		}
		order := strings.Join([]string{tagValue(s, tagIntent), tagValue(s, tagFlavor), tagValue(s, tagOrdinal)}, " ")
		same[order] = append(same[order], s)
	}
	var surplus []string
	for _, twins := range same {
		slices.SortFunc(twins, func(a, b *servers.Server) int {
			return cmp.Or(compareBool(a.Status == statusError, b.Status == statusError), a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
		})
		for _, twin := range twins[1:] {
			if p.matched.nodes[twin.ID] == nil && p.matched.doubts[twin.ID] == "" {
				surplus = append(surplus, twin.ID)
			}
		}
	}
	if len(surplus) == 0 {
		return nil
	}
	slices.Sort(surplus)
	return p.deleteAll(ctx, p.session, surplus)
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// abandoned is how long a node must have been silent before it may count as one without a server.
const abandoned = 30 * time.Second

// cleanNodes deletes nodes of this fleet whose servers are gone. If OpenStack's cloud controller manager runs, it does
// that first. A node belongs to this fleet if it has its label; a request to Nova by ID confirms that its server is
// gone. Without a provider ID, the server is the one that the node was last observed on; a node not observed on any
// since the process started is kept.
func (p *Provider) cleanNodes(ctx context.Context) error {
	there := map[string]bool{}
	for i := range p.seen {
		there[p.seen[i].ID] = true
	}
	was := map[types.UID]string{}
	for id, n := range p.cloud.nodes {
		if !there[id] {
			was[n.uid] = id
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.nodes)) {
		n := p.nodes[name]
		id := serverOf(n)
		if id == "" && !elsewhere(n) {
			id = was[n.UID]
		}
		if n.Labels[v1alpha1.LabelFleet] != p.fleet.Name || id == "" || there[id] || n.DeletionTimestamp != nil || !p.silent(n) {
			continue
		}
		err := servers.Get(ctx, p.session.compute, id).Err
		switch {
		case err == nil:
			continue // it has lost its tags, so it is not ours
		case statusOf(err) != http.StatusNotFound:
			return p.loggedOut(p.session.login.explain("get server "+id, err))
		}
		if err := p.clouds.Writer.Delete(ctx, n, client.Preconditions{UID: new(n.UID)}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete node %s of a deleted server: %w", name, err)
		}
	}
	return nil
}

// silent reports whether a node has been unready for a while: its kubelet cannot be alive if its server is gone.
func (p *Provider) silent(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status != corev1.ConditionTrue && p.clouds.Clock.Since(c.LastTransitionTime.Time) >= abandoned
		}
	}
	return p.clouds.Clock.Since(n.CreationTimestamp.Time) >= abandoned
}
