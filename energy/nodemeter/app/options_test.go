package app

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// parse parses flags as the command does.
func parse(t *testing.T, args ...string) *Options {
	t.Helper()
	var o Options
	flags := pflag.NewFlagSet("meter", pflag.ContinueOnError)
	o.AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return &o
}

func TestWrongFlagsAreNamed(t *testing.T) {
	if err := parse(t, "--node-name=n").check(); err != nil {
		t.Fatalf("the defaults give %v", err)
	}
	for _, wrong := range []string{
		"--node-name=", "--namespace=A/b", "--host-root=.", "--serve-address=x", "--serve-address=0",
		"--power-meter=best", "--hwmon-sensors=power1", "--hwmon-sensors=a/b/c", "--rated-watts=-1", "--rated-watts=NaN", "--rated-watts=Inf",
	} {
		name, _, _ := strings.Cut(wrong, "=")
		if err := parse(t, "--node-name=n", wrong).check(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s gives %v, want an error that names the flag", wrong, err)
		}
	}
}

func TestServersForPowerThatCannotBeAskedAreNamed(t *testing.T) {
	const server = "--prometheus=https://prometheus.example:9090"
	for _, args := range [][]string{ // the last one is the invalid flag
		{"--power-meter=query"},
		{"--power-query=pdu_watts"}, {"--power-preset=kepler"}, {"--prometheus-token=/t"}, {"--prometheus-ca=/ca"},
		{"--power-preset=kepler", "--prometheus=prometheus:9090"},
		{"--power-preset=kepler", "--prometheus-token=/t", "--prometheus=http://prometheus:9090"}, // a token in the clear
		{server, "--power-preset=sundial"}, {server, "--power-preset=supercargo"},
		{server, "--power-query=pdu_watts"}, {server, `--power-query=supercargo_node_power_watts{node="$node"}`},
		{"--power-preset=kepler", "--power-query=x", server}, {server, "--power-meter=query", server},
		{server, "--power-preset=kepler", "--power-query-every=1ms"}, {server, "--power-preset=kepler", "--power-query-every=2h"},
		{server, "--power-preset=kepler", "--power-max-age=4s"}, {server, `--power-query=x{n="$node"}`, "--power-max-age=29s"},
		{server, "--power-preset=kepler", "--power-max-age=-1s"}, {server, "--power-preset=kepler", "--power-max-age=2h"},
		{server, "--power-preset=kepler", "--power-meter=rapl"},
	} {
		name, _, _ := strings.Cut(args[len(args)-1], "=")
		if err := parse(t, append([]string{"--node-name=n"}, args...)...).check(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q gives %v, want an error that names %s", args, err, name)
		}
	}
	o := parse(t, "--node-name=n", server, "--power-preset=kepler", "--prometheus-ca=/does/not/exist")
	if err := o.check(); err != nil {
		t.Error(err)
	}
	if _, _, err := o.meter(); err == nil || !strings.Contains(err.Error(), "--prometheus") || !strings.Contains(err.Error(), "/does/not/exist") {
		t.Errorf("a file with authorities that is not there gives %v", err)
	}
}

func TestServersForPowerAreAskedAsOftenAsIsGood(t *testing.T) {
	for args, want := range map[string]time.Duration{
		"--power-preset=node-exporter": 5 * time.Second, `--power-query=pdu_watts{host="$node"}`: 30 * time.Second,
		"--power-preset=kepler --power-query-every=1s": time.Second, "--power-meter=query --power-preset=kepler": 5 * time.Second,
	} {
		o := parse(t, append([]string{"--node-name=n", "--prometheus=https://prometheus.example:9090"}, strings.Fields(args)...)...)
		if err := o.check(); err != nil {
			t.Errorf("%s: %v", args, err)
			continue
		}
		m, hangUp, err := o.meter()
		if err != nil {
			t.Errorf("%s: %v", args, err)
			continue
		}
		hangUp()
		if m.Server.Every != want || m.Server.MaxAge != 2*time.Minute || o.server().Lookback != 2*time.Minute {
			t.Errorf("%s: asked every %v for what is %v old at most, want %v and 2m0s", args, m.Server.Every, m.Server.MaxAge, want)
		}
	}
}
