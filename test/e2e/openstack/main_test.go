//go:build openstack

package openstack

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/quotasets"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/projects"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/roles"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/users"
)

// The variables that openstack.sh sets.
const (
	variableIdentity = "OPENSTACK_IDENTITY"
	variableScript   = "OPENSTACK_SCRIPT"
	variableChild    = "SUPERCARGO_OPENSTACK_CHILD"
)

// The default timeout of a wait, and its polling interval.
const (
	patience = 10 * time.Minute
	poll     = time.Second // each request keeps Nova and Neutron busy
)

// Passwords of the administrator, as openstack.sh sets it, and of the users that tests create. No text that
// tests search for contains them.
const (
	adminPassword = "secret"
	userPassword  = "hush-hush-hush"
)

func TestMain(m *testing.M) {
	if os.Getenv(variableChild) != "" {
		os.Exit(childMain())
	}
	os.Exit(m.Run())
}

// site is the cloud with its administrator.
type site struct {
	identity, compute *gophercloud.ServiceClient
}

var theSite = sync.OnceValues(func() (*site, error) {
	url := os.Getenv(variableIdentity)
	if url == "" {
		return nil, fmt.Errorf("%s is not set: run `make e2e-openstack`", variableIdentity)
	}
	client, err := logIn("admin", adminPassword, "admin")
	if err != nil {
		return nil, err
	}
	s := &site{}
	if s.identity, err = openstack.NewIdentityV3(client, gophercloud.EndpointOpts{}); err != nil {
		return nil, err
	}
	if s.compute, err = openstack.NewComputeV2(client, gophercloud.EndpointOpts{}); err != nil {
		return nil, err
	}
	s.compute.Microversion = "2.61"
	return s, nil
})

func logIn(user, password, project string) (*gophercloud.ProviderClient, error) {
	return openstack.AuthenticatedClient(context.Background(), gophercloud.AuthOptions{
		IdentityEndpoint: os.Getenv(variableIdentity), Username: user, Password: password, DomainID: "default",
		Scope: &gophercloud.AuthScope{ProjectName: project, DomainID: "default"}, AllowReauth: true,
	})
}

// project is a project of the cloud for one test.
type project struct {
	*testing.T
	site     *site
	id, name string // the user's name and the project's are the same
	provider *gophercloud.ProviderClient
	compute  *gophercloud.ServiceClient // as the project's user
	patience time.Duration              // the timeout of a wait
}

// newProject creates a project with a quota of instances servers and enough cores and memory for them. Its
// servers are deleted when the test ends.
func newProject(t *testing.T, instances int) *project {
	t.Helper()
	p := makeProject(t, instances)
	t.Cleanup(p.removeServers)
	return p
}

// makeProject creates a project whose servers stay.
func makeProject(t *testing.T, instances int) *project {
	t.Helper()
	s, err := theSite()
	if err != nil {
		t.Fatal(err)
	}
	p := &project{T: t, site: s, patience: patience, name: fmt.Sprintf("%s-%x", strings.ReplaceAll(t.Name(), "/", "-"), time.Now().UnixNano())}
	p.name = p.name[max(0, len(p.name)-60):]
	made := must(projects.Create(t.Context(), s.identity, projects.CreateOpts{Name: p.name, DomainID: "default"}).Extract())(t)
	p.id = made.ID
	user := must(users.Create(t.Context(), s.identity, users.CreateOpts{Name: p.name, DomainID: "default", Password: userPassword}).Extract())(t)
	pages := must(roles.List(s.identity, roles.ListOpts{Name: "member"}).AllPages(t.Context()))(t)
	role := must(roles.ExtractRoles(pages))(t)[0]
	p.try("give the user a role", roles.Assign(t.Context(), s.identity, role.ID, roles.AssignOpts{UserID: user.ID, ProjectID: p.id}).Err)
	p.setQuota(instances)
	p.provider = must(logIn(p.name, userPassword, p.name))(t)
	p.compute = must(openstack.NewComputeV2(p.provider, gophercloud.EndpointOpts{}))(t)
	p.compute.Microversion = "2.61"
	return p
}

func (p *project) setQuota(instances int) {
	p.Helper()
	_, err := quotasets.Update(p.Context(), p.site.compute, p.id, quotasets.UpdateOpts{
		Instances: new(instances), Cores: new(8 * instances), RAM: new(32 * 1024 * instances),
	}).Extract()
	p.try("set the quota", err)
}

func (p *project) try(what string, err error) {
	p.Helper()
	if err != nil {
		p.Fatalf("%s: %v", what, err)
	}
}

// must returns a value, or fails the test if there is an error.
func must[V any](v V, err error) func(*testing.T) V {
	return func(t *testing.T) V {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// servers returns all servers of the project, including those of no fleet.
func (p *project) servers() []servers.Server {
	p.Helper()
	return p.serversIn(p.Context())
}

func (p *project) serversIn(ctx context.Context) []servers.Server {
	p.Helper()
	pages, err := servers.List(p.compute, servers.ListOpts{}).AllPages(ctx)
	p.try("list the servers", err)
	all, err := servers.ExtractServers(pages)
	p.try("read the servers", err)
	return all
}

// removeServers deletes all servers, and waits until they are gone.
func (p *project) removeServers() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for ctx.Err() == nil {
		all := p.serversIn(ctx)
		if len(all) == 0 {
			return
		}
		for i := range all {
			if all[i].TaskState != "deleting" {
				_ = servers.Delete(ctx, p.compute, all[i].ID).Err // the next poll retries it
			}
		}
		<-time.After(poll)
	}
	p.Errorf("servers of project %s do not go", p.name)
}

// eventually polls until check returns "".
func (p *project) eventually(what string, check func() string) {
	p.Helper()
	var last string
	for deadline := time.Now().Add(p.patience); time.Now().Before(deadline); {
		if last = check(); last == "" {
			return
		}
		<-time.After(poll)
	}
	p.Fatalf("%s: still %s", what, last)
}

// left waits until the project has the wanted number of servers.
func (p *project) left(want int) {
	p.Helper()
	p.eventually(fmt.Sprintf("%d servers are left", want), func() string {
		if n := len(p.servers()); n != want {
			return fmt.Sprintf("%d servers", n)
		}
		return ""
	})
}

// script runs openstack.sh.
func script(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), os.Getenv(variableScript), args...).CombinedOutput(); err != nil {
		t.Fatalf("openstack.sh %v: %v\n%s", args, err, out)
	}
}
