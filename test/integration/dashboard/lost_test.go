package dashboard

import (
	"crypto/tls"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"supercargo.dev/supercargo/cli/dashboard/connection"
	"supercargo.dev/supercargo/cli/status"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/chaos/proxy"
	"supercargo.dev/supercargo/test/kit/testapi"
)

// slack is what a busy computer may add to a bound.
const slack = 10 * time.Second

// behind returns a proxy before the API server of a playground, and the configuration of a client of it.
func behind(t *testing.T, p *playground.Playground) (*proxy.Proxy, *rest.Config) {
	t.Helper()
	config := rest.CopyConfig(p.Config())
	config.Proxy = nil
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	pki := filepath.Join(p.Dir(), "pki", "apiserver")
	certificate, err := tls.LoadX509KeyPair(pki+".crt", pki+".key")
	if err != nil {
		t.Fatal(err)
	}
	through, err := proxy.New(config.Host, transport, certificate, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := through.Close(); err != nil {
			t.Error(err)
		}
	})
	config.Host = through.URL()
	return through, config
}

// TestALostAPIServerIsSaidAndItsReturnToo lets the API server refuse connections, vanish without the end of its
// connections, and lose its database. Each is said within the bound, and what changed meanwhile is shown soon after it
// has returned.
func TestALostAPIServerIsSaidAndItsReturnToo(t *testing.T) {
	p := playground.ForTest(t, playground.Options{Nodes: playground.Fleet(2), NoScheduler: true, NoKwok: true, NoControllerManager: true})
	if err := p.InstallCRDs(t.Context()); err != nil {
		t.Fatal(err)
	}
	through, config := behind(t, p)
	through.Set(proxy.Weather{Refuse: true})
	r := listen(t, run(t, config))
	says := func() connection.Status { return read[connection.Status](t, r, "connection/") }
	within := func(what string, bound time.Duration, is func() bool) {
		t.Helper()
		begin := time.Now()
		r.until(t, what, is)
		took := time.Since(begin)
		t.Logf("%s: after %.1f s", what, took.Seconds())
		if took > bound+slack {
			t.Errorf("%s after %v, want %v", what, took, bound)
		}
	}
	within("a server that was never reached is said", connection.Found, func() bool {
		s := says()
		if s.State == connection.Live || s.Since != 0 {
			t.Fatalf("%+v, though nothing was ever read", s)
		}
		return s.State == connection.Unreachable
	})
	const soon = 10 * time.Second
	through.Set(proxy.Weather{})
	within("it is read", soon, func() bool {
		return says().State == connection.Live && read[status.Summary](t, r, "summary/").Nodes == 2
	})

	admin := clientOf(t, p.Config())
	nodes := 2
	for _, lost := range []struct {
		name    string
		weather proxy.Weather
	}{{"refuses", proxy.Weather{Refuse: true}}, {"vanishes", proxy.Weather{Swallow: true}}} {
		through.Set(lost.weather)
		begin := time.Now()
		within("a server that "+lost.name+" is said", connection.Found, func() bool { return says().State == connection.Unreachable })
		if s := says(); time.UnixMilli(s.Since).After(begin.Add(time.Second)) || begin.Sub(time.UnixMilli(s.Since)) > connection.Found {
			t.Errorf("the figures are said to be from %v, want the last answer before %v", time.UnixMilli(s.Since), begin)
		}
		nodes++
		testapi.Create(t, admin, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: lost.name}})
		through.Set(proxy.Weather{})
		within("the return of a server that "+lost.name+" is said", soon, func() bool {
			if says().State == connection.Live && read[status.Summary](t, r, "summary/").Nodes != nodes {
				t.Logf("live with %d nodes of %d", read[status.Summary](t, r, "summary/").Nodes, nodes)
				return false
			}
			return says().State == connection.Live
		})
	}

	if err := p.StopEtcd(); err != nil {
		t.Fatal(err)
	}
	within("a server without its database is said", connection.Found+5*time.Second, func() bool { return says().State != connection.Live })
	if err := p.StartEtcd(t.Context()); err != nil {
		t.Fatal(err)
	}
	within("the return of the database is said", 3*soon, func() bool { return says().State == connection.Live })
}
