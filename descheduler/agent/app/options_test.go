package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// parse reads flags as the command does.
func parse(t *testing.T, args ...string) *Options {
	t.Helper()
	var o Options
	flags := pflag.NewFlagSet("node-agent", pflag.ContinueOnError)
	o.AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return &o
}

func TestDefaultsAreGood(t *testing.T) {
	sizes, selector, err := parse(t, "--node-name=n").check()
	if err != nil || selector != nil {
		t.Fatalf("the defaults give %v, %v", selector, err)
	}
	if sizes.image != 8<<30 || sizes.total != 32<<30 || sizes.work != 8<<30 {
		t.Errorf("sizes are %+v", sizes)
	}
	if _, selector, err := parse(t, "--simulate=type=kwok").check(); err != nil || selector == nil {
		t.Errorf("a simulation gives %v, %v", selector, err)
	}
	if sizes, _, err := parse(t, "--node-name=n", "--work-size=").check(); err != nil || sizes.work != 0 {
		t.Errorf("no work size gives %+v, %v", sizes, err)
	}
}

func TestWrongFlagsAreNamed(t *testing.T) {
	for _, wrong := range []string{
		"--max-image-bytes=much", "--max-image-bytes=0", "--max-total-bytes=-1", "--work-size=x", "--simulate-dump-rate=0", "--simulate-ship-rate=fast",
		"--state-dir=here", "--work-dir=", "--host-root=.", "--kubelet-checkpoints=x", "--listen-address=8444", "--serve-address=x", "--containerd=unix", "--cri=unix", "--cri=/run/crio.sock",
		"--max-moves=0", "--max-images=-1", "--stalled-after=0s", "--sweep-every=-1h", "--simulate-memory=NaN", "--simulate-memory=17", "--simulate-freeze=-1s",
		"--power-meter=best", "--hwmon-sensors=power1", "--hwmon-sensors=a/b/c", "--rated-watts=-1", "--rated-watts=NaN", "--rated-watts=Inf",
	} {
		name, _, _ := strings.Cut(wrong, "=")
		if _, _, err := parse(t, "--node-name=n", wrong).check(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s gives %v, want an error that names the flag", wrong, err)
		}
	}
	for _, args := range [][]string{nil, {"--node-name=n", "--simulate=a=b"}, {"--simulate=!!"}, {"--simulate="}} {
		if _, _, err := parse(t, args...).check(); err == nil || !strings.Contains(err.Error(), "--simulate") {
			t.Errorf("%q gives %v, want an error that names --simulate", args, err)
		}
	}
}

func TestServersForPowerThatCannotBeAskedAreNamed(t *testing.T) {
	const server = "--prometheus=https://prometheus.example:9090"
	for _, args := range [][]string{ // the last names the flag that is wrong
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
		if _, _, err := parse(t, append([]string{"--node-name=n"}, args...)...).check(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q gives %v, want an error that names %s", args, err, name)
		}
	}
	if _, _, err := parse(t, "--simulate=a=b", server, "--power-preset=kepler").check(); err == nil || !strings.Contains(err.Error(), "--simulate") {
		t.Errorf("a simulation that asks a server gives %v", err)
	}
	o := parse(t, "--node-name=n", server, "--power-preset=kepler", "--prometheus-ca=/does/not/exist")
	if _, _, err := o.check(); err != nil {
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
		if _, _, err := o.check(); err != nil {
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

func TestFoldersThatOthersEnterAreRefused(t *testing.T) {
	dir := t.TempDir()
	shut, open := filepath.Join(dir, "shut"), filepath.Join(dir, "open")
	if err := os.Mkdir(open, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := parse(t, "--state-dir="+shut, "--work-dir="+filepath.Join(shut, "work")).keepOthersOut(); err != nil {
		t.Errorf("folders of its own: %v", err)
	}
	for _, args := range [][]string{{"--state-dir=" + open, "--work-dir=" + shut}, {"--state-dir=" + shut, "--work-dir=" + open}} {
		if err := parse(t, args...).keepOthersOut(); err == nil || !strings.Contains(err.Error(), open) {
			t.Errorf("%v gives %v, want an error that names the folder", args, err)
		}
	}
}

func TestAllWrongFlagsAreNamedAtOnce(t *testing.T) {
	_, _, err := parse(t, "--max-moves=0", "--state-dir=x", "--max-image-bytes=y").check()
	for _, name := range []string{"--max-moves", "--state-dir", "--max-image-bytes", "--node-name"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v does not name %s", err, name)
		}
	}
}
