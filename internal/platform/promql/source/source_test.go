package source

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"supercargo.dev/supercargo/internal/platform/promql/prometheus"
	"supercargo.dev/supercargo/test/kit/testfile"
)

func TestSourcesAreRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sources.yaml")
	text := "sources:\n- {name: default, url: 'https://prometheus:9090', caFile: /ca, tokenFile: /token, timeout: 3s, lookback: 30s}\n- {name: other, url: 'http://thanos:10902/query'}\n"
	testfile.Write(t, path, text)
	got, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	want := []prometheus.Config{
		{URL: "https://prometheus:9090", CAFile: "/ca", TokenFile: "/token", Timeout: 3 * time.Second, Lookback: 30 * time.Second, MaxBytes: prometheus.DefaultMaxBytes},
		{URL: "http://thanos:10902/query", Timeout: prometheus.DefaultTimeout, Lookback: DefaultLookback, MaxBytes: prometheus.DefaultMaxBytes},
	}
	if len(got) != 2 || got[0].How() != want[0] || got[1].How() != want[1] || got[0].Name != "default" || got[1].Name != "other" {
		t.Errorf("read %+v", got)
	}
}

func TestBadSourcesAreNamed(t *testing.T) {
	for text, says := range map[string][]string{
		"sources: [{name: A_B, url: 'http://a'}]":                                {"sources[0].name"},
		"sources: [{name: a, url: x}, {name: a, url: 'http://a', timeout: -1s}]": {"sources[0] (a): url", "sources[1].name \"a\": must be unique", "timeout"},
		"sources: [{name: a, url: 'http://a', colour: red}]":                     {"colour"},
		"sources: [{name: a, url: 'http://a', timeout: soon}]":                   {"soon"},
		"sources: [{name: a, url: 'http://a', lookback: -2m}]":                   {"lookback"},
		"sources: {": {"yaml"},
		"sources: [{name: a, url: 'http://a', tokenFile: /t}]": {"tokens are not sent unencrypted"},
	} {
		_, err := Parse([]byte(text))
		for _, s := range says {
			if err == nil || !strings.Contains(err.Error(), s) {
				t.Errorf("%s: %v, want it to say %q", text, err, s)
			}
		}
	}
	if _, err := Read("/nowhere/sources.yaml"); err == nil || !strings.Contains(err.Error(), "/nowhere/sources.yaml") {
		t.Errorf("a file that is not there: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("sources: [{name: a, url: 'http://a'}]")
	f.Fuzz(func(t *testing.T, text string) {
		sources, err := Parse([]byte(text))
		if err != nil {
			return
		}
		for _, s := range sources {
			if s.How().URL == "" || s.Wait() <= 0 {
				t.Errorf("%q: %+v is taken", text, s)
			}
		}
	})
}
