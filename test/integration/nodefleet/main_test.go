package nodefleet

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/playground"
	"supercargo.dev/supercargo/manifests"
)

// site is a control plane with cluster-api that knows NodeFleets. All tests share one.
type site struct {
	*playground.Playground
	client client.WithWatch
}

// theSite starts the site when the first test needs it.
var theSite = sync.OnceValues(startSite)

// globalLog has what is logged without a logger at hand.
var globalLog = &logBuffer{}

// siteStarted says that there is one to stop.
var siteStarted bool

// TestMain stops the site. Tests wait for most of their time, so more of them run at
// once than there are processors, unless the flag says how many.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", "8"); err != nil {
			panic(err)
		}
	}
	ctrl.SetLogger(globalLog.logger("global"))
	code := m.Run()
	if err := stopSite(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func startSite() (*site, error) {
	siteStarted = true
	p, err := playground.Start(context.Background(), playground.Options{ClusterAPI: true})
	if err != nil {
		return nil, err
	}
	s := &site{Playground: p}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return s, err
		}
	}
	config := p.Config()
	config.QPS, config.Burst = 500, 1000
	if s.client, err = client.NewWithWatch(config, client.Options{Scheme: scheme}); err != nil {
		return s, err
	}
	return s, s.define()
}

// stopSite ends the site and says what went wrong with it.
func stopSite() error {
	if !siteStarted {
		return nil
	}
	s, err := theSite()
	if s == nil {
		return err
	}
	return errors.Join(s.Err(), s.Stop())
}

// define installs the CRDs, and waits until they are served.
func (s *site) define() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := fs.WalkDir(manifests.CRDs, "crd", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		crd, err := readCRD(path)
		if err != nil {
			return err
		}
		return s.client.Create(ctx, crd)
	})
	if err != nil {
		return err
	}
	for {
		err := s.client.List(ctx, &v1alpha1.NodeFleetList{})
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for NodeFleets to be served: %w", err)
		case <-time.After(poll):
		}
	}
}

func readCRD(path string) (*apiextensionsv1.CustomResourceDefinition, error) {
	text, err := manifests.CRDs.ReadFile(path)
	if err != nil {
		return nil, err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	return crd, yaml.Unmarshal(text, crd)
}

// makeNamespace makes the namespace of a bench, with the account that its pods run as.
func (s *site) makeNamespace(b *bench) {
	b.Helper()
	b.make(namespace(b.name))
	b.eventually("pods can be made", func() string {
		var account corev1.ServiceAccount
		if err := b.Get(b.Context(), client.ObjectKey{Namespace: b.name, Name: "default"}, &account); err != nil {
			return err.Error()
		}
		return ""
	})
}
