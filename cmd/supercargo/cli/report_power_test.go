package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// powerServer has the agents' series of five nodes: one that measures, one with a model, one with a
// broken meter, one without samples for an hour, and one above its maximum power.
func powerServer(t *testing.T) string {
	t.Helper()
	sample := func(node, source string, value float64) string {
		return fmt.Sprintf(`{"metric":{"node":%q,"source":%q},"value":[0,"%v"]}`, node, source, value)
	}
	now := float64(time.Now().Unix())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		result := []string{sample("a", "rapl", 120.5), sample("b", "model", 60), sample("c", "hwmon", -1), sample("d", "rapl", 90), sample("e", "rapl", 9000), sample("", "rapl", 1)}
		if strings.Contains(r.FormValue("query"), "timestamp") {
			result = []string{sample("a", "rapl", now-30), sample("b", "model", now), sample("c", "hwmon", now), sample("d", "rapl", now-3600), sample("e", "rapl", now)}
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[%s]}}`, strings.Join(result, ","))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestReportPowerSaysByWhichMeterAndHowOld(t *testing.T) {
	t.Parallel()
	url := powerServer(t)
	code, stdout, stderr := supercargo(t, "", "report", "power", "--prometheus", url, "--rated-watts", "500")
	words := strings.Join(strings.Fields(stdout), " ")
	for _, want := range []string{
		"NODE WATTS SOURCE KIND AGE a 120.5 rapl measured 3", "b 60.0 model modelled ", "2 nodes: 120.5 W measured, 60.0 W modelled",
		"Dropped readings: 1 above-rated, 1 negative, 1 stale", "1 sample has no node",
	} {
		if code != 0 || !strings.Contains(words, want) {
			t.Errorf("exit %d, no %q: %s\n%s", code, want, stderr, stdout)
		}
	}
	code, stdout, stderr = supercargo(t, "", "report", "power", "--prometheus", url, "--max-age", "2h", "-o", "json")
	var p powerNow
	if err := json.Unmarshal([]byte(stdout), &p); code != 0 || err != nil {
		t.Fatalf("exit %d, %v: %s\n%s", code, err, stderr, stdout)
	}
	var nodes []string
	for _, n := range p.Nodes {
		nodes = append(nodes, fmt.Sprint(n.Node, n.Watts, n.Source, n.Kind, n.AgeSeconds >= 3600))
	}
	want := []string{"a120.5raplmeasuredfalse", "b60modelmodelledfalse", "d90raplmeasuredtrue", "e9000raplmeasuredfalse"}
	if diff := cmp.Diff(want, nodes); diff != "" || p.ReadingsDropped["negative"] != 1 || len(p.ReadingsDropped) != 1 {
		t.Errorf("(-want +got):\n%s%+v", diff, p)
	}
}

func TestReportPowerSaysWhatToDoWithoutMeters(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"status":"success","data":{"resultType":"vector","result":[]}}`)
	}))
	t.Cleanup(server.Close)
	code, stdout, stderr := supercargo(t, "", "report", "power", "--prometheus", server.URL)
	if code != 0 || !strings.Contains(stdout, "No power of any node was found") || !strings.Contains(stdout, "--power model") {
		t.Errorf("exit %d, %s\n%s", code, stderr, stdout)
	}
	d := reportEnergy(t, "--prometheus", server.URL, "--power", "model")
	if len(d.Notes) != 1 || !strings.Contains(d.Notes[0], "half a minute apart") {
		t.Errorf("%q, want that nodes are checked every half minute", d.Notes)
	}
}

func TestReportPowerRefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	for flags, says := range map[string]string{
		"":                                "--prometheus",
		"--prometheus=x":                  "--prometheus",
		"--power=wattmeter":               "--power",
		"--power=kepler --power-query=up": "--power and --power-query",
		"--rated-watts=-1":                "--rated-watts",
		"--max-age=0s":                    "--max-age",
		"-o yaml":                         "--output",
	} {
		code, _, stderr := supercargo(t, "", append([]string{"report", "power"}, strings.Fields(flags)...)...)
		if code != 2 || !strings.Contains(stderr, says) {
			t.Errorf("%s: exit %d, %s; want 2 and %q", flags, code, stderr, says)
		}
	}
}

// TestReportPowerAddsUpNothingThatOverlaps: the error for a query that lost a label names the node.
func TestReportPowerAddsUpNothingThatOverlaps(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"node":"a","outlet":"1"},"value":[0,"1"]},{"metric":{"node":"a","outlet":"2"},"value":[0,"2"]}]}}`)
	}))
	t.Cleanup(server.Close)
	code, _, stderr := supercargo(t, "", "report", "power", "--prometheus", server.URL, "--power-query", "pdu_watts")
	if code != 1 || !strings.Contains(stderr, "several samples for node a") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}
