package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"supercargo.dev/supercargo/cmd/internal/command"
	"supercargo.dev/supercargo/test/kit/commandtest"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// anHour is an hour of one node and one pod: 1 kWh measured and 0.5 kWh modelled.
const anHour = `{"format":"supercargo-energy/1","powerFrom":"kepler","slices":[{"from":"2026-01-01T12:00:00Z","to":"2026-01-01T13:00:00Z",
"nodes":[{"node":"n","machineType":"m","zone":"eu-1","cores":4,"measuredJoules":3600000,"modelledJoules":1800000,"coveredSeconds":3600}],
"pods":[{"namespace":"shop","pod":"web-1","workload":"web","node":"n","requestedCores":4,"usedCores":2}]}]}`

const (
	somePrices = "time,zone,dollars_per_kwh\n2026-01-01T00:00:00Z,eu-1,0.1\n2026-01-01T12:30:00Z,eu-1,0.3\n"
	someCarbon = "time,grams_per_kwh\n2026-01-01T00:00:00Z,400\n"
)

// energyDocument has the fields of the report that scripts use.
type energyDocument struct {
	PowerFrom string `json:"powerFrom"`
	Total     struct {
		Measured struct {
			Joules   float64 `json:"joules"`
			Dollars  float64 `json:"dollars"`
			CO2Grams float64 `json:"co2Grams"`
		} `json:"measured"`
		Modelled struct {
			Joules float64 `json:"joules"`
		} `json:"modelled"`
	} `json:"total"`
	ByWorkload []struct {
		Namespace string `json:"namespace"`
		Workload  string `json:"workload"`
		Measured  struct {
			Joules float64 `json:"joules"`
		} `json:"measured"`
	} `json:"byWorkload"`
	ByMachineType []struct {
		MachineType string `json:"machineType"`
	} `json:"byMachineType"`
	Notes []string `json:"notes"`
}

func reportEnergy(t *testing.T, args ...string) energyDocument {
	t.Helper()
	code, stdout, stderr := supercargo(t, "", append([]string{"report", "energy", "-o", "json"}, args...)...)
	if code != command.ExitOK || stderr != "" {
		t.Fatalf("exit code %d and stderr %q, want 0 and nothing", code, stderr)
	}
	var d energyDocument
	testfile.JSON(t, stdout, &d)
	return d
}

func TestReportEnergyOfAFile(t *testing.T) {
	t.Parallel()
	dir := commandtest.Directory(t, map[string]string{"hour.json": anHour, "prices.csv": somePrices, "carbon.csv": someCarbon})
	page := filepath.Join(dir, "energy.html")
	d := reportEnergy(t, "-f", filepath.Join(dir, "hour.json"), "--price-file", filepath.Join(dir, "prices.csv"), "--carbon-file", filepath.Join(dir, "carbon.csv"), "--report", page)
	if m := d.Total.Measured; m.Joules != 3.6e6 || m.Dollars < 0.2-1e-9 || m.Dollars > 0.2+1e-9 || m.CO2Grams != 400 || d.Total.Modelled.Joules != 1.8e6 || d.PowerFrom != "kepler" {
		t.Errorf("%+v", d)
	}
	if len(d.ByWorkload) != 1 || d.ByWorkload[0].Workload != "web" || d.ByWorkload[0].Measured.Joules != 3.6e6 || len(d.ByMachineType) != 1 || len(d.Notes) != 0 {
		t.Errorf("%+v", d)
	}
	text, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(text), "1.5000 kWh, 67 % of it measured, $0.30") {
		t.Errorf("%v: the page is %.300s", err, text)
	}
}

func TestReportEnergyReadsStandardInputAndSaves(t *testing.T) {
	t.Parallel()
	saved := filepath.Join(t.TempDir(), "again.json")
	code, stdout, stderr := supercargo(t, anHour, "report", "energy", "-f", "-", "--price", "0.5", "--save", saved)
	if code != command.ExitOK || stderr != "" || !strings.Contains(stdout, "shop") || !strings.Contains(stdout, "0.5000") {
		t.Errorf("exit code %d, stderr %q and\n%s", code, stderr, stdout)
	}
	if d := reportEnergy(t, "-f", saved); d.Total.Measured.Joules != 3.6e6 {
		t.Errorf("what was saved gives %+v", d)
	}
}

// metricsServer implements the part of Prometheus' API that a report uses. Its one node draws 120 W; a
// pod requests all of it.
func metricsServer(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		series := map[string]string{
			"avg_over_time(((max by (node_name) (sum by (node_name, job, instance) (kepler_node_cpu_watts": `{"metric":{"node_name":"n"},"value":[0,"120"]}`,
			"count_over_time(((max by (node_name) (sum by (node_name, job, instance) (kepler_node":         `{"metric":{"node_name":"n"},"value":[0,"20"]}`,
			"sum_over_time((max by (namespace, pod, node) (supercargo_":                                    `{"metric":{"namespace":"shop","pod":"web-6c5bd9f4b8-x7k2p","node":"n"},"value":[0,"2"]}`,
			"avg_over_time((max by (node) (supercargo_node_capacity":                                       `{"metric":{"node":"n"},"value":[0,"2"]}`,
			"count_over_time((max by (node) (supercargo_node_capacity":                                     `{"metric":{"node":"n"},"value":[0,"20"]}`,
			"avg_over_time((sum by (node) (max by (node, namespace, pod) (rate(pod_cpu_usage_seconds":      `{"metric":{"node":"n"},"value":[0,"2"]}`,
			"kube_node_labels": `{"metric":{"node":"n","label_node_kubernetes_io_instance_type":"m5.large"},"value":[0,"1"]}`,
		}
		result := ""
		for part, samples := range series {
			if strings.Contains(r.FormValue("query"), part) {
				result = samples
			}
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[%s]}}`, result)
	}))
	t.Cleanup(server.Close)
	return server
}

func TestReportEnergyOfAServer(t *testing.T) {
	t.Parallel()
	d := reportEnergy(t, "--prometheus", metricsServer(t).URL, "--power", "kepler", "--from", "2026-01-01T12:00:00Z", "--to", "2026-01-01T12:30:00Z", "--step", "10m")
	if d.Total.Measured.Joules != 120*1800 || d.ByMachineType[0].MachineType != "m5.large" || len(d.ByWorkload) != 1 || d.ByWorkload[0].Workload != "web" {
		t.Errorf("%+v", d)
	}
	if len(d.Notes) != 1 || !strings.Contains(d.Notes[0], "is shared by requests") {
		t.Errorf("it does not say that the CPU time of pods is not known: %q", d.Notes)
	}
}

func TestReportEnergyNeedsNoMeter(t *testing.T) {
	t.Parallel()
	d := reportEnergy(t, "--prometheus", metricsServer(t).URL, "--power", "model", "--from", "2026-01-01T12:00:00Z", "--to", "2026-01-01T12:30:00Z", "--step", "10m")
	// Both of its cores are busy: 20 W by the table.
	if d.Total.Measured.Joules != 0 || d.Total.Modelled.Joules != 20*1800 || d.PowerFrom != "model" {
		t.Errorf("%+v", d)
	}
}

// TestReportEnergyGoesByWhatProfilesState: profiles take precedence over the table, in the output
// format of other commands and of kubectl.
func TestReportEnergyGoesByWhatProfilesState(t *testing.T) {
	t.Parallel()
	code, fit, stderr := supercargo(t, commandtest.MachineCSV(200), "fit", "power", "-f", "-", "--machine-type", "m5.large", "-o", "yaml")
	if code != command.ExitOK {
		t.Fatal(stderr)
	}
	list := "apiVersion: v1\nkind: List\nitems:\n" +
		"- {apiVersion: supercargo.dev/v1alpha1, kind: MachineProfile, metadata: {name: b}, spec: {machineType: m5.large, power: {idleWatts: 1, fullWatts: 5}}}\n" +
		"- {apiVersion: supercargo.dev/v1alpha1, kind: MachineProfile, metadata: {name: a}, spec: {machineType: m5.large, power: {idleWatts: 1, fullWatts: 300}}}\n" +
		"- {apiVersion: supercargo.dev/v1alpha1, kind: MachineProfile, metadata: {name: '0'}, spec: {machineType: m5.large}}\n"
	for name, tc := range map[string]struct {
		profiles string
		watts    float64
	}{
		"what was fitted": {fit, 210},
		"a list, the first by name that states power": {list, 300},
		"other types": {strings.ReplaceAll(list, "m5.large", "m6"), 20},
	} {
		d := reportEnergy(t, "--prometheus", metricsServer(t).URL, "--power", "model", "--machine-profiles", commandtest.File(t, tc.profiles),
			"--from", "2026-01-01T12:00:00Z", "--to", "2026-01-01T12:30:00Z", "--step", "10m")
		if got := d.Total.Modelled.Joules / 1800; got < tc.watts-0.5 || got > tc.watts+0.5 {
			t.Errorf("%s: %v W, want %v", name, got, tc.watts)
		}
	}
}

func TestReportEnergySaysWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	d := reportEnergy(t, "--prometheus", metricsServer(t).URL, "--since", "1h")
	if d.Total.Measured.Joules != 0 || len(d.Notes) == 0 || !strings.Contains(d.Notes[0], "No power of any node") {
		t.Errorf("%+v", d)
	}
}

func TestReportEnergyRefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	dir := commandtest.Directory(t, map[string]string{"hour.json": anHour, "bad.json": strings.Replace(anHour, "3600000", "-1", 1), "bad.csv": "time,zone,dollars_per_kwh\nnow,x,1\n",
		"other.yaml":    "{apiVersion: v1, kind: Pod, metadata: {name: p}}",
		"typeless.yaml": "{apiVersion: supercargo.dev/v1alpha1, kind: MachineProfile, metadata: {name: p}, spec: {}}",
		"falls.yaml":    "{apiVersion: supercargo.dev/v1alpha1, kind: MachineProfile, metadata: {name: p}, spec: {machineType: x, power: {idleWatts: 9, fullWatts: 5}}}",
	})
	file := filepath.Join(dir, "hour.json")
	for _, tc := range []struct {
		name string
		args []string
		want []string
	}{
		{"nothing to read", nil, []string{"--prometheus", "-f"}},
		{"both", []string{"-f", file, "--prometheus", "http://x"}, []string{"--prometheus", "-f"}},
		{"a file and whose meters", []string{"-f", file, "--power", "kepler"}, []string{"-f", "--power"}},
		{"no URL", []string{"--prometheus", "x"}, []string{"--prometheus"}},
		{"meters that nobody knows", []string{"--prometheus", "http://x", "--power", "sundial"}, []string{"--power", "kepler"}},
		{"two kinds of meters", []string{"--prometheus", "http://x", "--power", "kepler", "--power-query", "x"}, []string{"--power-query"}},
		{"two prices", []string{"-f", file, "--price", "1", "--price-file", "x"}, []string{"--price"}},
		{"a price that is none", []string{"-f", file, "--price", "NaN"}, []string{"--price"}},
		{"a tariff with a fault", []string{"-f", file, "--price-file", filepath.Join(dir, "bad.csv")}, []string{"--price-file", "line 2", "time"}},
		{"a tariff that is not there", []string{"-f", file, "--carbon-file", filepath.Join(dir, "none.csv")}, []string{"--carbon-file"}},
		{"a file with a fault", []string{"-f", filepath.Join(dir, "bad.json")}, []string{"slices[0].nodes[0] n", "measuredJoules"}},
		{"a time that is none", []string{"--prometheus", "http://x", "--from", "yesterday"}, []string{"--from", "yesterday"}},
		{"an end before the beginning", []string{"--prometheus", "http://x", "--from", "2026-01-02T00:00:00Z", "--to", "2026-01-01T00:00:00Z"}, []string{"--from"}},
		{"slices that are too short", []string{"--prometheus", "http://x", "--step", "1s"}, []string{"--step", "30s"}},
		{"another output", []string{"-f", file, "-o", "xml"}, []string{"--output"}},
		{"no profiles", []string{"-f", file, "--machine-profiles", filepath.Join(dir, "none.yaml")}, []string{"--machine-profiles", "none.yaml"}},
		{"another kind", []string{"-f", file, "--machine-profiles", filepath.Join(dir, "other.yaml")}, []string{"--machine-profiles", "other.yaml", "document 1", "must contain only objects of kind MachineProfile"}},
		{"a profile without type", []string{"-f", file, "--machine-profiles", filepath.Join(dir, "typeless.yaml")}, []string{"--machine-profiles", "MachineProfile p", "spec.machineType"}},
		{"a profile whose power falls", []string{"-f", file, "--machine-profiles", filepath.Join(dir, "falls.yaml")}, []string{"--machine-profiles", "MachineProfile p", "spec.power"}},
	} {
		code, stdout, stderr := supercargo(t, "", append([]string{"report", "energy"}, tc.args...)...)
		if code != command.ExitUsage || stdout != "" {
			t.Errorf("%s: exit code %d and stdout %q, want 2 and nothing", tc.name, code, stdout)
		}
		for _, want := range tc.want {
			if !strings.Contains(stderr, want) {
				t.Errorf("%s: stderr %q, want it to name %q", tc.name, stderr, want)
			}
		}
	}
}

func TestReportEnergyFailsIfTheServerDoes(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }))
	defer server.Close()
	code, stdout, stderr := supercargo(t, "", "report", "energy", "--prometheus", server.URL)
	if code != command.ExitFailed || stdout != "" || !strings.Contains(stderr, server.URL) {
		t.Errorf("exit code %d, stdout %q and stderr %q; want 1, nothing and the server's URL", code, stdout, stderr)
	}
}
