package prometheus

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/prometheus/common/config"
)

// maxHTTPConfig is the maximum size of a file with an <http_config>, in bytes.
const maxHTTPConfig = 1 << 20

// http returns how to send requests. Redirects are never followed, even if the file allows them.
func (c Config) http() (config.HTTPClientConfig, error) {
	how := config.HTTPClientConfig{TLSConfig: config.TLSConfig{CAFile: c.CAFile}, EnableHTTP2: true}
	if c.TokenFile != "" {
		how.Authorization = &config.Authorization{Type: "Bearer", CredentialsFile: c.TokenFile}
	}
	if c.HTTPConfigFile != "" {
		read, err := readHTTPConfig(c.HTTPConfigFile)
		if err != nil {
			return how, fmt.Errorf("read httpConfigFile %s: %w", c.HTTPConfigFile, err)
		}
		if u, err := url.Parse(c.URL); err == nil && u.Scheme == "http" && authenticates(read) {
			return how, fmt.Errorf("httpConfigFile %s: has credentials, which require https for %q: they are not sent unencrypted", c.HTTPConfigFile, u.Redacted())
		}
		how = *read
	}
	how.FollowRedirects = false
	if how.TLSConfig.MinVersion == 0 {
		how.TLSConfig.MinVersion = config.TLSVersions["TLS12"]
	}
	return how, nil
}

// readHTTPConfig reads an <http_config>. Paths in it are relative to the folder of the file, as in Prometheus.
func readHTTPConfig(path string) (*config.HTTPClientConfig, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if len(text) > maxHTTPConfig {
		return nil, fmt.Errorf("it has %d bytes, must be at most %d", len(text), maxHTTPConfig)
	}
	how, err := config.LoadHTTPConfig(string(text))
	if err != nil {
		return nil, err
	}
	how.SetDirectory(filepath.Dir(path))
	return how, nil
}

// authenticates reports whether requests carry credentials. A header whose value is a secret, or comes from a file, is
// one; one whose value stands in the open, such as the name of a tenant, is not.
func authenticates(c *config.HTTPClientConfig) bool {
	if c.BasicAuth != nil || c.Authorization != nil || c.OAuth2 != nil {
		return true
	}
	if c.HTTPHeaders == nil {
		return false
	}
	for _, h := range c.HTTPHeaders.Headers {
		if len(h.Secrets) > 0 || len(h.Files) > 0 {
			return true
		}
	}
	return false
}
