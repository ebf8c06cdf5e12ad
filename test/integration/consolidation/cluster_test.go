//go:build soak

package consolidation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/agent"
	"supercargo.dev/supercargo/descheduler/app"
	"supercargo.dev/supercargo/descheduler/checkpoint/simulated"
	"supercargo.dev/supercargo/descheduler/consolidation"
	"supercargo.dev/supercargo/descheduler/eviction"
	"supercargo.dev/supercargo/internal/platform/operator"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/kit"
	"supercargo.dev/supercargo/test/kit/testapi"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// home is the namespace of the descheduler.
const home = "supercargo-system"

// cluster is a control plane with the nodes and the workload of one run, and the ledger that observes it.
type cluster struct {
	*testing.T
	setting
	site   *kit.Site
	ledger *ledger
	log    *kit.Log
	began  time.Time
}

// startCluster starts a cluster with a configuration of the scheduler; nil means Supercargo's.
func startCluster(t *testing.T, s setting, scheduler []byte) *cluster {
	t.Helper()
	site, err := kit.NewSites(playground.Options{SchedulerConfig: scheduler, Nodes: s.specs()}).Get()
	if site != nil {
		t.Cleanup(func() {
			if err := errors.Join(site.Err(), site.Stop()); err != nil {
				t.Errorf("the playground: %v", err)
			}
		})
	}
	if err != nil {
		t.Fatalf("start the site: %v", err)
	}
	c := &cluster{T: t, setting: s, site: site, log: &kit.Log{}, ledger: newLedger(s, site.Client)}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the last lines:\n%s", c.log.Tail(60))
			if *reportFlag != "" {
				if err := os.WriteFile(*reportFlag+".log", []byte(c.log.Tail(1<<20)), 0o600); err != nil {
					t.Error(err)
				}
			}
		}
	})
	c.make(kit.Namespace(space))
	c.make(&v1alpha1.Consolidation{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ConsolidationName}})
	c.eventually("pods can be made", func() string {
		if err := site.Client.Get(t.Context(), client.ObjectKey{Namespace: space, Name: "default"}, &corev1.ServiceAccount{}); err != nil {
			return err.Error()
		}
		return ""
	})
	c.watch()
	return c
}

func (c *cluster) make(object client.Object) {
	c.Helper()
	testapi.Create(c, c.site.Client, object)
}

// patience exceeds the longest back-off of the Job controller before it creates another pod.
const patience = 3 * kit.Patience

func (c *cluster) eventually(what string, check func() string) {
	c.Helper()
	c.site.Eventually(c.T, kit.Waiting{Patience: patience, Poll: 500 * time.Millisecond, Show: c.waiting}, what, check)
}

// waiting describes pods that are neither ready nor done.
func (c *cluster) waiting() string {
	var pods corev1.PodList
	if err := c.site.Client.List(context.WithoutCancel(c.Context()), &pods, client.InNamespace(space)); err != nil {
		return err.Error()
	}
	var all strings.Builder
	for i := range pods.Items {
		p := &pods.Items[i]
		ready := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
		if !ready && p.Status.Phase != corev1.PodSucceeded && all.Len() < 10_000 {
			fmt.Fprintf(&all, "\npod %s on node %q, gates %v, deleted %v: %+v", p.Name, p.Spec.NodeName, p.Spec.SchedulingGates, p.DeletionTimestamp, p.Status)
		}
	}
	return all.String()
}

// beside runs a function until the test ends, and fails the test if the function fails.
func (c *cluster) beside(what string, run func(context.Context) error) {
	c.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.Context()))
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	c.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			c.Errorf("%s: %v", what, err)
		}
	})
}

// watch starts the ledger, and with it the shim.
func (c *cluster) watch() {
	c.Helper()
	seen, err := cache.New(c.site.Config(), cache.Options{Scheme: c.site.Client.Scheme(), DefaultTransform: cache.TransformStripManagedFields()})
	if err != nil {
		c.Fatalf("watch the cluster: %v", err)
	}
	c.beside("the watch", seen.Start)
	if err := c.ledger.watch(c.Context(), seen); err != nil {
		c.Fatal(err)
	}
	c.beside("the shim", func(ctx context.Context) error {
		c.ledger.shim.run(ctx, &c.ledger.mu)
		return nil
	})
}

// ours runs the agents and the descheduler, configured like their programs: it drains nodes, and all
// evictions become Migrations.
func (c *cluster) ours() {
	c.Helper()
	o := app.Defaults()
	c.consolidate(&o)
	c.ledger.budget.nodes, c.ledger.budget.pods = o.Consolidation.MaxNodes, o.Consolidation.MaxPods
	c.descheduler(o)
}

// webhookAlone runs them without consolidation: only evictions become Migrations.
func (c *cluster) webhookAlone() {
	c.Helper()
	o := app.Defaults()
	o.Consolidation.Mode = consolidation.Off
	c.descheduler(o)
}

func (c *cluster) descheduler(o app.Options) {
	c.Helper()
	model := simulated.Model{MemoryFactor: 0.5, DumpRate: 1 << 30, ShipRate: 150_000_000, Freeze: 10 * time.Millisecond, Compression: 0.5}
	a, err := agent.New(kit.SimulatedAgents(c.config(), c.TempDir(), labels.Everything(), model, c.log))
	if err != nil {
		c.Fatal(err)
	}
	c.beside("the agent", a.Run)
	listener, err := (&net.ListenConfig{}).Listen(c.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		c.Fatal(err)
	}
	c.make(kit.Namespace(home))
	webhook := kit.EvictionWebhook(c, "../../../manifests", "https://"+listener.Addr().String()+eviction.Path)
	c.make(webhook)
	o.Evictions.Listener, o.Evictions.Hosts = listener, []string{"127.0.0.1"}
	o.Migrations.MaxFinished = 1000
	o.Options = operator.Options{Config: operator.Throttle(c.config()), MetricsAddress: "0", ProbeAddress: "0", Log: c.log.Logger("descheduler")}
	c.beside("the descheduler", func(ctx context.Context) error { return app.Run(ctx, o) })
	c.eventually("the API server trusts the webhook", func() string {
		if err := c.site.Client.Get(c.Context(), client.ObjectKeyFromObject(webhook), webhook); err != nil {
			return err.Error()
		}
		if len(webhook.Webhooks[0].ClientConfig.CABundle) == 0 {
			return "it was given no authority"
		}
		return ""
	})
}

// stockPolicy configures the stock descheduler to pack. It evicts pods from nodes of which less than half of
// both resources is requested, if another node has room for them. It excludes pods that have not been on
// their node for the residence time, and pods that must not be moved.
const stockPolicy = `apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: pack
  pluginConfig:
  - name: DefaultEvictor
    args:
      nodeFit: true
      minPodAge: %v
      labelSelector: {matchExpressions: [{key: %s, operator: DoesNotExist}]}
  - name: HighNodeUtilization
    args:
      thresholds: {cpu: 50, memory: 50}
  plugins:
    balance: {enabled: [HighNodeUtilization]}
`

// stock runs the stock descheduler, at the decision interval of Supercargo's.
func (c *cluster) stock(path string) {
	c.Helper()
	dir := c.TempDir()
	policy := filepath.Join(dir, "policy.yaml")
	testfile.Write(c, policy, fmt.Appendf(nil, stockPolicy, c.of(residence), labelStays))
	c.beside("the stock descheduler", func(ctx context.Context) error {
		var log bytes.Buffer
		command := exec.CommandContext(ctx, path, "--kubeconfig="+c.site.KubeconfigPath(), "--policy-config-file="+policy,
			fmt.Sprintf("--descheduling-interval=%v", max(time.Second, c.of(interval))), "--disable-metrics", "--secure-port=0")
		command.Stdout, command.Stderr = &log, &log
		command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
		command.WaitDelay = 10 * time.Second
		if err := command.Run(); ctx.Err() == nil {
			return fmt.Errorf("it has ended (%w): %s", err, log.Bytes()[max(0, log.Len()-4000):])
		}
		return nil
	})
}

func (c *cluster) config() *rest.Config {
	config := c.site.Config()
	config.QPS, config.Burst = 200, 400
	return config
}
