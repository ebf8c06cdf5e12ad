package prometheus

import "github.com/spf13/pflag"

// AddFlags adds the flags that select the server: --prometheus, --prometheus-ca, --prometheus-token and
// --prometheus-http-config. Their defaults
// are the values in c.
func (c *Config) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&c.URL, "prometheus", c.URL, "`URL` of a server with the Prometheus HTTP API, without /api/v1")
	f.StringVar(&c.CAFile, "prometheus-ca", c.CAFile, "PEM `file` with the server's certificate authorities (default: those of the system)")
	f.StringVar(&c.TokenFile, "prometheus-token", c.TokenFile, "`file` with a bearer token for the server, read again for every query")
	f.StringVar(&c.HTTPConfigFile, "prometheus-http-config", c.HTTPConfigFile,
		"YAML `file` with Prometheus' own http_config for the server, such as basic_auth, tls_config or http_headers, in place of the two options before")
}
