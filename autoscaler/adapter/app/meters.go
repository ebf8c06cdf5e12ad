package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/autoscaler/adapter/store/target"
	"supercargo.dev/supercargo/energy/meterapi"
	"supercargo.dev/supercargo/internal/platform/poll"
	"supercargo.dev/supercargo/internal/platform/servingcert"
)

const (
	// meterAuthoritiesFile is next to the files of the store.
	meterAuthoritiesFile = "node-meter-ca.crt"
	// meterAuthoritiesEvery is how often the certificate authorities of node meters are read,
	// and meterAuthoritiesSoon is the interval while the ConfigMap has none or cannot be
	// read.
	meterAuthoritiesEvery = time.Minute
	meterAuthoritiesSoon  = 5 * time.Second
)

// meterAuthorities keeps a file with the certificate authorities of node meters; scrapes
// reload the file when it changes. It reads the ConfigMap through the API, because pods can
// mount only ConfigMaps of their own namespace.
type meterAuthorities struct {
	live client.Reader // bypasses any cache
	key  types.NamespacedName
	file string

	clock clock.WithTicker
	log   logr.Logger
	wrong string // the last error that was logged
}

// meters returns the keeper of that file; nil if node meters are not scraped. Scrapes need a
// file, so until the authorities are known it contains one that has signed nothing.
func (o *Options) meters() (*meterAuthorities, error) {
	m := o.Meters
	if !m.Scrape {
		return nil, nil
	}
	if _, err := os.Stat(m.TokenFile); errors.Is(err, fs.ErrNotExist) {
		o.Log.Info("Node meters are not scraped, because there is no token to authenticate with: set --node-meter-token to a file that contains one", "file", m.TokenFile)
		return nil, nil
	}
	a := &meterAuthorities{
		key: types.NamespacedName{Namespace: m.Namespace, Name: meterapi.Name}, file: filepath.Join(o.Store.Dir, meterAuthoritiesFile), clock: clock.RealClock{}, log: o.Log,
	}
	placeholder, err := servingcert.New([]string{meterapi.ServerName(m.Namespace)}, nil, a.clock.Now())
	if err != nil {
		return nil, fmt.Errorf("set up scraping of node meters: %w", err)
	}
	return a, a.write(placeholder.Authorities)
}

// job returns the scrape job of node meters. Labels of the target take precedence over labels
// in the response, so that a node cannot report values of another node.
func (a *meterAuthorities) job(m Meters) target.Job {
	return target.Job{
		Name: target.MetersJob, CAFile: a.file, ServerName: meterapi.ServerName(m.Namespace), BearerTokenFile: m.TokenFile,
	}
}

// run keeps the file up to date until ctx ends.
func (a *meterAuthorities) run(ctx context.Context) error {
	poll.Repeat(ctx, a.clock, meterAuthoritiesEvery, meterAuthoritiesSoon, a.update, func(err error) {
		if err != nil && err.Error() != a.wrong { // log each error once
			a.wrong = err.Error()
			a.log.Info("Node meters cannot be scraped yet", "error", err.Error())
		}
	})
	return nil
}

// update reads the ConfigMap and writes the file once.
func (a *meterAuthorities) update(ctx context.Context) error {
	var published corev1.ConfigMap
	if err := a.live.Get(ctx, a.key, &published); err != nil {
		return fmt.Errorf("read ConfigMap %s with the certificate authority of the node meters: %w", a.key, err)
	}
	text := []byte(published.Data[meterapi.AuthoritiesKey])
	if len(text) == 0 {
		return fmt.Errorf("ConfigMap %s does not contain the certificate authority of the node meters yet", a.key)
	}
	a.wrong = ""
	return a.write(text)
}

// write replaces the file atomically if its contents change.
func (a *meterAuthorities) write(text []byte) error {
	if before, err := os.ReadFile(a.file); err == nil && bytes.Equal(before, text) {
		return nil
	}
	next := a.file + ".next"
	err := os.WriteFile(next, text, 0o600)
	if err == nil {
		err = os.Rename(next, a.file)
	}
	if err != nil {
		return fmt.Errorf("write the certificate authority of the node meters: %w", err)
	}
	return nil
}
