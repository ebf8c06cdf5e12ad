package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"supercargo.dev/supercargo/internal/energy"
	"supercargo.dev/supercargo/internal/energy/meterapi"
	"supercargo.dev/supercargo/internal/probe"
)

func probeOptions(t *testing.T) ProbeOptions {
	t.Helper()
	dir := t.TempDir()
	return ProbeOptions{
		CPU: "1,2", Memory: "1Mi", Seed: 1, Amount: 1, Idle: time.Millisecond, State: filepath.Join(dir, "state"), Report: filepath.Join(dir, "report"),
		Governors: []string{"powersave", "performance"}, Log: logr.Discard(),
	}
}

// sysfs makes a machine with one frequency policy, and returns the file of its governor.
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
	server := httptest.NewServer(meterapi.Handler(func(from, to time.Time) (energy.Usage, bool) {
		return energy.Usage{Measured: energy.Joules(20 * to.Sub(from).Seconds())}, true
	}))
	defer server.Close()
	o.MeterURL = server.URL
	if err := Probe(t.Context(), o, nil); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(o.Report)
	if err != nil {
		t.Fatal(err)
	}
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
	server := httptest.NewServer(meterapi.Handler(func(_, _ time.Time) (energy.Usage, bool) {
		if text, _ := os.ReadFile(file); string(text) == "powersave" {
			cancel() // in the midst of the other governor
		}
		return energy.Usage{Measured: 1}, true
	}))
	defer server.Close()
	o.MeterURL = server.URL
	if err := Probe(ctx, o, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("it ends with %v", err)
	}
	text, err := os.ReadFile(o.Report)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := probe.Decode(text); err != nil || r.Complete || r.Failure == "" || len(r.Runs) < 4 {
		t.Errorf("%+v (%v)", r, err)
	}
	has(t, file, "ondemand")
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
