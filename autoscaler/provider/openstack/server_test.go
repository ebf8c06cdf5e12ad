package openstack

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// providerOf returns a Provider of a fleet without any state.
func providerOf(spec *v1alpha1.OpenStackServers) *Provider {
	return (&Clouds{}).For(fleetOf(spec), nil)
}

func TestAServerIsAMachine(t *testing.T) {
	spec := &v1alpha1.OpenStackServers{AvailabilityZones: []string{"up"}}
	p, s := providerOf(spec), shelf()
	matched := &matching{nodes: map[string]*corev1.Node{"id-2": {ObjectMeta: metav1.ObjectMeta{Name: "node-2"}}}, doubts: map[string]string{"id-3": "two say so"}}
	tagged := &[]string{"supercargo-flavor=large@up"}
	tests := []struct {
		name          string
		server        servers.Server
		flavor, node  string
		failed, waits string
		leaving       bool
		unidentified  string
	}{
		{name: "one that is built", server: servers.Server{ID: "id-1", Name: "n", Status: "BUILD", TaskState: "spawning", Tags: tagged}, flavor: "large@up", waits: "server n is BUILD, spawning"},
		{name: "one that is up", server: servers.Server{ID: "id-1", Name: "n", Status: "ACTIVE", Tags: tagged}, flavor: "large@up", waits: "server n is ACTIVE and has no node yet"},
		{name: "one with a node", server: servers.Server{ID: "id-2", Name: "n", Status: "ACTIVE", Tags: tagged}, flavor: "large@up", node: "node-2", waits: "ACTIVE"},
		{name: "one whose node is not known", server: servers.Server{ID: "id-3", Name: "n", Status: "ACTIVE", Tags: tagged}, flavor: "large@up", waits: "ACTIVE", unidentified: "server n: two say so. Set spec.providerID of its node to openstack:///id-3"},
		{name: "one that failed", server: servers.Server{ID: "id-1", Status: "ERROR", Fault: servers.Fault{Message: "No valid host was found. "}, Tags: tagged}, flavor: "large@up", failed: "No valid host was found."},
		{name: "one that failed for no reason", server: servers.Server{ID: "id-1", Status: "ERROR", Tags: tagged}, flavor: "large@up", failed: unexplained},
		{name: "one that is deleted", server: servers.Server{ID: "id-1", Status: "ACTIVE", TaskState: "deleting", Tags: tagged}, flavor: "large@up", leaving: true, waits: "ACTIVE"},
		{name: "one that is deleted softly", server: servers.Server{ID: "id-1", Status: "SOFT_DELETED", Tags: tagged}, flavor: "large@up", leaving: true, waits: "SOFT_DELETED"},
		{name: "one of a flavor that is not offered any more", server: servers.Server{ID: "id-1", Status: "BUILD", Tags: &[]string{"supercargo-flavor=old@up"}}, flavor: "old@up", waits: "BUILD"},
		{name: "one without a flavor's tag", server: servers.Server{ID: "id-1", Status: "BUILD", Flavor: map[string]any{"original_name": "small"}}, flavor: "small", waits: "BUILD"},
		{name: "one of which nothing is known", server: servers.Server{ID: "id-1", Status: "BUILD"}, flavor: "unknown", waits: "BUILD"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			m := p.machine(&tc.server, s, matched)
			if m.Name != tc.server.ID || m.Flavor != tc.flavor || m.Node != tc.node || m.Failed != tc.failed || m.Leaving != tc.leaving || !strings.Contains(m.Waits, tc.waits) || (m.Waits == "") != (tc.waits == "") ||
				!strings.HasPrefix(m.Unidentified, tc.unidentified) || (m.Unidentified == "") != (tc.unidentified == "") {
				t.Errorf("machine %+v", m)
			}
		})
	}
}

func TestAServerOfAnotherImageSaysNothingAboutNewOnes(t *testing.T) {
	for name, tc := range map[string]struct {
		image map[string]any
		want  bool
	}{
		"of the image":               {map[string]any{"id": "id-i"}, false},
		"of another":                 {map[string]any{"id": "id-before"}, true},
		"Nova does not say of which": {nil, false},
	} {
		m := providerOf(&v1alpha1.OpenStackServers{}).machine(&servers.Server{ID: "id-1", Status: "ACTIVE", Image: tc.image}, shelf(), &matching{})
		if m.Outdated != tc.want {
			t.Errorf("%s: outdated %t", name, m.Outdated)
		}
	}
}

func TestWhyServersFailedIsAskedOnceOfEach(t *testing.T) {
	var asked atomic.Int64
	nova := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		switch id := strings.TrimPrefix(r.URL.Path, "/servers/"); id {
		case "gone":
			http.NotFound(w, r)
		case "silent":
			fmt.Fprint(w, `{"server": {"id": "silent", "status": "ERROR"}}`)
		default:
			if err := json.NewEncoder(w).Encode(map[string]any{"server": map[string]any{"id": id, "fault": map[string]any{"message": "No valid host for " + id}}}); err != nil {
				t.Error(err)
			}
		}
	}))
	defer nova.Close()
	s := &session{login: &login{}, compute: &gophercloud.ServiceClient{ProviderClient: &gophercloud.ProviderClient{}, Endpoint: nova.URL + "/"}}
	p := providerOf(&v1alpha1.OpenStackServers{})
	list := func() []servers.Server {
		return []servers.Server{
			{ID: "up", Status: "ACTIVE"}, {ID: "told", Status: "ERROR", Fault: servers.Fault{Message: "aborted"}}, {ID: "full", Status: "ERROR"},
			{ID: "silent", Status: "ERROR"}, {ID: "gone", Status: "ERROR"}, {ID: "leaving", Status: "ERROR", TaskState: "deleting"},
		}
	}
	want := map[string]string{"up": "", "told": "aborted", "full": "No valid host for full", "silent": unexplained, "gone": "", "leaving": ""}
	for round, requests := range []int64{3, 1} { // a deleted server does not stay in lists for long
		all := list()
		if err := p.explainFaults(t.Context(), s, all); err != nil {
			t.Fatal(err)
		}
		for i := range all {
			if got := all[i].Fault.Message; got != want[all[i].ID] {
				t.Errorf("server %s failed for %q, want %q", all[i].ID, got, want[all[i].ID])
			}
		}
		if got := asked.Swap(0); got != requests {
			t.Errorf("round %d asks %d times, want %d", round, got, requests)
		}
	}
	if err := p.explainFaults(t.Context(), s, nil); err != nil || len(p.cloud.faults) != 0 {
		t.Errorf("faults of servers that have gone are kept: %v, %v", p.cloud.faults, err)
	}
}

func TestParallelCallsEachOnceAndNotAllAtATime(t *testing.T) {
	var now, most, calls atomic.Int64
	parallel(100, func(i int) {
		calls.Add(int64(i))
		for n := now.Add(1); ; {
			if m := most.Load(); n <= m || most.CompareAndSwap(m, n) {
				break
			}
		}
		now.Add(-1)
	})
	if calls.Load() != 99*100/2 || most.Load() > concurrency {
		t.Errorf("calls add up to %d, %d at a time", calls.Load(), most.Load())
	}
}
