//go:build openstack

package openstack

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/limits"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
	model "supercargo.dev/supercargo/internal/cluster"
)

// foreign creates a server that belongs to no fleet of the bench.
func foreign(b *bench, name string, tags ...string) *servers.Server {
	b.Helper()
	network := must(openstack.NewNetworkV2(b.project.provider, gophercloud.EndpointOpts{}))(b.T)
	pages := must(networks.List(network, networks.ListOpts{Name: "nodes"}).AllPages(b.Context()))(b.T)
	found := must(networks.ExtractNetworks(pages))(b.T)
	return must(servers.Create(b.Context(), b.compute, servers.CreateOpts{
		Name: name, FlavorRef: flavorID(b, "t3.xsmall"), ImageRef: imageID(b), Tags: tags, Networks: []servers.Network{{UUID: found[0].ID}},
	}, nil).Extract())(b.T)
}

func TestAQuotaBoundsWhatIsOfferedAndRecoversWhenItIsRaised(t *testing.T) {
	t.Parallel()
	b := newBench(newProject(t, 3))
	found := b.observe()
	if f := b.flavor("m1.xlarge"); f.Max != 3 {
		t.Errorf("at most %d of m1.xlarge, want 3", f.Max)
	}
	want := model.Limits{Machines: new(int64(3)), MilliCPU: new(int64(24000)), MemoryBytes: new(int64(96 << 30))}
	if diff := cmp.Diff(want, found.Quota); diff != "" {
		t.Errorf("the quota of a project of three machines (-want +got):\n%s", diff)
	}
	b.buy("first", "m3.small", 0, 1)
	foreign(b, "somebody") // another user has since taken the remaining quota
	foreign(b, "somebody")
	unanswered := b.secondWaits()
	if err := b.provider().Buy(t.Context(), "second", "m3.small", 1, 3); !errors.Is(err, provider.ErrChanged) || !strings.Contains(err.Error(), "Quota exceeded") {
		t.Fatalf("an order beyond the quota says %v", err)
	}
	if n := unanswered(); n > 0 {
		t.Errorf("%d requests were abandoned, which Nova may carry out when the quota is raised", n)
	}
	if f := b.flavor("m3.small"); f.Want != 1 || f.Max != 1 || f.Problem != "" {
		t.Errorf("after the refusal there are to be %d of at most %d (%s), want 1 of 1", f.Want, f.Max, f.Problem)
	}
	b.setQuota(6)
	if f := b.flavor("m3.small"); f.Max != 4 {
		t.Errorf("at most %d once the quota is 6, want 4", f.Max)
	}
	b.buy("third", "m3.small", 1, 4)
	b.left(6)
	b.settled()
	for _, m := range b.observe().Machines {
		if m.Failed != "" {
			t.Errorf("server %s: %s", m.Name, m.Failed)
		}
	}
}

// secondWaits delays the second request for a server until the first has been answered, plus one second. The
// returned function stops the delay, and returns how many of the two have had no answer.
func (b *bench) secondWaits() (unanswered func() int) {
	var asked, answered atomic.Int32
	first := make(chan struct{})
	creates := func(r *http.Request) bool {
		return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/servers")
	}
	b.ledger.intercept(func(r *http.Request) (*http.Response, error) {
		if creates(r) && asked.Add(1) == 2 {
			<-first
			select {
			case <-r.Context().Done():
			case <-time.After(time.Second):
			}
		}
		return nil, nil
	}, func(r *http.Request, answer *http.Response) (*http.Response, error) {
		if creates(r) && answered.Add(1) == 1 {
			close(first)
		}
		return answer, nil
	})
	return func() int {
		b.ledger.intercept(nil, nil)
		return int(asked.Load() - answered.Load())
	}
}

func TestAFullHostIsAMachineThatNeverComes(t *testing.T) { // not parallel: it needs the small host
	b := newBench(newProject(t, 5), func(s *v1alpha1.OpenStackServers) { s.AvailabilityZones = []string{"small", "roomy"} })
	// In sequence, because Placement sometimes admits two servers that are requested at once.
	b.buy("first", "m1.medium@small", 0, 1)
	b.settled()
	b.buy("second", "m1.medium@small", 1, 2)
	b.settled()
	var failed, came int
	for _, m := range b.observe().Machines {
		switch {
		case m.Flavor != "m1.medium@small":
			t.Errorf("machine %+v is of another flavor", m)
		case strings.Contains(m.Failed, "No valid host"):
			failed++
			b.try("give it back", b.provider().Release(t.Context(), "third", m.Flavor, 2, []string{m.Name}))
		case m.Failed == "":
			came++
		}
	}
	if failed != 1 || came != 1 {
		t.Errorf("%d came and %d found no host, want one each", came, failed)
	}
	b.left(1)
	b.buy("fourth", "m1.medium@roomy", 0, 1)
	b.settled()
	for _, m := range b.observe().Machines {
		if m.Failed != "" {
			t.Errorf("machine of %s: %s", m.Flavor, m.Failed)
		}
	}
}

func TestAFailedBuildIsAMachineThatNeverComes(t *testing.T) {
	t.Parallel()
	b := newBench(newProject(t, 5), func(s *v1alpha1.OpenStackServers) { s.AvailabilityZones = []string{"broken"} })
	b.buy("first", "m3.small@broken", 0, 1)
	b.settled()
	machines := b.observe().Machines
	if len(machines) != 1 || !strings.Contains(machines[0].Failed, "aborted") {
		t.Fatalf("machines are %+v, want one whose build was aborted", machines)
	}
	b.try("give it back", b.provider().Release(t.Context(), "second", "m3.small@broken", 1, []string{machines[0].Name}))
	b.left(0)
}

// At its start, nova-compute either aborts or completes the builds that were requested while it was down.
// Both occur.
func TestNovaComputeIsRestartedAndServersCome(t *testing.T) { // not parallel: all need the roomy host
	b := newBench(newProject(t, 9))
	b.buy("before", "m3.small", 0, 1)
	before := b.settled()[0].ID
	script(t, "stop", "nova-compute-1")
	stopped := true
	t.Cleanup(func() {
		if stopped {
			script(t, "start", "nova-compute-1")
		}
	})
	b.buy("meanwhile", "m3.small", 1, 3)
	for _, m := range b.observe().Machines {
		if m.Failed != "" || m.Name != before && !strings.Contains(m.Waits, "BUILD") {
			t.Errorf("while nova-compute is down, machine %+v", m)
		}
	}
	script(t, "start", "nova-compute-1")
	stopped = false
	b.eventually("three servers are up", func() string { return b.keep("m3.small", 3) })
	if all := b.servers(); !slices.ContainsFunc(all, func(s servers.Server) bool { return s.ID == before }) {
		t.Errorf("server %s, which was up before, has gone", before)
	}
}

// keep does what a fleet does: it releases failed servers and buys others. It returns what is missing.
func (b *bench) keep(flavor string, want int) string {
	b.Helper()
	failed := 0
	for _, m := range b.observe().Machines {
		if m.Failed != "" && !m.Leaving {
			failed++
			b.try("give it back", b.provider().Release(b.Context(), "failed", m.Flavor, b.flavor(flavor).Want, []string{m.Name}))
		}
	}
	if there := b.flavor(flavor).Want; there < want {
		b.orders++
		b.buy(fmt.Sprintf("again-%d", b.orders), flavor, there, want)
	}
	up := 0
	for _, s := range b.servers() {
		if s.Status == "ACTIVE" && s.TaskState == "" {
			up++
		}
	}
	if failed > 0 || up != want {
		return fmt.Sprintf("%d up, %d failed", up, failed)
	}
	return ""
}

func TestATokenThatExpiresIsRenewed(t *testing.T) {
	t.Parallel()
	b := newBench(newProject(t, 5))
	var token atomic.Value
	b.ledger.intercept(func(r *http.Request) (*http.Response, error) {
		if sent := r.Header.Get("X-Auth-Token"); sent != "" {
			token.CompareAndSwap(nil, sent)
		}
		return nil, nil
	}, nil)
	b.buy("first", "t3.xsmall", 0, 1)
	old := *b.compute
	client := *b.project.provider
	client.ReauthFunc = nil
	old.ProviderClient = &client
	client.SetToken(token.Load().(string))
	b.eventually("the token expires", func() string {
		if err := limits.Get(t.Context(), &old, nil).Err; !gophercloud.ResponseCodeIs(err, http.StatusUnauthorized) {
			return "it is good"
		}
		return ""
	})
	b.ledger.take("", "")
	if n := len(b.observe().Machines); n != 1 {
		t.Errorf("after the token has expired there are %d machines, want 1", n)
	}
	b.buy("second", "t3.xsmall", 1, 2)
	b.left(2)
	if n := b.ledger.take("POST", "/auth/tokens"); n < 1 || n > 3 { // on a slow machine it expires once more
		t.Errorf("logged in %d times, want once", n)
	}
}

func TestATokenThatIsRevokedIsRenewed(t *testing.T) {
	t.Parallel()
	b := newBench(newProject(t, 5))
	var token atomic.Value
	b.ledger.intercept(func(r *http.Request) (*http.Response, error) {
		if sent := r.Header.Get("X-Auth-Token"); sent != "" {
			token.Store(sent)
		}
		return nil, nil
	}, nil)
	b.observe()
	b.try("revoke the token", tokens.Revoke(t.Context(), b.site.identity, token.Load().(string)).Err)
	b.buy("first", "t3.xsmall", 0, 1)
	b.left(1)
}

// answer returns an answer of a cloud under load.
func answer(r *http.Request, code int) *http.Response {
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Retry-After": {"0"}}, Body: io.NopCloser(strings.NewReader("busy")),
	}
}

func TestACloudUnderLoadIsAskedAgain(t *testing.T) {
	t.Parallel()
	b := newBench(newProject(t, 5))
	b.observe() // logs in
	var n atomic.Int64
	b.ledger.intercept(func(r *http.Request) (*http.Response, error) {
		switch n.Add(1) % 4 {
		case 1:
			return answer(r, http.StatusTooManyRequests), nil
		case 2:
			return answer(r, http.StatusServiceUnavailable), nil
		}
		return nil, nil
	}, nil)
	b.buy("first", "t3.xsmall", 0, 3)
	if n := len(b.observe().Machines); n != 3 {
		t.Errorf("there are %d machines, want 3", n)
	}
}

// refused checks that an error is permanent and tells the user what to fix.
func refused(t *testing.T, err error, reason string, says ...string) {
	t.Helper()
	var r *provider.Refused
	if !errors.As(err, &r) {
		t.Fatalf("the error is %v, want one that says what to put right", err)
	}
	for _, text := range says {
		if r.Reason != reason || !strings.Contains(r.Message, text) {
			t.Errorf("refused for %s: %s; want %s and %q in it", r.Reason, r.Message, reason, text)
		}
	}
}

func TestWhatIsWrongIsSaidSoThatItCanBePutRight(t *testing.T) {
	t.Parallel()
	p := newProject(t, 5)
	for _, c := range []struct {
		name, reason string
		change       func(*v1alpha1.OpenStackServers)
		says         []string
	}{
		{"password", "CredentialsRefused", func(s *v1alpha1.OpenStackServers) { s.Credentials.Name = "wrong" }, []string{"Secret " + home + "/wrong", "Correct them"}},
		{"secret", "ObjectMissing", func(s *v1alpha1.OpenStackServers) { s.Credentials.Name = "none" }, []string{"Secret " + home + "/none", "spec.openStack.credentials"}},
		{"cloud", "CredentialsRefused", func(s *v1alpha1.OpenStackServers) { s.Credentials.Cloud = "other" }, []string{`"other"`, `"test"`}},
		{"region", "EndpointMissing", func(s *v1alpha1.OpenStackServers) { s.Region = "Nowhere" }, []string{`"Nowhere"`, "spec.openStack.region"}},
		{"image", "ReferenceUnknown", func(s *v1alpha1.OpenStackServers) { s.Image = "windows" }, []string{"spec.openStack.image", `"windows"`}},
		{"network", "ReferenceUnknown", func(s *v1alpha1.OpenStackServers) { s.Networks = []string{"ether"} }, []string{"spec.openStack.networks", `"ether"`}},
		{"key", "ReferenceUnknown", func(s *v1alpha1.OpenStackServers) { s.KeyName = "lost" }, []string{"spec.openStack.keyName", `"lost"`}},
		{"security group", "ReferenceUnknown", func(s *v1alpha1.OpenStackServers) { s.SecurityGroups = []string{"none"} }, []string{"spec.openStack.securityGroups"}},
		{"server group", "ReferenceUnknown", func(s *v1alpha1.OpenStackServers) { s.ServerGroup = "none" }, []string{"spec.openStack.serverGroup"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(p, c.change)
			b.try("make a Secret", b.kube.Create(t.Context(), cloudsSecret("wrong", p.name, "not the password")))
			_, err := b.provider().Observe(t.Context())
			refused(t, err, c.reason, c.says...)
			if strings.Contains(err.Error(), "not the password") {
				t.Errorf("the password is in %v", err)
			}
		})
	}
	t.Run("flavor", func(t *testing.T) {
		b := newBench(p, func(s *v1alpha1.OpenStackServers) { s.Flavors = []string{"m3.small", "m9.huge"} })
		if f := b.flavor("m9.huge"); !strings.Contains(f.Problem, `the project has access to no flavor "m9.huge"`) {
			t.Errorf("the problem of a flavor that is not there is %q", f.Problem)
		}
		if f := b.flavor("m3.small"); f.Problem != "" {
			t.Errorf("the problem of one that is there is %q", f.Problem)
		}
	})
	t.Run("zone", func(t *testing.T) {
		b := newBench(p, func(s *v1alpha1.OpenStackServers) { s.AvailabilityZones = []string{"roomy", "moon"} })
		if f := b.flavor("m3.small@moon"); !strings.Contains(f.Problem, `"moon"`) {
			t.Errorf("the problem of a zone that is not there is %q", f.Problem)
		}
	})
	t.Run("a password that is put right", func(t *testing.T) {
		b := newBench(p, func(s *v1alpha1.OpenStackServers) { s.Credentials.Name = "fixed" })
		b.try("make a Secret", b.kube.Create(t.Context(), cloudsSecret("fixed", p.name, "wrong")))
		_, err := b.provider().Observe(t.Context())
		refused(t, err, "CredentialsRefused", "fixed")
		b.try("put it right", b.kube.Update(t.Context(), cloudsSecret("fixed", p.name, userPassword)))
		b.observe()
	})
}

func TestApplicationCredentialsLogIn(t *testing.T) {
	t.Parallel()
	p := newProject(t, 5)
	identity := must(openstack.NewIdentityV3(p.provider, gophercloud.EndpointOpts{}))(t)
	user := must(p.provider.GetAuthResult().(tokens.CreateResult).ExtractUser())(t)
	made := must(applicationcredentials.Create(t.Context(), identity, user.ID, applicationcredentials.CreateOpts{Name: "fleet"}).Extract())(t)
	b := newBench(p, func(s *v1alpha1.OpenStackServers) { s.Credentials.Name = "application" })
	b.try("make a Secret", b.kube.Create(t.Context(), &corev1.Secret{
		ObjectMeta: cloudsSecret("application", "", "").ObjectMeta,
		Data: map[string][]byte{
			"auth_url": []byte(p.site.identity.Endpoint), "application_credential_id": []byte(made.ID),
			"application_credential_secret": []byte(made.Secret), "region_name": []byte("RegionOne"),
		},
	}))
	b.buy("first", "t3.xsmall", 0, 1)
	b.left(1)
}
