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

// asking is how long it takes to ask for servers.
type asking struct {
	// Servers are asked for in one decision, AtATime of them at most.
	Servers int `json:"servers"`
	AtATime int `json:"atATime"`
	// AskedSeconds is until Nova has said yes to all, UpSeconds until all are ACTIVE.
	AskedSeconds float64 `json:"askedSeconds"`
	UpSeconds    float64 `json:"upSeconds"`
}

// looking is what it takes to look at servers.
type looking struct {
	Servers int `json:"servers"`
	// Requests are all of one observation, ListRequests those for servers among them.
	Requests     int     `json:"requests"`
	ListRequests int     `json:"listRequests"`
	Seconds      float64 `json:"seconds"`
}

// TestSpeed measures, and writes what it has measured to the file that the variable names.
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
	b.patience = time.Hour // it is measured, and not judged
	b.observe()            // as the round does that decides
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
	// One thousand would be two pages. They are made 37 at a time, without ports: most of the
	// time would go into those.
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
	b.observe() // logs in and looks up what the spec names
	b.ledger.take("", "")
	began := time.Now()
	found.Servers = len(b.observe().Machines)
	found.Seconds = time.Since(began).Seconds()
	found.ListRequests, found.Requests = b.ledger.count("GET", "/servers/detail"), b.ledger.take("", "")
	if found.Servers != n || found.ListRequests != 1 || found.Requests != 2 {
		t.Errorf("looking at %d servers takes %+v, want one request for them and one for the limits", n, found)
	}
	return found
}
