// Package prometheus queries a server with the Prometheus HTTP API: Prometheus itself, Thanos, Mimir, VictoriaMetrics,
// or Supercargo's metrics adapter. The autoscaler, the metrics adapter, node agents and reports use it.
//
// Servers are verified by TLS, responses are bounded in time and size, and redirects are not followed because they
// would send the token elsewhere.
package prometheus

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/config"
	"github.com/prometheus/common/model"

	"supercargo.dev/supercargo/internal/input"
	"supercargo.dev/supercargo/internal/platform/promql"
	"supercargo.dev/supercargo/internal/text/clip"
)

// Config selects the server and configures requests.
type Config struct {
	// URL is the URL of the API, without /api/v1: "https://prometheus.monitoring:9090".
	URL string `json:"url"`
	// CAFile contains the certificate authorities, in PEM, to verify the server with; if empty, those of the system are
	// used. It is reloaded when it changes.
	CAFile string `json:"caFile,omitempty"`
	// TokenFile contains the bearer token; if empty, none is sent. It is read for every query.
	TokenFile string `json:"tokenFile,omitempty"`
	// HTTPConfigFile contains, in YAML, Prometheus' own <http_config> for the requests: basic_auth, authorization, oauth2,
	// tls_config with a client certificate, http_headers, a proxy. It excludes CAFile and TokenFile. It is read once; the
	// files that it names are read again when they change.
	HTTPConfigFile string `json:"httpConfigFile,omitempty"`
	// Timeout bounds one query, including the connection.
	Timeout time.Duration `json:"-"`
	// Lookback is the maximum age of the last sample of a series to count as its current value. 0 means the server's
	// default, usually 5 min. Servers that do not know the parameter lookback_delta ignore it.
	Lookback time.Duration `json:"-"`
	// MaxBytes bounds a decompressed response.
	MaxBytes int64 `json:"-"`
}

// DefaultTimeout and DefaultMaxBytes are the default bounds. The measurement of a policy is one sample of some hundred
// bytes.
const (
	DefaultTimeout  = 10 * time.Second
	DefaultMaxBytes = 4 << 20
)

// Validate returns all faults of the configuration.
func (c Config) Validate() error {
	var errs input.Faults
	u, err := url.Parse(c.URL)
	switch {
	case err != nil:
		errs = append(errs, fmt.Errorf("url: %w", err))
	case c.URL == "":
		errs = append(errs, errors.New("url: required: the address of the server, such as https://prometheus.monitoring:9090"))
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		errs = append(errs, fmt.Errorf("url %q: must have scheme http or https, and a host, such as https://prometheus.monitoring:9090", u.Redacted()))
	case u.User != nil:
		errs = append(errs, fmt.Errorf("url %q: must not have a user, which logs would show", u.Redacted()))
	case u.RawQuery != "" || u.Fragment != "":
		errs = append(errs, fmt.Errorf("url %q: must not have a query or a fragment", u.Redacted()))
	case u.Scheme == "http" && c.TokenFile != "":
		errs = append(errs, fmt.Errorf("tokenFile %s: requires https for %q: tokens are not sent unencrypted", c.TokenFile, u.Redacted()))
	}
	errs.If(c.HTTPConfigFile != "" && c.CAFile != "", "caFile: excluded by httpConfigFile, which has tls_config.ca_file")
	errs.If(c.HTTPConfigFile != "" && c.TokenFile != "", "tokenFile: excluded by httpConfigFile, which has authorization.credentials_file")
	errs.If(c.Timeout <= 0, "timeout %v: must be more than 0", c.Timeout)
	errs.If(c.Lookback < 0, "lookback %v: must be more than 0, or 0 for the server's default", c.Lookback)
	errs.If(c.MaxBytes <= 0, "most bytes %d: must be more than 0", c.MaxBytes)
	return errors.Join(errs...)
}

// Client queries one server. It is safe for concurrent use.
type Client struct {
	config Config
	api    promv1.API
	http   *http.Client
}

var _ promql.Warner = (*Client)(nil)

// New returns a client. A Timeout or MaxBytes of 0 means the default. It reads files but does not connect.
func New(c Config) (*Client, error) {
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = DefaultMaxBytes
	}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("set up queries: %w", err)
	}
	how, err := c.http()
	if err != nil {
		return nil, fmt.Errorf("set up queries of %s: %w", c.URL, err)
	}
	client, err := config.NewClientFromConfig(how, "supercargo")
	if err != nil {
		return nil, fmt.Errorf("set up queries of %s: %w", c.URL, err)
	}
	client.Transport = bounded{next: client.Transport, most: c.MaxBytes}
	talks, err := newAPI(c, client)
	if err != nil {
		return nil, fmt.Errorf("set up queries of %s: %w", c.URL, err)
	}
	return &Client{config: c, api: talks, http: client}, nil
}

func newAPI(c Config, client *http.Client) (promv1.API, error) {
	talks, err := api.NewClient(api.Config{Address: c.URL, Client: client})
	if err != nil {
		return nil, err
	}
	return promv1.NewAPI(talks), nil
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Query implements [promql.Querier]. It drops warnings: see QueryWarned.
func (c *Client) Query(ctx context.Context, expression string, at time.Time) ([]promql.Sample, error) {
	samples, _, err := c.QueryWarned(ctx, expression, at)
	return samples, err
}

// QueryWarned implements [promql.Warner]. It returns within the timeout, whatever the server does.
func (c *Client) QueryWarned(ctx context.Context, expression string, at time.Time) ([]promql.Sample, []string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.config.Timeout, fmt.Errorf("no response within %v", c.config.Timeout))
	defer cancel()
	options := []promv1.Option{promv1.WithTimeout(c.config.Timeout)}
	if c.config.Lookback > 0 {
		options = append(options, promv1.WithLookbackDelta(c.config.Lookback))
	}
	value, warnings, err := c.api.Query(ctx, expression, at, options...)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	var samples []promql.Sample
	if err == nil {
		samples, err = samplesOf(value)
	}
	if err != nil {
		return nil, warnings, fmt.Errorf("query %s for %s: %w", c.config.URL, clip.Bytes(expression, maxText), brief(err))
	}
	return samples, warnings, nil
}

// samplesOf converts an instant vector or a scalar.
func samplesOf(value model.Value) ([]promql.Sample, error) {
	switch v := value.(type) {
	case *model.Scalar:
		if v == nil {
			break
		}
		return []promql.Sample{{Value: float64(v.Value), At: v.Timestamp.Time()}}, nil
	case model.Vector:
		samples := make([]promql.Sample, 0, len(v))
		for _, s := range v {
			switch {
			case s == nil:
				return nil, errors.New("the response has a series that is null")
			case s.Histogram != nil:
				return nil, fmt.Errorf("the response has native histograms, must be numbers: use histogram_quantile or histogram_avg")
			}
			labels := make(map[string]string, len(s.Metric))
			for name, text := range s.Metric {
				labels[string(name)] = string(text)
			}
			samples = append(samples, promql.Sample{Labels: labels, Value: float64(s.Value), At: s.Timestamp.Time()})
		}
		return samples, nil
	}
	if value == nil {
		return nil, errors.New("the response has no value")
	}
	return nil, fmt.Errorf("the response is a %s, must be an instant vector or a scalar", value.Type())
}

// maxText bounds the length of a server's message or a query in an error.
const maxText = 300

// brief shortens an error, which may contain a whole page of HTML. The original error remains wrapped.
func brief(err error) error {
	if text := err.Error(); len(text) > maxText {
		return &briefError{text: clip.Bytes(text, maxText), error: err}
	}
	return err
}

type briefError struct {
	text string
	error
}

// Error implements error.
func (e *briefError) Error() string { return e.text }

// Unwrap gives errors.Is and errors.As access to the original error.
func (e *briefError) Unwrap() error { return e.error }
