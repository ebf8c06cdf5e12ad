// Package adapter tests the metrics adapter behind the real aggregator, with real authorization and the real
// controller of HorizontalPodAutoscalers.
//
// All tests share one control plane and one adapter, which has only the permissions in its manifests. Each
// test has its own namespace.
package adapter

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"supercargo.dev/supercargo/autoscaler/adapter/app"
	"supercargo.dev/supercargo/internal/platform/operator"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/manifests"
	"supercargo.dev/supercargo/test/kit"
)

const (
	home    = "supercargo-system"
	account = "supercargo-metrics-adapter"
)

var sites = kit.NewSites(playground.Options{AutoscalerPeriod: time.Second, NoScheduler: true, NoKwok: true})

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	defer shared.stop()
	return kit.Main(m, "6", sites)
}

// adapter is the adapter that all tests share.
type adapter struct {
	once    sync.Once
	err     error
	cancel  context.CancelFunc
	running sync.WaitGroup
	dir     string
	log     kit.Log
	queries string // address that answers PromQL without authentication
	address string // address that serves with authentication
	web     *web   // what it scrapes
	kubelet *kubelet
	manager *manager
}

var shared adapter

// site returns the control plane with the adapter.
func site(t *testing.T) *kit.Site {
	t.Helper()
	s, err := sites.Get()
	if err != nil {
		t.Fatalf("start a control plane: %v", err)
	}
	shared.once.Do(func() {
		shared.err = errors.New("the first test that asked for it timed out") // overwritten if the start succeeds
		shared.err = shared.begin(t, s)
	})
	if shared.err != nil {
		t.Fatalf("start the adapter: %v\n%s", shared.err, shared.log.Tail(30))
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the adapter's last words:\n%s", shared.log.Tail(30))
		}
	})
	return s
}

func (a *adapter) begin(t *testing.T, s *kit.Site) error {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	a.cancel = cancel
	var err error
	if a.dir, err = os.MkdirTemp("", "adapter"); err != nil {
		return err
	}
	s.Install(t, "../../../manifests/namespace/namespace.yaml", "../../../manifests/adapter/server/rbac.yaml", "../../../manifests/adapter/server/configuration.yaml")
	a.web = newWeb()
	if a.kubelet, err = newKubelet(a.dir); err != nil {
		return err
	}
	if a.manager, err = newManager(ctx, a.dir); err != nil {
		return fmt.Errorf("start a Work Queue manager: %w", err)
	}
	o, err := a.options(s)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	o.Server.SecureServing.Listener, o.Server.SecureServing.BindPort = listener, listener.Addr().(*net.TCPAddr).Port
	a.address = listener.Addr().String()
	if err := s.Aggregate(ctx, manifests.MetricsAPIServices, o.Server.SecureServing.BindPort); err != nil {
		return err
	}
	a.running.Go(func() {
		if err := app.Run(ctx, o); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	})
	waiting, stop := context.WithTimeout(ctx, kit.Patience)
	defer stop()
	return s.WaitAggregated(waiting)
}

// options returns the defaults, with the permissions in the manifests, and the ports and files of the test.
func (a *adapter) options(s *kit.Site) (app.Options, error) {
	o := app.Defaults()
	kubeconfig, err := a.kubeconfig(s)
	if err != nil {
		return o, err
	}
	if o.Config, err = operator.Load(kubeconfig); err != nil {
		return o, err
	}
	o.UseKubeconfig(kubeconfig)
	o.Configuration = filepath.Join(a.dir, "metrics.yaml")
	if err := os.WriteFile(o.Configuration, []byte(a.web.configuration(a.manager.address)), 0o600); err != nil {
		return o, err
	}
	o.Kubelets.CAFile, o.Kubelets.TokenFile = a.kubelet.authorities, a.kubelet.token
	o.Scrape.Interval = time.Second
	port, err := freePort()
	if err != nil {
		return o, err
	}
	a.queries = "127.0.0.1:" + port
	o.Store.Dir, o.QueryAddress, o.Log = filepath.Join(a.dir, "store"), a.queries, a.log.Logger("adapter")
	return o, nil
}

// kubeconfig writes a kubeconfig with the permissions of the adapter's ServiceAccount.
func (a *adapter) kubeconfig(s *kit.Site) (string, error) {
	config, err := clientcmd.LoadFromFile(s.KubeconfigPath())
	if err != nil {
		return "", err
	}
	for _, user := range config.AuthInfos {
		user.Impersonate = "system:serviceaccount:" + home + ":" + account
		user.ImpersonateGroups = []string{"system:serviceaccounts", "system:serviceaccounts:" + home, "system:authenticated"}
	}
	file := filepath.Join(a.dir, "kubeconfig")
	return file, clientcmd.WriteToFile(*config, file)
}

func freePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	return port, err
}

func (a *adapter) stop() {
	if a.cancel == nil {
		return
	}
	a.cancel()
	a.running.Wait()
	a.web.stop()
	a.kubelet.Close()
	if a.manager != nil {
		a.manager.end()
	}
	_ = os.RemoveAll(a.dir)
}
