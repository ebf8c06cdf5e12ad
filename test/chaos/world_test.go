//go:build chaos

package chaos

import (
	"context"
	"crypto/tls"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/platform/kinds"
	"supercargo.dev/supercargo/lab/compressed"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/manifests"
	"supercargo.dev/supercargo/test/chaos/proxy"
	"supercargo.dev/supercargo/test/kit"
	"supercargo.dev/supercargo/test/kit/testapi"
	"supercargo.dev/supercargo/test/kit/testfile"
)

var (
	seedFlag   = flag.Uint64("seed", 1, "of the work and of the faults")
	lastsFlag  = flag.Duration("lasts", 10*time.Minute, "for how long there are faults, or for how long a soak lasts")
	outFlag    = flag.String("out", "", "folder for the events, the logs and the audit log; a temporary one if empty")
	reportFlag = flag.String("report", "", "file for its outcome, as JSON")
	onlyFlag   = flag.String("only", "", "the one kind of fault to have; empty is all")
	everyFlag  = flag.Duration("every", time.Minute, "how often a soak takes samples")
)

func TestMain(m *testing.M) {
	flag.Parse()
	ctrl.SetLogger(kit.GlobalLog.Logger("global"))
	os.Exit(m.Run())
}

//go:embed audit-policy.yaml
var auditPolicy []byte

const (
	// home is the namespace of the programs, space that of the work.
	home, space = "supercargo-system", "work"
	// labelAgent names the agent that simulates the node.
	labelAgent = "chaos/agent"
	// labelOwn marks the nodes that belong to no NodeFleet.
	labelOwn = "chaos/own"
	// startUp bounds the time from the order of a machine to its Node; the mean is 1 s less.
	startUp = 6 * time.Second
	// stretch is the ratio of the NodeFleet's waits to those of the demo.
	stretch = float64(startUp) / float64(compressed.Lag)
	// etcdQuota is the size of the data, in bytes, at which etcd refuses writes.
	etcdQuota = 192 << 20
	// agentDisk is the size of the agents' own disk in bytes.
	agentDisk = 64 << 20
	// drainTimeout bounds the drain of a node by the descheduler.
	drainTimeout = 2 * time.Minute
)

// flavors are the machines that the NodeFleet can buy.
var flavors = []playground.MachineDeploymentSpec{
	{Name: "small", CPU: "2", Memory: "8Gi", PricePerHour: "0.10", Labels: map[string]string{labelAgent: "a"}},
	{Name: "medium", CPU: "4", Memory: "16Gi", PricePerHour: "0.19", Labels: map[string]string{labelAgent: "b"}},
	{Name: "large", CPU: "8", Memory: "32Gi", PricePerHour: "0.36", Labels: map[string]string{labelAgent: "a"}},
}

// nodes returns the nodes that belong to no NodeFleet. The descheduler drains them.
func nodes() (all []playground.NodeSpec) {
	for i := range 4 {
		all = append(all, playground.NodeSpec{
			Name: fmt.Sprintf("own-%d", i), CPU: "3", Memory: "12Gi",
			Labels:      map[string]string{labelAgent: string("ab"[i%2]), labelOwn: "true"},
			Annotations: map[string]string{v1alpha1.AnnotationPricePerHour: "0.15"},
		})
	}
	return all
}

// program is a program with several replicas.
type program struct {
	name string
	// lease and namespace name its Lease. They are empty if all replicas act.
	lease, namespace string
	replicas         []*replica
}

// world is a cluster with everything that runs on it.
type world struct {
	*testing.T
	p        *playground.Playground
	client   client.WithWatch
	programs []*program
	events   *events
	out      string
	disk     string // of the agents; empty if there is none that can be filled
	ports    int    // the last one tried, as an offset
}

// start starts the cluster and all programs. They are stopped when the test ends, if not before.
func start(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, out: *outFlag}
	if w.out == "" {
		w.out = t.TempDir()
	}
	if err := os.MkdirAll(w.out, 0o750); err != nil {
		t.Fatal(err)
	}
	w.events = newEvents(t, filepath.Join(w.out, "events.jsonl"))
	w.p = playground.ForTest(t, playground.Options{
		ClusterAPI: true, NoScheduler: true, Nodes: nodes(), AuditPolicy: auditPolicy, EtcdQuotaBytes: etcdQuota,
	})
	scheme, err := kinds.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	config := w.p.Config()
	config.Timeout = requestTimeout
	if w.client, err = client.NewWithWatch(config, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	w.furnish()
	w.addDisk()
	w.addPrograms()
	return w
}

// furnish creates the CustomResourceDefinitions, the namespaces, the flavors and the NodeFleet.
func (w *world) furnish() {
	w.Helper()
	ctx := w.Context()
	if err := w.p.InstallCRDs(ctx); err != nil {
		w.Fatal(err)
	}
	for _, name := range []string{home, space} {
		w.make(kit.Namespace(name))
	}
	for _, spec := range flavors {
		spec.Flavor, spec.MachineType, spec.Max = spec.Name, spec.Name, 8
		spec.AcquisitionLag, spec.AcquisitionLagSD, spec.ReleaseLag = startUp-time.Second, 300*time.Millisecond, 2*time.Second
		if err := w.p.AddMachineDeployment(ctx, spec); err != nil {
			w.Fatal(err)
		}
	}
	fleet := compressed.Fleet("all", stretch)
	fleet.Spec.Mode = v1alpha1.FleetAct
	fleet.Spec.Limits.Machines = new(int32(16))
	fleet.Spec.Consolidation.Policy = v1alpha1.ConsolidateWhenUnderUsed
	w.make(fleet)
}

func (w *world) make(o client.Object) {
	w.Helper()
	testapi.Create(w, w.client, o)
}

// addDisk mounts a small disk for the agents. Without root it only notes that there is none.
func (w *world) addDisk() {
	w.Helper()
	dir := filepath.Join(w.TempDir(), "disk")
	if err := os.Mkdir(dir, 0o700); err != nil {
		w.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+strconv.Itoa(agentDisk)); err != nil {
		w.events.note("no disk of the agents can be filled", map[string]any{"why": err.Error()})
		return
	}
	w.disk = dir
	w.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			w.Errorf("unmount the disk of the agents: %v", err)
		}
	})
}

// addPrograms starts two replicas of each program.
func (w *world) addPrograms() {
	w.Helper()
	agents := w.disk
	if agents == "" {
		agents = w.TempDir()
	}
	for _, p := range []struct {
		program
		args func(n int, kubeconfig string, port func() string) (args []string, metrics string)
	}{
		{program{name: "autoscaler", lease: "autoscaler." + v1alpha1.GroupName, namespace: home}, func(_ int, kubeconfig string, port func() string) ([]string, string) {
			at := port()
			return []string{"--kubeconfig", kubeconfig, "--leader-elect-namespace", home, "--metrics-bind-address", at, "--health-probe-bind-address", "0"}, "http://" + at + "/metrics"
		}},
		{program{name: "descheduler", lease: "descheduler." + v1alpha1.GroupName, namespace: home}, func(_ int, kubeconfig string, port func() string) ([]string, string) {
			at := port()
			return []string{
				"--kubeconfig", kubeconfig, "--leader-elect-namespace", home, "--metrics-bind-address", at, "--health-probe-bind-address", "0",
				// The default waits of minutes are too long for a run of minutes.
				"--consolidation", "Act", "--consolidation-interval", "10s", "--pod-residence", "20s", "--under-used-for", "5s", "--queue-empty-for", "3s",
				"--move-services", "--billing-period", "10s", "--drain-timeout", drainTimeout.String(), "--clean-up-patience", "30s",
			}, "http://" + at + "/metrics"
		}},
		{program{name: "kube-scheduler", lease: "kube-scheduler", namespace: "kube-system"}, func(n int, kubeconfig string, port func() string) ([]string, string) {
			at := port()
			_, number, _ := net.SplitHostPort(at)
			return []string{
				"--config", w.schedulerConfig(n, kubeconfig), "--bind-address", "127.0.0.1", "--secure-port", number,
				"--authorization-always-allow-paths", "/healthz,/readyz,/livez,/metrics",
			}, "https://" + at + "/metrics"
		}},
		{program{name: "node-agent"}, func(n int, kubeconfig string, port func() string) ([]string, string) {
			at, name := port(), string("ab"[n-1])
			return []string{
				"--kubeconfig", kubeconfig, "--simulate", labelAgent + "=" + name, "--listen-address", port(), "--serve-address", at, "--work-size", "",
				"--state-dir", filepath.Join(agents, name, "state"), "--work-dir", filepath.Join(agents, name, "work"), "--probe-state-dir", filepath.Join(agents, name, "probe"),
				"--simulate-memory", "0.01", "--sweep-every", "1m",
			}, "http://" + at + "/metrics"
		}},
	} {
		one := p.program
		for n := 1; n <= 2; n++ {
			r := w.newReplica(&one, n)
			r.args, r.metrics = p.args(n, w.kubeconfig(r), w.port)
			one.replicas = append(one.replicas, r)
		}
		w.programs = append(w.programs, &one)
	}
	for _, p := range w.programs {
		for _, r := range p.replicas {
			go r.run(w.binary(p.name))
		}
	}
}

// newReplica returns a replica with its proxy and its log.
func (w *world) newReplica(p *program, n int) *replica {
	w.Helper()
	name := fmt.Sprintf("%s-%d", p.name, n)
	config := w.p.Config()
	config.Proxy = nil
	transport, err := rest.TransportFor(config)
	if err != nil {
		w.Fatal(err)
	}
	pki := filepath.Join(w.p.Dir(), "pki", "apiserver")
	certificate, err := tls.LoadX509KeyPair(pki+".crt", pki+".key")
	if err != nil {
		w.Fatal(err)
	}
	through, err := proxy.New(config.Host, transport, certificate, *seedFlag+uint64(n))
	if err != nil {
		w.Fatal(err)
	}
	log, err := os.Create(filepath.Join(w.out, name+".log"))
	if err != nil {
		w.Fatal(err)
	}
	r := &replica{program: p, name: name, proxy: through, log: log, events: w.events, done: make(chan struct{})}
	w.Cleanup(func() {
		_ = r.signal(syscall.SIGKILL) // still running only if the test has failed
		_ = r.stop()
		if err := r.close(); err != nil {
			w.Error(err)
		}
	})
	return r
}

// stopPrograms stops all replicas in parallel, and returns those that did not end properly.
func (w *world) stopPrograms() (broken []string) {
	var all sync.WaitGroup
	var mu sync.Mutex
	for _, r := range w.replicas() {
		all.Go(func() {
			if err := r.stop(); err != nil {
				mu.Lock()
				defer mu.Unlock()
				broken = append(broken, err.Error())
			}
		})
	}
	all.Wait()
	return broken
}

// replicas returns the replicas of all programs.
func (w *world) replicas() (all []*replica) {
	for _, p := range w.programs {
		all = append(all, p.replicas...)
	}
	return all
}

// program returns the program of that name.
func (w *world) program(name string) *program {
	return w.programs[slices.IndexFunc(w.programs, func(p *program) bool { return p.name == name })]
}

// binary returns the path of a program's binary, which make has built.
func (w *world) binary(name string) string {
	w.Helper()
	dir := os.Getenv("SUPERCARGO_BIN")
	if dir == "" {
		w.Fatal("SUPERCARGO_BIN does not name the folder of the binaries: run `make chaos`")
	}
	return filepath.Join(dir, name)
}

// port returns the host:port of a free port. It is below the ephemeral range, so that the kernel does
// not assign it to a connection while its replica is down.
func (w *world) port() string {
	w.Helper()
	const first, last = 20_000, 32_000
	for range last - first {
		if w.ports == 0 {
			w.ports = os.Getpid() * 31
		}
		w.ports++
		at := net.JoinHostPort("127.0.0.1", strconv.Itoa(first+w.ports%(last-first)))
		if l, err := net.Listen("tcp4", at); err == nil {
			_ = l.Close()
			return at
		}
	}
	w.Fatal("no port is free")
	return ""
}

// kubeconfig writes a kubeconfig that points a replica to its proxy, and returns its path.
func (w *world) kubeconfig(r *replica) string {
	w.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["chaos"] = &clientcmdapi.Cluster{Server: r.proxy.URL(), CertificateAuthorityData: w.p.Config().CAData}
	config.Contexts["chaos"] = &clientcmdapi.Context{Cluster: "chaos"}
	config.CurrentContext = "chaos"
	path := filepath.Join(w.TempDir(), r.name+".kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		w.Fatal(err)
	}
	return path
}

// schedulerConfig writes the shipped scheduler configuration with a kubeconfig, and returns its path.
func (w *world) schedulerConfig(n int, kubeconfig string) string {
	w.Helper()
	var fields map[string]any
	testfile.StrictYAML(w, manifests.SchedulerConfig, &fields)
	fields["clientConnection"] = map[string]any{"kubeconfig": kubeconfig}
	text, err := yaml.Marshal(fields)
	path := filepath.Join(w.TempDir(), fmt.Sprintf("scheduler-%d.yaml", n))
	if err = errors.Join(err, os.WriteFile(path, text, 0o600)); err != nil {
		w.Fatal(err)
	}
	return path
}

// poll calls check until it returns an empty text. It returns the last text on timeout.
func (w *world) poll(patience time.Duration, check func(context.Context) string) string {
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for last := ""; ; {
		said := check(ctx)
		if said == "" {
			return ""
		}
		if ctx.Err() == nil || last == "" {
			last = said
		}
		select {
		case <-ctx.Done():
			return last
		case <-w.p.Done():
			return fmt.Sprintf("the playground has ended: %v", w.p.Err())
		case <-tick.C:
		}
	}
}

// unlimited is an HTTP client for metrics that accepts self-signed certificates.
var unlimited = &http.Client{Timeout: requestTimeout, Transport: &http.Transport{
	TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // kube-scheduler makes its certificate itself
}}

// events writes the events of the run to a file, one JSON object per line.
type events struct {
	mu   sync.Mutex
	file *os.File
}

func newEvents(t *testing.T, path string) *events {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	e := &events{file: file}
	t.Cleanup(func() {
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// note writes an event with its time.
func (e *events) note(what string, fields map[string]any) {
	line := map[string]any{"time": time.Now().UTC().Format(time.RFC3339Nano), "what": what}
	for k, v := range fields {
		line[k] = v
	}
	text, err := json.Marshal(line)
	if err != nil {
		text = fmt.Appendf(nil, "%q", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	_, _ = e.file.Write(append(text, '\n'))
}

// namespaced is the list option for the namespace of the work.
var namespaced = client.InNamespace(space)

// podsOf lists the pods of the work.
func (w *world) podsOf(ctx context.Context) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := w.client.List(ctx, &list, namespaced)
	return list.Items, err
}
