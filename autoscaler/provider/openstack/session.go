package openstack

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/availabilityzones"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/keypairs"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/limits"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servergroups"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
)

// microversion is the version of Nova's API: the first whose flavors include their extra specs. It also has tags at
// creation (2.52) and flavors within servers (2.47). Nova has supported it since Rocky (2018).
const microversion = "2.61"

// patience is the timeout of one request.
const patience = time.Minute

// session is a login with its clients.
type session struct {
	login                   *login
	compute, image, network *gophercloud.ServiceClient
}

// open logs in.
func open(ctx context.Context, l *login, wrap func(http.RoundTripper) http.RoundTripper) (*session, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = l.tls
	transport.MaxIdleConnsPerHost = concurrency
	var http1 http.RoundTripper = transport
	if wrap != nil {
		http1 = wrap(transport)
	}
	client, err := openstack.NewClient(l.auth.IdentityEndpoint)
	if err != nil {
		return nil, l.explain("use "+l.auth.IdentityEndpoint, err)
	}
	client.HTTPClient = http.Client{Transport: http1, Timeout: patience}
	retry(client)
	if err := openstack.Authenticate(ctx, client, l.auth); err != nil {
		return nil, l.explain("log in at "+l.auth.IdentityEndpoint, err)
	}
	s := &session{login: l}
	for _, service := range []struct {
		what   string
		client **gophercloud.ServiceClient
		find   func(*gophercloud.ProviderClient, gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error)
	}{
		{"find compute", &s.compute, openstack.NewComputeV2},
		{"find image", &s.image, openstack.NewImageV2},
		{"find network", &s.network, openstack.NewNetworkV2},
	} {
		if *service.client, err = service.find(client, l.endpoint); err != nil {
			return nil, l.explain(service.what, err)
		}
	}
	s.compute.Microversion = microversion
	return s, nil
}

// servers returns the servers that have all the tags. Nova returns at most a thousand in one response; further ones are
// requested until there are no more.
func (s *session) servers(ctx context.Context, tags ...string) ([]servers.Server, error) {
	pages, err := servers.List(s.compute, servers.ListOpts{Tags: strings.Join(tags, ",")}).AllPages(ctx)
	if err != nil {
		return nil, s.login.explain("list servers", err)
	}
	all, err := servers.ExtractServers(pages)
	if err != nil {
		return nil, fmt.Errorf("read servers: %w", err)
	}
	return all, nil
}

// limits returns the limits and the usage of the project.
func (s *session) limits(ctx context.Context) (*limits.Absolute, error) {
	found, err := limits.Get(ctx, s.compute, nil).Extract()
	if err != nil {
		return nil, s.login.explain("read the limits of the project", err)
	}
	return &found.Absolute, nil
}

// stock is what servers can be made from, with the references of the spec resolved.
type stock struct {
	flavors []flavors.Flavor // those that the spec selects, ordered by name
	missing []string         // those that it names but the cloud does not have
	zones   map[string]bool  // all zones of the cloud, and whether each is available
	image   *images.Image
	// networks, securityGroups and serverGroup are IDs.
	networks       []string
	securityGroups []string
	serverGroup    string
}

// stock looks up the references of the spec.
func (s *session) stock(ctx context.Context, spec *v1alpha1.OpenStackServers) (*stock, error) {
	found := &stock{}
	for _, read := range []func(context.Context, *v1alpha1.OpenStackServers, *stock) error{
		s.readFlavors, s.readZones, s.readImage, s.readNetworks, s.readSecurityGroups, s.readKey, s.readServerGroup,
	} {
		if err := read(ctx, spec, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (s *session) readFlavors(ctx context.Context, spec *v1alpha1.OpenStackServers, found *stock) error {
	pages, err := flavors.ListDetail(s.compute, nil).AllPages(ctx)
	if err != nil {
		return s.login.explain("list flavors", err)
	}
	all, err := flavors.ExtractFlavors(pages)
	if err != nil {
		return fmt.Errorf("read flavors: %w", err)
	}
	for i := range all {
		if len(spec.Flavors) == 0 || slices.Contains(spec.Flavors, all[i].Name) {
			found.flavors = append(found.flavors, all[i])
		}
	}
	slices.SortFunc(found.flavors, func(a, b flavors.Flavor) int { return strings.Compare(a.Name, b.Name) })
	for _, name := range spec.Flavors {
		if !slices.ContainsFunc(found.flavors, func(f flavors.Flavor) bool { return f.Name == name }) {
			found.missing = append(found.missing, name)
		}
	}
	return nil
}

func (s *session) readZones(ctx context.Context, spec *v1alpha1.OpenStackServers, found *stock) error {
	if len(spec.AvailabilityZones) == 0 {
		return nil
	}
	pages, err := availabilityzones.List(s.compute).AllPages(ctx)
	if err != nil {
		return s.login.explain("list availability zones", err)
	}
	all, err := availabilityzones.ExtractAvailabilityZones(pages)
	if err != nil {
		return fmt.Errorf("read availability zones: %w", err)
	}
	found.zones = make(map[string]bool, len(all))
	for _, z := range all {
		found.zones[z.ZoneName] = z.ZoneState.Available
	}
	return nil
}

func (s *session) readImage(ctx context.Context, spec *v1alpha1.OpenStackServers, found *stock) error {
	if isID(spec.Image) {
		image, err := images.Get(ctx, s.image, spec.Image).Extract()
		if err == nil {
			found.image = image
			return nil
		}
		if statusOf(err) != http.StatusNotFound {
			return s.login.explain("read image "+spec.Image, err)
		}
	}
	pages, err := images.List(s.image, images.ListOpts{Name: spec.Image, Status: images.ImageStatusActive}).AllPages(ctx)
	if err != nil {
		return s.login.explain("list images", err)
	}
	all, err := images.ExtractImages(pages)
	if err != nil {
		return fmt.Errorf("read images: %w", err)
	}
	if err := one("spec.openStack.image", "image", spec.Image, len(all)); err != nil {
		return err
	}
	found.image = &all[0]
	return nil
}

func (s *session) readNetworks(ctx context.Context, spec *v1alpha1.OpenStackServers, found *stock) error {
	for _, name := range spec.Networks {
		opts := networks.ListOpts{Name: name}
		if isID(name) {
			opts = networks.ListOpts{ID: name}
		}
		pages, err := networks.List(s.network, opts).AllPages(ctx)
		if err != nil {
			return s.login.explain("list networks", err)
		}
		all, err := networks.ExtractNetworks(pages)
		if err != nil {
			return fmt.Errorf("read networks: %w", err)
		}
		if err := one("spec.openStack.networks", "network", name, len(all)); err != nil {
			return err
		}
		found.networks = append(found.networks, all[0].ID)
	}
	return nil
}

func (s *session) readSecurityGroups(ctx context.Context, spec *v1alpha1.OpenStackServers, found *stock) error {
	for _, name := range spec.SecurityGroups {
		opts := groups.ListOpts{Name: name}
		if isID(name) {
			opts = groups.ListOpts{ID: name}
		}
		pages, err := groups.List(s.network, opts).AllPages(ctx)
		if err != nil {
			return s.login.explain("list security groups", err)
		}
		all, err := groups.ExtractGroups(pages)
		if err != nil {
			return fmt.Errorf("read security groups: %w", err)
		}
		if err := one("spec.openStack.securityGroups", "security group", name, len(all)); err != nil {
			return err
		}
		found.securityGroups = append(found.securityGroups, all[0].ID)
	}
	return nil
}

func (s *session) readKey(ctx context.Context, spec *v1alpha1.OpenStackServers, _ *stock) error {
	if spec.KeyName == "" {
		return nil
	}
	err := keypairs.Get(ctx, s.compute, spec.KeyName, nil).Err
	switch {
	case err == nil:
		return nil
	case statusOf(err) == http.StatusNotFound:
		return one("spec.openStack.keyName", "key pair", spec.KeyName, 0)
	}
	return s.login.explain("read key pair "+spec.KeyName, err)
}

func (s *session) readServerGroup(ctx context.Context, spec *v1alpha1.OpenStackServers, found *stock) error {
	if spec.ServerGroup == "" {
		return nil
	}
	pages, err := servergroups.List(s.compute, nil).AllPages(ctx)
	if err != nil {
		return s.login.explain("list server groups", err)
	}
	all, err := servergroups.ExtractServerGroups(pages)
	if err != nil {
		return fmt.Errorf("read server groups: %w", err)
	}
	all = slices.DeleteFunc(all, func(g servergroups.ServerGroup) bool { return g.Name != spec.ServerGroup && g.ID != spec.ServerGroup })
	if err := one("spec.openStack.serverGroup", "server group", spec.ServerGroup, len(all)); err != nil {
		return err
	}
	found.serverGroup = all[0].ID
	return nil
}

// one returns an error with advice if there is not exactly one of a name.
func one(field, kind, name string, n int) error {
	switch n {
	case 1:
		return nil
	case 0:
		return &provider.Refused{Reason: v1alpha1.FleetReasonReferenceUnknown, Message: fmt.Sprintf("%s: the project has access to no %s %q: create it or specify another", field, kind, name)}
	}
	return &provider.Refused{Reason: v1alpha1.FleetReasonReferenceAmbiguous, Message: fmt.Sprintf("%s: the name %q is ambiguous, there are %d: specify the ID of the %s", field, name, n, kind)}
}

var uuid = regexp.MustCompile(`^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$`)

func isID(name string) bool { return uuid.MatchString(name) }
