package replica

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	adapter "supercargo.dev/supercargo/autoscaler/adapter/app"
	"supercargo.dev/supercargo/autoscaler/app"
	"supercargo.dev/supercargo/internal/platform/operator"
	"supercargo.dev/supercargo/internal/platform/promql/source"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// adapterService is the name of the Service of both adapters.
const adapterService = "metrics-adapter"

// adapters contains two metrics adapters that measure the same service independently, behind one address that
// simulates their Service.
type adapters struct {
	*bench
	url   string // of PromQL at the Service, for the autoscaler
	files struct{ authorities, token string }

	mu       sync.Mutex
	replicas []*replicaOfAdapter
	phase    int // a new series for each, which leaves a history
}

// replicaOfAdapter is one of the adapters.
type replicaOfAdapter struct {
	address string // with authentication
	queries string // PromQL without
	// end stops it and waits until it has ended.
	end func()
}

// newAdapters starts both adapters.
func newAdapters(b *bench) *adapters {
	b.Helper()
	a := &adapters{bench: b}
	target := httptest.NewServer(http.HandlerFunc(a.scraped))
	b.Cleanup(target.Close)
	for n := range 2 {
		a.start(n, strings.TrimPrefix(target.URL, "http://"))
	}
	a.balance()
	a.reader()
	return a
}

// scraped serves the current metrics of the service to both.
func (a *adapters) scraped(w http.ResponseWriter, _ *http.Request) {
	a.mu.Lock()
	fmt.Fprintf(w, "phase %d\n", a.phase)
	a.mu.Unlock()
	a.metrics.set(func(m *metricsServer) {
		for _, name := range []string{"rate", "response", "queue"} {
			fmt.Fprintf(w, "service_%s %v\n", name, m.value(name))
		}
	})
}

// next begins the next phase.
func (a *adapters) next() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.phase++
}

// start starts one adapter.
func (a *adapters) start(n int, target string) {
	a.Helper()
	dir := a.TempDir()
	configuration := filepath.Join(dir, "metrics.yaml")
	text := "apiVersion: adapter.supercargo.dev/v1alpha1\nkind: MetricsAdapterConfiguration\ntargets: [{job: web, addresses: [" + fmt.Sprintf("%q", target) + "], interval: 1s}]\n"
	testfile.Write(a, configuration, text)
	o := adapter.Defaults()
	o.Config = operator.Throttle(a.Site.Config())
	o.UseKubeconfig(a.Site.KubeconfigPath())
	o.Configuration, o.Service, o.Kubelets.Scrape, o.History = configuration, a.Space+"/"+adapterService, false, false
	o.Scrape.Interval, o.Store.Dir, o.Log = time.Second, filepath.Join(dir, "store"), a.Logs.Logger(fmt.Sprintf("adapter-%d", n))
	listener, queries := a.listen(), a.listen()
	o.Server.SecureServing.Listener, o.Server.SecureServing.BindPort = listener, listener.Addr().(*net.TCPAddr).Port
	r := &replicaOfAdapter{address: listener.Addr().String(), queries: queries.Addr().String()}
	o.QueryAddress = r.queries
	if err := queries.Close(); err != nil { // the adapter opens the port itself
		a.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(a.Context()))
	done := make(chan error, 1)
	go func() { done <- adapter.Run(ctx, o) }()
	r.end = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			a.Errorf("adapter %d: %v", n, err)
		}
	})
	a.Cleanup(r.end)
	a.replicas = append(a.replicas, r)
}

func (a *adapters) listen() net.Listener {
	a.Helper()
	listener, err := (&net.ListenConfig{}).Listen(a.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		a.Fatal(err)
	}
	return listener
}

// balance simulates the Service: each connection goes to the first adapter that accepts it.
func (a *adapters) balance() {
	listener := a.listen()
	a.Cleanup(func() { listener.Close() })
	a.url = "https://" + listener.Addr().String() + "/prometheus"
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			go a.pass(from)
		}
	}()
}

func (a *adapters) pass(from net.Conn) {
	defer func() { _ = from.Close() }()
	for _, r := range a.replicas {
		to, err := net.DialTimeout("tcp", r.address, time.Second)
		if err != nil {
			continue
		}
		defer func() { _ = to.Close() }()
		go func() {
			_, _ = io.Copy(to, from)
			_ = to.Close()
		}()
		_, _ = io.Copy(from, to)
		return
	}
}

// reader creates an account with permission to query, and files with its token and with the CAs that the
// adapters have published.
func (a *adapters) reader() {
	a.Helper()
	a.Make(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: a.Space + "-reader"}, Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/prometheus/*"}, Verbs: []string{"get", "post"}}}})
	a.Make(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: a.Space + "-reader"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: a.Space + "-reader"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: a.Space, Name: "default"}},
	})
	request, err := a.Site.Playground.Client().CoreV1().ServiceAccounts(a.Space).CreateToken(a.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		a.Fatal(err)
	}
	var authorities []byte
	a.Eventually("the adapters share a certificate", func() string {
		var secret corev1.Secret
		if err := a.Get(a.Context(), a.Key(adapterService+"-certificate"), &secret); err != nil {
			return err.Error()
		}
		authorities = secret.Data["ca.crt"]
		return ""
	})
	dir := a.TempDir()
	a.files.authorities, a.files.token = filepath.Join(dir, "ca.crt"), filepath.Join(dir, "token")
	for file, text := range map[string][]byte{a.files.authorities: authorities, a.files.token: []byte(request.Status.Token)} {
		testfile.Write(a, file, text)
	}
}

// source returns the autoscaler's configuration, which uses the name of the Service.
func (a *adapters) source() source.Config {
	c := source.Config{Name: source.Default, Timeout: span(2 * time.Second)}
	c.URL, c.CAFile, c.TokenFile = a.url, a.files.authorities, a.files.token
	return c
}

// ask queries one adapter in PromQL for one value.
func (r *replicaOfAdapter) ask(ctx context.Context, query string) string {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.queries+"/api/v1/query?query="+url.QueryEscape(query), http.NoBody)
	if err != nil {
		return err.Error()
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	var answer struct {
		Data struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return err.Error()
	}
	if len(answer.Data.Result) != 1 {
		return fmt.Sprintf("%d values", len(answer.Data.Result))
	}
	return fmt.Sprint(answer.Data.Result[0].Value[1])
}

// history returns the history of phases in an adapter.
func (a *adapters) history(r *replicaOfAdapter) string {
	return r.ask(a.Context(), "changes(phase[10m])") + " changes from " + r.ask(a.Context(), "min_over_time(phase[10m])") + " to " + r.ask(a.Context(), "max_over_time(phase[10m])")
}

// TestAPolicyContinuesWhenOneOfTwoMetricsAdaptersDies checks that the other adapter has measured all the time.
// It serves the same certificate and the same history, and the service keeps its replicas and follows its
// load.
func TestAPolicyContinuesWhenOneOfTwoMetricsAdaptersDies(t *testing.T) {
	t.Parallel()
	b := newBench(t, "adapters")
	b.deployment("web", 2)
	a := newAdapters(b)
	b.policy("web", func(s *v1alpha1.ReplicaPolicySpec) {
		s.Metrics.Queries = &v1alpha1.MetricQueries{ArrivalRate: "avg_over_time(service_rate[3s])", ResponseTime: "service_response", QueueLength: "service_queue"}
	})
	b.autoscale(func(o *app.Options) { o.MetricSources = []source.Config{a.source()} })
	b.becomes(11, 20)
	for range 2 {
		a.next()
		for n, r := range a.replicas {
			b.Eventually(fmt.Sprintf("adapter %d sees the phase", n), func() string {
				if got, want := r.ask(b.Context(), "phase"), fmt.Sprint(a.phase); got != want {
					return got + ", want " + want
				}
				return ""
			})
		}
	}
	const phases = "2 changes from 0 to 2"
	if got := a.history(a.replicas[0]); got != phases {
		t.Errorf("the first adapter knows of %s, want %s", got, phases)
	}
	before := b.asked()

	a.replicas[0].end()
	died := time.Now()
	if got := a.history(a.replicas[1]); got != phases {
		t.Errorf("the adapter that is left knows of %s, want %s, as the one that died", got, phases)
	}
	b.Eventually("the policy is measured after the death of an adapter", func() string {
		p := &v1alpha1.ReplicaPolicy{}
		if err := b.Get(b.Context(), client.ObjectKey{Namespace: b.Space, Name: "web"}, p); err != nil {
			return err.Error()
		}
		if seen := p.Status.LastObservation; seen == nil || !seen.Time.After(died.Add(2*time.Second)) {
			return fmt.Sprintf("the last observation is %+v, the adapter died at %v", seen, died)
		}
		return ""
	})
	b.condition("web", v1alpha1.PolicyMeasured, metav1.ConditionTrue, "Measured")
	if after := b.asked(); after < 11 || after > 20 || before < 11 || before > 20 {
		t.Errorf("%d replicas before the death of an adapter and %d after it, want 11 to 20 as the load asks for", before, after)
	}
	b.metrics.set(func(m *metricsServer) { m.rate = 300 })
	b.becomes(32, 50)
}
