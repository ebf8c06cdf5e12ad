// Package agent tests node agents against a real API server. The nodes are simulated;
// the tests play the controller and the scheduler, who write the orders.
package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/playground"
	"supercargo.dev/supercargo/manifests"
)

const (
	// patience is how long a test waits for something that takes a moment.
	patience = time.Minute
	// poll is how often it looks.
	poll = 20 * time.Millisecond
)

// site is an API server that knows Migrations. All tests share one.
type site struct {
	*playground.Playground
	client client.WithWatch
}

// theSite starts the site when the first test needs it.
var theSite = sync.OnceValues(startSite)

// siteStarted says that there is one to stop.
var siteStarted bool

// TestMain stops the site.
func TestMain(m *testing.M) {
	code := m.Run()
	if siteStarted {
		s, err := theSite()
		if s != nil {
			err = errors.Join(s.Err(), s.Stop())
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

func startSite() (*site, error) {
	siteStarted = true
	p, err := playground.Start(context.Background(), playground.Options{NoScheduler: true, NoKwok: true, NoControllerManager: true})
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
	if s.client, err = client.NewWithWatch(p.Config(), client.Options{Scheme: scheme}); err != nil {
		return s, err
	}
	return s, s.define()
}

// define installs the CRDs, and waits until they are served.
func (s *site) define() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := fs.WalkDir(manifests.CRDs, "crd", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := manifests.CRDs.ReadFile(path)
		if err != nil {
			return err
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(text, crd); err != nil {
			return err
		}
		return s.client.Create(ctx, crd)
	})
	if err != nil {
		return err
	}
	for {
		err := s.client.List(ctx, &v1alpha1.MigrationList{})
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for Migrations to be served: %w", err)
		case <-time.After(poll):
		}
	}
}
