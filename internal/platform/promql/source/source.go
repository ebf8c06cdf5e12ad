// Package source reads the servers to query for measurements.
//
// The administrator configures the servers and their credentials; policies refer to them by
// name. So the author of a policy can neither make the program query another server nor learn
// a token.
package source

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"supercargo.dev/supercargo/internal/platform/promql/prometheus"
)

// Default is the name of the source for policies that name none.
const Default = "default"

// Config is the configuration of one server.
type Config struct {
	// Name is the name that policies use.
	Name string `json:"name"`
	prometheus.Config
	// Timeout bounds the queries of one observation; 0 means prometheus.DefaultTimeout.
	Timeout metav1.Duration `json:"timeout,omitempty"`
	// Lookback is the maximum age of the last sample of a series; nil means DefaultLookback.
	Lookback *metav1.Duration `json:"lookback,omitempty"`
}

// DefaultLookback is shorter than the 5 min of most servers, so that the end of a series is
// noticed soon.
const DefaultLookback = 2 * time.Minute

// names matches names that need no escaping as label values of metrics.
var names = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$`)

// How returns the client configuration for the server, with defaults.
func (c Config) How() prometheus.Config {
	how := c.Config
	how.MaxBytes, how.Timeout, how.Lookback = prometheus.DefaultMaxBytes, c.Wait(), DefaultLookback
	if c.Lookback != nil {
		how.Lookback = c.Lookback.Duration
	}
	return how
}

// Wait returns the timeout for the queries of one observation.
func (c Config) Wait() time.Duration {
	if c.Timeout.Duration == 0 {
		return prometheus.DefaultTimeout
	}
	return c.Timeout.Duration
}

// Validate returns all errors in the sources; duplicate names are errors.
func Validate(sources []Config) error {
	var errs []error
	seen := map[string]bool{}
	for i, c := range sources {
		switch {
		case !names.MatchString(c.Name):
			errs = append(errs, fmt.Errorf("sources[%d].name %q: must consist of at most 63 characters a-z, 0-9, - and ., and must start and end with a letter or digit", i, c.Name))
		case seen[c.Name]:
			errs = append(errs, fmt.Errorf("sources[%d].name %q: must be unique", i, c.Name))
		}
		seen[c.Name] = true
		if err := c.How().Validate(); err != nil {
			errs = append(errs, fmt.Errorf("sources[%d] (%s): %w", i, c.Name, err))
		}
	}
	return errors.Join(errs...)
}

// file is what Read reads.
type file struct {
	Sources []Config `json:"sources"`
}

// maxFile is the maximum size of a file of sources, in bytes.
const maxFile = 1 << 20

// Read reads sources from a YAML file: a list under the key sources.
func Read(path string) ([]Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read metric sources: %w", err)
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("read metric sources: %s has %d bytes, must be at most %d", path, len(text), maxFile)
	}
	sources, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("read metric sources: %s: %w", path, err)
	}
	return sources, nil
}

// Parse reads sources from YAML. Unknown fields are errors.
func Parse(text []byte) ([]Config, error) {
	var f file
	if err := yaml.UnmarshalStrict(text, &f); err != nil {
		return nil, err
	}
	return f.Sources, Validate(f.Sources)
}
