package nodefleet

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/kit"
)

// cloud simulates the parts of an OpenStack that fleets use. Its servers are active at once.
// test/e2e/openstack tests a real one.
type cloud struct {
	*bench
	url     string
	flavors int // number of flavors, all of 2 cores and 4 GiB
	zones   []string

	mu      sync.Mutex
	servers []*cloudServer
	deleted []string      // IDs
	listed  []time.Time   // when servers were listed
	outage  chan struct{} // closed when it is over; nil without an outage
	hanging int           // requests that came during the outage
	// falls starts the outage at the first request for which it returns true.
	falls func(*http.Request) bool
}

// cloudServer is a server as Nova shows it.
type cloudServer struct {
	ID        string           `json:"id"`
	Name      string           `json:"name"`
	Status    string           `json:"status"`
	Created   time.Time        `json:"created"`
	Launched  string           `json:"OS-SRV-USG:launched_at"`
	Tags      []string         `json:"tags"`
	Addresses map[string][]any `json:"addresses"`
	Flavor    map[string]any   `json:"flavor"`
	address   string           // of its port
	joined    bool             // it has a node
}

// newCloud starts a cloud for a bench.
func newCloud(b *bench, flavors int, zones ...string) *cloud {
	c := &cloud{bench: b, flavors: flavors, zones: zones}
	server := httptest.NewServer(http.HandlerFunc(c.answer))
	c.url = server.URL
	b.Cleanup(server.Close)
	b.Make(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: "cloud"}, StringData: map[string]string{
		"auth_url": c.url + "/identity/v3", "application_credential_id": "id", "application_credential_secret": "secret", "region_name": "one",
	}})
	prices := "name,cpu,memory_gib,price_per_hour\n"
	for i := range flavors {
		prices += fmt.Sprintf("m-%02d,2,4,0.%04d\n", i, 500+i)
	}
	b.Make(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: "prices"}, Data: map[string]string{"flavors.csv": prices}})
	return c
}

// rent creates a fleet of the cloud's servers.
func (c *cloud) rent(change ...func(*v1alpha1.NodeFleetSpec)) {
	c.Helper()
	c.fleet("rented", append([]func(*v1alpha1.NodeFleetSpec){func(s *v1alpha1.NodeFleetSpec) {
		s.ClusterAPI, s.Provider = nil, v1alpha1.FleetOpenStack
		s.OpenStack = &v1alpha1.OpenStackServers{
			Credentials: v1alpha1.OpenStackCredentials{Namespace: c.Space, Name: "cloud"}, Image: "node", Networks: []string{"nodes"}, MaxPods: 110,
			AvailabilityZones: c.zones, NodeLabels: map[string]string{kit.BenchLabel: c.Space},
		}
		s.Pricing.Catalogue = &v1alpha1.PriceCatalogue{Namespace: c.Space, Name: "prices", Key: "flavors.csv"}
	}}, change...)...)
}

// answer answers a request.
func (c *cloud) answer(w http.ResponseWriter, r *http.Request) {
	if !c.there(r) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	status, body := http.StatusOK, any(nil)
	switch path := strings.TrimSuffix(r.URL.Path, "/"); {
	case path == "/identity/v3/auth/tokens":
		w.Header().Set("X-Subject-Token", "token")
		status, body = http.StatusCreated, c.token()
	case path == "/image" || path == "/network":
		body = map[string]any{"versions": []any{map[string]any{"id": "v2.0", "status": "CURRENT"}}}
	case path == "/image/v2/images":
		body = map[string]any{"images": []any{map[string]any{"id": "image", "name": "node", "status": "active"}}}
	case path == "/network/v2.0/networks":
		body = map[string]any{"networks": []any{map[string]any{"id": "network", "name": "nodes"}}}
	case path == "/compute/v2.1/flavors/detail":
		body = map[string]any{"flavors": c.flavorList()}
	case path == "/compute/v2.1/os-availability-zone":
		var zones []any
		for _, name := range c.zones {
			zones = append(zones, map[string]any{"zoneName": name, "zoneState": map[string]any{"available": true}})
		}
		body = map[string]any{"availabilityZoneInfo": zones}
	case path == "/compute/v2.1/limits":
		body = map[string]any{"limits": map[string]any{"absolute": map[string]any{"maxTotalInstances": -1, "maxTotalCores": -1, "maxTotalRAMSize": -1}}}
	case path == "/compute/v2.1/servers/detail":
		c.listed = append(c.listed, time.Now())
		body = map[string]any{"servers": c.tagged(strings.Split(r.URL.Query().Get("tags"), ","))}
	case path == "/compute/v2.1/servers" && r.Method == http.MethodPost:
		status, body = http.StatusAccepted, map[string]any{"server": c.create(r)}
	case strings.HasPrefix(path, "/compute/v2.1/servers/") && r.Method == http.MethodDelete:
		status = c.delete(path[strings.LastIndexByte(path, '/')+1:])
	default:
		status = http.StatusNotFound
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if body != nil {
		_ = json.NewEncoder(w).Encode(body) // a client that has disconnected needs no answer
	}
}

// there waits for the end of an outage, and reports whether the client is still waiting.
func (c *cloud) there(r *http.Request) bool {
	c.mu.Lock()
	if c.falls != nil && c.outage == nil && c.falls(r) {
		c.outage, c.falls = make(chan struct{}), nil
	}
	outage := c.outage
	if outage != nil {
		c.hanging++
	}
	c.mu.Unlock()
	if outage == nil {
		return true
	}
	select {
	case <-outage:
		return true
	case <-r.Context().Done():
		return false
	}
}

// silent makes the cloud accept requests without answering, until the returned function is called.
func (c *cloud) silent() (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outage, c.hanging = make(chan struct{}), 0
	return c.ending()
}

// silentFrom is silent from the first request for which falls returns true.
func (c *cloud) silentFrom(falls func(*http.Request) bool) (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.falls, c.hanging = falls, 0
	return c.ending()
}

// ending returns a function that ends the outage.
func (c *cloud) ending() (end func()) {
	end = sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.outage != nil {
			close(c.outage)
		}
		c.outage, c.falls = nil, nil
	})
	c.Cleanup(end)
	return end
}

// hangs waits until a request is waiting for an answer.
func (c *cloud) hangs() {
	c.Helper()
	c.Eventually("the cloud is asked without success", func() string {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.hanging == 0 {
			return "it is not asked"
		}
		return ""
	})
}

// token returns Keystone's answer to a login.
func (c *cloud) token() any {
	var catalog []any
	for kind, path := range map[string]string{"compute": "/compute/v2.1", "image": "/image", "network": "/network"} {
		catalog = append(catalog, map[string]any{"type": kind, "endpoints": []any{map[string]any{"interface": "public", "region": "one", "region_id": "one", "url": c.url + path}}})
	}
	return map[string]any{"token": map[string]any{"expires_at": time.Now().Add(time.Hour).UTC().Format("2006-01-02T15:04:05.000000Z"), "catalog": catalog}}
}

func (c *cloud) flavorList() (all []any) {
	for i := range c.flavors {
		name := fmt.Sprintf("m-%02d", i)
		all = append(all, map[string]any{"id": name, "name": name, "vcpus": 2, "ram": 4096, "disk": 10})
	}
	return all
}

func (c *cloud) tagged(tags []string) []*cloudServer {
	found := []*cloudServer{}
	for _, s := range c.servers {
		if !slices.ContainsFunc(tags, func(tag string) bool { return !slices.Contains(s.Tags, tag) }) {
			found = append(found, s)
		}
	}
	return found
}

func (c *cloud) create(r *http.Request) *cloudServer {
	var asked struct {
		Server struct {
			Name      string   `json:"name"`
			FlavorRef string   `json:"flavorRef"`
			Tags      []string `json:"tags"`
		} `json:"server"`
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		c.Errorf("the cloud cannot read what is asked for: %v", err)
	}
	now := time.Now().UTC().Truncate(time.Second)
	s := &cloudServer{
		ID: string(uuid.NewUUID()), Name: asked.Server.Name, Status: "ACTIVE", Created: now, Launched: now.Format("2006-01-02T15:04:05.000000"),
		Tags: asked.Server.Tags, Flavor: map[string]any{"original_name": asked.Server.FlavorRef}, address: fmt.Sprintf("10.77.0.%d", len(c.servers)+1),
	}
	s.Addresses = map[string][]any{"nodes": {map[string]any{"addr": s.address, "version": 4}}}
	c.servers = append(c.servers, s)
	return s
}

func (c *cloud) delete(id string) int {
	c.deleted = append(c.deleted, id)
	c.servers = slices.DeleteFunc(c.servers, func(s *cloudServer) bool { return s.ID == id })
	return http.StatusNoContent
}

// joins creates the nodes of servers during waits. identify makes a node identify its server; i is the number
// of the server, from 0.
func (c *cloud) joins(identify func(i int, s *cloudServer, n *corev1.Node)) {
	c.Meanwhile = func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for i, s := range c.servers {
			if s.joined {
				continue
			}
			n, err := playground.NodeSpec{Name: fmt.Sprintf("%s-node-%s", c.Space, s.ID[:8]), CPU: "2", Memory: "4Gi", Labels: map[string]string{kit.BenchLabel: c.Space}}.Node()
			if err != nil {
				c.Fatal(err)
			}
			identify(i, s, n)
			c.Make(n)
			s.joined = true
		}
	}
}

// rounds waits until the fleet has listed its servers several times after a time.
func (c *cloud) rounds(after time.Time) {
	c.Helper()
	c.Eventually(fmt.Sprintf("the fleet checks its servers after %v", after.Format(time.TimeOnly)), func() string {
		c.mu.Lock()
		defer c.mu.Unlock()
		n := 0
		for _, at := range c.listed {
			if at.After(after) {
				n++
			}
		}
		if n < 3 {
			return fmt.Sprintf("it has %d times", n)
		}
		return ""
	})
}

// read returns how many servers exist, how many were deleted, and when the last one was created.
func (c *cloud) read() (there, deleted int, last time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.servers {
		if s.Created.After(last) {
			last = s.Created
		}
	}
	return len(c.servers), len(c.deleted), last
}

// forget deletes the nodes of the bench at its end, because no Machine deletes them.
func (c *cloud) forget() {
	c.Cleanup(func() {
		for _, n := range c.Nodes() {
			if err := c.Delete(context.WithoutCancel(c.Context()), &n); client.IgnoreNotFound(err) != nil {
				c.Errorf("delete node %s: %v", n.Name, err)
			}
		}
	})
}

// silence stops the heartbeat of a node, whose pods stay.
func (c *cloud) silence(n *corev1.Node) {
	c.Helper()
	before := n.DeepCopy()
	delete(n.Annotations, "kwok.x-k8s.io/node")
	if err := c.Patch(c.Context(), n, client.MergeFrom(before)); err != nil {
		c.Fatalf("silence node %s: %v", n.Name, err)
	}
	before = n.DeepCopy()
	n.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown", LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now(),
	}}
	if err := c.Status().Patch(c.Context(), n, client.StrategicMergeFrom(before)); err != nil {
		c.Fatalf("silence node %s: %v", n.Name, err)
	}
}
