package prometheus

import (
	"testing"

	"github.com/spf13/pflag"
)

func TestFlagsSayWhichServerIsAsked(t *testing.T) {
	var c Config
	f := pflag.NewFlagSet("program", pflag.ContinueOnError)
	c.AddFlags(f)
	if err := f.Parse([]string{"--prometheus=https://p:9090", "--prometheus-ca=/ca.crt", "--prometheus-token=/token", "--prometheus-http-config=/http.yaml"}); err != nil {
		t.Fatal(err)
	}
	if want := (Config{URL: "https://p:9090", CAFile: "/ca.crt", TokenFile: "/token", HTTPConfigFile: "/http.yaml"}); c != want {
		t.Errorf("%+v, want %+v", c, want)
	}
}
