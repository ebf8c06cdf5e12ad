package prometheus

import "github.com/spf13/pflag"

// AddFlags adds the flags that say which server is asked: --prometheus, --prometheus-ca and
// --prometheus-token. What is in the Config are their defaults.
func (c *Config) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&c.URL, "prometheus", c.URL, "`URL` of a server that answers PromQL as Prometheus does, without /api/v1")
	f.StringVar(&c.CAFile, "prometheus-ca", c.CAFile, "`file` in PEM that the server's certificate is verified by (default: those of this system)")
	f.StringVar(&c.TokenFile, "prometheus-token", c.TokenFile, "`file` with a bearer token for the server, read again for every query")
}
