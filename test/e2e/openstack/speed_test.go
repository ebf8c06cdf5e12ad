//go:build openstack && measure

package openstack

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
)

// asking contains the time that requests for servers take.
type asking struct {
	// Servers are requested in one decision, at most AtATime of them concurrently.
	Servers int `json:"servers"`
	AtATime int `json:"atATime"`
	// AskedSeconds is the time until Nova has accepted all, UpSeconds until all are ACTIVE.
	AskedSeconds float64 `json:"askedSeconds"`
	UpSeconds    float64 `json:"upSeconds"`
}

// looking contains the cost of observing servers.
type looking struct {
	Servers int `json:"servers"`
	// Requests counts all requests of one observation, ListRequests those for servers.
	Requests     int     `json:"requests"`
	ListRequests int     `json:"listRequests"`
	Seconds      float64 `json:"seconds"`
}

// TestSpeed measures, and writes the results to the file that the variable names.
func TestSpeed(t *testing.T) {
	found := struct {
		Asking  asking  `json:"asking"`
		Looking looking `json:"looking"`
		Load    string  `json:"load"` // means over 1, 5 and 15 minutes
	}{Asking: measureAsking(t), Looking: measureLooking(t)}
	load := must(os.ReadFile("/proc/loadavg"))(t)
	found.Load = strings.Join(strings.Fields(string(load))[:3], " ")
	text := must(json.MarshalIndent(found, "", "  "))(t)
	t.Logf("%s", text)
	if err := os.WriteFile(os.Getenv("OPENSTACK_MEASURED"), append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

func measureAsking(t *testing.T) (found asking) {
	t.Helper()
	const n = 50
	b := newBench(newProject(t, n))
	b.patience = time.Hour // the test measures and does not judge
	b.observe()            // as in the round that decides
	began := time.Now()
	b.buy("first", "t3.xsmall", 0, n)
	found.AskedSeconds = time.Since(began).Seconds()
	found.Servers, found.AtATime = len(b.servers()), b.ledger.most()
	b.settled()
	found.UpSeconds = time.Since(began).Seconds()
	t.Logf("%+v", found)
	return found
}

func measureLooking(t *testing.T) (found looking) {
	t.Helper()
	// One thousand would be two pages. 37 are created at a time, without ports, which would take most of the
	// time.
	const n, at = 999, 37
	b := newBench(makeProject(t, n))
	b.patience = time.Hour
	tiny := must(flavors.Create(t.Context(), b.site.compute, flavors.CreateOpts{Name: "tiny", VCPUs: 1, RAM: 128, Disk: new(10)}).Extract())(t)
	for made := 0; made < n; made += at {
		b.try("make servers", servers.Create(t.Context(), b.compute, servers.CreateOpts{
			Name: "many", FlavorRef: tiny.ID, ImageRef: imageID(b), Networks: "none", Min: at, Max: at,
			Tags: []string{"supercargo-cluster=" + b.id, "supercargo-fleet=batch", "supercargo-flavor=tiny"},
		}, nil).Err)
		b.settled()
	}
	b.observe() // logs in and resolves the names in the spec
	b.ledger.take("", "")
	began := time.Now()
	found.Servers = len(b.observe().Machines)
	found.Seconds = time.Since(began).Seconds()
	found.ListRequests, found.Requests = b.ledger.count("GET", "/servers/detail"), b.ledger.take("", "")
	if found.Servers != n || found.ListRequests != 1 || found.Requests != 2 {
		t.Errorf("checking %d servers takes %+v, want one request for them and one for the limits", n, found)
	}
	return found
}
