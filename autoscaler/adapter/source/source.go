// Package source reads which servers may be asked for measurements.
//
// Who runs the program names them, with what they are reached by; policies only say the
// name. So nobody who may write a policy makes the program ask another server, or learns
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

// Default is the name of the source that policies ask that name none.
const Default = "default"

// Config is one server.
type Config struct {
	// Name is what policies call it.
	Name string `json:"name"`
	prometheus.Config
	// Timeout bounds one look's queries; 0 for prometheus.DefaultTimeout.
	Timeout metav1.Duration `json:"timeout,omitempty"`
	// Lookback is how old the last sample of a series may be; absent for DefaultLookback.
	Lookback *metav1.Duration `json:"lookback,omitempty"`
}

// DefaultLookback is how old the last sample of a series may be where nothing is said:
// shorter than the 5 min of most servers, so that a series that has ended is missed soon.
const DefaultLookback = 2 * time.Minute

// names are as label values may be, so that metrics carry them as they are.
var names = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$`)

// How is how the server is asked.
func (c Config) How() prometheus.Config {
	how := c.Config
	how.MaxBytes, how.Timeout, how.Lookback = prometheus.DefaultMaxBytes, c.Wait(), DefaultLookback
	if c.Lookback != nil {
		how.Lookback = c.Lookback.Duration
	}
	return how
}

// Wait is how long one look's queries may take.
func (c Config) Wait() time.Duration {
	if c.Timeout.Duration == 0 {
		return prometheus.DefaultTimeout
	}
	return c.Timeout.Duration
}

// Validate refuses sources that cannot be asked, and two of one name; all faults at once.
func Validate(sources []Config) error {
	var errs []error
	seen := map[string]bool{}
	for i, c := range sources {
		switch {
		case !names.MatchString(c.Name):
			errs = append(errs, fmt.Errorf("sources[%d].name %q: want up to 63 of a-z, 0-9, - and ., a letter or figure first and last", i, c.Name))
		case seen[c.Name]:
			errs = append(errs, fmt.Errorf("sources[%d].name %q: there is one of that name already", i, c.Name))
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

// maxFile is how long a file of sources may be, in bytes.
const maxFile = 1 << 20

// Read reads sources from a YAML file: a list under the key sources.
func Read(path string) ([]Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read metric sources: %w", err)
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("read metric sources: %s has %d bytes, want at most %d", path, len(text), maxFile)
	}
	sources, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("read metric sources: %s: %w", path, err)
	}
	return sources, nil
}

// Parse reads sources from YAML. Unknown fields are faults.
func Parse(text []byte) ([]Config, error) {
	var f file
	if err := yaml.UnmarshalStrict(text, &f); err != nil {
		return nil, err
	}
	return f.Sources, Validate(f.Sources)
}
