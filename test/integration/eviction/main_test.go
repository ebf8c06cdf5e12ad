// Package eviction tests the webhook that turns evictions into Migrations on a real API server with the real
// controllers, the real scheduler and the real kubectl. kwok simulates the nodes, and a simulation that moves
// pods simulates their agents.
//
// All tests share one control plane and one descheduler, which has only the permissions in its manifests.
// Each test has its own namespace and nodes.
package eviction

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/descheduler/agent"
	"supercargo.dev/supercargo/descheduler/app"
	"supercargo.dev/supercargo/descheduler/checkpoint/simulated"
	"supercargo.dev/supercargo/descheduler/eviction"
	"supercargo.dev/supercargo/internal/platform/operator"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/kit"
)

const (
	home    = "supercargo-system"
	account = "supercargo-descheduler"
	// webhookAccount is the service account of the webhook.
	webhookAccount = "supercargo-evictions"
	// webhookName is the name of the configuration in the manifests.
	webhookName = "supercargo-evictions"
	// down is the prefix of namespaces for which the webhook is not served.
	down = "down-"
)

var sites = kit.NewSites(playground.Options{ClusterAPI: true})

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	defer shared.stop()
	return kit.Main(m, "6", sites)
}

// programs are the programs that all tests share.
type programs struct {
	once     sync.Once
	err      error
	cancel   context.CancelFunc
	running  sync.WaitGroup
	dir      string
	log      kit.Log
	requests kit.Ledger
}

var shared programs

// start starts the programs when the first test needs them.
func (p *programs) start(t *testing.T, s *kit.Site) {
	t.Helper()
	p.once.Do(func() {
		p.err = errors.New("the first test that asked for them timed out") // overwritten if the start succeeds
		p.err = p.begin(t, s)
	})
	if p.err != nil {
		t.Fatalf("start the descheduler and the agents: %v", p.err)
	}
}

func (p *programs) begin(t *testing.T, s *kit.Site) error {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	p.cancel = cancel
	var err error
	if p.dir, err = os.MkdirTemp("", "eviction"); err != nil {
		return err
	}
	s.Install(t, "../../../manifests/namespace/namespace.yaml", "../../../manifests/descheduler/rbac.yaml", "../../../manifests/evictions/base/rbac.yaml")
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	configuration := kit.EvictionWebhook(t, "../../../manifests", "https://"+listener.Addr().String()+eviction.Path)
	selector := configuration.Webhooks[0].NamespaceSelector
	selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{Key: "down", Operator: metav1.LabelSelectorOpDoesNotExist})
	if err := s.Client.Create(ctx, configuration); err != nil {
		return err
	}
	p.descheduler(ctx, s, listener)
	if err := p.agents(ctx, s); err != nil {
		return err
	}
	p.ready(t, s)
	return nil
}

// as returns the client configuration of an account, with its permissions.
func (p *programs) as(s *kit.Site, account string) operator.Options {
	config := rest.CopyConfig(s.Config())
	config.QPS, config.Burst = 200, 400
	config.Impersonate = kit.ServiceAccount(home, account)
	config.Wrap(p.requests.Wrap)
	return operator.Options{Config: operator.Throttle(config), MetricsAddress: "0", ProbeAddress: "0", Log: p.log.Logger(account)}
}

// descheduler starts the descheduler and the webhook, each under its own account.
func (p *programs) descheduler(ctx context.Context, s *kit.Site, listener net.Listener) {
	o := app.Defaults()
	o.Options = p.as(s, account)
	o.LeaderElection, o.LeaderElectionNamespace = true, home
	o.Migrations.MaxMigrations = 50
	p.goOn(func() error { return app.Run(ctx, o) })
	w := app.EvictionDefaults()
	w.Options = p.as(s, webhookAccount)
	w.Evictions.Listener, w.Evictions.Hosts, w.Evictions.Deadline = listener, []string{"127.0.0.1"}, 2*time.Minute
	p.goOn(func() error { return app.RunEvictions(ctx, w) })
}

func (p *programs) agents(ctx context.Context, s *kit.Site) error {
	a, err := agent.New(kit.SimulatedAgents(s.Config(), p.dir, labels.Everything(), simulated.Model{}, &p.log))
	if err != nil {
		return err
	}
	p.goOn(func() error { return a.Run(ctx) })
	return nil
}

func (p *programs) goOn(run func() error) {
	p.running.Go(func() {
		if err := run(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	})
}

// ready waits until the API server has the CA of the webhook.
func (p *programs) ready(t *testing.T, s *kit.Site) {
	t.Helper()
	w := kit.Waiting{Patience: kit.Patience, Poll: kit.Poll, Show: func() string { return p.log.Tail(20) }}
	s.Eventually(t, w, "the webhook has a CA", func() string {
		var c admissionv1.ValidatingWebhookConfiguration
		err := s.Client.Get(t.Context(), client.ObjectKey{Name: webhookName}, &c)
		if err == nil && len(c.Webhooks[0].ClientConfig.CABundle) == 0 {
			return "without one"
		}
		return kit.Message(err)
	})
}

func (p *programs) stop() {
	if p.cancel == nil {
		return
	}
	p.cancel()
	p.running.Wait()
	_ = os.RemoveAll(p.dir)
}

// isDown reports whether the webhook is not served for a namespace.
func isDown(namespace string) bool { return strings.HasPrefix(namespace, down) }
