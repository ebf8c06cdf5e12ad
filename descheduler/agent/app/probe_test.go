package app

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"

	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/energy/meterapi"
	"supercargo.dev/supercargo/energy/nodemeter/meter"
	"supercargo.dev/supercargo/energy/powerquery"
	"supercargo.dev/supercargo/energy/probe"
	"supercargo.dev/supercargo/internal/platform/promql/prometheus"
	"supercargo.dev/supercargo/test/kit/promserver"
	"supercargo.dev/supercargo/test/kit/testfile"
)

func probeOptions(t *testing.T) ProbeOptions {
	t.Helper()
	dir := t.TempDir()
	return ProbeOptions{
		CPU: "1,2", Memory: "1Mi", Seed: 1, Amount: 1, Idle: time.Millisecond, State: filepath.Join(dir, "state"), Report: filepath.Join(dir, "report"),
		Governors: []string{"powersave", "performance"}, Log: logr.Discard(),
	}
}

// asks makes a probe query a meter.
func asks(t *testing.T, o *ProbeOptions, server *httptest.Server) {
	t.Helper()
	o.MeterURL, o.MeterName, o.MeterToken = server.URL, "example.com", filepath.Join(t.TempDir(), "token")
	o.MeterAuthorities = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	testfile.Write(t, o.MeterToken, "token")
}

// sysfs creates a machine with one frequency policy, and returns the file of its governor.
func sysfs(t *testing.T, o *ProbeOptions) string {
	t.Helper()
	o.Sysfs = t.TempDir()
	policy := filepath.Join(o.Sysfs, "devices/system/cpu/cpufreq/policy0")
	err := errors.Join(os.MkdirAll(policy, 0o700), os.WriteFile(filepath.Join(policy, "scaling_governor"), []byte("ondemand\n"), 0o600),
		os.WriteFile(filepath.Join(policy, "scaling_available_governors"), []byte("powersave ondemand\n"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(policy, "scaling_governor")
}

func has(t *testing.T, file, want string) {
	t.Helper()
	if got, err := os.ReadFile(file); err != nil || strings.TrimSpace(string(got)) != want {
		t.Errorf("%s has %q (%v), want %q", filepath.Base(file), got, err, want)
	}
}

func TestTheReportOfAProbeIsWhereKubernetesLooksForIt(t *testing.T) {
	o := probeOptions(t)
	file := sysfs(t, &o)
	server := httptest.NewTLSServer(meterapi.Handler(func(from, to time.Time) (energy.Usage, bool) {
		return energy.Usage{Measured: energy.Joules(20 * to.Sub(from).Seconds())}, true
	}))
	defer server.Close()
	asks(t, &o, server)
	if err := Probe(t.Context(), o, nil); err != nil {
		t.Fatal(err)
	}
	text := testfile.Read(t, o.Report)
	r, err := probe.Decode(text)
	if err != nil || !r.Complete || !r.Switched || r.Home != "ondemand" || len(r.Runs) != 2*2*2 || len(r.Idle) != 2 || !r.Runs[0].Measured {
		t.Errorf("%+v (%v)", r, err)
	}
	has(t, file, "ondemand")
}

func TestAProbeThatIsStoppedSaysHowFarItCame(t *testing.T) {
	o := probeOptions(t)
	file := sysfs(t, &o)
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewTLSServer(meterapi.Handler(func(_, _ time.Time) (energy.Usage, bool) {
		if text, _ := os.ReadFile(file); string(text) == "powersave" {
			cancel() // during the other governor
		}
		return energy.Usage{Measured: 1}, true
	}))
	defer server.Close()
	asks(t, &o, server)
	if err := Probe(ctx, o, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("it ends with %v", err)
	}
	text := testfile.Read(t, o.Report)
	if r, err := probe.Decode(text); err != nil || r.Complete || r.Failure == "" || len(r.Runs) < 4 {
		t.Errorf("%+v (%v)", r, err)
	}
	has(t, file, "ondemand")
}

// TestAProbeIsMeasuredThroughAServer: the meter queries a server for its node's power, 20 W, and
// the probe queries the meter.
func TestAProbeIsMeasuredThroughAServer(t *testing.T) {
	s := promserver.Start(t)
	scraped := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seconds, err := strconv.ParseFloat(r.FormValue("time"), 64) // the node is scraped exactly at the time of the query
		if err != nil {
			t.Error(err)
		}
		s.Put(time.UnixMilli(int64(seconds*1e3)), 20, "__name__", "kepler_node_cpu_watts", "node_name", "n1", "zone", "package")
		s.ServeHTTP(w, r)
	}))
	t.Cleanup(scraped.Close)
	client, err := prometheus.New(prometheus.Config{URL: scraped.URL, Timeout: prometheus.DefaultTimeout, MaxBytes: prometheus.DefaultMaxBytes, Lookback: 2 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	preset, err := powerquery.ByName("kepler")
	if err != nil {
		t.Fatal(err)
	}
	m, err := meter.New(meter.Options{
		Node: "n1", Root: "/", Kind: meter.Query, Log: logr.Discard(), Server: &meter.Server{Querier: client, Preset: preset, Every: time.Second, MaxAge: 2 * time.Minute},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	asked := httptest.NewTLSServer(meterapi.Handler(m.Usage))
	t.Cleanup(asked.Close)
	if err := wait.PollUntilContextCancel(t.Context(), 50*time.Millisecond, true, func(context.Context) (bool, error) {
		_, ok := m.Last()
		return ok, nil
	}); err != nil {
		t.Fatal(err)
	}
	o := probeOptions(t)
	o.CPU, o.Report = "1", "-"
	asks(t, &o, asked)
	var out bytes.Buffer
	if err := Probe(ctx, o, &out); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the meter ended with %v", err)
	}
	var r probe.Report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil || len(r.Runs) != 2 || len(r.Idle) != 1 {
		t.Fatalf("%s (%v)", out.String(), err)
	}
	for _, run := range r.Runs {
		if want := 20 * run.Runtime.Seconds(); !run.Measured || math.Abs(float64(run.Machine)-want) > 1e-3*want {
			t.Errorf("%s took %v J in %v, measured: %t; want %v J, measured", run.Task, run.Machine, run.Runtime, run.Measured, want)
		}
	}
	samples, modelled := r.Samples(probe.Power{})
	if len(samples) != 1 || modelled != 0 || math.Abs(float64(samples[0].Energy)) > 1e-3*20*samples[0].Runtime.Seconds() {
		t.Errorf("%+v, %d of them modelled; want one without energy: the machine draws no more than without load", samples, modelled)
	}
}

func TestAReportCanBePrinted(t *testing.T) {
	o := probeOptions(t)
	o.Report = "-"
	var out bytes.Buffer
	if err := Probe(t.Context(), o, &out); err != nil {
		t.Fatal(err)
	}
	var r probe.Report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil || len(r.Runs) != 4 || r.Runs[0].Runtime <= 0 {
		t.Errorf("%s (%v)", out.String(), err)
	}
}

func TestAProbeOfAnotherMachineIsRefused(t *testing.T) {
	o := probeOptions(t)
	o.Machine = "0123456789abcdef"
	if err := Probe(t.Context(), o, nil); err == nil || !strings.Contains(err.Error(), "--machine") {
		t.Errorf("it ends with %v", err)
	}
	o = probeOptions(t)
	o.CPU = ""
	if err := Probe(t.Context(), o, nil); err == nil || !strings.Contains(err.Error(), "--cpu") {
		t.Errorf("it ends with %v", err)
	}
}
