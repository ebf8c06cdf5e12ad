//go:build openstack

package openstack

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/autoscaler/provider/openstack"
)

// table7 contains the flavors that openstack.sh makes: those of the HTAS paper's table 7, with vCPUs, GiB and
// dollars per hour.
var table7 = []struct {
	name      string
	cpus, gib int64
	price     string
}{
	{"t3.xsmall", 1, 1, "0.0198"}, {"m3.xsmall", 1, 2, "0.0344"}, {"m3.small", 2, 4, "0.0686"},
	{"m1.medium", 2, 8, "0.1371"}, {"m1.large", 4, 16, "0.2746"}, {"m1.xlarge", 8, 32, "0.5479"},
}

const home = "supercargo-system"

// bench is a fleet in a project without a cluster: the test adds its nodes.
type bench struct {
	*project
	kube   client.Client
	clouds *openstack.Clouds
	fleet  *v1alpha1.NodeFleet
	nodes  map[string]*corev1.Node
	ledger *ledger
	orders int // number of purchases by keep
}

// newBench returns a bench for a fleet that may buy all flavors in the roomy zone.
func newBench(p *project, change ...func(*v1alpha1.OpenStackServers)) *bench {
	p.Helper()
	b := &bench{project: p, nodes: map[string]*corev1.Node{}, ledger: &ledger{}}
	b.fleet = &v1alpha1.NodeFleet{
		ObjectMeta: metav1.ObjectMeta{Name: "batch", UID: types.UID(p.name), Generation: 1},
		Spec:       v1alpha1.NodeFleetSpec{Provider: v1alpha1.FleetOpenStack, OpenStack: serversSpec("cloud")},
	}
	b.fleet.Spec.Scaling.BackOff.Duration = time.Hour
	for _, f := range change {
		f(b.fleet.Spec.OpenStack)
	}
	b.kube = fake.NewClientBuilder().WithObjects(cloudsSecret("cloud", p.name, userPassword)).Build()
	b.restart()
	return b
}

func serversSpec(secret string) *v1alpha1.OpenStackServers {
	return &v1alpha1.OpenStackServers{
		Credentials: v1alpha1.OpenStackCredentials{Namespace: home, Name: secret},
		Image:       "node", Networks: []string{"nodes"}, MaxPods: 110,
		Reserved: v1alpha1.OpenStackReserve{Memory: resource.MustParse("256Mi")},
	}
}

func cloudsSecret(name, user, password string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: name},
		Data: map[string][]byte{"clouds.yaml": fmt.Appendf(nil,
			"clouds:\n  test:\n    auth:\n      auth_url: %s\n      username: %q\n      password: %q\n      project_name: %q\n"+
				"      user_domain_name: Default\n      project_domain_name: Default\n    region_name: RegionOne\n",
			os.Getenv(variableIdentity), user, password, user)},
	}
}

// restart drops all state of the process.
func (b *bench) restart() {
	b.clouds = &openstack.Clouds{Live: b.kube, Writer: b.kube, Clock: clock.RealClock{}, Cluster: b.id, Wrap: b.ledger.wrap}
}

func (b *bench) provider() *openstack.Provider { return b.clouds.For(b.fleet, b.nodes) }

func (b *bench) observe() *provider.Inventory {
	b.Helper()
	found, err := b.provider().Observe(b.Context())
	b.try("observe", err)
	return found
}

func (b *bench) buy(intent, flavor string, from, to int) {
	b.Helper()
	b.try("buy", b.provider().Buy(b.Context(), intent, flavor, from, to))
}

// flavor returns the observed flavor.
func (b *bench) flavor(name string) provider.Flavor {
	b.Helper()
	all := b.observe().Flavors
	at := slices.IndexFunc(all, func(f provider.Flavor) bool { return f.Name == name })
	if at < 0 {
		b.Fatalf("there is no flavor %s in %v", name, all)
	}
	return all[at]
}

// clean observes and removes leftovers.
func (b *bench) clean() {
	b.Helper()
	p := b.provider()
	_, err := p.Observe(b.Context())
	b.try("observe", err)
	b.try("clean", p.Clean(b.Context()))
}

// settled waits until Nova has finished all operations on servers, and returns them.
func (b *bench) settled() []servers.Server {
	b.Helper()
	var all []servers.Server
	b.eventually("the servers are made", func() string {
		all = b.servers()
		for i := range all {
			if s := &all[i]; s.Status != "ACTIVE" && s.Status != "ERROR" || s.TaskState != "" {
				return fmt.Sprintf("server %s is %s %s", s.Name, s.Status, s.TaskState)
			}
		}
		return ""
	})
	return all
}

// node adds a node on a server.
func (b *bench) node(name, server string, change ...func(*corev1.Node)) {
	b.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{v1alpha1.LabelFleet: b.fleet.Name}}}
	n.Spec.ProviderID = "openstack:///" + server
	n.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour))
	for _, f := range change {
		f(n)
	}
	b.try("make a node", b.kube.Create(b.Context(), n))
	b.nodes[name] = n
}

// ledger counts requests, and can intercept them.
type ledger struct {
	mu       sync.Mutex
	requests []string
	// now is the number of requests in progress, highest its maximum.
	now, highest int
	// before may answer instead of the cloud; after may observe or replace the cloud's answer.
	before func(*http.Request) (*http.Response, error)
	after  func(*http.Request, *http.Response) (*http.Response, error)
}

func (l *ledger) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		l.mu.Lock()
		l.requests = append(l.requests, r.Method+" "+r.URL.Path)
		l.now++
		l.highest = max(l.highest, l.now)
		before, after := l.before, l.after
		l.mu.Unlock()
		defer func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.now--
		}()
		if before != nil {
			if answer, err := before(r); answer != nil || err != nil {
				return answer, err
			}
		}
		answer, err := next.RoundTrip(r)
		if err == nil && after != nil {
			return after(r, answer)
		}
		return answer, err
	})
}

// intercept sets the functions that intercept requests.
func (l *ledger) intercept(before func(*http.Request) (*http.Response, error), after func(*http.Request, *http.Response) (*http.Response, error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.before, l.after = before, after
}

// most returns the maximum number of concurrent requests.
func (l *ledger) most() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.highest
}

// count returns the number of requests by method prefix and path suffix.
func (l *ledger) count(method, suffix string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.requests {
		if strings.HasPrefix(r, method) && strings.HasSuffix(r, suffix) {
			n++
		}
	}
	return n
}

// take returns the same count, and resets it.
func (l *ledger) take(method, suffix string) int {
	n := l.count(method, suffix)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests = nil
	return n
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
