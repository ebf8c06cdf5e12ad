package openstack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"k8s.io/apimachinery/pkg/util/validation"

	"supercargo.dev/supercargo/autoscaler/provider"
)

// The states of a server in Nova.
const (
	statusActive      = "ACTIVE"
	statusBuild       = "BUILD"
	statusError       = "ERROR"
	statusDeleted     = "DELETED"
	statusSoftDeleted = "SOFT_DELETED"
	taskDeleting      = "deleting"
	taskSoftDeleting  = "soft-deleting"
)

// machine converts a server for the fleet. Its name is the server's ID, because names are not unique.
func (p *Provider) machine(s *servers.Server, stock *stock, matched *matching) provider.Machine {
	m := provider.Machine{Name: s.ID, Flavor: p.flavorOf(s, stock), Ordered: s.Created, Leaving: leaving(s), Outdated: outdated(s, stock)}
	if n := matched.nodes[s.ID]; n != nil {
		m.Node = n.Name
	}
	if why := matched.doubts[s.ID]; why != "" {
		m.Unidentified = fmt.Sprintf("server %s: %s. Set spec.providerID of its node to %s/%s, as OpenStack's cloud controller manager and "+
			"the kubelet's flag --provider-id do, or delete the superfluous server or node", s.Name, why, providerPrefix, s.ID)
	}
	switch s.Status {
	case statusError:
		m.Failed = scrub(strings.TrimSpace(cmp.Or(s.Fault.Message, unexplained)))
	case statusActive:
		m.Waits = fmt.Sprintf("server %s is ACTIVE and has no node yet: check the progress of its user data on its console", s.Name)
	default:
		m.Waits = fmt.Sprintf("server %s is %s", s.Name, strings.TrimRight(s.Status+", "+s.TaskState, ", "))
	}
	return m
}

// unexplained is the message for servers without one from Nova, such as those that nova-compute abandons when it
// restarts.
const unexplained = "Nova reports status ERROR without a cause"

// explainFaults adds to servers why they failed. Nova omits that from lists for servers that no host took: these are
// requested one by one, each once.
func (p *Provider) explainFaults(ctx context.Context, s *session, all []servers.Server) error {
	known := p.cloud.faults
	p.cloud.faults = map[string]string{}
	var unknown []*servers.Server
	for i := range all {
		failed := &all[i]
		if failed.Status != statusError || failed.Fault.Message != "" || leaving(failed) {
			continue
		}
		if failed.Fault.Message = known[failed.ID]; failed.Fault.Message == "" {
			unknown = append(unknown, failed)
		}
	}
	errs := make([]error, len(unknown))
	parallel(len(unknown), func(i int) {
		found, err := servers.Get(ctx, s.compute, unknown[i].ID).Extract()
		switch {
		case err == nil:
			unknown[i].Fault.Message = cmp.Or(found.Fault.Message, unexplained)
		case statusOf(err) != http.StatusNotFound: // otherwise it is gone by now
			errs[i] = s.login.explain("get the fault of server "+unknown[i].ID, err)
		}
	})
	for i := range all {
		if message := all[i].Fault.Message; all[i].Status == statusError && message != "" {
			p.cloud.faults[all[i].ID] = message
		}
	}
	return errors.Join(errs...)
}

// leaving reports whether a server has been deleted or is being deleted.
func leaving(s *servers.Server) bool {
	return s.TaskState == taskDeleting || s.TaskState == taskSoftDeleting || s.Status == statusDeleted || s.Status == statusSoftDeleted
}

// outdated reports whether a server is of another image than new ones. Nova names no image of a server that boots from a
// volume.
func outdated(s *servers.Server, stock *stock) bool {
	image, _ := s.Image["id"].(string)
	return image != "" && image != stock.image.ID
}

// flavorOf returns the name of the offer that a server was bought as. If that is no longer offered, it returns what the
// server itself says.
func (p *Provider) flavorOf(s *servers.Server, stock *stock) string {
	for _, o := range stock.offers(p.spec) {
		if hasTag(s, tag(tagFlavor, o.name)) {
			return o.name
		}
	}
	if name := tagValue(s, tagFlavor); name != "" {
		return name
	}
	name, _ := s.Flavor["original_name"].(string)
	return cmp.Or(name, "unknown")
}

func labelValue(text string) bool { return len(validation.IsValidLabelValue(text)) == 0 }
