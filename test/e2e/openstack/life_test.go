//go:build openstack

package openstack

import (
	"encoding/base64"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/keypairs"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servergroups"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/packing"
)

// furnish creates the resources that a spec can name.
func furnish(p *project) {
	p.Helper()
	network := must(openstack.NewNetworkV2(p.provider, gophercloud.EndpointOpts{}))(p.T)
	must(keypairs.Create(p.Context(), p.compute, keypairs.CreateOpts{Name: "admins"}).Extract())(p.T)
	must(groups.Create(p.Context(), network, groups.CreateOpts{Name: "workers"}).Extract())(p.T)
	must(servergroups.Create(p.Context(), p.compute, servergroups.CreateOpts{Name: "spread", Policies: []string{"soft-anti-affinity"}}).Extract())(p.T)
}

func TestAServerOfEachFlavorLivesItsWholeLife(t *testing.T) {
	t.Parallel()
	p := newProject(t, 20)
	furnish(p)
	b := newBench(p, func(s *v1alpha1.OpenStackServers) {
		s.AvailabilityZones = []string{"roomy"}
		s.KeyName, s.SecurityGroups, s.ServerGroup = "admins", []string{"workers"}, "spread"
		s.NodeTaints = []corev1.Taint{{Key: "rented", Value: "yes", Effect: corev1.TaintEffectNoSchedule}}
		s.UserData = &v1alpha1.OpenStackUserData{
			ConfigMap: &v1alpha1.ObjectKey{ObjectName: v1alpha1.ObjectName{Namespace: home, Name: "join"}, Key: "user-data"},
			Values:    &v1alpha1.ObjectName{Namespace: home, Name: "token"},
		}
	})
	b.try("make the template", b.kube.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "join"},
		Data:       map[string]string{"user-data": "join {{.Values.token}} as {{.Name}} in {{.Zone}} with {{.Labels}} and {{.Taints}}"},
	}))
	b.try("make the token", b.kube.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "token"}, Data: map[string][]byte{"token": []byte("abcdef.0123456789abcdef")},
	}))
	for _, f := range table7 {
		offered := b.flavor(f.name + "@roomy")
		if want := (packing.Size{MilliCPU: f.cpus * 1000, MemoryBytes: f.gib<<30 - 256<<20}); offered.Size != want || offered.Problem != "" {
			t.Errorf("%s offers %v (%s), want %v", f.name, offered.Size, offered.Problem, want)
		}
		b.buy("first", offered.Name, 0, 1)
	}
	for _, s := range b.settled() {
		flavor, _ := s.Flavor["original_name"].(string)
		checkServer(b, flavor, &s)
		b.node("node-of-"+flavor, s.ID)
	}
	for _, m := range b.observe().Machines {
		if want := "node-of-" + strings.TrimSuffix(m.Flavor, "@roomy"); m.Node != want || m.Failed != "" || m.Leaving || time.Since(m.Ordered) > patience {
			t.Errorf("machine %+v has node %q, want %q", m, m.Node, want)
		}
		b.try("give it back", b.provider().Release(t.Context(), "second", m.Flavor, 1, []string{m.Name}))
		b.try("give it back again", b.provider().Release(t.Context(), "second", m.Flavor, 1, []string{m.Name}))
	}
	b.left(0)
	if f := b.flavor("m1.medium@roomy"); f.Want != 0 {
		t.Errorf("there are to be %d after all have gone", f.Want)
	}
}

// checkServer checks that a server has the requested properties.
func checkServer(b *bench, flavor string, s *servers.Server) {
	b.Helper()
	if s.Status != "ACTIVE" || s.AvailabilityZone != "roomy" || s.KeyName != "admins" {
		b.Errorf("server %s is %s in %s with key %s: %v", s.Name, s.Status, s.AvailabilityZone, s.KeyName, s.Fault.Message)
	}
	if len(s.SecurityGroups) != 1 || s.SecurityGroups[0]["name"] != "workers" {
		b.Errorf("server %s has security groups %v", s.Name, s.SecurityGroups)
	}
	if _, ok := s.Addresses["nodes"]; !ok {
		b.Errorf("server %s has addresses %v", s.Name, s.Addresses)
	}
	tags := slices.Clone(*s.Tags)
	slices.Sort(tags)
	want := []string{
		"supercargo-cluster=" + b.id, "supercargo-flavor=" + flavor + "@roomy", "supercargo-fleet=batch",
		"supercargo-intent=first", "supercargo-ordinal=0",
	}
	if diff := cmp.Diff(want, tags); diff != "" {
		b.Errorf("tags of %s: %s", s.Name, diff)
	}
	seen := must(servers.Get(b.Context(), b.site.compute, s.ID).Extract())(b.T) // only the administrator sees user data
	if seen.Userdata == nil {
		b.Fatalf("server %s has no user data", s.Name)
	}
	text := string(must(base64.StdEncoding.DecodeString(*seen.Userdata))(b.T))
	if want := "join abcdef.0123456789abcdef as " + s.Name + " in roomy with supercargo.dev/fleet=batch,supercargo.dev/machine-type=" + flavor +
		" and rented=yes:NoSchedule"; text != want {
		b.Errorf("user data is %q, want %q", text, want)
	}
	group := must(servergroups.List(b.compute, nil).AllPages(b.Context()))(b.T)
	if members := must(servergroups.ExtractServerGroups(group))(b.T)[0].Members; !slices.Contains(members, s.ID) {
		b.Errorf("server %s is not in the server group", s.Name)
	}
}

func TestTenServersAskedForAtOnceAreTen(t *testing.T) {
	t.Parallel()
	b := newBench(newProject(t, 20))
	b.buy("first", "m3.small", 0, 10)
	all := b.settled()
	ordinals := map[string]bool{}
	for i := range all {
		for _, tag := range *all[i].Tags {
			if n, ok := strings.CutPrefix(tag, "supercargo-ordinal="); ok {
				ordinals[n] = true
			}
		}
	}
	for i := range 10 {
		if !ordinals[strconv.Itoa(i)] {
			t.Errorf("there is no server %d of the order", i)
		}
	}
	b.restart()
	b.buy("first", "m3.small", 0, 10)
	if n := len(b.servers()); n != 10 {
		t.Errorf("doing the order again makes %d servers of 10", n)
	}
	if err := b.provider().Buy(t.Context(), "second", "m3.small", 0, 1); !errors.Is(err, provider.ErrChanged) {
		t.Errorf("an order that counts on none says %v", err)
	}
	b.buy("second", "m3.small", 10, 11)
	b.left(11)
	b.ledger.take("", "")
	if f := b.flavor("m3.small"); f.Want != 11 || f.Max != 20 {
		t.Errorf("there are to be %d of at most %d, want 11 of 20", f.Want, f.Max)
	}
	if n := b.ledger.take("GET", ""); n != 2 {
		t.Errorf("looking takes %d requests, want one for the servers and one for the limits", n)
	}
}
